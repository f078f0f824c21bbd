"""Open ledgers whose recovery would be blocked, from the written metadata and bookie records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import LEDGERS
from auditor.findings.open_ledgers import BlockedLedgers, blocked_open
from auditor.model.availability import NOT_DIALLED, Greeting
from auditor.model.cluster import BookieLook, BookieRecord, Registration
from auditor.model.codec import encode
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger

NOBODY: frozenset[str] = frozenset()


def record(bookie: str, greeting: Greeting | None, detail: str = "") -> BookieRecord:
    registration = Registration.WRITABLE
    if greeting is Greeting.UNREGISTERED:
        registration = Registration.NONE
    return BookieRecord(bookie, 1, 0, registration, greeting=greeting, greeting_detail=detail)


def look_at(**greetings: Greeting | None) -> BookieLook:
    return {bookie: record(bookie, greeting) for bookie, greeting in greetings.items()}


ANSWERED, SILENT, UNREGISTERED = Greeting.ANSWERED, Greeting.SILENT, Greeting.UNREGISTERED
AWAY = look_at(b1=ANSWERED, b2=ANSWERED, b3=UNREGISTERED)
BACK = look_at(b1=ANSWERED, b2=ANSWERED, b3=ANSWERED)
MUTE = look_at(b1=ANSWERED, b2=ANSWERED, b3=SILENT)


def read(ledger_id: int, text: str, look: int = 1) -> LedgerRecord:
    return LedgerRecord(
        ledger_id, look, 0, RecordStatus.FOUND, ZnodeStamp(1, look, 0), metadata=ledger(text)
    )


@pytest.fixture
def run(tmp_path: Path) -> Place:
    return place(str(tmp_path / "run-20260101T030000Z-000001"))


def find(
    run: Place,
    *records: LedgerRecord,
    looks: tuple[BookieLook, ...] = (AWAY, AWAY),
    maintenance: frozenset[str] = NOBODY,
) -> BlockedLedgers:
    run.write_table("evidence/ledgers", table(LEDGERS, map(ledger_row, records)), "all")
    return blocked_open(run, looks, maintenance)


@pytest.mark.parametrize(
    ("text", "is_blocked"),
    [
        ("e2 w2 a1 0:[b1 b3] open", True),
        ("e3 w2 a1 0:[b1 b2 b3] open", True),
        ("e1 w1 a1 0:[b1] 5:[b3] open", True),
        ("e2 w2 a2 0:[b3 b4] open", True),
        ("e3 w2 a2 0:[b3 b4 b1] open", True),
        ("e4 w2 a2 0:[b3 b1 b4 b2] open", False),
        ("e2 w2 a2 0:[b1 b3] open", False),
        ("e1 w1 a1 0:[b3] 5:[b1] open", False),
        ("e2 w2 a1 0:[b1 b2] open", False),
        ("e2 w2 a1 0:[b1 b3] in_recovery", False),
        ("e2 w2 a1 0:[b1 b3] closed 9", False),
    ],
)
def test_an_open_ledger_is_blocked_as_one_in_recovery_would_be(
    run: Place, text: str, is_blocked: bool
) -> None:
    """b3 is not registered, b4 has neither a registration nor a cookie. The quorums of the last
    ensemble decide.
    """
    assert ([7] if is_blocked else []) == find(run, read(7, text)).ledgers.tolist()


@pytest.mark.parametrize(
    ("looks", "is_blocked"),
    [
        ((AWAY, AWAY), True),
        ((AWAY, BACK), False),
        ((BACK, AWAY), False),
        ((AWAY, AWAY, BACK), False),
        ((MUTE, MUTE), True),
        ((MUTE, AWAY), True),
        ((look_at(b1=SILENT, b3=SILENT), MUTE), False),
        ((look_at(b1=UNREGISTERED, b3=SILENT), MUTE), False),
        ((look_at(b1=ANSWERED, b3=None), AWAY), False),
        ((look_at(b1=ANSWERED, b3=Greeting.REFUSED), AWAY), False),
        ((look_at(b1=ANSWERED, b3=Greeting.ADDRESS_UNKNOWN), AWAY), False),
        ((AWAY, {"b1": AWAY["b1"], "b3": record("b3", SILENT, f"{NOT_DIALLED}: no KDC")}), False),
    ],
)
def test_a_bookie_blocks_that_is_unknown_at_each_look(
    run: Place, looks: tuple[BookieLook, ...], is_blocked: bool
) -> None:
    """It is not registered, or it is silent while another bookie of the ensemble answers. One that
    refuses us may answer others.
    """
    found = find(run, read(7, "e2 w2 a1 0:[b1 b3] open"), looks=looks)
    assert encode(found.counts) == {
        "ledgers": int(is_blocked),
        "some": [7] if is_blocked else [],
        "bookies": ["b3"] if is_blocked else [],
    }


def test_a_bookie_in_maintenance_blocks_nothing(run: Place) -> None:
    """The operator has said that it is down and comes back."""
    assert {} == find(run, read(7, BLOCKED), maintenance=frozenset({"b3"})).files


BLOCKED, FREE = "e2 w2 a1 0:[b1 b3] open", "e2 w2 a1 0:[b1 b3] 5:[b1 b2] open"


@pytest.mark.parametrize(
    ("second", "is_blocked"),
    [
        (read(7, FREE, 2), False),
        (read(7, "e2 w2 a1 0:[b1 b3] closed 4", 2), False),
        (LedgerRecord(7, 2, 0, RecordStatus.GONE), False),
        (LedgerRecord(7, 2, 0, RecordStatus.UNREADABLE), True),
        (read(7, BLOCKED, 2), True),
    ],
)
def test_the_newest_metadata_that_was_read_decides(
    run: Place, second: LedgerRecord, is_blocked: bool
) -> None:
    """A read that failed says nothing against the one before it."""
    assert is_blocked is (len(find(run, second, read(7, BLOCKED)).ledgers) == 1)


def test_metadata_that_contradicts_itself_is_not_judged(run: Place) -> None:
    """It has a finding of its own, in recovery too."""
    odd = read(7, BLOCKED)
    assert odd.metadata is not None
    segments = (replace(odd.metadata.segments[0], first_entry_id=3),)
    odd = replace(odd, metadata=replace(odd.metadata, segments=segments))
    assert [] == find(run, odd).ledgers.tolist()


def test_one_look_shows_that_none_is_blocked_and_no_more(run: Place) -> None:
    """What one look finds blocked is not known to be."""
    one = find(run, read(7, BLOCKED), read(8, FREE), looks=(AWAY,))
    assert (None, {}) == (one.counts, one.files)
    none = blocked_open(run, (BACK,), NOBODY)
    assert {"ledgers": 0, "some": [], "bookies": []} == encode(none.counts)


def test_all_are_in_the_file_and_three_in_the_summary(run: Place) -> None:
    """The file has them in order, whatever the order of the rows."""
    found = find(run, *(read(n, BLOCKED) for n in (9, 3, 5, 7)), read(4, FREE))
    assert {"ledgers": 4, "some": [3, 5, 7], "bookies": ["b3"]} == encode(found.counts)
    assert {"open/recovery_would_be_blocked.txt": [3, 5, 7, 9]} == {
        name: ids.tolist() for name, ids in found.files.items()
    }


def test_no_ledger_at_all_is_a_zero(run: Place) -> None:
    """Nor does an empty table keep it from being known."""
    assert 0 == encode(find(run).counts)["ledgers"]
