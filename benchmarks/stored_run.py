"""What reads a stored run of as many ledgers as wanted: CPU seconds and memory of each command.

    .venv/bin/python -m benchmarks.stored_run --ledgers 1000000 [--bookies 40] [--keep DIR]

Two runs of one cluster are made by arithmetic, in the tables and files that a run on Spark writes.
One ledger in 1,000 was damaged, and its rows come from the checkers. All others are healthy: their
rows are those of one judged ledger, with their own ids, ensembles, lengths and last entries. The
product makes the summaries from these tables. `--keep` keeps the runs in a directory.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from auditor.clock import rfc3339, utc_now
from auditor.evidence import findings_file
from auditor.evidence.rows import (
    answer_row,
    bookie_row,
    expected_answer_row,
    ledger_row,
    read_row,
    table,
)
from auditor.evidence.run_directory import Place, place, write_json, write_ledger_files
from auditor.evidence.run_tables import KEPT, count_stored
from auditor.evidence.schemas import ANSWERS, BOOKIES, LEDGERS, MARKS, READS, VERDICTS
from auditor.findings.disks import EARLIER_BOOKIES
from auditor.first_checker.schedule import expected_list
from auditor.judging.settle import Todo, settle
from auditor.judging.verdict_rows import judge_to_row
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import LedgerEvidence, Look, Terms
from auditor.model.ledger import (
    DigestType,
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.report import text
from auditor.run.conclusion import conclude
from auditor.summary.about import About
from auditor.summary.previous_run import NO_PREVIOUS
from benchmarks import PROJECT, processes
from benchmarks.targets import Target

LEDGERS_DEFAULT, BOOKIES_DEFAULT = 1_000_000, 40
CPU_S_MAX, BYTES_MAX = 10.0, 2**30
"""What each command may take."""
SHARD_LEDGERS = 200_000
"""Ledgers of a shard, as a run has them by default."""
FILES_A_SHARD = 2
"""Files of metadata that a shard has: as many as tasks read it."""
ENSEMBLE, WRITE_QUORUM, ACK_QUORUM = 3, 2, 2
ENTRIES_MIN, SHAPES = 1_000, 100_000
PAYLOAD_BYTES = 8
DAMAGED_EVERY = 1_000
SPOT_READS = 500
"""Reads on each bookie that test its lists."""
NOW_MS = 1_790_000_000_000
CREATED_MS = NOW_MS - 30 * 86_400_000
TOTAL_BYTES = 2**40
TIMEOUT_S = 1_200.0
ANSWERED = (0, 1, 3)
"""Exit codes of an answer; any other means that there was none."""
FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
TERMS = Terms(
    judged_at_ms=NOW_MS,
    underreplication_grace_ms=72 * 3_600_000,
    confirming_reads_max=16,
    looks_max=5,
    spot_reads=SPOT_READS,
)
Ints = npt.NDArray[np.int64]


def bookie_id(number: int) -> str:
    return f"bookie-{number:03}.example:3181"


def ensembles_of(ids: Ints, bookies: int) -> Ints:
    """Return the numbers of each ledger's bookies, drawn without repetition: (n, ENSEMBLE)."""
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(29)
    chosen = np.zeros((len(ids), 0), np.int64)
    for place_number in range(ENSEMBLE):
        shift = np.uint64(16 * place_number)
        drawn = ((mixed >> shift) & np.uint64(0xFFFF)).astype(np.int64) % (bookies - place_number)
        for before in np.sort(chosen, axis=1).T:
            drawn += drawn >= before
        chosen = np.column_stack([chosen, drawn])
    return chosen


def last_entries_of(ids: Ints) -> Ints:
    return ENTRIES_MIN + ids % SHAPES


def is_damaged(ids: Ints, turn: int) -> npt.NDArray[np.bool_]:
    """Return which ledgers were damaged. The second run (`turn` 1) has other ones for a half."""
    moved = ids // DAMAGED_EVERY % 2 * turn
    return (ids + 1 + moved) % DAMAGED_EVERY == 0


def evidence_of(ledger_id: int, bookies: int, *, damaged: bool) -> LedgerEvidence:
    """Return the evidence of one ledger. The first bookie of a damaged one lists nothing of it, and
    has none of the entries that are then read.
    """
    numbers = ensembles_of(np.array([ledger_id]), bookies)[0].tolist()
    ensemble = tuple(map(bookie_id, numbers))
    last = int(last_entries_of(np.array([ledger_id]))[0])
    metadata = LedgerMetadata(
        format_version=3,
        state=LedgerState.CLOSED,
        ensemble_size=ENSEMBLE,
        write_quorum=WRITE_QUORUM,
        ack_quorum=ACK_QUORUM,
        last_entry_id=last,
        length=PAYLOAD_BYTES * (last + 1),
        segments=(Segment(0, ensemble),),
        digest_type=DigestType.CRC32C,
    )
    stamp = ZnodeStamp(ledger_id, 1, CREATED_MS, CREATED_MS)
    record = LedgerRecord(ledger_id, 1, NOW_MS, RecordStatus.FOUND, stamp, metadata)
    answers = {
        bookie: Answer(
            bookie, ledger_id, 1, NOW_MS, AnswerStatus.HELD, expected_list(metadata, bookie)
        )
        for bookie in ensemble
    }
    evidence = LedgerEvidence(ledger_id, (Look(record, answers),))
    if not damaged:
        return evidence
    lost = ensemble[0]
    first = Look(record, {**answers, lost: replace(answers[lost], groups=b"")})
    return _ask_until_settled(LedgerEvidence(ledger_id, (first,)), lost)


def _ask_until_settled(evidence: LedgerEvidence, lost: str) -> LedgerEvidence:
    """Answer what judging asks for: the bookie `lost` has no entry, the others have all."""
    while (step := settle(evidence, TERMS)).todo is not Todo.NOTHING:
        *before, look = evidence.looks
        number = look.record.look
        if step.todo is Todo.READS:
            status = {True: ReadStatus.NO_ENTRY, False: ReadStatus.PRESENT}
            made = {
                (bookie, entry): EntryRead(
                    *(bookie, evidence.ledger_id, entry, number, NOW_MS, status[bookie == lost])
                )
                for bookie, entry in step.reads
            }
            look = replace(look, reads={**look.reads, **made})
        elif step.todo is Todo.LISTS:
            first = evidence.looks[0].answers
            answers = {bookie: replace(one, look=number) for bookie, one in first.items()}
            look = replace(look, answers=answers)
        else:
            before.append(look)
            look = Look(replace(look.record, look=number + 1))
        evidence = LedgerEvidence(evidence.ledger_id, (*before, look))
    return evidence


def write_run(run: Place, ledgers: int, bookies: int, turn: int) -> None:
    """Write the tables of one run: those of a shard, then those of the next."""
    for number, start in enumerate(range(0, ledgers, SHARD_LEDGERS)):
        ids = np.arange(start, min(start + SHARD_LEDGERS, ledgers))
        run.write_table("evidence/listing", pa.table({"ledger_id": ids}), f"part-{number}")
        damaged = ids[is_damaged(ids, turn)]
        _write_healthy(run, ids[~is_damaged(ids, turn)], bookies, number)
        # At the first look, metadata and answers of the damaged are among those of the others.
        _write_damaged(run, damaged, bookies, number)
    _write_spots(run, ledgers, bookies)
    run.write_table("evidence/marks", table(MARKS, []), "all")
    seen = records(bookies)
    run.write_table("evidence/bookies", table(BOOKIES, map(bookie_row, seen)), "all")
    # The first bookie's disks were larger: it has a finding too.
    before = bookie_row(replace(seen[0], total_bytes=2 * TOTAL_BYTES))
    run.write_table(EARLIER_BOOKIES, table(BOOKIES, [before]), "all")


def records(bookies: int) -> list[BookieRecord]:
    """Return each bookie at both looks, with room on its disks."""
    return [
        BookieRecord(
            bookie_id(number),
            look,
            NOW_MS,
            Registration.WRITABLE,
            f"bookie-{number:03}.example",
            3181,
            True,
            "",
            Greeting.ANSWERED,
            total_bytes=TOTAL_BYTES,
            free_bytes=TOTAL_BYTES // 2,
        )
        for look in (1, 2)
        for number in range(bookies)
    ]


def _write_healthy(run: Place, ids: Ints, bookies: int, shard: int) -> None:
    one = evidence_of(int(ids[0]), bookies, damaged=False)
    numbers, last = ensembles_of(ids, bookies), last_entries_of(ids)
    names = pa.array([bookie_id(number) for number in range(bookies)])
    segments = _segments(names, numbers)
    metadata = repeated(
        LEDGERS,
        ledger_row(one.looks[0].record),
        {
            "ledger_id": pa.array(ids),
            "czxid": pa.array(ids),
            "last_entry_id": pa.array(last),
            "length_bytes": pa.array(PAYLOAD_BYTES * (last + 1)),
            "segments": segments,
        },
    )
    size = -(-len(ids) // FILES_A_SHARD)
    for part in range(FILES_A_SHARD):
        rows = metadata.slice(part * size, size)
        run.write_table("evidence/ledgers", rows, f"part-{shard}-{part}")
    answer = expected_answer_row(next(iter(one.looks[0].answers.values())), is_kept=False)
    owners = {
        "ledger_id": pa.array(np.repeat(ids, ENSEMBLE)),
        "bookie_id": names.take(pa.array(numbers.ravel())),
    }
    run.write_table("evidence/answers", repeated(ANSWERS, answer, owners), f"part-{shard}")
    copies = pa.array(WRITE_QUORUM * (last + 1))
    counted = {"copies_expected": copies, "copies_listed": copies}
    verdict = judge_to_row(one, TERMS, FACTS)[1]
    cells = {"ledger_id": pa.array(ids), **counted}
    run.write_table("verdicts", repeated(VERDICTS, verdict, cells), f"part-{shard}")


def _segments(names: pa.Array, numbers: Ints) -> pa.Array:
    """Return one segment for each row of `numbers`, from entry 0 on."""
    kind = LEDGERS.field("segments").type
    count = np.arange(len(numbers) + 1, dtype=np.int32)
    ensembles = pa.ListArray.from_arrays(count * ENSEMBLE, names.take(pa.array(numbers.ravel())))
    firsts = pa.array(np.zeros(len(numbers), np.int64))
    structs = pa.StructArray.from_arrays([firsts, ensembles], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(count, structs).cast(kind)


def repeated(schema: pa.Schema, row: Sequence[object], cells: Mapping[str, pa.Array]) -> pa.Table:
    """Return a row, repeated for the cells in which the rows differ."""
    count = len(next(iter(cells.values())))
    same = table(schema, [tuple(row)]).take(pa.array(np.zeros(count, np.int64)))
    columns = [cells[name] if name in cells else same[name] for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def _write_damaged(run: Place, ids: Ints, bookies: int, shard: int) -> None:
    found = [evidence_of(ledger_id, bookies, damaged=True) for ledger_id in ids.tolist()]
    looks = [look for one in found for look in one.looks]
    tables = {
        "evidence/ledgers": table(LEDGERS, [ledger_row(look.record) for look in looks]),
        "evidence/answers": table(
            ANSWERS, [answer_row(one) for look in looks for one in look.answers.values()]
        ),
        "evidence/reads": table(
            READS, [read_row(read) for look in looks for read in look.reads.values()]
        ),
        "verdicts": table(VERDICTS, [judge_to_row(one, TERMS, FACTS)[1] for one in found]),
    }
    for name, rows in tables.items():
        run.write_table(name, rows, f"damaged-{shard}")


def _write_spots(run: Place, ledgers: int, bookies: int) -> None:
    """Write reads that found the entry, SPOT_READS on each bookie."""
    step = max(1, ledgers // (SPOT_READS * bookies))
    ids = np.arange(0, ledgers, step)[: SPOT_READS * bookies]
    numbers = ensembles_of(ids, bookies)[:, 0]
    read = EntryRead("", 0, 0, 1, NOW_MS, ReadStatus.PRESENT, is_spot=True)
    names = pa.array([bookie_id(number) for number in range(bookies)])
    cells = {"ledger_id": pa.array(ids), "bookie_id": names.take(pa.array(numbers))}
    run.write_table("evidence/reads", repeated(READS, read_row(read), cells), "spots")


def finish_run(run: Place, bookies: int, about: About) -> None:
    """Write what the end of a run writes, summary.json last."""
    write_json(run, "run.json", about.as_json())
    done = conclude(
        run,
        about,
        records(bookies),
        NO_PREVIOUS,
        verdicts=run.scan("verdicts", VERDICTS),
        finished_at=rfc3339(utc_now()),
        duration_s={},
    )
    stored = count_stored(run.file_sizes(*KEPT))
    summary = replace(done.summary, stored=stored).with_also("stored")
    run.write_text("findings.jsonl", findings_file.text(done.findings))
    write_ledger_files(run, done.ledger_files)
    report = text.render(summary, done.findings, run_dir=run.address)
    run.write_text("report.txt", report)
    write_json(run, "summary.json", summary.as_json())


def make_runs(output: Path, ledgers: int, bookies: int) -> list[Path]:
    """Make two finished runs of one cluster, the earlier first."""
    made = []
    for turn in range(2):
        run_id = f"2026010{turn + 1}T030000Z-00000{turn}"
        directory = output / f"run-{run_id}"
        made.append(directory)
        if (directory / "summary.json").exists():
            continue
        run = place(str(directory))
        write_run(run, ledgers, bookies, turn)
        about = About(run_id, rfc3339(utc_now()), FACTS, TERMS, "warning", False)
        began = process_time()
        finish_run(run, bookies, about)
        print(f"the end of run {turn + 1}: {process_time() - began:.1f} CPU s", flush=True)
    (output / "latest.json").write_text(json.dumps({"run": made[-1].name}))
    return made


def commands_of(runs: Sequence[Path], ledgers: int, scratch: Path) -> dict[str, list[str]]:
    """Return the arguments of each command by its name."""
    earlier, later = map(str, runs)
    sound, damaged = str(ledgers // 2), str(ledgers // 2 - 1)
    first = bookie_id(0)
    flags = [part for number in range(3) for part in ("--without", bookie_id(number))]
    return {
        "status": ["status", str(runs[0].parent)],
        "report": ["report", later],
        "report --full": ["report", later, "--full"],
        "explain a sound ledger": ["explain", sound, later],
        "explain a damaged ledger": ["explain", damaged, later],
        "explain a bookie": ["explain", first, later],
        "diff": ["diff", earlier, later],
        "margin": ["margin", later],
        "margin without one": ["margin", later, "--without", first],
        "margin without three": ["margin", later, *flags],
        "page": ["report", later, "--html", str(scratch / "page.html")],
        "bundle": ["bundle", later, damaged, "--file", str(scratch / "bundle.tar.gz")],
    }


def targets(
    scratch: Path, ledgers: int, bookies: int, kept: Path | None = None
) -> Iterator[Target]:
    """Measure each command as a process of its own."""
    output = kept or scratch / "audits"
    runs = make_runs(output, ledgers, bookies)
    for name, arguments in commands_of(runs, ledgers, scratch).items():
        used = processes.run([sys.executable, "-m", "auditor", *arguments], PROJECT, TIMEOUT_S)
        if used.code not in ANSWERED:
            raise RuntimeError(f"auditor {name} ended with {used.code}: {used.said[-3000:]}")
        peak = max(used.peaks_bytes.values())
        yield Target(
            f"auditor {name}: {ledgers:,} ledgers within {CPU_S_MAX:g} CPU seconds and 1 GiB",
            used.cpu_s <= CPU_S_MAX and peak <= BYTES_MAX,
            (f"{used.cpu_s:.1f} CPU s, {used.wall_s:.1f} s, {peak / 2**20:,.0f} MiB",),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ledgers", type=int, default=LEDGERS_DEFAULT)
    parser.add_argument("--bookies", type=int, default=BOOKIES_DEFAULT)
    parser.add_argument("--keep", type=Path, help="keep the runs in this directory")
    chosen = parser.parse_args(arguments)
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for target in targets(Path(scratch), chosen.ledgers, chosen.bookies, chosen.keep):
            print(target, flush=True)
            missed += not target.met
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
