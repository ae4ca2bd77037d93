"""A real browser for tests: whatever Chromium the machine has, headless, and no network."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
expect.set_options(timeout=30_000)  # a busy machine takes longer than the default of 5 s


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


class Reader:
    """Opens reports in the one page of a browser, and notes what they must not do.

    A page of its own for each report would take three times as long.
    """

    def __init__(self, browser: Browser, script: str = "") -> None:
        self.page = browser.new_page()
        self.page.add_init_script(script)
        self.errors: list[str] = []
        self._opened: list[str] = []
        self._numbers = count()
        self.page.on("console", lambda message: self.errors.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.errors.append(f"error: {error}"))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", self._note)

    def open(
        self,
        file: Path,
        address: str = "",
        width: int = 1200,
        scheme: Literal["light", "dark"] = "light",
    ) -> Page:
        """Open a file as a new visitor would; ``address`` follows its name."""
        # A number makes it another page, where another fragment alone would load nothing.
        url = f"{file.as_uri()}?{next(self._numbers)}"
        self._opened = [url]
        self.page.set_viewport_size({"width": width, "height": 800})
        self.page.emulate_media(media="null", color_scheme=scheme)
        self.page.mouse.move(0, 0)
        self.page.goto(f"{url}{address}")
        self.page.wait_for_selector("#count:not(:empty)", state="attached")
        return self.page

    def _note(self, request: Any) -> None:
        if request.url in self._opened:
            self._opened.remove(request.url)
        else:
            self.errors.append(f"request: {request.url}")

    def _dismiss(self, dialog: Any) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()
