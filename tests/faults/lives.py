"""The detector on a run that was interrupted and resumed: it finds questions that were repeated
although they had an answer.

Each process of a run is a *life*. When it has ended, the journal names the files that count, and
the questions in their rows are *committed*. A question that a proxy saw in a life is either
committed by it, once, or belongs to the stage that was at work when the life ended. Such questions
are the last ones to a bookie, are about one shard, and are repeated in a later life. Any other
question is a *duplication*. A question that no life ever committed is a *loss*:

    first life    asked 1 4 7 10 13 16    committed 1 4 7 10      the killed stage asked 13 and 16
    second life   asked 13 16 19          committed 13 16 19
                  asked 10 13 16 19       committed 13 16 19      10 is duplicated

Once each frame has its life and its look, verdicts and answers are compared as those of any run.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from faults.detector import Breach, May, Sort, compared
from faults.harm import Passed
from faults.reported import Reported, written_files
from faults.windows import WINDOW, FaultWindows

TABLES = ("evidence/answers", "evidence/reads")

Key = tuple[str, int, int | None]
"""Bookie, ledger, entry; None for the entry: the list of the ledger."""
Frames = dict[tuple[str, int], list[Passed]]
"""By bookie and look."""


@dataclass(frozen=True)
class Question:
    """A row of the evidence as a question; without `entry_id` it is about the list of the
    ledger.
    """

    bookie: str
    look: int
    ledger_id: int
    entry_id: int | None = None

    @property
    def key(self) -> Key:
        return self.bookie, self.ledger_id, self.entry_id


@dataclass(frozen=True)
class Life:
    """What proxies saw of one process of a run, and what it committed.

    `attempts`: how often the killed stage may have asked, if Spark retried a task of it.
    """

    seen: Sequence[Passed]
    committed: Sequence[Question]
    attempts: int = 1


def journalled(run_dir: Path) -> list[Question]:
    """Return the files that the journal of an unfinished run names, in its order."""
    entries = [
        json.loads(path.read_text()) for path in sorted((run_dir / "journal").glob("*.json"))
    ]
    return [
        question
        for entry in entries
        for name in entry["files"]
        if name.endswith(".parquet") and name.startswith(TABLES)
        for question in _questions(run_dir / name)
    ]


def written(run_dir: Path) -> list[Question]:
    """Return the questions in the evidence of a finished run, in the order in which they were
    written.
    """
    files = [path for table in TABLES for path in written_files(run_dir / table)]
    return [question for path in files for question in _questions(path)]


def breaches_of_lives(
    lives: Sequence[Life],
    reported: Reported,
    owed: Mapping[int, frozenset[May]],
    shard_ledgers: int,
) -> list[Breach]:
    """Return every breach in a run of several lives, the last of which finished it.

    The end of a life did not prevent a committed answer: no fault is on.
    """
    frames: Frames = {(row[0], row[1]): [] for row in reported.answers}
    found: list[Breach] = []
    for number, life in enumerate(lives):
        later = {question.key for other in lives[number + 1 :] for question in other.committed}
        found += _asked_for_nothing(f"life {number + 1}", life, later, shard_ledgers, frames)
    return found + compared(frames, reported, owed, FaultWindows())


def _asked_for_nothing(
    name: str, life: Life, later: set[Key], shard_ledgers: int, frames: Frames
) -> list[Breach]:
    """Return the questions of a life that it did not commit and that its killed stage did not ask.
    Add the other frames to their look.
    """
    due = defaultdict(list)
    for question in life.committed:
        due[question.key].append(question.look)
    replies = {(one.proxy, one.connection, one.said.txn_id): one for one in life.seen if one.reply}
    open_ones: list[Passed] = []
    over: list[Passed] = []
    for one in _requests(life.seen):
        looks = due[_key(one)]
        if not looks:
            open_ones.append(one)
            continue
        reply = replies.get((one.proxy, one.connection, one.said.txn_id))
        frames.setdefault((one.proxy, looks.pop(0)), []).extend(
            [one] if reply is None else [one, reply]
        )
        over += [
            other for other in open_ones if other.proxy == one.proxy
        ]  # its stage was over, because this one came after it
        open_ones = [other for other in open_ones if other.proxy != one.proxy]
    again, lost = _of_cut_stage(open_ones, later, shard_ledgers, life.attempts)
    sorts = [
        *((Sort.DUPLICATION, one) for one in over + again),
        *((Sort.LOSS, one) for one in lost),
    ]
    return [_breach(sort, name, life, one) for sort, one in sorts]


def _of_cut_stage(
    asked: Sequence[Passed], later: set[Key], shard_ledgers: int, attempts: int
) -> tuple[list[Passed], list[Passed]]:
    """Return the last questions of a life that its killed stage cannot have asked, and those that
    it asked and no later life did.
    """
    times: Counter[Key] = Counter()
    ledgers: dict[int, None] = {}
    again, lost = [], []
    for one in asked:
        key = _key(one)
        times[key] += 1
        ledgers[key[1]] = None
        if not later or times[key] > attempts or list(ledgers).index(key[1]) >= shard_ledgers:
            again.append(one)
        elif key not in later:
            lost.append(one)
    return again, lost


def _breach(sort: Sort, name: str, life: Life, one: Passed) -> Breach:
    said = one.said
    assert said.ledger_id is not None
    before = [
        other.said.ledger_id or 0
        for other in _requests(life.seen)
        if other.proxy == one.proxy and other.number <= one.number
    ]
    window = tuple([0] * WINDOW + before)[-WINDOW:]
    return Breach(sort, f"{one.proxy} in {name}, {said.operation}s", said.ledger_id, window)


def _requests(seen: Iterable[Passed]) -> list[Passed]:
    return [one for one in seen if not one.reply and one.said.operation in ("list", "read")]


def _key(one: Passed) -> Key:
    assert one.said.ledger_id is not None
    return (
        one.proxy,
        one.said.ledger_id,
        one.said.entry_id if one.said.operation == "read" else None,
    )


def _questions(file: Path) -> list[Question]:
    rows = pq.read_table(file, partitioning=None).to_pylist()
    return [
        Question(row["bookie_id"], row["look"], row["ledger_id"], row.get("entry_id"))
        for row in rows
        if row["ledger_id"] is not None
    ]
