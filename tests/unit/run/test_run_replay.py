"""Judge written evidence again, without a cluster: every listed ledger once, each by its own
rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from auditor.errors import AccountingError
from auditor.evidence.rows import answer_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place, write_json
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, READS
from auditor.evidence.table_scan import scan_rows
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus, SequenceGroup
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.run import replay
from auditor.run.conclusion import conclude
from auditor.sandbox import cluster
from auditor.summary.about import About
from auditor.summary.previous_run import NO_PREVIOUS
from auditor.wire.entry_availability import canonical

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", False, None)
ABOUT = About(
    "20260101T030000Z-000001",
    "2026-01-01T03:00:00Z",
    FACTS,
    Terms(9_000, 1_000, 16, 5),
    "warning",
    False,
)
TWO = "e2 w2 a2 0:[b1 b2] closed 9"
WHOLE, LACKING = "0-9", "0-3 5-9"


class Evidence:
    """The rows of a run, and the directory to which they are written."""

    def __init__(self, directory: Path) -> None:
        self.run: Place = place(str(directory))
        self.ids: list[int] = []
        self._records: list[Any] = []
        self._answers: list[Any] = []
        self._reads: list[Any] = []

    def look(
        self, ledger_id: int, look: int, *, text: str = TWO, **held: str | AnswerStatus
    ) -> None:
        """Add one look at a ledger. `held` has what each bookie listed, or the status that came
        instead.
        """
        if look == 1:
            self.ids.append(ledger_id)
        stamp = ZnodeStamp(ledger_id, 1, 5)
        record = LedgerRecord(
            ledger_id, look, look * 1000, RecordStatus.FOUND, stamp, cluster.ledger(text)
        )
        self._records.append(ledger_row(record))
        for bookie, said in held.items():
            status = said if isinstance(said, AnswerStatus) else AnswerStatus.HELD
            runs = cluster.holds(said) if status is AnswerStatus.HELD else ()
            groups = canonical(
                SequenceGroup(first, first, last - first + 1, 0) for first, last in runs
            )
            self._answers.append(
                answer_row(Answer(bookie, ledger_id, look, look * 1000, status, groups, requests=1))
            )

    def read(self, ledger_id: int, look: int, bookie: str, entry: int, status: ReadStatus) -> None:
        self._reads.append(
            read_row(EntryRead(bookie, ledger_id, entry, look, look * 1000, status, requests=1))
        )

    def loss(self, ledger_id: int) -> None:
        """Add a ledger whose entry 4 is missing on b2: two looks with a confirming read, and a
        third that reads only the metadata.
        """
        for look in (1, 2):
            self.look(ledger_id, look, b1=WHOLE, b2=LACKING)
            self.read(ledger_id, look, "b2", 4, ReadStatus.NO_ENTRY)
        self.look(ledger_id, 3)

    def write(self) -> Place:
        (
            write_json(self.run, "run.json", ABOUT.as_json())
            if self.run.files.create_dir(self.run.path) is None
            else None
        )
        for name, schema, rows in (
            ("listing", LISTING, [(i,) for i in self.ids]),
            ("ledgers", LEDGERS, self._records),
            ("answers", ANSWERS, self._answers),
            ("reads", READS, self._reads),
        ):
            self.run.write_table(f"evidence/{name}", table(schema, rows), "all")
        return self.run


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    return Evidence(tmp_path / "run-20260101T030000Z-000001")


def judged(run: Place) -> dict[int, str]:
    """Return the standing by ledger, in the order of the rows."""
    rows = replay.judge_again(run, ABOUT).to_pylist()
    return {row["ledger_id"]: row["standing"] for row in rows}


def test_every_listed_ledger_is_judged_in_order_of_its_id(evidence: Evidence):
    """The order in which they were written does not matter."""
    for ledger_id in (30, 2**40, 7, 12):
        evidence.look(ledger_id, 1, b1=WHOLE, b2=WHOLE)
    evidence.loss(8)
    expected = {7: "sound", 8: "violated", 12: "sound", 30: "sound", 2**40: "sound"}
    assert list(expected.items()) == list(judged(evidence.write()).items())


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 100])
def test_portions_leave_no_ledger_out_and_judge_none_twice(
    evidence: Evidence, monkeypatch: pytest.MonkeyPatch, at_once: int
):
    """The verdicts are the same for every size of a portion."""
    for ledger_id in range(100, 107):
        if ledger_id % 3:
            evidence.look(ledger_id, 1, b1=WHOLE, b2=WHOLE)
        else:
            evidence.loss(ledger_id)
    run = evidence.write()
    monkeypatch.setattr(replay, "LEDGERS_AT_ONCE", at_once)
    found = replay.judge_again(run, ABOUT)["ledger_id"].to_pylist()
    assert list(range(100, 107)) == found
    assert {102, 105} == {i for i, standing in judged(run).items() if standing == "violated"}


def test_a_replay_is_the_same_every_time(evidence: Evidence):
    """The rows are equal to the byte, with findings and witnesses. The time of judging is that of
    the run, not today's.
    """
    evidence.loss(8)
    run = evidence.write()
    once, again = (json.dumps(replay.judge_again(run, ABOUT).to_pylist()) for _ in range(2))
    assert once == again
    (line,) = replay.judge_again(run, ABOUT)["findings"].to_pylist()[0]
    assert ("ENTRY_BELOW_ACK_QUORUM", [[4, 4]]) == (
        json.loads(line)["kind"],
        json.loads(line)["entries"],
    )


def test_an_answer_less_changes_its_ledger_alone(evidence: Evidence):
    """A sound ledger that loses one of its answers is unknown. The verdicts on other ledgers do not
    change.
    """
    for ledger_id in (1, 2, 3):
        evidence.look(ledger_id, 1, b1=WHOLE, b2=WHOLE)
    run = evidence.write()
    before = judged(run)
    file = Path(run.path) / "evidence" / "answers" / "all.parquet"
    rows = pq.read_table(file)
    pq.write_table(
        rows.filter(~((ds.field("ledger_id") == 2) & (ds.field("bookie_id") == "b1"))), file
    )
    after = judged(run)
    assert {2} == {i for i in before if before[i] != after[i]}
    assert "indeterminate" == after[2]


def test_a_finding_seen_once_is_not_reported(evidence: Evidence):
    """The run died after its first look. The verdict is provisional, and its row has no finding."""
    evidence.look(8, 1, b1=WHOLE, b2=LACKING)
    evidence.read(8, 1, "b2", 4, ReadStatus.NO_ENTRY)
    (row,) = replay.judge_again(evidence.write(), ABOUT).to_pylist()
    assert ([], "look") == (row["findings"], row["todo"])


def test_a_ledger_that_was_listed_and_never_read_does_not_add_up(evidence: Evidence):
    """The conclusion raises, and no counts are published."""
    evidence.look(1, 1, b1=WHOLE, b2=WHOLE)
    evidence.ids.append(2)
    run = evidence.write()
    with pytest.raises(AccountingError, match="1 listed and never judged"):
        verdicts = scan_rows(replay.judge_again(run, ABOUT))
        conclude(run, ABOUT, [], NO_PREVIOUS, verdicts=verdicts, finished_at="", duration_s={})


def test_two_answers_of_one_bookie_at_one_look_are_our_fault(evidence: Evidence):
    """Each look stores one answer for a bookie and a ledger. A doubled row stops the judging."""
    evidence.look(1, 1, b1=WHOLE, b2=WHOLE)
    evidence._answers.append(evidence._answers[0])
    with pytest.raises(AssertionError, match="two answers of one bookie on ledger 1"):
        replay.judge_again(evidence.write(), ABOUT)


def test_nothing_listed_is_no_verdict(evidence: Evidence):
    """An empty cluster has no rows."""
    assert {} == judged(evidence.write())
