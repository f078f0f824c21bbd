"""Every copy on real bookies is read within the period: rot is found in time, and what was not read
is overdue.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit
from support.real_cluster import RealCluster

from auditor.model.finding import Kind

pytestmark = [pytest.mark.real, pytest.mark.long]

LEDGER, ROTTEN, ENTRIES = 7, 8, 1_000
ENTRY = 613
"""The entry of ROTTEN with a flipped bit on b1."""
LENGTH_FIELD_END = 31
"""The last byte of the ledger's length in an entry: its digest covers it."""


def flip_a_bit(directory: Path, ledger_id: int, entry_id: int) -> None:
    """Change one bit of an entry in the bookie's entry logs."""
    wanted = struct.pack(">qq", ledger_id, entry_id)
    for path in directory.rglob("current/*.log"):
        content = bytearray(path.read_bytes())
        at = content.find(wanted)
        if at >= 0:
            content[at + LENGTH_FIELD_END] ^= 1
            path.write_bytes(bytes(content))
            return
    raise AssertionError(f"no entry log has entry {entry_id} of ledger {ledger_id}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield two SortedLedgerStorage bookies with two ledgers, of which b1 has a bit flipped."""
    with RealCluster(tmp_path_factory.mktemp("rot"), bookies=2) as made:
        for ledger_id in (LEDGER, ROTTEN):
            made.place(ledger_id, made.ledger(f"e2 w2 a2 0:[b1 b2] closed {ENTRIES - 1}"))
        directory = made.end_bookie("b1")
        for path in (*directory.rglob("*.txn"), *directory.rglob("lastMark*")):
            path.unlink()
        flip_a_bit(directory, ROTTEN, ENTRY)
        made.start_bookie("b1")
        yield made


def night(
    cluster: RealCluster, output: Path, day: int, patch: pytest.MonkeyPatch, rate: str
) -> Outcome:
    """Run an audit that begins so many days from now."""
    at = datetime.now(UTC) + timedelta(days=day)
    patch.setattr("auditor.run.run.utc_now", lambda: at)
    return accounted(
        audit(cluster, output, spot_reads="20", doubt_reads="0", verify_bytes_per_second=rate)
    )


def test_a_flipped_bit_is_found_within_the_period(
    cluster: RealCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both bookies list every entry, and the other ledger stays sound."""
    for day in range(0, 31, 6):
        outcome = night(cluster, tmp_path, day, monkeypatch, "1MiB")
        if outcome.findings:
            break
    found = outcome.one(ROTTEN)
    assert (Kind.ENTRY_CORRUPT.value, [[ENTRY, ENTRY]]) == (found["kind"], found["entries"])
    assert [Kind.BOOKIE_UNREADABLE_ENTRIES.value] == [one["kind"] for one in outcome.of("b1")]
    assert ["sound"] == outcome.standings(LEDGER)
    assert 2 == len(outcome.findings)


def test_what_was_not_read_within_the_period_is_overdue(
    cluster: RealCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day before the period ends nothing is."""
    night(cluster, tmp_path, 0, monkeypatch, "0")
    for day, kinds in ((29, []), (31, [Kind.VERIFICATION_OVERDUE])):
        outcome = night(cluster, tmp_path, day, monkeypatch, "0")
        assert kinds == [kind for kind in outcome.kinds if kind is Kind.VERIFICATION_OVERDUE]
    counts = outcome.summary["verification"]["counts"]
    assert 4 * ENTRIES == counts["copies"]
    assert 0 < counts["overdue"] < counts["copies"]
