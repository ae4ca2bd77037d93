"""The report in a real browser: what a reviewer sees, clicks and types."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from browser import Reader
from comparing import Target, report_of
from multiturn.report.html import to_html

OpenPage = Callable[..., Page]
CLAUDE = {"name": "claude", "provider": "anthropic", "model": "m", "api_key": "k"}
VIEWS = ["Chat prompt", "Transcript", "claude"]
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


@pytest.fixture
def open_page(reader: Reader) -> OpenPage:
    return reader.open


def page_of(
    folder: Path, *states: dict[str, str], pipeline: str = "spec", target: Target = None
) -> Path:
    """Write the page of files, or of what differs between two states of them."""
    page = folder / "r.html"
    page.write_bytes(to_html(report_of(folder, *states, pipeline=pipeline, target=target)))
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
def sent(open_page: OpenPage, tmp_path: Path) -> Page:
    """A report of what a target is sent."""
    return open_page(page_of(tmp_path, FILES, target=CLAUDE))


@pytest.fixture
def compared(open_page: OpenPage, compared_file: Path) -> Page:
    """A report of two guidelines' changes, a case that is new, one that is gone, one that fails."""
    return open_page(compared_file)


def texts(page: Page | Locator, selector: str) -> list[str]:
    return [text.strip() for text in page.locator(selector).all_text_contents()]


PARTS = {
    "case": "#case h2",
    "change": "#at-change",
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


def choose(page: Page, case: str, /, **parts: str) -> None:
    page.locator("#cases a", has_text=case).click()
    shows(page, **parts)


def fragment(page: Page) -> str:
    """Return the end of the address as the page has it: the browser tells of it later."""
    return str(page.evaluate("location.hash"))


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
    unfolded = plain.locator("#panel .turn.system > .text > .span").all_text_contents()
    assert unfolded == ["You review code.", "\n\n", "[[ ## Guidelines ## ]]"]
    expect(tone).to_be_hidden()
    plain.locator("#panel summary").first.click()
    expect(tone).to_be_visible()
    expect(sql).to_be_hidden()
    press(plain, "e")
    expect(sql).to_be_visible()
    press(plain, "e")
    expect(tone).to_be_hidden()


def test_each_view_is_a_click_a_number_or_an_arrow_away(sent: Page) -> None:
    tabs = sent.get_by_role("tab")
    assert tabs.all_text_contents() == VIEWS
    for number, name in enumerate(VIEWS, 1):
        tabs.nth(number - 1).click()
        shows(sent, tab=name)
        press(sent, "1", str(number), tab=name)
    for key, name in (
        ("ArrowRight", "Chat prompt"),
        ("ArrowLeft", "claude"),
        ("Home", "Chat prompt"),
        ("End", "claude"),
    ):
        press(sent, key, tab=name, focus=name)


def test_what_the_target_is_sent_is_shown_as_json(sent: Page) -> None:
    press(sent, "3")
    body = json.loads(sent.locator("#panel .text").text_content() or "")
    assert body["messages"] == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": USER},
        {"role": "assistant", "content": 'No: "name" is\npasted.'},
        {"role": "user", "content": "[Tool]: grep: 2 hits\n\nAnd now?"},
    ]
    assert body["model"] == "m"
    assert any("A6" in note for note in texts(sent, ".notes li"))


def test_the_texts_of_each_view_say_where_they_come_from(sent: Page) -> None:
    choose(sent, "greeting")
    for view in "123":
        press(sent, view)
        hello = sent.locator("#panel [data-origin]", has_text="Hello there")
        assert hello.get_attribute("data-origin") == "evals/review.eval.yaml:17", view


def test_pointing_at_a_text_says_where_it_comes_from(sent: Page) -> None:
    press(sent, "e")
    guideline = "rules/sql.instructions.md, attached at evals/review.eval.yaml:9"
    for key, text, origin in (
        ("1", "And now?", "evals/review.eval.yaml:14"),
        ("1", "db.run", "query.py, attached at evals/review.eval.yaml:10"),
        ("3", "Bind every value.", f"{guideline}, moved by extract_guidelines"),
        ("3", "Is this safe?", "evals/review.eval.yaml:11"),
    ):
        press(sent, key)
        sent.get_by_text(text).hover()
        shows(sent, origin=origin)
    press(sent, "1")
    sent.mouse.move(0, 0)
    sent.locator("#panel").focus()
    press(sent, "Tab", origin="metadata.systemPrompt of evals/review.eval.yaml")
    press(sent, "Tab", origin="added by consolidate_system")


# What is different


RULES = [f"Rule {number} holds." for number in range(1, 61)]
SHOP = """\
guideline_patterns: ["*.rules.md"]
evalcases:
"""
SHOP_CASE = """\
  - id: %s
    input_messages:
      - role: user
        content:
          - {type: file, value: shop.rules.md}
          - Hello
          - My number is %d.
"""


def shop(rules: list[str], hello: str = "Hello", cases: int = 3) -> dict[str, str]:
    asked = "".join(SHOP_CASE % (f"case-{number}", number) for number in range(cases))
    return {
        "evals/shop.eval.yaml": SHOP + asked.replace("Hello", hello),
        "evals/shop.rules.md": "\n".join(rules) + "\n",
    }


def edited(rules: list[str]) -> list[str]:
    """Change a word of line 30, and add a line at the end."""
    return [*rules[:29], "Rule 30 holds now.", *rules[30:], "Thank them."]


RULES_CHANGED = "evals/shop.rules.md changed; it is part of a system message"


@pytest.fixture(scope="module")
def shop_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guideline with two changes, 30 lines apart, and the same other word in three cases."""
    folder = tmp_path_factory.mktemp("shop")
    return page_of(folder, shop(RULES), shop(edited(RULES), "Good morning"))


@pytest.fixture
def changed_shop(open_page: OpenPage, shop_file: Path) -> Page:
    return open_page(shop_file)


def test_the_page_begins_with_each_difference_once(changed_shop: Page) -> None:
    shows(changed_shop, case="2 differences")
    assert texts(changed_shop, ".difference h3[tabindex]") == [
        RULES_CHANGED,
        "'Hello' → 'Good morning'",
    ]
    # " now" counts as 0.73 tokens, "Thank them." and a line break as 3.91, "Good morning" as 1.44
    # more than "Hello".
    assert texts(changed_shop, ".facts > :not(code)") == [
        *("in 3 cases", "about +14 tokens in 3 cases"),
        *("in 3 cases", "about +4 tokens in 3 cases"),
    ]
    assert joined(changed_shop, ".difference ins") == "now Thank them. Good morning"
    assert joined(changed_shop, ".difference del") == "Hello"
    assert texts(changed_shop, "#privileges :is(h3, p)") == [
        "1 change of privilege",
        "evals/shop.rules.md changed; it is part of a system message in 3 cases"
        " 'Rule 30 holds.' → 'Rule 30 holds now.'",
    ]
    assert texts(changed_shop, ".dangerous h3[tabindex]") == [RULES_CHANGED]


def test_the_cases_of_a_difference_unfold_and_open(changed_shop: Page) -> None:
    card = changed_shop.locator(".difference").last
    card.get_by_text("in 3 cases").first.click()
    suite = "evals/shop.eval.yaml"
    expect(changed_shop.locator(".links a")).to_have_count(3)
    assert texts(changed_shop, ".links a") == [f"case-{number} {suite}" for number in range(3)]
    card.get_by_role("link", name="case-2").click()
    shows(changed_shop, case="case-2")
    expect(changed_shop.locator("#privileges")).to_have_count(0)
    changed_shop.go_back()
    shows(changed_shop, case="2 differences")
    press(changed_shop, "j", case="case-0")
    press(changed_shop, "k", case="2 differences", focus="2 differences")


def test_a_case_opens_at_its_first_change_with_three_lines_around(changed_shop: Page) -> None:
    press(changed_shop, "j", case="case-0")
    folds = changed_shop.get_by_role("button", name="unchanged lines")
    labels = [fold.get_attribute("aria-label") for fold in folds.all()]
    # The header and 29 rules are above the first change, and 30 rules between the two.
    assert labels == ["26 unchanged lines", "24 unchanged lines"]
    hidden = changed_shop.locator(".row.same", has_text="Rule 10 holds.")
    expect(hidden).to_be_hidden()
    first = changed_shop.locator("#panel .row.changed").first
    expect(first).to_be_in_viewport()
    above = first.locator("xpath=preceding-sibling::*[1]/*[2]")
    assert texts(changed_shop, "#panel .row.changed >> nth=0 >> .text") == [
        "Rule 30 holds.",
        "Rule 30 holds now.",
    ]
    assert above.text_content() == "Rule 27 holds.\nRule 28 holds.\nRule 29 holds.\n"
    folds.first.click()
    expect(hidden).to_be_visible()
    press(changed_shop, "e")
    expect(changed_shop.locator("#panel [hidden]")).to_have_count(0)
    press(changed_shop, "e")
    expect(hidden).to_be_hidden()
    search(changed_shop, "rule 10 holds", "Rule 10 holds", "Rule 10 holds")  # on both sides
    expect(hidden).to_be_visible()


def test_keys_go_to_the_next_and_the_previous_change(changed_shop: Page) -> None:
    press(changed_shop, "n", focus=RULES_CHANGED)
    press(changed_shop, "n", "n", focus="'Hello' → 'Good morning'")
    press(changed_shop, "p", focus=RULES_CHANGED)
    press(changed_shop, "j", case="case-0", change="3 changes")
    here = changed_shop.locator("#panel .row.here .text:last-child")
    for key, text, change in (
        ("n", "Rule 30 holds now.\n", "1 of 3 changes"),
        ("n", "Thank them.", "2 of 3 changes"),
        ("n", "Good morning\n", "3 of 3 changes"),
        ("n", "Good morning\n", "3 of 3 changes"),
        ("p", "Thank them.", "2 of 3 changes"),
    ):
        press(changed_shop, key, change=change)
        assert here.text_content() == text
        expect(here).to_be_in_viewport()
    press(changed_shop, "2", "n", change="1 of 1 change")


def progress(page: Page, words: str) -> None:
    expect(page.locator("#progress-words")).to_have_text(words)


def test_what_was_viewed_is_kept_for_this_comparison(
    open_page: OpenPage, shop_file: Path, tmp_path: Path
) -> None:
    page = open_page(shop_file)
    progress(page, "0 of 3 viewed")
    press(page, "j", "v", "j", "v")
    progress(page, "2 of 3 viewed")
    page = open_page(shop_file)
    progress(page, "2 of 3 viewed")
    assert texts(page, "#cases li .tick") == ["viewed", "viewed"]
    other = page_of(tmp_path, shop(RULES), shop(RULES, "Good evening"))
    progress(open_page(other), "0 of 3 viewed")
    page = open_page(shop_file)
    press(page, "j", "v")
    progress(page, "1 of 3 viewed")


def test_a_difference_that_was_viewed_stands_for_its_cases(
    open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(page_of(tmp_path, shop(RULES), shop(edited(RULES), "Good day")))
    press(page, "n", "v")
    progress(page, "0 of 3 viewed")  # the other difference is in the same cases
    assert [box.is_checked() for box in page.locator(".view input").all()] == [True, False]
    expect(page.locator(".difference .content").first).to_be_hidden()
    press(page, "n", "v")
    progress(page, "3 of 3 viewed")
    press(page, "j", "v", case="case-0")
    progress(page, "2 of 3 viewed")
    press(page, "v", "j", "v", "v", "o")
    progress(page, "3 of 3 viewed")


def test_the_page_works_where_nothing_can_be_kept(browser: Browser, shop_file: Path) -> None:
    refused = """Object.defineProperty(window, "localStorage", {
        get() { throw new DOMException("refused", "SecurityError"); },
    });"""
    reader = Reader(browser, refused)
    page = reader.open(shop_file)
    press(page, "j", "v")
    progress(page, "1 of 3 viewed")
    page.close()
    assert reader.errors == []


def test_the_chosen_case_is_in_view_in_a_long_list(open_page: OpenPage, tmp_path: Path) -> None:
    file = page_of(tmp_path, shop(RULES, cases=300), shop(edited(RULES), cases=300))
    page = open_page(file, "#suite=evals%2Fshop.eval.yaml&case=case-250")
    shows(page, case="case-250")
    expect(page.locator("#cases [aria-current]")).to_be_in_viewport()
    page = open_page(file)
    page.locator(".difference summary").first.click()
    expect(page.locator(".links li")).to_have_count(50)
    for number in (100, 150, 200, 250, 300):
        page.get_by_role("button", name=f"{350 - number} more").click()
        expect(page.locator(".links li")).to_have_count(number)
    page.locator(".links a").last.click()
    shows(page, case="case-299")
    expect(page.locator("#cases [aria-current]")).to_be_in_viewport()


def many(number: int) -> list[dict[str, str]]:
    """Return two states of as many cases, each with a difference of its own."""
    case = "{id: c%d, input_messages: [{role: user, content: %s %d}]}"
    cases = [[case % (n, word, n) for n in range(number)] for word in ("Good", "Bad")]
    return [{"evals/a.eval.yaml": f"evalcases: [{', '.join(side)}]"} for side in cases]


def test_of_a_group_of_cases_those_with_a_change_of_privilege_say_so(
    open_page: OpenPage, tmp_path: Path
) -> None:
    asked = "{id: %s, input_messages: [{role: user, content: [{type: file, value: %s}, Hi]}]}"
    cases = [asked % (name, f"{name}.md") for name in "abc"]
    files = {f"{name}.md": name for name in "abc"}
    name, head = "evals/x.eval.yaml", "guideline_patterns: [a.md]\nevalcases: "
    then = {**files, name: f"{head}[{cases[2]}]"}
    page = open_page(page_of(tmp_path, then, {**files, name: f"{head}[{', '.join(cases)}]"}))
    assert texts(page, "#cases h2 .privilege") == []
    assert texts(page, "#cases li:has(.privilege) a") == ["aevals/x.eval.yamlChange of privilege"]


def test_of_many_differences_twenty_are_shown_at_once(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(page_of(tmp_path, *many(45)))
    shows(page, case="45 differences")
    expect(page.locator("#case .about").first).to_have_text("in 45 cases, each shown once")
    expect(page.locator(".difference")).to_have_count(20)
    page.get_by_role("button", name="Show 20 more of 25").click()
    expect(page.locator(".difference")).to_have_count(40)
    page.get_by_role("button", name="Show 5 more of 5").click()
    expect(page.locator(".difference")).to_have_count(45)


def test_differences_of_one_title_say_how_many_they_are(
    open_page: OpenPage, tmp_path: Path
) -> None:
    option = "extends: spec\nconfigure: {embed_files: {header: '-- {path}'}}\n"
    attached = "{id: %s, input_messages: [{role: user, content: [{type: file, value: %s}]}]}"
    cases = ", ".join(attached % (name, f"{name[0]}.txt") for name in ("a1", "a2", "b1"))
    # Another role is another heading in the snapshot, and so another difference.
    cases = cases.replace("b.txt}]}", "b.txt}]}, {role: user, content: Go on}")
    cases = cases.replace(
        "b1, input_messages: [{role: user", "b1, input_messages: [{role: assistant"
    )
    files = {"evals/x.eval.yaml": f"evalcases: [{cases}]", "evals/a.txt": "A", "evals/b.txt": "B"}
    states = {**files, "p.yaml": option}, {**files, "p.yaml": option.replace("--", "##")}
    page = open_page(page_of(tmp_path, *states, pipeline="p.yaml"))
    cause = "embed_files.header in p.yaml:2"
    titles = [f"{cause} (1 of 2, in 3 cases)", f"{cause} (2 of 2, in 3 cases)"]
    assert texts(page, ".difference h3[tabindex]") == titles
    assert texts(page, "#contents a") == titles
    assert texts(page, ".difference .causes li") == []


def test_a_filter_leaves_the_differences_of_the_cases_that_are_left(compared: Page) -> None:
    shows(compared, case="5 differences")
    about = compared.locator("#case .about").first
    expect(about).to_have_text("in 4 cases, each shown once")
    search(compared, "good morning", count="1 of 5 cases", case="1 of 5 differences")
    expect(about).to_have_text("in 1 case, each shown once")
    assert texts(compared, ".difference ins") == ["Good morning"]
    press(compared, "Escape", count="5 cases", case="5 differences")
    expect(compared.locator(".difference")).to_have_count(5)


def test_search_counts_differences_that_were_not_shown_yet(
    open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(page_of(tmp_path, *many(45)))
    search(page, "bad 44", count="1 of 45 cases", case="1 of 45 differences")
    expect(page.locator(".difference")).to_have_count(1)


def test_keys_reach_every_difference_also_new_and_removed_cases(
    open_page: OpenPage, tmp_path: Path
) -> None:
    then, now = many(22)
    gone = "{id: gone, input_messages: [{role: user, content: Bye}]}, "
    added = "{id: added, input_messages: [{role: user, content: Hi}]}, "
    name = "evals/a.eval.yaml"
    then, now = (
        {name: side[name].replace("[{id: c0", f"[{more}{{id: c0")}
        for side, more in ((then, gone), (now, added))
    )
    page = open_page(page_of(tmp_path, then, now))
    progress(page, "0 of 24 viewed")
    for number in range(24):
        press(page, "n", "v")
        progress(page, f"{number + 1} of 24 viewed")
    assert texts(page, ".difference .head h3")[-2:] == ["1 case new", "1 case removed"]
    assert texts(page, ".difference .facts a")[-2:] == [
        "added evals/a.eval.yaml",
        "gone evals/a.eval.yaml",
    ]


def test_cases_that_failed_come_after_the_differences(compared: Page) -> None:
    assert texts(compared, "#others summary") == ["1 case failed"]
    compared.locator("#others").get_by_role("link", name="broken").click()
    shows(compared, case="broken")


def test_a_report_without_any_difference_says_so(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(page_of(tmp_path, FILES, FILES))
    shows(page, case="No prompt is different")
    expect(page.locator("#progress")).to_be_hidden()


def test_a_message_with_another_role_shows_both_roles(open_page: OpenPage, tmp_path: Path) -> None:
    then = {"evals/a.eval.yaml": POLITE.replace("{role: user, content: Hello}", MOVED)}
    now = {"evals/a.eval.yaml": then["evals/a.eval.yaml"].replace("assistant", "tool")}
    page = open_page(page_of(tmp_path, then, now))
    assert texts(page, ".content h3.changed") == ["assistant → tool"]
    press(page, "j", change="1 change")


MOVED = "{role: user, content: Hello}, {role: assistant, content: Obey.}, {role: user, content: So}"


# What has changed


def test_the_list_has_each_cause_with_its_cases(compared: Page) -> None:
    assert texts(compared, "#cases h2") == [
        "failed 1",
        "changed: more than one cause 1Change of privilege",
        "changed: evals/review.eval.yaml line 16: the messages of 'greeting' 1"
        " 'Hello there' → 'Good morning'",
        "added 1",
        "removed 1",
    ]
    assert texts(compared, "#cases li")[0].startswith("broken")
    press(compared, "j", case="broken")
    assert "no file 'x'" in texts(compared, ".error")[0]
    press(compared, "j", case="injection")
    assert texts(compared, ".causes li") == [
        "rules/sql.instructions.md line 1",
        "evals/review.eval.yaml line 4: the messages of 'injection'",
        "rules/sql.instructions.md changed; it is part of a system message",
    ]


def test_changed_words_are_marked_side_by_side(compared: Page) -> None:
    press(compared, *"jj", case="injection")
    expect(compared.locator("#panel details[open]")).to_have_count(1)
    assert texts(compared, "#panel ins") == ["single"]
    assert texts(compared, "#panel del") == ["grep: 2 hits"]
    assert texts(compared, "#panel .turn.tool h3") == ["tool removed"]
    row = compared.locator("#panel .turn.system .row.changed .text")
    left, right = (cell.bounding_box() for cell in row.all())
    assert left is not None
    assert right is not None
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    press(compared, "j")
    for view in ("1", "2"):
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


def joined(page: Page | Locator, selector: str) -> str:
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
    page = open_page(page_of(tmp_path, then, now))
    above = texts(page, "#privileges:has(~ #differences) :is(h3, p)")
    assert above == ["1 change of privilege", f"{IS_NEW} in 1 case"]
    assert texts(page, "#cases li") == [
        "thanksevals/polite.eval.yaml",
        "helloevals/polite.eval.yaml",
    ]
    assert texts(page, "#cases h2 .privilege") == ["Change of privilege"]  # once for all of them
    page.locator("#privileges").get_by_role("link", name="evals/polite.md").click()
    titles = texts(page, ".difference.dangerous h3")
    shows(page, focus=titles[0])
    choose(page, "thanks")
    shows(page, case="thanks")
    expect(page.locator("#privileges")).to_have_count(0)
    assert texts(page, ".causes .privilege") == [IS_NEW]
    assert texts(page, "#panel summary") == ["evals/polite.md 2 lines, new"]

    reference, guideline = "<Attached: polite.md>", "=== polite.md === Be polite. Say please."
    marked = {
        "Chat prompt": f"{guideline} {reference}",
        "Transcript": reference,
    }
    for view, words in marked.items():
        page.get_by_role("tab", name=view).click()
        assert joined(page, "#panel ins") == words, view
        assert texts(page, "#panel del") == []


def test_the_text_of_a_file_is_a_difference_apart_from_its_header(
    open_page: OpenPage, tmp_path: Path
) -> None:
    suite = """\
evalcases:
  - {id: box, input_messages: [{role: user, content: [{type: file, value: box.txt}, Hi]}]}
"""
    then = {
        "house.yaml": "extends: spec\n",
        "evals/box.eval.yaml": suite,
        "evals/box.txt": "For sale:\nA hat.\n",
    }
    now = {
        **then,
        "house.yaml": 'extends: spec\nconfigure: {embed_files: {header: "--- {path}"}}\n',
        "evals/box.txt": "For sale:\nA cap.\n",
    }
    page = open_page(page_of(tmp_path, then, now, pipeline="house.yaml"))
    shows(page, case="2 differences")
    cards = page.locator(".difference").all()
    found = [[joined(card, name) for name in ("del", "ins")] for card in cards]
    assert found == [["hat", "cap"], ["=== ===", "---"]]


def test_a_case_with_several_causes_is_named_by_the_one_of_its_own(
    open_page: OpenPage, tmp_path: Path
) -> None:
    case = "{id: box, input_messages: [{role: user, content: [{type: file, value: box.txt}, Hi]}]}"
    then = {"house.yaml": "extends: spec\n", "evals/box.txt": "A hat.\n"}
    then["evals/box.eval.yaml"] = f"evalcases: [{case}]\n"
    now = {
        **then,
        "house.yaml": 'extends: spec\nconfigure: {embed_files: {header: "--- {path}"}}\n',
        "evals/box.eval.yaml": then["evals/box.eval.yaml"].replace("Hi", "Bye"),
    }
    page = open_page(page_of(tmp_path, then, now, pipeline="house.yaml"))
    title = "evals/box.eval.yaml line 1: the messages of 'box', and 1 more"
    assert texts(page, ".difference h3[tabindex]") == [title]


def test_a_file_that_is_promoted_shows_its_text_and_both_roles(
    open_page: OpenPage, tmp_path: Path
) -> None:
    suite = """\
guideline_patterns: []
evalcases:
  - {id: box, input_messages: [{role: user, content: [{type: file, value: box.txt}, Hi]}]}
"""
    then = {"evals/box.eval.yaml": suite, "evals/box.txt": "A hat.\n"}
    now = {**then, "evals/box.eval.yaml": suite.replace("[]", "[box.txt]", 1)}
    page = open_page(page_of(tmp_path, then, now))
    card = page.locator(".difference").first
    assert joined(card, ".turn h3") == "user → system"
    assert texts(card, ".turn .row .text") == ["A hat.", "A hat."]


def test_a_file_is_named_new_changed_or_removed(open_page: OpenPage, tmp_path: Path) -> None:
    def files(*names: str) -> dict[str, str]:
        attached = ", ".join(f"{{type: file, value: {name}.md}}" for name in names)
        case = f"{{id: a, input_messages: [{{role: user, content: [{attached}, Hi]}}]}}"
        suite = f'guideline_patterns: ["*.md"]\nevalcases: [{case}]\n'
        return {"evals/a.eval.yaml": suite, **{f"evals/{name}.md": "Say it.\n" for name in names}}

    now = files("same", "kept", "new") | {"evals/kept.md": "Say what."}
    page = open_page(page_of(tmp_path, files("old", "same", "kept"), now))
    press(page, "j")
    assert texts(page, "#panel summary") == [
        "evals/old.md 1 line, removed",
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
        "renamed: evals/review.eval.yaml line 6: the messages of 'safety' 1"
        " 'Is this safe?' → 'Is it safe?'",
        "renamed 1",
        "removed 1",
    ]
    choose(page, "safety")
    shows(page, case="safety")
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
    press(page, "j")
    assert texts(page, "#panel .absent") == [nothing, nothing]
    assert texts(page, "#panel li h3") == ["user"]
    assert texts(page, "#panel ins") == ["Good morning"]
    now = greeting("Good morning") | {"p.yaml": "extends: spec\n"}
    page = open_page(page_of(tmp_path, then, now, pipeline="p.yaml"))
    press(page, "j")
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
    press(compared, *"jj")
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
    press(compared, "j", case="broken")
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
    page.get_by_role("button", name="Cases").click()
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
    press(plain, "2", focus="greeting")
    plain.locator("#cases a", has_text="monologue").focus()
    press(plain, "Enter", focus="monologue", case="monologue")
    address = fragment(plain)
    press(plain, "/", "Tab", focus="Skip to the case")
    press(plain, "Enter", focus="monologue")
    assert fragment(plain) == address


def test_keys_of_one_sign_act_alone_and_can_be_switched_off(plain: Page) -> None:
    for held in ("Control", "Alt", "Meta"):
        press(plain, f"{held}+j", f"{held}+2", case="injection", tab="Chat prompt")
    plain.get_by_role("button", name="Keyboard shortcuts").click()
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
    assert fragment(page) == "#panel"
    choose(page, "greeting", case="greeting")
    press(page, "2", tab="Transcript")
    page = open_page(plain_file, fragment(page))
    shows(page, case="greeting", tab="Transcript")
    page.evaluate("new Promise(done => { onhashchange = () => done(); location.hash = '#case' })")
    shows(page, case="greeting", tab="Transcript")
    assert fragment(page) == "#case"


def test_an_address_of_no_case_says_so_and_stays(open_page: OpenPage, plain_file: Path) -> None:
    address = "#suite=evals%2Freview.eval.yaml&case=%3Cb%3Egone"
    page = open_page(plain_file, address)
    shows(page, case="No such case in this report")
    assert texts(page, ".about") == ["evals/review.eval.yaml · <b>gone"]
    assert fragment(page) == address
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
    sidebar = page.get_by_role("button", name="Cases")
    for text in HOSTILE:
        sidebar.click()
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
    for file, keys in ((plain_file, "1"), (compared_file, "ojj4")):
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
    press(page, "j")
    sheets = page.pdf(format="A4").count(b"/Type /Page\n")
    assert 5 <= sheets <= 8  # 300 lines, 40 to 60 on each
    page.emulate_media(media="print")
    for hidden in ("nav", "header", "footer", ".bar"):
        expect(page.locator(hidden)).to_be_hidden()


CALLS = """\
tools: [{name: weather, description: Of a city., parameters: {type: object}}]
evalcases:
  - id: umbrella
    input_messages:
      - {role: user, content: Well?}
      - role: assistant
        tool_calls: [{id: c1, name: weather, arguments: {city: Paris}}]
      - {role: tool, tool_call_id: c1, content: rain}
"""


def test_a_result_is_in_one_box_with_its_call_whose_arguments_are_compared_by_words(
    open_page: OpenPage, tmp_path: Path
) -> None:
    states = ({"evals/a.eval.yaml": text} for text in (CALLS, CALLS.replace("Paris", "Rome")))
    page = open_page(page_of(tmp_path, *states), "#suite=evals%2Fa.eval.yaml&case=umbrella")
    call = page.locator(".turn.assistant")
    expect(call.locator("del")).to_have_text("Paris")
    expect(call.locator("ins")).to_have_text("Rome")
    result = page.locator(".turn.assistant + .turn.result")
    expect(result).to_contain_text("tool, result of c1")
    expect(result).to_have_css("border-top-width", "0px")
    expect(page.locator(".turn.other")).to_contain_text("tool weather")
