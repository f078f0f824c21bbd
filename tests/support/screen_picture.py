"""Draw the first screen of a stored run as an SVG picture, and read the text of such a picture.

    python tests/support/screen_picture.py RUN_DIR > docs/pictures/first-screen.svg

`make picture` does it with a new run of the demo. Rich draws the picture, without the fonts that it
would load from the network.
"""

from __future__ import annotations

import html
import io
import json
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from auditor.evidence import findings_file
from auditor.model.summary import Summary
from auditor.report.first_screen import Whereabouts, render_first_screen
from auditor.report.layout import Screen

WIDTH = 100
"""Columns: as wide as a report is on most terminals, and legible on a page of 900 pixels."""
FOREIGN = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)
"""What Rich would load from the network. Without it the browser's own monospaced font is used."""
VARYING = re.compile(
    r"\d{8}T\d{6}Z-[0-9a-f]{6}|\b[0-9a-f]{16}\b|127\.0\.0\.1:\d+|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d"
    r"|\((?:\d+ min )?[\d.]+ s\)|\d{3},\d{3}|\d+ assumed|\d+ by lists alone"
    r"|\(\d[\d,]* of [\d,]+ copies there|[\d.]+ % of"
)
"""Ids, times, ports, and the number of copies that a sample read: they differ between two runs of
the demo.
"""


def screen_of(run_dir: Path, *, color: bool = False) -> str:
    """Return the first screen of a stored run; its directory has the name that it has in
    `audits`.
    """
    summary = Summary.from_json(json.loads((run_dir / "summary.json").read_text(encoding="utf-8")))
    lines = (run_dir / "findings.jsonl").read_text(encoding="utf-8").splitlines()
    where = Whereabouts(f"audits/{run_dir.name}")
    return render_first_screen(
        summary, list(findings_file.parse(lines)), where, screen=Screen(WIDTH, color=color)
    )


def draw_screen(screen: str) -> str:
    """Return the picture of a screen, whose colours are escape sequences."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(screen.rstrip("\n")), soft_wrap=False)
    svg = FOREIGN.sub("", console.export_svg(title="auditor demo", unique_id="screen"))
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


def words_of(svg: str) -> list[str]:
    """Return the words of the screen in a picture, in their order."""
    pieces = re.findall(r'<text class="screen-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)<', svg)
    inorder = sorted((float(y), float(x), html.unescape(text)) for x, y, text in pieces)
    return "".join(f" {text}" if x == 0 else text for _, x, text in inorder).split()


def without_what_varies(words: list[str]) -> str:
    """Return the words as one line; a dot replaces what differs between two runs of the demo."""
    return VARYING.sub(".", " ".join(words))


if __name__ == "__main__":
    sys.stdout.write(draw_screen(screen_of(Path(sys.argv[1]), color=True)))
