"""What a terminal shows of what was written to it."""

from __future__ import annotations

import re

CONTROL = re.compile(r"\x1b\[\??(\d*)[;\d]*([A-Za-z])|(\r)|(\n)|([^\x1b\r\n]+)")


def rows_of(written: str) -> list[str]:
    """Return what a terminal shows, as rich's progress bar and plain lines write to one."""
    rows, row, column = [""], 0, 0
    for number, control, is_return, is_break, text in CONTROL.findall(written):
        if control == "A":
            row = max(0, row - int(number or 1))
        elif control == "K":
            rows[row] = "" if number == "2" else rows[row][:column]
        elif is_return:
            column = 0
        elif is_break:
            row += 1
            rows += [""] * (row + 1 - len(rows))
        elif text:
            rows[row] = rows[row][:column].ljust(column) + text + rows[row][column + len(text) :]
            column += len(text)
    return [line.rstrip() for line in rows]
