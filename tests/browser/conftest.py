"""One Chromium for all tests of a module, and its requirements: the program, and axe-core from
npm.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from support.requirements import lack

from auditor.after.page.contents import PageContents
from auditor.after.page.rendering import render_page

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield a Chromium for this module."""
    program = shutil.which("chromium") or lack(
        "chromium is not installed (Debian: apt-get install chromium)"
    )
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the text of axe-core, in the version that tests/browser/package.json names."""
    if not AXE.is_file():
        lack("axe-core is not installed (npm install --prefix tests/browser)")
    return AXE.read_text(encoding="utf-8")


class Opened:
    """A page in a browser, with its console messages and its requests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.said: list[str] = []
        self.asked: list[str] = []
        self.failed: dict[str, str | None] = {}
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("requestfailed", lambda request: self.failed.update({request.url: request.failure}))
        page.on("dialog", lambda dialog: self.said.append(f"dialog {dialog.message}"))

    def rows(self) -> list[str]:
        """Return the subject of each row that the table shows."""
        return self.page.locator(
            "#table > tbody > tr:not(.detail) > td:nth-child(2)"
        ).all_inner_texts()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Yield a function that opens the page of a run from a file, as a person does; `options` are
    those of a browser's context.
    """
    with closing_pages(browser, tmp_path) as opens:
        yield opens


@pytest.fixture(scope="module")
def opening(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Opened]]:
    """Yield the same function for pages that several tests of a module read."""
    with closing_pages(browser, tmp_path_factory.mktemp("pages")) as opens:
        yield opens


@contextmanager
def closing_pages(browser: Browser, folder: Path) -> Iterator[Callable[..., Opened]]:
    """Yield a function that opens pages; close them at the end."""
    contexts = []

    def opens(contents: PageContents, fragment: str = "", **options: Any) -> Opened:
        file = folder / f"report{len(contexts)}.html"
        file.write_text(render_page(contents), encoding="utf-8")
        contexts.append(browser.new_context(**options))
        seen = Opened(contexts[-1].new_page())
        seen.page.goto(f"{file.as_uri()}{fragment}")
        return seen

    yield opens
    for context in contexts:
        context.close()
