"""check: suites and pipelines, and the rules of a target, offline."""

import json
from pathlib import Path

import pytest

from commands import run
from comparing import write
from multiturn import Conversion, load_pipeline, stage
from multiturn.errors import StageError
from multiturn.pipelines.pipeline import try_out

SUITE = """\
evalcases:
- id: one
  input_messages: [{role: user, content: Hi}]
- id: two
  input_messages: [{role: user, content: Hi}, {role: assistant, content: Yes?}]
"""
BROKEN = """\
evalcases:
- id: one
  input_messages: [{role: usr, content: Hi}]
- id: two
  input_messages: [{role: system, content: Be brief.}]
"""
FILES = {
    "a.eval.yaml": SUITE,
    "moody.eval.yaml": SUITE + "mood: good\n",
    "sub/b.eval.yaml": BROKEN,
    "empty.eval.jsonl": "\n",
    "wrong.yaml": "stages: [embed_file, resolve_segments]",
    "terse.yaml": "extends: spec\nremove: [filter_empty]",
    "no_chat.yaml": "extends: spec\nremove: [consolidate_system]",
    "no_question.yaml": "extends: spec\nremove: [render_question]",
    "house.py": """\
from msgspec.structs import replace
from multiturn import MultiturnError, stage

@stage(requires={"turns"}, provides={"chat"})
def liar(conversion):
    return conversion

@stage(requires={"turns"})
def refuse(conversion):
    raise MultiturnError("no owner")

@stage(requires={"turns"})
def shout(conversion):
    return conversion.map_parts(lambda part: replace(part, text=part.text + "!"))

@stage(requires={"turns"})
def forget(conversion):
    turns = tuple(turn for turn in conversion.turns if turn.role != "tool")
    return conversion.replace(turns=turns)

@stage(requires={"turns"})
def once(conversion):
    assert not any(part.text == "Hi." for turn in conversion.turns for part in turn.parts)
    return conversion.map_parts(lambda part: replace(part, text=part.text + "."))
""",
    "loud.yaml": "extends: spec\ninsert: [{stage: house:shout, after: resolve_segments}]",
    "forget.yaml": "extends: spec\ninsert: [{stage: house:forget, after: resolve_segments}]",
    "call.eval.yaml": """\
input_messages:
- {role: user, content: Hi}
- {role: assistant, tool_calls: [{id: c1, name: now, arguments: {}}]}
- {role: tool, tool_call_id: c1, content: "12:00"}
- {role: user, content: Thanks.}
""",
    "once.yaml": "extends: loud.yaml\nreplace: {shout: house:once}",
    "liar.yaml": "extends: spec\nreplace: {consolidate_system: house:liar}",
    "refusing.yaml": "extends: spec\ninsert: [{stage: house:refuse, after: resolve_segments}]",
    "neither.yaml": "stages: [resolve_segments, embed_files]",
    "targets.yaml": "- {name: claude, provider: anthropic, model: claude-sonnet-4-6,"
    ' default_system: omit, api_key: "${{ CLAUDE_KEY }}"}\n'
    "- {name: new, provider: anthropic, model: claude-9, default_system: omit, api_key: none}\n",
}


def checked(folder: Path, arguments: str) -> tuple[int, list[str], list[str]]:
    """Return the exit code, and the lines of standard output and of standard error."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    done = run("check", *arguments.split(), folder=folder, env={"CLAUDE_KEY": "none"})
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "a.eval.yaml terse.yaml spec",
            [
                "terse.yaml: 5 stages, in a legal order",
                "spec: 6 stages, in a legal order",
                "a.eval.yaml: 2 cases, without errors",
            ],
        ),
        (
            "no_chat.yaml",
            [
                "no_chat.yaml: 5 stages, in a legal order",
                "no_chat.yaml: LLM APIs get no chat prompt, but the question as one user message;"
                " add consolidate_system",
            ],
        ),
        (
            "no_question.yaml",
            [
                "no_question.yaml: 5 stages, in a legal order",
                "no_question.yaml: agents get no question, and so nothing to read; add"
                " render_question",
            ],
        ),
        (
            "refusing.yaml",
            [
                "refusing.yaml: 7 stages, in a legal order",
                "refusing.yaml: a stage refuses the built-in case: no owner",
            ],
        ),
        ("a.eval.yaml --target claude --case one", ["a.eval.yaml: 1 case, without errors"]),
        (
            "a.eval.yaml --target claude --pipeline no_chat.yaml",
            ["a.eval.yaml: 2 cases, without errors"],
        ),
    ],
)
def test_what_has_no_error(tmp_path: Path, arguments: str, said: list[str]) -> None:
    assert checked(tmp_path, arguments) == (0, said, [])


def test_a_text_that_is_attached_as_media_is_noted_once(tmp_path: Path) -> None:
    suite = """\
evalcases:
- {id: a, input: [{role: user, content: [*notes, *gif]}]}
- {id: b, input: [{role: user, content: [*notes, {type: file, value: true.png}]}]}
- {id: c, input: [{role: user, content: [{type: file, value: d.pdf}]}]}
- {id: d, input: [{role: user, content: [{type: file, value: e.bin}]}]}
- {id: said, input: [{role: user, content: [{type: document, value: notes.txt}]}]}
"""
    suite = suite.replace("*notes", "{type: file, value: notes.txt}")
    texts = {
        "x.eval.yaml": suite.replace("*gif", "{type: file, value: gif.md}"),
        "notes.txt": "%PDF-\nis how one begins",
        "gif.md": "GIF89a is old",
        "d.pdf": "%PDF-1.7",
    }
    write(tmp_path, {**texts, "true.png": b"GIF89a\xff\xfe", "e.bin": b"%PDF-\0"})
    done = run("check", "x.eval.yaml", "--strict", folder=tmp_path)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "note: x.eval.yaml:2: 'notes.txt' is attached as a document, by its first bytes,"
        " though all of it is text (x.eval.yaml: a, b)",
        "note: x.eval.yaml:2: 'gif.md' is attached as an image, by its first bytes,"
        " though all of it is text (x.eval.yaml: a)",
    ]


@pytest.mark.parametrize(
    ("arguments", "errors"),
    [
        (
            "sub wrong.yaml",
            [
                'wrong.yaml:1:10: unknown stage "embed_file"; did you mean "embed_files"?',
                "sub/b.eval.yaml:3:27: case 'one': input_messages[0]: there is no role 'usr';"
                ' did you mean "user"?',
                "sub/b.eval.yaml:4: case 'two': there is nothing to answer: no message but the"
                " system's has content; write the user's",
            ],
        ),
        (
            "neither.yaml",
            [
                "neither.yaml: the pipeline gives neither a chat prompt nor a question; add"
                " consolidate_system or render_question"
            ],
        ),
        (
            "liar.yaml",
            [
                "liar.yaml: built-in case: the stage liar declares that it provides chat, which is"
                " not true of what it returned; docs/stages.md says what is true then"
            ],
        ),
        (
            "wrong.yaml a.eval.yaml",
            ['wrong.yaml:1:10: unknown stage "embed_file"; did you mean "embed_files"?'],
        ),
        (
            "moody.eval.yaml --strict",
            ['moody.eval.yaml:6:1: unknown key "mood"; did you mean "mode"?'],
        ),
        ("empty.eval.jsonl --strict", ["empty.eval.jsonl: the suite has no cases; add one"]),
        ("a.eval.yaml --case tow", ["no case 'tow'; did you mean \"two\"?"]),
        ("shiped", ["no pipeline 'shiped'; did you mean \"shipped\"?"]),
    ],
)
def test_each_error_is_a_line(tmp_path: Path, arguments: str, errors: list[str]) -> None:
    assert checked(tmp_path, arguments) == (1, [], errors)


UNSTEADY = (
    "a.eval.yaml:2: the stage {} changes its own result when it runs twice (a.eval.yaml: one, two);"
    " let it leave alone what it has made: a stage knows its own text by part.stage"
)


LEFT = (
    "call.eval.yaml:1: case 'call': the stage forget left a chat in which the call 'c1' has no"
    " result; conversion.drop and conversion.replace_turns keep calls and results together"
)


@pytest.mark.parametrize(
    ("arguments", "errors"),
    [
        ("spec a.eval.yaml --stages", []),
        ("loud.yaml a.eval.yaml --stages", [UNSTEADY.format("shout")]),
        ("once.yaml a.eval.yaml --stages", [UNSTEADY.format("once")]),
        ("loud.yaml a.eval.yaml", []),
        ("a.eval.yaml --stages --pipeline loud.yaml", [UNSTEADY.format("shout")]),
        (
            "refusing.yaml a.eval.yaml --stages",
            ["a.eval.yaml:2: case 'one': no owner", "a.eval.yaml:4: case 'two': no owner"],
        ),
        (  # the one pipeline that is named converts the suites
            "refusing.yaml a.eval.yaml",
            ["a.eval.yaml:2: case 'one': no owner", "a.eval.yaml:4: case 'two': no owner"],
        ),
        ("refusing.yaml a.eval.yaml --pipeline spec", []),
        ("refusing.yaml spec a.eval.yaml", []),
        ("forget.yaml call.eval.yaml", [LEFT]),
        ("forget.yaml spec call.eval.yaml", []),
        ("forget.yaml spec call.eval.yaml --stages", [LEFT]),
    ],
)
def test_stages_are_run_twice_on_the_cases_of_suites(
    tmp_path: Path, arguments: str, errors: list[str]
) -> None:
    code, _, said = checked(tmp_path, arguments)
    assert [line for line in said if " stages, in " not in line and "cases," not in line] == errors
    assert code == bool(errors)


def test_stages_need_a_suite_to_run_on(tmp_path: Path) -> None:
    code, _, said = checked(tmp_path, "loud.yaml --stages")
    assert (code, said[-1]) == (
        *(2, "Error: --stages runs stages on the cases of suites; name a suite, too"),
    )


def test_a_target_adds_its_rules(tmp_path: Path) -> None:
    code, said, (error,) = checked(tmp_path, "a.eval.yaml --target claude")
    assert (code, said) == (1, [])
    rule = "A4: for some models, the last message must not be assistant (Anthropic); "
    assert error.startswith(f"a.eval.yaml:4: case 'two': {rule}")


def test_an_error_of_many_cases_is_said_of_three_and_counted(tmp_path: Path) -> None:
    case = (
        '- {id: c%d, input_messages: [{role: user, content: "%d"}, {role: assistant, content: A}]}'
    )
    write(
        tmp_path,
        FILES | {"a.eval.yaml": "\n".join(["evalcases:", *(case % (n, n) for n in range(9))])},
    )
    done = run("check", "a.eval.yaml", "--target", "claude", folder=tmp_path)
    *examples, more = done.stderr.splitlines()
    assert [line.partition(": A4")[0] for line in examples] == [
        f"a.eval.yaml:{line}: case 'c{line - 2}'" for line in (2, 3, 4)
    ]
    said = examples[0].partition("'c0': ")[2]
    assert more == f"6 more errors with the same words; --debug names each: {said}"
    done = run("check", "a.eval.yaml", "--target", "claude", "--debug", folder=tmp_path)
    assert done.stderr.count("case 'c8'") == 1
    assert "more errors" not in done.stderr
    words = ("a.eval.yaml", "--target", "claude", "--format")
    assert len(run("check", *words, "json", folder=tmp_path).stdout.splitlines()) == 9
    done = run("check", *words, "github", folder=tmp_path)
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == f"{more}\n"
    run("snapshot", "a.eval.yaml", folder=tmp_path)
    done = run("snapshot", *words, "github", "--check", folder=tmp_path)
    (annotation,) = (line for line in done.stdout.splitlines() if "A4" in line)
    assert "a.eval.yaml,line=2::case 'c0': A4" in annotation
    assert annotation.endswith(" (and 8 more with the same words)")


@pytest.mark.parametrize("command", ["check", "convert", "convert --workers 2", "explain"])
def test_a_warning_of_many_cases_is_said_of_three_and_counted(tmp_path: Path, command: str) -> None:
    case = '- {id: c%d, input_messages: [{role: user, content: "%d\u200b"}]}'
    write(tmp_path, {"a.eval.yaml": "\n".join(["evalcases:", *(case % (n, n) for n in range(9))])})
    words = (*command.split(), "a.eval.yaml")
    done = run(*words, folder=tmp_path)
    examples = [line for line in done.stderr.splitlines() if ": warning: " in line]
    assert [line.partition(":")[2].partition(":")[0] for line in examples] == ["2", "3", "4"]
    assert done.returncode == 0
    assert (
        "6 more warnings with the same words; --debug names each:"
        " 1 hidden character: ZERO WIDTH SPACE (1); remove what is not meant"
    ) in done.stderr
    done = run(*words, "--debug", folder=tmp_path)
    assert done.stderr.count(": warning: ") == 9
    assert "more warnings" not in done.stderr


def test_a_log_for_programs_has_each_warning(tmp_path: Path) -> None:
    case = '- {id: c%d, input_messages: [{role: user, content: "%d\u200b"}]}'
    write(tmp_path, {"a.eval.yaml": "\n".join(["evalcases:", *(case % (n, n) for n in range(9))])})
    done = run("convert", "a.eval.yaml", "--log-format", "json", folder=tmp_path)
    assert len(done.stderr.splitlines()) == 9


def test_a_repair_of_many_cases_names_three_of_them(tmp_path: Path) -> None:
    case = "- {id: c%d, input_messages: [{role: user, content: Hi}, {role: user, content: Ho}]}"
    target = "- {name: gem, provider: gemini, model: m, api_key: k}\n"
    suite = "\n".join(["evalcases:", *(case % n for n in range(4))])
    write(tmp_path, {"a.eval.yaml": suite, "targets.yaml": target})
    words = ("check", "a.eval.yaml", "--target", "gem")
    (note,) = (line for line in run(*words, folder=tmp_path).stderr.splitlines() if "G3" in line)
    assert note.endswith("(4 cases, such as a.eval.yaml: c0, c1, c2; --debug names each)")
    (note,) = (
        line for line in run(*words, "--debug", folder=tmp_path).stderr.splitlines() if "G3" in line
    )
    assert note.endswith("(a.eval.yaml: c0, c1, c2, c3)")


def test_what_is_not_known_of_the_targets_model_is_a_warning_and_with_strict_an_error(
    tmp_path: Path,
) -> None:
    doubt = (
        "target 'new': not known whether claude-9 takes a final assistant message;"
        " say model_takes: {final_assistant: true}, or end with a user message"
    )
    code, said, (warning,) = checked(tmp_path, "a.eval.yaml --target new")
    assert (code, said) == (0, ["a.eval.yaml: 2 cases, without errors"])
    assert warning == f"targets.yaml:2:3: warning: {doubt}"
    code, _, (error,) = checked(tmp_path, "a.eval.yaml --target new --strict")
    assert (code, error) == (1, f"targets.yaml:2:3: {doubt}")


def test_verbose_names_a_system_prompt_that_is_replaced(tmp_path: Path) -> None:
    suite = SUITE + "metadata: {systemPrompt: Be kind.}\n"
    (tmp_path / "kind.eval.yaml").write_text(suite)
    (tmp_path / "lead.eval.yaml").write_text(
        suite.replace("[{role: user", "[{role: system, content: Be brief.}, {role: user", 1)
    )
    code, said, log = checked(tmp_path, "kind.eval.yaml lead.eval.yaml -v")
    assert (code, [line.split(": ")[1] for line in said]) == (0, ["2 cases, without errors"] * 2)
    (dropped,) = [line for line in log if "text.dropped" in line]
    assert "lead.eval.yaml:6: case 'one': metadata.systemPrompt" in dropped
    assert "system messages replace it (rule 7)" in dropped


def test_strict_makes_warnings_errors(tmp_path: Path) -> None:
    code, said, (warning,) = checked(tmp_path, "moody.eval.yaml")
    assert (code, said) == (0, ["moody.eval.yaml: 2 cases, without errors"])
    assert warning.startswith('moody.eval.yaml:6:1: warning: unknown key "mood"; ')
    code, _, (error,) = checked(tmp_path, "moody.eval.yaml --strict")
    assert (code, error) == (1, warning.replace("warning: ", ""))


def test_a_suite_that_is_not_there_is_an_error_of_the_command(tmp_path: Path) -> None:
    said = "Error: there is no suite 'none.eval.yaml'; did you mean 'a.eval.yaml'?"
    assert checked(tmp_path, "none.eval.yaml") == (2, [], [said])


def test_an_error_of_no_file_has_none_in_json(tmp_path: Path) -> None:
    code, (line,), _ = checked(tmp_path, "a.eval.yaml --case tow --format json")
    assert (code, json.loads(line)["file"]) == (1, None)


def test_stages_that_ship_are_held_to_their_word_like_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @stage(requires={"files"}, consumes={"files"}, provides={"text"})
    def embed_files(conversion: Conversion) -> Conversion:
        return conversion

    monkeypatch.setattr(embed_files, "__module__", "multiturn_stages.embed_files")
    broken = load_pipeline("spec").replace("embed_files", embed_files)
    with pytest.raises(StageError, match="declares that it provides text, which is not true"):
        try_out(broken)
