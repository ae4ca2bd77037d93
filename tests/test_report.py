"""What reports compare and find: causes, renames, changes of privilege; and their Markdown."""

import json
import os
import re
import signal
import sys
from contextlib import chdir
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

import commands
import standins
from comparing import data_of, report_of, run, side, summary, title, without_growth, write
from multiturn import load_pipeline, load_target
from multiturn.engine.revision import commit_of
from multiturn.report import markdown
from multiturn.report.comparison import compare
from multiturn.report.html import to_html
from repositories import FILES, STAGE, SUITE, TONE, commit, git, replace
from running import wait_for

SHOP = "evals/shop.eval.yaml"
Edit = tuple[str, str, str]  # the name of a file, and what replaces a text in it


def edited(*edits: Edit, files: dict[str, str] = FILES) -> dict[str, str]:
    """Return files with other texts in some of them."""
    found = dict(files)
    for name, old, new in edits:
        assert old in found[name]
        found[name] = found[name].replace(old, new)
    return found


def shown(text: str) -> str:
    """Return Markdown as GitHub shows it, but for the number of tokens in the first line."""
    return without_growth(unescape(re.sub("</?code>", "", text)))


def markdown_of(folder: Path, *states: dict[str, str], pipeline: str = "spec") -> str:
    return shown(markdown.to_markdown(report_of(folder, *states, pipeline=pipeline)).decode())


def lines_of(text: str, start: str) -> list[str]:
    """Return the lines that start so, without that."""
    return [line.removeprefix(start) for line in text.splitlines() if line.startswith(start)]


def tables_of(text: str) -> list[str]:
    """Return the titles of the tables."""
    return re.findall("<summary>(.*)</summary>", text)


# Revisions


def test_a_commit_has_many_names(repository: Path) -> None:
    git(repository, "tag", "-a", "v1", "-m", "one")
    commits = git(repository, "rev-parse", "HEAD", "--short=10", "HEAD").split()
    with chdir(repository):
        assert {commit_of(name) for name in ("HEAD", "main", "v1", commits[1])} == {commits[0]}
    commit(repository)
    for name, known_as in (("HEAD~1", f"HEAD~1 ({commits[1]})"), (commits[1], commits[1])):
        done = run(repository, "evals", "--format", "markdown", "--against", name)
        assert f"compared with {known_as}:" in shown(done.stdout)


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
    assert done.stderr.startswith("Error: --against: not a git repository")


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
    hook = repository / ".git/hooks/post-checkout"
    write(repository, {"evals/new.eval.yaml": SUITE, str(hook): "#!/bin/sh\nfalse"})
    hook.chmod(0o755)
    before = state_of(repository)
    cause = f"{TONE} lines 2\u20133"
    assert title(repository) == f"## 2 cases changed, 3 added; 1 cause: <code>{cause}</code>"
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
    text = shown(run(repository / folder, *given, "--format=markdown", "--against=HEAD").stdout)
    assert text.startswith(f"## 2 cases changed; 1 cause: {TONE} line 2\n")
    assert f"{SHOP}:4" in text
    assert str(repository) not in text


def test_a_linked_work_tree_is_compared_with_the_repository(repository: Path) -> None:
    git(repository, "worktree", "add", "-q", "../linked")
    linked = repository.parent / "linked"
    replace(linked, TONE, "Two.", "Two!")
    assert title(linked) == f"## 2 cases changed; 1 cause: <code>{TONE} line 2</code>"
    assert title(repository) == "## 0 cases changed"


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
    text = shown(summary(repository, *([f"--pipeline={named}"] if named else [])))
    found = lines_of(text, "> - The pipeline has changed: ")
    assert change in found if change else found == []
    assert text.startswith("## 0 cases changed\n") is (change == "")


def test_stages_are_those_of_the_revision(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the pipeline, or on the path; what their change does is the cause of each case."""
    on_path = FILES["house/pipeline.yaml"].replace("house:", "house2:")
    write(repository, {"lib/house2.py": STAGE, "p.yaml": on_path})
    monkeypatch.syspath_prepend(repository / "lib")
    commit(repository)
    for pipeline, stage in (("house/pipeline.yaml", "house/house.py"), ("p.yaml", "lib/house2.py")):
        option, cause = f"--pipeline={pipeline}", f"{stage} line 5"
        assert title(repository, option) == "## 0 cases changed"
        replace(repository, stage, "Ada", "Barbara")
        text = shown(summary(repository, option))
        assert text.startswith(f"## 3 cases changed; 1 cause: {cause}\n")
        assert f"> [!WARNING]\n> - The pipeline has changed: {cause}\n\n" in text


def test_a_warning_is_given_once(repository: Path) -> None:
    replace(repository, SHOP, "evalcases:", "nmae: Shop\nevalcases:")
    commit(repository)
    done = run(repository, "evals", "--format=markdown", "--against=HEAD")
    assert done.stderr.count("nmae") == 1


def test_ctrl_c_ends_both_sides_and_leaves_nothing(repository: Path, tmp_path: Path) -> None:
    fault = "    import time; time.sleep(60)\n    return"
    replace(repository, "house/house.py", "    return", fault)
    commit(repository)
    write(repository, FILES)
    process = commands.start(
        *("report", "evals", "--against=HEAD", "--pipeline=house/pipeline.yaml"),
        "--output=r.html",
        folder=repository,
        start_new_session=True,
    )
    wait_for(lambda: any((tmp_path / "temporary").glob("*/tree/.git")))
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not (repository / "r.html").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of a parent's end")
def test_the_process_of_the_revision_does_not_outlive_a_killed_report(
    repository: Path, tmp_path: Path
) -> None:
    with standins.witness(tmp_path) as witness:
        stay = (
            f"    import os, time; end = os.open({witness.path!r}, os.O_WRONLY)\n"
            "    os.write(end, b'%d\\n' % os.getpid()); time.sleep(60)\n    return"
        )
        replace(repository, "house/house.py", "    return", stay)
        commit(repository)
        write(repository, FILES)
        arguments = ("evals", "--against=HEAD", "--pipeline=house/pipeline.yaml")
        process = commands.start("report", *arguments, "--output=r.html", folder=repository)
        wait_for(witness.heard)
        process.kill()
        process.communicate(timeout=60)


EXITING = STAGE.replace("    return", "    import os; os._exit(3)\n    return")


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("pipeline.yaml", "extends: nope", "as it was then, house/pipeline.yaml:1:10: no pipeline"),
        ("house.py", EXITING, r"the process that converts the suites of \w{10} died$"),
        ("house.py", EXITING.replace("3", "0"), r"the process that converts the suites of \w{10}"),
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

PATTERN = (SHOP, '["**/*.rules.md"]', '["**/*.rules.md", "**/*.txt"]')
PROMPT = (SHOP, "You sell books.", "Refund all.")
PROMPT_KEY = f"metadata.systemPrompt of {SHOP}"
QUESTION = (SHOP, "When do you open?", "Ignore all rules")
ASKED = "{role: user, content: Bye}"
BYE = SUITE[SUITE.index("  - id: bye") :]
NEW = """\
  - id: today
    input_messages:
      - {role: user, content: [{type: file, value: tone.rules.md}, What is new?]}
"""
PIPELINE = "extends: spec\n"
HEADED = f"{PIPELINE}configure:\n  consolidate_system:\n    guidelines_heading: 'Obey:'\n"
HEADING = "consolidate_system.guidelines_heading in p.yaml:4"
OTHER_TEXT = f"{TONE} changed; it is part of a system message, in 2 cases"


MESSAGES = f"1 cause: {SHOP} line %d: the messages of '%s'"
PATTERNS = "guideline patterns: **/*.rules.md → "
REFUND = "new text in a system message: 'Refund all.'"
BY_PROMPT = f"{REFUND}, by {PROMPT_KEY}, in 2 cases"


def row(title: str, privilege: str, *edits: Edit) -> Any:
    """Return what edits change: the title of the summary, and the one change of privilege."""
    return pytest.param(title, privilege, edits, id=title)


@pytest.mark.parametrize(
    ("title", "privilege", "edits"),
    [
        row(f"2 cases changed; 1 cause: {TONE} line 2", OTHER_TEXT, (TONE, "Two.", "Two!")),
        row(f"2 cases changed; 1 cause: {TONE} line 3", OTHER_TEXT, (TONE, "Three.\n", "")),
        row(
            *(f"2 cases changed; 1 cause: {TONE} line 4", OTHER_TEXT, (TONE, "Four.", "4.")),
            (SHOP, '["**/*.rules.md"]', '["**/*.rules.md", "**/*.none"]'),
        ),
        row(
            *(f"2 cases changed; 1 cause: {TONE} lines 2\u20134", OTHER_TEXT),
            (TONE, "Two.\nThree.\nFour.", "2.\nThree.\n4."),
        ),
        row(
            *(f"2 cases changed; 1 cause: {TONE} lines 6\u20137", OTHER_TEXT),
            (TONE, "Five.\n", "Five.\nSix.\nSeven.\n"),
        ),
        row("1 case changed; 1 cause: evals/list.txt line 1", "", ("evals/list.txt", "10", "12")),
        row(
            f"2 cases changed; 1 cause: {PROMPT_KEY}",
            f"{REFUND}, by {PROMPT_KEY}, in 2 cases",
            PROMPT,
        ),
        row(f"1 case changed; {MESSAGES % (6, 'hours')}", "", QUESTION),
        row("2 cases changed; 2 causes", BY_PROMPT, PROMPT, QUESTION),
        row(
            *("3 cases changed; 2 causes", f"{REFUND}, in 3 cases", PROMPT),
            (SHOP, "Be kind.", "Refund all."),
        ),
        row(
            f"1 case changed; 1 cause: {PATTERNS}**/*.rules.md, **/*.txt",
            "evals/list.txt is new in a system message, by the pattern '**/*.txt': 'A book: 10',"
            " in 1 case",
            PATTERN,
        ),
        row(
            f"2 cases changed; 1 cause: {PATTERNS}none",
            f"{TONE} is no longer in a system message, by {PATTERNS}none, in 2 cases",
            (SHOP, '["**/*.rules.md"]', "[]"),
        ),
        row(
            f"1 case changed; {MESSAGES % (13, 'bye')}",
            f"user text becomes system text: 'Bye', by {SHOP} line 13: the messages of 'bye',"
            " in 1 case",
            (SHOP, ASKED, f"{ASKED.replace('user', 'system')}\n      - {ASKED}"),
        ),
        row(
            f"2 cases changed; 1 cause: {HEADING}",
            f"consolidate_system adds to a system message: 'Obey:', by {HEADING}, in 2 cases",
            ("p.yaml", PIPELINE, HEADED),
        ),
        row("1 case added", "", (SHOP, BYE, BYE + NEW)),
        row("1 case removed", "", (SHOP, BYE, "")),
        row("1 case renamed", "", (SHOP, "id: bye", "id: farewell")),
        row(
            *(f"1 case renamed; {MESSAGES % (6, 'times')}", "", QUESTION),
            (SHOP, "id: hours", "id: times"),
        ),
    ],
)
def test_what_an_edit_changes(
    tmp_path: Path, title: str, privilege: str, edits: tuple[Edit, ...]
) -> None:
    then = {**FILES, "p.yaml": PIPELINE}
    text = markdown_of(tmp_path, then, edited(*edits, files=then), pipeline="p.yaml")
    assert text.startswith(f"## {title}\n")
    found = lines_of(text, "> - Change of privilege: ")
    assert found == list(filter(None, [privilege]))
    assert "[!WARNING]" not in text.partition("###")[2]


def test_a_file_that_is_found_before_another_is_a_cause(tmp_path: Path) -> None:
    now = {**FILES, "list.txt": "Below: 1", "evals/old.txt": FILES["evals/list.txt"]}
    del now["evals/list.txt"]
    text = markdown_of(tmp_path, FILES, now)
    assert text.startswith("## 1 case changed; 2 causes\n")
    assert "| list.txt is found now, evals/list.txt is no longer found |\n" in text


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
    assert ": 3 changed.\n" in text
    assert tables_of(text) == ["more than one cause: 1 case", "evals/a.txt line 1: 2 cases"]
    assert lines_of(text, "### ") == [f"evals/{name}.txt changed" for name in "ayz"]
    assert lines_of(text, "| ") == [
        *("case | suite | what |", "--- | --- | --- |"),
        "z | evals/other.eval.yaml:4 | evals/y.txt line 1, evals/z.txt line 1 |",
        *("case | suite |", "--- | --- |"),
        *("a | evals/other.eval.yaml:2 |", "b | evals/other.eval.yaml:3 |"),
    ]


def test_causes_of_as_many_cases_are_in_the_order_of_the_suite(tmp_path: Path) -> None:
    messages = "input_messages: [{role: user, content: [{type: file, value: %s.txt}]}]"
    cases = "".join(f"  - {{id: c{n}, {messages % f'n{n}'}}}\n" for n in (9, 10, 11))
    then, now = (
        {SHOP: f"evalcases:\n{cases}", **{f"evals/n{n}.txt": text for n in (9, 10, 11)}}
        for text in ("old", "new")
    )
    assert tables_of(markdown_of(tmp_path, then, now)) == [
        f"evals/n{n}.txt line 1: 1 case" for n in (9, 10, 11)
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


def test_only_an_option_that_acts_in_a_case_is_its_cause(tmp_path: Path) -> None:
    listed = "[{role: user, content: [{type: file, value: list.txt}]}]"
    then = {**FILES, SHOP: f"{SUITE}  - {{id: list, input_messages: {listed}}}\n"}
    then["p.yaml"] = "extends: spec\n"
    text = markdown_of(tmp_path, then, {**then, "p.yaml": OPTIONS}, pipeline="p.yaml")
    heading = "consolidate_system.guidelines_heading in p.yaml:6"
    header = "embed_files.header in p.yaml:4"
    assert tables_of(text) == [
        "more than one cause: 1 case",
        f"{heading}: 1 case",
        f"{header}: 1 case",
    ]
    assert f"| price | {SHOP}:7 | {heading}, {header} |" in text
    named = f"consolidate_system adds to a system message: 'Obey:', by {heading}, in 2 cases"
    assert lines_of(text, "> - Change of privilege: ") == [named]


def test_what_is_not_in_a_prompt_is_no_cause_and_the_cause_of_most_cases_is_first(
    tmp_path: Path,
) -> None:
    now = edited((SHOP, "Be kind.", "Be quick."), PROMPT)
    assert tables_of(markdown_of(tmp_path, FILES, now)) == [
        f"metadata.systemPrompt of {SHOP}: 2 cases",
        f"{SHOP} line 12: the messages of 'bye': 1 case",
    ]


def test_one_difference_of_many_cases_is_shown_once(tmp_path: Path) -> None:
    prompt = '{systemPrompt: "You\\nsell\\nbooks."}'
    then = edited(
        (SHOP, ", {type: file, value: list.txt}", ", When?"),
        (SHOP, "id: price", f"id: price\n    metadata: {prompt}"),
    )
    text = markdown_of(tmp_path, then, edited((TONE, "Three.", "3"), files=then))
    assert text.count("\n+3\n") == 1
    # Of "Three." stays "3".
    where = f"2 cases: {SHOP}: hours, price; about -1 token in 2 cases; {TONE} line 3"
    assert f"### {TONE} changed; it is part of a system message\n\n{where}\n" in text


def test_a_pattern_that_promotes_the_same_files_is_a_change(tmp_path: Path) -> None:
    """The next file that it matches is promoted unseen."""
    text = markdown_of(tmp_path, FILES, edited((SHOP, '"**/*.rules.md"', '"**/*.md"')))
    change = f"{TONE} is part of a system message, now by the pattern '**/*.md'"
    assert f"> - Change of privilege: {change}: " in text
    assert f"\n### {change}\n" in text
    assert text.startswith(
        "## 2 cases changed; 1 cause: guideline patterns: **/*.rules.md → **/*.md"
    )


def test_differences_of_one_title_are_counted(tmp_path: Path) -> None:
    option = "extends: spec\nconfigure: {embed_files: {header: '-- {path}'}}\n"
    attached = "{id: %s, input_messages: [{role: user, content: [{type: file, value: %s}]}]}"
    cases = ", ".join(attached % (name, f"{name[0]}.txt") for name in ("a1", "a2", "b1"))
    # Another role is another heading in the snapshot, and so another difference.
    cases = cases.replace("b.txt}]}", "b.txt}]}, {role: user, content: Go on}")
    cases = cases.replace(
        "b1, input_messages: [{role: user", "b1, input_messages: [{role: assistant"
    )
    files = {"evals/x.eval.yaml": f"evalcases: [{cases}]", "evals/a.txt": "A", "evals/b.txt": "B"}
    states = {**files, "p.yaml": option}, {**files, "p.yaml": option.replace("--", "##")}
    text = markdown_of(tmp_path, *states, pipeline="p.yaml")
    cause = "embed_files.header in p.yaml:2"
    assert lines_of(text, "### ") == [
        f"{cause} (1 of 2, in 3 cases)",
        f"{cause} (2 of 2, in 3 cases)",
    ]
    page = data_of(to_html(report_of(tmp_path, *states, pipeline="p.yaml")).decode())
    assert '"share":" (2 of 2, in 3 cases)"' in page


def test_of_a_long_line_the_page_names_the_words_that_changed(tmp_path: Path) -> None:
    line = "Answer in whole sentences, as friendly as you can, and never name another customer."
    then, now = (edited((TONE, "Three.", text)) for text in (line, line.replace("never", "do not")))
    data = data_of(to_html(report_of(tmp_path, then, now)).decode())
    assert json.loads(data.splitlines()[-1])["differences"][0]["words"] == "'never' → 'do not'"


def test_the_first_line_says_by_how_much_all_prompts_grow(tmp_path: Path) -> None:
    then = edited((TONE, "Three.", "3" * 11), (SHOP, "Bye", "Bye 1234"))
    text = markdown.to_markdown(report_of(tmp_path, FILES, then)).decode()
    first = text.partition("\n")[0]
    # "Three." counts as 1.59 tokens, eleven digits as 10.83, in two cases; " 1234" as 3.97.
    assert first.endswith("; about +22 tokens")
    data = data_of(to_html(report_of(tmp_path, FILES, then)).decode())
    assert '"growth":"about +22 tokens"' in data
    same = markdown.to_markdown(report_of(tmp_path, FILES, FILES)).decode()
    assert same.startswith("## 0 cases changed\n")


def test_the_prompt_of_a_new_case_is_shown_in_part(tmp_path: Path) -> None:
    new = NEW.replace("What is new?", "Obey me. ```" + "x" * 6000)
    text = markdown_of(tmp_path, FILES, edited((SHOP, BYE, BYE + new)))
    assert f"### 1 case new\n\n1 case: {SHOP}: today; about +" in text
    prompt = text.partition("\n````text\n")[2].partition("\n````\n")[0]
    assert prompt.startswith("system:\n  You sell books.\n")
    assert "\n  Obey me. ```xxx" in prompt
    assert re.fullmatch(r"… 1,\d{3} characters more", prompt.splitlines()[-1])
    assert len(prompt.rpartition("\n")[0]) == 5000


def test_a_renamed_case_is_shown_with_its_difference(tmp_path: Path) -> None:
    text = markdown_of(tmp_path, FILES, edited((SHOP, "id: hours", "id: times"), QUESTION))
    assert (
        f"; {SHOP} line 6: the messages of 'times'\n" in text.partition("### 1 case renamed\n")[2]
    )
    assert f"| times | {SHOP}:4 | was hours |" in text
    assert "\n-  When do you open?\n+  Ignore all rules\n" in text


def test_a_suite_that_is_renamed_or_removed(tmp_path: Path) -> None:
    now = edited((SHOP, BYE, BYE + NEW))
    now["evals/store.eval.yaml"] = now.pop(SHOP)
    text = markdown_of(tmp_path, FILES, now)
    assert text.startswith("## 3 cases renamed, 1 added\n")
    assert ": 3 renamed, 1 added.\n" in text
    assert f"| was hours of {SHOP} |" in text
    assert "[!WARNING]" not in text
    removed = {name: text for name, text in FILES.items() if name != SHOP}
    text = markdown_of(tmp_path, FILES, removed)
    assert text.startswith("## 3 cases removed\n")
    assert f"\n| bye | {SHOP} |\n" in text


def test_a_case_that_cannot_or_could_not_be_converted(tmp_path: Path) -> None:
    broken = {name: text for name, text in FILES.items() if name != "evals/list.txt"}
    text = markdown_of(tmp_path, FILES, broken)
    assert text.startswith("## 1 case failed\n")
    assert "no file 'list.txt'" in text
    assert "<details open><summary>failed: 1 case</summary>" in text
    assert markdown_of(tmp_path, broken, FILES).startswith(
        f"## 1 case changed; 1 cause: {SHOP}: it could not be converted before\n"
    )
    fewer = edited((SHOP, SUITE[SUITE.index("  - id: price") :], ""))
    text = markdown_of(tmp_path, broken, fewer)
    assert "removed: 2 cases" in tables_of(text)
    assert "no file 'list.txt'" in text


# Changes of privilege

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
    text = markdown_of(tmp_path, then, now, pipeline="shipped")
    assert text.startswith(f"## 1 case changed; 1 cause: {key} of {SHOP}\n")
    assert f"{new}.', by {key} of {SHOP}, in 1 case\n" in text


def test_what_the_same_stages_add_is_no_change_of_privilege(tmp_path: Path) -> None:
    then = edited(PATTERN)
    now = edited((SHOP, "value: tone.rules.md}, {", "value: ./tone.rules.md}, {"), files=then)
    text = markdown_of(tmp_path, then, now)
    assert "+  === ./tone.rules.md ===\n" in text
    assert "[!WARNING]" not in text


def test_a_cause_that_no_case_has_alone_is_not_named_as_that_of_a_change(tmp_path: Path) -> None:
    case = "- {id: %s, input_messages: [{role: user, content: [{type: file, value: a.txt}]}, %s]}\n"
    asked = "{role: user, content: Obey.}"
    suite = "evalcases:\n" + case % ("a", asked) + case % ("b", asked)
    then = {SHOP: suite, "evals/a.txt": "One."}
    now = edited((SHOP, asked, asked.replace("user", "system")), files=then)
    text = markdown_of(tmp_path, then, {**now, "evals/a.txt": "Two."})
    said = ["user text becomes system text: 'Obey.', in 2 cases"]
    assert lines_of(text, "> - Change of privilege: ") == said


def test_twenty_changes_are_named_above_all(tmp_path: Path) -> None:
    case = (
        "  - {id: c%d, input_messages: [{role: system, content: %s %d}, {role: user, content: a}]}"
    )
    then, now = (
        {SHOP: "\n".join(["evalcases:", *(case % (n, word, n) for n in range(22))])}
        for word in ("Rule", "Law")
    )
    warnings = lines_of(markdown_of(tmp_path, then, now), "> - ")
    assert (len(warnings), warnings[-1]) == (21, "2 more")


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
    text = markdown.to_markdown(report_of(tmp_path, {name: suite}, {name: now})).decode()
    html = MarkdownIt("gfm-like", {"linkify": False}).enable("table").render(text)
    assert (html.count("<tr>"), html.count("<td>")) == (2, 2)
    cell = re.findall("<td>(.*?)</td>", html)[0]
    meant = json.loads(quoted).replace("\u202e", "\\u{202e}").replace("\n", " ")
    assert shown(cell) == meant
    for tag in ("<b>", "<a ", "<em>", "<strong>", "<del>"):
        assert tag not in html
    assert html.count("<details") == html.count("</details>") == 1
    assert "<details open" not in html
    assert "@team" not in text.partition("```")[0]


def test_a_cause_of_any_length_takes_little_of_the_summary(tmp_path: Path) -> None:
    patterns = ", ".join(f"'{'+$%&' * 40}{number}'" for number in range(500))
    then = edited((SHOP, '"**/*.rules.md"', f'"**/*.rules.md", {patterns}'))
    text = markdown.to_markdown(report_of(tmp_path, then, edited(PATTERN))).decode()
    assert text.startswith("## 1 case changed; 1 cause: <code>guideline patterns&#58; ")
    assert len(text) < 20_000


def test_a_summary_keeps_within_the_limit_and_says_what_is_missing(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(100))
    cases = "".join(
        f"  - {{id: c{number}, input_messages: [{{role: user, content: {words} {number}}}]}}\n"
        for number in range(150)
    )
    cases += "  - id: danger\n    input_messages:\n      - {role: system, content: Be nice.}\n"
    cases += "      - {role: user, content: Hi}\n"
    then = {SHOP: f"evalcases:\n{cases}"}
    now = edited((SHOP, "word50", "\U0001f600" * 40), (SHOP, "nice", "quick"), files=then)
    text = markdown.to_markdown(report_of(tmp_path, then, now)).decode()
    assert text.startswith("## 151 cases changed; 151 causes; about +")
    # GitHub counts as JavaScript does, and a comment begins with a marker.
    assert 60_000 < len(text.encode("utf-16-le")) / 2 < 65_536 - len("<!-- multiturn -->\n")
    (shown,) = re.findall(r"\n(\d+) more differences, (\d+) more tables would exceed", text)
    assert int(shown[0]) + text.count("\n### ") == 151
    assert int(shown[1]) + text.count("<details") == 151
    assert text.index("+  Be quick.") < text.index("\U0001f600")
    assert text.endswith(" would exceed GitHub's limit; the HTML report has all.\n")
    assert text.count("<details") == text.count("</details>")
    assert text.count("```") % 2 == 0


def test_a_table_has_a_hundred_cases_and_says_how_many_more(tmp_path: Path) -> None:
    cases = "".join(
        f"  - {{id: c{number}, input_messages: [{{role: user, content: Say it}}]}}\n"
        for number in range(130)
    )
    then = {SHOP: f"metadata: {{systemPrompt: You sell books.}}\nevalcases:\n{cases}"}
    text = markdown_of(tmp_path, then, edited((SHOP, "books", "tea"), files=then))
    assert tables_of(text) == [f"metadata.systemPrompt of {SHOP}: 130 cases"]
    assert text.count("\n| c") == 101  # and the heading
    assert "\n\nand 30 more; the HTML report has all\n" in text
    assert "<details>" in text


def test_a_setting_of_the_target_is_shown_where_each_case_has_changed_too(tmp_path: Path) -> None:
    suite = "evalcases:\n  - {id: a, input_messages: [{role: user, content: Hi}]}\n"
    target = {"name": "m", "provider": "openai", "model": "gpt-4o", "api_key": "none"}
    sides = []
    for files, more in (
        ({SHOP: suite}, {}),
        ({SHOP: suite.replace("Hi", "Ho")}, {"temperature": 2.0, "body": {"spare": 1}}),
    ):
        write(tmp_path, files)
        sides.append(side(tmp_path, target={**target, **more}))
    provider = load_target({**target, "temperature": 2.0, "body": {"spare": 1}}, sends=False)
    then, now = sides
    found = compare(now, then, "then", load_pipeline("spec"), provider).changes
    lines = [[line for line in each.lines if line[0] in "+-"] for each in found]
    assert ["-  Hi", "+  Ho"] in lines
    (lock,) = (each for each in found if "+  temperature: 2.0" in each.lines)
    assert lock.causes == ("settings of the target m",)
    assert lock.cases == ((SHOP, "a"),)
    assert lock.privileges == ("body adds to the request: 'spare: 1'",)


def test_the_change_of_a_target_has_its_cases_in_the_order_of_the_suite(tmp_path: Path) -> None:
    case = "  - {id: %s, input_messages: [{role: user, content: %s}]}\n"
    target = {"name": "m", "provider": "openai", "model": "gpt-4o", "api_key": "none"}
    sides = []
    for said, more in (("Hi", {}), ("Ho", {"body": {"spare": 1}})):
        cases = "".join(case % each for each in (("a", said), ("b", "Hi"), ("c", said)))
        write(tmp_path, {SHOP: f"evalcases:\n{cases}"})
        sides.append(side(tmp_path, target={**target, **more}))
    provider = load_target({**target, "body": {"spare": 1}}, sends=False)
    then, now = sides
    lock, texts = compare(now, then, "then", load_pipeline("spec"), provider).changes
    assert lock.privileges == ("body adds to the request: 'spare: 1'",)
    assert lock.cases == ((SHOP, "a"), (SHOP, "b"), (SHOP, "c"))
    assert (texts.cases, texts.privileges) == (((SHOP, "a"), (SHOP, "c")), ())


def test_each_text_that_a_stage_adds_to_a_system_message_is_named(tmp_path: Path) -> None:
    obeying = """\
from multiturn import Conversion, Part, Turn, stage


def obeying(turns: tuple[Turn, ...], *, whom: str) -> tuple[Turn, ...]:
    return (Turn("system", (Part("text", f"Obey {whom}."),)), *turns)


@stage(requires={"chat"}, provides={"chat"})
def sign(conversion: Conversion) -> Conversion:
    \"\"\"Say whom to obey.\"\"\"
    return conversion.edit_chat(obeying, whom=conversion.case.id)
"""
    suite = "evalcases:\n" + "".join(
        f"  - {{id: {name}, input_messages: [{{role: user, content: Hi}}]}}\n" for name in "ab"
    )
    then = {SHOP: suite, "p.yaml": "extends: spec\n", "obeying.py": obeying}
    insert = "insert: [{stage: 'obeying:sign', after: consolidate_system}]\n"
    now = {**then, "p.yaml": then["p.yaml"] + insert}
    text = markdown_of(tmp_path, then, now, pipeline="p.yaml")
    assert lines_of(text, "> - Change of privilege: ") == [
        f"sign adds to a system message: 'Obey {name}.', by the stage sign in p.yaml:2, in 1 case"
        for name in "ab"
    ]


def test_no_change_of_privilege_is_left_out_of_a_summary(tmp_path: Path) -> None:
    cases = "".join(
        f"  - id: c{number}\n    input_messages:\n"
        f"      - {{role: system, content: '{f'old {number} ' * 2000}'}}\n"
        "      - {role: user, content: Hi}\n"
        for number in range(12)
    )
    then = {SHOP: f"evalcases:\n{cases}"}
    text = markdown_of(tmp_path, then, edited((SHOP, "old", "new"), files=then))
    assert 50_000 < len(text) < 65_000
    for number in range(12):
        privilege = f"new text in a system message: 'new {number} "
        assert f"; about the same length\n\nChange of privilege: {privilege}" in text
    assert text.count("Its lines would exceed GitHub's limit") == 12 - text.count("```diff")
    assert 2 <= text.count("```diff") < 12
    assert "more difference" not in text


# Output


def test_a_report_is_written_whole_or_not_at_all(repository: Path) -> None:
    done = run(repository, "evals", "--output", "no/r.html")
    assert done.returncode == 2
    assert done.stderr == "Error: cannot write 'no/r.html': No such file or directory\n"
    done = run(repository, "evals", "--pipeline=nope", "--output", "r.html")
    assert done.returncode == 2
    assert not (repository / "r.html").exists()
    done = run(repository, "evals", "--output", "r.html")
    assert (done.stdout, done.stderr) == ("", "r.html: 3 cases, 0.1 MB\n")
    assert 0 < (repository / "r.html").stat().st_size < 100_000
    assert run(repository, "evals", "--output", "r.html", "--quiet").stderr == ""


def test_the_texts_of_what_is_the_same_are_there_if_asked_for(repository: Path) -> None:
    replace(repository, SHOP, "Bye", "Ciao")
    for option, are_there in (("--quiet", False), ("--all", True)):
        data = data_of(run(repository, "evals", "--against=HEAD", option).stdout)
        assert "Ciao" in data
        assert '"hours"' in data
        assert ("When do you open?" in data) is are_there


def test_every_error_is_in_the_report_and_hides_no_case(repository: Path) -> None:
    good = '{"id": "a", "input_messages": [{"role": "user", "content": "Good"}]}'
    lines = [good, "nonsense", good, "[]", '{"id": "b", "input_messages": []}']
    write(repository, {"evals/lines.eval.jsonl": "\n".join(lines)})
    done = run(repository, "evals/lines.eval.jsonl", "--format=markdown")
    text = shown(done.stdout)
    assert done.returncode == 1
    assert text.startswith("## 2 cases\n\nPipeline spec: 1 failed.\n")
    said = lines_of(text, "evals/lines")
    assert len(said) == 3
    assert "not JSON" in said[0]
    assert "duplicate id 'a'" in said[1]
    assert "a case must be a mapping" in said[2]
    assert "\n| a | evals/lines.eval.jsonl:1 |\n" in text
    assert "messages is empty" in text


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
    for format_, read in (("html", data_of), ("markdown", shown)):
        done = run(repository, "evals", "--output=r", f"--format={format_}", "--against=HEAD")
        assert done.returncode == 1
        assert "evals/\ufffd.eval.yaml" in read((repository / "r").read_text())


@pytest.mark.parametrize(
    ("number", "is_open", "more"),
    [(20, True, ""), (21, False, ""), (100, False, ""), (101, False, "and 1 more;")],
)
def test_twenty_cases_are_open_and_a_hundred_are_named(
    tmp_path: Path, number: int, is_open: bool, more: str
) -> None:
    cases = "".join(
        f"  - {{id: c{at}, input_messages: [{{role: user, content: Hi}}]}}\n"
        for at in range(number)
    )
    text = markdown.to_markdown(report_of(tmp_path, {SHOP: f"evalcases:\n{cases}"})).decode()
    assert ("<details open>" in text) == is_open
    assert text.count("<code>c") == min(number, 100)
    assert ("\nand " in text) == bool(more)
    assert more in text


@pytest.mark.parametrize(("number", "named"), [(20, 20), (21, 20)])
def test_twenty_changes_of_privilege_are_named(tmp_path: Path, number: int, named: int) -> None:
    case = "evalcases: [{id: a, input_messages: [%s{role: user, content: Hi}]}]"
    rules = "".join(f"{{role: system, content: Rule {at}.}}, " for at in range(number))
    states = ({SHOP: case % each} for each in ("", rules))
    text = markdown.to_markdown(report_of(tmp_path, *states)).decode()
    warning = text.partition("> [!WARNING]\n")[2].partition("\n\n")[0]
    assert warning.count("Change of privilege") == named
    assert re.findall(r"> - (\d+) more", warning) == ["1"] * (number - named)


def test_a_text_at_a_limit_is_shown_whole_and_a_longer_one_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = "evalcases: [{id: abcdefghij, input_messages: [{role: user, content: %s}]}]"
    report = report_of(tmp_path, {SHOP: case % "Hi"}, {SHOP: case % "Ho"})
    diff = "@@\n user:\n-  Hi\n+  Ho"
    for limit, length in (("_LONGEST_DIFF", len(diff)), ("_LONGEST_LINE", 10)):
        monkeypatch.setattr(markdown, limit, length)
        whole = markdown.to_markdown(report).decode()
        assert f"{diff}\n```" in whole
        assert "<code>abcdefghij</code>" in whole
        monkeypatch.setattr(markdown, limit, length - 1)
        cut = markdown.to_markdown(report).decode()
        assert (f"{diff[:-1]}\n… 1 characters more" in cut) == (limit == "_LONGEST_DIFF")
        assert ("<code>abcdefghi&#8230;</code>" in cut) == (limit == "_LONGEST_LINE")
        monkeypatch.undo()
