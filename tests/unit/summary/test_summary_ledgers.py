"""Each listed ledger has exactly one verdict, or no report is written."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from support.scan_counts import count_rows_read

from auditor.errors import AccountingError
from auditor.evidence.run_directory import place
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.summary.counts import LEDGERS_NAMED_MAX, account

COLUMN = pa.schema([("ledger_id", pa.int64())])


def column(*ids: int) -> TableScan:
    """Return ids as a table in two chunks, like a table of several files."""
    half = len(ids) // 2
    chunks = [pa.array(ids[:half], pa.int64()), pa.array(ids[half:], pa.int64())]
    return scan_rows(pa.table({"ledger_id": pa.chunked_array(chunks)}))


@pytest.fixture(params=[1, 3, 10_000], autouse=True)
def accounted_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few ledgers are in memory at a time, or all."""
    monkeypatch.setattr("auditor.summary.counts.ACCOUNTED_AT_ONCE", request.param)


def test_each_listed_ledger_judged_once_is_the_number_of_ledgers():
    """The order of the rows does not matter."""
    assert 4 == account(column(7, 1, 2**63 - 1, 0), column(0, 2**63 - 1, 7, 1))


def test_an_empty_cluster_adds_up():
    """Whether an empty cluster is sound is decided elsewhere."""
    assert 0 == account(column(), column())


@pytest.mark.parametrize(
    ("listed", "judged", "says"),
    [
        ((1, 2, 3), (1, 3), "1 listed and never judged (such as 2)"),
        ((1, 2, 3), (1, 2, 2, 3), "1 judged more than once (such as 2)"),
        ((1, 2, 2, 3), (1, 2, 3), "1 listed more than once (such as 2)"),
        ((1, 2, 3), (1, 2, 3, 4), "1 judged and never listed (such as 4)"),
        ((1, 2, 3), (1, 2, 4), "1 listed and never judged (such as 3)"),
        ((), (9,), "1 judged and never listed (such as 9)"),
        ((9,), (), "1 listed and never judged (such as 9)"),
        ((1, 2, 2), (1, 2, 2), "1 listed more than once (such as 2)"),
        ((1, 4, 2, 6), (4, 1, 6, 2, -7, -8), "2 judged and never listed (such as -8, -7)"),
        ((5, 1, 2, 3, 4), (1, 2, 4, 4, 3), "1 judged more than once (such as 4)"),
    ],
)
def test_what_does_not_add_up_is_reported_with_the_ledger(
    listed: tuple[int, ...], judged: tuple[int, ...], says: str
):
    """A row is dropped, doubled or added. The sentence names the ledger and says that it is a fault
    of the auditor.
    """
    with pytest.raises(AccountingError) as raised:
        account(column(*listed), column(*judged))
    assert says in str(raised.value)
    assert "no counts are published" in str(raised.value)
    assert "a fault of the auditor" in str(raised.value)


def test_a_dropped_row_is_not_hidden_by_a_doubled_one():
    """There are as many verdicts as ledgers."""
    with pytest.raises(AccountingError, match="judged more than once"):
        account(column(1, 2, 3), column(1, 3, 3))


def test_few_ledgers_are_named_however_many_are_lost():
    """NAMED_MAX ledgers are named, and all are counted."""
    with pytest.raises(AccountingError) as raised:
        account(column(*range(1000)), column())
    assert (
        f"1000 listed and never judged (such as {', '.join(map(str, range(LEDGERS_NAMED_MAX)))})"
        in str(raised.value)
    )


@pytest.mark.parametrize("seed", range(40))
def test_it_adds_up_exactly_when_both_are_the_same_set(seed: int):
    """Small random tables, many of them wrong, are compared with a plain count."""
    rng = random.Random(seed)
    listed = [rng.randrange(6) for _ in range(rng.randrange(5))]
    judged = rng.choice([listed, sorted(listed), [rng.randrange(6) for _ in listed]])
    right = Counter(listed) == Counter(judged) and len(set(listed)) == len(listed)
    try:
        assert len(listed) == account(column(*listed), column(*judged)), f"seed {seed}"
        assert right, f"seed {seed}: {listed} {judged}"
    except AccountingError:
        assert not right, f"seed {seed}: {listed} {judged}"


@pytest.mark.parametrize(
    ("listed", "judged", "counts"),
    [
        ((1, 2), (1, None, 2), r"\[2, 2\] ids were found in \[2, 3\]"),
        ((1, 2, 3, None), (1, 2, 3), r"\[3, 3\] ids were found in \[4, 3\]"),
        ((None, None), (None,), r"\[0, 0\] ids were found in \[2, 1\]"),
    ],
)
@pytest.mark.parametrize("is_in_files", [True, False])
def test_a_row_without_an_id_does_not_go_unnoticed(
    *,
    listed: tuple[int | None, ...],
    judged: tuple[int | None, ...],
    counts: str,
    is_in_files: bool,
    tmp_path: Path,
):
    """No range has it."""
    tables = [
        pa.table({"ledger_id": pa.array(rows, pa.int64())}, COLUMN) for rows in (listed, judged)
    ]
    run, scans = place(str(tmp_path)), [scan_rows(rows) for rows in tables]
    if is_in_files:
        for number, rows in enumerate(tables):
            run.write_table(f"t{number}", rows, "one")
        scans = [run.scan(f"t{number}", COLUMN) for number in range(2)]
    with pytest.raises(AccountingError, match=f"{counts} rows"):
        account(*scans)


def test_memory_does_not_grow_with_the_ledgers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ids of one range are in memory, and each file in ascending order is read once."""
    monkeypatch.setattr("auditor.summary.counts.ACCOUNTED_AT_ONCE", at_once := 20_000)
    run, files = place(str(tmp_path)), 20
    for number in range(files):
        ids = pa.table({"ledger_id": pa.array(range(number * 10_000, (number + 1) * 10_000))})
        run.write_table("listing", ids, f"part-{number:02}")
        run.write_table("verdicts", ids.take(pa.array(range(9_999, -1, -1))), f"part-{number:02}")
    read = count_rows_read(monkeypatch)
    assert files * 10_000 == account(run.scan("listing", COLUMN), run.scan("verdicts", COLUMN))
    assert files * 10_000 * 2 == sum(read) and max(read) <= 1.1 * at_once
