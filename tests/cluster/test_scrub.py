"""Rot in the entry logs of real bookies: a scrub beside each finds it in one pass, and the next run
says what it is. On SortedLedgerStorage, InterleavedLedgerStorage and DbLedgerStorage.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow.dataset as ds
import pytest
from support.audits import Outcome, accounted, audit
from support.entry_logs import flip_bit
from support.listers import lister_command
from support.real_cluster import RealCluster

from auditor.lister.scrub_process import STATE_FILE, read_report
from auditor.model.finding import Kind
from auditor.model.scrub import ScrubReport
from auditor.wire.entry_log import LOG_HEADER_BYTES, Record, split_records

pytestmark = [pytest.mark.real, pytest.mark.long]

STORAGES = {
    "b1": "SortedLedgerStorage",
    "b2": "InterleavedLedgerStorage",
    "b3": "DbLedgerStorage",
}
BATCHES, LEDGERS, ENTRIES = 4, 3, 200
LOG_BYTES = 20_000
"""A bookie begins a new log after so many bytes: after each batch of ledgers, at least."""
SETTINGS = {"logSizeLimit": LOG_BYTES, "flushInterval": 500}
WAIT_S = 120.0


@dataclass(frozen=True)
class Rot:
    """What was done to the logs of one bookie: copies that cannot be read now, by damage.

    `records` are left, whole or with a flipped bit.
    """

    records: int
    flipped: set[tuple[int, int]]
    cut: set[tuple[int, int]]
    swapped: set[tuple[int, int]]

    def damages(self) -> Mapping[str, set[tuple[int, int]]]:
        return {"flipped": self.flipped, "cut": self.cut, "swapped": self.swapped}


def await_true(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def logs_of(cluster: RealCluster, bookie: str) -> list[Path]:
    """Return the logs of a bookie that have a record, in their order."""
    current = cluster.directory(bookie) / "ledgers" / "current"
    found = {int(path.stem, 16): path for path in current.glob("*.log")}
    return [found[n] for n in sorted(found) if found[n].stat().st_size > LOG_HEADER_BYTES]


def records_of(log: Path) -> list[Record]:
    split = split_records(log.read_bytes()[LOG_HEADER_BYTES:], LOG_HEADER_BYTES)
    assert not split.is_broken, log
    return [record for record in split.records if record.ledger_id >= 0]


def ids_of(records: list[Record]) -> set[tuple[int, int]]:
    return {(record.ledger_id, record.entry_id) for record in records}


def end_and_forget_journal(cluster: RealCluster, bookie: str) -> None:
    """End a bookie in an orderly way, and keep its next start from rewriting everything from the
    journal. Its next start begins a new log.
    """
    directory = cluster.end_bookie(bookie)
    for path in (*directory.rglob("*.txn"), *directory.rglob("lastMark*")):
        path.unlink()


def rot(cluster: RealCluster, bookie: str) -> Rot:
    """Flip a bit in the first log, cut the second one, and swap the third for the fourth."""
    logs = logs_of(cluster, bookie)
    count = sum(len(records_of(log)) for log in logs)
    flipped, cut, one, other = logs[:4]
    records = records_of(flipped)
    flip_bit(flipped, records[len(records) // 2].position + 40)
    kept = records_of(cut)
    half = len(kept) // 2
    os.truncate(cut, kept[half].position + 10)
    swapped = ids_of(records_of(one)) | ids_of(records_of(other))
    aside = one.with_suffix(".aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)
    middle = records[len(records) // 2]
    left = count - len(kept[half:])
    return Rot(left, {(middle.ledger_id, middle.entry_id)}, ids_of(kept[half:]), swapped)


@dataclass(frozen=True)
class Scrubbed:
    """A run after one pass of each bookie's scrub over rotten logs."""

    rot: Mapping[str, Rot]
    reports: Mapping[str, ScrubReport]
    outcome: Outcome

    def reads(self) -> list[dict[str, Any]]:
        assert self.outcome.run_dir is not None
        found = ds.dataset(self.outcome.run_dir / "evidence" / "reads").to_table().to_pylist()
        return cast("list[dict[str, Any]]", found)

    def said(self, bookie: str) -> dict[tuple[int, int], set[str]]:
        """Return the statuses of the reads, at any look, of copies that a bookie's scrub named.

        Some were read before for another reason, and not once more.
        """
        named = {one[:2] for one in self.reports[bookie].candidates}
        found: dict[tuple[int, int], set[str]] = {}
        for row in self.reads():
            copy = row["ledger_id"], row["entry_id"]
            if row["bookie_id"] == bookie and copy in named:
                found.setdefault(copy, set()).add(row["status"])
        return found


def ledgers_of(number: int, batch: int) -> list[int]:
    return [100 * (number + 1) + 10 * batch + ledger for ledger in range(LEDGERS)]


def fill_logs(cluster: RealCluster) -> None:
    """Write ledgers of one bookie each, so that each bookie has BATCHES logs or more."""
    for batch in range(BATCHES):
        for number, bookie in enumerate(STORAGES):
            for ledger_id in ledgers_of(number, batch):
                metadata = cluster.ledger(f"e1 w1 a1 0:[{bookie}] closed {ENTRIES - 1}")
                cluster.place(ledger_id, metadata)
        end_and_forget_journal(cluster, "b1")  # its memtable reaches no log before
        cluster.start_bookie("b1")


@pytest.fixture(scope="module")
def scrubbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrubbed]:
    home = tmp_path_factory.mktemp("scrub")
    storages = tuple(STORAGES.values())
    with RealCluster(home / "cluster", bookies=3, storage=storages, settings=SETTINGS) as cluster:
        fill_logs(cluster)
        for bookie in STORAGES:
            end_and_forget_journal(cluster, bookie)
        rotten = {bookie: rot(cluster, bookie) for bookie in STORAGES}
        for bookie in STORAGES:
            cluster.start_bookie(bookie)
        yield scrub_and_audit(cluster, home, rotten)


def report_in(own: Path) -> ScrubReport | None:
    """Return the report of whatever bookie has this directory; None before the first."""
    try:
        key = json.loads((own / STATE_FILE).read_bytes())["key"]
    except FileNotFoundError:
        return None
    return read_report(own, key)


def scrub_and_audit(cluster: RealCluster, home: Path, rotten: Mapping[str, Rot]) -> Scrubbed:
    """Let a scrub beside each bookie make one pass, and audit without any other spot read."""
    reports: dict[str, ScrubReport] = {}
    with ExitStack() as stack:
        lines = []
        for bookie in STORAGES:
            own = home / f"scrub-{bookie}"
            where = stack.enter_context(
                lister_command(
                    *("--bookkeeper-conf", str(cluster.directory(bookie) / "bookie.conf")),
                    *("--scrub", str(own), "--scrub-bytes-per-second", "0"),
                )
            )
            lines.append(f"{bookie} {where}\n")
        for bookie in STORAGES:
            own = home / f"scrub-{bookie}"
            await_true(
                lambda d=own: (r := report_in(d)) is not None and r.finished is not None,
                f"no pass over {bookie} ended",
            )
            report = report_in(own)
            assert report is not None
            reports[bookie] = report
        (home / "listers").write_text("".join(lines))
        outcome = audit(cluster, home / "out", lister_map=str(home / "listers"), spot_reads="0")
    return Scrubbed(rotten, reports, accounted(outcome))


@pytest.mark.parametrize("bookie", STORAGES)
def test_one_pass_names_each_damage(scrubbed: Scrubbed, bookie: str) -> None:
    """It reads everything else, and finds its digests right."""
    report = scrubbed.reports[bookie]
    named = {(one.ledger_id, one.entry_id) for one in report.candidates}
    for damage, copies in scrubbed.rot[bookie].damages().items():
        assert named & copies, damage
    assert report.finished is not None
    count = scrubbed.rot[bookie].records
    assert (count, count - 1, 1, 0) == (
        report.finished.entries, report.finished.verified,
        report.finished.failed, report.finished.unchecked,
    )  # fmt: skip


@pytest.mark.parametrize("bookie", STORAGES)
def test_the_bookie_itself_fails_to_send_what_rotted(scrubbed: Scrubbed, bookie: str) -> None:
    """A copy with a flipped bit comes with a wrong digest, the others end in an error. All other
    copies that were named are there: nothing is reported of them.
    """
    reads = scrubbed.said(bookie)
    rotten = scrubbed.rot[bookie]
    for damage, copies in rotten.damages().items():
        said = [reads[copy] for copy in copies if copy in reads]
        status = "corrupt" if damage == "flipped" else "failed"
        assert said and all(one == {status} for one in said), (damage, said)
    others = reads.keys() - rotten.flipped - rotten.cut - rotten.swapped
    assert all(reads[copy] == {"present"} for copy in others)


@pytest.mark.parametrize("bookie", STORAGES)
def test_the_run_reports_the_bookie_and_its_ledgers(scrubbed: Scrubbed, bookie: str) -> None:
    """Nothing was drawn at random: no share of all that it holds is claimed."""
    found = scrubbed.outcome.one(bookie)
    assert Kind.BOOKIE_UNREADABLE_ENTRIES.value == found["kind"]
    assert found["facts"]["share_min"] is None
    rotten = scrubbed.rot[bookie]
    assert {tuple(copy) for copy in found["facts"]["some"]} <= (
        rotten.flipped | rotten.cut | rotten.swapped
    )


def test_reads_that_scrubs_named_are_counted_apart(scrubbed: Scrubbed) -> None:
    requests = scrubbed.outcome.summary["requests"]
    named = sum(row["is_named"] for row in scrubbed.reads())
    assert 0 < named
    assert (named, 0) == (requests["scrub_reads"], requests["spot_reads"])
    assert "scrubs of listers named" in " ".join(scrubbed.outcome.stdout.split())


def test_scrubs_without_lists_are_no_silent_listers(scrubbed: Scrubbed) -> None:
    """The bookies that list were asked themselves."""
    assert ([], []) == (
        scrubbed.outcome.summary["listers"]["silent"],
        scrubbed.outcome.summary["listers"]["not_believed"],
    )
    assert 1 == scrubbed.outcome.summary["listers"]["listed"]


COLLECTING = {
    **SETTINGS,
    "gcWaitTime": 500,
    "gcOverreplicatedLedgerWaitTime": 0,
    "minorCompactionInterval": 1,
    "majorCompactionInterval": 2,
    "minorCompactionThreshold": 0.8,
    "majorCompactionThreshold": 0.9,
}


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrubbed]:
    """Yield a run beside bookies that collected a ledger of each batch, and wrote the others of its
    log again. They go on to do so.
    """
    home = tmp_path_factory.mktemp("compacted")
    storages = tuple(STORAGES.values())
    with RealCluster(home / "cluster", bookies=3, storage=storages, settings=COLLECTING) as cluster:
        fill_logs(cluster)
        first = {bookie: logs_of(cluster, bookie)[0] for bookie in STORAGES}
        for number in range(len(STORAGES)):
            for batch in range(BATCHES):
                cluster.delete_ledger(ledgers_of(number, batch)[1])
        for bookie, log in first.items():
            await_true(lambda path=log: not path.exists(), f"{bookie} compacted no log")
        yield scrub_and_audit(cluster, home, {})


def test_of_undamaged_bookies_that_compact_nothing_is_said(compacted: Scrubbed) -> None:
    """Logs come and go while they are read, and hold records of deleted ledgers."""
    for bookie, report in compacted.reports.items():
        assert report.finished is not None
        assert (0, 0, 0, 0) == (
            report.finished.failed, report.finished.unchecked,
            report.finished.damaged_logs, report.finished.unlisted,
        ), bookie  # fmt: skip
        assert all(said == {"present"} for said in compacted.said(bookie).values())
    assert ([], 0) == (compacted.outcome.findings, compacted.outcome.exit_code)
