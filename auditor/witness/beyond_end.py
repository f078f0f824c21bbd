"""Sentences on what lies above the end of a closed ledger.

They say where it ends, what the bookies hold above it, and what the headers of these entries prove.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.evidence import Look
from auditor.model.facts import BeyondEndFacts, HeldBeyondEnd
from auditor.model.finding import Finding, Kind
from auditor.witness.entry_answers import list_sentence
from auditor.witness.phrases import NAMES_SHOWN, runs
from auditor.witness.sentences import TellLedger

INNOCENT_REASONS = (
    "Nothing shows that an entry above the end was acknowledged. It may be an add that was in"
    " flight when the ledger was closed, an add of a writer with DEFERRED_SYNC that was never"
    " forced, or an add that a recovery did not see in time. It may also be an acknowledged entry"
    " that the end cut off."
)


def _closed_short_sentences(finding: Finding, facts: BeyondEndFacts, looks: Sequence[Look]) -> str:
    """Say which acknowledged entries the end cuts off, what proves it, and where they still are."""
    header = facts.header
    assert header is not None, "only a header proves that acknowledged entries were cut off"
    count = finding.entries_total
    cut = runs(finding.entries, count)
    lost = (
        f"entry {cut}, which was acknowledged"
        if count == 1
        else f"{count} acknowledged entries: {cut}"
    )
    lines = (
        end_sentence(finding, facts),
        f"The header of entry {header.entry_id}, read on {header.bookie_id}, says that entry"
        f" {header.last_confirmed} was acknowledged (lastAddConfirmed {header.last_confirmed}), and"
        " its digest holds.",
        f"The end cuts off {lost}.",
        *_held_sentences(facts, looks),
        *([] if facts.held_on else ["No bookie that answered still holds an entry above the end."]),
    )
    return " ".join(lines)


def _beyond_end_sentences(finding: Finding, facts: BeyondEndFacts, looks: Sequence[Look]) -> str:
    return f"{end_sentence(finding, facts)} {' '.join(unproven_sentences(facts, looks))}"


def end_sentence(finding: Finding, facts: BeyondEndFacts) -> str:
    """Say where the ledger ends by its metadata."""
    last = facts.last_entry_id
    ends = "says that it is closed without entries" if last < 0 else f"ends at entry {last}"
    return f"The metadata of ledger {finding.ledger_id} {ends} (lastEntryId {last})."


def _held_sentences(facts: BeyondEndFacts, looks: Sequence[Look]) -> Iterator[str]:
    """Say what each bookie holds above the end."""
    for one in facts.held_on[:NAMES_SHOWN]:
        yield _held_sentence(one, looks)
    more = len(facts.held_on) - NAMES_SHOWN
    if more > 0:
        hold = "bookie holds" if more == 1 else "bookies hold"
        yield f"{more} more {hold} entries above the end."


def _held_sentence(held: HeldBeyondEnd, looks: Sequence[Look]) -> str:
    some = runs(held.ranges, held.entries)
    entries = f"entry {some}" if held.entries == 1 else f"entries {some}"
    if held.is_listed:
        return list_sentence(held.bookie_id, entries, looks)
    return f"{held.bookie_id} sent {entries} when it was read; it cannot list, and may hold more."


def unproven_sentences(facts: BeyondEndFacts, looks: Sequence[Look]) -> Iterator[str]:
    """Say what bookies hold above the end, and that no header proves it to be acknowledged."""
    yield from _held_sentences(facts, looks)
    header = facts.header
    if header is None:
        yield "No header of an entry above the end could be read with a digest that proves it."
    else:
        named = f"entry {header.last_confirmed}" if header.last_confirmed >= 0 else "no entry"
        yield (
            f"The header of entry {header.entry_id}, read on {header.bookie_id}, names {named} as"
            f" the last acknowledged one (lastAddConfirmed {header.last_confirmed})."
        )
    yield INNOCENT_REASONS


TELL: dict[Kind, TellLedger] = {
    Kind.LEDGER_CLOSED_SHORT: _closed_short_sentences,
    Kind.ENTRIES_BEYOND_END: _beyond_end_sentences,
}
