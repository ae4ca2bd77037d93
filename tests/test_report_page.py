"""The report in a real browser: what a reviewer sees, clicks and types."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from browser import Reader, open_browser
from comparing import report_of
from multiturn.review.report.html import to_html

OpenPage = Callable[..., Page]
VIEWS = ["Chat prompt", "Transcript", "OpenAI, Azure", "Anthropic", "Gemini", "Codex", "VS Code"]
SUITE = """\
guideline_patterns: ["**/*.instructions.md"]
metadata: {systemPrompt: You review code.}
evalcases:
  - id: injection
    input_messages:
      - role: user
        content:
          - {type: file, value: /rules/tone.instructions.md}
          - {type: file, value: /rules/sql.instructions.md}
          - {type: file, value: /query.py}
          - Is this safe?
      - {role: assistant, content: "No: \\"name\\" is\\npasted."}
      - {role: tool, content: "grep: 2 hits"}
      - {role: user, content: And now?}
  - id: greeting
    input_messages:
      - {role: user, content: Hello there}
  - id: monologue
    input_messages:
      - {role: assistant, content: I speak first.}
"""
FILES = {
    "rules/tone.instructions.md": "Be brief.\nBe kind.\n",
    "rules/sql.instructions.md": "Bind every value.\nName the line.\n",
    "query.py": 'db.run(f"select {name}")\n',
    "evals/review.eval.yaml": SUITE,
}
SYSTEM = (
    "You review code.\n\n[[ ## Guidelines ## ]]\n\n"
    "=== /rules/tone.instructions.md ===\nBe brief.\nBe kind.\n\n"
    "=== /rules/sql.instructions.md ===\nBind every value.\nName the line."
)
USER = (
    "<Attached: /rules/tone.instructions.md>\n<Attached: /rules/sql.instructions.md>\n"
    '=== /query.py ===\ndb.run(f"select {name}")\nIs this safe?'
)


@pytest.fixture(scope="module")  # not for all modules: its event loop would be in the way of theirs
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def reader(browser: Browser) -> Reader:
    return Reader(browser)


@pytest.fixture
def open_page(reader: Reader) -> Iterator[OpenPage]:
    """Open reports, and fail at the end for whatever they must not do."""
    yield reader.open
    errors, reader.errors = reader.errors, []
    assert errors == []


def page_of(folder: Path, *states: dict[str, str], pipeline: str = "spec") -> Path:
    """Write the page of files, or of what differs between two states of them."""
    page = folder / "r.html"
    page.write_bytes(to_html(report_of(folder, *states, pipeline=pipeline)))
    return page


@pytest.fixture(scope="module")
def plain_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(tmp_path_factory.mktemp("plain"), FILES)


@pytest.fixture(scope="module")
def compared_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = {
        "rules/sql.instructions.md": "Bind every single value.\nName the line.\n",
        "evals/review.eval.yaml": SUITE.replace("Hello there", "Good morning")
        .replace('      - {role: tool, content: "grep: 2 hits"}\n', "")
        .replace("id: monologue", "id: soliloquy")
        .replace("I speak first.", "To be or not to be?")
        + "  - id: broken\n    input_messages:\n"
        + "      - {role: user, content: [{type: file, value: x}]}\n",
    }
    return page_of(tmp_path_factory.mktemp("compared"), FILES, FILES | changes)


@pytest.fixture
def plain(open_page: OpenPage, plain_file: Path) -> Page:
    """A report of three cases."""
    return open_page(plain_file)


@pytest.fixture
def compared(open_page: OpenPage, compared_file: Path) -> Page:
    """A report of two guidelines' changes, a case that is new, one that is gone, one that fails."""
    return open_page(compared_file)


def texts(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_text_contents()]


PARTS = {
    "case": "#case h2",
    "count": "#count",
    "focus": ":focus",
    "origin": "#origin",
    "tab": "[role=tab][aria-selected=true]",
}


def shows(page: Page, **parts: str) -> None:
    """Wait until parts of the page have these texts."""
    for part, text in parts.items():
        expect(page.locator(PARTS[part])).to_have_text(text)


def press(page: Page, *keys: str, **parts: str) -> None:
    """Press keys, and wait until parts of the page have these texts."""
    for key in keys:
        page.keyboard.press(key)
    shows(page, **parts)


def choose(page: Page, case: str, **parts: str) -> None:
    page.locator("#cases a", has_text=case).click()
    shows(page, **parts)


def search(page: Page, query: str, *found: str, **parts: str) -> None:
    """Search, and wait until these stretches are highlighted, if any, and parts are shown."""
    page.locator("#search").fill(query)
    shows(page, **parts)
    if found:
        marked = "JSON.stringify([...CSS.highlights.get('found') ?? []].map(String))"
        page.wait_for_function(f"found => {marked} === JSON.stringify(found)", arg=found)


# A case


def test_a_conversation_is_a_bubble_for_each_message(plain: Page) -> None:
    shows(plain, case="injection")
    assert plain.title() == "injection · Prompts"
    assert texts(plain, "#panel .turn h3") == ["system", "user", "assistant", "tool", "user"]
    assert texts(plain, "#panel .turn.assistant .text") == ['No: "name" is\npasted.']
    assert texts(plain, "#panel .turn.user .text") == [USER, "And now?"]
    expect(plain.locator("#privileges")).to_be_hidden()


def test_guidelines_are_folded_by_file(plain: Page) -> None:
    tone, sql = plain.get_by_text("Be brief."), plain.get_by_text("Bind every value.")
    assert texts(plain, "#panel summary") == [
        "rules/tone.instructions.md 2 lines",
        "rules/sql.instructions.md 2 lines",
    ]
    unfolded = plain.locator("#panel .turn.system .text > .span").all_text_contents()
    assert unfolded == ["You review code.", "\n\n", "[[ ## Guidelines ## ]]"]
    expect(tone).to_be_hidden()
    plain.locator("#panel summary").first.click()
    expect(tone).to_be_visible()
    expect(sql).to_be_hidden()
    press(plain, "e")
    expect(sql).to_be_visible()
    press(plain, "e")
    expect(tone).to_be_hidden()


def test_each_view_is_a_click_a_number_or_an_arrow_away(plain: Page) -> None:
    tabs = plain.get_by_role("tab")
    assert tabs.all_text_contents() == VIEWS
    for number, name in enumerate(VIEWS, 1):
        tabs.nth(number - 1).click()
        shows(plain, tab=name)
        press(plain, "1", str(number), tab=name)
    for key, name in (
        ("ArrowRight", "Chat prompt"),
        ("ArrowLeft", "VS Code"),
        ("Home", "Chat prompt"),
        ("End", "VS Code"),
    ):
        press(plain, key, tab=name, focus=name)


def payload(page: Page) -> Any:
    """Return the JSON that a reader would copy."""
    return json.loads(page.locator("#panel .text").text_content() or "")


def test_a_payload_is_the_json_that_goes_out(plain: Page) -> None:
    turns = [
        {"role": "user", "content": USER},
        {"role": "assistant", "content": 'No: "name" is\npasted.'},
    ]
    press(plain, "3")
    assert payload(plain)["messages"][:3] == [{"role": "system", "content": SYSTEM}, *turns]
    press(plain, "4")
    sent = payload(plain)
    assert sent["system"] == SYSTEM
    assert sent["messages"] == [
        *turns,
        {"role": "user", "content": "[Tool]: grep: 2 hits\n\nAnd now?"},
    ]
    assert any("A6" in note for note in texts(plain, ".notes li"))
    press(plain, "6")
    assert texts(plain, "#panel .text")[0].startswith(
        "[[ ## System Prompt ## ]]\n\nYou review code.\n\n[[ ## Conversation ## ]]\n\n[User]: "
    )
    choose(plain, "monologue")
    press(plain, "5")
    assert texts(plain, ".notes li")[0].startswith("refused: G4")
    expect(plain.locator("#panel .text")).to_have_count(0)


def test_pointing_at_a_text_says_where_it_comes_from(plain: Page) -> None:
    press(plain, "e")
    guideline = "rules/sql.instructions.md, attached at evals/review.eval.yaml:9"
    for key, text, origin in (
        ("1", "And now?", "evals/review.eval.yaml:14"),
        ("1", "db.run", "query.py, attached at evals/review.eval.yaml:10"),
        ("4", "Bind every value.", f"{guideline}, moved by extract_guidelines"),
        ("4", "Is this safe?", "evals/review.eval.yaml:11"),
    ):
        press(plain, key)
        plain.get_by_text(text).hover()
        shows(plain, origin=origin)
    press(plain, "1")
    plain.mouse.move(0, 0)
    plain.locator("#panel").focus()
    press(plain, "Tab", origin="metadata.systemPrompt of evals/review.eval.yaml")
    press(plain, "Tab", origin="added by consolidate_system")


# What has changed


def test_what_changed_comes_first_with_its_cause(compared: Page) -> None:
    assert texts(compared, "#cases h2") == [
        "failed",
        "changed: more than one cause",
        "changed: evals/review.eval.yaml line 16: the messages of 'greeting'",
        "added",
        "removed",
    ]
    assert texts(compared, "#cases li")[0].startswith("broken")
    assert "no file 'x'" in texts(compared, ".error")[0]
    press(compared, "j")
    assert texts(compared, ".causes li") == [
        "rules/sql.instructions.md line 1",
        "evals/review.eval.yaml line 4: the messages of 'injection'",
        "rules/sql.instructions.md changed; it is part of a system message",
    ]


def test_changed_words_are_marked_side_by_side(compared: Page) -> None:
    press(compared, "j")
    expect(compared.locator("#panel details[open]")).to_have_count(2)
    assert texts(compared, "#panel ins") == ["single"]
    assert texts(compared, "#panel del") == ["grep: 2 hits"]
    assert texts(compared, "#panel .absent") == ["no such message"]
    left, right = (turn.bounding_box() for turn in compared.locator("#panel .turn.system").all())
    assert left is not None
    assert right is not None
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    press(compared, "j")
    for view in ("1", "4"):
        press(compared, view)
        assert texts(compared, "#panel del") == ["Hello there"]
        assert texts(compared, "#panel ins") == ["Good morning"]
    press(compared, "j", case="soliloquy")
    press(compared, "j", "1", case="monologue")
    assert texts(compared, "#panel .text") == ["You review code.", "I speak first."]


POLITE = """\
guideline_patterns: ["*.md"]
guidelines: [Be nice.]
evalcases:
  - {id: hello, input_messages: [{role: user, content: Hello}]}
  - id: thanks
    input_messages: [{role: user, content: [Thanks]}]
"""
IS_NEW = "evals/polite.md is new in a system message, by the pattern '*.md': "
IS_NEW += r"'Be polite.\nSay please.'"


def joined(page: Page, selector: str) -> str:
    """Return what a selector finds, as one text in which a line end is a space."""
    return " ".join(" ".join(texts(page, selector)).replace("\\n", " ").split())


def test_a_new_guideline_is_named_above_all_and_only_its_words_are_marked(
    open_page: OpenPage, tmp_path: Path
) -> None:
    then = {"evals/polite.eval.yaml": POLITE}
    now = {
        "evals/polite.eval.yaml": POLITE.replace("[Th", "[{type: file, value: polite.md}, Th"),
        "evals/polite.md": "Be polite.\nSay please.\n",
    }
    page = open_page(page_of(tmp_path, then, now), "#suite=evals%2Fpolite.eval.yaml&case=hello")
    shows(page, case="hello")
    above = texts(page, "#privileges:has(~ #case) p")
    assert above == [f"Change of privilege: {IS_NEW}, in 1 case"]
    assert texts(page, "#cases li") == [
        "thanksevals/polite.eval.yamlChange of privilege",
        "helloevals/polite.eval.yaml",
    ]
    page.locator("#privileges").get_by_role("link", name="evals/polite.md").click()
    shows(page, case="thanks")
    assert texts(page, ".causes .privilege") == [IS_NEW]
    assert texts(page, "#panel summary") == ["evals/polite.md 2 lines, new"]

    reference, guideline = "<Attached: polite.md>", "=== polite.md === Be polite. Say please."
    folder = "Read these guidelines first, and follow them: - .multiturn-request/files/1/polite.md"
    marked = {
        "Chat prompt": f"{guideline} {reference}",
        "Transcript": reference,
        "OpenAI, Azure": f"{guideline} {reference}",
        "Anthropic": f"{reference} {guideline}",
        "Codex": f"{reference} {folder}",
    }
    for view, words in marked.items():
        page.get_by_role("tab", name=view).click()
        assert joined(page, "#panel ins") == words, view
        assert texts(page, "#panel del") == []


def test_a_file_is_named_new_changed_or_removed(open_page: OpenPage, tmp_path: Path) -> None:
    def files(*names: str) -> dict[str, str]:
        attached = ", ".join(f"{{type: file, value: {name}.md}}" for name in names)
        case = f"{{id: a, input_messages: [{{role: user, content: [{attached}, Hi]}}]}}"
        suite = f'guideline_patterns: ["*.md"]\nevalcases: [{case}]\n'
        return {"evals/a.eval.yaml": suite, **{f"evals/{name}.md": "Say it.\n" for name in names}}

    now = files("same", "kept", "new") | {"evals/kept.md": "Say what."}
    page = open_page(page_of(tmp_path, files("old", "same", "kept"), now))
    assert texts(page, "#panel [data-side^=at] summary") == [
        "evals/old.md 1 line, removed",
        "evals/same.md 1 line",
        "evals/kept.md 1 line, changed",
    ]
    assert texts(page, "#panel [data-side=now] summary") == [
        "evals/same.md 1 line",
        "evals/kept.md 1 line, changed",
        "evals/new.md 1 line, new",
    ]


def test_twenty_changes_of_privilege_are_open(open_page: OpenPage, tmp_path: Path) -> None:
    case = "{id: c%d, input_messages: [{role: system, content: %s %d}, {role: user, content: a}]}"
    then, now = (
        {"evals/a.eval.yaml": f"evalcases: [{', '.join(case % (n, word, n) for n in range(22))}]"}
        for word in ("Rule", "Law")
    )
    page = open_page(page_of(tmp_path, then, now))
    expect(page.locator("#privileges p")).to_have_count(20)
    page.locator("#privileges").get_by_text("2 more").click()
    expect(page.locator("#privileges p")).to_have_count(22)
    page.locator("#privileges p a").last.click()
    shows(page, case="c21")


def test_cases_that_are_compared_with_nothing_are_not_the_same(
    open_page: OpenPage, tmp_path: Path
) -> None:
    broken = "  - id: broken\n    input_messages: []\n"
    page = open_page(page_of(tmp_path, FILES | {"evals/review.eval.yaml": SUITE + broken}))
    assert texts(page, "#statuses button") == ["1 failed", "3 converted"]


def test_a_renamed_case_is_shown_with_its_difference(open_page: OpenPage, tmp_path: Path) -> None:
    suite = SUITE.replace("id: injection", "id: safety").replace("Is this safe?", "Is it safe?")
    suite = suite[: suite.index("  - id: monologue")].replace("id: greeting", "id: hello")
    page = open_page(page_of(tmp_path, FILES, FILES | {"evals/review.eval.yaml": suite}))
    expect(page.locator("#summary")).to_contain_text("2 cases renamed, 1 removed")
    assert texts(page, "#cases h2") == [
        "renamed: evals/review.eval.yaml line 6: the messages of 'safety'",
        "renamed",
        "removed",
    ]
    about = "evals/review.eval.yaml:4 · renamed from evals/review.eval.yaml · injection"
    assert texts(page, ".about") == [about]
    assert texts(page, "#panel del") == ["this"]
    assert texts(page, "#panel ins") == ["it"]
    choose(page, "hello")
    same = "Its texts are the same. With --all, the report has them."
    assert texts(page, "#case .absent") == [same]


def greeting(words: str) -> dict[str, str]:
    case = f"{{id: greeting, input_messages: [{{role: user, content: {words}}}]}}"
    return {"evals/greeting.eval.yaml": f"evalcases: [{case}]"}


def test_a_pipeline_without_a_chat_prompt_says_so(open_page: OpenPage, tmp_path: Path) -> None:
    nothing = "The pipeline gives no chat prompt; these messages are sent in its place."
    then = greeting("Hello") | {"p.yaml": "extends: shipped\n"}
    page = open_page(page_of(tmp_path, then, then | greeting("Good morning"), pipeline="p.yaml"))
    assert texts(page, "#panel .absent") == [nothing, nothing]
    assert texts(page, "#panel li h3") == ["user", "user"]
    assert texts(page, "#panel ins") == ["Good morning"]
    press(page, "6")
    assert texts(page, "#panel .text")[-1] == "Good morning"
    now = greeting("Good morning") | {"p.yaml": "extends: spec\n"}
    page = open_page(page_of(tmp_path, then, now, pipeline="p.yaml"))
    assert texts(page, "#panel .absent") == [nothing]
    assert texts(page, "#panel ins") == ["Good morning"]


# Words that differ

REWRITTEN = ("He likes the old house on that hill", "We sell the books of many")
WORDS: list[tuple[str, str, list[str], list[str]]] = [
    ("Be kind.", "Be very kind.", [], ["very "]),
    ("Be kind.", "Be kind!", ["."], ["!"]),
    ("one two three", "one 2 3", ["two three"], ["2 3"]),
    ("你好世界", "你好\uff0c世界", [], ["\uff0c"]),
    ("a\nb\nc\n", "a\nc\n", ["b\n"], []),
    ("Be nice.", "Be nice.\nBe brief.", [], ["\nBe brief."]),
    ("Say it in one word.", "Say it in two or so.", ["one word"], ["two or so"]),
    ("same", "same", [], []),
    ("", "new", [], ["new"]),
    (REWRITTEN[0], REWRITTEN[1], [REWRITTEN[0]], [REWRITTEN[1]]),
]


def test_words_that_differ_are_found(plain: Page) -> None:
    pairs = [[before, after] for before, after, *_ in WORDS]
    found = plain.evaluate("pairs => pairs.map(pair => changes(...pair))", pairs)
    shown = [
        [[text[start:end] for start, end in side] for text, side in zip(pair, sides, strict=True)]
        for pair, sides in zip(pairs, found, strict=True)
    ]
    assert shown == [[old, new] for _, _, old, new in WORDS]


def test_marks_change_no_text_and_leave_the_same_words(plain: Page) -> None:
    random = Random(5)
    texts = [
        [
            [
                "".join(random.choices("ab \n,你", k=random.randint(1, 8)))
                for _ in range(random.randint(0, 5))
            ]
            for _ in "ab"
        ]
        for _ in range(200)
    ]
    script = """pairs => pairs.map(pair => mark(...pair.map(
        side => side.map((text, origin) => ({ text, origin })))))"""
    marked = plain.evaluate(script, texts)
    for pair, sides in zip(texts, marked, strict=True):
        for spans, side in zip(pair, sides, strict=True):
            pieces = [
                "".join(span["text"] for span in side if span["origin"] == origin)
                for origin in range(len(spans))
            ]
            assert pieces == spans
            assert all(span["text"] for span in side)
        kept = ["".join(s["text"] for s in side if not s["changed"]) for side in sides]
        # What is only white space between two changes counts as changed.
        assert "".join(kept[0].split()) == "".join(kept[1].split())


HOSTILE_TEXTS = {
    "equal lines": '"same\\n".repeat(100_000)',
    "shuffled lines": "Array.from({length: 50_000}, (_, at) => `${at * 7919 % 101}\\n`).join('')",
    "one word": '"x".repeat(9_000_000)',
    "words": '"a b ".repeat(200_000)',
}


def test_hostile_texts_are_compared_in_bounded_steps(plain: Page) -> None:
    for name, text in HOSTILE_TEXTS.items():
        most = plain.evaluate(
            f"""() => {{
                const text = {text};
                const other = text.split("\\n").sort().join("\\n");
                steps = 0;
                changes(text, `${{other.slice(0, -7)}}end`);
                return steps / MOST_STEPS;
            }}"""
        )
        assert most < 1.1, name


# Search, filters and keys


def test_search_finds_any_text_and_the_panel_follows(plain: Page) -> None:
    press(plain, "/")
    plain.keyboard.type("BIND")
    shows(plain, count="1 of 3 cases")
    search(plain, "BIND every", "Bind every")  # which leaves the number of cases as it is
    expect(plain.get_by_text("Bind every value.")).to_be_visible()
    search(plain, "nowhere at all", count="0 of 3 cases", case="No case matches")
    expect(plain.locator("#panel")).to_have_count(0)
    search(plain, "tant]: i speak", case="monologue")  # begins in one span and ends in another
    search(plain, "I speak first", "I speak first", count="1 of 3 cases")
    expect(plain.locator("#search")).to_be_focused()
    search(plain, "nowhere at all", case="No case matches")
    plain.locator("#cases").focus()
    press(plain, "2", case="No case matches")
    press(plain, "Escape", case="monologue", count="3 cases")
    expect(plain.locator("#search")).to_have_value("")


def test_search_finds_a_phrase_across_a_changed_word(compared: Page) -> None:
    press(compared, "j")
    for phrase in ("every single value", "every s", "e value."):
        search(compared, phrase, phrase, count="1 of 5 cases")
    search(compared, "single every", count="0 of 5 cases")


def test_roles_filter(plain: Page) -> None:
    users, button = plain.locator("#panel .turn.user"), plain.get_by_role("button", name="user")
    button.click()
    expect(users.first).to_be_hidden()
    expect(plain.locator("#panel .turn.tool")).to_be_visible()
    press(plain, "j")
    expect(users.first).to_be_hidden()
    button.click()
    expect(users.first).to_be_visible()


def test_a_filter_that_hides_the_case_shows_the_first_that_is_left(compared: Page) -> None:
    shows(compared, case="broken")
    compared.get_by_role("button", name="2 changed").click()
    shows(compared, case="injection", count="2 of 5 cases")
    press(compared, "j", case="greeting")
    compared.get_by_role("button", name="1 added").click()
    shows(compared, case="greeting", count="3 of 5 cases")


def see_all(page: Page) -> int:
    """Show each view of each case; return by how much the widest one is wider than the window."""
    script = """() => {
        let most = 0;
        for (const link of document.querySelectorAll("#cases a")) {
            link.click();
            const views = document.querySelectorAll("[role=tab]").length;
            for (let view = 0; view < Math.max(1, views); view++) {
                document.getElementById(`tab-${view}`)?.click();
                most = Math.max(most, document.documentElement.scrollWidth - innerWidth);
            }
        }
        return most;
    }"""
    widest: int = page.evaluate(script)
    return widest


def test_a_narrow_browser_of_two_years_ago_is_enough(browser: Browser, compared_file: Path) -> None:
    older = """
        Object.defineProperty(CSS, "highlights", { value: undefined });
        for (const name of Object.getOwnPropertyNames(Iterator.prototype)) {
            if (name !== "constructor") delete Iterator.prototype[name];
        }
        delete window.Highlight;
        delete window.Iterator;
    """
    reader = Reader(browser, older)
    page = reader.open(compared_file, width=360)
    assert see_all(page) <= 0
    search(page, "every single value", case="injection", count="1 of 5 cases")
    page.close()
    assert reader.errors == []


def test_keys_go_through_the_cases_that_are_shown(plain: Page) -> None:
    press(plain, "k", case="injection")
    search(plain, "I speak", count="1 of 3 cases")
    plain.locator("#panel").focus()
    press(plain, "j", case="monologue")
    press(plain, "?")
    expect(plain.get_by_role("dialog")).to_be_visible()
    press(plain, "Escape")
    expect(plain.get_by_role("dialog")).to_be_hidden()


def test_the_focus_stays_in_the_case(plain: Page) -> None:
    plain.locator("#panel .span:visible").first.focus()
    press(plain, "2")
    expect(plain.locator("#panel")).to_be_focused()
    plain.locator("#panel .span").first.focus()
    press(plain, "j", focus="greeting")
    press(plain, "3", focus="greeting")
    plain.locator("#cases a", has_text="monologue").focus()
    press(plain, "Enter", focus="monologue", case="monologue")
    address = plain.url
    press(plain, "/", "Tab", focus="Skip to the case")
    press(plain, "Enter", focus="monologue")
    assert plain.url == address


def test_keys_of_one_sign_act_alone_and_can_be_switched_off(plain: Page) -> None:
    for held in ("Control", "Alt", "Meta"):
        press(plain, f"{held}+j", f"{held}+2", case="injection", tab="Chat prompt")
    plain.get_by_role("button", name="Keys").click()
    plain.get_by_role("checkbox", name="Use these letters, digits and signs").uncheck()
    press(plain, "Escape", *"j2e/?", case="injection", tab="Chat prompt")
    expect(plain.locator("#panel details[open]")).to_have_count(0)
    expect(plain.locator("#search")).not_to_be_focused()
    expect(plain.get_by_role("dialog")).to_be_hidden()
    plain.get_by_role("tab", selected=True).focus()
    press(plain, "ArrowRight", focus="Transcript")


# Addresses


def test_an_address_leads_to_a_case_and_a_view(open_page: OpenPage, plain_file: Path) -> None:
    page = open_page(plain_file, "#panel")
    shows(page, case="injection")
    search(page, "nowhere at all", case="No case matches")
    press(page, "Escape", case="injection")
    assert page.url.endswith("#panel")
    choose(page, "greeting")
    press(page, "2")
    page = open_page(plain_file, f"#{page.url.partition('#')[2]}")
    shows(page, case="greeting", tab="Transcript")
    page.evaluate("new Promise(done => { onhashchange = () => done(); location.hash = '#case' })")
    shows(page, case="greeting", tab="Transcript")
    assert page.url.endswith("#case")


def test_an_address_of_no_case_says_so_and_stays(open_page: OpenPage, plain_file: Path) -> None:
    address = "#suite=evals%2Freview.eval.yaml&case=%3Cb%3Egone"
    page = open_page(plain_file, address)
    shows(page, case="No such case in this report")
    assert texts(page, ".about") == ["evals/review.eval.yaml · <b>gone"]
    assert page.url.endswith(address)
    search(page, "nowhere at all", case="No case matches")
    press(page, "Escape", case="No such case in this report")
    page.locator("#cases").focus()
    press(page, "2", case="No such case in this report")
    press(page, "j", case="injection")
    page.evaluate(f"location.hash = '{address}'")
    shows(page, case="No such case in this report")
    expect(page.locator("[aria-current]")).to_have_count(0)


# Safety, access, print


def test_the_browser_would_stop_whatever_asks_the_network(reader: Reader, plain: Page) -> None:
    stopped = """what => new Promise(resolve => {
        addEventListener('securitypolicyviolation', event => resolve(event.effectiveDirective));
        setTimeout(resolve, 5000, 'nothing stopped it');
        const element = document.createElement(what);
        element.src = 'https://example.org/x';
        document.body.append(element);
    })"""
    directives = {"img": "img-src", "iframe": "frame-src", "script": "script-src-elem"}
    assert {what: plain.evaluate(stopped, what) for what in directives} == directives
    reader.errors.clear()


HOSTILE = [
    "</script><script>alert(1)</script>",
    "</script ><svg onload=alert(4)>",
    "<img src=x onerror=alert(2)><!-- <script>",
    "%%DATA%% %%SCRIPT%% {{x}} ${alert(3)}",
    "\\u2028\\u2029 \\u202Eneddih\\u202C \\U000E0041\\u200B",
    "x" * 200,
]


def test_no_text_becomes_markup_or_script_or_widens_the_page(
    open_page: OpenPage, tmp_path: Path
) -> None:
    files = {}
    for text in HOSTILE:
        name = text.replace("/", "_").replace("\\", "_")
        files[f"evals/{name}"] = text
        files[f"evals/{name[:40]}.eval.yaml"] = f"""\
guideline_patterns: [{json.dumps(f"{name}*")}]
metadata: {{systemPrompt: "{text}"}}
guidelines: ["{text}"]
evalcases:
  - id: "{text}"
    input_messages:
      - {{role: user, content: ["{text}", {{type: file, value: {json.dumps(name)}}}]}}
      - {{role: assistant, content: {{a: "{text}"}}}}
  - id: gone
    input_messages:
      - {{role: user, content: [{{type: file, value: {json.dumps(f"x/{name}")}}}]}}
"""
    page = open_page(page_of(tmp_path, files), width=360)
    assert see_all(page) == 0
    shows(page, count="12 cases")
    page.locator("#cases section", has_text="failed").evaluate("list => list.remove()")
    for text in HOSTILE:
        shown = text
        if "\\u" in text:
            shown = "U+2028U+2029 U+202EneddihU+202C U+E0041U+200B"
        choose(page, shown)
        press(page, "2")
        assert shown in (page.locator("#panel .text").text_content() or "")
    assert page.locator("script").count() == 2
    assert page.locator("img").count() == 0


AXE = Axe().axe_script


# What is dark differs in its colors; all else is tested once.
@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", {}), ("dark", {"runOnly": ["color-contrast"]})]
)
def test_everybody_can_use_it(
    open_page: OpenPage, plain_file: Path, compared_file: Path, scheme: str, rules: dict[str, Any]
) -> None:
    script = """async (rules) => (await axe.run({ reporter: "no-passes", ...rules })).violations
        .map(({ id, nodes }) => [id, nodes[0].html])"""
    # One side is shown as two are, without columns; the views left out are drawn as the fourth is.
    for file, keys in ((plain_file, "1"), (compared_file, "j4")):
        page = open_page(file, scheme=scheme)
        page.evaluate(AXE)
        for key in keys:
            press(page, key)
            assert page.evaluate(script, rules) == []
    press(page, "?")
    assert page.evaluate(script, rules) == []


def test_the_whole_case_is_printed(open_page: OpenPage, tmp_path: Path) -> None:
    lines = "\\n".join(f"Line {number}." for number in range(300))
    then, now = greeting(f'"{lines}"'), greeting(f'"{lines} More."')
    page = open_page(page_of(tmp_path, then, now))
    sheets = page.pdf(format="A4").count(b"/Type /Page\n")
    assert 5 <= sheets <= 8  # 300 lines, 40 to 60 on each
    page.emulate_media(media="print")
    for hidden in ("nav", "header", "footer", ".bar"):
        expect(page.locator(hidden)).to_be_hidden()
