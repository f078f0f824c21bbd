"""How much memory the end of a run takes in the driver, by the number of ledgers.

.venv/bin/python -m benchmarks.driver_memory
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from auditor.evidence.rows import answer_row, bookie_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, BOOKIES, LEDGERS, LISTING, MARKS, READS, VERDICTS
from auditor.judging.verdict_rows import judge_to_row
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import LedgerEvidence
from auditor.run.conclusion import conclude
from auditor.summary.about import About
from auditor.summary.previous_run import NO_PREVIOUS
from benchmarks.judging import BOOKIES as BOOKIE_IDS
from benchmarks.judging import TERMS, healthy
from benchmarks.second_checker import suspect
from benchmarks.targets import Target

FEW, MANY = 100_000, 1_000_000
"""Numbers of ledgers, and so of verdict rows, that are compared."""
PORTION = 50_000
"""Ledgers in one file of a table, as shards and tasks write them."""
VIOLATED_EVERY = 10_000
"""One ledger of so many has findings and was looked at again. A finding takes some 12 kB."""
PATTERN_ID = 987_654_321
"""The ledger whose rows are repeated under other ids."""
ENTRIES = 60
"""Entries of every ledger."""
BYTES_A_LEDGER_MAX = 20
"""What a ledger may cost: the findings of the few, and nothing of its own (decision 0080). Two
measurements differ by more.
"""
TIMEOUT_S = 300
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
ABOUT = About("20260101T030000Z-000001", "2026-01-01T03:00:00Z", FACTS, TERMS, "warning", False)
RECORDS = [
    BookieRecord(
        bookie, look, TERMS.judged_at_ms, Registration.WRITABLE, "h", 1, True, "", Greeting.ANSWERED
    )
    for look in (1, 2)
    for bookie in BOOKIE_IDS
]


def write_run(run: Place, ledgers: int) -> None:
    """Write the evidence and the verdicts of a run that found one ledger in VIOLATED_EVERY damaged.

    A sound and a damaged ledger are judged; all others have their rows under other ids.
    """
    kinds = _tables(healthy(PATTERN_ID, ENTRIES)), _tables(suspect(PATTERN_ID, ENTRIES))
    for number, start in enumerate(range(0, ledgers, PORTION)):
        ids = range(start, min(start + PORTION, ledgers))
        damaged = ids[::VIOLATED_EVERY]
        sound = [i for i in ids if (i - start) % VIOLATED_EVERY]
        run.write_table("evidence/listing", table(LISTING, [(i,) for i in ids]), f"part-{number}")
        for name in kinds[0]:
            parts = (
                _repeat(tables[name], mine)
                for tables, mine in zip(kinds, (sound, damaged), strict=True)
            )
            run.write_table(name, pa.concat_tables(parts), f"part-{number}")
    run.write_table("evidence/marks", table(MARKS, []), "all")
    run.write_table("evidence/bookies", table(BOOKIES, map(bookie_row, RECORDS)), "all")


def _tables(evidence: LedgerEvidence) -> dict[str, pa.RecordBatch]:
    """Return the rows of one ledger by the name of their table."""
    looks = evidence.looks
    return {
        "evidence/ledgers": table(LEDGERS, [ledger_row(look.record) for look in looks]),
        "evidence/answers": table(
            ANSWERS, [answer_row(one) for look in looks for one in look.answers.values()]
        ),
        "evidence/reads": table(
            READS, [read_row(read) for look in looks for read in look.reads.values()]
        ),
        "verdicts": table(VERDICTS, [judge_to_row(evidence, TERMS, FACTS)[1]]),
    }


def _repeat(rows: pa.RecordBatch, ids: Sequence[int]) -> pa.Table:
    """Return the rows once for every id. Findings name the id too."""
    columns = pa.Table.from_batches(
        [rows.take(pa.array([index] * len(ids))) for index in range(rows.num_rows)], rows.schema
    )
    changed = {"ledger_id": list(ids) * rows.num_rows}
    if "findings" in rows.schema.names:
        (lines,) = rows["findings"].to_pylist()
        changed["findings"] = [
            [line.replace(str(PATTERN_ID), str(i)) for line in lines] for i in ids
        ]
    for name, values in changed.items():
        index = rows.schema.get_field_index(name)
        columns = columns.set_column(
            index, rows.schema.field(index), pa.array(values, rows.schema.field(index).type)
        )
    return columns


def end_run(directory: str) -> None:
    """Do what the driver does at the end of a run, and print the memory it took, in bytes."""
    run = place(directory)
    before = _status_bytes("VmRSS")
    verdicts = run.scan("verdicts", VERDICTS)
    done = conclude(
        run,
        ABOUT,
        RECORDS,
        NO_PREVIOUS,
        verdicts=verdicts,
        finished_at="2026-01-01T03:01:00Z",
        duration_s={},
    )
    counted = done.summary.as_json()["ledgers"]
    assert counted["violated"] == len(done.findings) > 0, counted
    print(_status_bytes("VmHWM") - before)


def _status_bytes(name: str) -> int:
    """Return a figure of this process in bytes. The peak of its resource usage would include its
    parent's.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def _measure(scratch: Path, ledgers: int) -> int:
    directory = scratch / f"run-20260101T030000Z-{ledgers:06}"
    write_run(place(str(directory)), ledgers)
    command = [sys.executable, "-m", "benchmarks.driver_memory", str(directory)]
    return int(
        subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S
        ).stdout
    )


def target() -> Target:
    """The memory that a ledger more costs, from FEW to MANY ledgers."""
    with tempfile.TemporaryDirectory() as directory:
        few, many = (_measure(Path(directory), ledgers) for ledgers in (FEW, MANY))
    each = (many - few) / (MANY - FEW)
    return Target(
        f"driver: a ledger more takes at most {BYTES_A_LEDGER_MAX} bytes of memory at the end of"
        " a run",
        each <= BYTES_A_LEDGER_MAX,
        (
            (
                f"{each:.0f} bytes a ledger: {few / 2**20:,.0f} MiB for {FEW:,} ledgers,"
                f" {many / 2**20:,.0f} MiB for {MANY:,}; 1 ledger in {VIOLATED_EVERY} violated"
            ),
        ),
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        end_run(sys.argv[1])
    else:
        print(target())
