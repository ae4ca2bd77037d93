"""Renamed cases: those with another id, or in another suite, and a similar text."""

import re
import sys
from collections.abc import Mapping, Set
from typing import TypeVar

from multiturn.snapshots.locations import Key
from multiturn.snapshots.snapshot_file import HEAD_ENDS

_K = TypeVar("_K", bound=tuple[str, ...])  # a suite, or a suite and an id

_ALIKE = 0.5  # share of common words; git requires half of the lines
_MOST = 20  # candidates per text
_WORD = re.compile(r"\w+")
# These words are in every snapshot, whatever the case says.
_FORM = frozenset(
    _WORD.findall(
        "chat_prompt role content question input_files path resolved_path guideline guidelines"
        " sha256 system user assistant tool System User Assistant Tool Guidelines Attached"
        " true false"
    )
)


def renames(removed: Mapping[Key, str], added: Mapping[Key, str]) -> dict[Key, Key]:
    r"""Match cases that were removed with cases that were added, as git finds renamed files.

    Suites are matched first; in a renamed suite a case keeps its id. Then come cases with at least
    half of their words in common: the most similar first, then those of the same suite, then the
    nearest. Both sides have the text of each case's snapshot; what is returned, the old suite and
    id by the new ones.

    >>> old = {("a.yaml", "case-4"): "\nchat_prompt: Where is my order?"}
    >>> renames(old, {("a.yaml", "refund"): "\nchat_prompt: Where is my refund?"})
    {('a.yaml', 'refund'): ('a.yaml', 'case-4')}
    """
    before, new = _below_head(removed), _below_head(added)
    # The new name of each suite whose cases have moved to another one.
    moved = _similar(_words_of_suites(before, new), _words_of_suites(new, before))
    suites = {was: suite for (suite,), (was,) in moved.items()}
    names = {(suites.get(suite, suite), case_id): (suite, case_id) for suite, case_id in before}
    old = {key: before[name] for key, name in names.items()}
    found = {key: key for key in new if key in old}
    rest = (
        {key: _words(text) for key, text in side.items() if key not in found} for side in (old, new)
    )
    found |= _similar(*rest)
    return {key: names[was] for key, was in found.items()}


def _below_head(side: Mapping[Key, str]) -> dict[Key, str]:
    return {key: text.partition(HEAD_ENDS)[2] or text for key, text in side.items()}


def _words(text: str) -> frozenset[str]:
    """Return the words of a text, interned to save memory."""
    return frozenset(map(sys.intern, _WORD.findall(text))) - _FORM


def _words_of_suites(
    side: Mapping[Key, str], other: Mapping[Key, str]
) -> dict[tuple[str], set[str]]:
    """Return the words of each suite that only one side has."""
    suites: dict[tuple[str], set[str]] = {}
    both = {suite for suite, _ in other}
    for (suite, _), text in side.items():
        if suite not in both:
            suites.setdefault((suite,), set()).update(_words(text))
    return suites


def _similar(old: Mapping[_K, Set[str]], new: Mapping[_K, Set[str]]) -> dict[_K, _K]:
    """Return pairs of sets that have enough in common, the most similar ones first.

    Each set is compared with a few that share its rarest words, so the time is proportional to the
    size of the sets.
    """
    holders: dict[str, list[_K]] = {}
    places = {key: at for at, key in enumerate(old)}
    for key, words in old.items():
        for word in words:
            holders.setdefault(word, []).append(key)
    pairs = []
    for at, (key, words) in enumerate(new.items()):
        candidates: dict[_K, None] = {}
        for word in sorted(words & holders.keys(), key=lambda word: (len(holders[word]), word)):
            those = holders[word]  # in the order of the suites: those nearest to this case
            start = max(0, min(at - _MOST // 2, len(those) - _MOST))
            candidates.update(dict.fromkeys(those[start : start + _MOST]))
            if len(candidates) >= _MOST:
                break
        for was in candidates:
            alike = len(words & old[was]) / max(len(words), len(old[was]))
            if alike >= _ALIKE:
                is_elsewhere = was[0] != key[0]
                pairs.append((-alike, is_elsewhere, abs(places[was] - at), at, key, was))
    found: dict[_K, _K] = {}
    taken = set()
    for *_, key, was in sorted(pairs, key=lambda pair: pair[:4]):
        if key not in found and was not in taken:
            found[key] = was
            taken.add(was)
    return found
