"""The site in a real browser, as ``make docs`` has built it: found, read, searched, and offline."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

ROOT = Path(__file__).parents[2]
SITE = ROOT / "site"
START = "docs/index.html"
LOOKED_AT = [
    "README",
    "docs/glossary",
    "docs/index",
    "docs/openai",
    "docs/reference/settings",
    "docs/requests",
    "search",
]


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve the site on the loopback interface."""
    assert SITE.is_dir(), "run make docs, which builds the site"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(SITE))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Return the start page; whatever it loads from elsewhere, or cannot load, is an error."""
    page = browser.new_page(viewport={"width": 1400, "height": 800})
    failed: list[str] = []
    page.on(
        "request",
        lambda request: (
            None if request.url.startswith((address, "data:")) else failed.append(request.url)
        ),
    )
    page.on(
        "response",
        lambda response: (
            failed.append(response.url)
            if response.status >= 400 and "favicon" not in response.url
            else None
        ),
    )
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(f"{address}/{START}")
    yield page
    page.close()
    assert failed == []


@pytest.mark.parametrize("name", LOOKED_AT)
@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
def test_a_page_is_for_everybody(
    page: Page, address: str, name: str, scheme: Literal["light", "dark"], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{address}/{name}.html" + "?q=guideline" * (name == "search"))
    if name == "search":
        page.wait_for_selector("#search-results li")
    lightness = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red = int(re.findall(r"\d+", lightness)[0])
    assert red > 200 if scheme == "light" else red < 50
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []


@pytest.mark.parametrize(
    ("clicks", "answer"),
    [
        pytest.param(["From suite to grade"], "Grade.", id="how do I grade answers"),
        pytest.param(
            ["Wire rules"], "some take a system message only first", id="what does O5 mean"
        ),
        pytest.param(["Privilege"], "promoted.lock", id="which file reaches the system message"),
        pytest.param(["Azure OpenAI"], "provider: azure", id="use Azure"),
        pytest.param(["Long histories"], "trim_history", id="trim histories"),
        pytest.param(["Servers of your own"], "http://localhost:11434/v1", id="ask Ollama"),
        pytest.param(["Tokens and costs", "Limits"], "--max-cost DOLLARS", id="limit what I pay"),
        pytest.param(
            ["Suites", "Images, documents and audio"], "type: image", id="attach an image"
        ),
        pytest.param(["From promptfoo"], "promptfooconfig.yaml", id="move here from promptfoo"),
        pytest.param(["Glossary", "repair"], "a rule of the API requires", id="what is a repair"),
        pytest.param(["Commands", "multiturn run"], "--resume", id="continue a run"),
        pytest.param(["Upgrading"], "model_takes", id="what to do for a new version"),
    ],
)
def test_a_question_is_answered_in_three_clicks(page: Page, clicks: list[str], answer: str) -> None:
    assert len(clicks) <= 3
    for words in clicks:
        links = page.get_by_role("link", name=words, exact=True)
        links.locator("visible=true").first.click()
        page.wait_for_load_state()
    expect(page.get_by_role("main").get_by_text(answer).first).to_be_visible()


def test_a_page_links_a_term_of_ours_where_it_first_uses_it(page: Page) -> None:
    page.get_by_role("link", name="Review", exact=True).first.click()
    terms = page.get_by_role("main").get_by_role("link", name="change of privilege", exact=True)
    expect(terms).to_have_count(1)
    terms.click()
    expect(page).to_have_url(re.compile(r"/docs/glossary\.html#change-of-privilege$"))


@pytest.mark.parametrize(("words", "name"), [("O5", "Wire rules"), ("--max-cost", "Commands")])
def test_a_search_finds_a_page(page: Page, words: str, name: str) -> None:
    page.get_by_role("textbox", name="Search").fill(words)
    page.keyboard.press("Enter")
    found = page.locator("#search-results").get_by_role("link", name=name)
    expect(found.first).to_be_visible()


def test_llms_txt_leads_to_the_text_of_each_page() -> None:
    text = (SITE / "llms.txt").read_text(encoding="utf-8")
    names = re.findall(r"^ *- \[.+?\]\((.+?)\)", text, re.MULTILINE)
    pages = {*ROOT.glob("docs/*.md"), *ROOT.glob("docs/reference/*.md"), *ROOT.glob("*.md")}
    assert {ROOT / name for name in names} == pages - {ROOT / "docs/index.md"}
    for name in names:
        assert (SITE / name).read_bytes() == (ROOT / name).read_bytes()
