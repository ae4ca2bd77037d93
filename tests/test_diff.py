"""A diff that anybody may cause is correct, and soon there."""

import difflib
import time
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiturn.snapshots import text_diff
from multiturn.snapshots.text_diff import shared_ends

LINES = st.lists(st.sampled_from("abcd"), max_size=30)


def unified_diff(old: list[str], new: list[str], old_name: str, new_name: str) -> Iterator[str]:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    return text_diff.unified_diff(before, after, old_name, new_name)


def applied(old: list[str], diff_lines: list[str]) -> list[str]:
    """Apply a unified diff, and find each line where its heading says."""
    new: list[str] = []
    at = 0
    for line in diff_lines[2:]:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            first = int(start) - (count != "0")
            new += old[at:first]
            at = first
            position = line.split()[2][1:].partition(",")
            assert int(position[0]) - (position[2] != "0") == len(new)
            continue
        if line[0] in " -":
            assert old[at] == line[1:]
            at += 1
        if line[0] in " +":
            new.append(line[1:])
    return new + old[at:]


@given(LINES, LINES, st.integers(0, 20), st.integers(0, 20))
def test_a_diff_leads_from_one_text_to_the_other(
    old: list[str], new: list[str], head: int, tail: int
) -> None:
    ends = ["x"] * head, ["y"] * tail
    old, new = [*ends[0], *old, *ends[1]], [*ends[0], *new, *ends[1]]
    assert applied(old, list(unified_diff(old, new, "a", "b"))) == new


def test_a_short_diff_is_that_of_difflib() -> None:
    old, new = [*"abcdefghij"], [*"abcdXfghij"]
    assert list(unified_diff(old, new, "a", "b")) == [
        *("--- a", "+++ b", "@@ -2,7 +2,7 @@"),
        *(" b", " c", " d", "-e", "+X", " f", " g", " h"),
    ]
    assert list(unified_diff(old, old, "a", "b")) == []
    expected = list(difflib.unified_diff(old, new, "a", "b", lineterm=""))
    assert list(unified_diff(old, new, "a", "b")) == expected


def test_many_lines_that_are_alike_take_no_time() -> None:
    words = Random(1).choices([f"line {number}" for number in range(120)], k=60_000)
    once = [*words[:30_000], "new", *words[30_001:]]
    others = Random(2).choices(words, k=60_000)
    start = time.process_time()
    assert len(list(unified_diff(words, once, "a", "b"))) == 11
    assert applied(words, list(unified_diff(words, others, "a", "b"))) == others
    assert time.process_time() - start < 5


def test_up_to_a_number_of_pairs_lines_are_compared_and_beyond_all_are_different(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_diff, "_MOST", 4)
    assert list(unified_diff(["a", "b"], ["b", "c"], "", ""))[3:] == ["-a", " b", "+c"]
    monkeypatch.setattr(text_diff, "_MOST", 3)
    assert list(unified_diff(["a", "b"], ["b", "c"], "", ""))[3:] == ["-a", "-b", "+b", "+c"]


def test_ends_do_not_overlap() -> None:
    assert shared_ends("aa", "aaa") == (2, 0)
    assert shared_ends("", "a") == (0, 0)
