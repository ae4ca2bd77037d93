"""Suites of AgentV: what is read of them, and what the pages say of AgentV, by its own prompts.

agentv/README.md says where the data is from.
"""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from comparing import write
from multiturn import Case, Files, MultiturnError, TestMessage, load_pipeline, load_suite
from multiturn.documents.yaml_reader import read_documents
from pages import blocks

DATA = Path(__file__).parent / "agentv"
DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "from-agentv.md").read_text(encoding="utf-8")
PIPELINES = (DOCS / "pipelines.md").read_text(encoding="utf-8")


def read_yaml(name: str) -> Any:
    return next(read_documents((DATA / name).read_text(encoding="utf-8"), name)).value


def read_lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


TABLE = read_yaml("conversations.yaml")
FIRST = {line["folder"]: line for line in read_lines("first.jsonl")}
PRESENT = {line["folder"]: line for line in read_lines("present.jsonl")}
CONFIG = ".agentv/config.yaml"


def rows_of(text: str, head: str) -> dict[str, list[str]]:
    """Return the cells of each row of a table on a page, by the first cell."""
    table = text.partition(f"\n| {head} |\n")[2].partition("\n\n")[0]
    rows = [re.split(r" ?\| ?", row.strip("| ")) for row in table.splitlines()[1:]]
    return {row[0]: row[1:] for row in rows}


def chat_of(messages: Any) -> Any:
    """Return messages as AgentV's are: the role and the text."""
    if messages is None:
        return None
    return [
        {
            "role": each.role,
            "content": each.content
            if isinstance(each.content, str)
            else [
                piece if isinstance(piece, str) else f"an {piece.kind}" for piece in each.content
            ],
        }
        for each in messages
    ]


@pytest.mark.parametrize("name", [*TABLE["cases"], *TABLE["different"]])
def test_chat_prompt(root: Path, name: str) -> None:
    """Those that the docs name are different from AgentV's, on purpose."""
    write(root, TABLE["files"])
    row = TABLE["cases"].get(name) or TABLE["different"][name]
    case = Case(
        id="case",
        input_messages=tuple(TestMessage(**message) for message in row["messages"]),
        guideline_patterns=tuple(TABLE["guideline_patterns"]),
        files=Files(root, root),
    )
    assert chat_of(load_pipeline("agentv").request(case).chat_prompt) == row["chat"]
    assert row["chat"] != row.get("theirs", "another one")


# --- Its first version


def unpack(folder: Path, line: Any, *, without: str = "") -> None:
    files = {
        name: given if isinstance(given, str) else base64.b64decode(given["base64"])
        for name, given in line["files"].items()
        if name != without
    }
    write(folder, {**files, ".git/HEAD": ""})


def converted(folder: Path, suite: str, pipeline: str) -> dict[str, Any]:
    """Return the request of each case of a suite, or the error; and what a case says of itself."""
    found: dict[str, Any] = {}
    chosen = load_pipeline(pipeline)
    cases = load_suite(
        folder / suite,
        root=folder,
        on_error=lambda error: found.update({error.case_id or "": str(error)}),
    )
    for case in cases:
        try:
            found[case.id] = case, chosen.request(case)
        except MultiturnError as error:
            found[case.id] = str(error)
    return found


ROLES = {"function": "tool"}
OF_FIRST = {  # the rows of docs/pipelines.md, and the cases that they are about
    "nothing but guidelines, in an assistant or tool message": [
        *("003 c1", "003 c9", "004 c2", "004 c8", "010 c7"),
    ],
    "one user message, beside assistant or tool messages without content": [
        *("005 c3", "021 c5", "022 c6", "024 c8"),
    ],
    "no message with content but system messages": [
        *("002 c8", "003 c4", "004 c0", "011 c7", "014 c3", "016 c9", "018 c5", "019 c5"),
        *("021 c3", "023 c0", "023 c7", "027 c2", "028 c4", "029 c4"),
    ],
}


@pytest.mark.parametrize("folder", FIRST)
@pytest.mark.filterwarnings("ignore")
def test_the_pipeline_agentv_gives_the_prompts_of_the_first_version(
    root: Path, folder: str
) -> None:
    unpack(root, FIRST[folder])
    found = converted(root, "evals/r.yaml", "agentv")
    different = set()
    for row in FIRST[folder]["prompts"]:
        theirs = row["chat_prompt"] and [
            {"role": ROLES.get(each["role"], each["role"]), "content": each["content"]}
            for each in row["chat_prompt"]
        ]
        made = found[row["id"]]
        if isinstance(made, str) or chat_of(made[1].chat_prompt) != theirs:
            different.add(f"{folder} {row['id']}")
    named = {case for cases in OF_FIRST.values() for case in cases if case[:3] == folder}
    assert different == named


def test_the_page_of_pipelines_names_what_is_different() -> None:
    rows = rows_of(PIPELINES, "case | AgentV | `agentv`")
    assert set(OF_FIRST) <= set(rows)
    prompts = {
        f"{folder} {row['id']}": row["chat_prompt"]
        for folder, line in FIRST.items()
        for row in line["prompts"]
    }
    guidelines, lone, system = ([prompts[case] for case in cases] for cases in OF_FIRST.values())
    assert all([each["role"] for each in chat] == ["system"] for chat in guidelines)
    assert all(chat[-1]["role"] == "user" for chat in lone)
    assert all(chat is None or [each["role"] for each in chat] == ["system"] for chat in system)
    tools = [each for chat in prompts.values() for each in chat or () if each.get("name")]
    assert {(each["role"], each["name"]) for each in tools} == {("function", "tool")}


# --- Its present version, by the page's recipe


@pytest.fixture
def recipe(root: Path) -> str:
    """Write the pipeline that the page shows."""
    (text,) = (each for each in blocks(PAGE, "yaml") if each.startswith("# present.yaml"))
    write(root, {"present.yaml": text})
    return str(root / "present.yaml")


SLASH = "a path with a leading `/`"
IMAGE = "an image"
TOOL = "a tool message"
BLANK = "a tool message, or a later system message, without content"
ALONE = "system messages alone, also where all else is missing files"
ENDS = "white space around a file's text"
EMPTY = "an empty file"
OPENAI = "`{type: text, text: ...}`"
TEMPLATES = "templates of variables, and prompts that are more than `{{ input }}`"
ENVIRONMENT = "Variables of the environment"
BRIEF = {"role": "system", "content": "Be brief."}


def asked(content: Any) -> list[Any]:
    return [BRIEF, {"role": "user", "content": content}]


WHEN = '<file path="{}">\n{}\n</file>\nWhen?'
ORDER = "# Order\nTwo books."
# The row, and what AgentV and the recipe make: in the chat prompt, else as the question.
OF_MADE: dict[str, tuple[str, Any, Any]] = {
    "tool": (
        TOOL,
        {"role": "assistant", "content": '@[Tool]:\n{"left": 12}'},
        {"role": "tool", "content": '{"left": 12}'},
    ),
    "tool-file": (
        TOOL,
        {
            "role": "assistant",
            "content": f'@[Tool]:\n<file path="order.md">\n{ORDER}\n</file>\nread',
        },
        {"role": "tool", "content": f'<file path="order.md">\n{ORDER}\n</file>\nread'},
    ),
    "tool-blank": (BLANK, {"role": "assistant", "content": "@[Tool]:"}, None),
    "system-later-blank": (BLANK, {"role": "assistant", "content": "@[System]:"}, None),
    "system-alone": (ALONE, "Be brief.", "there is nothing to answer"),
    "file-missing-only": (ALONE, "Be brief.", "there is nothing to answer"),
    "image-turns": (
        IMAGE,
        {"role": "user", "content": "First.\nAfter the image."},
        {"role": "user", "content": ["First.", "an image", "After the image."]},
    ),
    "image-lone": (
        IMAGE,
        "What is it?",
        [{"role": "user", "content": ["What is it?", "an image"]}],
    ),
    "image-only": (IMAGE, "Be brief.", asked(["an image"])),
    "file-slash": (
        SLASH,
        asked(WHEN.format("evals/order.md", ORDER)),
        asked(WHEN.format("/evals/order.md", ORDER)),
    ),
    "file-crlf-blank-ends": (
        ENDS,
        asked(WHEN.format("crlf.txt", "one\ntwo")),
        asked(WHEN.format("crlf.txt", "\n  one\ntwo")),
    ),
    "file-empty": (EMPTY, asked("When?"), asked(WHEN.format("empty.md", ""))),
    "strings": (
        OPENAI,
        {"role": "user", "content": "When?"},
        {"role": "user", "content": "of the OpenAI form\nWhen?"},
    ),
}
DIFFERENT = {
    **dict.fromkeys(("011 execute-plan", "011 health-check-failure", "011 run-tests"), SLASH),
    **dict.fromkeys(("012 invoke-get-full-flag", "012 invoke-json-flag"), SLASH),
    **dict.fromkeys(("012 invoke-get-all-flag", "012 invoke-skill-trigger"), SLASH),
    **dict.fromkeys(("000 full-value", "000 partial-value"), ENVIRONMENT),
    **dict.fromkeys(("001 full-value", "001 partial-value", "002 partial-value"), ENVIRONMENT),
    **dict.fromkeys(
        (
            *("013 capital-france__prompt_support-chat", "013 capital-france__prompt_terse"),
            *("013 greet-ada__prompt_support-chat", "013 greet-ada__prompt_terse"),
            "013 direct-chat-messages",
        ),
        TEMPLATES,
    ),
    **{f"{folder} {name}": row[0] for folder in ("015", "016") for name, row in OF_MADE.items()},
}


def is_same(row: Any, made: Any) -> bool:
    """Return whether a case gives AgentV's chat prompt, question and expected answer."""
    if isinstance(made, str):
        return False
    case, request = made
    expected = row["expected_output"]
    if expected is not None and not isinstance(expected, list):
        expected = [{"role": "assistant", "content": expected}]
    return (chat_of(request.chat_prompt), request.question, case.expected_messages or None) == (
        row["chat_prompt"],
        row["question"],
        expected or None,
    )


def made_of(root: Path, folder: str, recipe: str, *, without: str = CONFIG) -> dict[str, Any]:
    line = PRESENT[folder]
    unpack(root, line, without=without)
    found: dict[str, Any] = {}
    for suite in sorted({row["suite"] for row in line["prompts"]}):
        found |= converted(root, suite, recipe)
    return found


@pytest.mark.parametrize("folder", PRESENT)
@pytest.mark.filterwarnings("ignore")
def test_the_recipe_gives_the_prompts_of_the_present_version_or_the_page_says_why(
    root: Path, folder: str, recipe: str
) -> None:
    found = made_of(root, folder, recipe)
    different = {
        f"{folder} {row['id']}"
        for row in PRESENT[folder]["prompts"]
        if not is_same(row, found.get(row["id"], "no such case"))
    }
    assert different == {name for name in DIFFERENT if name[:3] == folder}


def test_each_row_of_the_page_is_about_a_prompt_and_the_other_way_round() -> None:
    rows = set(rows_of(PAGE, "what | AgentV | here, with present.yaml"))
    assert rows == set(DIFFERENT.values()) - {ENVIRONMENT}
    assert f"## {ENVIRONMENT}\n" in PAGE


@pytest.mark.parametrize("folder", ["015", "016"])
@pytest.mark.parametrize("name", OF_MADE)
@pytest.mark.filterwarnings("ignore")
def test_a_row_of_the_page_says_what_agentv_does_and_what_happens_here(
    root: Path, recipe: str, folder: str, name: str
) -> None:
    _, theirs, ours = OF_MADE[name]
    (row,) = (each for each in PRESENT[folder]["prompts"] if each["id"] == name)
    if isinstance(theirs, str):
        assert (row["chat_prompt"], row["question"]) == (None, theirs)
    else:
        assert theirs == row["chat_prompt"] or theirs in row["chat_prompt"]
    made = made_of(root, folder, recipe)[name]
    if isinstance(ours, str):
        assert ours in made
        return
    chat = chat_of(made[1].chat_prompt)
    assert ours in (None, chat) or ours in chat
    if ours is None:
        assert chat == [each for each in row["chat_prompt"] if each != theirs]


@pytest.mark.filterwarnings("ignore")
def test_agentv_has_no_guidelines_now(root: Path, recipe: str) -> None:
    """Who leaves guideline_patterns in its configuration gets another prompt."""
    tagged = '<file path="tone.instructions.md">\nAnswer in one sentence.\n</file>'
    (row,) = (each for each in PRESENT["015"]["prompts"] if each["id"] == "guideline-turns")
    assert CONFIG in PRESENT["015"]["files"]
    assert row["chat_prompt"][0] == {"role": "user", "content": f"Where is my order?\n{tagged}"}
    made = made_of(root, "015", recipe, without="")["guideline-turns"]
    assert not is_same(row, made)
    assert made[1].chat_prompt[0].role == "system"


def prompts_of(name: str, folder: str = "015") -> list[Any]:
    return [each for each in PRESENT[folder]["prompts"] if each["id"] == name]


def test_what_the_page_says_is_the_same() -> None:
    """That the recipe gives these prompts is tested above."""
    (system,) = prompts_of("system-two-leading")
    joined = f'Be brief.\n\n\n<file path="order.md">\n{ORDER}\n</file>\n Answer from it. '
    assert system["chat_prompt"][0]["content"] == joined
    (twice,) = prompts_of("compare-two-files", "008")
    assert twice["question"].count('<file path="../fixtures/sales.csv">') == 2
    (mark,), (ends,) = prompts_of("file-bom"), prompts_of("file-crlf-blank-ends")
    assert PRESENT["015"]["files"]["evals/bom.md"].startswith("\ufeff")
    assert mark["chat_prompt"] == asked(WHEN.format("bom.md", "Noted."))
    assert "\r\n" in PRESENT["015"]["files"]["evals/crlf.txt"]
    assert "\r" not in str(ends["chat_prompt"])
    for name, path in {"file-dot": "./order.md", "file-parent": "../notes.txt"}.items():
        (row,) = prompts_of(name)
        assert f'<file path="{path}">' in row["question"]
    (mapping,) = prompts_of("mapping")
    text = json.dumps({"order": {"id": 7, "late": True}}, indent=2)
    assert mapping["chat_prompt"] == asked(text)
    (missing,) = prompts_of("file-missing")
    assert missing["chat_prompt"][0] == {"role": "user", "content": "What is in it?"}
    assert not {"system-two-leading", "file-bom", "file-dot", "mapping"} & set(OF_MADE)


def test_earlier_versions_wrote_what_the_page_says() -> None:
    (suite,) = (text for name, text in PRESENT["001"]["files"].items() if "eval.yaml" in name)
    assert all(f"    {key}:" in suite for key in ("input", "expected_output", "criteria"))
    assert all("evalcases" in line["files"]["evals/r.yaml"] for line in FIRST.values())
    head = PRESENT["000"]["files"]["examples/features/env-interpolation/evals/suite.yaml"]
    assert all(key in head for key in ("vars:", "  input:", "  expected_output:", "prompts:"))


# --- Variables of the environment

SAID = "You are a helpful assistant who always greets warmly."
DAYS = dict(
    re.findall(r"^\| ([0-9a-f]{9}) \| ([\d-]+) \|$", (DATA / "README.md").read_text(), re.M)
)
NAME = {
    "{{ env.NAME }}": "{{ env.CUSTOM_SYSTEM_PROMPT }}",
    "${{ NAME }}": "${{ CUSTOM_SYSTEM_PROMPT }}",
}


@pytest.mark.parametrize(
    ("form", "folder", "day", "said"),
    [
        ("{{ env.NAME }}", "001", "2026-07-03", "filled in since 3 July 2026"),
        ("{{ env.NAME }}", "000", "2026-07-08", "filled in since 3 July 2026"),
        (
            "${{ NAME }}",
            "002",
            "2026-03-09",
            "filled in since 9 March 2026, by versions before July",
        ),
    ],
)
def test_agentv_fills_in_variables_and_we_say_so(
    root: Path, recipe: str, form: str, folder: str, day: str, said: str
) -> None:
    assert rows_of(PAGE, "written in a suite | AgentV | here")[f"`{form}`"][0] == said
    line = PRESENT[folder]
    assert any(NAME[form] in text for text in line["files"].values())
    filled, empty = (row for row in line["prompts"] if row["id"] == "partial-value")
    assert DAYS[filled["commit"]] == day
    assert filled["chat_prompt"][0] == {"role": "system", "content": SAID}
    assert (empty["environment"], empty["chat_prompt"]) == ({}, None)
    assert empty["question"] == "Hi there!"


# --- Its command


def test_the_commands_and_options_of_agentv_are_those_that_it_has() -> None:
    known = read_yaml("commands.yaml")
    rows = rows_of(PAGE, "AgentV | here")
    (providers,) = (row for row in rows if row.startswith("providers "))
    named = set(re.findall("`([^`]+)`", " ".join(row for row in rows if row != providers)))
    options = {option for source in known for option in source["options"]}
    commands = {command for source in known for command in source["commands"]}
    for each in named:
        command, option = re.match(r"agentv \w+", each), re.match(r"--[\w-]+", each)
        assert (option and option[0] in options) or (command and command[0] in commands)
    assert known[0]["commands"] == ["agentv eval"]  # at first
    assert "--eval-id" in known[0]["options"]
    assert set(re.findall("`([^`]+)`", providers)) <= set(known[1]["providers"])
