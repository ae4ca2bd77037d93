"""The settings of a request, as suites, targets and Python say them."""

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from comparing import write
from multiturn import (
    Case,
    JsonSchema,
    MultiturnError,
    Place,
    RequestSettings,
    TestMessage,
    load_pipeline,
    load_suite,
    load_target,
)

SPEC = load_pipeline("spec")
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
EVERY = """\
temperature: 0.5
top_p: 0.9
top_k: 40
max_output_tokens: 100
stop: ["\\n\\n", END]
seed: -3
frequency_penalty: -2
presence_penalty: 0.1
reasoning_effort: xhigh
reasoning_tokens: 0
response_format: {schema: {type: object, properties: {ok: {type: boolean}}}, strict: true}
tool_choice: {name: f}
parallel_tool_calls: false
verbosity: low
service_tier: flex
body: {logprobs: true, deep: {x: [1.5, "2"]}}
"""
AS_STRUCT = RequestSettings(
    temperature=0.5,
    top_p=0.9,
    top_k=40,
    max_output_tokens=100,
    stop=("\n\n", "END"),
    seed=-3,
    frequency_penalty=-2,
    presence_penalty=0.1,
    reasoning_effort="xhigh",
    reasoning_tokens=0,
    response_format=JsonSchema(schema=SCHEMA, strict=True),
    tool_choice={"name": "f"},
    parallel_tool_calls=False,
    verbosity="low",
    service_tier="flex",
    body={"logprobs": True, "deep": {"x": [1.5, "2"]}},
)


def cases(text: str, folder: Path) -> list[Case]:
    (folder / "x.eval.yaml").write_text(text, encoding="utf-8")
    return list(load_suite(folder / "x.eval.yaml", root=folder))


def said(execution: str, folder: Path) -> RequestSettings:
    """Return the settings of a case with this ``execution``."""
    (case,) = cases(f"id: a\nexecution: {execution}\ninput: Hi\n", folder)
    return case.settings


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def test_every_setting_is_read_with_its_place(tmp_path: Path) -> None:
    head = "tools: [{name: f}]\nexecution:\n"
    (case,) = cases(f"{head}{indented(EVERY)}tests: [{{id: a, input: Hi}}]\n", tmp_path)
    assert case.settings == AS_STRUCT
    assert SPEC.request(case).settings == AS_STRUCT
    place = case.places["execution.stop"]
    assert (place.line, place.column) == (7, 3)


def test_a_target_has_the_same_settings_with_the_same_values(tmp_path: Path) -> None:
    target = "- name: t\n  provider: openai\n  api_key: abcdef\n  model: m\n"
    write(tmp_path, {"targets.yaml": target + indented(EVERY)})
    provider = load_target("t", file=str(tmp_path / "targets.yaml"))
    assert RequestSettings(**provider.settings.said()) == AS_STRUCT


def test_a_case_says_more_than_its_suite_and_its_body_is_merged(tmp_path: Path) -> None:
    (case,) = cases(
        "execution: {temperature: 1, seed: 2, body: {a: 1, deep: {x: 1, y: 2}}}\n"
        "tests: [{id: a, execution: {temperature: 0, body: {deep: {y: 3}}}, input: Hi}]\n",
        tmp_path,
    )
    assert case.settings == RequestSettings(
        temperature=0, seed=2, body={"a": 1, "deep": {"x": 1, "y": 3}}
    )


NAMED = JsonSchema(schema=SCHEMA, name="n", description="d", strict=False)
INLINE = json.dumps(SCHEMA)
FORMS: dict[str, Any] = {
    "text": "text",
    "json": "json",
    "{type: text}": "text",
    "{type: json_object}": "json",
    f"{{schema: {INLINE}}}": JsonSchema(schema=SCHEMA),
    "{schema: forms/ok.json}": JsonSchema(schema=SCHEMA, path="forms/ok.json"),
    "{schema: forms/ok.json, name: n, description: d, strict: false}": JsonSchema(
        schema=SCHEMA, name="n", description="d", strict=False, path="forms/ok.json"
    ),
    f"{{type: json_schema, json_schema: {{name: n, description: d, strict: false,"
    f" schema: {INLINE}}}}}": NAMED,
    f"{{type: json_schema, name: n, description: d, strict: false, schema: {INLINE}}}": NAMED,
    f"{{json_schema: {{schema: {INLINE}}}}}": JsonSchema(schema=SCHEMA),
}


@pytest.mark.parametrize("written", FORMS)
def test_the_form_of_an_answer_has_several_spellings(tmp_path: Path, written: str) -> None:
    write(tmp_path, {"forms/ok.json": INLINE})
    expected = RequestSettings(response_format=FORMS[written])
    assert said(f"{{response_format: {written}}}", tmp_path) == expected
    target = "{name: t, provider: openai, api_key: abcdef, model: m, response_format: "
    write(tmp_path, {"targets.yaml": f"[{target}{written}}}]"})
    provider = load_target("t", file=str(tmp_path / "targets.yaml"))
    assert provider.settings.response_format == FORMS[written]


def test_keys_of_agentv_are_known_and_others_warn_once(tmp_path: Path) -> None:
    known = "target: t, targets: [t], evaluators: [{name: e}], skip_defaults: true, trials: 3"
    with capture_logs() as logs:
        found = cases(
            f"execution: {{{known}, temprature: 0, note: x}}\n"
            "tests: [{id: a, execution: {temprature: 0, cache: false}, input: Hi}]\n",
            tmp_path,
        )
    assert found[0].settings == RequestSettings()
    ours = "body, frequency_penalty, max_output_tokens, parallel_tool_calls, presence_penalty,"
    ours += " reasoning_effort, reasoning_tokens, response_format, seed, service_tier, stop,"
    ours += " temperature, tool_choice, top_k, top_p, verbosity"
    assert [log["why"] for log in logs] == [
        'unknown key "temprature" (2 times, first on line 1); did you mean "temperature"?',
        f'unknown key "note"; choose from: {ours}',
    ]


def test_nothing_is_said_by_null_or_by_an_execution_that_is_no_mapping(tmp_path: Path) -> None:
    for execution in ("~", "{}", "[x]", "{temperature: ~, response_format: ~, body: ~}"):
        assert said(execution, tmp_path) == RequestSettings()


def test_the_settings_of_a_case_in_python_are_sent_as_those_of_a_suite(tmp_path: Path) -> None:
    execution = '{seed: 3, response_format: {schema: {"type": object}}, body: {logprobs: true}}'
    (of_suite,) = cases(f"id: a\nexecution: {execution}\ninput: Hi\n", tmp_path)
    settings = RequestSettings(
        seed=3, response_format=JsonSchema(schema={"type": "object"}), body={"logprobs": True}
    )
    messages = (TestMessage("user", "Hi"),)
    of_python = Case(id="a", input_messages=messages, settings=settings)
    write(tmp_path, {"targets.yaml": "[{name: t, provider: openai, api_key: abcdef, model: m}]"})
    provider = load_target("t", file=str(tmp_path / "targets.yaml"))
    bodies = [provider.wire(SPEC.request(case)).body for case in (of_suite, of_python)]
    assert bodies[0] == bodies[1]
    body = json.loads(bodies[0])
    assert (body["seed"], body["logprobs"]) == (3, True)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": {"type": "object"}},
    }


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
def test_the_description_of_a_schema_is_sent_or_a_warning_says_that_it_is_not(
    tmp_path: Path, provider: str
) -> None:
    execution = "{response_format: {schema: {type: array}, description: A verdict.}}"
    (case,) = cases(f"id: a\nexecution: {execution}\ninput: Hi\n", tmp_path)
    target = f"{{name: t, provider: {provider}, api_key: abcdef, model: m}}"
    write(tmp_path, {"targets.yaml": f"[{target}]"})
    with capture_logs() as logs:
        wire = load_target("t", file=str(tmp_path / "targets.yaml")).wire(SPEC.request(case))
    why = "the description of response_format is not sent to this vendor; write it in the schema"
    assert (b"A verdict." in wire.body) == (provider == "openai")
    assert (why in [log["why"] for log in logs]) == (provider != "openai")


def test_settings_of_a_case_are_no_mapping() -> None:
    given: Any = {"temperature": 0}
    with pytest.raises(TypeError, match=r"write RequestSettings\(temperature=0\)"):
        Case(id="a", input_messages=(TestMessage("user", "Hi"),), settings=given)


def test_a_json_schema_of_a_case_is_no_mapping() -> None:
    form: Any = {"schema": {"type": "object"}}
    settings = RequestSettings(response_format=form)
    with pytest.raises(MultiturnError, match=r"is text, json or a JsonSchema\(schema=\.\.\.\)"):
        Case(id="a", input_messages=(TestMessage("user", "Hi"),), settings=settings)


def test_a_schema_is_read_where_attached_files_are(tmp_path: Path) -> None:
    """Beside the suite, then in each folder above; and no further than the root."""
    text = "id: a\nexecution: {response_format: {schema: ok.json}}\ninput: Hi\n"
    write(tmp_path, {"evals/a.eval.yaml": text, "ok.json": INLINE})
    (case,) = load_suite(tmp_path / "evals/a.eval.yaml", root=tmp_path)
    expected = JsonSchema(schema=SCHEMA, path="ok.json")
    assert case.settings.response_format == expected
    assert case.places["execution.response_format"]._replace(column=0) == Place(
        str(tmp_path / "evals/a.eval.yaml"), 2, 0, ""
    )
