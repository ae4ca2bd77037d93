"""What instrumentations have recorded of a conversation is imported, and sent again.

``recorded/record.py`` has made the files.
"""

import json
from pathlib import Path

import pytest

from bodies import Values
from commands import run
from multiturn import load_suite
from multiturn.logs import warnings_to
from multiturn.providers.trace import likeliest_form
from multiturn.traces.again import differences
from multiturn.traces.suite import attached_for, suite_text
from test_import import again, cases_of, written

RECORDED = Path(__file__).with_name("recorded")
SENT: dict[str, Values] = json.loads((RECORDED / "sent.json").read_text(encoding="utf-8"))
# What spans do not say of a target: the API, its version, and its name of a limit.
CHAT = {"max_tokens_field": "max_tokens"}
RESPONSES = {"api": "responses"}
TARGETS: dict[str, Values] = {
    "opentelemetry-openai": CHAT,
    "openllmetry-openai": CHAT,
    "openllmetry-responses": RESPONSES,
    "logfire-openai": CHAT,
    "logfire-responses": RESPONSES,
    "pydantic-ai-anthropic": {"api_version": "2023-06-01"},
    "litellm": CHAT,
}
# What each set-up does not write, or writes in another way, and what import says of it.
STORE = "store is added: false"  # as all our requests to the Responses API have it
SKIPPED = "1 span without messages skipped"
# pydantic-ai writes a result as JSON, which it sends without spaces, and names its tool.
RESULT = ['.text is sent as "{\\"degrees\\": 18}"', "stream is left out", "tool_choice is left out"]
NAMED = "gen_ai.input.messages[3].parts[0].name is left out"
SYSTEM_ITEM = [
    'input[0] is added: {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}',
    "instructions is left out",
]
LANGFUSE = [
    "messages[1].content[1] is left out",
    'model is sent as "m"',  # the model of the answer
    "top_p is added: 1.0",
    "frequency_penalty is added: 0.0",
    "presence_penalty is added: 0.0",
    "the image is left out, as '@@@langfuseMedia:type=image/png|id=nq9myyq5OJ9CdEYXAV39v6"
    "|source=base64_data_uri@@@' is no address that can be handed on; write an https: address,"
    " or the path of a file",
    "messages[1].content[1] is left out",
]
NOT_WRITTEN: dict[str, list[str]] = {
    "opentelemetry-openai": [
        "messages[1] is left out",
        "tools is left out",
        "gen_ai.input.messages[1] has no parts: its content was not recorded",
    ],
    "opentelemetry-google-genai": [
        "contents[2].parts[0].functionResponse.parts is left out",  # an image
        SKIPPED,
    ],
    "openllmetry-openai": ["tools[0].function.strict is left out"],
    "openllmetry-responses": [*SYSTEM_ITEM, "tools[0].strict is sent as false", STORE],
    "openinference-responses": [STORE],
    "openllmetry-anthropic": [SKIPPED],
    "openinference-anthropic": [SKIPPED],
    "logfire-responses": [*SYSTEM_ITEM, STORE],
    "pydantic-ai-openai": [f"messages[3].content[0]{RESULT[0]}", *RESULT[1:], NAMED, SKIPPED],
    "pydantic-ai-anthropic": [
        *(f"messages[2].content[0].content[0]{RESULT[0]}", *RESULT[1:], NAMED),
        "2 spans without messages skipped",
    ],
    "litellm": ["tools[0].function.strict is left out"],
    "langfuse": LANGFUSE,
    "langfuse-plain": LANGFUSE,
}


def sent_again(path: Path, folder: Path, target: Values) -> tuple[list[Values], list[str]]:
    """Return the bodies that the suite of a file sends to a target, and what import says of it."""
    suite = folder / "a.eval.yaml"
    with attached_for(str(suite)) as attached:
        cases, said = cases_of(path, attached)
        suite.write_text(suite_text(cases), encoding="utf-8")
        attached.keep(folder)
    with warnings_to(lambda _: None):
        loaded = load_suite(suite)
        return [
            again(c, {**each.target, **target}) for c, each in zip(loaded, cases, strict=True)
        ], said


@pytest.mark.parametrize("name", [name for name in SENT if name != "anthropic-sdk"])
def test_what_was_recorded_is_sent_again(name: str, tmp_path: Path) -> None:
    (body,), said = sent_again(RECORDED / f"{name}.jsonl", tmp_path, TARGETS.get(name, {}))
    same = likeliest_form(SENT[name])[1].same
    assert [*differences(same(SENT[name]), same(body)), *said] == NOT_WRITTEN.get(name, [])


def test_spans_without_messages_alone_are_an_error(tmp_path: Path) -> None:
    done = run("import", str(RECORDED / "anthropic-sdk.jsonl"), folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "1 span without messages skipped; let the instrumentation record them" in done.stderr


def test_spans_without_messages_are_no_error_of_strict(tmp_path: Path) -> None:
    file = RECORDED / "openllmetry-anthropic.jsonl"
    done = run("import", str(file), "--strict", "--output", "a.eval.yaml", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, f"{file}: 1 span without messages skipped\n")
    (case,) = load_suite(tmp_path / "a.eval.yaml")
    (image,) = (tmp_path / "a.media").iterdir()
    assert image.suffix == ".png"
    assert case.tools[0].parameters["required"] == ["city"]


# Requests like the published examples of OpenTelemetry's conventions for GenAI (2026-11-23).
EXAMPLES: list[Values] = [
    json.loads(line) for line in (RECORDED / "conventions.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("line", EXAMPLES, ids=lambda line: line["name"])
def test_the_examples_of_the_conventions_are_imported(line: Values, tmp_path: Path) -> None:
    cases, said = cases_of(written(tmp_path, [line]))
    assert said == line["says"]
    assert [each.case["input_messages"] for each in cases] == [line["messages_of_case"]]


def test_a_content_that_is_one_part_is_its_text(tmp_path: Path) -> None:
    """As the result of MCP's prompts/get has it."""
    content = {"type": "text", "text": "Review this."}
    path = written(tmp_path, [{"messages": [{"role": "user", "content": content}]}])
    (case,), said = cases_of(path)
    assert (case.case["input_messages"], said) == (
        [{"role": "user", "content": "Review this."}],
        [],
    )


def test_images_in_results_of_gemini_are_files(tmp_path: Path) -> None:
    path = written(tmp_path, [SENT["opentelemetry-google-genai"]])
    done = run("import", path.name, "--output", "a.eval.yaml", folder=tmp_path)
    assert done.returncode == 0
    (case,) = load_suite(tmp_path / "a.eval.yaml")
    (image,) = (tmp_path / "a.media").iterdir()
    result = ["18", {"type": "image", "value": f"a.media/{image.name}"}]
    assert case.input_messages[3].content == result
