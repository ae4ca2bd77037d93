"""What reports compare: revisions, causes, words, and the summary as Markdown."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import chdir
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from comparing import data_of, report_of, run, summary, title, write
from multiturn import Case, Conversion, TestMessage, load_pipeline
from multiturn.engine.git import commit_of
from multiturn.review.report import markdown
from multiturn.review.report.payloads import payloads_of, sample_providers
from multiturn.review.report.side import review
from repositories import FILES, STAGE, SUITE, TONE, commit, git, replace

ROOT = Path(__file__).parent.parent


def edited(*edits: tuple[str, str, str], files: dict[str, str] = FILES) -> dict[str, str]:
    """Return files with other texts in some of them."""
    found = dict(files)
    for name, old, new in edits:
        assert old in found[name]
        found[name] = found[name].replace(old, new)
    return found


def markdown_of(folder: Path, *states: dict[str, str], pipeline: str = "spec") -> str:
    return markdown.to_markdown(report_of(folder, *states, pipeline=pipeline)).decode()


def title_of(folder: Path, *states: dict[str, str]) -> str:
    return markdown_of(folder, *states).partition("\n")[0]


def headings_of(text: str) -> list[str]:
    return re.findall("^### (.*)", text, re.MULTILINE)


# Revisions


def test_a_commit_has_many_names(repository: Path) -> None:
    git(repository, "tag", "-a", "v1", "-m", "one")
    commits = git(repository, "rev-parse", "HEAD", "--short=10", "HEAD").split()
    with chdir(repository):
        assert {commit_of(name) for name in ("HEAD", "main", "v1", commits[1])} == {commits[0]}
    commit(repository)
    for name, shown in (("HEAD~1", f"HEAD&#126;1 ({commits[1]})"), (commits[1], commits[1])):
        done = run(repository, "evals", "--format", "markdown", "--against", name)
        assert f"compared with <code>{shown}</code>" in done.stdout


REFUSED = {
    "evals --against=nope": "--against: there is no commit 'nope' here",
    "evals --against=--output=stolen": "--against: there is no commit '--output=stolen' here",
    "evals --against=HEAD:evals": "--against: there is no commit 'HEAD:evals' here",
    "evals --against=": "--against: there is no commit '' here",
    "- --against=HEAD": "--against compares files, and - is not a file",
    "../other.eval.yaml --against=HEAD": "'../other.eval.yaml' is outside the repository",
}


@pytest.mark.parametrize(("arguments", "error"), REFUSED.items(), ids=REFUSED)
def test_what_cannot_be_compared_is_said(repository: Path, arguments: str, error: str) -> None:
    write(repository, {"../other.eval.yaml": SUITE})
    done = run(repository, *arguments.split(" "), given=SUITE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {error}")
    assert len(done.stderr.splitlines()) == 1
    assert not (repository / "stolen").exists()


def test_without_git_or_a_repository_it_is_said(repository: Path, tmp_path: Path) -> None:
    done = run(repository, "evals", "--against=HEAD", env={**os.environ, "PATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (2, "Error: --against needs git, and there is none\n")
    done = run(tmp_path, "repository/evals", "--against=HEAD")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: --against: not a git repository")
    assert done.stderr.endswith("; run it inside the repository\n")


def state_of(folder: Path) -> list[Any]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    kept = [path for path in files if ".git" not in path.parts or path.name == "index"]
    return [
        [(str(path), path.read_bytes(), path.stat().st_mtime_ns) for path in kept],
        git(folder, "for-each-ref"),
        git(folder, "stash", "list"),
    ]


def test_the_work_tree_and_the_index_stay_as_they_are(repository: Path, tmp_path: Path) -> None:
    replace(repository, TONE, "Two.", "Two!")
    git(repository, "add", TONE)
    replace(repository, TONE, "Three.", "Three!")
    write(
        repository, {"evals/new.eval.yaml": SUITE, ".git/hooks/post-checkout": "#!/bin/sh\nfalse"}
    )
    (repository / ".git/hooks/post-checkout").chmod(0o755)
    before = state_of(repository)
    assert title(repository) == (
        f"## 2 cases changed, 3 added; 1 cause: <code>{TONE} lines 2\u20133</code>"
    )
    assert state_of(repository) == before
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "arguments"),
    [("evals", ["."]), ("house", ["{repository}/evals", "--root", ".."])],
    ids=["inside", "beside, with a root"],
)
def test_it_does_not_matter_from_where_and_how_suites_are_named(
    repository: Path, folder: str, arguments: list[str]
) -> None:
    replace(repository, TONE, "Two.", "Two!")
    given = [argument.format(repository=repository) for argument in arguments]
    done = run(repository / folder, *given, "--format=markdown", "--against=HEAD")
    assert done.stdout.startswith(f"## 2 cases changed; 1 cause: <code>{TONE} line 2</code>\n")
    assert "<code>evals/shop.eval.yaml&#58;4</code>" in done.stdout
    assert str(repository) not in done.stdout


def test_a_linked_work_tree_is_compared_with_the_repository(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "../linked")
    linked = repository.parent / "linked"
    replace(linked, TONE, "Two.", "Two!")
    assert title(linked) == f"## 2 cases changed; 1 cause: <code>{TONE} line 2</code>"
    assert title(repository) == "## 0 cases changed"


def test_each_side_has_its_own_pipeline_and_stages(repository: Path) -> None:
    pipeline = "--pipeline=house/pipeline.yaml"
    assert title(repository, pipeline) == "## 0 cases changed"
    replace(repository, "house/house.py", "Ada", "Barbara")
    text, code = summary(repository, pipeline), "<code>house/house.py line 5</code>"
    assert text.startswith(f"## 3 cases changed; 1 cause: {code}\n")
    assert f"> [!WARNING]\n> - The pipeline has changed: {code}\n\n" in text


HEADER = "extends: spec\nconfigure: {embed_files: {header: '{path}'}}\n"
HOUSE = 'pipeline = "house/pipeline.yaml"\n'


@pytest.mark.parametrize(
    ("then", "now", "named", "change"),
    [
        pytest.param("", 'pipeline = "new.yaml"', "", "new.yaml in place of spec", id="switched"),
        pytest.param(HOUSE, "", "", "spec in place of house/pipeline.yaml", id="no defaults now"),
        pytest.param(HOUSE, HOUSE, "", "", id="the same"),
        pytest.param(HOUSE, "", "./house/pipeline.yaml", "", id="named"),
        pytest.param("", "", "new.yaml", "new.yaml in place of spec", id="new"),
        pytest.param("", "", "../new.yaml", "", id="outside the repository"),
        pytest.param(
            HOUSE, HOUSE, "new.yaml", "new.yaml in place of house/pipeline.yaml", id="new as named"
        ),
    ],
)
def test_the_pipeline_then_is_what_the_defaults_of_then_say(
    repository: Path, then: str, now: str, named: str, change: str
) -> None:
    write(repository, {"multiturn.toml": then})
    commit(repository)
    new = {"multiturn.toml": now, "new.yaml": HEADER, "../new.yaml": HEADER}
    write(repository, new | {"spec/file": "a folder named as a pipeline"})
    text = summary(repository, *([f"--pipeline={named}"] if named else []))
    found = re.findall("The pipeline has changed: <code>(.*)</code>\n", text)
    assert change in found if change else found == []
    assert text.startswith("## 0 cases changed\n") is (change == "")


def test_stages_on_the_path_are_those_of_the_revision(repository: Path, monkeypatch: Any) -> None:
    write(
        repository,
        {
            "lib/house2.py": STAGE,
            "p.yaml": FILES["house/pipeline.yaml"].replace("house:", "house2:"),
        },
    )
    commit(repository)
    replace(repository, "lib/house2.py", "Ada", "Barbara")
    monkeypatch.syspath_prepend(repository / "lib")
    assert title(repository, "--pipeline=p.yaml") == (
        "## 3 cases changed; 1 cause: <code>lib/house2.py line 5</code>"
    )


def test_both_sides_are_converted_by_the_same_multiturn(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pipeline", "stages"):
        shutil.copytree(ROOT / name, repository / name)
    stage = "stages/multiturn_stages/filter_empty.py"
    text = (repository / stage).read_text()
    write(repository, {stage: "raise SystemExit"})
    commit(repository)
    write(repository, {stage: text})
    homes = [str(repository / name) for name in ("pipeline", "stages")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(homes))
    assert title(repository) == "## 0 cases changed"


def test_a_warning_is_given_once(repository: Path) -> None:
    replace(repository, "evals/shop.eval.yaml", "evalcases:", "nmae: Shop\nevalcases:")
    commit(repository)
    done = run(repository, "evals", "--format=markdown", "--against=HEAD")
    assert done.stderr.count("nmae") == 1


def test_ctrl_c_ends_both_sides_and_leaves_nothing(repository: Path, tmp_path: Path) -> None:
    fault = "    import time; time.sleep(60)\n    return"
    replace(repository, "house/house.py", "    return", fault)
    commit(repository)
    write(repository, FILES)
    command = [sys.executable, "-m", "multiturn", "report", "evals", "--against=HEAD"]
    process = subprocess.Popen(
        [*command, "--pipeline=house/pipeline.yaml", "--output=r.html"],
        cwd=repository,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "temporary").glob("*/tree/.git")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not (repository / "r.html").exists()


EXITING = STAGE.replace("    return", "    import os; os._exit(3)\n    return")


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("pipeline.yaml", "extends: nope", "as it was then, house/pipeline.yaml:1:10: no pipeline"),
        ("house.py", EXITING, r"the process that converts the suites of \w{10} died$"),
    ],
)
def test_what_cannot_be_read_of_then_is_one_line(
    repository: Path, name: str, text: str, error: str
) -> None:
    write(repository, {f"house/{name}": text})
    commit(repository)
    write(repository, FILES)
    done = run(repository, "evals", "--against=HEAD", "--pipeline=house/pipeline.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(f"Error: --against: {error}", done.stderr)
    assert len(done.stderr.splitlines()) == 1


# Causes

SHOP = "evals/shop.eval.yaml"


CAUSES = {
    f"2 cases: {TONE} line 2": (TONE, "Two.", "Two!"),
    f"2 cases: {TONE} lines 2\u20134": (TONE, "Two.\nThree.\nFour.", "2.\nThree.\n4."),
    f"2 cases: {TONE} line 1": (TONE, "One.", "1."),
    f"2 cases: {TONE} lines 6\u20137": (TONE, "Five.\n", "Five.\nSix.\nSeven.\n"),
    f"2 cases: {TONE} line 3": (TONE, "Three.\n", ""),
    "1 case: evals/list.txt line 1": ("evals/list.txt", "10", "12"),
    f"2 cases: metadata.systemPrompt of {SHOP}": (SHOP, "sell", "lend"),
    f"1 case: {SHOP} line 6: the messages of 'hours'": (SHOP, "When do you open?", "When?"),
    "2 cases: guideline patterns: **/*.rules.md → **/*.txt": (SHOP, "**/*.rules.md", "**/*.txt"),
}


@pytest.mark.parametrize(("changed", "edit"), CAUSES.items(), ids=CAUSES)
def test_a_change_has_its_cause(tmp_path: Path, changed: str, edit: tuple[str, str, str]) -> None:
    cases, _, cause = changed.partition(": ")
    title = unescape(title_of(tmp_path, FILES, edited(edit)))
    assert title == f"## {cases} changed; 1 cause: <code>{cause}</code>"


def test_a_file_that_is_found_before_another_is_a_cause(tmp_path: Path) -> None:
    now = {**FILES, "list.txt": "Below: 1", "evals/old.txt": FILES["evals/list.txt"]}
    del now["evals/list.txt"]
    text = markdown_of(tmp_path, FILES, now)
    assert text.startswith("## 1 case changed; 2 causes\n")
    assert "<code>evals/list.txt is gone</code>" in text
    assert "<code>list.txt is there</code>" in text


def test_what_no_single_cause_explains_comes_first(tmp_path: Path) -> None:
    suite = """\
evalcases:
  - {id: a, input_messages: [{role: user, content: [{type: file, value: a.txt}]}]}
  - {id: b, input_messages: [{role: user, content: [{type: file, value: a.txt}]}]}
  - id: z
    input_messages:
      - {role: user, content: [{type: file, value: y.txt}, {type: file, value: z.txt}]}
"""
    old, new = (
        {"evals/other.eval.yaml": suite, **{f"evals/{name}.txt": text for name in "ayz"}}
        for text in ("old", "new")
    )
    text = markdown_of(tmp_path, old, new)
    assert text.startswith("## 3 cases changed; 3 causes\n")
    assert headings_of(text) == [
        "more than one cause: 1 case",
        "<code>evals/a.txt line 1</code>: 2 cases",
    ]
    both = "<code>evals/y.txt line 1</code>, <code>evals/z.txt line 1</code>"
    assert re.findall(r"^\| <code>(.).*\| (.*) \|$", text, re.MULTILINE) == [
        ("z", both),
        ("a", ""),
        ("b", ""),
    ]


OPTIONS = """\
extends: spec
configure:
  embed_files:
    header: "File {path}"
  consolidate_system:
    guidelines_heading: "Obey:"
    guideline_header: "Rules {path}"
"""


def test_an_option_of_a_stage_that_added_no_text_is_no_cause(tmp_path: Path) -> None:
    listed = "[{role: user, content: [{type: file, value: list.txt}]}]"
    then = {**FILES, SHOP: f"{SUITE}  - {{id: list, input_messages: {listed}}}\n"}
    then["p.yaml"] = "extends: spec\n"
    text = unescape(markdown_of(tmp_path, then, {**then, "p.yaml": OPTIONS}, pipeline="p.yaml"))
    layout = "consolidate_system.guideline_header in p.yaml:7"
    layout += ", consolidate_system.guidelines_heading in p.yaml:6"
    header = "embed_files.header in p.yaml:4"
    assert headings_of(text) == [
        f"<code>one or several of {layout}</code>: 1 case",
        f"<code>one or several of {layout}, {header}</code>: 1 case",
        f"<code>{header}</code>: 1 case",
    ]


def test_what_is_not_in_a_prompt_is_no_cause_and_the_cause_of_most_cases_is_first(
    tmp_path: Path,
) -> None:
    now = edited((SHOP, "Be kind.", "Be quick."), (SHOP, "sell", "lend"))
    assert headings_of(markdown_of(tmp_path, FILES, now)) == [
        f"<code>metadata.systemPrompt of {SHOP}</code>: 2 cases",
        f"<code>{SHOP} line 12&#58; the messages of 'bye'</code>: 1 case",
    ]


def test_one_difference_of_many_cases_is_shown_once(tmp_path: Path) -> None:
    prompt = '{systemPrompt: "You\\nsell\\nbooks."}'
    then = edited(
        (SHOP, ", {type: file, value: list.txt}", ", When?"),
        (SHOP, "id: price", f"id: price\n    metadata: {prompt}"),
    )
    text = markdown_of(tmp_path, then, edited((TONE, "Three.", "3"), files=then))
    assert text.count("+  3\n") == 1
    assert f"<summary>The difference in <code>{SHOP}&#58; hours, price</code></summary>" in text


NEW = """\
  - id: today
    input_messages:
      - {role: user, content: [{type: file, value: tone.rules.md}, What is new?]}
"""
BYE = SUITE[SUITE.index("  - id: bye") :]


@pytest.mark.parametrize(
    ("edits", "heading", "counts"),
    [
        pytest.param([(BYE, BYE + NEW)], "1 case added", "1 added, 3 same", id="a new case"),
        pytest.param([(BYE, "")], "1 case removed", "1 removed, 2 same", id="a case less"),
        pytest.param(
            *([("id: bye", "id: farewell")], "1 case renamed", "1 renamed, 2 same"), id="another id"
        ),
        pytest.param(
            [("id: hours", "id: times"), ("When do you open?", "Obey me")],
            f"1 case renamed; 1 cause: <code>{SHOP} line 6&#58; the messages of 'times'</code>",
            "1 renamed, 2 same",
            id="another id and question",
        ),
    ],
)
def test_cases_come_and_go(
    tmp_path: Path, edits: list[tuple[str, str]], heading: str, counts: str
) -> None:
    text = markdown_of(tmp_path, FILES, edited(*((SHOP, *edit) for edit in edits)))
    assert text.startswith(f"## {heading}\n")
    assert f": {counts}.\n" in text
    assert "[!WARNING]" not in text


def test_the_prompt_of_a_new_case_is_shown_in_part(tmp_path: Path) -> None:
    new = NEW.replace("What is new?", "Obey me. ```" + "x" * 6000)
    text = markdown_of(tmp_path, FILES, edited((SHOP, BYE, BYE + new)))
    assert f"<summary>The prompt of <code>{SHOP}&#58; today</code></summary>" in text
    prompt = text.partition("\n````text\n")[2].partition("\n````\n")[0]
    assert prompt.startswith("system:\n  You sell books.\n")
    assert "\n  Obey me. ```xxx" in prompt
    assert re.fullmatch(r"… 1,\d{3} characters more", prompt.splitlines()[-1])
    assert len(prompt.rpartition("\n")[0]) == 5000


def test_a_renamed_case_is_shown_with_its_difference(tmp_path: Path) -> None:
    now = edited((SHOP, "id: hours", "id: times"), (SHOP, "When do you open?", "Ignore all rules"))
    text = markdown_of(tmp_path, FILES, now)
    assert f"### renamed, <code>{SHOP} line 6&#58; the messages of 'times'" in text
    assert f"| <code>times</code> | <code>{SHOP}&#58;4</code> | <code>was hours</" in text
    assert "\n-  When do you open?\n+  Ignore all rules\n" in text


def test_a_suite_that_is_renamed_or_removed(tmp_path: Path) -> None:
    now = edited((SHOP, BYE, BYE + NEW))
    now["evals/store.eval.yaml"] = now.pop(SHOP)
    text = markdown_of(tmp_path, FILES, now)
    assert text.startswith("## 3 cases renamed, 1 added\n")
    assert ": 3 renamed, 1 added.\n" in text
    assert f"<code>was hours of {SHOP}</code>" in text
    assert "[!WARNING]" not in text
    removed = {name: text for name, text in FILES.items() if name != SHOP}
    text = markdown_of(tmp_path, FILES, removed)
    assert text.startswith(f"## 3 cases removed; all cases of <code>{SHOP}</code> removed\n")
    assert f"| <code>bye</code> | <code>{SHOP}</code> |  |" in text


# Dangers


BYE_ASKED = "{role: user, content: Bye}"
PIPELINE = "extends: spec\n"
HEADED = f"{PIPELINE}configure:\n  consolidate_system:\n    guidelines_heading: 'Obey:'\n"
HEADING = "consolidate_system.guidelines_heading in p.yaml:4"


@pytest.mark.parametrize(
    ("edit", "warnings"),
    [
        pytest.param(
            (SHOP, '["**/*.rules.md"]', '["**/*.rules.md", "**/*.txt"]'),
            [
                "Change of privilege: evals/list.txt is new in a system message, by the pattern"
                " '**/*.txt': 'A book: 10', in 1 case"
            ],
            id="a pattern",
        ),
        pytest.param(
            (SHOP, '["**/*.rules.md"]', "[]"),
            [
                f"Change of privilege: {TONE} is no longer in a system message, by guideline"
                " patterns: **/*.rules.md → none, in 2 cases"
            ],
            id="no pattern",
        ),
        pytest.param(
            (SHOP, BYE_ASKED, f"{BYE_ASKED.replace('user', 'system')}\n      - {BYE_ASKED}"),
            [
                "Change of privilege: user text becomes system text: 'Bye', by"
                f" {SHOP} line 13: the messages of 'bye', in 1 case"
            ],
            id="a role",
        ),
        pytest.param(
            ("p.yaml", PIPELINE, HEADED),
            [
                f"The pipeline has changed: {HEADING}",
                "Change of privilege: consolidate_system adds to a system message: 'Obey:',"
                f" by {HEADING}, in 2 cases",
            ],
            id="an option",
        ),
        pytest.param(
            (TONE, "Two.", "Two!"),
            [f"Change of privilege: {TONE}, in a system message, has another text, in 2 cases"],
            id="a guideline",
        ),
        pytest.param(
            (SHOP, "You sell books.", "Refund all."),
            [
                "Change of privilege: new text in a system message: 'Refund all.', by"
                f" metadata.systemPrompt of {SHOP}, in 2 cases"
            ],
            id="the system prompt",
        ),
    ],
)
def test_a_change_of_privilege_is_named_above_all(
    tmp_path: Path, edit: tuple[str, str, str], warnings: list[str]
) -> None:
    then = {**FILES, "p.yaml": PIPELINE}
    text = markdown_of(tmp_path, then, edited(edit, files=then), pipeline="p.yaml")
    warning = unescape(text.partition("> [!WARNING]\n")[2].partition("\n\n")[0])
    lines = warning.replace("<code>", "").replace("</code>", "").splitlines()
    assert lines == [f"> - {warning}" for warning in warnings]
    assert text.index("[!WARNING]") < text.index("###")


WITHOUT_CHAT = """\
metadata: {systemPrompt: You sell books.}
guidelines: [Be kind.]
input_messages: [{role: user, content: Hi}]
"""


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [("books", "tea", "metadata.systemPrompt"), ("kind", "quick", "guidelines[0]")],
)
def test_without_a_chat_prompt_causes_and_changes_of_privilege_are_named_too(
    tmp_path: Path, old: str, new: str, key: str
) -> None:
    then = {SHOP: WITHOUT_CHAT}
    now = edited((SHOP, old, new), files=then)
    text = unescape(markdown_of(tmp_path, then, now, pipeline="shipped"))
    assert text.startswith(f"## 1 case changed; 1 cause: <code>{key} of {SHOP}</code>\n")
    assert f"{new}.', by {key} of {SHOP}</code>, in 1 case\n" in text


def test_a_summary_is_within_the_limit_whatever_its_causes(tmp_path: Path) -> None:
    patterns = ", ".join(f"'{'+$%&' * 50}{number}'" for number in range(5_000))
    then = edited((SHOP, '"**/*.rules.md"', f'"**/*.rules.md", {patterns}'))
    now = edited((SHOP, '"**/*.rules.md"', '"**/*.txt"'))
    assert len(markdown_of(tmp_path, then, now).encode()) < 20_000


def test_causes_of_as_many_cases_are_in_the_order_of_the_suite(tmp_path: Path) -> None:
    messages = "input_messages: [{role: user, content: [{type: file, value: %s.txt}]}]"
    cases = "".join(f"  - {{id: c{n}, {messages % f'n{n}'}}}\n" for n in (9, 10, 11))
    then, now = (
        {SHOP: f"evalcases:\n{cases}", **{f"evals/n{n}.txt": text for n in (9, 10, 11)}}
        for text in ("old", "new")
    )
    assert headings_of(markdown_of(tmp_path, then, now)) == [
        f"<code>evals/n{n}.txt line 1</code>: 1 case" for n in (9, 10, 11)
    ]


def test_what_the_same_stages_add_is_no_change_of_privilege(tmp_path: Path) -> None:
    then = edited((SHOP, '["**/*.rules.md"]', '["**/*.rules.md", "**/*.txt"]'))
    now = edited((SHOP, "value: tone.rules.md}, {", "value: ./tone.rules.md}, {"), files=then)
    text = markdown_of(tmp_path, then, now)
    assert "+  === ./tone.rules.md ===\n" in text
    assert "[!WARNING]" not in text


def test_a_case_that_fails_is_in_the_report_and_in_the_exit_code(repository: Path) -> None:
    (repository / "evals/list.txt").unlink()
    done = run(repository, "evals", "--format=markdown", "--against=HEAD")
    assert done.returncode == 1
    assert "### failed: 1 case" in done.stdout
    assert "no file" in done.stdout


def test_a_case_that_could_not_be_converted_then(tmp_path: Path) -> None:
    then = {name: text for name, text in FILES.items() if name != "evals/list.txt"}
    assert unescape(title_of(tmp_path, then, FILES)) == (
        f"## 1 case changed; 1 cause: <code>{SHOP}: it could not be converted before</code>"
    )
    text = markdown_of(tmp_path, then, edited((SHOP, SUITE[SUITE.index("  - id: price") :], "")))
    assert "### removed: 2 cases" in text
    assert "no file 'list.txt'" in text


# Payloads


def payloads(*messages: TestMessage) -> dict[str, Any]:
    """Return what each provider gets, with the pieces in place of each text."""
    case = Case(id="x", input_messages=messages, suite="a.yaml")
    samples = sample_providers()
    converted = review(load_pipeline("spec")(Conversion(case)))
    found = payloads_of(converted, samples.values(), lambda pieces: pieces)
    return {name: body for name, (_, body) in zip(samples, found, strict=True)}


def test_a_payload_says_which_message_each_text_is_from() -> None:
    said = payloads(
        TestMessage("user", "Hi"),
        TestMessage("assistant", "Yes?  "),
        TestMessage("user", "Hi"),
        TestMessage("tool", "Hi"),
    )
    assert said["Anthropic"]["messages"] == [
        {"role": "user", "content": (1,)},
        {"role": "assistant", "content": (2,)},
        {"role": "user", "content": (3, "\n\n[Tool]: ", 4)},
    ]
    assert said["Anthropic"]["model"] == ("MODEL",)
    assert said["Codex"] == (0,)


def test_a_text_that_a_provider_edited_is_shown_as_it_goes_out() -> None:
    said = payloads(TestMessage("user", "Hi\n@all of you"))
    assert said["Codex"] == ("Hi\n @all of you",)


# Markdown

HOSTILE = (
    "a | b `c` **d** _e_ <b>f</b> [g](http://h.example) @team #1 www.i.example https://j.example"
    " \\u202E </details> $k$ :smile: ~l~ \\n| m"
)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    name, quoted = f"evals/{HOSTILE.replace('/', ' ')[:90]}.eval.yaml", f'"{HOSTILE}"'
    suite = (
        f"evalcases:\n  - id: {quoted}\n    input_messages: [{{role: user, content: {quoted}}}]\n"
    )
    now = suite.replace('content: "', 'content: "x ```\\n```` ')
    text = markdown_of(tmp_path, {name: suite}, {name: now})
    html = MarkdownIt("gfm-like", {"linkify": False}).enable("table").render(text)
    assert html.count("<tr>") == 2
    assert html.count("<td>") == 3
    cell = re.findall("<td>(.*?)</td>", html)[0]
    meant = json.loads(quoted).replace("\u202e", "\\u{202e}").replace("\n", " ")
    assert unescape(re.sub("<code>(.*)</code>", r"\1", cell)) == meant
    for tag in ("<b>", "<a ", "<em>", "<strong>", "<del>"):
        assert tag not in html
    assert html.count("<details") == html.count("</details>") == 2
    assert "@team" not in text.partition("```")[0]


def test_a_summary_keeps_within_the_limit_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert markdown.MAX_SIZE <= 1024 * 1024  # R1
    monkeypatch.setattr(markdown, "MAX_SIZE", 50_000)
    words = " ".join(f"word{number}" for number in range(100))
    cases = "".join(
        f"  - {{id: c{number}, input_messages: [{{role: user, content: {words} {number}}}]}}\n"
        for number in range(150)
    )
    then = {"evals/many.eval.yaml": f"evalcases:\n{cases}"}
    text = markdown_of(tmp_path, then, edited(("evals/many.eval.yaml", "word50", "é"), files=then))
    assert text.startswith("## 150 cases changed; 150 causes\n")
    assert 45_000 < len(text.encode()) < 50_000
    assert text.endswith(" more parts would go over GitHub's limit; the HTML report has all.\n")
    assert text.count("<details") == text.count("</details>")
    assert text.count("```") % 2 == 0


def test_without_a_revision_all_cases_are_listed(repository: Path) -> None:
    done = run(repository, "evals", "--format=markdown")
    assert done.stdout.startswith("## 3 cases\n\nPipeline <code>spec</code>.\n")
    assert "| <code>hours</code> | <code>evals/shop.eval.yaml&#58;4</code> |" in done.stdout


# Output


def test_a_report_is_written_whole_or_not_at_all(repository: Path) -> None:
    done = run(repository, "evals", "--output", "no/r.html")
    assert done.returncode == 2
    assert done.stderr == "Error: cannot write 'no/r.html': No such file or directory\n"
    done = run(repository, "evals", "--pipeline=nope", "--output", "r.html")
    assert done.returncode == 2
    assert not (repository / "r.html").exists()
    process = f"{sys.executable} -m multiturn report evals | head -c 10"
    closed = subprocess.run(process, shell=True, cwd=repository, capture_output=True, text=True)
    assert (closed.stdout, closed.stderr) == ("<!doctype ", "")


def test_what_was_written_is_said(repository: Path) -> None:
    done = run(repository, "evals", "--output", "r.html")
    assert (done.stdout, done.stderr) == ("", "r.html: 3 cases, 0.1 MB\n")
    assert 0 < (repository / "r.html").stat().st_size < 100_000
    assert run(repository, "evals", "--output", "r.html", "--quiet").stderr == ""


@pytest.mark.parametrize(("option", "are_there"), [((), False), (("--all",), True)])
def test_the_texts_of_what_is_the_same_are_there_if_asked_for(
    repository: Path, option: tuple[str, ...], are_there: bool
) -> None:
    replace(repository, SHOP, "Bye", "Ciao")
    data = data_of(run(repository, "evals", "--against=HEAD", *option).stdout)
    assert "Ciao" in data
    assert '"hours"' in data
    assert ("When do you open?" in data) is are_there


def test_every_error_is_in_the_report_and_hides_no_case(repository: Path) -> None:
    good = '{"id": "a", "input_messages": [{"role": "user", "content": "Good"}]}'
    lines = [good, "nonsense", good, "[]", '{"id": "b", "input_messages": []}']
    write(repository, {"evals/lines.eval.jsonl": "\n".join(lines)})
    done = run(repository, "evals/lines.eval.jsonl", "--format=markdown")
    assert done.returncode == 1
    assert done.stdout.startswith("## 2 cases\n\nPipeline <code>spec</code>: 1 failed.\n")
    said = [line for line in done.stdout.splitlines() if line.startswith("<code>evals/lines")]
    assert len(said) == 3
    assert "not JSON" in said[0]
    assert "duplicate id 'a'" in said[1]
    assert "a case must be a mapping" in said[2]
    assert "| <code>a</code> | <code>evals/lines.eval.jsonl&#58;1</code> |" in done.stdout
    assert "messages is empty" in done.stdout


def test_two_suites_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path, {f"{name}/.git/x": "", f"{name}/a.eval.yaml": SUITE.replace("tone", "x")})
        write(tmp_path, {f"{name}/x.rules.md": "x", f"{name}/list.txt": "x"})
    done = run(tmp_path, "one", "two", "--format=markdown")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: two suites are 'a.eval.yaml' in their roots; name a root that holds both (--root)\n"
    )


def test_names_that_are_not_utf_8_are_shown_all_the_same(repository: Path) -> None:
    name = os.fsdecode(b"evals/\xff.eval.yaml")
    write(
        repository, {name: "evalcases: [{id: x, input_messages: [{role: user, content: Hi}]}, 1]"}
    )
    done = run(repository, "evals", "--output=r.html", "--against=HEAD")
    assert done.returncode == 1
    assert "evals/\ufffd.eval.yaml" in data_of((repository / "r.html").read_text())
    done = run(repository, "evals", "--output=r.md", "--format=markdown", "--against=HEAD")
    assert done.returncode == 1
    assert "evals/&#65533;.eval.yaml" in (repository / "r.md").read_text()
