"""Read from the evidence what topics reference, and which ledgers need a second look for it.

Works on whole columns: a cluster may have millions of references.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import ledger_records
from auditor.evidence.ids import Ids, are_among, distinct_numbers, last_of_each
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, LISTING, REFERENCES
from auditor.findings.references import KnownTopics, is_old, is_pulsars
from auditor.model.evidence import Terms
from auditor.model.identity import LedgerId
from auditor.model.ledger import LedgerRecord, LedgerState, RecordStatus
from auditor.model.topic import TopicName, TopicStatus
from auditor.pulsar.reference_rows import SOURCE_MISSING, RowOf, TopicLook, topic_looks, topic_of

WHERE, LEDGERS_WHERE = "evidence/references", "evidence/referenced_ledgers"
"""The references of topics, and the ledgers that were read for them, both at looks FIRST and
AGAIN."""
FIRST, AGAIN = 1, 2
SUSPECTS_MAX = 100_000
"""A run looks again at, and judges, at most this many ledgers for their references, and as many
orphans. Memory holds their metadata. Further ledgers are counted as unknown: so many missing
ledgers are a different disaster."""
LEDGERS_AT_ONCE = 50_000
"""Ledgers whose metadata is in memory at a time."""
RECORDS_AT_ONCE = 1_000_000
"""Ends of ledgers that topics recorded, in memory before only the highest of each ledger is kept:
16 bytes each."""

_NO_IDS: Ids = np.empty(0, np.int64)
AT_FIRST = pc.field("look") == FIRST
_HAS_LEDGER = pc.is_valid(pc.field("ledger_id"))
_IN_BOOKKEEPER = ~pc.field("bookkeeper_deleted").isin([True])
_ELSEWHERE = pc.field("offloaded").isin([True]) | pc.field("bookkeeper_deleted").isin([True])


def were_references_read(run: Place) -> bool:
    """Return whether the run looked for topics, whether or not it found any."""
    return run.has_table(WHERE)


def referenced_ids(run: Place) -> Ids:
    """Return the ledgers that topics referenced in BookKeeper at the first look, ascending."""
    return _unique(
        run.read_table(WHERE, REFERENCES, AT_FIRST & _HAS_LEDGER & _IN_BOOKKEEPER, ["ledger_id"])[
            "ledger_id"
        ]
    )


def unlisted_ids(run: Place) -> Ids:
    """Return the referenced ledgers that the listing did not name, ascending."""
    return np.setdiff1d(
        referenced_ids(run), run.read_table("evidence/listing", LISTING)["ledger_id"].to_numpy()
    )


def suspect_ids(run: Place) -> Ids:
    """Return the referenced ledgers that some look did not find, or that the first found cut short.

    They ascend. Costs a scan of five columns of the ledgers.
    """
    referenced, (ids, entries) = referenced_ids(run), _recorded_entries(run)
    found = [_NO_IDS]
    for batch in _ledgers(run, ["ledger_id", "look", "status", "state", "last_entry_id"]):
        lacking = batch.filter(pc.not_equal(batch["status"], RecordStatus.FOUND.value))[
            "ledger_id"
        ].to_numpy()
        found.append(lacking[are_among(lacking, referenced)])
        batch = batch.filter(pc.equal(batch["look"], FIRST))
        closed = pc.and_(
            pc.equal(batch["state"], LedgerState.CLOSED.value), pc.is_valid(batch["last_entry_id"])
        )
        batch = batch.filter(closed)
        mine, ends = batch["ledger_id"].to_numpy(), batch["last_entry_id"].to_numpy()
        at = np.minimum(np.searchsorted(ids, mine), max(0, len(ids) - 1))
        if len(ids):
            found.append(mine[(ids[at] == mine) & (ends + 1 < entries[at])])
    return distinct_numbers(np.concatenate(found))


def _recorded_entries(run: Place) -> tuple[Ids, Ids]:
    """Return the ledgers whose number of entries topics recorded, and the highest number of each.

    A position of a subscription counts as a record, too. Ledgers with a whole copy in long-term
    storage are left out. Memory: a batch of rows, RECORDS_AT_ONCE records, and one of each ledger.
    """
    columns = ["row", "ledger_id", "entries", "position", "acknowledged"]
    most, waiting, rows = (_NO_IDS, _NO_IDS), [], 0
    for batch in run.scan(WHERE, REFERENCES).batches(columns, AT_FIRST & ~_ELSEWHERE):
        found = _most_of_each([_recorded_in(batch)])
        waiting.append(found)
        rows += len(found[0])
        if rows > max(RECORDS_AT_ONCE, len(most[0])):
            most, waiting, rows = _most_of_each([most, *waiting]), [], 0
    return _most_of_each([most, *waiting])


def _recorded_in(rows: pa.RecordBatch) -> tuple[Ids, Ids]:
    """Return the ledgers of which these rows record the end, in any order, and their entries."""
    data = rows.filter((pc.field("row") == RowOf.DATA.value) & pc.is_valid(pc.field("entries")))
    ends = rows.filter(
        pc.field("row").isin([RowOf.SCHEMA.value, RowOf.TOPIC.value, RowOf.CURSOR.value])
        & pc.is_valid(pc.field("position"))
    )
    ranges = pc.struct_field(pc.list_flatten(rows["acknowledged"]), "upper")
    ids_of, entries_of = [_int64(data["ledger_id"])], [_int64(data["entries"])]
    for positions in (ends["position"], ranges):
        ids_of.append(_int64(pc.struct_field(positions, "ledger_id")))
        entries_of.append(_int64(pc.struct_field(positions, "entry_id")) + 1)
    return np.concatenate(ids_of), np.concatenate(entries_of)


def _most_of_each(records: Sequence[tuple[Ids, Ids]]) -> tuple[Ids, Ids]:
    """Return the ledgers, ascending, and the highest number of entries of each."""
    ids, entries = map(np.concatenate, zip(*records, strict=True))
    order = np.lexsort((entries, ids))
    ids, entries = ids[order], entries[order]
    is_most = last_of_each(ids)
    return ids[is_most], entries[is_most]


def unreferenced_ledgers(run: Place, terms: Terms) -> Iterator[LedgerRecord]:
    """Yield the ledgers of Pulsar that no topic references and that are old enough to be orphans.

    Costs a scan of the custom metadata of all ledgers. A ledger that a topic deleted from
    BookKeeper on purpose counts as referenced.
    """
    named = _unique(
        run.read_table(WHERE, REFERENCES, AT_FIRST & _HAS_LEDGER, ["ledger_id"])["ledger_id"]
    )
    found = [_NO_IDS]
    for batch in run.stream("evidence/ledgers", LEDGERS, ["ledger_id", "look", "custom_metadata"]):
        has_custom = pc.greater(pc.list_value_length(batch["custom_metadata"]), 0)
        kept = batch.filter(pc.and_(pc.equal(batch["look"], FIRST), has_custom))
        mine = kept["ledger_id"].to_numpy()
        found.append(mine[~are_among(mine, named)])
    ids = distinct_numbers(np.concatenate(found))
    for start in range(0, len(ids), LEDGERS_AT_ONCE):
        portion = pc.field("ledger_id").isin(pa.array(ids[start : start + LEDGERS_AT_ONCE]))
        for record in _sorted_records(
            run.read_table("evidence/ledgers", LEDGERS, AT_FIRST & portion)
        ):
            if is_pulsars(record.metadata) and is_old(
                record, terms.judged_at_ms, terms.orphan_age_ms
            ):
                yield record


def ids_read_again(run: Place) -> Ids:
    """Return the ledgers that the second look at references read, ascending."""
    if not run.has_table(LEDGERS_WHERE):
        return _NO_IDS
    return _unique(
        run.read_table(LEDGERS_WHERE, LEDGERS, pc.field("look") == AGAIN, ["ledger_id"])[
            "ledger_id"
        ]
    )


def records_at(run: Place, look: int, ids: Ids) -> dict[int, LedgerRecord]:
    """Return these ledgers as one look read them. The first look is the run's own."""
    mine = (pc.field("look") == look) & pc.field("ledger_id").isin(pa.array(ids))
    names = (LEDGERS_WHERE, "evidence/ledgers") if look == FIRST else (LEDGERS_WHERE,)
    tables = [run.read_table(name, LEDGERS, mine) for name in names if run.has_table(name)]
    return {record.ledger_id: record for rows in tables for record in ledger_records(rows)}


def counted_ids(run: Place, ids: Ids) -> frozenset[LedgerId]:
    """Return which of these ledgers have a verdict that says that their metadata was unreadable."""
    mine = pc.field("ledger_id").isin(pa.array(ids))
    rows = run.read_table(
        "evidence/ledgers", LEDGERS, mine, ["ledger_id", "look", "status"]
    ).sort_by("look")
    newest = dict(zip(rows["ledger_id"].to_pylist(), rows["status"].to_pylist(), strict=True))
    known = (RecordStatus.FOUND.value, RecordStatus.GONE.value)
    return frozenset(ledger_id for ledger_id, status in newest.items() if status not in known)


def topics_naming(run: Place, ids: Ids) -> list[TopicName]:
    """Return the topics that name one of these ledgers at the first look, sorted."""
    mine = AT_FIRST & pc.field("ledger_id").isin(pa.array(ids))
    rows = run.read_table(WHERE, REFERENCES, mine, ["namespace", "topic"]).to_pylist()
    return sorted({topic_of(row["namespace"], row["topic"]) for row in rows})


def looks_at(run: Place, topics: Iterable[TopicName]) -> list[TopicLook]:
    """Return what was read of these topics, at each look."""
    names = pa.array(sorted({str(topic) for topic in topics}), pa.string())
    return topic_looks(run.read_table(WHERE, REFERENCES, pc.field("topic").isin(names)))


def known_topics(run: Place, looks: Sequence[int] = (FIRST,)) -> KnownTopics:
    """Return which namespaces were read at the first look, not read in full at some look, and
    existed.

    The last are those that existed at any of `looks`.
    """
    columns = ["namespace"]
    problems = run.read_table(WHERE, REFERENCES, pc.field("row") == RowOf.PROBLEM.value, columns)[
        "namespace"
    ]
    with_ledgers = pc.field("status") != TopicStatus.MISSING.value
    known = run.read_table(
        WHERE, REFERENCES, AT_FIRST & (pc.field("row") == RowOf.TOPIC.value) & with_ledgers, columns
    )["namespace"]
    return KnownTopics(
        _namespaces(known),
        _namespaces(problems.drop_null()) | _namespaces(partitions_in_doubt(run)),
        problems.null_count > 0,
        frozenset(lone_partitions(run)),
        _present_namespaces(run, looks),
    )


def _present_namespaces(run: Place, looks: Sequence[int]) -> frozenset[str] | None:
    """Return the namespaces that existed at any of these looks; None if a look did not list
    them.
    """
    mine = pc.field("row") == RowOf.NAMESPACE.value
    rows = run.read_table(WHERE, REFERENCES, mine, ["look", "namespace"])
    at = set(rows["look"].to_pylist())
    return frozenset(rows["namespace"].to_pylist()) if at.issuperset(looks) else None


def lone_partitions(run: Place) -> list[TopicName]:
    """Return the partitions that Pulsar names and that have no znode, sorted."""
    mine = (pc.field("row") == RowOf.PARTITION.value) & pc.field("topic").is_valid()
    rows = run.read_table(WHERE, REFERENCES, mine, ["namespace", "topic"]).to_pylist()
    return sorted({topic_of(row["namespace"], row["topic"]) for row in rows})


def unread_counts(run: Place) -> dict[str, int]:
    """Return how many items of each kind of Unread the topics had at the first look, by its
    name.
    """
    mine = AT_FIRST & (pc.field("row") == RowOf.UNREAD.value)
    rows = run.read_table(WHERE, REFERENCES, mine, ["name", "entries"])
    sums = rows.group_by("name").aggregate([("entries", "sum")]).to_pylist()
    return {row["name"]: row["entries_sum"] for row in sorted(sums, key=lambda row: row["name"])}


def sourceless_shadows(run: Place) -> list[str]:
    """Return the shadow topics whose source did not exist at the first look, sorted."""
    mine = AT_FIRST & (pc.field("row") == RowOf.TOPIC.value)
    mine &= pc.field("problem") == SOURCE_MISSING
    return sorted(run.read_table(WHERE, REFERENCES, mine, ["topic"])["topic"].to_pylist())


def partitions_in_doubt(run: Place) -> pa.ChunkedArray:
    """Return the namespaces some of whose partitions without a znode are unknown."""
    mine = (pc.field("row") == RowOf.PARTITION.value) & pc.field("topic").is_null()
    return run.read_table(WHERE, REFERENCES, mine, ["namespace"])["namespace"]


def _namespaces(column: pa.ChunkedArray) -> frozenset[tuple[str, ...]]:
    return frozenset(topic_of(namespace, "")[:-1] for namespace in pc.unique(column).to_pylist())


def _ledgers(run: Place, columns: list[str]) -> Iterator[pa.RecordBatch]:
    for name in ("evidence/ledgers", LEDGERS_WHERE):
        if run.has_table(name):
            yield from run.stream(name, LEDGERS, columns)


def _sorted_records(rows: pa.Table) -> list[LedgerRecord]:
    return ledger_records(rows.sort_by("ledger_id"))


def _unique(column: pa.ChunkedArray) -> Ids:
    return distinct_numbers(_int64(column))


def _int64(column: Any) -> Ids:
    values: Ids = column.to_numpy(zero_copy_only=False)
    return values.astype(np.int64)
