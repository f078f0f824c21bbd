"""Draw the top of the page of a stored run as a PNG picture, with Chromium.

    python tests/support/page_picture.py RUN_DIR docs/pictures/page.png

`make picture` does it with a new run of the demo.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import sync_playwright

from auditor.after.finished_run import open_finished_run, read_all_findings
from auditor.after.page.reading import read_contents
from auditor.after.page.rendering import render_page

WIDTH, HEIGHT = 1_180, 1_340
"""Of the picture, in pixels: down to what each bookie said of the worst finding."""


def draw_page(run_dir: Path, file: Path) -> None:
    """Write a picture of the page. Its run directory has the name that it has in `audits`."""
    run, summary = open_finished_run(str(run_dir))
    contents = read_contents(run, summary, read_all_findings(run, summary), "")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder, "report.html")
        shown = replace(contents, run_dir=f"audits/{run_dir.name}")
        page_file.write_text(render_page(shown), encoding="utf-8")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.screenshot(path=file)
        browser.close()


if __name__ == "__main__":
    draw_page(Path(sys.argv[1]), Path(sys.argv[2]))
