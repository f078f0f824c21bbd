"""The site in a real Chromium: it loads nothing, can be searched without a server, and fits a
phone; a broken link stops its build.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser.conftest import Opened
from playwright import sync_api
from support.requirements import lack

LONG = pytest.mark.long
"""`make docs` builds the site for each change, and fails on the same warnings."""
PROJECT = Path(__file__).resolve().parents[2]
BUILD = PROJECT / "docs/site/build.py"
WAIT_S = 280
SERIOUS = {"serious", "critical"}
READ = ("index", "docs/how-it-judges", "docs/comparison", "docs/notebooks/reading-a-run")
"""Pages of each form: a picture of a screen, drawings, a wide table, code."""
SMALL = """
import sys
sys.path.insert(0, {0!r})
from pathlib import Path
import build
small = build.Site(Path({1!r}), {{"Start": ("docs/one.md", "docs/two.md")}})
sys.exit(small.build(Path({2!r})))
"""


def built(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with Sphinx."""
    if importlib.util.find_spec("furo") is None:
        lack("the site's generator is not installed (make docs)")
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=WAIT_S, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site, built as `make docs` does. A warning of Sphinx is an error."""
    output = tmp_path_factory.mktemp("built") / "site"
    done = built(str(BUILD), str(output))
    assert (0, "") == (done.returncode, done.stderr)
    return output


@pytest.fixture
def reader(browser: sync_api.Browser, site: Path) -> Iterator[Any]:
    """Yield a function that opens a page of the site from its file; `options` are those of a
    browser's context.
    """
    contexts = []

    def opens(page: str, **options: Any) -> Opened:
        contexts.append(browser.new_context(offline=True, **options))
        seen = Opened(contexts[-1].new_page())
        seen.page.goto((site / f"{page}.html").as_uri())
        return seen

    yield opens
    for context in contexts:
        context.close()


@LONG
@pytest.mark.parametrize("page", READ)
def test_a_page_is_read_offline_and_by_everybody(reader: Any, axe: str, page: str):
    """On a desk in light mode and on a telephone in dark mode, only files are requested, the
    console is empty, nothing is cut off, and axe finds no serious problem.
    """
    for width, scheme in ((1280, "light"), (400, "dark")):
        seen = reader(page, viewport={"width": width, "height": 900}, color_scheme=scheme)
        assert all(url.startswith("file:") for url in seen.asked) and {} == seen.failed
        assert [] == seen.said
        assert width >= seen.page.evaluate("document.documentElement.scrollWidth")
        seen.page.evaluate(axe)
        result = seen.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert len(result["passes"]) > 10
        assert [] == [
            (one["id"], one["nodes"][0]["html"])
            for one in result["violations"]
            if one["impact"] in SERIOUS
        ]


@LONG
def test_axe_does_bite_on_the_site(reader: Any, axe: str):
    """The check above can fail."""
    seen = reader("docs/cost")
    seen.page.evaluate("document.querySelector('article').append(document.createElement('button'))")
    seen.page.evaluate(axe)
    assert "button-name" in [one["id"] for one in seen.page.evaluate("axe.run()")["violations"]]


@LONG
def test_the_site_is_searched_without_a_server(reader: Any):
    """A kind is found on its own page."""
    seen = reader("search")
    seen.page.fill("input[name=q] >> visible=true", "ENTRY_CORRUPT")
    seen.page.keyboard.press("Enter")
    found = seen.page.locator("#search-results a")
    sync_api.expect(found.first).to_be_visible(timeout=20_000)
    assert any("entry_corrupt.html" in str(one.get_attribute("href")) for one in found.all())


def test_what_leads_nowhere_stops_the_build(tmp_path: Path):
    """A dead link, a missing anchor, a missing picture, and a page without navigation are each
    named. The tests above build a site without them.
    """
    (tmp_path / "docs/pictures").mkdir(parents=True)
    links = "[a](three.md) [b](two.md#four) ![c](five.svg) [d](two.md#two)"
    texts = {"README.md": "# S\n", "docs/one.md": f"# One\n\n{links}\n", "docs/two.md": "# Two\n"}
    for path, text in {**texts, "docs/orphan.md": "# Orphan\n"}.items():
        (tmp_path / path).write_text(text)
    done = built("-c", SMALL.format(str(BUILD.parent), str(tmp_path), str(tmp_path / "site")))
    assert 1 == done.returncode
    assert not (tmp_path / "site").exists(), "a site with a dead link could be read"
    complaints = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert 4 == len(complaints), done.stderr
    for lost in ("three.md", "four", "five.svg", "orphan.md"):
        assert any(lost in line for line in complaints), (lost, complaints)
