"""Whatever a reader would not see is shown by its code: in a snapshot, on a page, on a terminal."""

import json
import unicodedata
from pathlib import Path

import click
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from browser import Reader, open_browser
from commands import run
from comparing import write
from multiturn.documents.dump import dump
from multiturn.explaining.record import to_json
from multiturn.text import unseen, visible

# Each is between two letters where it is tested.
HIDDEN = [
    *("\u200b", "\u200d", "\u200c", "\u00ad", "\u034f", "\u202e", "\u2066", "\u2064", "\ufeff"),
    *("\ufe00", "\ufe0f", "\U000e0101", "\U000e0069", "\u3164", "\uffa0", "\u115f", "\u180b"),
    *(
        "\u17b4",
        "\u2800",
        "\U0001d173",
        "\U0001bca0",
        "\ue000",
        "\ufffc",
        "\u2028",
        "\x1b",
        "\x9b",
        "\x7f",
    ),
]
SHOWN = {
    "letters": "naïve Ünï 日本語 → العربية",
    "emoji of several": "👩🏽‍💻 👨‍👩‍👧 ❤️ ☎️ ©️",
    "keycap": "1️⃣ #️⃣",
    "Persian with a non-joiner": "می‌خواهم",
    "Hindi with a joiner": "क्‍ष",
    "spaces": "a\u00a0b\u3000c",
    "tab and line": "a\tb\nc",
}


@pytest.mark.parametrize(
    "sign", HIDDEN, ids=lambda sign: unicodedata.name(sign, f"U+{ord(sign):X}")
)
def test_a_sign_that_nobody_sees_is_an_escape(sign: str) -> None:
    """In snapshots and in JSON, and a code on a terminal."""
    code = ord(sign)
    escape = f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
    assert dump({"content": f"a{sign}b"}) == f'---\ncontent: "a{escape}b"\n'
    assert visible(f"a{sign}b") == (f"a\\x{code:02x}b" if code < 256 else f"a{escape}b")
    line = to_json({sign: f"a{sign}b"}).decode()
    assert unseen().search(line) is None
    assert json.loads(line) == {sign: f"a{sign}b"}


@pytest.mark.parametrize("text", SHOWN.values(), ids=SHOWN)
def test_what_makes_a_word_or_an_emoji_stays(text: str) -> None:
    assert unseen().search(text) is None
    assert visible(text) == text
    assert to_json([text]).decode() == json.dumps([text], ensure_ascii=False) + "\n"


def test_only_an_emoji_keeps_what_stands_behind_it() -> None:
    assert unseen().findall("a\ufe0f\u200d©") == ["\ufe0f", "\u200d"]
    assert unseen().findall("\u2800\ufe0f") == ["\u2800", "\ufe0f"]
    assert to_json("©a\ufe0f").decode() == '"©a\\ufe0f"\n'


@given(st.text(st.sampled_from('a \n\t"\\\u200b\r\U000e0069#:-|'), min_size=1))
@example('Pay:\n  the\u200b "bill" \n\n\tnow \\\n')
def test_a_text_in_quotes_reads_as_it_was(text: str) -> None:
    written = dump({"a": [{"b": text}]})
    assert yaml.safe_load(written) == {"a": [{"b": text}]}
    inner = text.strip("\n")
    assert written.count("\n") >= inner.count("\n")  # also in quotes, a line is a line


SIGNS = "\u202e\u200b\U000e0041"
CODES = r"\u202e\u200b"
CASE = f"""\
evalcases:
  - id: "x{SIGNS}"
    input_messages: [{{role: user, content: ["{SIGNS}", {{type: file, value: p.yaml}}]}}]
"""
COMMANDED = {
    "s.eval.yaml": CASE,
    "bad.eval.yaml": CASE.replace("user", f'"{SIGNS}"'),
    "p.yaml": f'extends: spec\nconfigure: {{embed_files: {{header: "{SIGNS}"}}}}\n',
    "bad.yaml": f'extends: "{SIGNS}"\n',
}


@pytest.mark.parametrize(
    "command",
    [
        *("convert s.eval.yaml --format json", "convert s.eval.yaml --format text"),
        *("convert bad.eval.yaml", "convert bad.eval.yaml --debug", "check bad.yaml"),
        *("explain s.eval.yaml", "diff s.eval.yaml --to p.yaml", "stages p.yaml"),
        *("run s.eval.yaml", "run s.eval.yaml --format text", "run s.eval.yaml --dry-run"),
    ],
)
def test_no_command_prints_what_nobody_sees(tmp_path: Path, command: str) -> None:
    for name, text in COMMANDED.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = run(*command.split(), folder=tmp_path)
    assert unseen().search(done.stdout + done.stderr) is None
    assert CODES in done.stdout + done.stderr


def test_a_page_shows_the_same(tmp_path: Path) -> None:
    content = "|".join([*(f"a{sign}b" for sign in HIDDEN), *SHOWN.values()])
    messages = [{"role": "user", "content": content}]
    (tmp_path / "s.eval.yaml").write_text(dump({"input_messages": messages}), encoding="utf-8")
    assert run("report", "s.eval.yaml", "--output", "r.html", folder=tmp_path).returncode == 0
    shown = "|".join([*(f"aU+{ord(sign):04X}b" for sign in HIDDEN), *SHOWN.values()])
    with open_browser() as browser:
        reader = Reader(browser)
        assert reader.open(tmp_path / "r.html").locator(".turn .text").text_content() == shown
    assert reader.errors == []


NAME = "a\x1b[31m\u202eb\nforged: ok"  # of a file, and of a folder
SHOWN_NAME = "a\\x1b[31m\\u202eb\\nforged: ok"
COMMANDS = [
    *("list .", "list SUITE", "check .", "check SUITE", "check PIPELINE", "check --target echo ."),
    *("check BROKEN", "convert --format text .", "explain .", "run --format text ."),
    *("run . --output OUTPUT", "run . --output OUTPUT", "run . --output OUTPUT --resume"),
    *("run . --dry-run --resume --output OUTPUT", "diff --from spec --to design ."),
    *("convert . --output OUTPUT/x", "report . --output OUTPUT.html", "snapshot . --dir FOLDER"),
    *(
        "snapshot . --dir FOLDER --check",
        "snapshot . --dir FOLDER --check --all",
        "stages PIPELINE",
    ),
    *("batch status OUTPUT", "batch cancel OUTPUT", "init SUITE", "list SUITE.gone", "init"),
    *("run . --output OUTPUT --batch", "run . --target gpt --targets OUTPUT"),
    "stages SUITE",
]


def test_the_name_of_a_file_forges_no_line_and_controls_no_terminal(tmp_path: Path) -> None:
    user = "{role: user, content: [{type: file, value: n.txt}, Hi]}"
    messages = f"[{user}, {{role: assistant, content: Ho}}]"
    paths = {
        "SUITE": f"{NAME}.eval.yaml",
        "PIPELINE": f"{NAME}.yaml",
        "OUTPUT": f"{NAME}.jsonl",
        "FOLDER": NAME,
        "BROKEN": f"broken/{NAME}.yaml",
    }
    files = {
        paths["SUITE"]: f"evalcases: [{{id: a, input_messages: {messages}}}]",
        paths["PIPELINE"]: "extends: spec\nremove: [render_question]",
        paths["BROKEN"]: "evalcases: [{id: a}]",
        ".git/HEAD": "",
        "n.txt": "x",
    }
    write(tmp_path, files)
    seen = ""
    for command in COMMANDS:
        words = [
            next((word.replace(key, path) for key, path in paths.items() if key in word), word)
            for word in command.split()
        ]
        if "--check" in words:
            write(tmp_path, {"n.txt": "y"})
        done = run(*words, folder=tmp_path)
        shown = click.unstyle(done.stdout) + done.stderr
        seen += shown
        assert "\x1b" not in shown, command
        assert "\u202e" not in shown, command
        assert not [line for line in shown.split("\n") if line.startswith("forged")], command
    assert seen.count(SHOWN_NAME) > len(COMMANDS)
