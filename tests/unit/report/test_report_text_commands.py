"""A command in a sentence of the report can be copied, however the sentence is wrapped."""

from __future__ import annotations

import pytest

from auditor.report.layout import Screen
from auditor.report.text import WIDTH_MAX, WIDTH_MIN, render_fault, render_unreachable

COMMAND = "auditor run --resume 20260301T020000Z-1a2b3c"


@pytest.mark.parametrize("width", [WIDTH_MIN, WIDTH_MAX])
@pytest.mark.parametrize("render", [render_unreachable, render_fault])
def test_the_command_that_resumes_a_run_stands_on_one_line(render, width: int):
    """This holds wherever in the line the command would begin. No line exceeds the width, and no
    word is lost.
    """
    for before in range(width):
        sentence = f"{'x' * before} it is lost; {COMMAND} goes on behind what is written"
        report = render("20260301T020000Z-1a2b3c", sentence, screen=Screen(width))
        lines = report.splitlines()
        assert 1 == sum(COMMAND in line for line in lines), (before, report)
        assert all(len(line) <= width for line in lines)
        assert sentence.split() == report.split()[1 : 1 + len(sentence.split())]
