"""What rests on the word of bookies in doubt, compared with a count copy by copy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from support.entry_by_entry import expected_on

from auditor.evidence.rows import answer_row, greeting_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS, VERDICTS
from auditor.findings.doubt import Doubt, doubt_of
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.identity import LEDGER_ID_MAX
from auditor.model.ledger import LedgerMetadata, LedgerRecord, RecordStatus
from auditor.sandbox.cluster import ledger
from auditor.summary.carried import CARRIED, CARRIED_TABLE

BOOKIES = tuple(f"b{number}" for number in range(1, 7))
SHAPES = (
    "e3 w2 a2 0:[b1 b2 b3] closed 29",
    "e3 w2 a2 0:[b4 b2 b6] closed 7",
    "e5 w3 a2 0:[b1 b2 b3 b4 b5] 17:[b1 b6 b3 b4 b5] closed 39",
    "e3 w2 a2 0:[b1 b2 b1] closed 9",
    "e1 w1 a1 0:[b5] closed 0",
    "e2 w2 a2 0:[b1 b2] open",
)
STATUSES = (
    ReadStatus.PRESENT,
    ReadStatus.PRESENT,
    ReadStatus.NO_ENTRY,
    ReadStatus.SILENT,
    ReadStatus.CORRUPT,
)
SENT = {ReadStatus.PRESENT, ReadStatus.CORRUPT}


class Drawn:
    """A drawn run: the newest metadata of each ledger, and what was said of it."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        first = dice.choice([0, LEDGER_ID_MAX - 1_000])
        self.ids = sorted(first + one for one in dice.sample(range(1_000), dice.randint(1, 40)))
        self.newest: dict[int, LedgerMetadata] = {}
        self.records: list[LedgerRecord] = []
        for one in self.ids:
            for look in range(1, dice.randint(1, 3) + 1):
                metadata = ledger(dice.choice(SHAPES)) if dice.random() < 0.9 else None
                status = RecordStatus.GONE if metadata is None else RecordStatus.FOUND
                self.records.append(LedgerRecord(one, look, 0, status, metadata=metadata))
                if metadata is not None:
                    self.newest[one] = metadata
        self.answers = [
            Answer(bookie, one, look, 0, dice.choice([AnswerStatus.HELD, AnswerStatus.SILENT]))
            for one in self.ids
            for bookie in BOOKIES
            for look in (1, 2)
            if dice.random() < 0.5
        ]
        self.reads = [
            EntryRead(
                dice.choice(BOOKIES),
                *(dice.choice(self.ids), dice.randint(-1, 40), dice.randint(1, 2), 0),
                dice.choice(STATUSES),
                is_search=dice.random() < 0.1,
            )
            for _ in range(dice.randint(0, 200))
        ]
        again = dice.sample(self.reads, len(self.reads) // 3)
        self.reads += [replace(one, look=3, status=ReadStatus.PRESENT) for one in again]
        self.carried = {one for one in self.ids if dice.random() < 0.1}
        self.judged = {one for one in self.ids if dice.random() < 0.8}
        self.lacks = {
            one: {bookie: dice.randint(1, 5) for bookie in dice.sample(BOOKIES[:4], 2)}
            for one in self.ids
            if dice.random() < 0.2
        }

    def write(self, run: Place) -> None:
        """Write it into several files of each table."""
        greetings = [greeting_row(one, 1, 0, Greeting.ANSWERED, "", 1) for one in BOOKIES]
        for number in range(2):
            for name, schema, rows in (
                ("ledgers", LEDGERS, [*map(ledger_row, self.records)]),
                ("answers", ANSWERS, [*greetings, *map(answer_row, self.answers)]),
                ("reads", READS, [*map(read_row, self.reads)]),
            ):
                run.write_table(f"evidence/{name}", table(schema, rows[number::2]), str(number))
            verdicts = [*map(self.verdict, self.ids[number::2])]
            run.write_table("verdicts", pa.Table.from_pylist(verdicts, VERDICTS), str(number))
        carried: dict[str, Any] = dict.fromkeys(CARRIED.names)
        cells = [{**carried, "ledger_id": one} for one in sorted(self.carried)]
        run.write_table(CARRIED_TABLE, pa.Table.from_pylist(cells, CARRIED), "all")

    def verdict(self, one: int) -> dict[str, Any]:
        """Return the row of a ledger."""
        lacks = [
            {"bookie_id": bookie, "expected": 9, "absent": absent}
            for bookie, absent in self.lacks.get(one, {}).items()
        ]
        standing = "violated" if lacks else "sound" if one in self.judged else "exempt"
        return {
            "ledger_id": one,
            "standing": standing,
            "lacks": lacks or None,
            "copies_expected": 1 if one in self.judged or lacks else None,
        }

    def doubt(self, unreadable: set[str]) -> Doubt:
        """Return what rests on bookies in doubt, copy by copy."""
        doubted = unreadable.union(*(one.keys() for one in self.lacks.values()))
        counted = self.judged | self.lacks.keys()
        listed = {
            (one.ledger_id, one.bookie_id)
            for one in self.answers
            if one.status is AnswerStatus.HELD and one.ledger_id in counted
        }
        by_bookie, due, read = Counter[str](), 0, 0
        for one, metadata in self.newest.items():
            for bookie, entries in expected_on(metadata).items():
                is_listed = (one, bookie) in listed or one in self.carried & counted
                if bookie not in doubted or not is_listed or metadata.last_entry_id is None:
                    continue
                sent = {
                    said.entry_id
                    for said in self.reads
                    if (said.bookie_id, said.ledger_id) == (bookie, one)
                    and (said.status in SENT and not said.is_search)
                    and 0 <= said.entry_id <= metadata.last_entry_id
                }
                due, read = due + len(set(entries)), read + len(sent)
                rest = len(set(entries)) - len(sent) - self.lacks.get(one, {}).get(bookie, 0)
                by_bookie[bookie] += max(0, rest)
        return Doubt({name: copies for name, copies in by_bookie.items() if copies}, due, read)


@pytest.mark.parametrize("at_once", [3, 1_000])
@pytest.mark.parametrize("seed", range(20))
def test_what_rests_on_bookies_in_doubt_is_counted_as_copy_by_copy(
    seed: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was listed and read, also of ledgers that an earlier run asked about."""
    dice, run = Random(seed), place(str(tmp_path))
    drawn = Drawn(dice)
    drawn.write(run)
    monkeypatch.setattr("auditor.findings.doubt.LEDGERS_AT_ONCE", at_once)
    unreadable = set(dice.sample(BOOKIES, dice.randint(0, 2)))
    found = doubt_of(run, run.scan("verdicts", VERDICTS), unreadable)
    if not unreadable and not drawn.lacks:
        assert Doubt() == found
    else:
        assert drawn.doubt(unreadable) == found


def test_with_many_bookies_in_doubt_fewer_ledgers_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pairs of ledgers and bookies are bounded."""
    drawn, run = Drawn(Random(3)), place(str(tmp_path))
    drawn.write(run)
    asked: list[int] = []
    monkeypatch.setattr("auditor.findings.doubt.PAIRS_AT_ONCE", 60)
    monkeypatch.setattr(
        "auditor.findings.doubt.LedgerTable.portions",
        lambda _, ledgers_max: asked.append(ledgers_max) or [],
    )
    doubt_of(run, run.scan("verdicts", VERDICTS), BOOKIES)
    assert [60 // len(BOOKIES)] == asked
