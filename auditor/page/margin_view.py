"""What more may fail: ledgers by the copies they have left, and the worst bookies to lose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from auditor.page.contents import MarginSeen
from auditor.page.drawing import meter
from auditor.report.layout import count, moment, of, printable
from auditor.report.margin_text import Row, limits_of, no_ledger_words, rank_exposure, rank_racks

LEDGERS_MAX = 250_000
"""The page of a run with more ledgers has no margin. 500,000 ledgers took 400 MB and 16 s of one
core, too much for the end of every run. `auditor margin` takes any number."""
SHOWN_MAX = 20
"""At most this many bookies, and locations, are in the tables: those whose loss would harm most
ledgers."""
_FEWEST_IN_ORDER = 2
"""If an entry has fewer confirmed copies than this, the loss of one bookie may lose it."""

Json = dict[str, Any]


def margin_view(seen: MarginSeen) -> Json | None:
    """Return the section's sentences, bars and tables.

    None if no ledger that was read is closed and has entries.
    """
    by_copies = seen.cluster.by_copies
    if not by_copies:
        return None
    racks = rank_racks(seen.cluster.by_rack)
    bookies = list(rank_exposure(seen.cluster.exposure))
    return {
        "sentence": _sentence(seen),
        "bars": list(_bars(by_copies)),
        "tables": [
            table
            for table in (_table("Bookie", bookies), _table("Location", racks))
            if table is not None
        ],
        "harmless": "" if bookies else _harmless_sentence(seen),
        "limits": limits_of(seen.basis, seen.cluster),
    }


def _sentence(seen: MarginSeen) -> str:
    basis = seen.basis
    began = moment(basis.started_at)
    of_what = "the ledgers that were named" if basis.is_partial else "the cluster"
    return (
        f"From the evidence of this run, from {began:%Y-%m-%d %H:%M} UTC on, of"
        f" {basis.closed_words(f' of {of_what}')}. The older that is, the less it says: ask again"
        " before you stop a bookie."
    )


def _harmless_sentence(seen: MarginSeen) -> str:
    return (
        f"If one bookie failed, {no_ledger_words(seen.basis)} would have fewer copies of an entry"
        " than its ack quorum."
    )


def _bars(by_copies: Mapping[int, int]) -> Iterator[Json]:
    total = sum(by_copies.values())
    for copies, ledgers in sorted(by_copies.items()):
        words = of(copies, "copy", "copies") if copies else "none confirmed"
        name = "sound" if copies >= _FEWEST_IN_ORDER else "unknown" if copies else "violated"
        label = f"{words}: {of(ledgers, 'ledger')}"
        yield {
            "words": words,
            "count": count(ledgers),
            "bar": meter(ledgers / total, name, label),
        }


def _table(what: str, rows: Sequence[Row]) -> Json | None:
    """Return the worst rows; None if no loss would harm a ledger."""
    harmful = [row for row in rows if any(row[1:])]
    if not harmful:
        return None
    return {
        "what": what,
        "rows": [
            {"name": printable(name), "numbers": [count(number) for number in numbers]}
            for name, *numbers in harmful[:SHOWN_MAX]
        ],
        "left": len(harmful) - len(harmful[:SHOWN_MAX]),
    }
