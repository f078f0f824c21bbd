"""The second checker's findings on what topics reference.

It reads rows one by one, as they were written, and knows nothing of topics as values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerState, RecordStatus
from auditor.model.reference_facts import (
    LOOKS_APART_MIN_MS,
    MissingLedgerFacts,
    TruncatedLedgerFacts,
    UseFacts,
)
from auditor.model.topic import Position, Role

USES_TOLD = 20
"""Uses that a finding on a ledger names."""
FIRST, AGAIN = 1, 2
NOT_RECORDED = -1
"""Stands for the entries of a use that does not say how many it needs."""
CLOSED, GONE, FOUND = LedgerState.CLOSED.value, RecordStatus.GONE.value, RecordStatus.FOUND.value


class TopicRow(NamedTuple):
    """One row about a topic at one look. `row` is topic, data, cursor, compacted, schema,
    problem.
    """

    topic: str
    look: int
    row: str
    status: str | None = None
    name: str | None = None
    ledger_id: LedgerId | None = None
    entries: int | None = None
    size_bytes: int | None = None
    offloaded: bool | None = None
    bookkeeper_deleted: bool | None = None
    position: tuple[int, int] | None = None


class LedgerLook(NamedTuple):
    """A ledger's znode at one look. `created_ms` is by its metadata, else by its znode."""

    read_at_ms: int
    status: str
    state: str | None = None
    last_entry_id: int | None = None
    length_bytes: int | None = None
    czxid: int | None = None
    created_ms: int | None = None
    custom: Mapping[str, bytes] = {}


class Need(NamedTuple):
    """One use of a ledger: how many entries it needs (or NOT_RECORDED), its bytes, its place."""

    entries: int
    size_bytes: int | None
    position: tuple[int, int] | None
    proves_loss: bool


Facts = MissingLedgerFacts | TruncatedLedgerFacts
_Key = tuple[str, str, str]


def reference_facts(
    ledger: LedgerId, rows: Iterable[TopicRow], looks: Mapping[int, LedgerLook]
) -> Facts | None:
    """Return the facts of the finding on a ledger, None if there is none.

    `rows` are all rows of the topics that name the ledger at any look, at both looks.
    """
    if set(looks) != {FIRST, AGAIN}:
        return None
    first, again = looks[FIRST], looks[AGAIN]
    if again.read_at_ms < first.read_at_ms + LOOKS_APART_MIN_MS:
        return None
    by_topic: dict[tuple[str, int], list[TopicRow]] = {}
    for row in rows:
        by_topic.setdefault((row.topic, row.look), []).append(row)
    needs: dict[int, dict[_Key, Need]] = {FIRST: {}, AGAIN: {}}
    for (topic, look), of_topic in by_topic.items():
        needs[look] |= {(topic, *key): need for key, need in needs_of(ledger, of_topic).items()}
    if first.status == again.status == GONE:
        return _missing_facts(needs[FIRST], needs[AGAIN], again.read_at_ms - first.read_at_ms)
    ends = {(one.status, one.state, one.last_entry_id) for one in (first, again)}
    if (
        len(ends) == 1
        and first.status == FOUND
        and first.state == CLOSED
        and first.last_entry_id is not None
    ):
        return _truncated_facts(ledger, needs, looks)
    return None


def needs_of(ledger: LedgerId, rows: Sequence[TopicRow]) -> dict[tuple[str, str], Need]:
    """Return what a topic needs of the ledger at one look, by role and name.

    Leaves out what long-term storage has, and what the topic knows to be empty.
    """
    needs: dict[tuple[str, str], Need] = {}
    data = [row.ledger_id for row in rows if row.row == "data" and row.ledger_id is not None]
    end = next(row.position for row in rows if row.row == "topic")
    with_ledger = {row.name for row in rows if row.row == "cursor" and row.ledger_id is not None}
    for row in rows:
        if row.ledger_id != ledger:
            continue
        name = row.name or ""
        if row.row == "data" and not row.offloaded and not row.bookkeeper_deleted:
            entries = _recorded_entries(row, end)
            if entries != 0:
                needs["data", ""] = Need(
                    entries,
                    row.size_bytes,
                    (ledger, 0),
                    entries != NOT_RECORDED or ledger < max(data),
                )
        elif row.row == "cursor":
            needs["cursor", name] = Need(NOT_RECORDED, None, row.position, True)
        elif row.row == "compacted":
            position = next(
                one.position for one in rows if one.row == "cursor" and one.name == row.name
            )
            needs["compacted", name] = Need(
                NOT_RECORDED, None, position, row.name not in with_ledger
            )
        elif row.row == "schema":
            assert row.position is not None, row
            known = needs.get(("schema", ""))
            entries = max(row.position[1] + 1, known.entries if known else 0)
            needs["schema", ""] = Need(entries, None, (ledger, entries - 1), True)
    return needs


def _recorded_entries(row: TopicRow, end: tuple[int, int] | None) -> int:
    """Return how many entries the topic records for a data ledger, NOT_RECORDED if it does
    not say.
    """
    if row.entries is not None:
        return row.entries
    if end is None or row.ledger_id is None or row.ledger_id < end[0]:
        return NOT_RECORDED
    return end[1] + 1 if row.ledger_id == end[0] else 0


def _missing_facts(
    first: Mapping[_Key, Need], again: Mapping[_Key, Need], apart_ms: int
) -> MissingLedgerFacts | None:
    lost = {key: again[key] for key in first.keys() & again.keys() if again[key].proves_loss}
    if not lost:
        return None
    recorded = [
        need.entries
        for key, need in lost.items()
        if key[1] == "data" and need.entries != NOT_RECORDED
    ]
    sizes = [need.size_bytes for need in lost.values() if need.size_bytes is not None]
    uses = tuple(_use_facts(key, lost[key].position) for key in sorted(lost))
    return MissingLedgerFacts(
        len({key[0] for key in lost}),
        len(lost),
        uses[:USES_TOLD],
        max(recorded) if recorded else None,
        max(sizes) if sizes else None,
        apart_ms,
    )


def _truncated_facts(
    ledger: LedgerId, needs: Mapping[int, Mapping[_Key, Need]], looks: Mapping[int, LedgerLook]
) -> TruncatedLedgerFacts | None:
    last = looks[AGAIN].last_entry_id
    assert last is not None
    if last < -1:  # no end that a closed ledger can have
        return None
    short = {
        look: {key: need for key, need in of.items() if need.entries - 1 > last}
        for look, of in needs.items()
    }
    keys = sorted(short[FIRST].keys() & short[AGAIN].keys())
    if not keys:
        return None
    cut = [short[AGAIN][key] for key in keys]
    sizes = [need.size_bytes for need in cut if need.size_bytes is not None]
    places = [
        (ledger, last + 1) if key[1] == "data" else need.position
        for key, need in zip(keys, cut, strict=True)
    ]
    return TruncatedLedgerFacts(
        last,
        max(need.entries for need in cut),
        len({key[0] for key in keys}),
        len(keys),
        tuple(_use_facts(key, place) for key, place in zip(keys, places, strict=True))[:USES_TOLD],
        looks[AGAIN].length_bytes or 0,
        max(sizes) if sizes else None,
        looks[AGAIN].read_at_ms - looks[FIRST].read_at_ms,
    )


def _use_facts(key: _Key, position: tuple[int, int] | None) -> UseFacts:
    topic, role, name = key
    return UseFacts(topic, Role(role), name, None if position is None else Position(*position))
