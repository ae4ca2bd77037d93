"""``multiturn run --dry-run``: what would go out, and what is wrong with it."""

import json
import re
from pathlib import Path

import pytest

from commands import read_terminal
from loopback import Server
from running import records, run, write_suite, write_target

TARGETS = """\
- {name: az, provider: azure, endpoint: "http://127.0.0.1:1", api_key: abcdef, model: gpt-x}
- {name: claude, provider: anthropic, api_key: abcdef, model: claude-opus-4-6}
- {name: gem, provider: gemini, api_key: abcdef, model: gemini-2.5-flash}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "targets.yaml").write_text(TARGETS)
    return tmp_path


def talk(folder: Path, *roles: str) -> None:
    """Write a suite with one case ``c`` of messages with these roles."""
    listed = [{"role": role, "content": f"I am {role}"} for role in roles]
    case = {"id": "c", "input_messages": listed}
    (folder / "a.eval.yaml").write_text(json.dumps({"evalcases": [case]}))


def test_it_shows_the_very_body_that_is_later_sent_and_recorded(
    folder: Path, server: Server
) -> None:
    write_target(folder, server, temperature=0.25)
    write_suite(folder, ['Grüße, 世界 🎉\u2028 "quoted" \\ </b> \t\u0001 end'])
    done = run("a.eval.yaml", "--target", "az", "--dry-run", "--output", "out", folder=folder)
    (line,) = records(done.stdout)
    assert (done.returncode, line["action"], line["error"]) == (0, "send", None)
    assert (line["suite"], line["id"], line["target"]) == ("a.eval.yaml", "c0", "az")
    assert server.requests == []
    assert not (folder / "out").exists()
    done = run("a.eval.yaml", "--target", "az", "--record-wire", folder=folder)
    assert [request.body for request in server.requests] == [line["wire"].encode()]
    assert server.requests[0].body == records(done.stdout)[0]["wire"].encode()


def test_each_repair_is_named_by_its_rule(folder: Path) -> None:
    talk(folder, "user", "tool", "assistant", "user")
    for target, rules in (("az", {"C9", "O1"}), ("claude", {"C9", "A1", "A6"})):
        done = run("a.eval.yaml", "--target", target, "--dry-run", folder=folder)
        (line,) = records(done.stdout)
        assert (line["action"], line["error"]) == ("send", None)
        assert {repair.partition(":")[0] for repair in line["repairs"]} == rules


@pytest.mark.parametrize(
    ("target", "roles", "rules"),
    [
        pytest.param("gem", ["assistant", "user"], ["G4"], id="the wrong start"),
        pytest.param(
            *("claude", ["system", "user", "system", "assistant"], ["A1", "A4"]), id="two rules"
        ),
    ],
)
def test_a_case_that_breaks_rules_is_refused_and_each_is_named(
    folder: Path, target: str, roles: list[str], rules: list[str]
) -> None:
    talk(folder, *roles)
    (folder / "keep.yaml").write_text(
        "extends: spec\nconfigure: {consolidate_system: {later_system: keep}}\n"
    )
    arguments = ("a.eval.yaml", "--target", target, "--dry-run", "--pipeline", "keep.yaml")
    done = run(*arguments, folder=folder)
    (line,) = records(done.stdout)
    assert (done.returncode, line["action"], line["wire"]) == (1, "refuse", None)
    assert done.stderr.startswith(line["error"]["message"])
    assert all(f"{rule}:" in done.stderr for rule in rules)


def test_what_cannot_be_converted_is_refused_and_the_others_are_shown(folder: Path) -> None:
    (folder / "a.eval.yaml").write_text(
        "evalcases:\n"
        "  - {id: lost, input_messages: [{role: user, content: [{type: file, value: no.txt}]}]}\n"
        "  - {id: broken, input_messages: 3}\n"
        "  - {id: fine, input_messages: [{role: user, content: Hello}]}\n"
    )
    done = run("a.eval.yaml", "--dry-run", folder=folder)
    lost, fine = records(done.stdout)
    assert (done.returncode, lost["action"], fine["action"]) == (1, "refuse", "send")
    assert lost["error"]["type"] == "conversion"
    assert "a.eval.yaml:3:" in done.stderr


def test_a_stored_result_is_reused_and_a_changed_case_is_sent(folder: Path) -> None:
    write_suite(folder, ["one", "two"])
    output = ("--output", "out.jsonl")
    run("a.eval.yaml", *output, folder=folder)
    stored = (folder / "out.jsonl").read_bytes()
    write_suite(folder, ["one", "TWO", "three"])
    done = run("a.eval.yaml", *output, "--resume", "--dry-run", folder=folder)
    actions = {line["id"]: line["action"] for line in records(done.stdout)}
    assert actions == {"c0": "reuse", "c1": "send", "c2": "send"}
    assert (folder / "out.jsonl").read_bytes() == stored


TWO = """\
evalcases:
  - id: hello
    input_messages:
      - {role: user, content: "Hello, what can you do for me?"}
      - {role: user, content: "Anyone?"}
  - id: lost
    input_messages: [{role: user, content: [{type: file, value: none.txt}]}]
"""
TARGET = "{name: t, provider: anthropic, api_key: k, model: m, max_output_tokens: 9}"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_for_reading_it_is_a_table_with_a_sum(folder: Path, is_terminal: bool) -> None:
    """At $100,000 for a million, ten tokens are a dollar."""
    (folder / "targets.yaml").write_text(f"[{TARGET}]")
    (folder / "prices.yaml").write_text("m: {input: 100000, output: 1}")
    (folder / "a.eval.yaml").write_text(TWO)
    given = ("a.eval.yaml", "--target", "t", "--dry-run", "--prices", "prices.yaml")
    if is_terminal:
        shown = read_terminal("run", *given, folder=folder, stream="stdout").replace("\r", "")
    else:
        shown = run(*given, "--format", "text", folder=folder).stdout
    (dollars, cents) = re.findall(r"(\d)(\d) ", shown)[0]
    assert shown == (
        "case       input tokens  input cost  repairs\n"
        f"hello      {dollars}{cents}            ${dollars}.{cents}0       C9, A6\n"
        "lost       refused\n"
        f"1 request  about {dollars}{cents}      ${dollars}.{cents}0\n"
        "C9: added the default system message: You are a careful assistant.\n"
        "A6: merged 2 neighboring user messages\n"
    )


def test_the_table_names_targets_and_repeats_where_there_are_several(folder: Path) -> None:
    """At $100,000 for a million, ten tokens are a dollar; of the other model, no price is known."""
    other = "{name: u, provider: openai, api_key: k, model: n}"
    (folder / "targets.yaml").write_text(f"[{TARGET}, {other}]")
    (folder / "prices.yaml").write_text("m: {input: 100000, output: 1}")
    talk(folder, "user")
    given = ("--target=t", "--target=u", "--repeat=2", "--dry-run", "--prices=prices.yaml")
    done = run("a.eval.yaml", *given, "--format", "text", folder=folder)
    _, *rows, total = (line.split("  ") for line in done.stdout.splitlines() if "C9:" not in line)
    assert [row[0] for row in rows] == ["t · 1", "t · 2", "u · 1", "u · 2"]
    assert ["$" in "".join(row) for row in rows] == [True, True, False, False]
    assert total[0] == "4 requests"


def test_a_dry_run_needs_no_key(folder: Path) -> None:
    target = "{name: t, provider: openai, api_key: '${{ NO_SUCH_KEY }}', model: gpt-x}"
    (folder / "targets.yaml").write_text(f"[{target}]")
    talk(folder, "user")
    done = run("a.eval.yaml", "--target", "t", "--dry-run", folder=folder)
    assert (done.returncode, records(done.stdout)[0]["action"]) == (0, "send")
    done = run("a.eval.yaml", "--target", "t", folder=folder)
    assert done.returncode == 2
    assert "the variable NO_SUCH_KEY is not set" in done.stderr
