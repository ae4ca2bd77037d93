"""multiturn.testing: what a user's own project gets of it, in a pytest of its own."""

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from syrupy.data import Snapshot, SnapshotCollection

from commands import run
from comparing import write
from media_files import image, padded
from multiturn import MultiturnError
from multiturn.snapshots.folder import SnapshotFolder
from multiturn.snapshots.lists import FILES, lock_text, read_lock
from multiturn.testing import PromptSnapshot, cases, suites

TEST = """\
import pytest
from multiturn.testing import PromptSnapshot, cases, convert

@pytest.mark.parametrize("case", cases("evals/**/*.eval.yaml"))
def test_prompt(case, snapshot):
    assert convert(case) == snapshot.use_extension(PromptSnapshot)
"""
SUITE = """\
guideline_patterns: ["**/*.md"]
evalcases:
  - id: one
    input_messages:
      - {role: user, content: [{type: file, value: tone.md}, "Where is it?"]}
  - id: Two / é
    input_messages:
      - {role: user, content: Hello}
"""
PROJECT = {
    "pytest.ini": "[pytest]\n",
    "tests/test_prompts.py": TEST,
    "evals/shop.eval.yaml": SUITE,
    "evals/tone.md": "Be brief.\r\n",
    "evals/deep/b.eval.yaml": "input_messages: [{role: user, content: Hi}]\n",
}
Pytest = Callable[..., tuple[int, str]]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "CI"))]:
        monkeypatch.delenv(name)  # neither our own pytest nor CI is the user's affair
    monkeypatch.setenv("COLUMNS", "200")
    (pytester.path / ".git").mkdir()
    write(pytester.path, PROJECT)
    return pytester.path


@pytest.fixture
def recorded(project: Path) -> Path:
    """The project, with its snapshots as the command writes them."""
    run("snapshot", "evals", folder=project)
    return project


@pytest.fixture
def call_pytest(pytester: pytest.Pytester) -> Pytest:
    """Return a function that runs pytest in this process, as if it were a new one."""

    def call(*arguments: str) -> tuple[int, str]:
        suites._wanted.clear()
        suites._texts.clear()
        suites._shown.clear()
        # With a place of its own for temporary folders, else it clears up those of earlier tests.
        own = ("-p", "no:cacheprovider", f"--basetemp={pytester.path}-temporary", "-v")
        done = pytester.runpytest_inprocess(*own, *arguments)
        return int(done.ret), str(done.stdout) + str(done.stderr)

    return call


def change(project: Path, name: str, old: str, new: str) -> None:
    """Write a file of the project with one text in place of another."""
    assert old in PROJECT[name]
    write(project, {name: PROJECT[name].replace(old, new)})


def snapshots(project: Path) -> dict[str, bytes]:
    folder = project / "snapshots"
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.yaml")
    }


def test_five_lines_are_a_test_with_an_id_for_each_case(
    recorded: Path, pytester: pytest.Pytester
) -> None:
    """Also with ``multiturn.testing`` as a plugin, which the test file has already imported."""
    plugin = '\n\npytest_plugins = ["multiturn.testing"]\n'
    change(recorded, "tests/test_prompts.py", "\n\n", plugin)
    done = pytester.runpytest_subprocess("-W", "error", "-v")
    out = str(done.stdout)
    assert (done.ret, "3 snapshots passed." in out) == (0, True)
    assert re.findall(r"test_prompt\[(.*)\] PASSED", out) == [
        *("evals/deep/b.eval.yaml b", "evals/shop.eval.yaml one"),
        r"evals/shop.eval.yaml Two / \xe9",
    ]


@pytest.mark.parametrize("inline", ["false", "true"])
def test_pytest_and_the_command_write_the_same_files(
    project: Path, call_pytest: Pytest, inline: str
) -> None:
    write(project, {"multiturn.toml": f"inline_snapshots = {inline}\n"})
    code, out = call_pytest("--snapshot-update")
    assert (code, "3 snapshots generated" in out) == (0, True)
    by_pytest = snapshots(project)
    assert (b"Be brief." in by_pytest["evals/shop/one.yaml"]) == (inline == "true")
    shutil.rmtree(project / "snapshots")
    run("snapshot", "evals", folder=project)
    assert snapshots(project) == by_pytest
    assert call_pytest()[0] == 0


def test_an_image_is_compared_by_its_bytes_as_the_command_does(
    project: Path, call_pytest: Pytest
) -> None:
    shown = "evalcases: [{id: i, input_messages: [{role: user, content: %s}]}]\n"
    attached = "[Look, {type: file, value: a.png}]"
    first, second = (padded(image(seed=seed), 400) for seed in (1, 2))
    write(project, {"evals/i.eval.yaml": shown % attached, "evals/a.png": first})
    assert call_pytest("--snapshot-update")[0] == 0
    by_pytest = snapshots(project), (project / "snapshots" / FILES).read_bytes()
    shutil.rmtree(project / "snapshots")
    run("snapshot", "evals", folder=project)
    assert (snapshots(project), (project / "snapshots" / FILES).read_bytes()) == by_pytest
    assert call_pytest()[0] == 0
    write(project, {"evals/a.png": second})
    code, out = call_pytest()
    assert (code, "1 snapshot failed" in out) == (1, True)
    assert hashlib.sha256(second).hexdigest() in out


def test_pytest_records_what_a_target_is_sent_as_the_command_does(
    project: Path, call_pytest: Pytest
) -> None:
    target = '{name: gpt, provider: openai, api_key: "${{ NONE }}", model: m, temperature: 1}'
    write(
        project,
        {
            "multiturn.toml": 'snapshot_target = "gpt"\n',
            "targets.yaml": f"targets:\n  - {target}\n",
        },
    )
    assert call_pytest("--snapshot-update")[0] == 0
    by_pytest, lock = snapshots(project), (project / "snapshots/target.lock").read_text()
    assert "  model: m\n  temperature: 1" in lock
    shutil.rmtree(project / "snapshots")
    run("snapshot", "evals", folder=project)
    assert (project / "snapshots/target.lock").read_text() == lock
    assert snapshots(project) == by_pytest
    assert call_pytest()[0] == 0
    write(project, {"targets.yaml": f"targets:\n  - {target.replace('1}', '0.5}')}\n"})
    code, out = call_pytest()
    assert (code, "3 snapshots failed" in out) == (1, True)
    assert re.search(r"E +- +temperature: 1.0\nE +\+ +temperature: 0.5", out)
    assert call_pytest("--snapshot-update")[0] == 0
    assert call_pytest()[0] == 0
    assert run("snapshot", "evals", "--check", folder=project).returncode == 0
    other = target.replace("openai", "anthropic").replace("gpt", "claude")
    write(project, {"targets.yaml": f"targets:\n  - {other}\n"})
    write(project, {"multiturn.toml": 'snapshot_target = "claude"\n'})
    code, out = call_pytest()
    assert (code, "A11: " in out) == (1, True)


def test_line_ends_and_the_current_folder_make_no_difference(
    recorded: Path, call_pytest: Pytest
) -> None:
    for path in (recorded / "snapshots").rglob("*.yaml"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    arguments = "(case, snapshot, tmp_path, monkeypatch):\n    monkeypatch.chdir(tmp_path)"
    change(recorded, "tests/test_prompts.py", "(case, snapshot):", arguments)
    assert call_pytest()[0] == 0


def test_a_change_fails_with_a_diff(recorded: Path, call_pytest: Pytest) -> None:
    before = snapshots(recorded)
    change(recorded, "evals/shop.eval.yaml", "Hello", "Good day")
    code, out = call_pytest()
    assert code == 1
    assert re.search(r"E +- +content: Hello\nE +- question: Hello\n", out)
    assert re.search(r"E +\+ +content: Good day\nE +\+ question: Good day\n", out)
    assert "1 snapshot failed. 2 snapshots passed." in out
    assert snapshots(recorded) == before
    call_pytest("--snapshot-update")
    assert run("snapshot", "evals", "--check", folder=recorded).returncode == 0


def test_a_file_with_another_text_fails_and_changes_the_list_alone(
    project: Path, call_pytest: Pytest
) -> None:
    attached = "content: [{type: file, value: tone.md}, Hello]"
    change(project, "evals/shop.eval.yaml", "content: Hello", attached)
    assert call_pytest("--snapshot-update")[0] == 0
    before, files = snapshots(project), project / "snapshots/files.lock"
    digest, other = (hashlib.sha256(text).hexdigest() for text in (b"Be brief.", b"Be careful."))
    assert f'\nevals/tone.md:\n  - "{digest}"\n' in files.read_text()
    write(project, {"evals/tone.md": "Be careful."})
    code, out = call_pytest()
    assert code == 1
    assert "1 failed, 1 passed, 1 skipped" in out
    assert out.count(f'+   - "{other}"') == 1
    code, out = call_pytest("-rs")
    said = "the same difference as that of suite: evals/shop.eval.yaml, id: one"
    assert re.search(rf"SKIPPED \[1\] .*: {said}", out)
    code, out = call_pytest("-k", "Two")  # alone, it fails
    assert (code, out.count(f'+   - "{other}"')) == (1, 1)
    assert call_pytest("--snapshot-update")[0] == 0
    assert snapshots(project) == before
    assert files.read_text().count(other) == 1
    assert call_pytest()[0] == 0


def test_several_processes_lose_no_digest_of_each_other(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = SnapshotFolder(str(project / "snapshots"))

    def write(number: int) -> None:
        location = f"{number}.yaml"
        monkeypatch.setitem(suites._places, location, (folder, location))
        collection = SnapshotCollection(location)
        data = f"---\n{lock_text(FILES, {f'{number:02}.md': ('0' * 64,)})}"
        collection.add(Snapshot(location, data))
        PromptSnapshot.write_snapshot_collection(snapshot_collection=collection)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(20)))
    recorded = read_lock(FILES, folder.read(FILES), FILES)
    assert list(recorded) == [f"{number:02}.md" for number in range(20)]


def test_a_case_that_is_gone_is_reported_and_removed(recorded: Path, call_pytest: Pytest) -> None:
    write(recorded, {"snapshots/evals/shop/notes.yaml": "mine: yes\n"})
    change(recorded, "evals/shop.eval.yaml", "id: one", "id: first")
    code, out = call_pytest("-k", "deep")
    assert (code, "unused" in out) == (0, False)
    code, out = call_pytest()
    assert (code, "1 snapshot unused." in out) == (1, True)
    code, out = call_pytest("--snapshot-update")
    assert (code, "1 unused snapshot deleted." in out) == (0, True)
    assert "evals/shop/one.yaml" not in snapshots(recorded)
    assert "evals/shop/notes.yaml" in snapshots(recorded)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param("tone.md", "none.md", "content[0]: no file 'none.md'", id="a file"),
        pytest.param("id: one", "other: one", "the case has no id; add one", id="an id"),
        pytest.param("evalcases", "evalcase", 'unknown key "evalcase"', id="a suite"),
    ],
)
def test_what_is_broken_fails_alone_and_keeps_its_snapshot(
    recorded: Path, call_pytest: Pytest, old: str, new: str, said: str
) -> None:
    before = snapshots(recorded)
    change(recorded, "evals/shop.eval.yaml", old, new)
    code, out = call_pytest("--snapshot-update")
    assert code == 1
    assert said in out
    assert "Traceback" not in out
    assert "test_prompt[evals/deep/b.eval.yaml b] PASSED" in out
    assert out.count(" FAILED") == 1
    assert snapshots(recorded) == before


def test_a_pipeline_and_a_folder_of_ones_own(project: Path, call_pytest: Pytest) -> None:
    derived = "class Mine(PromptSnapshot):\n    snapshot_dirname = 'kept/here'\n"
    test = TEST.replace("convert(case)", "convert(case, 'shipped')")
    test = test.replace("use_extension(PromptSnapshot)", "use_extension(Mine)")
    write(project, {"tests/test_prompts.py": test.replace("\n\n", f"\n\n{derived}\n", 1)})
    assert call_pytest("--snapshot-update")[0] == 0
    options = ["--dir", "kept/here", "--pipeline", "shipped"]
    done = run("snapshot", "evals", *options, folder=project)
    assert done.stdout == ("3 snapshots: 3 same; promoted.lock changed\n")


def test_a_test_is_told_what_a_prompt_snapshot_needs(project: Path, call_pytest: Pytest) -> None:
    head, _, test = TEST.partition("\n\n")
    several = '@pytest.mark.parametrize("other", cases("evals/deep/*"))\n' + test
    wrong = [
        test.replace("test_prompt", "test_other").replace(
            "convert(case)", "convert(case, 'shipped')"
        ),
        several.replace("test_prompt(case, ", "test_two_cases(case, other, "),
        "def test_of_no_case(snapshot):\n    assert 1 == snapshot.use_extension(PromptSnapshot)\n",
    ]
    write(project, {"tests/test_prompts.py": "\n\n".join([head, test, *wrong])})
    code, out = call_pytest("--snapshot-update")
    assert code == 1
    for words in (
        "two prompts would share the snapshot of the case 'b'",
        "give one of them a snapshot_dirname of its own",
        "a PromptSnapshot needs a test of one case; this one has several",
        "a PromptSnapshot needs a test that is parametrized with cases()",
    ):
        assert words in out


def test_a_root_is_where_globs_and_names_begin(project: Path) -> None:
    params = cases("*.eval.yaml", "**/b.eval.yaml", "shop.*", root=project / "evals")
    assert [param.id for param in params] == [
        *("shop.eval.yaml one", "shop.eval.yaml Two / é", "deep/b.eval.yaml b")
    ]


def test_a_glob_that_matches_no_suite_is_told_what_would_be_right(project: Path) -> None:
    with pytest.raises(MultiturnError, match=f"no suite matches .* in {project}/evals; name"):
        cases("*.eval.yaml", "*.none", root=project / "evals")
    with pytest.raises(MultiturnError, match=r"or its files, as \*\*/\*\.eval\.yaml$"):
        cases("evals/", root=project)
    with pytest.raises(TypeError, match=r'write cases\("evals/\*\*/\*\.eval\.yaml"'):
        cases()


def test_snapshots_are_where_the_project_has_them(project: Path, call_pytest: Pytest) -> None:
    write(project, {"multiturn.toml": 'snapshots = "kept"\nsuites = ["evals"]\n'})
    test = project / "tests/test_prompts.py"
    test.write_text(re.sub(r"cases\(.*\)\)", "cases())", test.read_text()))
    assert "cases())" in test.read_text()
    assert call_pytest("--snapshot-update")[0] == 0
    written = {path.name for path in (project / "kept").rglob("*.yaml")}
    assert len(written) == 3
    assert not (project / "snapshots").exists()
    assert "3 snapshots: 3 same" in run("snapshot", "--check", folder=project).stdout
