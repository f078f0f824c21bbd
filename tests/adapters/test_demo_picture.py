"""`auditor demo` as a new user runs it, and the picture of its screen in the README."""

from __future__ import annotations

import json
import re
from pathlib import Path

from support.command_line import PROJECT, command
from support.screen_picture import draw_screen, screen_of, without_what_varies, words_of

PICTURE = PROJECT / "docs" / "pictures" / "first-screen.svg"


def test_the_picture_in_the_readme_is_what_the_demo_shows(tmp_path: Path):
    """Today's demo has the same first screen, apart from what differs between any two runs. `make
    picture` draws it again.
    """
    done = command("demo", "--output", str(tmp_path))
    assert 1 == done.returncode, done.stderr
    (run,) = tmp_path.glob("run-*")
    shown = without_what_varies(screen_of(run).split())
    assert shown == without_what_varies(words_of(PICTURE.read_text(encoding="utf-8")))
    assert "VIOLATED: 19 of 262 ledgers" in shown and shown.endswith("violated=19")
    found = json.loads((run / "summary.json").read_text())["findings"]
    kinds = [kind for kind, counted in found.items() if counted["findings"]]
    assert f"An embedded cluster with {len(kinds)} kinds of findings" in done.stdout
    machine_line = done.stdout.splitlines()[-1]
    assert machine_line == screen_of(run).splitlines()[-1]


def test_a_picture_has_every_word_of_its_screen():
    """This includes a word that is wrapped or coloured, or that looks like markup."""
    screen = f"\x1b[31mVIOLATED\x1b[0m: <b> & 'x'\n\n  found  {'long ' * 30}\nlast\n"
    plain = re.sub(r"\x1b\[\d+m", "", screen)
    assert plain.split() == words_of(draw_screen(screen))


def test_the_picture_needs_nothing_but_itself():
    """It names no address except that of the SVG name space, and no script."""
    text = PICTURE.read_text(encoding="utf-8")
    assert {"http://www.w3.org/2000/svg"} == set(re.findall(r"https?://[^\s\"')<]+", text))
    assert "<script" not in text
