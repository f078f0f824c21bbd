"""Judging with healthy ledgers found by columns gives the same rows as judging each ledger, byte
for byte, for any story.

Every failure names its seed: `support.stories.tell(seed)` and `sound_but_for_one_thing(seed)` make
that story again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.crowded_stories import crowds
from support.entry_by_entry import expected_on
from support.stories import (
    GRACE_MS,
    MISHAPS,
    NOW_MS,
    Bookie,
    State,
    Story,
    drive,
    stories,
    with_doubts,
    with_lying_lists,
)
from test_properties_second_checker import left_open, with_placement

from auditor.bookie.questions import ListQuestion
from auditor.config import JudgingLimits
from auditor.evidence.rows import Row, answer_row, ledger_row, read_row, table
from auditor.evidence.schemas import SEEN
from auditor.judging.healthy_ledgers import healthy_ledgers
from auditor.model.availability import Answer, EntryRead
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Mark,
    RecordStatus,
    Segment,
)
from auditor.stages.asking import _compared_row
from auditor.stages.steps import asker_of, judge_of

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
LIMITS = JudgingLimits(ledger_time_max_ms=600_000)
STORIES = 40
ALMOST_SOUND = 320
IN_A_BATCH = 16


Seen = TypeVar("Seen", LedgerRecord, Answer, EntryRead)


def _in_a_run(seen: Seen) -> Seen:
    return replace(seen, look=seen.look + 1)


Questions = Mapping[tuple[int, str], ListQuestion]
"""Questions by ledger and bookie."""


def questions_about(batch: pa.RecordBatch, terms: Terms) -> Questions:
    """Return the questions of the first look about the ledgers of a SEEN batch."""
    nothing = {name: pa.nulls(len(batch), batch[name].type) for name in ("answers", "reads")}
    columns = [nothing.get(name, batch[name]) for name in SEEN.names]
    unasked = pa.RecordBatch.from_arrays(columns, schema=SEEN)
    return {
        (row["ledger_id"], row.pop("bookie_id")): ListQuestion(**row)
        for rows in asker_of(terms, LIMITS)(iter([unasked]))
        for row in rows.drop_columns("block").to_pylist()
    }


def seen_batch(
    ledgers: Iterable[LedgerEvidence], first_id: int = 0, questions: Questions | None = None
) -> pa.RecordBatch:
    """Return SEEN rows, each with its own id; cells without a read are null or empty.

    Stories count looks from 0, a run counts them from 1. With `questions`, the lists of the first
    look are compared as they come.
    """

    def encode(answer: Answer, ledger_id: int, looks: int) -> Row:
        question = (questions or {}).get((ledger_id, answer.bookie_id))
        said = _in_a_run(answer)
        return answer_row(said) if question is None or looks > 1 else _compared_row(said, question)

    rows = [
        (
            first_id + number,
            [
                ledger_row(_in_a_run(replace(look.record, ledger_id=first_id + number)))
                for look in one.looks
            ],
            [
                encode(said, first_id + number, len(one.looks))
                for look in one.looks
                for said in look.answers.values()
            ],
            [read_row(_in_a_run(read)) for look in one.looks for read in look.reads.values()]
            or (None if number % 2 else []),
        )
        for number, one in enumerate(ledgers)
    ]
    return table(SEEN, rows)


def rows_of(batch: pa.RecordBatch, terms: Terms, *, by_columns: bool) -> pa.Table:
    work = judge_of(terms, FACTS, LIMITS, by_columns=by_columns)
    return pa.Table.from_batches(list(work(iter([batch])))).combine_chunks()


def judged_otherwise(stories: Iterable[Story]) -> list[str]:
    """Return the stories of which some step, the last one included, has other rows by columns."""
    wrong = []
    for story in stories:
        batch = seen_batch(evidence for evidence, _ in drive(story).steps)
        for sample in (0.0, 0.5):
            terms = replace(story.terms, sound_sample=sample)
            if not rows_of(batch, terms, by_columns=True).equals(
                rows_of(batch, terms, by_columns=False)
            ):
                wrong.append(story.name)
    return wrong


def sound_but_for_one_thing(seed: int) -> Story:
    """Return a ledger of one segment that is sound, or has one mishap, or one oddity in its
    metadata.
    """
    draw = Random(f"almost sound {seed}")
    size = draw.randint(1, 6)
    write = draw.randint(1, size)
    last = draw.choice((0, draw.randint(0, size), draw.randint(0, 60), 1024))
    ensemble = tuple(draw.sample([f"b{n}" for n in range(1, size + 4)], size))
    metadata = LedgerMetadata(
        3, LedgerState.CLOSED, size, write, draw.randint(1, write), last, 8, (Segment(0, ensemble),)
    )
    bookies = {name: Bookie(frozenset(entries)) for name, entries in expected_on(metadata).items()}
    state = State(metadata, bookies)
    how = draw.random()
    if how < 0.4:
        draw.choice(MISHAPS)(draw, metadata, 0, bookies)
    elif how < 0.6:
        changes = (
            {"state": draw.choice((LedgerState.OPEN, LedgerState.IN_RECOVERY))},
            {
                "last_entry_id": draw.choice(
                    (None, -2, -1, last + 1, 2 * last, max(0, last - 1), 2**63 - 1)
                )
            },
            {"segments": (*metadata.segments, Segment(draw.randint(0, last + 2), ensemble[::-1]))},
            {"segments": (Segment(draw.choice((-1, 1, last, last + 1)), ensemble),)},
            {
                "segments": (
                    Segment(
                        0,
                        draw.choice(
                            ((*ensemble, "b1"), ensemble[1:], ensemble[::-1], (*ensemble[1:], "b1"))
                        ),
                    ),
                )
            },
            {"ensemble_size": draw.randint(0, 7)},
            {"write_quorum": draw.randint(0, 7)},
            {"ack_quorum": draw.randint(0, 7)},
        )
        state = replace(state, metadata=replace(metadata, **draw.choice(changes)))
    elif how < 0.7:
        state = replace(state, mark=Mark(NOW_MS - draw.choice((0, GRACE_MS, GRACE_MS + 1))))
    elif how < 0.75:
        state = replace(state, status=draw.choice(tuple(RecordStatus)))
    return Story(
        f"almost sound {seed}",
        (state,),
        more_terms={"probe_entries": draw.choice((0, 1)), "probe_seed": 1},
    )


@pytest.mark.parametrize(
    "variant",
    [lambda story: story, with_doubts, with_lying_lists, with_placement, left_open],
)
def test_every_story_has_the_same_rows_by_columns(variant: Callable[[Story], Story]) -> None:
    """This holds at each step, with and without the sample of the second checker."""
    assert [] == judged_otherwise(map(variant, stories(STORIES)))


def test_ledgers_of_many_segments_have_the_same_rows_by_columns() -> None:
    """They have up to 200 segments."""
    assert [] == judged_otherwise(crowds(STORIES // 10))


def test_ledgers_that_are_almost_sound_have_the_same_rows_by_columns() -> None:
    """Ledgers are judged together in batches, and half of all are found by columns. The rows are
    the same if lists were compared as they came, and left out.
    """
    found = total = left_out = 0
    wrong: list[str] = []
    for first in range(0, ALMOST_SOUND, IN_A_BATCH):
        seeds = range(first, first + IN_A_BATCH)
        stories = [sound_but_for_one_thing(seed) for seed in seeds]
        terms = replace(stories[0].terms, sound_sample=0.1)
        ledgers = [evidence for story in stories for evidence, _ in drive(story).steps]
        batch = seen_batch(ledgers, 1_000 * first)
        compared = seen_batch(ledgers, 1_000 * first, questions_about(batch, terms))
        plain = rows_of(batch, terms, by_columns=False)
        for ours in (batch, compared):
            if not rows_of(ours, terms, by_columns=True).equals(plain):
                wrong.append(str(seeds))
        left_out += pc.struct_field(compared["answers"].flatten(), "groups").null_count
        found += len(healthy_ledgers(batch, terms))
        total += len(stories)
    assert [] == wrong
    assert found > 0.25 * total, f"{found} of {total}"
    assert left_out > total, f"{left_out} lists left out"
