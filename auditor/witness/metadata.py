"""Witnesses of the metadata family, and of what lies above the end of a closed ledger.

They say where the ledger ends, what the bookies hold above it, and what the headers of these
entries prove.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditor.model.evidence import Look
from auditor.model.facts import (
    BeyondEndFacts,
    ChangedMetadataFacts,
    ContradictionFacts,
    Contradicts,
    HeldBeyondEnd,
    MetadataField,
    PopulationFacts,
    RecoveryFacts,
    StuckFacts,
    UndecodableFacts,
)
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import LedgerState
from auditor.witness.entries import bookie_sentences, list_sentence
from auditor.witness.phrases import (
    NAMES_SHOWN,
    TellLedger,
    TellOther,
    clock,
    join_names,
    name_some,
    runs,
    span,
)

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
    for held in facts.held_on[:NAMES_SHOWN]:
        yield _held_sentence(held, looks)
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


TELL_BEYOND_END: dict[Kind, TellLedger] = {
    Kind.LEDGER_CLOSED_SHORT: _closed_short_sentences,
    Kind.ENTRIES_BEYOND_END: _beyond_end_sentences,
}


CONTRADICTIONS_SHOWN = 5
"""A sentence names at most this many contradictions. The facts have more."""

_CLAUSES = {
    Contradicts.QUORUM_BELOW_ONE: (
        "a quorum is below one (ensemble size {0}, write quorum {1}, ack quorum {2})"
    ),
    Contradicts.WRITE_QUORUM_ABOVE_ENSEMBLE: (
        "the write quorum {0} is larger than the ensemble size {1}"
    ),
    Contradicts.ACK_QUORUM_ABOVE_WRITE: "the ack quorum {0} is larger than the write quorum {1}",
    Contradicts.NO_SEGMENT: "there is no segment",
    Contradicts.FIRST_SEGMENT_NOT_AT_ZERO: "the first segment starts at entry {0}, not at 0",
    Contradicts.SEGMENTS_OUT_OF_ORDER: "the segment at entry {0} comes after the one at entry {1}",
    Contradicts.WRONG_ENSEMBLE_SIZE: (
        "the ensemble of the segment at entry {0} has {1} bookies, and the ensemble size is {2}"
    ),
    Contradicts.NO_LAST_ENTRY: "the ledger is CLOSED and has no lastEntryId",
    Contradicts.LAST_ENTRY_BELOW_MINUS_ONE: "the ledger is CLOSED with lastEntryId {0}",
    Contradicts.SEGMENT_BEYOND_LAST_ENTRY: (
        "the last segment starts at entry {0}, beyond lastEntryId {1}"
    ),
    Contradicts.LENGTH_WITHOUT_ENTRY: (
        "the ledger is CLOSED without entries (lastEntryId -1), and its length is {0} bytes"
    ),
    Contradicts.LENGTH_NOT_OF_LAST_ENTRY: (
        "its length is {0} bytes, and the header of its last entry {1} says {2}"
    ),
}
assert _CLAUSES.keys() == set(Contradicts), "each contradiction has its clause"


def _malformed_sentence(
    finding: Finding, facts: UndecodableFacts | ContradictionFacts, looks: Sequence[Look]
) -> str:
    if isinstance(facts, UndecodableFacts):
        return (
            f"The metadata of ledger {finding.ledger_id} cannot be decoded: at byte"
            f" {facts.offset_bytes} of {facts.length_bytes}, {facts.reason} (SHA-256 of the bytes:"
            f" {facts.sha256})."
        )
    stamp = looks[-1].record.stamp
    version = "" if stamp is None else f" (version {stamp.version})"
    against = "; ".join(
        _CLAUSES[contradiction.what].format(*contradiction.numbers)
        for contradiction in facts.contradictions[:CONTRADICTIONS_SHOWN]
    )
    more = facts.total - min(len(facts.contradictions), CONTRADICTIONS_SHOWN)
    against += f"; and {more} more" if more > 0 else ""
    beyond = () if facts.beyond_end is None else unproven_sentences(facts.beyond_end, looks)
    contradicts = (
        f"The metadata of ledger {finding.ledger_id}{version} contradicts itself: {against}."
    )
    return " ".join((contradicts, *beyond))


def _recovery_sentences(finding: Finding, facts: RecoveryFacts, looks: Sequence[Look]) -> str:
    """Return the witness: whom recovery asks, what they said, and what it would need."""
    some = (
        "each write set"
        if facts.blocked_write_sets == facts.write_sets
        else (f"{facts.blocked_write_sets} of {facts.write_sets} write sets")
    )
    few = facts.ack_quorum
    return " ".join(
        (
            f"Ledger {finding.ledger_id} is IN_RECOVERY. Its last segment begins at entry"
            f" {facts.first_entry_id} (ensemble {name_some(facts.ensemble)}).",
            *bookie_sentences(facts.unknown, looks),
            f"Recovery needs fewer unknown bookies than the ack quorum, {few}, in every write set."
            f" In {some} of this ensemble there are {few} or more, first in"
            f" {join_names(facts.write_set)}.",
            "No client can finish the recovery, or read the ledger, before enough of"
            f" {join_names(facts.unknown)} answer."
            if len(facts.unknown) > 1
            else "No client can finish the recovery, or read the ledger, before"
            f" {join_names(facts.unknown)} answers.",
        )
    )


def _stuck_sentences(finding: Finding, facts: StuckFacts, _looks: Sequence[Look]) -> str:
    at_least = "" if facts.state is LedgerState.OPEN else "at least "
    if facts.state is not LedgerState.OPEN:
        since = "the last write of its znode"
    else:
        since = (
            "its creation, by its own metadata"
            if facts.by_metadata
            else "the creation of its znode"
        )
    return (
        f"Ledger {finding.ledger_id} has been {facts.state.value} for"
        f" {at_least}{span(facts.age_ms)}, since {clock(facts.since_ms)} UTC ({since})."
        f" --stuck-after is {span(facts.stuck_after_ms)}."
    )


def _population_sentences(_finding: Finding, facts: PopulationFacts) -> str:
    gone = f" Some that are gone: {join_names(facts.some_gone)}." if facts.some_gone else ""
    instance = f" (instance {facts.instance_id})" if facts.instance_id else ""
    left = facts.ledgers_again * 100 // facts.previous_ledgers
    repeated = (
        f" {facts.runs_in_a_row} runs have found this since then, this one included."
        if facts.runs_in_a_row > 1
        else ""
    )
    return (
        f"Run {facts.previous_run}, finished at {facts.previous_finished_at}, listed"
        f" {facts.previous_ledgers} ledgers of this cluster{instance}. This run listed"
        f" {facts.ledgers}, and {facts.ledgers_again} when it listed them again"
        f" {span(facts.apart_ms)} later: {left} % of the earlier number. --population-drop is"
        f" {facts.drop_percent} %. Bookies delete the data of ledgers without"
        f" metadata.{repeated}{gone}"
    )


def _changed_sentences(finding: Finding, facts: ChangedMetadataFacts) -> str:
    """Say what an earlier run read, what is there now, and what the znode says of the change."""
    was = "" if facts.earlier_version is None else f" (version {facts.earlier_version})"
    now = "" if facts.version is None else f" (version {facts.version})"
    changes = "; ".join(
        f"{field.name.value} was {_value_words(field.name, field.before)} and is"
        f" {_value_words(field.name, field.after)}"
        for field in facts.fields
    )
    return " ".join(
        (
            f"Run {facts.earlier_run} read ledger {finding.ledger_id} as CLOSED at"
            f" {clock(facts.earlier_read_at_ms)} UTC{was}. Its metadata{now} differs from that at"
            f" two looks, {span(facts.apart_ms)} apart: {changes}.",
            "BookKeeper changes nothing but the ensembles of a closed ledger.",
            *_znode_words(facts),
            *_cut_words(finding),
        )
    )


def _value_words(name: MetadataField, value: str) -> str:
    return f"{clock(int(value))} UTC" if name is MetadataField.CTIME else value


def _znode_words(facts: ChangedMetadataFacts) -> Iterator[str]:
    """Say what the znode's transaction and version show of the change."""
    if facts.earlier_version is None or facts.version is None:
        return
    if not facts.is_same_znode:
        yield (
            "Its znode was created anew since then (another czxid): the ledger was deleted and"
            " created again, or its metadata was put back."
        )
    elif facts.version < facts.earlier_version:
        yield (
            "The version of its znode went back, which no client can do: ZooKeeper has an older"
            " state than it had then."
        )
    elif facts.version == facts.earlier_version:
        yield "The version of its znode is the same: ZooKeeper has another history than then."
    else:
        yield "Its znode is the same and was written since then."


def _cut_words(finding: Finding) -> Iterator[str]:
    if finding.entries_total:
        cut = runs(finding.entries, finding.entries_total)
        is_one = finding.entries_total == 1
        yield (
            f"The new end cuts off {'entry' if is_one else f'{finding.entries_total} entries:'}"
            f" {cut}."
        )


TELL: dict[Kind, TellLedger] = {
    Kind.METADATA_MALFORMED: _malformed_sentence,
    Kind.RECOVERY_BLOCKED: _recovery_sentences,
    Kind.LEDGER_STUCK: _stuck_sentences,
}
TELL_OTHER: dict[Kind, TellOther] = {
    Kind.LEDGER_POPULATION_DROPPED: _population_sentences,
    Kind.CLOSED_METADATA_CHANGED: _changed_sentences,
}
