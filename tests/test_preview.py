"""--target of the commands that show prompts: the messages as this target gets them."""

import json
from pathlib import Path

import pytest

import commands
from comparing import data_of, write
from layout import write_layout
from loopback import Server
from multiturn import Conversion, ProviderRequest
from multiturn.pipelines.pipeline import request_of
from repositories import commit, git, replace
from running import by_id, records

FILES = {
    "a.eval.yaml": """\
evalcases:
  - id: search
    input_messages:
      - {role: user, content: Find it}
      - {role: tool, content: found}
      - {role: tool, content: twice}
  - id: ends
    input_messages: [{role: user, content: Hi}, {role: assistant, content: Hello}]
""",
    "own.py": """\
class Own:
    name = "own"
    async def invoke(self, request):
        raise AssertionError
""",
    "targets.yaml": """\
targets:
  - {name: gpt, provider: openai, api_key: "${{ NO_KEY }}", model: gpt-4.1}
  - {name: claude, provider: anthropic, api_key: "${{ NO_KEY }}", model: claude-opus-4-6,
     base_url: "${{ NO_ADDRESS }}", max_output_tokens: 50}
  - {name: unset, provider: openai, api_key: none, model: "${{ NO_MODEL }}"}
  - {name: agent, provider: codex}
  - {name: own, provider: "own:Own"}
  - {name: newer, provider: openai, api_key: none, model: gpt-5}
""",
}
DEFAULT = {"role": "system", "content": "You are a careful assistant."}
ADDED = "C9: added the default system message: You are a careful assistant."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, FILES)
    return tmp_path


def run(folder: Path, *arguments: str, code: int = 0) -> str:
    done = commands.run(*arguments, folder=folder)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr * bool(code)


def test_the_request_of_a_shown_case_is_built_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []

    def build(conversion: Conversion) -> ProviderRequest:
        built.append(conversion.case.id)
        return request_of(conversion)

    for module in ("explanation", "record"):
        monkeypatch.setattr(f"multiturn.explaining.{module}.request_of", build)
    run(folder, "convert", "a.eval.yaml", "--target", "gpt")
    assert built == ["search", "ends"]


def test_convert_shows_calls_with_the_ids_that_are_sent(folder: Path) -> None:
    call = {"id": "toolu:1", "name": "now", "arguments": {"zone": "UTC"}}
    messages = [
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "user", "content": "Quick!"},
        {"role": "tool", "tool_call_id": "toolu:1", "content": "noon"},
    ]
    (folder / "a.eval.yaml").write_text(json.dumps({"id": "a", "input_messages": messages}))
    (shown,) = records(run(folder, "convert", "a.eval.yaml", "--target", "claude"))
    assert shown["messages"] == [
        DEFAULT,
        messages[0],
        {"role": "assistant", "content": "", "tool_calls": [{**call, "id": "toolu_1"}]},
        {"role": "tool", "content": "noon", "tool_call_id": "toolu_1"},
        messages[2],
    ]
    assert [repair.partition(":")[0] for repair in shown["repairs"]] == ["C9", "T3", "T2", "A6"]
    assert shown["parameters"] == {"max_tokens": 50, "model": "claude-opus-4-6"}


def test_a_provider_of_ones_own_is_given_calls_only_if_it_takes_them(folder: Path) -> None:
    call = {"id": "c1", "name": "now", "arguments": {"zone": "UTC"}}
    messages = [
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "noon"},
    ]
    block = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    thinks = {"role": "assistant", "content": [block]}
    cases = [
        {"id": "a", "input_messages": messages},
        {"id": "b", "tools": [{"name": "now"}], "input_messages": messages[:1]},
        {"id": "c", "input_messages": [*messages[:1], thinks, *messages[:1]]},
        {"id": "d", "input_messages": messages[:1]},
    ]
    (folder / "a.eval.yaml").write_text(json.dumps({"evalcases": cases}))
    why = "C6: a provider of your own must accept calls to get them; add accepts = {'calls'} to"
    why += " own:Own, if it sends them"
    ask = ("run", "a.eval.yaml", "--target", "own")
    planned = records(commands.run(*ask, "--dry-run", folder=folder).stdout)
    assert [line["action"] for line in planned] == ["refuse", "refuse", "refuse", "send"]
    assert [why in line["error"]["message"] for line in planned[:3]] == [True] * 3
    checked = run(folder, "check", "a.eval.yaml", "--target", "own", code=1)
    assert checked.count(why) == 3
    replace(folder, "own.py", "AssertionError", "NotImplementedError('asked')")
    asked = by_id(commands.run(*ask, folder=folder).stdout)
    assert ["asked" in asked[name]["error"]["message"] for name in "abcd"] == [*[False] * 3, True]
    replace(folder, "own.py", 'name = "own"', 'name = "own"; accepts = {"calls"}')
    planned = records(run(folder, *ask, "--dry-run"))
    assert [line["action"] for line in planned] == ["send"] * 4
    assert json.loads(planned[0]["wire"])["chat_prompt"][-2]["tool_calls"] == [call]


def test_convert_shows_the_messages_and_the_repairs(folder: Path) -> None:
    (shown,) = records(run(folder, "convert", "a.eval.yaml", "--case", "search", "--target", "gpt"))
    assert shown["messages"] == [
        DEFAULT,
        {"role": "user", "content": "Find it"},
        {"role": "user", "content": "[Tool]: found"},
        {"role": "user", "content": "[Tool]: twice"},
    ]
    repair = "O1: sent a tool message as a user message that begins with [Tool]:"
    assert shown["repairs"] == [ADDED, repair, repair]
    assert shown["parameters"] == {"model": "gpt-4.1"}
    assert not {"chat_prompt", "question", "guidelines"} & shown.keys()


@pytest.mark.parametrize(
    "command", [("convert",), ("explain",), ("diff", "--to", "shipped"), ("check",)]
)
def test_a_case_that_the_target_refuses_is_an_error(folder: Path, command: tuple[str, ...]) -> None:
    name, *options = command
    shown = run(folder, name, "a.eval.yaml", *options, "--target", "claude", code=1)
    assert shown.count("a.eval.yaml:7: case 'ends': A4: ") == 1


def test_text_shows_repairs_above_the_messages(folder: Path) -> None:
    shown = run(
        folder, "convert", "a.eval.yaml", "--case", "search", "--target", "claude", "--format=text"
    )
    assert f"a.eval.yaml · search\n  repaired {ADDED}\n  repaired A1: sent a tool" in shown
    assert "user\n  Find it\n\n  [Tool]: found\n\n  [Tool]: twice\n" in shown


def test_explain_keeps_origins_through_repairs(folder: Path) -> None:
    options = ("--case", "search", "--target", "claude")
    shown = run(folder, "explain", "a.eval.yaml", *options)
    assert shown.startswith(f"a.eval.yaml · search · claude\n  repaired {ADDED}\n  repaired A1: ")
    assert (
        "user\n  a.eval.yaml:4\n  | Find it\n  added by rule A1\n  | [Tool]: \n"
        "  a.eval.yaml:5\n  | found\n"
    ).replace("[Tool]: \n", "[Tool]:\n") in shown
    assert "system\n  added by the provider\n  | You are a careful assistant.\n" in shown
    assert "question" not in shown


def test_diff_compares_what_the_target_gets(folder: Path) -> None:
    (folder / "later.eval.yaml").write_text(
        "evalcases:\n  - id: one\n    input_messages:\n      - {role: user, content: Hi}\n"
    )
    options = ("later.eval.yaml", "--to", "shipped")
    assert run(folder, "diff", *options, code=1).endswith("0 same, 1 differ\n")
    assert run(folder, "diff", *options, "--target", "gpt").endswith("1 same, 0 differ\n")


def test_an_agent_shows_its_transcript(folder: Path) -> None:
    write_layout(folder)
    arguments = ("convert", "a.eval.yaml", "--case", "ends", "--target", "agent")
    (shown,) = records(run(folder, *arguments))
    assert shown["messages"] == [{"role": "user", "content": "[User]: Hi\n[Assistant]: Hello"}]


def test_a_provider_of_ones_own_shows_its_request(folder: Path) -> None:
    write_layout(folder)
    arguments = ("convert", "a.eval.yaml", "--case", "ends", "--target", "own")
    (shown,) = records(run(folder, *arguments))
    assert "messages" not in shown
    assert shown["question"] == "[User]: Hi\n[Assistant]: Hello"


def test_only_a_variable_that_shapes_the_body_must_be_set(folder: Path) -> None:
    shown = run(folder, "convert", "a.eval.yaml", "--target", "unset", code=2)
    assert "targets.yaml:5:59: model: the variable NO_MODEL is not set" in shown
    options = ("a.eval.yaml", "--target", "gpt", "--output", "out.jsonl")
    assert "the variable NO_KEY is not set" in run(folder, "run", *options, code=2)


@pytest.mark.parametrize("option", ["--format=openai", "--scheduler=tcp://127.0.0.1:1"])
def test_other_formats_and_clusters_take_no_target(folder: Path, option: str) -> None:
    options = ("a.eval.yaml", "--target", "gpt", "--output", "out", option)
    assert "--target is for the formats json, yaml, text" in run(
        folder, "convert", *options, code=2
    )


def test_several_processes_show_the_same(folder: Path) -> None:
    arguments = ("convert", "a.eval.yaml", "--case", "search", "--target", "gpt")
    assert run(folder, *arguments) == run(folder, *arguments, "--workers", "2")


@pytest.mark.parametrize(
    "command", ["check", "convert", "diff --to design", "explain", "report", "run", "snapshot"]
)
def test_a_targets_file_without_a_target_is_refused(folder: Path, command: str) -> None:
    arguments = (*command.split(), "a.eval.yaml", "--targets", "targets.yaml")
    assert "Error: --targets is for --target; add it" in run(folder, *arguments, code=2)


def test_the_target_of_the_project_is_looked_for_in_the_given_file(folder: Path) -> None:
    (folder / "multiturn.toml").write_text('target = "gpt"\n')
    (folder / "targets.yaml").rename(folder / "others.yaml")
    arguments = ("--case", "ends", "--targets", "others.yaml", "--dry-run")
    assert '"target":"gpt"' in run(folder, "run", "a.eval.yaml", *arguments)


def test_json_of_explain_names_the_target(folder: Path) -> None:
    options = ("--case", "ends", "--target", "gpt", "--format", "json")
    line = json.loads(run(folder, "explain", "a.eval.yaml", *options))
    assert (line["target"], line["repairs"], line["question"]) == ("gpt", [ADDED], [])
    assert [message["role"] for message in line["chat_prompt"]] == ["system", "user", "assistant"]


NOTED = "O1: sent a tool message as a user message that begins with [Tool]:"


@pytest.mark.parametrize("strict", [(), ("--strict",)], ids=["", "--strict"])
def test_check_notes_each_repair_once(folder: Path, strict: tuple[str, ...]) -> None:
    done = commands.run("check", "a.eval.yaml", "--target", "gpt", *strict, folder=folder)
    assert (done.returncode, done.stdout) == (0, "a.eval.yaml: 2 cases, without errors\n")
    assert done.stderr.splitlines() == [
        f"note: a.eval.yaml:2: {ADDED} (a.eval.yaml: search, ends)",
        f"note: a.eval.yaml:2: {NOTED} (a.eval.yaml: search)",
    ]


def test_check_notes_repairs_for_programs_and_pull_requests(folder: Path) -> None:
    arguments = ("check", "a.eval.yaml", "--target", "gpt", "--format")
    _, line = records(run(folder, *arguments, "json"))
    assert (line["severity"], line["line"], line["file"]) == ("note", 2, "a.eval.yaml")
    command = run(folder, *arguments, "github").split("\n")[1]
    assert command.startswith("::notice title=multiturn check,file=a.eval.yaml,line=2::O1: sent")


def test_a_report_compares_what_the_target_gets(folder: Path) -> None:
    git(folder, "init")
    commit(folder)
    arguments = ("report", "a.eval.yaml", "--case", "search", "--against", "HEAD", "--target")
    replace(folder, "targets.yaml", "max_output_tokens: 50", "max_output_tokens: 60")
    page = run(folder, *arguments, "claude", "--format", "markdown")
    assert "1 cause: <code>settings of the target claude</code>" in page
    assert "Pipeline <code>spec for claude</code>" in page
    assert "\n-  max_output_tokens: 50\n+  max_output_tokens: 60\n" in page
    assert "\n-  max_tokens: 50\n+  max_tokens: 60\n" in page
    assert "0 cases changed" in run(folder, *arguments, "gpt", "--format", "markdown")


def test_a_report_shows_a_refusal_and_a_target_that_is_new(folder: Path) -> None:
    targets = (folder / "targets.yaml").read_text()
    (folder / "targets.yaml").unlink()
    git(folder, "init")
    commit(folder)
    (folder / "targets.yaml").write_text(targets)
    arguments = ("report", "a.eval.yaml", "--against", "HEAD", "--target", "claude")
    done = commands.run(*arguments, "--format", "json", folder=folder)
    assert done.returncode == 1
    lines = {line["id"]: line for line in records(done.stdout)}
    assert lines["ends"]["status"] == "failed"
    assert "A4: " in lines["ends"]["error"]
    assert lines["search"]["status"] == "same"


def test_the_page_shows_the_messages_and_repairs_of_the_target(folder: Path) -> None:
    options = ("a.eval.yaml", "--case", "search", "--target", "claude", "--output", "page.html")
    run(folder, "report", *options)
    data = data_of((folder / "page.html").read_text())
    assert '"target":"claude"' in data
    assert "A1: sent a tool message as a user message" in data
    assert '"max_tokens":50' in data


def recorded(folder: Path, case_id: str) -> str:
    return (folder / f"snapshots/a/{case_id}.yaml").read_text()


def test_a_snapshot_has_only_what_the_target_changes(folder: Path) -> None:
    run(folder, "snapshot", "a.eval.yaml", "--target", "gpt")
    assert recorded(folder, "search").endswith(
        """\
input_files: []
sent:
  messages:
    - role: system
      content: You are a careful assistant.
    - role: user
      content: Find it
    - role: user
      content: "[Tool]: found"
    - role: user
      content: "[Tool]: twice"
  repairs:
    - "C9: added the default system message: You are a careful assistant."
    - "O1: sent a tool message as a user message that begins with [Tool]:"
    - "O1: sent a tool message as a user message that begins with [Tool]:"
"""
    )
    only = f'input_files: []\nsent:\n  repairs:\n    - "{ADDED}"\n'
    assert recorded(folder, "ends").endswith(only)
    assert (folder / "snapshots/target.lock").read_text() == (
        '# What the target is sent of a case that only says "Hi"; each snapshot has what is'
        " different.\n---\ntarget: gpt\nprovider: openai\ndefault_system: send\n"
        f'repairs:\n  - "{ADDED}"\nexample:\n  messages:\n'
        "    - role: system\n      content: You are a careful assistant.\n"
        "    - role: user\n      content: Hi\n  model: gpt-4.1\n"
    )
    assert run(folder, "snapshot", "a.eval.yaml", "--check", "--target", "gpt")


def test_a_setting_that_changes_what_goes_out_is_a_difference(folder: Path) -> None:
    (folder / "multiturn.toml").write_text('snapshot_target = "gpt"\n')
    run(folder, "snapshot", "a.eval.yaml")
    assert "sent:" in recorded(folder, "search")
    replace(folder, "targets.yaml", "gpt-4.1", "gpt-4.1, system_role: developer")
    done = commands.run("snapshot", "a.eval.yaml", "--check", folder=folder)
    assert done.returncode == 1
    shown = done.stdout.splitlines()
    privilege = "change of privilege: system_role of the target is 'developer', and was 'system'"
    assert shown[:2] == [privilege, "changed: snapshots/target.lock"]
    assert "-    - role: system" in shown
    assert "+    - role: developer" in shown
    done = commands.run("snapshot", "a.eval.yaml", "--check", "--format", "github", folder=folder)
    [lock] = [line for line in done.stdout.splitlines() if "the target is sent" in line]
    # No line of a suite or the pipeline has changed, so it has no place.
    title = "::error title=multiturn snapshot --check"
    words = "what the target is sent is not as recorded"
    assert lock.startswith(f"{title}::{privilege}%0A{words}:%0A")
    assert "%0A-    - role: system%0A+    - role: developer%0A" in lock


@pytest.mark.parametrize("check", [(), ("--check",)])
@pytest.mark.parametrize("target", [(), ("--target", "newer")])
@pytest.mark.parametrize("part", [("a.eval.yaml",), (".", "--case", "ends")])
def test_a_part_of_the_snapshots_is_of_the_same_target(
    folder: Path, part: tuple[str, ...], target: tuple[str, ...], check: tuple[str, ...]
) -> None:
    write(folder, {"b.eval.yaml": "tests: [{id: other, input: Hi}]\n", ".git/HEAD": ""})
    run(folder, "snapshot", ".", "--target", "gpt")
    lock = folder / "snapshots/target.lock"
    before = lock.read_text()
    assert run(folder, "snapshot", *part, *target, *check, code=2) == (
        "Error: snapshots/target.lock: the snapshots are of the target 'gpt': name it with"
        " --target, or run this for all suites and cases\n"
    )
    assert lock.read_text() == before
    run(folder, "snapshot", *part, *check, "--target", "gpt")
    (folder / "b.eval.yaml").unlink()  # its snapshot goes, too
    run(folder, "snapshot", ".", *target)
    assert lock.exists() is bool(target)


def test_a_report_shows_what_the_target_of_the_snapshots_gets(folder: Path) -> None:
    before = run(folder, "report", "a.eval.yaml", "--format", "markdown", "--target", "gpt")
    plain = run(folder, "report", "a.eval.yaml", "--format", "markdown")
    (folder / "multiturn.toml").write_text('snapshot_target = "gpt"\n')
    assert run(folder, "report", "a.eval.yaml", "--format", "markdown") == before != plain


def differences_of(folder: Path) -> list[tuple[str, int]]:
    """Return the key of each difference of a page, and the number of its cases."""
    run(folder, "report", "a.eval.yaml", "--against", "HEAD", "--output", "r.html")
    head = json.loads(data_of((folder / "r.html").read_text()).strip("\n").split("\n")[-1])
    return [(each["key"], len(each["cases"])) for each in head["differences"]]


def test_a_page_has_the_keys_of_a_check_also_for_a_target(folder: Path) -> None:
    (folder / "multiturn.toml").write_text('snapshot_target = "gpt"\n')
    git(folder, "init", "-q")
    run(folder, "snapshot", "a.eval.yaml")
    commit(folder)
    replace(folder, "a.eval.yaml", "Find it", "Find them")
    done = commands.run("snapshot", "a.eval.yaml", "--check", "--format", "json", folder=folder)
    (line,) = map(json.loads, done.stdout.splitlines())
    assert differences_of(folder) == [(line["key"], 1)]
    replace(folder, "a.eval.yaml", "Find them", "Find it")
    replace(folder, "targets.yaml", "gpt-4.1", "gpt-5")
    done = commands.run("snapshot", "a.eval.yaml", "--check", "--format", "json", folder=folder)
    (line,) = map(json.loads, done.stdout.splitlines())
    assert line["file"] == "snapshots/target.lock"
    assert differences_of(folder) == [(line["key"], 2)]


def test_a_temperature_of_a_case_is_in_its_snapshot(folder: Path) -> None:
    warm = "evalcases:\n  - id: one\n    execution: {temperature: 0.5}\n"
    (folder / "a.eval.yaml").write_text(f"{warm}    input_messages: [{{role: user, content: Hi}}]")
    run(folder, "snapshot", "a.eval.yaml", "--target", "gpt")
    assert "\nsettings:\n  temperature: 0.5\nquestion: Hi\n" in recorded(folder, "one")


def test_without_a_target_there_is_no_lock_of_one(folder: Path) -> None:
    run(folder, "snapshot", "a.eval.yaml", "--target", "gpt")
    run(folder, "snapshot", "a.eval.yaml")
    assert not (folder / "snapshots/target.lock").exists()
    assert "sent:" not in recorded(folder, "search")


def test_a_refused_case_has_no_new_snapshot(folder: Path) -> None:
    shown = run(folder, "snapshot", "a.eval.yaml", "--target", "claude", code=1)
    assert "a.eval.yaml:7: case 'ends': A4: " in shown
    assert not (folder / "snapshots/a/ends.yaml").exists()
    assert "A1: sent a tool message" in recorded(folder, "search")


def test_an_agent_adds_nothing_to_a_snapshot_but_what_it_reads_around(folder: Path) -> None:
    run(folder, "snapshot", "a.eval.yaml", "--target", "agent")
    assert "sent:" not in recorded(folder, "ends")


def test_run_counts_the_prompts_that_were_repaired(folder: Path) -> None:
    with Server() as server:
        target = f'{{name: own, provider: openai, base_url: "{server.url}", model: m,'
        target += " model_takes: {final_assistant: true}}"
        (folder / "targets.yaml").write_text(f"targets:\n  - {target}\n")
        options = ("a.eval.yaml", "--target", "own", "--output", "out.jsonl")
        done = commands.run("run", *options, folder=folder, env={"NO_PROXY": "127.0.0.1"})
    summary = "2 answered, 0 reused, 0 failed, 0 retried: out.jsonl; 2 sent with repairs: C9, O1\n"
    assert (done.returncode, done.stderr.startswith(summary)) == (0, True)


def test_causes_are_undone_with_the_target(folder: Path) -> None:
    git(folder, "init")
    commit(folder)
    suite = "execution: {max_output_tokens: 70}\n" + FILES["a.eval.yaml"].replace("twice", "again")
    (folder / "a.eval.yaml").write_text(suite)
    arguments = ("report", "a.eval.yaml", "--case", "search", "--against", "HEAD", "--format")
    messages = "a.eval.yaml line 7: the messages of 'search'"
    (line,) = records(run(folder, *arguments, "json", "--target", "claude"))
    assert line["causes"] == [messages, "settings of a.eval.yaml"]
    (line,) = records(run(folder, *arguments, "json"))
    assert line["causes"] == [messages, "settings of a.eval.yaml"]


VARIABLE = "model: claude-opus-4-6"


def test_a_report_compares_targets_whose_variables_are_in_an_env_file_of_today(
    folder: Path,
) -> None:
    replace(folder, "targets.yaml", VARIABLE, 'model: "${{ MODEL_NAME }}"')
    write(folder, {".gitignore": ".env\n", ".env": "MODEL_NAME=claude-opus-4-6\n"})
    git(folder, "init")
    commit(folder)
    replace(folder, "targets.yaml", "max_output_tokens: 50", "max_output_tokens: 60")
    arguments = ("report", "a.eval.yaml", "--case", "search", "--against", "HEAD", "--target")
    page = run(folder, *arguments, "claude", "--format", "markdown")
    assert "\n-  max_tokens: 50\n+  max_tokens: 60\n" in page
    assert "as it is now" not in page


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (VARIABLE, 'model: "${{ GONE }}"', "the variable GONE is not set"),
        (VARIABLE, "model: [", "not YAML"),
        ("name: claude", "name: other", "no target 'claude'"),
    ],
    ids=["unset", "broken", "missing"],
)
def test_a_report_says_that_a_target_is_not_shown_as_it_was(
    folder: Path, old: str, new: str, why: str
) -> None:
    good = (folder / "targets.yaml").read_text()
    replace(folder, "targets.yaml", old, new)
    git(folder, "init")
    commit(folder)
    (folder / "targets.yaml").write_text(good)
    arguments = ("report", "a.eval.yaml", "--case", "search", "--against", "HEAD", "--target")
    page = run(folder, *arguments, "claude", "--format", "markdown")
    assert why in page
    assert "the prompts of that time are shown for the target as it is now" in page


def test_an_address_that_decides_whose_rules_hold_must_be_known(folder: Path) -> None:
    replace(folder, "targets.yaml", "model: gpt-4.1", 'model: o3, base_url: "${{ NO_ADDRESS }}"')
    shown = run(folder, "convert", "a.eval.yaml", "--target", "gpt", code=2)
    assert "base_url: the variable NO_ADDRESS is not set; set it, or write it into .env" in shown
