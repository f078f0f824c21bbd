"""Closed ledgers whose metadata is not what an earlier run of the cluster stored.

BookKeeper writes the metadata of a closed ledger again only to change its ensembles. Verified: the
earlier run read the ledger as closed, and at two looks of this run a field other than the ensembles
has another value. Not verified: who changed it, and which of the two values is right.

A ledger that differs keeps the row of the run that read it first, and each further run is compared
with that row. Otherwise a change would be forgotten after one night.

Whole columns are compared, range of ids by range of ids. Only ledgers that differ become values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.gathered import ledger_records
from auditor.evidence.ids import (
    Ids,
    Shard,
    are_among,
    distinct_numbers,
    missing_numbers,
    newest_rows,
)
from auditor.evidence.portions import LedgerTable, id_ranges
from auditor.evidence.rows import Row, named_row, rows_of
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import (
    CHANGED_LEDGERS,
    COMPARISONS,
    LEDGERS,
    LISTING,
)
from auditor.evidence.shard_files import ShardFiles, ledgers_read
from auditor.evidence.table_scan import TableScan
from auditor.findings.gone_ledgers import GONE_FILE, gone_ledgers
from auditor.model.evidence import Look
from auditor.model.facts import (
    LOOKS_APART_MIN_MS,
    ChangedField,
    ChangedMetadataFacts,
    MetadataField,
)
from auditor.model.finding import Finding, Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata, LedgerRecord, LedgerState, RecordStatus
from auditor.model.summary import MetadataComparison
from auditor.summary.about import About
from auditor.summary.carried import read_carried_ids
from auditor.witness.finding_lines import znode_testimony
from auditor.witness.phrases import name_some
from auditor.witness.pulsar_commands import owner_of

CHANGED_AT, COMPARISONS_AT = "evidence/changed_ledgers", "evidence/comparisons"
EARLIER, AGAIN = 0, 2
"""The row of an earlier run in CHANGED_LEDGERS, and the closing look of this run."""
COMPARED_AT_ONCE = 500_000
"""Ledgers of an earlier run whose rows are in memory at a time: some 100 bytes each, twice."""
SUSPECTS_MAX = 100_000
"""A run looks again at, and judges, at most this many ledgers that differ. Memory holds their
metadata. The rest is counted as unknown: so many changed ledgers are a restored metadata service.
"""

COMPARED: Mapping[MetadataField, str] = {
    MetadataField.STATE: "state",
    MetadataField.LAST_ENTRY_ID: "last_entry_id",
    MetadataField.LENGTH: "length_bytes",
    MetadataField.ENSEMBLE_SIZE: "ensemble_size",
    MetadataField.WRITE_QUORUM: "write_quorum",
    MetadataField.ACK_QUORUM: "ack_quorum",
    MetadataField.DIGEST_TYPE: "digest_type",
    MetadataField.CTIME: "metadata_ctime_ms",
}
"""The columns of LEDGERS that are compared. A value that one of the two metadata does not have, as
in an older format, is not compared."""
_STAMP = ("czxid", "znode_version", "znode_ctime_ms")
_COLUMNS = ("ledger_id", "look", *COMPARED.values(), *_STAMP)
NAMED_MAX = 10
"""At most this many ledgers that went back, or came back, are named. The others are counted."""
OLDER_BY_MS = 3_600_000
"""A ledger counts as older than a run if it is dated at least so long before the run began: the
clocks of clients, of ZooKeeper and of the auditor differ."""
_FOUND = pc.field("status") == RecordStatus.FOUND.value
_NONE: Ids = np.empty(0, np.int64)


class Compared(NamedTuple):
    """How many ledgers were compared, how many of them differ, and the rows of these.

    `rows` are as CHANGED_LEDGERS has them at look EARLIER, at most SUSPECTS_MAX. `went_back` are
    ledgers whose znode has a lower version than then, `returned` those that were not listed then
    although they are dated before it; both ascend. `not_kept` counts the ledgers that differed and
    of which neither this run nor an earlier one kept a row.
    """

    ledgers: int
    changed: int
    rows: pa.Table
    went_back: Ids
    returned: Ids
    not_kept: int

    @property
    def ids(self) -> Ids:
        """The ledgers to look at again, ascending."""
        return distinct_numbers(self.rows["ledger_id"].to_numpy())


def compare_metadata(
    earlier: Place, earlier_id: str, run: Place, earlier_began_ms: int
) -> Compared:
    """Compare the metadata that a run stored with those that an earlier run stored.

    A ledger that already differed is compared with the row that was kept of it. Costs a scan of
    thirteen columns of both tables. Memory: COMPARED_AT_ONCE rows of each. Raises OutputError.

    If the run carried verdicts over, then from the earlier run, and their rows are those of it:
    these are not compared again.
    """
    kept, total = kept_rows(earlier), 0
    kept_ids = kept["ledger_id"].to_numpy()
    still, fresh = [_unread_ids(run, kept_ids)], [_NONE]
    went_back, returned = [_NONE], [_NONE]
    listing = earlier.scan("evidence/listing", LISTING)
    listed = LedgerTable.of(listing)
    ids = (batch["ledger_id"] for batch in listing.batches(["ledger_id"]))
    highest = max((pc.max(some).as_py() for some in ids if len(some)), default=-1)
    files_then, files_now = ShardFiles(earlier), ShardFiles(run)
    carried = read_carried_ids(run)
    kept_and_carried = kept_ids[are_among(kept_ids, carried)]
    for shard in id_ranges(listing, COMPARED_AT_ONCE):
        then = _newest_in(files_then, shard, carried)
        now = _newest(_rows_in(ledgers_read(files_now, shard), shard))
        total += len(shard.part_of(carried))
        before, after = _in_both(then, now)
        is_closed = _are_closed(before)
        total += int(np.count_nonzero(is_closed))
        changed = _ids_of(before, is_closed & _differ(before, after))
        went_back.append(_ids_of(before, _have_lower_version(before, after)))
        in_order = distinct_numbers(listed.table(["ledger_id"], shard)["ledger_id"].to_numpy())
        returned.append(_older(now, in_order, highest, earlier_began_ms - OLDER_BY_MS))
        fresh.append(np.setdiff1d(changed, kept_ids))
        if len(kept_and_carried):
            now = _newest_in(files_now, shard, missing_numbers(carried, kept_and_carried))
        before, after = _in_both(_within(kept, shard), now)
        still.append(_ids_of(before, _differ(before, after)))
    known, new = distinct_numbers(np.concatenate(still)), np.concatenate(fresh)
    stays = kept.filter(pc.is_in(kept["ledger_id"], pa.array(known)))
    rows = _rows_of(earlier, earlier_id, new[: SUSPECTS_MAX - len(known)])
    return Compared(
        total,
        len(known) + len(new),
        pa.concat_tables([stays, rows]),
        np.concatenate(went_back),
        np.concatenate(returned),
        _not_kept(earlier) + max(0, len(known) + len(new) - SUSPECTS_MAX),
    )


def _not_kept(run: Place) -> int:
    """Return the number of ledgers that differed and of which no run up to this one kept a row."""
    if not run.has_table(COMPARISONS_AT):
        return 0
    return pc.sum(run.read_table(COMPARISONS_AT, COMPARISONS)["not_kept"]).as_py() or 0


def _unread_ids(run: Place, ids: Ids) -> Ids:
    """Return which of these ledgers the run listed and never read."""
    if not len(ids):
        return _NONE
    mine = pc.field("ledger_id").isin(pa.array(ids))
    listed = run.read_table("evidence/listing", LISTING, mine)["ledger_id"].to_numpy()
    read = run.read_table("evidence/ledgers", LEDGERS, mine & _FOUND, ["ledger_id"])["ledger_id"]
    return np.setdiff1d(listed, read.to_numpy())


def kept_rows(run: Place) -> pa.Table:
    """Return the rows of earlier runs with which a run's ledgers differ, ascending."""
    if not run.has_table(CHANGED_AT):
        return CHANGED_LEDGERS.empty_table()
    return run.read_table(CHANGED_AT, CHANGED_LEDGERS, pc.field("look") == EARLIER).sort_by(
        "ledger_id"
    )


def _newest_in(files: ShardFiles, shard: Shard, left_out: Ids) -> pa.Table:
    """Return the newest readable row of each ledger in a range of ids that is not left out,
    ascending.
    """
    rows = _rows_in(files.scan("evidence/ledgers", LEDGERS, shard), shard)
    is_left_out = are_among(rows["ledger_id"].to_numpy(), left_out)
    return _newest(rows_of(rows, pa.array(~is_left_out)))


def _rows_in(ledgers: TableScan, shard: Shard) -> pa.Table:
    keep = _FOUND
    if not shard.is_all:
        keep &= (pc.field("ledger_id") >= shard.first) & (pc.field("ledger_id") <= shard.last)
    return ledgers.table(_COLUMNS, keep)


def _newest(rows: pa.Table) -> pa.Table:
    """Return the newest row of each ledger, ascending."""
    ids = rows["ledger_id"].to_numpy()
    if np.all(ids[1:] > ids[:-1]):
        return rows
    return newest_rows(rows)


Flags: TypeAlias = npt.NDArray[np.bool_]


def _are_closed(rows: pa.Table) -> Flags:
    return _flags(pc.equal(rows["state"], LedgerState.CLOSED.value))


def _flags(column: pa.ChunkedArray) -> Flags:
    """Return a column of truth values. Null is false."""
    flags: Flags = pc.fill_null(column, False).to_numpy()
    return flags


def _ids_of(rows: pa.Table, keep: Flags) -> Ids:
    ids: Ids = rows["ledger_id"].to_numpy()[keep]
    return ids


def _within(rows: pa.Table, shard: Shard) -> pa.Table:
    ids = rows["ledger_id"]
    return rows.filter(pc.and_(pc.greater_equal(ids, shard.first), pc.less_equal(ids, shard.last)))


def _have_lower_version(before: pa.Table, now: pa.Table) -> Flags:
    """Return which ledgers have the same znode with a lower version. The rows are as of
    `_in_both`.
    """
    is_same = pc.equal(before["czxid"], now["czxid"])
    return _flags(pc.and_(is_same, pc.less(now["znode_version"], before["znode_version"])))


def _older(now: pa.Table, listed: Ids, highest: LedgerId, limit_ms: int) -> Ids:
    """Return the ledgers that are not in `listed`, which ascends, and that ZooKeeper or their
    metadata dates before `limit_ms`. `highest`: the highest id then listed.

    A ledger whose znode was made anew has its age from its metadata, which a client dates by its
    own clock. That counts only up to `highest`: a higher id may be new, from a client whose clock
    is slow.
    """
    is_dated = pc.and_kleene(
        pc.less(now["metadata_ctime_ms"], limit_ms), pc.less_equal(now["ledger_id"], highest)
    )
    is_older = pc.or_kleene(pc.less(now["znode_ctime_ms"], limit_ms), is_dated)
    ids: Ids = now.filter(is_older)["ledger_id"].to_numpy()
    return np.setdiff1d(ids, listed, assume_unique=True)


def _in_both(before: pa.Table, now: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows of the ledgers that both tables have, in the same order.

    Both tables have one row a ledger, ascending.
    """
    ids, others = before["ledger_id"].to_numpy(), now["ledger_id"].to_numpy()
    if not len(ids) or not len(others):
        return before.slice(0, 0), now.slice(0, 0)
    at = np.minimum(np.searchsorted(others, ids), len(others) - 1)
    in_both = others[at] == ids
    before = before.filter(pa.array(in_both)).combine_chunks()
    return before, now.combine_chunks().take(pa.array(at[in_both]))


def _differ(before: pa.Table, now: pa.Table) -> Flags:
    """Return which ledgers differ in a compared column. The rows are as of `_in_both`."""
    differs = np.zeros(before.num_rows, np.bool_)
    for column in COMPARED.values():
        is_other = pc.fill_null(pc.not_equal(before[column], now[column]), False)
        differs |= is_other.to_numpy()
    return differs


def _rows_of(earlier: Place, earlier_id: str, ids: Ids) -> pa.Table:
    """Return the rows of an earlier run of these ledgers, in the form in which they are kept."""
    scan = earlier.scan("evidence/ledgers", LEDGERS)
    found = [LEDGERS.empty_table()]
    for rows in scan.tables_of_ledgers(pa.array(ids), [*LEDGERS.names]):
        found.append(newest_rows(rows.filter(_FOUND)))
    rows = pa.concat_tables(found)
    look = pa.array([EARLIER] * rows.num_rows, pa.int32())
    run_id = pa.array([earlier_id] * rows.num_rows, pa.string())
    rows = rows.set_column(rows.schema.get_field_index("look"), "look", look)
    return rows.append_column("run_id", run_id).cast(CHANGED_LEDGERS)


def comparison_row(run_id: str | None, problem: str, compared: Compared | None = None) -> Row:
    """Return the row of COMPARISONS."""
    if compared is None:
        return named_row(COMPARISONS, run_id=run_id, problem=problem)
    return named_row(
        COMPARISONS,
        run_id=run_id,
        problem=problem,
        compared=compared.ledgers,
        changed=compared.changed,
        went_back=compared.went_back[:NAMED_MAX].tolist(),
        went_back_total=len(compared.went_back),
        returned=compared.returned[:NAMED_MAX].tolist(),
        returned_total=len(compared.returned),
        not_kept=compared.not_kept,
    )


class Doubt(StrEnum):
    """Why it is unknown whether a ledger that differs has changed."""

    UNREAD = "unread"
    """It could not be read again."""
    ONCE = "once"
    """Only one look saw that it differs."""


class SeenChange(NamedTuple):
    """A ledger that differs from what the run `run_id` stored.

    `first` is the newest readable row of this run, `again` the closing look; None where there is
    none.
    """

    run_id: str
    earlier: LedgerRecord
    first: LedgerRecord | None
    again: LedgerRecord | None


def judge_change(seen: SeenChange) -> Finding | Doubt | None:
    """Return the finding on a ledger that differs, by both looks; None if it is as it was."""
    before, again = seen.earlier.metadata, seen.again
    assert before is not None and before.state is LedgerState.CLOSED, seen
    if again is not None and again.status is RecordStatus.GONE:
        return None
    if again is None or again.metadata is None:
        return Doubt.UNREAD
    fields = changed_fields(before, again.metadata)
    if not fields:
        return None
    first = seen.first
    if first is None or first.metadata is None or not changed_fields(before, first.metadata):
        return Doubt.ONCE
    if again.read_at_ms - first.read_at_ms < LOOKS_APART_MIN_MS:
        return Doubt.ONCE
    stamps = seen.earlier.stamp, again.stamp
    facts = ChangedMetadataFacts(
        earlier_run=seen.run_id,
        earlier_read_at_ms=seen.earlier.read_at_ms,
        earlier_version=stamps[0].version if stamps[0] else None,
        version=stamps[1].version if stamps[1] else None,
        is_same_znode=None not in stamps and _czxid(seen.earlier) == _czxid(again),
        fields=fields,
        apart_ms=again.read_at_ms - first.read_at_ms,
    )
    end, was_end = again.metadata.last_entry_id, before.last_entry_id
    cut: tuple[tuple[EntryId, EntryId], ...] = ()
    if end is not None and was_end is not None and -1 <= end < was_end:
        cut = ((end + 1, was_end),)
    return Finding(
        Kind.CLOSED_METADATA_CHANGED,
        facts,
        ledger_id=seen.earlier.ledger_id,
        entries=cut,
        entries_total=sum(last - first + 1 for first, last in cut),
    )


def _czxid(record: LedgerRecord) -> int | None:
    return None if record.stamp is None else record.stamp.czxid


def changed_fields(before: LedgerMetadata, after: LedgerMetadata) -> tuple[ChangedField, ...]:
    """Return the fields of two metadata that differ. A value that one of them lacks does not."""
    return tuple(
        ChangedField(name, one, other)
        for name, one, other in zip(
            MetadataField, field_values(before), field_values(after), strict=True
        )
        if one is not None and other is not None and one != other
    )


def field_values(metadata: LedgerMetadata) -> tuple[str | None, ...]:
    """Return the values in the order of MetadataField, None where the metadata has none."""
    values: tuple[int | None, ...] = (
        metadata.last_entry_id,
        metadata.length,
        metadata.ensemble_size,
        metadata.write_quorum,
        metadata.ack_quorum,
    )
    digest = None if metadata.digest_type is None else metadata.digest_type.name
    created = None if metadata.ctime_ms is None else str(metadata.ctime_ms)
    numbers = (None if value is None else str(value) for value in values)
    return (metadata.state.value, *numbers, digest, created)


@dataclass(frozen=True, slots=True)
class MetadataChanges:
    """What the comparison shows.

    `counts` is None if the run was not to be compared. `withheld` says in sentences what is
    unknown.
    """

    findings: tuple[FindingRecord, ...] = ()
    withheld: tuple[str, ...] = ()
    counts: MetadataComparison | None = None
    files: Mapping[str, Ids] = field(default_factory=dict)
    """Ids of ledgers by the file's name: those that are gone and that nothing explains."""


def metadata_changes(run: Place, about: About) -> MetadataChanges:
    """Return what evidence/comparisons and evidence/changed_ledgers show."""
    if not run.has_table(COMPARISONS_AT):
        return MetadataChanges()
    row = run.read_table(COMPARISONS_AT, COMPARISONS).to_pylist()[0]
    if row["compared"] is None:
        return MetadataChanges(counts=MetadataComparison(row["run_id"], row["problem"]))
    findings, unknown = [], []
    for seen in _seen_changes(run):
        judged = judge_change(seen)
        if isinstance(judged, Finding):
            assert seen.first is not None and seen.again is not None, seen
            looks, owner = [Look(seen.first), Look(seen.again)], owner_of(seen.again.metadata)
            findings.append(znode_testimony(judged, looks, about.facts, owner))
        elif judged is not None:
            unknown.append(seen.earlier.ledger_id)
    more = max(0, row["changed"] - SUSPECTS_MAX)
    gone = gone_ledgers(run)
    counts = MetadataComparison(
        row["run_id"],
        row["problem"],
        compared=row["compared"],
        changed=len(findings),
        unknown=len(unknown) + more,
        went_back=row["went_back_total"],
        some_went_back=tuple(row["went_back"]),
        returned=row["returned_total"],
        some_returned=tuple(row["returned"]),
        forgotten=(row["not_kept"] or 0) - more,
        gone=gone.by_reason,
        gone_namespaces=gone.namespaces,
    )
    files = {GONE_FILE: gone.unexplained} if len(gone.unexplained) else {}
    return MetadataChanges(tuple(findings), tuple(_withheld(unknown, more)), counts, files)


def _seen_changes(run: Place) -> Iterable[SeenChange]:
    rows = kept_rows(run)
    if not rows.num_rows:
        return
    ids = pa.array(rows["ledger_id"].to_numpy())
    mine = _FOUND & pc.field("ledger_id").isin(ids)
    first = run.read_table("evidence/ledgers", LEDGERS, mine).sort_by("look")
    newest = {record.ledger_id: record for record in ledger_records(first)}
    read = run.read_table(CHANGED_AT, CHANGED_LEDGERS, pc.field("look") == AGAIN)
    again = {record.ledger_id: record for record in _records(read)}
    for record, run_id in zip(_records(rows), rows["run_id"].to_pylist(), strict=True):
        ledger_id = record.ledger_id
        yield SeenChange(run_id, record, newest.get(ledger_id), again.get(ledger_id))


def _records(rows: pa.Table) -> list[LedgerRecord]:
    return ledger_records(rows.select(LEDGERS.names))


def _withheld(unknown: list[LedgerId], more: int) -> Iterable[str]:
    if unknown:
        is_one = len(unknown) == 1
        which = f"1 closed ledger ({unknown[0]})" if is_one else f"{len(unknown)} closed ledgers"
        some = "" if is_one else f" ({name_some(unknown)})"
        yield (
            f"{which}{some} had other metadata in an earlier run, and two looks did not confirm it:"
            f" whether {'it has' if is_one else 'they have'} changed is not known"
        )
    if more:
        yield (
            f"more than {SUSPECTS_MAX:,} closed ledgers have other metadata than in an earlier run:"
            f" {more:,} of them were not judged"
        )
