"""A real browser for tests: whatever Chromium the machine has, headless, and no network."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium; without one, skip, or fail where CI must have installed it."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        missing = f"no browser: none of {', '.join(_NAMES)} is installed"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_QUIET))
        yield browser
        browser.close()


@contextmanager
def open_page(
    browser: Browser, file: Path, address: str = "", script: str = "", **context: Any
) -> Iterator[Page]:
    """Open a file; whatever a page must not do while it is open fails at the end.

    Args:
        browser: to open it in.
        file: the page.
        address: what follows the file's name.
        script: to run before the page's own.
        context: of the page, as Playwright calls it.
    """
    errors: list[str] = []
    options: dict[str, Any] = {"viewport": {"width": 1200, "height": 800}}
    page = browser.new_page(**options | context)
    page.add_init_script(script)
    page.on("console", lambda message: errors.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: errors.append(f"error: {error}"))
    page.on("dialog", lambda dialog: errors.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: errors.append(f"request: {request.url}"))
    page.goto(f"{file.as_uri()}{address}")
    assert errors.pop(0) == f"request: {file.as_uri()}"
    page.wait_for_selector("#count:not(:empty)")
    yield page
    page.close()
    assert errors == []
