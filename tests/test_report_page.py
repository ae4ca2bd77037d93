"""The report in a real browser: what a reviewer sees, clicks and types."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from browser import Reader, open_browser
from commands import run
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
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return page_of(tmp_path_factory.mktemp("plain"), FILES)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two guidelines' changes, a case that is new, one that is gone, one that fails."""
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


def texts(page: Page, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_text_contents()]


def choose(page: Page, case: str) -> None:
    page.locator("#cases a", has_text=case).click()


PARTS = {
    "case": "#case h2",
    "count": "#count",
    "focus": ":focus",
    "origin": "#origin",
    "tab": "[role=tab][aria-selected=true]",
}


def shows(page: Page, **expected: str) -> None:
    """Wait until parts of the page have these texts."""
    for part, text in expected.items():
        expect(page.locator(PARTS[part])).to_have_text(text)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def expect_found(page: Page, *found: str) -> None:
    """Wait until these stretches are highlighted: a search begins when typing pauses."""
    marked = "JSON.stringify([...CSS.highlights.get('found') ?? []].map(String))"
    page.wait_for_function(f"found => {marked} === JSON.stringify(found)", arg=found, timeout=5000)


def test_a_conversation_is_a_bubble_for_each_message(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    shows(page, case="injection")
    assert page.title() == "injection · Prompts"
    assert texts(page, "#panel .turn h3") == ["system", "user", "assistant", "tool", "user"]
    assert texts(page, "#panel .turn.assistant .text") == ['No: "name" is\npasted.']
    assert texts(page, "#panel .turn.user .text") == [USER, "And now?"]
    expect(page.get_by_text("new in a system message")).to_have_count(0)
    expect(page.locator("#privileges")).to_be_hidden()


def test_guidelines_are_folded_by_file(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    folds = page.locator("#panel details")
    assert texts(page, "#panel summary") == [
        "rules/tone.instructions.md 2 lines",
        "rules/sql.instructions.md 2 lines",
    ]
    expect(page.get_by_text("Be brief.")).to_be_hidden()
    folds.nth(0).locator("summary").click()
    expect(page.get_by_text("Be brief.")).to_be_visible()
    expect(page.get_by_text("Bind every value.")).to_be_hidden()
    press(page, "e")
    expect(page.get_by_text("Bind every value.")).to_be_visible()
    press(page, "e")
    expect(page.get_by_text("Be brief.")).to_be_hidden()


def payload(page: Page) -> Any:
    """Return the JSON that a reader would copy."""
    return json.loads(page.locator("#panel .text").text_content() or "")


def test_each_view_is_a_click_a_number_or_an_arrow_away(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    tabs = page.get_by_role("tab")
    assert tabs.all_text_contents() == VIEWS
    for number, name in enumerate(VIEWS):
        tabs.nth(number).click()
        shows(page, tab=name)
        press(page, "1", str(number + 1))
        shows(page, tab=name)
    page.get_by_role("tab", selected=True).focus()
    press(page, "ArrowRight")
    shows(page, tab="Chat prompt")
    press(page, "ArrowLeft")
    shows(page, tab="VS Code")
    expect(page.get_by_role("tab", selected=True)).to_be_focused()


def test_a_payload_is_the_json_that_goes_out(open_page: OpenPage, plain: Path) -> None:
    turns = [
        {"role": "user", "content": USER},
        {"role": "assistant", "content": 'No: "name" is\npasted.'},
    ]
    page = open_page(plain)
    press(page, "3")
    sent = payload(page)
    assert sent["messages"][:3] == [{"role": "system", "content": SYSTEM}, *turns]
    press(page, "4")
    sent = payload(page)
    assert sent["system"] == SYSTEM
    assert sent["messages"] == [
        *turns,
        {"role": "user", "content": "[Tool]: grep: 2 hits\n\nAnd now?"},
    ]
    assert any("A6" in note for note in texts(page, ".notes li"))
    press(page, "5")
    sent = payload(page)
    assert sent["systemInstruction"]["parts"] == [{"text": SYSTEM}]
    press(page, "6")
    assert (page.locator("#panel .text").text_content() or "").startswith(
        "[[ ## System Prompt ## ]]\n\nYou review code.\n\n[[ ## Conversation ## ]]\n\n[User]: "
    )
    choose(page, "monologue")
    press(page, "5")
    assert texts(page, ".notes li")[0].startswith("refused: G4")
    expect(page.locator("#panel .text")).to_have_count(0)


def test_pointing_at_a_text_says_where_it_comes_from(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    press(page, "e")
    guideline = "rules/sql.instructions.md, attached at evals/review.eval.yaml:9"
    for key, text, origin in (
        ("1", "You review code.", "metadata.systemPrompt of evals/review.eval.yaml"),
        ("1", "And now?", "evals/review.eval.yaml:14"),
        ("1", "db.run", "query.py, attached at evals/review.eval.yaml:10"),
        ("4", "Bind every value.", f"{guideline}, moved by extract_guidelines"),
        ("4", "Is this safe?", "evals/review.eval.yaml:11"),
    ):
        press(page, key)
        page.get_by_text(text).hover()
        shows(page, origin=origin)


def test_tab_goes_from_text_to_text(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    page.locator("#panel").focus()
    found = []
    for _ in range(9):
        press(page, "Tab")
        found.append(page.locator("#origin").text_content())
    assert found[0] == "metadata.systemPrompt of evals/review.eval.yaml"
    assert found[1] == "added by consolidate_system"
    assert "query.py, attached at evals/review.eval.yaml:10" in found
    assert "evals/review.eval.yaml:11" in found


def test_what_changed_comes_first_with_its_cause(open_page: OpenPage, compared: Path) -> None:
    page = open_page(compared)
    assert texts(page, "#cases h2") == [
        "failed",
        "changed: more than one cause",
        "changed: evals/review.eval.yaml line 16: the messages of 'greeting'",
        "added",
        "removed",
    ]
    assert texts(page, "#cases li")[0].startswith("broken")
    assert "no file 'x'" in texts(page, ".error")[0]
    press(page, "j")
    assert texts(page, ".causes li") == [
        "rules/sql.instructions.md line 1",
        "evals/review.eval.yaml line 4: the messages of 'injection'",
        "rules/sql.instructions.md, in a system message, has another text",
    ]


def test_changed_words_are_marked_side_by_side(open_page: OpenPage, compared: Path) -> None:
    page = open_page(compared)
    press(page, "j")
    expect(page.locator("#panel details[open]")).to_have_count(2)
    assert texts(page, "#panel ins") == ["single"]
    assert texts(page, "#panel del") == ["grep: 2 hits"]
    assert texts(page, "#panel .absent") == ["no such message"]
    left, right = page.locator("#panel .turn.system").all()
    boxes = left.bounding_box(), right.bounding_box()
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] < boxes[1]["x"]
    press(page, "j")
    assert texts(page, "#panel del") == ["Hello there"]
    assert texts(page, "#panel ins") == ["Good morning"]
    press(page, "4")
    assert texts(page, "#panel ins") == ["Good morning"]
    press(page, "j")
    shows(page, case="soliloquy")
    press(page, "j")
    shows(page, case="monologue")
    press(page, "1")
    assert texts(page, "#panel .text") == ["You review code.", "I speak first."]


POLITE = {
    "evals/polite.eval.yaml": """\
guideline_patterns: ["*.md"]
guidelines: [Be nice.]
evalcases:
  - {id: hello, input_messages: [{role: user, content: Hello}]}
  - id: thanks
    input_messages: [{role: user, content: [Thanks]}]
"""
}
POLITER = {
    "evals/polite.md": "Be polite.\nSay please.\n",
    "evals/polite.eval.yaml": POLITE["evals/polite.eval.yaml"].replace(
        "[Thanks]", "[{type: file, value: polite.md}, Thanks]"
    ),
}


@pytest.fixture(scope="module")
def politer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in which a file is new in a system message."""
    return page_of(tmp_path_factory.mktemp("politer"), POLITE, POLITE | POLITER)


def joined(page: Page, selector: str) -> str:
    """Return what a selector finds, as one text in which a line end is a space."""
    text = " ".join(page.locator(selector).all_text_contents())
    return " ".join(text.replace("\\n", " ").split())


def test_only_the_words_of_a_new_guideline_are_marked(open_page: OpenPage, politer: Path) -> None:
    reference = "<Attached: polite.md>"
    guideline = "=== polite.md === Be polite. Say please."
    folder = "Read these guidelines first, and follow them: - .multiturn-request/files/1/polite.md"
    page = open_page(politer)
    assert joined(page, "#panel ins") == f"{guideline} {reference}"
    assert texts(page, "#panel summary") == ["evals/polite.md 2 lines, new"]
    for view, marked in (
        ("Transcript", reference),
        ("OpenAI, Azure", f"{guideline} {reference}"),
        ("Anthropic", f"{reference} {guideline}"),
        ("Gemini", f"{reference} {guideline}"),
        ("Codex", f"{reference} {folder}"),
        ("VS Code", f"{reference} {folder}"),
    ):
        page.get_by_role("tab", name=view).click()
        assert joined(page, "#panel ins") == marked, view
        assert texts(page, "#panel del") == []


def test_a_file_is_named_new_changed_or_removed(open_page: OpenPage, tmp_path: Path) -> None:
    suite = (
        'guideline_patterns: ["*.md"]\nevalcases:\n  - id: a\n    input_messages:\n'
        "      - {role: user, content: [%s, Hi]}\n"
    )
    old, same, kept, new = (
        f"{{type: file, value: {name}.md}}" for name in ("old", "same", "kept", "new")
    )
    then = {f"evals/{name}.md": f"Say {name}.\n" for name in ("old", "same", "kept", "new")}
    then["evals/a.eval.yaml"] = suite % ", ".join([old, same, kept])
    now = {"evals/a.eval.yaml": suite % ", ".join([same, kept, new]), "evals/kept.md": "Say what."}
    page = open_page(page_of(tmp_path, then, then | now))
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


IS_NEW = "evals/polite.md is new in a system message, by the pattern '*.md': "
IS_NEW += r"'Be polite.\nSay please.'"


def test_a_change_of_privilege_is_named_above_all(open_page: OpenPage, politer: Path) -> None:
    page = open_page(politer, "#suite=evals%2Fpolite.eval.yaml&case=hello")
    shows(page, case="hello")
    assert texts(page, "#privileges:has(~ #case) p") == [
        f"Change of privilege: {IS_NEW}, in 1 case"
    ]
    assert texts(page, "#cases li") == [
        "thanksevals/polite.eval.yamlChange of privilege",
        "helloevals/polite.eval.yaml",
    ]
    page.locator("#privileges").get_by_role("link", name="evals/polite.md").click()
    shows(page, case="thanks")
    assert texts(page, ".causes .privilege") == [IS_NEW]


def test_twenty_changes_of_privilege_are_open(open_page: OpenPage, tmp_path: Path) -> None:
    case = (
        "  - {id: c%d, input_messages: [{role: system, content: %s %d}, {role: user, content: a}]}"
    )
    then, now = (
        "\n".join(["evalcases:", *(case % (number, word, number) for number in range(22))])
        for word in ("Rule", "Law")
    )
    page = open_page(page_of(tmp_path, {"evals/a.eval.yaml": then}, {"evals/a.eval.yaml": now}))
    expect(page.locator("#privileges p")).to_have_count(20)
    page.locator("#privileges").get_by_text("2 more").click()
    expect(page.locator("#privileges p")).to_have_count(22)
    page.locator("#privileges p a").last.click()
    shows(page, case="c21")


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


def test_words_that_differ_are_found(open_page: OpenPage, plain: Path) -> None:
    pairs = [[before, after] for before, after, *_ in WORDS]
    found = open_page(plain).evaluate("pairs => pairs.map(pair => changes(...pair))", pairs)
    shown = [
        [[text[start:end] for start, end in side] for text, side in zip(pair, sides, strict=True)]
        for pair, sides in zip(pairs, found, strict=True)
    ]
    assert shown == [[old, new] for _, _, old, new in WORDS]


def test_marks_change_no_text_and_leave_the_same_words(open_page: OpenPage, plain: Path) -> None:
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
    page = open_page(plain)
    marked = page.evaluate(script, texts)
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


def test_hostile_texts_are_compared_in_time(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    for name, text in HOSTILE_TEXTS.items():
        taken = page.evaluate(
            f"""() => {{
                const text = {text};
                const other = text.split("\\n").sort().join("\\n");
                const start = Date.now();
                steps = 0;
                changes(text, `${{other.slice(0, -7)}}end`);
                return Date.now() - start;
            }}"""
        )
        assert taken < 5_000, name


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
    assert texts(page, "#case .absent") == [
        "Its texts are the same. With --all, the report has them."
    ]


def greeting(words: str) -> dict[str, str]:
    case = f"{{id: greeting, input_messages: [{{role: user, content: {words}}}]}}"
    return {"evals/greeting.eval.yaml": f"evalcases: [{case}]"}


def test_a_pipeline_without_a_chat_prompt_says_so(open_page: OpenPage, tmp_path: Path) -> None:
    nothing = "The pipeline gives no chat prompt; providers get the transcript."
    then = greeting("Hello") | {"p.yaml": "extends: shipped\n"}
    page = open_page(page_of(tmp_path, then, then | greeting("Good morning"), pipeline="p.yaml"))
    assert texts(page, "#panel") == [nothing]
    press(page, "6")
    assert texts(page, "#panel .text")[-1] == "Good morning"
    now = greeting("Good morning") | {"p.yaml": "extends: spec\n"}
    page = open_page(page_of(tmp_path, then, now, pipeline="p.yaml"))
    assert texts(page, "#panel .absent") == [nothing]
    assert texts(page, "#panel ins") == ["Good morning"]


def test_search_finds_any_text_and_shows_it(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    press(page, "/")
    page.keyboard.type("BIND")
    shows(page, count="1 of 3 cases")
    page.keyboard.type(" every")  # which leaves the number of cases as it is
    expect_found(page, "Bind every")
    shows(page, count="1 of 3 cases")
    expect(page.get_by_text("Bind every value.")).to_be_visible()
    page.locator("#search").fill("nowhere at all")
    shows(page, count="0 of 3 cases")
    page.locator("#search").fill("tant]: i speak")  # begins in one span and ends in another
    shows(page, count="1 of 3 cases", case="monologue")
    press(page, "Escape")
    shows(page, count="3 cases")
    expect(page.locator("#search")).to_have_value("")


def test_search_finds_a_phrase_across_a_changed_word(open_page: OpenPage, compared: Path) -> None:
    page = open_page(compared)
    press(page, "j")
    assert texts(page, "#panel ins") == ["single"]
    for phrase in ("every single value", "every s", "e value."):
        page.locator("#search").fill(phrase)
        expect_found(page, phrase)
        shows(page, count="1 of 5 cases")
    page.locator("#search").fill("single every")
    shows(page, count="0 of 5 cases")


def test_roles_filter(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    users, button = page.locator("#panel .turn.user"), page.get_by_role("button", name="user")
    button.click()
    expect(users.first).to_be_hidden()
    expect(page.locator("#panel .turn.tool")).to_be_visible()
    press(page, "j")
    expect(users.first).to_be_hidden()
    button.click()
    expect(users.first).to_be_visible()


def test_the_panel_follows_the_search(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    search = page.locator("#search")
    search.fill("nowhere at all")
    shows(page, case="No case matches")
    expect(page.locator("#panel")).to_have_count(0)
    search.fill("I speak first")
    shows(page, case="monologue")
    expect_found(page, "I speak first")
    expect(search).to_be_focused()
    search.fill("nowhere at all")
    shows(page, case="No case matches")
    page.locator("#cases").focus()
    press(page, "2")
    shows(page, case="No case matches")
    press(page, "Escape")
    shows(page, case="monologue")


def test_a_browser_that_is_too_old_says_so(browser: Browser, plain: Path) -> None:
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(plain.as_uri())
    shows(page, case="This browser is too old")
    page.close()


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


def test_a_browser_of_two_years_ago_is_enough(browser: Browser, compared: Path) -> None:
    older = """
        Object.defineProperty(CSS, "highlights", { value: undefined });
        for (const name of Object.getOwnPropertyNames(Iterator.prototype)) {
            if (name !== "constructor") delete Iterator.prototype[name];
        }
        delete window.Highlight;
        delete window.Iterator;
    """
    reader = Reader(browser, older)
    page = reader.open(compared)
    see_all(page)
    page.locator("#search").fill("every single value")
    shows(page, case="injection", count="1 of 5 cases")
    page.close()
    assert reader.errors == []


def test_a_filter_that_hides_the_case_says_so(open_page: OpenPage, compared: Path) -> None:
    page = open_page(compared)
    shows(page, case="broken")
    page.get_by_role("button", name="2 changed").click()
    shows(page, case="The case that was shown does not match", count="2 of 5 cases")
    expect(page.locator("#case")).to_contain_text("2 cases in the list")
    press(page, "j")
    shows(page, case="injection")
    page.get_by_role("button", name="1 added").click()
    shows(page, count="3 of 5 cases")
    page = open_page(compared, "#suite=x&case=y")
    page.locator("#search").fill("nowhere at all")
    shows(page, case="No case matches")
    press(page, "Escape")
    shows(page, case="No such case in this report")


def test_keys_go_through_the_cases_that_are_shown(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    press(page, "k")
    shows(page, case="injection")
    page.locator("#search").fill("I speak")
    shows(page, count="1 of 3 cases")
    page.locator("#panel").focus()
    press(page, "j")
    shows(page, case="monologue")
    press(page, "?")
    expect(page.get_by_role("dialog")).to_be_visible()
    press(page, "Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_the_focus_stays_in_the_case(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    page.get_by_role("tab", selected=True).focus()
    for key, tab in (("4", "Anthropic"), ("End", "VS Code"), ("Home", "Chat prompt")):
        press(page, key)
        shows(page, focus=tab)
    page.locator("#panel .span:visible").first.focus()
    press(page, "2")
    expect(page.locator("#panel")).to_be_focused()
    page.locator("#panel .span").first.focus()
    press(page, "j")
    shows(page, focus="greeting")
    press(page, "3")
    shows(page, focus="greeting")
    page.locator("#cases a", has_text="monologue").focus()
    press(page, "Enter")
    shows(page, focus="monologue", case="monologue")


def test_from_the_search_a_link_skips_to_the_case(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    address = page.url
    press(page, "/", "Tab")
    shows(page, focus="Skip to the case")
    press(page, "Enter")
    shows(page, focus="injection")
    assert page.url == address


def test_keys_of_one_sign_act_alone_and_can_be_switched_off(
    open_page: OpenPage, plain: Path
) -> None:
    page = open_page(plain)
    for held in ("Control", "Alt", "Meta"):
        press(page, f"{held}+j", f"{held}+2")
    shows(page, case="injection", tab="Chat prompt")
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("checkbox", name="Use these letters, digits and signs").uncheck()
    press(page, "Escape", *"j2e/?")
    shows(page, case="injection", tab="Chat prompt")
    expect(page.locator("#panel details[open]")).to_have_count(0)
    expect(page.locator("#search")).not_to_be_focused()
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("tab", selected=True).focus()
    press(page, "ArrowRight")
    shows(page, focus="Transcript")


def test_an_address_leads_to_a_case_and_a_view(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain)
    choose(page, "greeting")
    press(page, "2")
    page = open_page(plain, f"#{page.url.partition('#')[2]}")
    shows(page, case="greeting", tab="Transcript")


def test_an_address_of_no_case_says_so_and_stays(open_page: OpenPage, plain: Path) -> None:
    address = "#suite=evals%2Freview.eval.yaml&case=%3Cb%3Egone"
    page = open_page(plain, address)
    shows(page, case="No such case in this report")
    assert texts(page, ".about") == ["evals/review.eval.yaml · <b>gone"]
    assert page.url.endswith(address)
    expect(page.locator("[aria-current]")).to_have_count(0)
    press(page, "2")
    shows(page, case="No such case in this report")
    press(page, "j")
    shows(page, case="injection")
    page.evaluate(f"location.hash = '{address}'")
    shows(page, case="No such case in this report")
    expect(page.locator("[aria-current]")).to_have_count(0)


def test_an_address_that_says_nothing_changes_nothing(open_page: OpenPage, plain: Path) -> None:
    page = open_page(plain, "#panel")
    shows(page, case="injection")
    assert page.url.endswith("#panel")
    choose(page, "greeting")
    press(page, "2")
    page.evaluate("new Promise(done => { onhashchange = () => done(); location.hash = '#case' })")
    shows(page, case="greeting", tab="Transcript")
    assert page.url.endswith("#case")


def test_the_browser_would_stop_whatever_asks_the_network(reader: Reader, plain: Path) -> None:
    page = reader.open(plain)
    stopped = """what => new Promise(resolve => {
        addEventListener('securitypolicyviolation', event => resolve(event.effectiveDirective));
        setTimeout(resolve, 5000, 'nothing stopped it');
        const element = document.createElement(what);
        element.src = 'https://example.org/x';
        document.body.append(element);
    })"""
    assert page.evaluate(stopped, "img") == "img-src"
    assert page.evaluate(stopped, "iframe") == "frame-src"
    assert page.evaluate(stopped, "script") == "script-src-elem"
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


# What is dark or narrow differs in its colors and its width; all else is tested once.
@pytest.mark.parametrize(
    ("scheme", "width", "rules"),
    [("light", 1200, {}), ("dark", 360, {"runOnly": ["color-contrast"]})],
)
def test_everybody_can_use_it(
    *,
    open_page: OpenPage,
    plain: Path,
    compared: Path,
    politer: Path,
    scheme: str,
    width: int,
    rules: dict[str, Any],
) -> None:
    script = """async (rules) => (await axe.run({ reporter: "no-passes", ...rules })).violations
        .map(({ id, nodes }) => [id, nodes[0].html])"""
    # One side is shown as two are, without columns; the views left out are drawn as the fourth is.
    for file, case, views in ((plain, 0, [1]), (politer, 0, [1]), (compared, 1, [1, 2, 4, 6])):
        page = open_page(file, width=width, scheme=scheme)
        page.evaluate(AXE)
        page.locator("#cases a").nth(case).click()
        for view in views:
            press(page, str(view))
            assert page.evaluate(script, rules) == []
    if width == 360:
        assert see_all(page) <= 0
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


def test_the_command_writes_the_same_bytes(plain: Path) -> None:
    done = run("report", "evals", "--root=.", folder=plain.parent)
    assert done.stdout.encode() == plain.read_bytes()
    assert os.fsencode(plain.parent) not in plain.read_bytes()
