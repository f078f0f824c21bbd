"""The report's section on causes: what each explains, and which file has the ids of its ledgers.

The cause that explains most ledgers comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from auditor.model.finding import CAUSE_LEDGERS_MIN
from auditor.model.summary import Cause, Summary
from auditor.report.layout import count, of, paint, printable, wrap
from auditor.witness.phrases import percent

KINDS_SHOWN_MAX = 4
"""At most this many kinds and reasons are named for one cause; further ones are only counted."""
SAYS_CHARS_MAX = 400
"""Characters shown of a cause's sentence."""
SAYS_LINES_MAX = 4
GROUPED = "whose cause is looked for"
"""Names the findings for which causes are looked for."""
BECAUSE_OF_A_BOOKIE = "because a bookie was silent, refused or had no readable address"
"""Names the unjudged ledgers for which causes are looked for: those with a reason of `SILENCES`."""


def causes_section(summary: Summary, width: int, color: bool) -> Iterator[str]:
    """Yield the lines on causes: about three for each of at most ten causes (`summary.causes`).

    A last line counts the ledgers that have findings or could not be judged, without a cause.
    """
    rows, unexplained = summary.causes, summary.ledgers_without_cause
    if not rows and not unexplained:
        return
    yield paint("Causes, the one that explains most first" if rows else "Causes", "bold", color)
    for number, row in enumerate(rows, start=1):
        cause = cause_words(row)
        yield from wrap(f"{number}. {cause.says}", width, "  ", SAYS_LINES_MAX, hang="   ")
        yield from wrap(cause.explains, width, "     ", 2, hang="  ")
        yield f"     ids: {cause.file}"
    if more := more_causes(summary):
        yield f"  ... and {more}"
    yield from wrap(without_cause(summary), width, "  ")
    yield ""


class CauseWords(NamedTuple):
    """A cause in words: what it is, what it explains, and the file with the ids of its ledgers."""

    says: str
    explains: str
    file: str


def cause_words(row: Cause) -> CauseWords:
    """Return one of `summary.causes` in words."""
    explained = f"{of(row.ledgers, 'ledger')} ({percent(row.share)} of all hit)"
    says = printable(row.says, SAYS_CHARS_MAX)
    return CauseWords(says, f"{explained}: {_kinds(row.kinds)}", printable(row.file))


def more_causes(summary: Summary) -> str:
    """Return how many causes `summary.causes` leaves out; "" if none."""
    rest = summary.causes_rest
    if not rest.causes:
        return ""
    return f"{of(rest.causes, 'more cause')} of {of(rest.ledgers, 'ledger')}, without a file"


def without_cause(summary: Summary) -> str:
    """Return how many ledgers have findings or could not be judged, without a common cause.

    Counts only findings of the kinds that are grouped, and only ledgers unjudged because of a whole
    bookie (`auditor.summary.causes`): others may have findings or be unjudged too.
    """
    unexplained, has_causes = summary.ledgers_without_cause, bool(summary.causes)
    unjudged = summary.unjudged_without_cause
    found = unexplained - unjudged
    more = "more " if has_causes else ""
    alone = " without a common cause" if has_causes else ""
    said = []
    if found:
        have = of(found, f"{more}ledger has", f"{more}ledgers have")
        said.append(f"{have} findings {GROUPED}{alone}")
    if unjudged:
        said.append(f"{of(unjudged, f'{more}ledger')} could not be judged {BECAUSE_OF_A_BOOKIE}")
    sentence = ", and ".join(said)
    if has_causes:
        return sentence
    if unexplained < CAUSE_LEDGERS_MIN:
        return f"{sentence}: too few to have a common cause."
    return f"{sentence}. No common cause could be shown."


def _kinds(kinds: Mapping[str, int]) -> str:
    shown = [
        f"{printable(kind)} {count(int(number))}"
        for kind, number in list(kinds.items())[:KINDS_SHOWN_MAX]
    ]
    more = len(kinds) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
