"""Both checkers state the same facts about entry logs that may be lost, for any evidence."""

from __future__ import annotations

import random
from dataclasses import replace

from auditor.first_checker.lost_logs import judge_lost_logs, logs_of
from auditor.model.availability import (
    LISTED_BY_LISTER,
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    MissingLog,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord, Registration
from auditor.second_checker.lost_logs import LeftOut, Tried, entry_log_lost_facts

SEED = 35
STORIES = 3_000
FOUND_MIN = 300
UP = BookieRecord("b1", 1, 0, Registration.WRITABLE, "h", 3181, greeting=Greeting.ANSWERED)
READS = (
    (ReadStatus.FAILED, "EIO: x"), (ReadStatus.FAILED, "EIO: x"), (ReadStatus.FAILED, "EIO: x"),
    (ReadStatus.REFUSED, "EUA: x"), (ReadStatus.NO_ENTRY, ""), (ReadStatus.PRESENT, ""),
    (ReadStatus.CORRUPT, ""),
)  # fmt: skip


def missing_log(seeded: random.Random) -> MissingLog:
    first = seeded.randrange(10)
    ranges = [(first, first + seeded.randrange(5))]
    if seeded.random() < 0.3:
        ranges.append((20, 25))
    entries = sum(last - first + 1 for first, last in ranges) + seeded.randrange(3)
    return MissingLog(f"/d/current/{seeded.randrange(3):x}.log", entries, tuple(ranges))


def story(seeded: random.Random) -> tuple[list[Answer], list[EntryRead]]:
    """Return a few ledgers on one bookie at two or three looks."""
    answers, reads = [], []
    hard = seeded.choice((READS[:3], READS[:5], READS))
    for ledger in range(seeded.randint(1, 3)):
        for look in range(1, seeded.randint(2, 4)):
            logs = {
                one.path: one for one in (missing_log(seeded) for _ in range(seeded.randint(1, 2)))
            }
            unlisted = (seeded.randrange(30),) if seeded.random() < 0.1 else ()
            where = f"{LISTED_BY_LISTER}h:3182"
            said = Answer("b1", ledger, look, look, AnswerStatus.HELD, detail=where)
            answers.append(replace(said, missing_logs=tuple(logs.values()), read_unlisted=unlisted))
            for entry in seeded.sample(range(30), seeded.randint(0, 8)):
                status, detail = seeded.choice(hard)
                reads.append(EntryRead("b1", ledger, entry, look, look, status, detail))
    seeded.shuffle(answers)
    return answers, reads


def test_both_checkers_state_the_same_facts_of_lost_logs() -> None:
    """There are thousands of stories, with hundreds of lost logs and hundreds of present ones."""
    print("seed", SEED)
    seeded = random.Random(SEED)
    found = 0
    for number in range(STORIES):
        answers, reads = story(seeded)
        firsts = [one.facts for one in judge_lost_logs([{"b1": UP}], logs_of(answers, reads))]
        left_out = [
            LeftOut(log.path, one.ledger_id, one.look, log.entries, log.ranges, one.read_unlisted)
            for one in answers
            for log in one.missing_logs
        ]
        tried = [
            Tried(one.ledger_id, one.look, one.entry_id, one.status.value, one.detail)
            for one in reads
        ]
        second = entry_log_lost_facts([UP], "h:3182", left_out, tried)
        assert firsts == ([] if second is None else [second]), number
        found += len(firsts)
    assert FOUND_MIN <= found <= STORIES - FOUND_MIN, found
