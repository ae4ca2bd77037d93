"""Request bodies become a suite, and that suite the same bodies again."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import commands
import media_files
from bodies import BODIES, OF_TELEMETRY, Values, chat_body, in_telemetry
from commands import run
from comparing import write
from loopback import Server
from media_files import data_uri, write_bytes
from multiturn import load_pipeline, load_suite
from multiturn.documents.yaml_reader import read_documents
from multiturn.logs import Notice, warnings_to
from multiturn.providers.targets import KINDS, read_target
from multiturn.traces.suite import (
    Attached,
    Imported,
    attached_for,
    imported,
    named_targets,
    suite_text,
    write_suite,
)

COUNT = int(os.environ.get("BODIES", "30"))  # of each kind; make test-tools tries 3000
# What says how a request travels: no part of it, so that import leaves it out and says so.
TRANSPORT = (
    *("stream", "stream_options", "streamOptions", "n", "store", "user", "metadata"),
    *("safety_identifier", "prompt_cache_key", "background", "labels", "include"),
)
LEFT_OUT = "says how a request is sent; it is left out"


def written(folder: Path, bodies: list[Values]) -> Path:
    path = folder / "bodies.jsonl"
    path.write_text("".join(f"{json.dumps(body)}\n" for body in bodies), encoding="utf-8")
    return path


def cases_of(path: Path, attached: Attached | None = None) -> tuple[list[Imported], list[str]]:
    """Return the cases of a file, and what is said of it."""
    cases, said = [], []
    attached = attached or Attached(None, "")
    for each in imported([str(path)], attached):
        if isinstance(each, Imported):
            cases.append(each)
        else:
            said.append(each.why if isinstance(each, Notice) else str(each))
    return cases, said


def again(case: Any, target: Values) -> Values:
    """Return the body that a target sends for a case, without a key."""
    kind = KINDS[target["provider"]]
    given = {"name": "t", "api_key": "none", "model": "unknown", **target}
    request = PIPELINE.request(case)
    with warnings_to(lambda _: None):
        wire = kind.provider(kind.settings(**given)).wire(request)
    return dict(msgspec.json.decode(wire.body))


PIPELINE = load_pipeline("spec").configure("consolidate_system", later_system="keep")


def plain(body: Values) -> Values:
    """Return a body with the texts of arguments decoded, and without keys of transport."""
    for message in body.get("messages", ()):
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    for item in body.get("input", ()):
        if "arguments" in item:
            item["arguments"] = json.loads(item["arguments"])
    if isinstance(body.get("stop"), str):
        body["stop"] = [body["stop"]]
    kept = {key: value for key, value in body.items() if key not in (*TRANSPORT, "model")}
    config = body.get("generationConfig", {})
    config = {key: value for key, value in config.items() if key != "candidateCount"}
    return {**kept, "generationConfig": config}


def transport_in(body: Values) -> set[str]:
    """Return the keys of transport in a body, but for what every body of ours says."""
    config = body.get("generationConfig", {})
    of_config = ["generationConfig.candidateCount"] if "candidateCount" in config else []
    return {key for key in TRANSPORT if key in body and not is_ours(key, body)} | {*of_config}


def is_ours(key: str, body: Values) -> bool:
    return key == "include" or (key == "store" and "input" in body and body[key] is False)


def sent_again(suite: Path, target: str, of_target: Iterable[int]) -> list[Values]:
    """Return the body that a target in the file beside a suite sends for each of some cases."""
    targets = suite.with_name(f"{suite.name.removesuffix('.eval.yaml')}.targets.yaml")
    variables = {"GEMINI_MODEL": "gemini-9-flash"}
    provider = read_target(targets, target, sends=False, variables=variables)
    with warnings_to(lambda _: None):
        cases = [*load_suite(suite)]
        wires = [provider.wire(PIPELINE.request(cases[at])) for at in of_target]
    return [dict(msgspec.json.decode(wire.body)) for wire in wires]


@pytest.mark.parametrize("kind", BODIES)
def test_a_suite_of_bodies_gives_the_same_bodies_again(kind: str, tmp_path: Path) -> None:
    bodies = [BODIES[kind](number) for number in range(COUNT)]
    suite = tmp_path / "a.eval.yaml"
    with attached_for(str(suite)) as attached:
        cases, said = cases_of(written(tmp_path, bodies), attached)
        write_suite(cases, str(suite), attached)
    named = {each.removesuffix(f" {LEFT_OUT}") for each in said if "more warning" not in each}
    assert named == set().union(*map(transport_in, bodies))
    for target, of_cases in named_targets(cases):
        of_target = [at for at, each in enumerate(cases) if each.case in of_cases]
        sent = sent_again(suite, target["name"], of_target)
        for at, again in zip(of_target, sent, strict=True):
            assert plain(again) == plain(bodies[at])
            assert again.get("model") == bodies[at].get("model")


@pytest.mark.parametrize("kind", BODIES)
def test_the_settings_of_a_single_body_are_its_targets(kind: str, tmp_path: Path) -> None:
    """They are read there in another way than under execution of a suite."""
    for number in range(COUNT):
        body = BODIES[kind](number)
        suite = tmp_path / f"{number}.eval.yaml"
        with attached_for(str(suite)) as attached:
            cases, said = cases_of(written(tmp_path, [body]), attached)
            write_suite(cases, str(suite), attached)
        text = suite.read_text(encoding="utf-8")
        assert ("$" in text) or ("{{" in text) or "execution:" not in text
        assert text.startswith("# The same requests again: ") is (not said)
        (again,) = sent_again(suite, cases[0].target["provider"], [0])
        assert plain(again) == plain(body)


def test_each_key_of_transport_is_named(tmp_path: Path) -> None:
    given = dict.fromkeys(TRANSPORT, "x")
    cases, said = cases_of(written(tmp_path, [{**HELLO, **given}]))
    assert said == [f"{key} {LEFT_OUT}" for key in TRANSPORT]
    assert "execution" not in cases[0].case


def test_a_value_that_no_setting_can_have_stays_in_the_body(tmp_path: Path) -> None:
    odd = {"reasoning_effort": "ultra", "seed": 1.5, "stop": [1], "verbosity": {"a": None}}
    (imported_,), said = cases_of(written(tmp_path, [{**HELLO, **odd, "top_p": 1}]))
    assert said == []
    assert imported_.case["execution"] == {"top_p": 1, "body": odd}


ENTRIES = next(read_documents(Path(__file__).with_name("imports.yaml").read_bytes(), "")).value


@pytest.mark.parametrize("name", ENTRIES)
def test_import_says_what_it_cannot_keep(name: str, tmp_path: Path) -> None:
    entry = ENTRIES[name]
    (tmp_path / "a.jsonl").write_text(json.dumps(entry["line"]))
    cases, said = cases_of(tmp_path / "a.jsonl")
    assert [each.removeprefix(f"{tmp_path}/a.jsonl:1: ") for each in said] == entry.get("says", [])
    assert [each.case["input_messages"] for each in cases] == [
        entry[key] for key in ("messages",) if key in entry
    ]


# OpenTelemetry

ATTRIBUTES: Values = {
    "gen_ai.provider.name": "anthropic",
    "gen_ai.request.model": "claude-sonnet-4-5",
    "gen_ai.request.temperature": 0.5,
    "gen_ai.request.max_tokens": 200,
    "gen_ai.request.top_p": 1.0,
    "gen_ai.operation.name": "chat",
    "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
    "gen_ai.tool.definitions": [
        {
            "type": "function",
            "name": "now",
            "description": "Time.",
            "parameters": {"type": "object"},
        }
    ],
    "gen_ai.input.messages": [
        {"role": "user", "parts": [{"type": "text", "content": "When?"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "I look."},
                {"type": "text", "content": "Wait."},
                {"type": "tool_call", "id": "c1", "name": "now", "arguments": {"zone": "12:30"}},
            ],
        },
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": {"hour": 12}}],
        },
    ],
}
CASE = {
    "id": "a-1",
    "tools": [{"name": "now", "description": "Time.", "parameters": {"type": "object"}}],
    "execution": {
        "temperature": 0.5,
        "max_output_tokens": 200,
        "top_p": 1.0,
    },
    "input_messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "When?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I look.", "vendor": "anthropic"},
                "Wait.",
            ],
            "tool_calls": [{"id": "c1", "name": "now", "arguments": {"zone": "12:30"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": '{"hour": 12}'},
    ],
}
TARGET = {
    "provider": "anthropic",
    "model": "claude-sonnet-4-5",
    "api_key": "${{ ANTHROPIC_API_KEY }}",
}


def any_value(value: Any) -> Values:
    """Return a value as OTLP JSON has it."""
    if isinstance(value, bool | str | float):
        return {{bool: "boolValue", str: "stringValue", float: "doubleValue"}[type(value)]: value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(each) for each in value]}}
    return {"kvlistValue": {"values": keyed(value)}}


def keyed(values: Values) -> list[Values]:
    return [{"key": key, "value": any_value(value)} for key, value in values.items()]


def in_texts(values: Values) -> Values:
    return {k: json.dumps(v) if isinstance(v, list) else v for k, v in values.items()}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(ATTRIBUTES, id="attributes"),
        pytest.param(in_texts(ATTRIBUTES), id="attributes with JSON texts"),
        pytest.param({"name": "chat", "attributes": ATTRIBUTES}, id="a span"),
        pytest.param(
            {"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": keyed(ATTRIBUTES)}]}]}]},
            id="a span of OTLP",
        ),
        pytest.param(
            {
                "scopeSpans": [
                    {"spans": [{"events": [{"attributes": keyed(in_texts(ATTRIBUTES))}]}]}
                ]
            },
            id="an event of OTLP",
        ),
        pytest.param({"logRecords": [{"attributes": keyed(ATTRIBUTES)}]}, id="a record of OTLP"),
    ],
)
def test_messages_of_opentelemetry_become_a_case(line: Values, tmp_path: Path) -> None:
    cases, said = cases_of(written(tmp_path, [line]))
    assert [(each.case, each.target) for each in cases] == [({**CASE, "id": "bodies-1"}, TARGET)]
    assert said == []


def test_a_developer_of_opentelemetry_is_the_system(tmp_path: Path) -> None:
    said_by = {"developer": "Never promise a refund.", "user": "Hi"}
    messages = [
        {"role": role, "parts": [{"type": "text", "content": text}]}
        for role, text in said_by.items()
    ]
    (case,), said = cases_of(written(tmp_path, [{INPUT: messages}]))
    assert case.case["input_messages"] == [
        {"role": "system", "content": "Never promise a refund."},
        {"role": "user", "content": "Hi"},
    ]
    assert said == []
    assert "default_system" not in case.target


@pytest.mark.parametrize(
    ("given", "execution", "left_out"),
    [
        pytest.param(40.0, {"top_k": 40}, [], id="a double, as the conventions have it"),
        pytest.param(40, {"top_k": 40}, [], id="an integer"),
        pytest.param(
            0.5,
            None,
            ["gen_ai.request.top_k is no setting of ours; it is left out"],
            id="no integer",
        ),
    ],
)
def test_top_k_of_opentelemetry_is_an_integer(
    given: float, execution: Values | None, left_out: list[str], tmp_path: Path
) -> None:
    line = {"gen_ai.request.top_k": given, INPUT: ATTRIBUTES[INPUT]}
    (case,), said = cases_of(written(tmp_path, [line]))
    assert (case.case.get("execution"), said) == (execution, left_out)
    assert ".0" not in json.dumps(case.case.get("execution"))


def test_a_captured_request_of_gemini_has_its_model_in_the_target(tmp_path: Path) -> None:
    body = {"model": "gemini-9-flash", "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    path = written(tmp_path, [{"id": "1", "vendor": "gemini", "body": body}])
    (case,), said = cases_of(path)
    assert said == []
    assert case.is_same
    assert case.target["model"] == "gemini-9-flash"


def test_a_body_whose_schema_has_attributes_is_no_span(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"attributes": {"type": "object"}}}
    tools = [{"type": "function", "function": {"name": "now", "parameters": schema}}]
    path = written(tmp_path, [{"custom_id": "x", "body": {**HELLO, "tools": tools}}])
    ((case, *_),), said = cases_of(path)
    assert (case["id"], case["tools"][0]["parameters"], said) == ("x", schema, [])


def test_messages_alone_become_a_case(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(ATTRIBUTES["gen_ai.input.messages"], indent=1))
    (found,), said = cases_of(path)
    assert (found.case["id"], len(found.case["input_messages"]), said) == ("a", 3, [])


def test_a_suite_of_spans_gives_the_bodies_that_they_are_of(tmp_path: Path) -> None:
    bodies = []
    for number in range(COUNT):
        body = chat_body(number, has_media=False)
        if "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
        if isinstance(body.get("stop"), str):
            body["stop"] = [body["stop"]]
        kept = {
            key: body[key] for key in ("model", "messages", "tools", *OF_TELEMETRY) if key in body
        }
        bodies.append(json.loads(json.dumps(kept).replace('"developer"', '"system"')))
    cases, said = cases_of(written(tmp_path, [in_telemetry(body) for body in bodies]))
    assert said == []
    suite = tmp_path / "a.eval.yaml"
    suite.write_text(suite_text(cases), encoding="utf-8", newline="")
    with warnings_to(lambda _: None):
        loaded = list(load_suite(suite))
    for body, each, case in zip(bodies, cases, loaded, strict=True):
        assert plain(again(case, each.target)) == plain(body)


# Files and the command

INPUT = "gen_ai.input.messages"
SYSTEM_ONLY: Values = {"gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}]}
HELLO: Values = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.parametrize(
    ("name", "text", "ids"),
    [
        pytest.param("a.json", json.dumps(HELLO, indent=2), ["a"], id="one in the file"),
        pytest.param("a.log", f"\n{json.dumps(HELLO)}\n", ["a-2"], id="below a blank line"),
        pytest.param("a.jsonl", f"{json.dumps(HELLO)}\n" * 2, ["a-1", "a-2"], id="lines"),
        pytest.param("a.json", json.dumps([HELLO, HELLO]), ["a-1", "a-2"], id="a list"),
        pytest.param(
            "a.jsonl",
            json.dumps({"custom_id": "x", "url": "/v1/chat/completions", "body": HELLO}),
            ["x"],
            id="a batch of OpenAI",
        ),
        pytest.param(
            "a.jsonl",
            f"{json.dumps({'custom_id': 'x', 'params': HELLO})}\n" * 2,
            ["x", "x-2"],
            id="a batch of Anthropic, with one id twice",
        ),
        pytest.param("a.jsonl", json.dumps({"key": "x", "request": HELLO}), ["x"], id="a batch"),
        pytest.param(
            "a.jsonl", json.dumps({"id": "x", "body": json.dumps(HELLO)}), ["x"], id="a log"
        ),
        pytest.param("a.jsonl", json.dumps({"id": "x", **HELLO}), ["x"], id="a body with an id"),
        pytest.param("a.jsonl", f"\ufeff{json.dumps(HELLO)}", ["a-1"], id="a byte-order mark"),
    ],
)
def test_a_file_has_bodies_in_several_ways(
    name: str, text: str, ids: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    cases, said = cases_of(tmp_path / name)
    assert ([each.case["id"] for each in cases], said) == (ids, [])
    assert [each.target["model"] for each in cases] == ["gpt-4o" for _ in ids]


OF_A_GATEWAY: Values = {
    "model": "sonnet-of-our-gateway",
    "max_tokens": 500,
    "messages": [{"role": "user", "content": "Hi"}],
}


@pytest.mark.parametrize(
    ("line", "provider"),
    [
        pytest.param(
            {"id": "1", "vendor": "anthropic", "body": OF_A_GATEWAY}, "anthropic", id="captured"
        ),
        pytest.param(
            {"id": "1", "vendor": "openai", "body": {**OF_A_GATEWAY, "model": "claude-opus-5"}},
            "openai",
            id="captured, of a server with another API than the model's vendor",
        ),
        *(
            pytest.param(
                {
                    "id": "a",
                    "target": "gw",
                    "made": {"provider": provider},
                    "wire": json.dumps(OF_A_GATEWAY),
                },
                provider,
                id=f"a result of {provider}",
            )
            for provider in ("anthropic", "openai", "azure")
        ),
        pytest.param(
            {"id": "a", "made": {"provider": "mine.Own"}, "wire": json.dumps(OF_A_GATEWAY)},
            "openai",
            id="a result of a provider of one's own is of the likeliest form",
        ),
        pytest.param(
            {"custom_id": "x", "params": OF_A_GATEWAY}, "anthropic", id="a batch of Anthropic"
        ),
        pytest.param({"custom_id": "x", "body": OF_A_GATEWAY}, "openai", id="a batch of OpenAI"),
    ],
)
def test_a_line_that_names_the_provider_gives_its_target(
    line: Values, provider: str, tmp_path: Path
) -> None:
    (case,), said = cases_of(written(tmp_path, [line]))
    assert said == []
    assert case.is_same
    assert case.target["provider"] == provider
    assert case.target["api_key"] == f"${{{{ {provider.upper()}_API_KEY }}}}"
    assert case.case["input_messages"] == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "not JSON in UTF-8: Expecting value: line 1 column 1 (char 0)"),
        (b"[1, ", "not JSON in UTF-8: Expecting value: line 1 column 5 (char 4)"),
        (b"[\xff]", "not JSON in UTF-8: 'utf-8' codec can't decode byte 0xff"),
        (b'["a"]', "[0]: this must be a JSON object, a request body"),
        (b'{"wire": "{"}', "wire is not JSON: Expecting property name enclosed in double quotes"),
        (b"[" * 5000 + b"]" * 5000, "nested deeper than 100 levels"),
        (b'{"messages": [], "messages": []}', "duplicate key 'messages'; keep one of them"),
        (b'[{"messages": [{"role": "user", "content": "\\ud800"}]}]', "\\ud800 is half of a"),
        (
            json.dumps({**SYSTEM_ONLY, INPUT: [{"role": "user", "parts": []}]}).encode(),
            "case 'a-1': there is nothing to answer",
        ),
        (
            json.dumps({"attributes": [{"key": {}}, {"key": INPUT, "value": {}}]}).encode(),
            "case 'a-1': input_messages is empty",
        ),
    ],
)
def test_a_file_that_is_wrong_is_an_error_with_its_place(
    text: bytes, error: str, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_bytes(text)
    cases, (said,) = cases_of(tmp_path / "a.json")
    assert cases == []
    assert said.startswith(f"{tmp_path}/a.json")
    assert error in said


def test_a_wrong_line_is_skipped_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(f'{json.dumps(HELLO)}\n{{"n": 1}}\n{json.dumps(HELLO)}\n')
    done = run("import", "a.jsonl", "--output", "a.yaml", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("a.jsonl:2: not a request body: ")
    assert [case.id for case in load_suite(tmp_path / "a.yaml")] == ["a-1", "a-3"]
    done = run("import", "a.jsonl", "--strict", "--output", "b.yaml", folder=tmp_path)
    assert (done.returncode, (tmp_path / "b.yaml").exists()) == (1, False)


def test_with_strict_a_warning_is_an_error(tmp_path: Path) -> None:
    named = {"messages": [{"role": "user", "content": "Hello", "name": "ann"}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(named))
    done = run("import", "a.jsonl", "--strict", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "a.jsonl:1: messages[0].name is left out\n"


def test_an_output_that_nobody_could_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(HELLO))
    done = run("import", "a.jsonl", "--output", "b.jsonl", folder=tmp_path)
    assert (done.returncode, (tmp_path / "b.jsonl").exists()) == (2, False)
    assert done.stderr == "Error: 'b.jsonl' would be read as JSON Lines; name it b.eval.yaml\n"


def test_an_output_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(HELLO))
    (tmp_path / "a.yaml").write_text("mine")
    done = run("import", "a.jsonl", "--output", "a.yaml", folder=tmp_path)
    assert (done.returncode, (tmp_path / "a.yaml").read_text()) == (2, "mine")
    assert done.stderr == "Error: 'a.yaml' exists; name another file, or remove it\n"


def test_standard_input_is_read(tmp_path: Path) -> None:
    process = commands.start("import", "-", folder=tmp_path, stdin=subprocess.PIPE)
    output, _ = process.communicate(json.dumps(HELLO))
    assert process.returncode == 0
    assert "  - id: stdin-1\n" in output


def test_the_comment_names_what_sends_the_same_requests(tmp_path: Path) -> None:
    later = {"role": "developer", "content": "Now in French."}
    body = {**HELLO, "messages": [*HELLO["messages"], later], "max_tokens": 9}
    path = written(tmp_path, [body, {"contents": [{"parts": [{"text": "Hi"}]}]}])
    assert suite_text(cases_of(path)[0]).partition("evalcases:")[0] == (
        "# The same requests again: the pipeline extends: spec, configure:"
        " {consolidate_system: {later_system: keep}}, and these targets\n"
        "#   - name: openai\n"
        "#     provider: openai\n"
        "#     model: gpt-4o\n"
        "#     system_role: developer\n"
        "#     max_tokens_field: max_tokens\n"
        '#     api_key: "${{ OPENAI_API_KEY }}"\n'
        "#   - name: gemini\n"
        "#     provider: gemini\n"
        '#     model: "${{ GEMINI_MODEL }}"\n'
        '#     api_key: "${{ GEMINI_API_KEY }}"\n'
        "#     default_system: omit\n"
    )


TARGETS_OF_TWO = """\
targets:
  - name: openai
    provider: openai
    model: gpt-4o
    api_key: "${{ OPENAI_API_KEY }}"
    default_system: omit
    top_p: 0.5
    body:
      logprobs: true
"""


def test_settings_that_all_bodies_share_are_a_targets_beside_the_suite(tmp_path: Path) -> None:
    shared = {**HELLO, "top_p": 0.5, "logprobs": True}
    lines = [{**shared, "seed": 1, "stop": ["$"]}, {**shared, "seed": 2, "stop": ["$"]}]
    written(tmp_path, lines)
    done = run("import", "bodies.jsonl", "--output", "new.eval.yaml", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "new.targets.yaml").read_text() == TARGETS_OF_TWO
    text = (tmp_path / "new.eval.yaml").read_text()
    comment = "# The same requests again: the pipeline spec, and the targets of new.targets.yaml\n"
    assert text.startswith(comment)
    assert [case.execution for case in load_suite(tmp_path / "new.eval.yaml")] == [
        {"seed": 1, "stop": ["$"]},  # which a target would take for a variable
        {"seed": 2, "stop": ["$"]},
    ]
    options = ("--targets", "new.targets.yaml", "--target", "openai", "--dry-run")
    done = run("run", "new.eval.yaml", *options, folder=tmp_path)
    sent = [json.loads(json.loads(line)["wire"]) for line in done.stdout.splitlines()]
    assert sent == lines


def test_no_file_of_targets_is_replaced(tmp_path: Path) -> None:
    written(tmp_path, [HELLO])
    (tmp_path / "new.targets.yaml").write_text("mine")
    done = run("import", "bodies.jsonl", "--output", "new.eval.yaml", folder=tmp_path)
    error = "Error: 'new.targets.yaml' exists; name another file, or remove it\n"
    assert (done.returncode, done.stderr) == (2, error)
    assert [path.name for path in tmp_path.glob("new.*")] == ["new.targets.yaml"]


def test_the_comment_does_not_promise_what_differs(tmp_path: Path) -> None:
    path = written(tmp_path, [{**HELLO, "stream": True}])
    assert suite_text(cases_of(path)[0]).startswith(
        "# These requests, but for what import warned of: "
    )


@pytest.mark.parametrize("model", ["${{ HOME }}", "$HOME", "{{ HOME }}"])
def test_a_model_is_no_variable(model: str, tmp_path: Path) -> None:
    cases, (said,) = cases_of(written(tmp_path, [{**HELLO, "model": model}]))
    assert (cases, "the model would be read as a variable" in said) == ([], True)


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    key = "ghp_" + "0aB1cD2eF3gH" * 3
    body = {"messages": [{"role": "user", "content": f"My key is {key}."}]}
    (tmp_path / "a.jsonl").write_text(json.dumps(body))
    done = run("import", "a.jsonl", "--debug", folder=tmp_path)
    assert done.returncode == 1
    assert "what looks like a key (GitHub)" in done.stderr
    assert key not in done.stdout + done.stderr


def test_bytes_are_no_key_whatever_is_in_them(tmp_path: Path) -> None:
    looks = "AIza" + "0" * 35  # as one of Google's, which may stand in many bytes
    uri = f"data:application/pdf;base64,{base64.b64encode(b'%PDF-1.7 ').decode()}"
    file = {"filename": "a.pdf", "file_data": f"{uri}{'A' * 200}/{looks}"}
    shown = [{"type": "file", "file": file}]
    body = {"model": "m", "messages": [{"role": "user", "content": shown}]}
    cases, said = cases_of(written(tmp_path, [body]))
    assert (len(cases), said) == (1, [])


def test_tools_of_all_cases_are_the_suites(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "now"}}]
    path = written(tmp_path, [{**HELLO, "tools": tools}, {**HELLO, "tools": tools}])
    text = suite_text(cases_of(path)[0])
    assert text.count("name: now") == 1
    assert "\ntools:\n  - name: now\nevalcases:\n" in text
    (tmp_path / "a.yaml").write_text(text)
    assert [[each.name for each in case.tools] for case in load_suite(tmp_path / "a.yaml")] == [
        ["now"],
        ["now"],
    ]


PIXEL = "iVBORw0KGgo="


def image(data: str = PIXEL, **more: Any) -> Values:
    url = {"url": f"data:image/png;base64,{data}", **more}
    return {"type": "image_url", "image_url": url}


def test_media_are_files_named_by_their_digest_beside_the_suite(tmp_path: Path) -> None:
    uri = f"data:application/pdf;base64,{base64.b64encode(b'%PDF-1.7').decode()}"
    content = [
        image(detail="low"),
        image(),
        {"type": "file", "file": {"filename": "my invoice.pdf", "file_data": uri}},
        {"type": "file", "file": {"filename": "../../evil.pdf", "file_data": uri}},
    ]
    write(tmp_path, {"a.jsonl": json.dumps({"messages": [{"role": "user", "content": content}]})})
    done = run("import", "a.jsonl", "--output", "new.eval.yaml", folder=tmp_path)
    assert done.returncode == 0
    (case,) = load_suite(tmp_path / "new.eval.yaml")
    png = f"new.media/{hashlib.sha256(base64.b64decode(PIXEL)).hexdigest()}.png"
    pdf = f"new.media/{hashlib.sha256(b'%PDF-1.7').hexdigest()}"
    assert case.input_messages[0].content == [
        {"type": "image", "value": png, "detail": "low"},
        {"type": "image", "value": png},
        {"type": "document", "value": f"{pdf}/my invoice.pdf"},
        {"type": "document", "value": f"{pdf}.pdf"},
    ]
    files = [path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("**/*.p*")]
    assert sorted(files) == sorted([png, f"{pdf}/my invoice.pdf", f"{pdf}.pdf"])
    assert (tmp_path / png).read_bytes() == base64.b64decode(PIXEL)


@pytest.mark.parametrize("there", ["a folder", "a file", "a link", "a link to nothing"])
def test_the_folder_of_media_is_new(there: str, tmp_path: Path) -> None:
    """So nothing is written through a link, and nothing of somebody else's is used or removed."""
    write(tmp_path, {"a.jsonl": json.dumps({"messages": [{"role": "user", "content": [image()]}]})})
    (tmp_path / "elsewhere").mkdir()
    taken = tmp_path / "new.media"
    if there == "a folder":
        taken.mkdir()
    elif there == "a file":
        taken.write_text("mine")
    else:
        taken.symlink_to(tmp_path / ("elsewhere" if there == "a link" else "nowhere"))
    before = sorted(tmp_path.rglob("*"))
    done = run("import", "a.jsonl", "--output", "new.eval.yaml", folder=tmp_path)
    error = "Error: 'new.media' exists; name another file, or remove it\n"
    assert (done.returncode, done.stderr) == (2, error)
    assert sorted(tmp_path.rglob("*")) == before


def test_without_a_suite_no_folder_of_media_stays(tmp_path: Path) -> None:
    contents = [image(), image(base64.b64encode(b"\x89PNG\r\n\x1a\n!").decode())]
    write(tmp_path, {"a.jsonl": json.dumps({"messages": [{"role": "user", "content": contents}]})})
    assert run("import", "a.jsonl", "--output", "b.yaml", folder=tmp_path).returncode == 0
    attached = Attached(tmp_path / "b", "a.media")
    shutil.copytree(tmp_path / "b.media", tmp_path / "b" / "a.media")
    with pytest.raises(OSError, match="no room"), attached_to(tmp_path / "a.yaml", attached):
        raise OSError("no room")
    assert not (tmp_path / "a.media").exists()


@contextmanager
def attached_to(suite: Path, attached: Attached) -> Iterator[None]:
    """Write a suite, whose media are there when the block begins."""
    keep = attached.keep

    def kept(folder: Path) -> None:
        keep(folder)
        assert len([*(folder / "a.media").iterdir()]) == 2
        raise OSError("no room")

    attached.keep = kept  # type: ignore[method-assign]
    write_suite([Imported({"id": "a", "input_messages": []}, {})], str(suite), attached)
    yield


def test_a_name_of_a_file_is_at_most_255_bytes(tmp_path: Path) -> None:
    uri = f"data:application/pdf;base64,{base64.b64encode(b'%PDF-1.7').decode()}"
    names = ["請" * 83 + "求.pdf", "請" * 89 + ".pdf"]  # 256 and 271 bytes
    names.append("請" * 83 + ".pdf")  # 253
    files = [{"type": "file", "file": {"filename": name, "file_data": uri}} for name in names]
    write(tmp_path, {"a.jsonl": json.dumps({"messages": [{"role": "user", "content": files}]})})
    done = run("import", "a.jsonl", "--output", "a.eval.yaml", folder=tmp_path)
    assert done.returncode == 0
    (case,) = load_suite(tmp_path / "a.eval.yaml")
    digest = hashlib.sha256(b"%PDF-1.7").hexdigest()
    assert [
        each["value"].removeprefix(f"a.media/{digest}") for each in case.input_messages[0].content
    ] == [
        *(".pdf", ".pdf"),
        f"/{names[2]}",
    ]


def test_ids_that_collide_get_numbers(tmp_path: Path) -> None:
    colliding = ["a" + "-2" * levels for levels in range(1200)]  # more than calls may be nested
    path = written(tmp_path, [{"id": each, **HELLO} for each in (*colliding, "a", "a")])
    cases, said = cases_of(path)
    assert said == []
    assert [each.case["id"] for each in cases] == [*colliding, "a-3", "a-4"]


def test_an_empty_list_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    done = run("import", "a.json", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        "a.json: the list is empty; it has no request body\n",
    )


def test_without_an_output_media_stay_in_the_suite(tmp_path: Path) -> None:
    write(tmp_path, {"a.jsonl": json.dumps({"messages": [{"role": "user", "content": [image()]}]})})
    done = run("import", "a.jsonl", folder=tmp_path)
    assert f'value: "data:image/png;base64,{PIXEL}"' in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_after_an_error_with_strict_there_are_no_media(tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "name": "ann", "content": [image()]}]}
    write(tmp_path, {"a.jsonl": json.dumps(body)})
    done = run("import", "a.jsonl", "--strict", "--output", "a.yaml", folder=tmp_path)
    assert done.returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


# Answers

ANSWER: Values = {
    "suite": "a.yaml",
    "id": "umbrella",
    "target": "t",
    "response": "18 degrees.",
    "conversation_id": "c",
    "thinking": [
        {"type": "thinking", "thinking": "Hm.", "signature": "AA=="},
        {"type": "redacted_thinking", "data": "BB=="},
    ],
    "raw_request": {
        "question": "[User]: Hi",
        "guidelines": [],
        "tools": [{"name": "now"}],
        "chat_prompt": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "How warm is {{ city }}?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "name": "now", "signature": "CC=="}],
                "thinking": [
                    {"text": "I look.", "signature": "rs_1", "data": "DD==", "vendor": "openai"}
                ],
            },
            {"role": "tool", "content": "18", "tool_call_id": "c1", "is_error": True},
        ],
    },
}
GOES_ON = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "How warm is {{ city }}?"},
    {
        "role": "assistant",
        "content": [
            {
                "type": "thinking",
                "thinking": "I look.",
                "signature": "rs_1",
                "data": "DD==",
                "vendor": "openai",
            }
        ],
        "tool_calls": [{"id": "c1", "name": "now", "arguments": {}, "thought_signature": "CC=="}],
    },
    {"role": "tool", "tool_call_id": "c1", "is_error": True, "content": "18"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "AA==", "vendor": "anthropic"},
            {"type": "redacted_thinking", "data": "BB==", "vendor": "anthropic"},
            "18 degrees.",
        ],
    },
    {"role": "user", "content": None},
]


def answers_of(path: Path) -> tuple[list[Values], list[str]]:
    cases, said = [], []
    for each in imported([str(path)], Attached(None, ""), answers=True):
        if isinstance(each, Imported):
            cases.append(each.case)
        else:
            said.append(each.why if isinstance(each, Notice) else str(each))
    return cases, said


def test_a_case_goes_on_after_the_answer(tmp_path: Path) -> None:
    (case,), said = answers_of(written(tmp_path, [ANSWER]))
    assert said == []
    assert case == {
        "id": "umbrella-turn-2",
        "conversation_id": "c",
        "tools": [{"name": "now"}],
        "input_messages": GOES_ON,
    }


def test_a_case_that_goes_on_has_the_settings_of_what_was_asked(tmp_path: Path) -> None:
    execution = {
        "temperature": 0.5,
        "max_output_tokens": 100,
        "response_format": {"schema": {"type": "object", "properties": {"a": {}}}},
        "body": {"of_ours": {"x": 1}},
    }
    suite = {"id": "a", "execution": execution, "input": "Hi"}
    (tmp_path / "a.yaml").write_text(json.dumps(suite))
    assert run("run", "a.yaml", "--output", "r.jsonl", folder=tmp_path).returncode == 0
    done = run("import", "r.jsonl", "--answers", "--output", "b.yaml", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "b.yaml").read_text().replace("null", "And then?")
    (tmp_path / "b.yaml").write_text(text)
    (asked,), (again_,) = load_suite(tmp_path / "a.yaml"), load_suite(tmp_path / "b.yaml")
    assert again_.settings == asked.settings
    assert again_.settings.temperature == 0.5


def test_after_calls_their_results_are_to_be_filled_in(tmp_path: Path) -> None:
    calls = [{"id": "c2", "name": "now", "arguments": {"a": 1}}, {"id": "c3", "name": "now"}]
    (case,), _ = answers_of(written(tmp_path, [{**ANSWER, "response": "", "tool_calls": calls}]))
    assert case["input_messages"][-2:] == [
        {"role": "tool", "tool_call_id": "c2", "content": None},
        {"role": "tool", "tool_call_id": "c3", "content": None},
    ]


def test_media_of_an_answered_prompt_keep_their_path_or_address(tmp_path: Path) -> None:
    shown = [
        "See",
        {"kind": "image", "media_type": "image/png", "size": 9, "digest": "0a", "path": "a/b.png"},
        {"kind": "image", "url": "https://example.com/b.png", "detail": "low"},
    ]
    asked = {**ANSWER["raw_request"], "chat_prompt": [{"role": "user", "content": shown}]}
    (case,), said = answers_of(written(tmp_path, [{**ANSWER, "raw_request": asked}]))
    assert said == []
    assert case["input_messages"][0]["content"] == [
        "See",
        {"type": "image", "value": "a/b.png"},
        {"type": "image", "value": "https://example.com/b.png", "detail": "low"},
    ]
    shown[1] = {"kind": "image", "media_type": "image/png", "size": 9, "digest": "0a"}
    _, (said_,) = answers_of(written(tmp_path, [{**ANSWER, "raw_request": asked}]))
    assert "results do not have the bytes of media that were no file" in said_


def test_an_image_in_a_suite_is_not_taken_for_the_file_of_its_name(tmp_path: Path) -> None:
    write_bytes(tmp_path, {"a.png": media_files.image(seed=1)})
    inline = {"type": "image", "value": data_uri(media_files.image(seed=2)), "name": "a.png"}
    lines = [
        {"id": name, "input_messages": [{"role": "user", "content": shown}]}
        for name, shown in {"file": {"type": "image", "value": "a.png"}, "inline": inline}.items()
    ]
    write(tmp_path, {"a.jsonl": "".join(f"{json.dumps(line)}\n" for line in lines)})
    run("run", "a.jsonl", "--output", "r.jsonl", folder=tmp_path)
    (case,), (said,) = answers_of(tmp_path / "r.jsonl")
    assert (case["id"], "r.jsonl:2: results do not have the bytes" in said) == ("file-turn-2", True)


def test_a_conversation_grows_turn_by_turn(tmp_path: Path) -> None:
    suite = "evalcases:\n  - id: a\n    input_messages: [{role: user, content: Hi}]\n"
    write(tmp_path, {"1.yaml": suite})
    for turn in (1, 2, 3):
        run("run", f"{turn}.yaml", "--output", f"{turn}.jsonl", folder=tmp_path)
        name = f"{turn + 1}.yaml"
        done = run("import", f"{turn}.jsonl", "--answers", "--output", name, folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        unfilled = run("check", name, folder=tmp_path)
        assert unfilled.returncode == 1
        assert "content must be text, a mapping or a list, not null" in unfilled.stderr
        text = (tmp_path / name).read_text()
        write(tmp_path, {name: text.replace("content: null", f"content: And {turn}?")})
    (case,) = load_suite(tmp_path / "4.yaml")
    assert case.id == "a-turn-4"
    roles = [message.role for message in case.input_messages]
    assert roles == ["user", *["assistant", "user"] * 3]
    assert case.input_messages[-1].content == "And 3?"


NO_RESULT = "no conversation can go on from this result of a run, if it is one"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({**ANSWER, "response": None}, "case 'umbrella' has no answer; it is left out"),
        ({**ANSWER, "response": " "}, "case 'umbrella' has no answer; it is left out"),
        ({**ANSWER, "raw_request": None}, "case 'umbrella' has no answer; it is left out"),
        (HELLO, f"{NO_RESULT}: Object missing required field `suite`"),
        (
            {**ANSWER, "tool_calls": [{"id": "c2", "name": "now", "arguments": "{a"}]},
            f"{NO_RESULT}: Expected `object`, got `str` - at `$.tool_calls[0].arguments`",
        ),
    ],
)
def test_what_is_no_answer_is_said(line: Values, said: str, tmp_path: Path) -> None:
    cases, (found,) = answers_of(written(tmp_path, [line]))
    assert cases == []
    assert found.removeprefix(f"{tmp_path}/bodies.jsonl:1: ") == said


def test_a_line_of_a_recorded_run_is_the_body_that_the_server_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    suite = "id: a\nexecution: {temperature: 0}\ninput_messages: [{role: user, content: Hi}]\n"
    with Server() as server:
        target = f"{{name: t, provider: openai, model: gpt-4o, base_url: '{server.url}/v1'}}"
        write(tmp_path, {"a.yaml": suite, "targets.yaml": f"targets: [{target}]"})
        options = ("--target", "t", "--record-wire", "--output", "out.jsonl")
        assert run("run", "a.yaml", *options, folder=tmp_path).returncode == 0
        (request,) = server.requests
    (imported_,), said = cases_of(tmp_path / "out.jsonl")
    assert said == []
    write(tmp_path, {"b.yaml": suite_text([imported_])})
    (case,) = load_suite(tmp_path / "b.yaml")
    assert again(case, imported_.target) == request.json


def test_a_full_disk_is_said_of_temporary_files(tmp_path: Path) -> None:
    url = {"url": data_uri(media_files.padded(media_files.image(), 100_000))}
    body = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]}
    written(tmp_path, [body])
    command = ("import", "bodies.jsonl", "--output", "a.yaml")
    process = commands.start(*command, folder=tmp_path, preexec_fn=commands.full_disk(50_000))
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out, (tmp_path / "a.yaml").exists()) == (1, "", False)
    why = "File too large; make room there, or set TMPDIR"
    assert said == f"bodies.jsonl:1: cannot keep media in a temporary file: {why}\n"


def test_a_deep_value_is_an_error(tmp_path: Path) -> None:
    for levels, is_read in ((80, True), (96, False)):
        value: Any = 1
        for _ in range(levels):
            value = [value]
        call = {"id": "c1", "name": "now", "input": {"a": value}, "type": "tool_use"}
        body = {"messages": [{"role": "assistant", "content": [call]}]}
        cases, said = cases_of(written(tmp_path, [body]))
        assert (len(cases), "nested deeper than" in "".join(said)) == (is_read, not is_read)
        if is_read:
            write(tmp_path, {"a.yaml": suite_text(cases)})
            assert len([*load_suite(tmp_path / "a.yaml")]) == 1


def test_lines_of_a_dry_run_are_bodies(tmp_path: Path) -> None:
    suite = "id: a\ninput_messages: [{role: system, content: No.}, {role: user, content: Hi}]\n"
    targets = (
        "targets: [{name: t, provider: openai, model: gpt-4o, base_url: 'http://127.0.0.1:9'}]"
    )
    write(tmp_path, {"a.yaml": suite, "targets.yaml": targets})
    sent = run("run", "a.yaml", "--target", "t", "--dry-run", folder=tmp_path)
    write(tmp_path, {"dry.jsonl": sent.stdout.splitlines()[0]})
    assert json.loads(sent.stdout.splitlines()[0])["wire"]
    (case,), said = cases_of(tmp_path / "dry.jsonl")
    assert said == []
    assert case.case["id"] == "a"
    assert case.case["input_messages"] == [
        {"role": "system", "content": "No."},
        {"role": "user", "content": "Hi"},
    ]
