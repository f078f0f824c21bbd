"""The ledgers that name a bookie: as lines that --ledgers-from can read, and in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from auditor.model.cluster import Naming, NamingLedger
from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerState
from auditor.report.layout import count, of, printable

NOT_AUDITED = "not_audited"
"""The standing shown for a ledger on which the newest run has no verdict."""


def naming_lines(naming: Naming, standings: Mapping[LedgerId, str]) -> Iterator[str]:
    """Yield a line per ledger: its id, then `#` and what is known of it."""
    for ledger in naming.ledgers:
        standing = standings.get(ledger.ledger_id, NOT_AUDITED).replace("_", " ")
        facts = (
            ledger.state.value,
            f"named by {ledger.segments_naming} of {of(ledger.segments, 'segment')}",
            _entries(ledger),
            {True: "marked", False: "not marked", None: "not known whether marked"}[
                ledger.is_marked
            ],
            f"standing: {standing}",
        )
        yield f"{ledger.ledger_id}  # {'; '.join(facts)}"


def naming_sentences(
    naming: Naming, newest_run: Mapping[str, Any] | None, age: str
) -> Iterator[str]:
    """Yield sentences on what the list means and what it lacks.

    `age` is how long ago the newest run finished.
    """
    bookie = printable(naming.bookie_id)
    if not naming.listed:
        yield "No ledger was listed at all: check the metadata service URI."
        return
    if naming.is_unheard_of:
        yield (
            f"{_nobody_names(naming, bookie)}, and the bookie has neither a registration nor a"
            " cookie: check the id."
        )
    else:
        yield _counts(naming, bookie)
    if naming.ledgers:
        yield _blocking_words(naming)
        yield (
            f"Standings are those of run {newest_run['run_id']}, which finished {age} ago."
            if newest_run
            else "Standings are not known: OUTPUT has no finished run of this cluster."
        )
    if naming.unread:
        first, why = naming.unread_shown[0]
        yield (
            f"The metadata of {of(naming.unread, 'ledger')} could not be read, and may name the"
            f" bookie too; ledger {first}: {printable(why, 1_000)}."
        )
    if naming.marks_problem:
        yield f"{printable(naming.marks_problem, 1_000)}."


def _counts(naming: Naming, bookie: str) -> str:
    total, at_least = len(naming.ledgers), "At least " if naming.unread else ""
    if not total:
        unread = f"; {count(naming.unread)} could not be read" if naming.unread else ""
        return f"{_nobody_names(naming, bookie)}{unread}."
    fewest = "at least " if naming.marks_problem or naming.unread else ""
    is_open, recovering = naming.count(LedgerState.OPEN), naming.count(LedgerState.IN_RECOVERY)
    closed = naming.count(LedgerState.CLOSED)
    return (
        f"{at_least}{of(total, 'ledger names', 'ledgers name')} bookie {bookie}:"
        f" {count(is_open)} open, {count(recovering)} in recovery, {count(closed)} closed;"
        f" {fewest}{count(naming.marked_count)} marked under-replicated."
    )


def _nobody_names(naming: Naming, bookie: str) -> str:
    """Return that no ledger names the bookie, as far as ledgers could be read."""
    if not naming.unread:
        return f"None of {of(naming.listed, 'ledger')} names bookie {bookie}"
    read = of(naming.listed - naming.unread, "ledger")
    return f"None of the {read} that could be read names bookie {bookie}"


def _blocking_words(naming: Naming) -> str:
    if not naming.blocking_count:
        none = "It should hold no entry of any of them: none of these blocks a decommission"
        unread = of(naming.unread, "unread ledger")
        return f"{none}; the {unread} may." if naming.unread else f"{none}."
    unclosed = len(naming.ledgers) - naming.count(LedgerState.CLOSED)
    closing = (
        f" {count(unclosed)} of them {'is' if unclosed == 1 else 'are'} not closed: a segment that"
        " is still written to can be replicated only after its writer has left it or the ledger is"
        " closed."
        if unclosed
        else ""
    )
    return (
        f"What blocks a decommission: {'at least ' if naming.unread else ''}"
        f"{of(naming.blocking_count, 'ledger')} of which it may hold entries, until another bookie"
        f" has replaced it there.{closing}"
    )


def _entries(ledger: NamingLedger) -> str:
    if ledger.entries is None:
        return "entries there not known"
    return f"should hold {of(ledger.entries, 'entry', 'entries')}"
