"""A sample of the cases (``--sample``): which cases it has, and who says so."""

import json
from pathlib import Path

import pytest

import commands
from comparing import data_of
from multiturn import load_suite
from multiturn.engine.converting import sampled
from multiturn.engine.selection import select
from repositories import commit, git

ALL = [f"case-{number}" for number in range(200)]


def write(folder: Path, *ids: str, name: str = "a.eval.jsonl") -> None:
    lines = [
        json.dumps({"id": each, "messages": [{"role": "user", "content": f"Say {each}"}]})
        for each in ids
    ]
    (folder / name).write_text("\n".join(lines) + "\n")


def run(folder: Path, command: str, *options: str, code: int = 0) -> str:
    """Return what a command prints without an error."""
    done = commands.run(*command.split(), *options, folder=folder)
    assert (done.returncode, "rror" in done.stderr) == (code, False), done.stderr
    return done.stdout


def ids(output: str) -> list[str]:
    return [json.loads(line)["id"] for line in output.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    write(tmp_path, *ALL)
    return tmp_path


def chosen(folder: Path, *options: str) -> list[str]:
    return ids(run(folder, "list . --format json", *options))


def test_a_sample_has_as_many_cases_as_asked_for_in_the_order_of_the_suite(folder: Path) -> None:
    found = chosen(folder, "--sample", "10")
    assert len(found) == 10
    assert found == [each for each in ALL if each in found]
    assert found != ALL[:10]


def test_a_larger_sample_has_all_cases_of_a_smaller_one(folder: Path) -> None:
    samples = [set(chosen(folder, "--sample", str(size))) for size in (1, 10, 100, 200, 500)]
    assert [len(sample) for sample in samples] == [1, 10, 100, 200, 200]
    assert samples[0] < samples[1] < samples[2] < samples[3] == samples[4]


def test_each_command_has_the_same_sample(folder: Path) -> None:
    (folder / ".git").rmdir()
    git(folder, "init", "-q")
    commit(folder)
    sample = ["--sample", "7", "--seed", "3"]
    found = chosen(folder, *sample)
    for command in (
        "convert . --format json",
        "convert . --format json --workers 2",
        "explain . --format json",
        "report . --format json",
        "report . --format json --against HEAD",
        "run .",
        "run . --dry-run",
        "run . --strict",
    ):
        assert ids(run(folder, command, *sample)) == found, command
    assert ids(run(folder, "diff . --to design --format json", *sample)) == found
    assert "7 cases, without errors" in run(folder, "check .", *sample)
    assert "7 snapshots: 7 new" in run(folder, "snapshot .", *sample)
    snapshots = folder.glob("snapshots/*/*.yaml")
    assert sorted(path.stem for path in snapshots) == sorted(found)
    assert "7 snapshots: 7 same" in run(folder, "snapshot . --check", *sample)


def test_another_seed_chooses_other_cases(folder: Path) -> None:
    first, second = (set(chosen(folder, "--sample", "20", "--seed", seed)) for seed in "12")
    assert first == set(chosen(folder, "--sample", "20"))
    assert len(first & second) < 10


def test_a_case_that_is_added_changes_nothing_or_replaces_one_case(folder: Path) -> None:
    before, replaced = set(chosen(folder, "--sample", "10")), 0
    for number in range(40):
        write(folder, f"new-{number}", *ALL)
        after = set(chosen(folder, "--sample", "10"))
        assert after == before or (after - before, len(before - after)) == ({f"new-{number}"}, 1)
        replaced += after != before
    assert 0 < replaced < 20


def test_a_sample_does_not_depend_on_the_order_or_the_other_suites(folder: Path) -> None:
    before = chosen(folder, "--sample", "20")
    write(folder, *reversed(ALL))
    assert sorted(chosen(folder, "--sample", "20")) == sorted(before)
    write(folder, *ALL, name="b.eval.jsonl")
    both = run(folder, "list . --format json --sample 20")
    kept = [line["id"] for line in map(json.loads, both.splitlines()) if line["suite"][0] == "a"]
    assert set(kept) < set(before)
    assert len(both.splitlines()) == 20


def test_a_sample_is_drawn_from_the_cases_that_case_selects(folder: Path) -> None:
    found = chosen(folder, "--case", "case-1*", "--sample", "5")
    assert len(found) == 5
    assert all(each.startswith("case-1") for each in found)
    lines = run(folder, "run .", "--case", "case-1?", "--sample", "2").splitlines()
    assert {json.loads(line)["sample"] for line in lines} == {"2 of 10, seed 1"}


def test_each_result_says_of_what_it_is_a_sample(folder: Path) -> None:
    write(folder, *(str(number) for number in range(2000)))
    lines = run(folder, "run . --sample 10 --seed 4").splitlines()
    assert [json.loads(line)["sample"] for line in lines] == ["10 of 2,000, seed 4"] * 10
    assert "sample" not in json.loads(run(folder, "run . --case 7"))


def test_a_broken_case_is_one_of_the_cases(folder: Path) -> None:
    lines = "".join(f"- {{id: x{n}, input_messages: {n}}}\n" for n in range(20))
    (folder / "a.eval.jsonl").unlink()
    (folder / "b.eval.yaml").write_text(f"evalcases:\n{lines}- [no case]\n")
    done = commands.run("run", ".", "--sample", "3", folder=folder)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["sample"] for each in found] == ["3 of 20, seed 1"] * 3
    assert done.stderr.count("b.eval.yaml") == 3


def test_reports_say_that_they_are_of_a_sample(folder: Path) -> None:
    words = "a sample of the cases: 10 of 200, seed 1"
    assert f"\n\nThis is {words}.\n" in run(folder, "report . --sample 10 --format markdown")
    assert words in data_of(run(folder, "report . --sample 10"))
    assert "sample of" not in run(folder, "report . --format markdown")


def test_a_report_compares_the_sample_of_now_with_the_same_cases_then(folder: Path) -> None:
    (folder / ".git").rmdir()
    git(folder, "init", "-q")
    commit(folder)
    before = set(chosen(folder, "--sample", "10"))
    write(folder, *ALL[:50], *(f"new-{number}" for number in range(100)), *ALL[50:])
    lines = run(folder, "report . --sample 10 --against HEAD --format json").splitlines()
    found = {each["id"]: each["status"] for each in map(json.loads, lines)}
    after = chosen(folder, "--sample", "10")
    assert before != set(after)
    assert found == {id_: "same" if id_ in before else "added" for id_ in after}


def test_drawing_a_sample_warns_of_nothing_twice(folder: Path) -> None:
    message = "{role: user, content: Hi}"
    (folder / "b.eval.yaml").write_text(
        f"evalcases: [{{id: one, colour: red, input_messages: [{message}]}}]\n"
    )
    done = commands.run("convert", "b.eval.yaml", "--sample", "3", folder=folder)
    assert (len(done.stdout.splitlines()), done.stderr.count("colour")) == (1, 1)


def test_memory_holds_only_the_ranks_of_the_sample(tmp_path: Path) -> None:
    import tracemalloc

    write(tmp_path, *map(str, range(4_000)))
    selection = select([str(tmp_path / "a.eval.jsonl")])
    tracemalloc.start()
    try:
        assert str(sampled(selection, 10).sample) == "10 of 4,000, seed 1"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


def test_python_has_samples_too(folder: Path) -> None:
    suite = folder / "a.eval.jsonl"
    cases = list(load_suite(suite, sample=10, seed=3))
    assert [case.id for case in cases] == chosen(folder, "--sample", "10", "--seed", "3")
    with pytest.raises(ValueError, match="1 or more"):
        load_suite(suite, sample=0)


def test_what_can_be_read_only_once_has_no_sample(folder: Path) -> None:
    done = commands.run("convert", "-", "--sample", "3", folder=folder, given="evalcases: []\n")
    what = "--sample reads suites twice, and '-' can be read only once; write it to a file"
    assert (done.returncode, what in done.stderr) == (2, True)
    done = commands.run("convert", ".", "--seed", "3", folder=folder)
    assert (done.returncode, "--seed is for --sample; add --sample N" in done.stderr) == (2, True)
