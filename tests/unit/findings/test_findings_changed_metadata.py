"""What the metadata of two runs show: closed ledgers that changed, and those that only look so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import (
    CARRIED,
    CARRIED_TABLE,
    CHANGED_LEDGERS,
    COMPARISONS,
    LEDGERS,
    LISTING,
)
from auditor.findings import changed_metadata
from auditor.findings.changed_metadata import (
    AGAIN,
    CHANGED_AT,
    COMPARISONS_AT,
    Doubt,
    SeenChange,
    changed_fields,
    comparison_row,
    judge_change,
    metadata_changes,
)
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.facts import LOOKS_APART_MIN_MS, ChangedMetadataFacts, MetadataField
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import (
    DigestType,
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.summary.about import About

THEN, NOW = "20251231T030000Z-000001", "20260101T030000Z-000001"
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
ABOUT = About(
    NOW, "2026-01-01T03:00:00Z", FACTS, Terms(9_000, 1_000, 16, 5), "warning", False
)  # fmt: skip
CLOSED = LedgerMetadata(
    format_version=3,
    state=LedgerState.CLOSED,
    ensemble_size=3,
    write_quorum=2,
    ack_quorum=2,
    last_entry_id=49,
    length=500,
    segments=(Segment(0, ("b1", "b2", "b3")),),
    digest_type=DigestType.CRC32C,
    ctime_ms=1_700_000_000_000,
)
OPEN = replace(CLOSED, state=LedgerState.OPEN, last_entry_id=None, length=0)
CHANGES: dict[MetadataField, LedgerMetadata] = {
    MetadataField.STATE: replace(CLOSED, state=LedgerState.OPEN, last_entry_id=None),
    MetadataField.LAST_ENTRY_ID: replace(CLOSED, last_entry_id=39),
    MetadataField.LENGTH: replace(CLOSED, length=400),
    MetadataField.ENSEMBLE_SIZE: replace(CLOSED, ensemble_size=4),
    MetadataField.WRITE_QUORUM: replace(CLOSED, write_quorum=3),
    MetadataField.ACK_QUORUM: replace(CLOSED, ack_quorum=1),
    MetadataField.DIGEST_TYPE: replace(CLOSED, digest_type=DigestType.DUMMY),
    MetadataField.CTIME: replace(CLOSED, ctime_ms=1_700_000_000_001),
}
SAME = {
    "replicated again": replace(CLOSED, segments=(Segment(0, ("b1", "b4", "b3")),)),
    "other custom metadata": replace(CLOSED, custom_metadata=(("k", b"v"),)),
    "without a digest type": replace(CLOSED, format_version=1, digest_type=None, ctime_ms=None),
}


def record(
    ledger_id: int,
    metadata: LedgerMetadata | None = CLOSED,
    look: int = 1,
    at_ms: int = 0,
    *,
    status: RecordStatus = RecordStatus.FOUND,
    version: int = 1,
    czxid: int = 7,
) -> LedgerRecord:
    """Return what ZooKeeper said of a ledger."""
    is_found = status is RecordStatus.FOUND
    stamp = ZnodeStamp(czxid, version, 0, 0) if is_found else None
    return LedgerRecord(
        ledger_id, look, at_ms, status, stamp=stamp, metadata=metadata if is_found else None
    )


def write_run(run: Place, records: Iterable[LedgerRecord]) -> Place:
    """Write what a run read, one file a look."""
    rows = list(records)
    ids = sorted({row.ledger_id for row in rows})
    run.write_table("evidence/listing", table(LISTING, [(i,) for i in ids]), "all")
    for look in sorted({row.look for row in rows}):
        of_look = [ledger_row(row) for row in rows if row.look == look]
        run.write_table("evidence/ledgers", table(LEDGERS, of_look), f"look-{look}")
    return run


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Place, Place]:
    return place(str(tmp_path / "earlier")), place(str(tmp_path / "run"))


BEGAN_MS = 1_700_000_000_000
"""When the earlier run began. The ledgers were created then, by their own metadata."""


def compare_metadata(earlier: Place, earlier_id: str, run: Place) -> changed_metadata.Compared:
    return changed_metadata.compare_metadata(earlier, earlier_id, run, BEGAN_MS)


def look_again(run: Place, compared: changed_metadata.Compared, again: list[LedgerRecord]) -> None:
    """Write what the comparison found and the closing look, as a run does."""
    run.write_table(CHANGED_AT, compared.rows, "earlier")
    rows = [(*ledger_row(row), None) for row in again]
    run.write_table(CHANGED_AT, table(CHANGED_LEDGERS, rows), "look-2")
    row = comparison_row(THEN, "", compared)
    run.write_table(COMPARISONS_AT, table(COMPARISONS, [row]), "metadata")


@pytest.mark.parametrize("at_once", [1, 3, 1_000])
def test_exactly_the_closed_ledgers_that_changed_differ(
    runs: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Ensembles, custom metadata and values that an older format lacks do not count. Neither do
    ledgers that were open or unreadable then, or are gone or unreadable now.
    """
    monkeypatch.setattr(changed_metadata, "COMPARED_AT_ONCE", at_once)
    changed = dict(enumerate(CHANGES.values(), 10))
    same = dict(enumerate(SAME.values(), 30))
    unreadable = RecordStatus.UNREADABLE
    then = [*map(record, changed), *map(record, same), record(50, OPEN), record(53)]
    then += [record(51, status=unreadable), record(52), record(54)]
    now = [record(i, m) for i, m in {**changed, **same}.items()]
    now += [record(50), record(51), record(52, status=unreadable), record(54), record(55)]
    earlier = write_run(runs[0], then)
    compared = compare_metadata(earlier, THEN, write_run(runs[1], reversed(now)))
    assert list(changed) == compared.ids.tolist()
    assert (len(changed) + len(same) + 1, len(changed)) == (compared.ledgers, compared.changed)
    assert {0} == set(compared.rows["look"].to_pylist())
    assert {THEN} == set(compared.rows["run_id"].to_pylist())


def test_the_newest_look_of_each_run_counts(runs: tuple[Place, Place]) -> None:
    """A ledger that was closed between the looks of the earlier run is compared, and one that was
    put right between those of this run does not differ.
    """
    cut = CHANGES[MetadataField.LAST_ENTRY_ID]
    earlier = write_run(runs[0], [record(1, OPEN), record(1, CLOSED, 2), record(2)])
    now = write_run(runs[1], [record(1, cut), record(2, cut), record(2, CLOSED, 2)])
    assert [1] == compare_metadata(earlier, THEN, now).ids.tolist()


def test_a_ledger_that_differs_is_compared_with_the_first_run_on_every_night(
    runs: tuple[Place, Place], tmp_path: Path
) -> None:
    """The second run that sees the change names the run that stored the other metadata. The change
    is not found any more once the metadata is as it was.
    """
    cut = CHANGES[MetadataField.LAST_ENTRY_ID]
    write_run(runs[0], [record(1), record(2)])
    second = write_run(runs[1], [record(1, cut, version=2), record(2)])
    compared = compare_metadata(runs[0], THEN, second)
    look_again(second, compared, [record(1, cut, AGAIN, 2_000, version=2)])
    third = write_run(place(str(tmp_path / "third")), [record(1, cut, version=2), record(2)])
    again = compare_metadata(second, NOW, third)
    assert [1] == again.ids.tolist()
    assert [THEN] == again.rows["run_id"].to_pylist()
    assert 49 == again.rows["last_entry_id"].to_pylist()[0]
    healed = write_run(place(str(tmp_path / "healed")), [record(1, version=3), record(2)])
    assert [] == compare_metadata(second, NOW, healed).ids.tolist()
    gone = write_run(place(str(tmp_path / "gone")), [record(2)])
    assert [] == compare_metadata(second, NOW, gone).ids.tolist()
    unread = record(1, status=RecordStatus.UNREADABLE)
    hidden = write_run(place(str(tmp_path / "hidden")), [unread, record(2)])
    assert [THEN] == compare_metadata(second, NOW, hidden).rows["run_id"].to_pylist()


@pytest.mark.parametrize("at_once", [1, 3, 1_000])
def test_ledgers_that_were_carried_over_count_as_compared(
    runs: tuple[Place, Place],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    """Their rows are those of the earlier run. What is found is what a comparison of all finds: of
    the others, and of one that differed in an earlier run and was carried over since.
    """
    monkeypatch.setattr(changed_metadata, "COMPARED_AT_ONCE", at_once)
    cut = CHANGES[MetadataField.LAST_ENTRY_ID]
    then = [*(record(i) for i in range(1, 9)), record(9, OPEN), record(8, look=2)]
    first = compare_metadata(write_run(runs[0], then), THEN, write_run(runs[1], [record(3, cut)]))
    assert [3] == first.ids.tolist()
    second = write_run(place(str(tmp_path / "second")), [*then[:2], record(3, cut), *then[3:]])
    look_again(second, first, [])
    read = [record(5, cut), record(6, version=0), record(9, look=2), record(0), record(8, look=2)]
    carried = [record(1), record(2), record(3, cut), record(4)]
    whole = write_run(place(str(tmp_path / "whole")), [*read, *carried, record(7)])
    due = write_run(place(str(tmp_path / "due")), [*read, record(7)])
    ids = [(i,) for i in range(10)]
    due.write_table("evidence/listing", table(LISTING, ids), "all")
    due.write_table("evidence/ledgers", table(LEDGERS, map(ledger_row, carried)), "carried")
    assert "evidence/ledgers/carried.parquet" in due.files_in("evidence")
    rows = [(one.ledger_id, THEN, 0) for one in carried]
    due.write_table(CARRIED_TABLE, table(CARRIED, rows), "carried")
    expected, found = (compare_metadata(second, NOW, run) for run in (whole, due))
    assert [3, 5] == expected.ids.tolist()
    assert (expected.ledgers, expected.changed) == (found.ledgers, found.changed)
    assert expected.rows.equals(found.rows)
    assert ([6], [0]) == (expected.went_back.tolist(), expected.returned.tolist())
    assert ([6], [0]) == (found.went_back.tolist(), found.returned.tolist())


@pytest.mark.parametrize("name", MetadataField)
def test_each_field_that_changed_is_named(name: MetadataField) -> None:
    """The finding has the value of the earlier run, and that of the closing look."""
    after = CHANGES[name]
    finding = judge_change(seen(record(7, after), record(7, after, AGAIN, 2_000)))
    assert isinstance(finding, Finding)
    assert isinstance(finding.facts, ChangedMetadataFacts)
    assert [name] == [field.name for field in finding.facts.fields]
    assert changed_fields(CLOSED, after) == finding.facts.fields
    cut = name is MetadataField.LAST_ENTRY_ID
    assert (((40, 49),) if cut else (), 10 if cut else 0) == (
        finding.entries,
        finding.entries_total,
    )


def seen(first: LedgerRecord | None, again: LedgerRecord | None) -> SeenChange:
    return SeenChange(THEN, record(7, look=0), first, again)


CUT = CHANGES[MetadataField.LAST_ENTRY_ID]


@pytest.mark.parametrize(
    ("first", "again", "expected"),
    [
        (record(7, CUT), record(7, CLOSED, AGAIN, 2_000), None),
        (record(7, CUT), record(7, look=AGAIN, at_ms=2_000, status=RecordStatus.GONE), None),
        (
            record(7, CUT),
            record(7, look=AGAIN, at_ms=2_000, status=RecordStatus.UNREADABLE),
            Doubt.UNREAD,
        ),
        (record(7, CUT), None, Doubt.UNREAD),
        (record(7, CLOSED), record(7, CUT, AGAIN, 2_000), Doubt.ONCE),
        (None, record(7, CUT, AGAIN, 2_000), Doubt.ONCE),
        (record(7, CUT), record(7, CUT, AGAIN, LOOKS_APART_MIN_MS - 1), Doubt.ONCE),
    ],
    ids=["put back", "gone", "unreadable", "not read again", "once", "never read", "at once"],
)
def test_one_look_accuses_nobody(
    first: LedgerRecord | None, again: LedgerRecord | None, expected: Doubt | None
) -> None:
    """A change that two looks, a second apart, do not both see is no finding."""
    assert expected == judge_change(seen(first, again))


def test_the_witness_says_what_the_znode_shows(runs: tuple[Place, Place]) -> None:
    """A version that went back, a znode that was created anew, and one that was written."""
    after = {1: (0, 7), 2: (3, 9), 3: (2, 7), 4: (1, 7)}
    write_run(runs[0], [record(i) for i in after])
    now = [record(i, CUT, version=v, czxid=c) for i, (v, c) in after.items()]
    run = write_run(runs[1], now)
    again = [replace(row, look=AGAIN, read_at_ms=2_000) for row in now]
    look_again(run, compare_metadata(runs[0], THEN, run), again)
    said = metadata_changes(run, ABOUT)
    witnesses = [found.witness for found in said.findings]
    words = ("went back", "created anew", "was written since", "another history")
    for ledger_id, shown, witness in zip(after, words, witnesses, strict=True):
        assert f"Run {THEN} read ledger {ledger_id} as CLOSED" in witness
        assert [shown] == [word for word in words if word in witness]
    assert all("cuts off 10 entries: 40-49." in witness for witness in witnesses)
    assert said.counts is not None
    assert (4, 4, 0) == (said.counts.compared, said.counts.changed, said.counts.unknown)
    assert Kind.CLOSED_METADATA_CHANGED == said.findings[0].kind


def test_what_could_not_be_read_again_is_unknown(runs: tuple[Place, Place]) -> None:
    """The run is incomplete, and a sentence names the ledger."""
    write_run(runs[0], [record(1)])
    run = write_run(runs[1], [record(1, CUT)])
    look_again(run, compare_metadata(runs[0], THEN, run), [])
    said = metadata_changes(run, ABOUT)
    assert said.counts is not None
    assert ((), 1) == (said.findings, said.counts.unknown)
    assert "1 closed ledger (1) had other metadata" in said.withheld[0]


def test_a_run_keeps_a_bounded_number_of_rows(
    runs: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledgers beyond the limit are counted as unknown."""
    monkeypatch.setattr(changed_metadata, "SUSPECTS_MAX", 2)
    write_run(runs[0], [record(i) for i in range(5)])
    run = write_run(runs[1], [record(i, CUT) for i in range(5)])
    compared = compare_metadata(runs[0], THEN, run)
    look_again(run, compared, [record(i, CUT, AGAIN, 2_000) for i in compared.ids.tolist()])
    said = metadata_changes(run, ABOUT)
    assert said.counts is not None
    assert (5, 2, 3) == (compared.changed, len(said.findings), said.counts.unknown)
    assert 0 == said.counts.forgotten


def test_ledgers_that_no_run_kept_are_counted_on_every_later_night(
    runs: tuple[Place, Place], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next runs compare them with what they were afterwards, and say how many they are."""
    monkeypatch.setattr(changed_metadata, "SUSPECTS_MAX", 2)
    write_run(runs[0], [record(i) for i in range(5)])
    earlier, expected = runs[0], [(0, 3), (3, 0), (3, 0)]
    for number, (forgotten, unknown) in enumerate(expected):
        run = place(str(tmp_path / f"night-{number}"))
        write_run(run, [record(i, CUT) for i in range(5)])
        compared = compare_metadata(earlier, THEN, run)
        look_again(run, compared, [record(i, CUT, AGAIN, 2_000) for i in compared.ids.tolist()])
        counts = metadata_changes(run, ABOUT).counts
        assert counts is not None
        assert (2, forgotten, unknown) == (counts.changed, counts.forgotten, counts.unknown)
        earlier = run


def test_without_an_earlier_run_the_reason_is_kept(runs: tuple[Place, Place]) -> None:
    """Nothing is compared, and nothing is unknown."""
    assert metadata_changes(write_run(runs[1], [record(1)]), ABOUT).counts is None
    row = table(COMPARISONS, [comparison_row(None, "another cluster")])
    runs[1].write_table(COMPARISONS_AT, row, "metadata")
    counts = metadata_changes(runs[1], ABOUT).counts
    assert counts is not None
    assert (None, "another cluster", 0) == (counts.earlier_run, counts.problem, counts.unknown)


def test_znodes_whose_version_went_back_are_counted_whatever_their_state(
    runs: tuple[Place, Place],
) -> None:
    """An open ledger counts too. One whose znode was created anew does not: its version began
    again.
    """
    then = [record(i, OPEN if i == 2 else CLOSED, version=3) for i in range(1, 5)]
    now = [record(1), record(2, OPEN, version=2), record(3, version=4), record(4, czxid=8)]
    compared = compare_metadata(write_run(runs[0], then), THEN, write_run(runs[1], now))
    assert [1, 2] == compared.went_back.tolist()


def test_ledgers_that_are_listed_again_although_they_are_older_came_back(
    runs: tuple[Place, Place],
) -> None:
    """A ledger of the time of the earlier run may have been created after its listing. One that the
    earlier run listed and could not read did not come back.
    """
    old = BEGAN_MS - changed_metadata.OLDER_BY_MS - 1
    ages = {1: old, 2: old + 1, 3: None, 4: old}
    now = [record(i, replace(CLOSED, ctime_ms=at)) for i, at in ages.items()]
    new = ZnodeStamp(7, 1, BEGAN_MS, BEGAN_MS)
    now = [replace(row, stamp=new) for row in now]
    then = [record(4, status=RecordStatus.UNREADABLE), record(9)]
    compared = compare_metadata(write_run(runs[0], then), THEN, write_run(runs[1], now))
    assert [1] == compared.returned.tolist()


@pytest.mark.parametrize("at_once", [1, 3, 1_000])
def test_a_new_ledger_of_a_client_whose_clock_is_slow_did_not_come_back(
    runs: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Its id is above those then listed, and ZooKeeper dates it after them. A ledger with such an
    id that ZooKeeper itself dates before the earlier run came back.
    """
    monkeypatch.setattr(changed_metadata, "COMPARED_AT_ONCE", at_once)
    old = BEGAN_MS - changed_metadata.OLDER_BY_MS - 1
    slow = replace(CLOSED, ctime_ms=old)
    dated = {5: BEGAN_MS, 8: BEGAN_MS, 9: BEGAN_MS, 10: BEGAN_MS, 11: old}
    now = [
        replace(record(i, slow), stamp=ZnodeStamp(7, 1, at_ms, at_ms)) for i, at_ms in dated.items()
    ]
    then = write_run(runs[0], [record(1), record(4), record(6), record(9)])
    assert [5, 8, 11] == compare_metadata(then, THEN, write_run(runs[1], now)).returned.tolist()
