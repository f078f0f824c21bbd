"""Render what was salvaged as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.model.ledger import LedgerState
from auditor.recovery.stray_ledgers import StrayLedger
from auditor.report.layout import Screen, count, name_some, of, printable, size, table

SHOWN_MAX = 12
"""Ledgers that are shown, the newest first. The JSON form has all that were examined."""
BOOKIES_SHOWN_MAX = 5
RANGES_MAX = 20
"""Ranges of entries of one bookie in the JSON form; further ones are counted only."""


@dataclass(frozen=True, slots=True)
class Salvage:
    """What bookies hold without metadata.

    `strays` were examined, the newest first; `unexamined` older ones were not. `collected` were
    read by the run and are held by no bookie any more. Of `unheard` ones no bookie that answered
    holds an entry, and others did not answer. `unknown` has, by bookie, why its index is not known.
    `directory` is where the proposals are, or "".
    """

    strays: Sequence[StrayLedger]
    unexamined: int
    collected: int
    unheard: int
    unknown: Mapping[str, str]
    run_id: str = ""
    directory: str = ""

    @property
    def proposed(self) -> int:
        """How many ledgers have a proposal."""
        return sum(stray.proposal is not None for stray in self.strays)


def salvage_json(found: Salvage, exit_code: int) -> dict[str, Any]:
    """Return the JSON form."""
    return {
        "ledgers": [stray_json(stray) for stray in found.strays],
        "not_examined": found.unexamined,
        "collected": found.collected,
        "not_heard_of": found.unheard,
        "bookies_not_known": dict(sorted(found.unknown.items())),
        "run_id": found.run_id or None,
        "directory": found.directory or None,
        "exit_code": exit_code,
    }


def stray_json(stray: StrayLedger) -> dict[str, Any]:
    """Return one ledger as JSON values, without its password."""
    proposal, end = stray.proposal, stray.end
    return {
        "ledger_id": stray.ledger_id,
        "entries": stray.entries,
        "bytes": stray.size_bytes,
        "last_confirmed": None if end is None else end.last_confirmed,
        "digest": None if stray.digest is None else stray.digest.name,
        "bookies": {
            bookie: {
                "entries": entries.count(),
                "ranges": [list(one) for one in entries.ranges(RANGES_MAX)],
            }
            for bookie, entries in sorted(stray.held.items())
        },
        "not_heard": list(stray.unheard),
        "proposal": None
        if proposal is None
        else {
            "source": "run" if stray.is_from_run else "entries",
            "state": proposal.state.value,
            "last_entry_id": proposal.last_entry_id,
            "ensemble_size": proposal.ensemble_size,
            "write_quorum": proposal.write_quorum,
            "ack_quorum": proposal.ack_quorum,
            "segments": [[one.first_entry_id, list(one.ensemble)] for one in proposal.segments],
            "missing_copies": stray.missing_copies,
        },
        "why_no_proposal": stray.why or None,
    }


def salvage_text(found: Salvage, exit_code: int, screen: Screen) -> str:
    """Return the text form. Its last line is for machines."""
    lines: list[str] = []
    for part in (_headline(found), _rows(found), _gaps(found), _advice(found)):
        paragraph = list(part)
        for line in paragraph:
            lines += [line] if line.startswith("  ") else screen.wrap(line)
        lines += [""] if paragraph else []
    total = len(found.strays) + found.unexamined
    last = (
        f"auditor: SALVAGE exit={exit_code} ledgers={total} examined={len(found.strays)}"
        f" proposed={found.proposed}"
    )
    return "\n".join((*lines, last, ""))


def _headline(found: Salvage) -> Iterator[str]:
    total = len(found.strays) + found.unexamined
    if not total:
        yield "No bookie is known to hold a ledger without metadata."
    else:
        sized = sum(stray.size_bytes or 0 for stray in found.strays)
        yield (
            f"Bookies hold {of(total, 'ledger')} without metadata. The"
            f" {of(len(found.strays), 'newest was', 'newest were')} examined: {size(sized)} of"
            f" payload, {count(found.proposed)} with a proposal."
        )
    if found.collected:
        source = f"run {printable(found.run_id)}" if found.run_id else "an index"
        yield (
            f"{of(found.collected, 'ledger')} that {source} named"
            f" {'has' if found.collected == 1 else 'have'} no metadata, and no asked bookie holds"
            " an entry."
        )
    if found.unheard:
        yield (
            f"Of {of(found.unheard, 'more ledger')} no bookie that answered holds an entry, and"
            " others did not say."
        )


def _rows(found: Salvage) -> Iterator[str]:
    shown = found.strays[:SHOWN_MAX]
    if not shown:
        return
    head = ["ledger", "entries", "payload", "bookies", "proposal"]
    yield from table([head, *map(_row, shown)], "  ")
    if len(found.strays) > len(shown):
        yield f"  and {of(len(found.strays) - len(shown), 'older ledger')}"


def _row(stray: StrayLedger) -> list[str]:
    return [
        str(stray.ledger_id),
        count(stray.entries),
        "not known" if stray.size_bytes is None else size(stray.size_bytes),
        name_some(sorted(stray.held), shown_max=BOOKIES_SHOWN_MAX),
        _proposal_words(stray),
    ]


def _proposal_words(stray: StrayLedger) -> str:
    proposal = stray.proposal
    if proposal is None:
        return f"none: {printable(stray.why, 200)}"
    source = "from the run" if stray.is_from_run else "inferred"
    state = (
        f"closed at {proposal.last_entry_id}"
        if proposal.state is LedgerState.CLOSED
        else proposal.state.value.lower().replace("_", " ")
    )
    gaps = [f"{count(stray.missing_copies)} copies missing"] if stray.missing_copies else []
    gaps += [f"{of(len(stray.unheard), 'bookie')} not heard"] if stray.unheard else []
    return ", ".join((source, state, *gaps))


def _gaps(found: Salvage) -> Iterator[str]:
    for bookie, why in sorted(found.unknown.items())[:BOOKIES_SHOWN_MAX]:
        yield f"The ledgers on {printable(bookie)} are not known: {printable(why, 300)}."
    if len(found.unknown) > BOOKIES_SHOWN_MAX:
        left = len(found.unknown) - BOOKIES_SHOWN_MAX
        yield f"Nor are those of {of(left, 'more bookie')}."


def _advice(found: Salvage) -> Iterator[str]:
    if not found.strays:
        return
    yield (
        "A bookie deletes these ledgers at its next collection (gcWaitTime). Ledgers that were"
        " deleted on purpose are among them until then."
    )
    if not found.proposed:
        return
    first = next(stray for stray in found.strays if stray.proposal is not None)
    if not found.directory:
        yield "With --into DIRECTORY the proposals are written as input for BookKeeper's shell."
        return
    yield f"The proposals are in {printable(found.directory, 500)}. Nothing is applied. For each:"
    file = shlex.quote(f"{found.directory}/{first.ledger_id}.metadata")
    yield (
        f"  bookkeeper shell ledgermetadata --ledgerid {first.ledger_id} --restorefromfile"
        f" {printable(file, 500)}"
    )
