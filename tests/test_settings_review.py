"""Settings are reviewed as texts are: each is a difference, a cause, and part of digests."""

import hashlib
import html
import json
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.json import encode

import commands
from comparing import data_of, write
from loopback import Server
from multiturn.documents.yaml_reader import read_documents
from multiturn.model.settings import RequestSettings
from multiturn.providers.settings import write_settings
from providers.test_pairs import APIS, TAKEN, VALUES, values_of
from repositories import commit, git
from running import by_id, records, write_target
from test_one_prompt import PROMPT_KEYS

HI = [{"role": "user", "content": "Hi"}]
BRIEF = [{"role": "system", "content": "Be brief."}]
TOOLS = [{"name": "now", "description": "The time.", "parameters": {"type": "object"}}]
TARGETS: dict[str, dict[str, Any]] = {
    "openai": {"provider": "openai", "model": "gpt-4o", "base_url": "http://127.0.0.1:9/v1"},
    "azure": {"provider": "azure", "model": "gpt-4o", "endpoint": "http://127.0.0.1:9"},
    "responses": {"provider": "openai", "model": "gpt-5-mini", "api": "responses"},
    "anthropic": {
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "api_version": "2023-06-01",
    },
    "gemini": {"provider": "gemini", "model": "gemini-2.5-flash"},
}
OTHER: dict[str, Any] = {"service_tier": ["auto", "default"]}  # of settings with one value above


def run(folder: Path, *arguments: str, code: int = 0) -> str:
    done = commands.run(*arguments, folder=folder)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def names_of(api: str) -> list[str]:
    return [name for name in VALUES if name in APIS[api][0]().form.keys]


def as_yaml(api: str, name: str) -> list[Any]:
    """Return values of a setting as YAML has them."""
    return [msgspec.to_builtins(value) for value in OTHER.get(name) or values_of(api, name)]


def some(api: str, chance: random.Random) -> dict[str, Any]:
    """Return some settings, and sometimes a key of the vendor's own."""
    chosen = {
        name: chance.choice(as_yaml(api, name)) for name in names_of(api) if chance.random() < 0.4
    }
    return {**chosen, **({"body": {"own": {"a": [1]}}} if chance.random() < 0.3 else {})}


def write_all(
    folder: Path,
    api: str,
    target: dict[str, Any],
    cases: list[dict[str, Any]],
    system: tuple[int, ...] = (),
) -> None:
    """Write a target with settings, and a suite; the second case has tools.

    The cases in ``system`` have a system message.
    """
    given = {"name": "t", "api_key": "none-of-these", "model_takes": TAKEN, **TARGETS[api]}
    targets = json.dumps({"targets": [{**given, **target}]})
    evalcases = [
        {"id": f"case-{at}", "input_messages": BRIEF * (at in system) + HI, "execution": each}
        | ({"tools": TOOLS} if at == 1 else {})
        for at, each in enumerate(cases)
    ]
    write(folder, {"targets.yaml": targets, "a.eval.yaml": json.dumps({"evalcases": evalcases})})


def differences(folder: Path) -> list[dict[str, Any]]:
    done = commands.run(
        "snapshot", "a.eval.yaml", "--target", "t", "--check", "--format", "json", folder=folder
    )
    assert (done.returncode, done.stderr) == (1, "")
    return records(done.stdout)


def changed(api: str, name: str, old: Any, chance: random.Random) -> Any:
    """Return another value of a setting, or none if it has one."""
    if name == "body":
        return {"own": {"a": [2]}}
    return chance.choice([value for value in [*as_yaml(api, name), None] if value != old])


def with_setting(settings: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    rest = {key: each for key, each in settings.items() if key != name}
    return rest if value is None else {**rest, name: value}


@pytest.mark.parametrize("owner", ["target", "case"])
@pytest.mark.parametrize("api", APIS)
def test_a_changed_setting_is_one_difference_that_names_it(
    tmp_path: Path, api: str, owner: str
) -> None:
    chance = random.Random(f"{api} {owner}")
    for name in [*names_of(api), "body"]:
        target, *cases = (some(api, chance) for _ in range(4))
        write_all(tmp_path, api, target, cases)
        run(tmp_path, "snapshot", "a.eval.yaml", "--target", "t")
        if owner == "target":
            target = with_setting(target, name, changed(api, name, target.get(name), chance))
        else:
            value = changed(api, name, cases[1].get(name), chance)
            cases[1] = with_setting(cases[1], name, value)
        write_all(tmp_path, api, target, cases)
        found = differences(tmp_path)
        assert len({line["key"] for line in found}) == 1, (name, found)
        file = "target.lock" if owner == "target" else "a/case-1.yaml"
        (line,) = (line for line in found if line["kind"] == "changed")
        assert line["file"] == f"snapshots/{file}"
        is_below = name in ("body", "response_format", "stop")  # then its name is above it
        sign = "[ +-]" if is_below else "[+-]"
        assert re.search(rf"^{sign}  {name}:", line["diff"], re.M), line["diff"]
        privileges = [each["what"] for each in found if each["kind"] == "privilege"]
        assert bool(privileges) is (name == "body")


@pytest.mark.parametrize("api", APIS)
def test_what_is_shown_of_settings_and_tools_is_the_body(tmp_path: Path, api: str) -> None:
    chance = random.Random(api)
    connect, read = APIS[api]
    keys = connect().form.keys
    for _ in range(8):
        target, *cases = (some(api, chance) for _ in range(5))
        write_all(tmp_path, api, target, cases)
        options = ("a.eval.yaml", "--target", "t")
        planned = records(run(tmp_path, "run", *options, "--dry-run"))
        shown = records(run(tmp_path, "convert", *options))
        run(tmp_path, "snapshot", *options)
        run(tmp_path, "report", *options, "--output", "page.html")
        page = data_of((tmp_path / "page.html").read_text())
        lock = recorded(tmp_path, "target.lock")
        explained = by_id(run(tmp_path, "explain", *options, "--format", "json"))
        for plan, line in zip(planned, shown, strict=True):
            body = json.loads(plan["wire"])
            said = {key: each for key, each in body.items() if key not in PROMPT_KEYS}
            assert line["parameters"] == said
            assert line.get("tools", []) == (TOOLS if line["id"] == "case-1" else [])
            assert ("The time." in json.dumps(body.get("tools"))) is (line["id"] == "case-1")
            snapshot = recorded(tmp_path, f"a/{line['id']}.yaml")
            assert snapshot.get("tools", []) == line.get("tools", [])
            own, below = (
                msgspec.convert(each.get("settings", {}), RequestSettings)
                for each in (snapshot, lock)
            )
            asked = own.over(below)
            if not snapshot.get("tools"):  # C5
                asked = msgspec.structs.replace(asked, tool_choice=None, parallel_tool_calls=None)
            if api == "anthropic" and asked.parallel_tool_calls is not None:
                choice = asked.tool_choice or "auto"  # its body has one place for both
                asked = msgspec.structs.replace(asked, tool_choice=choice)
            told = explained[line["id"]]
            assert told["repairs"] == line["repairs"]
            assert [*told["tools"]] == [tool["name"] for tool in line.get("tools", [])]
            # A text is empty for what is left out (C5), which repairs say.
            assert {
                key: as_said(each["text"]) for key, each in told["settings"].items() if each["text"]
            } == {
                **({"max_output_tokens": 4096} if api == "anthropic" else {}),
                **{key: as_said(value) for key, value in json.loads(encode(asked.said())).items()},
            }
            sent, written = read(body, lambda _: None).settings, write_settings(asked, keys)
            default = {"max_tokens": 4096} if api == "anthropic" else {}
            assert write_settings(sent, keys) == {**default, **written}
            assert (asked.body or {}).items() <= (sent.body or {}).items()
            assert plan["repairs"] == line["repairs"]
            for key, value in said.items():
                assert f"{json.dumps(key)}:{msgspec.json.encode(value).decode()}" in page


def as_said(value: Any) -> Any:
    """Return a value, or one that a text shows; a text that is no JSON stands for itself."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def recorded(folder: Path, name: str) -> dict[str, Any]:
    (document,) = read_documents((folder / "snapshots" / name).read_text(), name)
    value: dict[str, Any] = document.value
    return value


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
LARGER = {"type": "object", "properties": {"city": {"type": "string"}, "at": {"type": "string"}}}
FORM = {"response_format": {"schema": "answer.json", "name": "place"}}


def dumped(schema: Any) -> str:
    return json.dumps(schema, indent=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three cases; the answers of two follow a JSON Schema in a file."""
    write_all(tmp_path, "openai", {}, [FORM, FORM, {}])
    write(tmp_path, {"answer.json": dumped(SCHEMA)})
    git(tmp_path, "init", "-q")
    run(tmp_path, "snapshot", "a.eval.yaml", "--target", "t")
    commit(tmp_path)
    return tmp_path


def test_a_schema_in_a_file_is_an_attached_file(folder: Path) -> None:
    snapshot = recorded(folder, "a/case-0.yaml")
    assert snapshot["settings"] == {"response_format": {"name": "place", "path": "answer.json"}}
    assert snapshot["input_files"] == []
    digest = hashlib.sha256((folder / "answer.json").read_bytes()).hexdigest()
    assert recorded(folder, "files.lock") == {"answer.json": [digest]}
    write(folder, {"answer.json": dumped(LARGER)})
    found = differences(folder)
    assert len({line["key"] for line in found if line["key"]}) == 1
    (line,) = (line for line in found if line["key"])
    assert (line["kind"], line["file"], len(line["cases"])) == ("text", "answer.json", 2)
    assert '+  "at": {' in line["diff"]
    text = commands.run("snapshot", "a.eval.yaml", "--target", "t", "--check", folder=folder)
    assert text.stdout.startswith("answer.json changed (a.eval.yaml: case-0, case-1)\n")
    run(folder, "snapshot", "a.eval.yaml", "--target", "t", "--accept", line["key"])
    run(folder, "snapshot", "a.eval.yaml", "--target", "t", "--check")


@pytest.mark.parametrize("target", [(), ("--target", "t")], ids=["", "target"])
def test_a_changed_schema_is_a_cause_and_a_difference_of_a_report(
    folder: Path, target: tuple[str, ...]
) -> None:
    options = ("report", "a.eval.yaml", "--against", "HEAD", *target, "--format")
    write(folder, {"answer.json": dumped(LARGER)})
    lines = by_id(run(folder, *options, "json"))
    assert [lines[f"case-{at}"]["status"] for at in range(3)] == ["changed", "changed", "same"]
    assert lines["case-0"]["causes"] == ["answer.json lines 6\u20138"]
    shown = html.unescape(run(folder, *options, "markdown"))
    assert shown.count("### ") == 1
    assert "### <code>answer.json changed</code>" in shown
    # Another setting is a cause of its own.
    write_all(folder, "openai", {}, [{**FORM, "seed": 3}, FORM, {}])
    lines = by_id(run(folder, *options, "json"))
    wanted = ["answer.json lines 6\u20138", "settings of a.eval.yaml"]
    assert lines["case-0"]["causes"] == wanted
    assert lines["case-1"]["causes"] == wanted[:1]


def test_a_case_with_a_schema_in_a_file_has_no_causes_that_are_none(folder: Path) -> None:
    options = ("report", "a.eval.yaml", "--against", "HEAD", "--format", "json")
    evalcases = json.loads((folder / "a.eval.yaml").read_text())["evalcases"]
    evalcases[0]["input_messages"] = [{"role": "user", "content": "Bye"}]
    suite = {"guideline_patterns": ["*.rules.md"], "evalcases": evalcases}
    write(folder, {"a.eval.yaml": json.dumps(suite)})  # the patterns match nothing
    lines = by_id(run(folder, *options))
    assert lines["case-0"]["causes"] == ["a.eval.yaml line 1: the messages of 'case-0'"]
    write_all(folder, "openai", {}, [FORM, FORM, FORM])
    lines = by_id(run(folder, *options))
    assert lines["case-2"]["causes"] == ["settings of a.eval.yaml"]


def test_a_schema_that_only_moves_into_a_file_changes_the_snapshot(folder: Path) -> None:
    inline = {"response_format": {"schema": SCHEMA, "name": "place"}}
    write_all(folder, "openai", {}, [inline, FORM, {}])
    (line,) = (line for line in differences(folder) if line["key"])
    assert line["file"] == "snapshots/a/case-0.yaml"
    assert "-    path: answer.json" in line["diff"]


def test_the_entry_of_a_schema_stays_while_another_suite_has_it(folder: Path) -> None:
    (folder / "a.eval.yaml").rename(folder / "b.eval.yaml")
    run(folder, "snapshot", "b.eval.yaml", "--target", "t")
    write_all(folder, "openai", {}, [{}])
    lock = recorded(folder, "files.lock")
    run(folder, "snapshot", "a.eval.yaml", "--target", "t")
    assert recorded(folder, "files.lock") == lock != {}


def test_snapshots_with_all_texts_have_the_schema(folder: Path) -> None:
    run(folder, "snapshot", "a.eval.yaml", "--target", "t", "--inline")
    form = recorded(folder, "a/case-0.yaml")["settings"]["response_format"]
    assert form == {"schema": SCHEMA, "name": "place", "path": "answer.json"}
    assert not (folder / "snapshots/files.lock").exists()


def test_a_schema_of_a_target_is_one_difference_that_names_the_file(folder: Path) -> None:
    write_all(folder, "openai", FORM, [{}, {}, {}])
    run(folder, "snapshot", "a.eval.yaml", "--target", "t")
    write(folder, {"answer.json": dumped(LARGER)})
    (line,) = differences(folder)
    assert line["file"] == "snapshots/target.lock"
    assert re.search(r"\+ +schema: SHA-256 [0-9a-f]{64} of the JSON in answer.json\n", line["diff"])


def test_what_body_adds_is_a_matter_of_privilege(folder: Path) -> None:
    added = {"body": {"logit_bias": {"50256": -100}}}
    words = "body adds to the request: 'logit_bias: {\"50256\":-100}'"
    write_all(folder, "openai", {}, [{**FORM, **added}, FORM, {}])
    done = commands.run("snapshot", "a.eval.yaml", "--target", "t", "--check", folder=folder)
    first = f"change of privilege: {words} (a.eval.yaml: case-0)"
    assert done.stdout.splitlines()[0] == first
    report = ("report", "a.eval.yaml", "--against", "HEAD", "--format", "markdown")
    shown = html.unescape(run(folder, *report))
    assert shown.count(f"Change of privilege: <code>{words}</code>") == 2  # also above all
    run(folder, "snapshot", "a.eval.yaml", "--target", "t")
    write_all(folder, "openai", {}, [FORM, FORM, {}])
    gone = words.replace("adds", "no longer adds")
    done = commands.run("snapshot", "a.eval.yaml", "--target", "t", "--check", folder=folder)
    assert done.stdout.splitlines()[0] == f"change of privilege: {gone} (a.eval.yaml: case-0)"


def test_what_the_body_of_a_new_case_and_of_a_first_target_adds_is_a_matter_of_privilege(
    folder: Path,
) -> None:
    write_all(folder, "openai", {}, [FORM, FORM, {}, {"body": {"own": 1}}])
    options = ("a.eval.yaml", "--target", "t")
    done = commands.run("snapshot", *options, "--check", folder=folder)
    first = "change of privilege: body adds to the request: 'own: 1' (a.eval.yaml: case-3)"
    assert done.stdout.splitlines()[0] == first
    (line, *_) = differences(folder)
    assert (line["kind"], line["what"]) == ("privilege", "body adds to the request: 'own: 1'")
    report = ("report", *options, "--against", "HEAD", "--format", "markdown")
    shown = html.unescape(run(folder, *report))
    said = "Change of privilege: <code>body adds to the request: 'own: 1'</code>"
    assert shown.count(said) == 2  # also above all
    (folder / "snapshots/target.lock").unlink()
    write_all(folder, "openai", {"body": {"own": 2}}, [FORM, FORM, {}])
    done = commands.run("snapshot", *options, "--check", folder=folder)
    assert done.stdout.splitlines()[0] == "change of privilege: body adds to the request: 'own: 2'"


def test_what_the_body_of_a_target_adds_is_a_matter_of_privilege_once(folder: Path) -> None:
    words = "body adds to the request: 'logit_bias: {\"50256\":-100}'"
    write_all(folder, "openai", {"body": {"logit_bias": {"50256": -100}}}, [FORM, FORM, {}])
    found = differences(folder)
    assert [line["kind"] for line in found] == ["privilege", "changed"]
    assert [line["what"] for line in found] == [words, None]
    assert found[0]["key"] == found[1]["key"]
    done = commands.run("snapshot", "a.eval.yaml", "--target", "t", "--check", folder=folder)
    said, listed, heading, *_ = done.stdout.splitlines()
    assert said == f"change of privilege: {words}"
    assert (listed, heading) == ("changed: snapshots/target.lock", "snapshots/target.lock:")
    options = ("snapshot", "a.eval.yaml", "--target", "t", "--check", "--format", "github")
    done = commands.run(*options, folder=folder)
    (line,) = done.stdout.splitlines()
    assert f"::error title=multiturn snapshot --check::change of privilege: {words}%0A" in line
    report = ("report", "a.eval.yaml", "--against", "HEAD", "--target", "t", "--format")
    shown = html.unescape(run(folder, *report, "markdown"))
    assert shown.count("### ") == 1
    assert shown.count(f"Change of privilege: <code>{words}</code>") == 2  # also above all
    lines = records(run(folder, *report, "json"))
    assert [line["causes"] for line in lines] == [["settings of the target t"]] * 3


@pytest.mark.parametrize(
    ("then", "now", "system", "words"),
    [
        (
            *({}, {"system_role": "user"}, ()),
            ["system_role of the target is 'user', and was 'system'"],
        ),
        (
            {"default_system": "omit"},
            {"default_system": "omit", "system_role": "developer"},
            (0,),
            ["system_role of the target is 'developer', and was 'system'"],
        ),
        (
            {"default_system": "omit", "system_role": "user"},
            {},
            (),
            [
                "default_system of the target is 'send', and was 'omit'",
                "system_role of the target is 'system', and was 'user'",
            ],
        ),
    ],
)
def test_where_a_target_sends_system_messages_is_a_matter_of_privilege(
    folder: Path,
    then: dict[str, str],
    now: dict[str, str],
    system: tuple[int, ...],
    words: list[str],
) -> None:
    write_all(folder, "openai", then, [{}], system)
    run(folder, "snapshot", "a.eval.yaml", "--target", "t")
    commit(folder)
    write_all(folder, "openai", now, [{}], system)
    lines = differences(folder)
    assert [line["what"] for line in lines if line["kind"] == "privilege"] == words
    (key,) = {line["key"] for line in lines if line["kind"] == "privilege"}
    done = commands.run("snapshot", "a.eval.yaml", "--target", "t", "--check", folder=folder)
    said = done.stdout.splitlines()
    assert said[: len(words)] == [f"change of privilege: {each}" for each in words]
    report = ("report", "a.eval.yaml", "--against", "HEAD", "--target", "t", "--format")
    shown = html.unescape(run(folder, *report, "markdown"))
    (line,) = records(run(folder, *report, "json"))
    for each in words:
        assert shown.count(f"Change of privilege: <code>{each}</code>") == 2  # also above all
    assert line["privilege_changes"] == words
    run(folder, "snapshot", "a.eval.yaml", "--target", "t", "--accept", key)
    left = differences(folder) if len(lines) > len(words) + 1 else []
    assert "privilege" not in [line["kind"] for line in left]


def test_a_case_without_a_system_message_is_the_same_whatever_a_target_calls_them(
    folder: Path,
) -> None:
    target = {"default_system": "omit"}
    write_all(folder, "openai", target, [{}, {}, {}], system=(2,))
    commit(folder)
    write_all(folder, "openai", {**target, "system_role": "developer"}, [{}, {}, {}], system=(2,))
    report = ("report", "a.eval.yaml", "--against", "HEAD", "--target", "t", "--format", "json")
    lines = {line["id"]: (line["status"], line["causes"]) for line in records(run(folder, *report))}
    changed = ("changed", ["settings of the target t"])
    assert lines == {"case-0": ("same", []), "case-1": ("same", []), "case-2": changed}


def test_a_key_in_the_settings_of_a_target_is_hidden(folder: Path) -> None:
    write_all(folder, "openai", {"body": {"house": "none-of-these, it is"}}, [{}, {}, {}])
    run(folder, "snapshot", "a.eval.yaml", "--target", "t")
    lock = recorded(folder, "target.lock")
    assert lock["settings"]["body"] == {"house": "***, it is"}
    assert lock["example"]["house"] == "***, it is"


def test_ids_that_the_rules_change_are_in_the_snapshot(tmp_path: Path) -> None:
    messages = [
        *HI,
        {"role": "assistant", "tool_calls": [{"id": "a:1", "name": "now", "arguments": {}}]},
        {"role": "tool", "tool_call_id": "a:1", "content": "noon"},
    ]
    case = {"id": "one", "tools": TOOLS, "input_messages": messages}
    write_all(tmp_path, "anthropic", {}, [])
    write(tmp_path, {"a.eval.yaml": json.dumps({"evalcases": [case]})})
    run(tmp_path, "snapshot", "a.eval.yaml", "--target", "t")
    sent = recorded(tmp_path, "a/one.yaml")["sent"]
    assert [message.get("tool_call_id") for message in sent["messages"]][-1] == "a_1"
    assert sent["messages"][2]["tool_calls"][0]["id"] == "a_1"


OWN = {"base_url": "https://api.openai.com/v1", "model_takes": {}}
ROW = {
    "names": ["gpt-4o"],
    "takes": {"seed": "ignored"},
    "rule": "O9",
    "source": "ours",
    "seen": "2026-11-23",
}


def test_a_repair_that_a_setting_of_the_target_requires_is_in_its_lock(tmp_path: Path) -> None:
    def write_seed(seed: int) -> None:
        write_all(tmp_path, "openai", {"seed": seed, **OWN}, [{}, {"seed": 9}])
        targets = json.loads((tmp_path / "targets.yaml").read_text())
        targets["models"] = [ROW]
        write(tmp_path, {"targets.yaml": json.dumps(targets)})

    write_seed(7)
    run(tmp_path, "snapshot", "a.eval.yaml", "--target", "t")
    added = "C9: added the default system message: You are a careful assistant."
    left_out = "O9: left out the seed {}, which the model ignores"
    assert recorded(tmp_path, "target.lock")["repairs"] == [added, left_out.format(7)]
    assert recorded(tmp_path, "a/case-0.yaml")["sent"]["repairs"] == [added]
    assert recorded(tmp_path, "a/case-1.yaml")["sent"]["repairs"] == [added, left_out.format(9)]
    write_seed(8)
    (line,) = differences(tmp_path)
    assert line["file"] == "snapshots/target.lock"


@pytest.mark.parametrize("options", [(), ("--resolve",)], ids=["snapshot", "resolve"])
def test_a_lock_of_the_target_with_a_merge_conflict_is_written_anew(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    write_all(tmp_path, "openai", {"seed": 7}, [{}])
    command = ("snapshot", "a.eval.yaml", "--target", "t")
    run(tmp_path, *command)
    lock = tmp_path / "snapshots/target.lock"
    before = lock.read_text()
    ours = "  seed: 7\n"
    lock.write_text(
        before.replace(ours, f"<<<<<<< HEAD\n{ours}=======\n  seed: 8\n>>>>>>> other\n")
    )
    (line,) = differences(tmp_path)
    assert "\n-<<<<<<< HEAD\n" in line["diff"]
    run(tmp_path, *command, *options)
    assert lock.read_text() == before


@pytest.mark.parametrize("keeps", [True, False])
def test_while_a_lock_of_the_target_has_a_conflict_what_both_sides_have_is_known(
    tmp_path: Path, *, keeps: bool
) -> None:
    added: dict[str, Any] = {"body": {"logprobs": True}, "system_role": "developer"}
    write_all(tmp_path, "openai", {"seed": 7, **added}, [{}])
    run(tmp_path, "snapshot", "a.eval.yaml", "--target", "t")
    lock = tmp_path / "snapshots/target.lock"
    ours = "  seed: 7\n"
    conflict = f"<<<<<<< HEAD\n{ours}=======\n  seed: 8\n>>>>>>> other\n"
    lock.write_text(lock.read_text().replace(ours, conflict))
    write_all(tmp_path, "openai", {"seed": 7, **(added if keeps else {})}, [{}])
    done = commands.run(*("snapshot", "a.eval.yaml", "--target", "t", "--resolve"), folder=tmp_path)
    said = [line for line in done.stdout.splitlines() if line.startswith("change of privilege")]
    gone = [
        "change of privilege: body no longer adds to the request: 'logprobs: true'",
        "change of privilege: system_role of the target is 'system', and was 'developer'",
    ]
    assert said == ([] if keeps else gone)


def test_the_default_system_message_is_one_repair_everywhere(tmp_path: Path) -> None:
    added = "C9: added the default system message: You are a careful assistant."
    write_all(tmp_path, "anthropic", {}, [{}])
    options = ("a.eval.yaml", "--target", "t")
    run(tmp_path, "snapshot", *options)
    assert recorded(tmp_path, "target.lock")["repairs"] == [added]
    assert recorded(tmp_path, "a/case-0.yaml")["sent"] == {"repairs": [added]}
    checked = commands.run("check", *options, folder=tmp_path)
    assert checked.stderr == f"note: a.eval.yaml:1: {added} (a.eval.yaml: case-0)\n"
    run(tmp_path, "report", *options, "--output", "page.html")
    assert json.dumps([added]) in data_of((tmp_path / "page.html").read_text())
    for command in (("convert",), ("run", "--dry-run")):
        (line,) = records(run(tmp_path, *command, *options))
        assert line["repairs"] == [added]
    write_all(tmp_path, "anthropic", {"default_system": "omit"}, [{}])
    # Of the target, and of the prompts that have none now.
    privilege, *files = differences(tmp_path)
    assert privilege["what"] == "default_system of the target is 'omit', and was 'send'"
    case, lock = sorted(files, key=lambda line: line["file"])
    assert "\n-default_system: send\n" in lock["diff"]
    assert "\n+default_system: omit\n" in lock["diff"]
    assert f'-sent:\n-  repairs:\n-    - "{added}"' in case["diff"]
    assert commands.run("check", *options, folder=tmp_path).stderr == ""


@pytest.mark.parametrize("owner", ["target", "case"])
def test_settings_count_in_digests(tmp_path: Path, owner: str) -> None:
    """--against asks the target as it is now for both sides."""

    def write_settings_of(**settings: Any) -> None:
        own = settings if owner == "target" else {}
        write_target(tmp_path, server, model_takes=TAKEN, **own)
        execution = settings if owner == "case" else {}
        case = {"id": "a", "input_messages": HI, "execution": execution}
        write(tmp_path, {"a.eval.yaml": json.dumps({"evalcases": [case]})})

    def asks(*options: str) -> int:
        done = commands.run("run", "a.eval.yaml", "--target", "az", *options, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return int(done.stderr.split(" answered")[0])

    with Server() as server:
        write_settings_of(top_p=0.5, body={"own": {"a": 1}})
        git(tmp_path, "init", "-q")
        commit(tmp_path)
        assert asks("--output", "first.jsonl") == 1
        assert asks("--output", "first.jsonl", "--resume") == 0
        assert asks("--output", "second.jsonl", "--against", "HEAD") == 0
        for top_p, a in ((0.25, 1), (0.5, 2)):
            write_settings_of(top_p=top_p, body={"own": {"a": a}})
            assert asks("--output", "first.jsonl", "--resume") == 1
            of_case = int(owner == "case")
            assert asks("--output", f"{a}.jsonl", "--against", "HEAD") == of_case
