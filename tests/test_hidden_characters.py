# ruff: noqa: RUF001 - texts of many scripts
"""Characters that nobody sees: found in all that reaches a prompt, unless Unicode has a use."""

import json
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import emoji
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from browser import Reader, open_browser
from commands import run
from comparing import write
from limits import limited
from multiturn.hidden import hidden_in
from repositories import commit, git

TEXTS = {
    "Arabic": "مرحبا بكم، هذا نص عربي\u200f. (مثال)",
    "Persian": "می‌خواهم کتاب‌ها را بخوانم.",
    "Hebrew": "שלום\u200f! (דוגמה) עולם",
    "Hindi": "क्‍ष और न्‌त: नमस्ते दुनिया",
    "Bengali": "উৎসব এবং ক্‌ষ, র্‍য",
    "Malayalam": "അവന്‍ പറഞ്ഞു, നന്‍മ",
    "Sinhala": "ශ්‍රී ලංකාව",
    "Tamil": "தமிழ் ஒரு மொழி.",
    "Thai": "สวัสดีชาวโลก",
    "Khmer": "សួស្តី ពិភពលោក",
    "Chinese": "你好，世界。",
    "Japanese": "こんにちは、世界。カタカナも、A\u200e。",
    "Korean": "안녕하세요 세계",
    "Greek": "Καλημέρα κόσμε.",
    "Russian": "Привет, мир!",
    "Amharic": "ሰላም ለዓለም።",
    "Armenian": "Բարեւ աշխարհ։",
    "Latin": "naïve café, Straße, ¿qué? Tiếng Việt",
    "emoji": "👩🏽‍💻 👨‍👩‍👧‍👦 ❤️ ☎︎ ⌚️ 1️⃣ #️⃣ ©️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏳️‍🌈 🇪🇺",
    "variants": "0︀ ≨︀ 。︀ ᠠ᠋ 凞︀",
}
NEVER = [
    *(chr(code) for code in range(0xE0000, 0xE0080)),  # tags
    *(chr(code) for code in range(0xE0100, 0xE01F0)),  # variation selectors 17 to 256
    *(chr(code) for code in range(0xFE03, 0xFE0E)),
    *("\u200b", "\u2060", "\ufeff", "\u034f", "\u3164", "\u180e", "\u2063", "\U0001d173"),
    *(chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))),
]
LETTERS = [name for name in TEXTS if name not in ("emoji", "variants")]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_as_people_write_it_has_none(text: str) -> None:
    assert hidden_in(text) == ()


def test_no_emoji_of_unicode_has_one() -> None:
    """The package has all of emoji-test.txt, in each form with and without selectors."""
    assert len(emoji.EMOJI_DATA) > 5000
    assert [each for each in emoji.EMOJI_DATA if hidden_in(f"a{each}b {each}")] == []


@given(st.sampled_from([*TEXTS.values()]), st.sampled_from(NEVER), st.randoms())
@settings(max_examples=500, deadline=None)
def test_what_is_never_of_use_is_found_anywhere(text: str, sign: str, random: object) -> None:
    at = random.randint(0, len(text))  # type: ignore[attr-defined]
    assert hidden_in(text[:at] + sign + text[at:]), (text, at)


def is_in_emoji(text: str, at: int) -> bool:
    """Return whether a character is in any sequence of Unicode's: slow, and nothing else."""
    starts, ends = range(max(at - 9, 0), at + 1), range(at + 1, at + 11)
    return any(text[start:end] in emoji.EMOJI_DATA for start in starts for end in ends)


@given(st.sampled_from([*TEXTS.values()]), st.sampled_from("\u200d\ufe0e\ufe0f"), st.randoms())
@settings(max_examples=500, deadline=None)
def test_joiners_and_selectors_are_found_where_they_make_nothing(
    text: str, sign: str, random: object
) -> None:
    at = random.randint(0, len(text))  # type: ignore[attr-defined]
    before, text = text[:at][-1:], text[:at] + sign + text[at:]
    if sign == "\u200d":
        has_use = before != "" and unicodedata.combining(before) == 9  # a virama
    else:
        has_use = bool(before) and (
            "variant" in emoji.EMOJI_DATA.get(before, {}) or before in "0123456789#*"
        )
    if not has_use and not is_in_emoji(text, at):
        assert at in hidden_in(text)
    elif not hidden_in(text[: at + 1] + " "):
        assert at not in hidden_in(text)


@given(st.sampled_from(LETTERS), st.sampled_from("\u200e\u200f\u061c\u200c"), st.randoms())
@settings(max_examples=500, deadline=None)
def test_marks_and_non_joiners_are_found_beside_other_letters(
    script: str, sign: str, random: object
) -> None:
    text = TEXTS[script].translate(dict.fromkeys(map(ord, "\u200c\u200d\u200e\u200f")))
    at = random.randint(0, len(text))  # type: ignore[attr-defined]
    beside = text[max(at - 1, 0) : at + 1]
    if sign == "\u200c":
        # More than RFC 5892 has: other tests look at letters of these scripts.
        has_use = any(
            "\u0600" <= each <= "\u0dff" or unicodedata.combining(each) == 9 for each in beside
        )
    else:
        is_right = [
            each.isalpha() and ("\u0590" <= each <= "\u06ff" or "\ufb1d" <= each <= "\ufdff")
            for each in beside
        ]
        is_left = [
            each.isalpha() and not right for each, right in zip(beside, is_right, strict=True)
        ]
        has_use = any(is_left if sign == "\u200e" else is_right)
    found = hidden_in(text[:at] + sign + text[at:])
    assert has_use or at in found
    assert sign == "\u200c" or not has_use or at not in found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("❤\ufe0f\ufe0f", (2,), id="a second selector"),
        pytest.param("❤\ufe0e\ufe0f", (2,), id="two different selectors"),
        pytest.param("a\ufe0f", (1,), id="a selector after a letter"),
        pytest.param("0\ufe00\ufe00", (2,), id="a standardized variant, and one more"),
        pytest.param("≨\ufe01", (1,), id="another variant than is standardized"),
        pytest.param("葛\U000e0100", (1,), id="an ideographic variant"),
        pytest.param("👩\u200d👩", (1,), id="a pair that is no emoji"),
        pytest.param("👩\u200d💻\u200d", (3,), id="a joiner after an emoji"),
        pytest.param("🏴\U000e0067\U000e007f", (1, 2), id="a flag of no region"),
        pytest.param("א\u200f\u061c\u200f\u061cא", (2, 3), id="marks beside marks"),
        pytest.param("\n\u200d\n\u200c", (1, 3), id="joiners beside line breaks"),
        pytest.param("د\u200cد", (1,), id="a non-joiner after a letter that joins nothing"),
        pytest.param("x" * 10_000 + "کتاب\u200cها", (), id="far into a long text"),
        pytest.param("\u200b" * 5_000, tuple(range(1_000)), id="the first thousand"),
    ],
)
def test_these_are_found(text: str, found: tuple[int, ...]) -> None:
    assert hidden_in(text) == found


SUITE = """\
guideline_patterns: ["*.rules.md"]
guidelines: ["Given\u2060 here."]
metadata: {systemPrompt: "You\ufe0f help."}
tools:
  - {name: w, description: "Say\u200d", parameters: {type: object, properties: {"c\u200bty": {}}}}
execution: {stop: ["x\u200b"], body: {user: "a\u200b"}}
evalcases:
  - id: a
    input_messages:
      - role: user
        content:
          - type: text
            value: |
              First line.
              Second \u200bline "x"\u200b and\u202e more.
          - {type: file, value: notes.md}
          - {type: file, value: "tone.rules.md"}
          - "an escape: \\u200b"
      - {role: assistant, tool_calls: [{id: c, name: w, arguments: {city: "P\u200baris"}}]}
      - {role: tool, tool_call_id: c, content: "\u200bHot."}
  - id: b
    input_messages: [{role: user, content: [{type: file, value: notes.md}, Hi]}]
"""
FILES = {
    "s.eval.yaml": SUITE,
    "notes.md": "One\n  two\u200b three\n",
    "tone.rules.md": "Be \U000e0041\U000e0042\U000e0041nice.\n",
}
ADVICE = "; remove what is not meant, and say what is by "
MEANT = f"{ADVICE}hidden_characters: allow"
FILE_MEANT = f"{ADVICE}allow_hidden_characters of multiturn.toml"
FIRST = "case 'a': input_messages[0].content"
SPACE = "1 hidden character: ZERO WIDTH SPACE (1)"
WARNINGS = {
    "s.eval.yaml:2:20": f"guidelines[0]: 1 hidden character: WORD JOINER (1){MEANT}",
    "s.eval.yaml:3:30": (
        f"metadata.systemPrompt: 1 hidden character: VARIATION SELECTOR-16 (1){MEANT}"
    ),
    "s.eval.yaml:5:32": (
        "tools[0]: 2 hidden characters: ZERO WIDTH JOINER (1), ZERO WIDTH SPACE (1)" + MEANT
    ),
    "s.eval.yaml:6:22": f"execution.stop: {SPACE}{MEANT}",
    "s.eval.yaml:6:42": f"execution.body: {SPACE}{MEANT}",
    "s.eval.yaml:15:22": (
        f"{FIRST}[0]: 3 hidden characters: ZERO WIDTH SPACE (2), RIGHT-TO-LEFT OVERRIDE (1){MEANT}"
    ),
    "s.eval.yaml:18:13": f"{FIRST}[3]: {SPACE}{MEANT}",  # where its text begins
    "s.eval.yaml:19:77": f"case 'a': input_messages[1].tool_calls[0]: {SPACE}{MEANT}",
    "s.eval.yaml:20:49": f"case 'a': input_messages[2].content: {SPACE}{MEANT}",
    "notes.md:2:6": SPACE + FILE_MEANT,
    "tone.rules.md:1:4": (
        "3 hidden characters: TAG LATIN CAPITAL LETTER A (2), TAG LATIN CAPITAL LETTER B (1)"
        + FILE_MEANT
    ),
}
COMMANDS = [
    *("check", "convert", "convert --workers 2", "run --target echo", "run --dry-run", "report"),
    *("snapshot", "snapshot --check", "explain"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_text_has_one_warning_with_its_place(root: Path, command: str) -> None:
    write(root, FILES)
    if "--check" in command:
        run("snapshot", ".", folder=root)
    done = run(*command.split(), ".", "--debug", folder=root)
    warned = [line for line in done.stderr.splitlines() if "hidden character" in line]
    expected = {f"{place}: warning: {why}" for place, why in WARNINGS.items()}
    assert set(warned) == expected
    assert len(warned) == len(expected)
    assert done.returncode == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_with_strict_each_case_with_one_fails(root: Path, command: str) -> None:
    write(root, FILES)
    if "--check" in command:
        run("snapshot", ".", folder=root)
    done = run(*command.split(), ".", "--strict", folder=root)
    assert done.returncode == 1
    assert "s.eval.yaml:3:30: metadata.systemPrompt: 1 hidden character" in done.stderr
    assert "warning" not in done.stderr


def test_one_in_a_thought_is_where_it_was_thought(root: Path) -> None:
    thought = "- {type: thinking, thinking: 'Hm\u200b.', signature: s}\n"
    asked = "input_messages:\n- {role: user, content: Hi}\n- role: assistant\n  content:\n  "
    end = "  - Well\n- {role: user, content: Bye}\n"
    write(root, {"s.eval.yaml": f"{asked}{thought}{end}"})
    done = run("check", ".", folder=root)
    assert "s.eval.yaml:5:35: warning: case 's': input_messages[1].thinking[0]: 1 " in done.stderr


def test_of_very_many_the_first_thousand_are_counted(root: Path) -> None:
    write(root, {"s.eval.yaml": f"input_messages: [{{role: user, content: 'a{NEVER[0] * 1500}'}}]"})
    done = run("check", ".", folder=root)
    assert "at least 1,000 hidden characters: UNASSIGNED (1000)" in done.stderr


def test_check_gives_programs_the_place(root: Path) -> None:
    write(root, {**FILES, "s.eval.yaml": SUITE[SUITE.index("evalcases") :]})
    done = run("check", ".", "--format", "json", folder=root)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0] == {
        "severity": "warning",
        "file": "s.eval.yaml",
        "line": 9,
        "column": 22,
        "id": "a",
        "message": WARNINGS["s.eval.yaml:15:22"],
    }
    assert {"notes.md"} == {line["file"] for line in lines if line["id"] is None} - {
        "tone.rules.md"
    }


def test_one_in_the_name_of_a_file_is_of_its_segment(root: Path) -> None:
    name = "a\u200b.md"
    user = f"[{{type: file, value: '{name}'}}, Hi]"
    suite = f"evalcases: [{{id: a, input_messages: [{{role: user, content: {user}}}]}}]\n"
    write(root, {"s.eval.yaml": suite, name: "Plain."})
    done = run("check", ".", folder=root)
    assert f"s.eval.yaml:1:83: warning: {FIRST}[0]: {SPACE}{MEANT}" in done.stderr


PLAIN = "- {id: b, input_messages: [{role: user, content: [{type: file, value: notes.md}, Hi]}]}\n"
BOTH = PLAIN + PLAIN.replace("id: b", "id: a").replace("Hi", "H\u200bi")


@pytest.mark.parametrize(
    ("files", "left"),
    [
        pytest.param({}, ["notes.md:2:6", "s.eval.yaml:3:83"], id="nothing is allowed"),
        pytest.param(
            {"s.eval.yaml": f"hidden_characters: allow\nevalcases:\n{BOTH}"}, [], id="by the suite"
        ),
        pytest.param(
            {
                "s.eval.yaml": f"evalcases:\n{BOTH}".replace(
                    "{id: a", "{hidden_characters: allow, id: a"
                )
            },
            ["notes.md:2:6"],
            id="by a case",
        ),
        pytest.param(
            {"multiturn.toml": 'allow_hidden_characters = ["notes.md"]'},
            ["s.eval.yaml:3:83"],
            id="for a file",
        ),
        pytest.param(
            {"multiturn.toml": 'allow_hidden_characters = ["s.eval.yaml"]'},
            ["notes.md:2:6"],
            id="for a suite",
        ),
        pytest.param({"multiturn.toml": 'allow_hidden_characters = ["."]'}, [], id="for a folder"),
        pytest.param(
            {"multiturn.toml": 'allow_hidden_characters = ["note"]'},
            ["notes.md:2:6", "s.eval.yaml:3:83"],
            id="for another file",
        ),
        pytest.param(
            {"input.eval.yaml": f"hidden_characters: allow\n{BOTH[BOTH.rindex('- {') + 9 : -2]}\n"},
            ["notes.md:2:6", "s.eval.yaml:3:83"],
            id="by a bare case, for itself",
        ),
    ],
)
def test_they_can_be_allowed(root: Path, files: dict[str, str], left: list[str]) -> None:
    write(root, {"s.eval.yaml": f"evalcases:\n{BOTH}", "notes.md": FILES["notes.md"], **files})
    done = run("check", "s.eval.yaml", folder=root)
    places = [line.partition(": ")[0] for line in done.stderr.splitlines() if "hidden" in line]
    assert sorted(places) == left
    assert run("convert", ".", "--strict", folder=root).returncode == bool(left)


def test_a_project_allows_them_from_any_of_its_folders(root: Path) -> None:
    defaults = 'allow_hidden_characters = ["evals/s.eval.yaml", "notes.md"]'
    suite = {"evals/s.eval.yaml": f"evalcases:\n{BOTH}", "notes.md": FILES["notes.md"]}
    write(root, {**suite, "multiturn.toml": defaults})
    assert run("check", "s.eval.yaml", "--strict", folder=root / "evals").returncode == 0
    write(root, {"multiturn.toml": 'allow_hidden_characters = ["evals"]'})
    done = run("check", "s.eval.yaml", folder=root / "evals")
    assert done.stderr.splitlines() == [f"notes.md:2:6: warning: {SPACE}{FILE_MEANT}"]


def test_only_allow_is_a_value(root: Path) -> None:
    write(root, {"s.eval.yaml": f"hidden_characters: deny\nevalcases:\n{BOTH}"})
    done = run("check", ".", folder=root)
    assert done.returncode == 1
    assert (
        done.stderr
        == "s.eval.yaml:1:20: there is no hidden_characters 'deny'; choose from: allow\n"
    )
    write(root, {"multiturn.toml": 'allow_hidden_characters = "s.eval.yaml"'})
    done = run("check", ".", folder=root)
    assert (
        done.stderr == "Error: multiturn.toml: allow_hidden_characters must be a list, not text\n"
    )


SMUGGLED = {  # what a difference brings in, and how it is shown: % stands before a code
    "One.\u200b": "One.%200b",
    "One.\u202e": "One.%202e",
    "One.\U000e0041": "One.%e0041",
    "One 👩\u200d👩.": "One 👩%200d👩.",
    "One ∀\ufe0f.": "One ∀%fe0f.",
    "One ا\u200dب.": "One ا%200dب.",
    "One 1\ufe0f\ufe0f\u20e3.": "One 1%fe0f%fe0f\u20e3.",
    "One ❤\ufe0f\U000e0101.": "One ❤\ufe0f%e0101.",
}


def shown(style: str) -> list[str]:
    """Return the texts with codes in the form of Python, JSON, Markdown or the page."""

    def code(match: re.Match[str]) -> str:
        digits = match[1]
        if style == "page":
            return f"U+{digits.upper().zfill(4)}"
        if style == "markdown":
            return f"\\u{{{digits}}}"
        return f"\\U{digits:0>8}" if len(digits) > 4 else f"\\u{digits}"

    return [re.sub("%(e0[0-9a-f]{3}|[0-9a-f]{4})", code, text) for text in SMUGGLED.values()]


@pytest.fixture
def smuggled(root: Path) -> Path:
    """Return a repository in which each case has one more hidden character than at HEAD."""
    case = "  - {id: c%d, input_messages: [{role: user, content: '%s'}]}"
    for texts in (["One."] * len(SMUGGLED), [*SMUGGLED]):
        cases = "\n".join(case % each for each in enumerate(texts))
        write(root, {"s.eval.yaml": f"evalcases:\n{cases}\n"})
        if texts[0] == "One.":
            run("snapshot", ".", folder=root)
            git(root, "init", "-q")
            commit(root)
    return root


@pytest.mark.parametrize("format_", ["text", "json", "github"])
def test_a_check_of_snapshots_shows_one(smuggled: Path, format_: str) -> None:
    done = run("snapshot", ".", "--check", "--format", format_, folder=smuggled)
    output = done.stdout
    if format_ == "json":
        output = "".join(json.loads(line)["diff"] or "" for line in output.splitlines())
    assert done.returncode == 1
    assert [text for text in shown("python") if text not in output] == []
    assert [text for text in SMUGGLED if text in output + done.stderr] == []


def test_a_diff_of_snapshots_shows_one(smuggled: Path) -> None:
    """Also one by Git, which reviewers of a pull request read."""
    run("snapshot", ".", folder=smuggled)
    output = git(smuggled, "diff", "snapshots")
    assert [text for text in shown("python") if text not in output] == []
    assert [text for text in SMUGGLED if text in output] == []


def test_a_report_shows_one_in_each_of_its_views(smuggled: Path) -> None:
    command = ["report", ".", "--against", "HEAD", "--output"]
    assert run(*command, "r.md", "--format", "markdown", folder=smuggled).returncode == 0
    output = (smuggled / "r.md").read_text(encoding="utf-8")
    assert [text for text in shown("markdown") if text not in output] == []
    assert [text for text in SMUGGLED if text in output] == []
    assert run(*command, "r.html", folder=smuggled).returncode == 0
    with open_browser() as browser:
        reader = Reader(browser)
        page = reader.open(smuggled / "r.html")
        above = page.locator("body").text_content() or ""
        for link, (text, code) in enumerate(zip(SMUGGLED, shown("page"), strict=True)):
            page.locator("#cases li a").nth(link).click()
            for tab in page.get_by_role("tab").all():
                tab.click()
                panel = page.locator("#panel").text_content() or ""
                assert code.rpartition(" ")[2] in panel, (text, tab.text_content())
                assert text not in panel
            assert text not in above
        assert "U+200B" in above
    assert reader.errors == []


def test_a_text_in_ascii_imports_no_table(tmp_path: Path) -> None:
    write(tmp_path, {"a.eval.yaml": "input_messages: [{role: user, content: Hi}]"})
    program = (
        "import sys; from multiturn.cli.group import command_line\n"
        "try: command_line(['convert', 'a.eval.yaml'])\n"
        "finally: print(*{'emoji', 'idna'} & {*sys.modules}, file=sys.stderr)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stderr == "\n"


def test_one_at_the_end_of_a_large_text_is_found_in_no_time() -> None:
    text = "a naïve word 12 " * 60_000  # 1 MB: each emoji tried at each place took 10 s
    with limited(seconds=3):
        assert hidden_in(f"{text}\u200b") == (len(text),)
