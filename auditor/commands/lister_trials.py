"""Ask each lister for lists of ledgers that its bookie should hold, and check the lists.

A lister that answers a greeting may still be unable to list: it may be in doubt about its index,
read another bookie's directories, or run beside a bookie that does not serve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple

from auditor.bookie.listers import Listers, open_lane
from auditor.bookie.questions import ListQuestion
from auditor.clock import now_ms
from auditor.config import BookieLimits
from auditor.first_checker.schedule import expected_list, held_entries
from auditor.model.availability import LISTED_BY_LISTER, Answer, AnswerStatus
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerState
from auditor.zookeeper.metadata_store import MetadataStore

LEDGERS_READ_MAX = 1_000
"""Metadata of this many ledgers is read to find some of each bookie: the first that are listed."""
LEDGERS_TRIED_MAX = 3
"""At most this many ledgers are asked of one lister. A single list is enough."""


class ListerTrial(NamedTuple):
    """What a lister listed. `is_good` is None if no ledger was found to ask about."""

    bookie_id: BookieId
    where: str
    is_good: bool | None
    sentence: str


def try_listers(
    store: MetadataStore, bookies: Sequence[BookieRecord], listers: Listers, limits: BookieLimits
) -> list[ListerTrial]:
    """Return what each bookie's lister lists, if it should have one and its address is known.

    Costs at most LEDGERS_READ_MAX reads of znodes, and a few requests a bookie. Raises
    StoreUnavailable.
    """
    placed = {
        one.bookie_id: (one.host, one.port)
        for one in bookies
        if one.host is not None
        and one.port is not None
        and listers.address_of(one.bookie_id, one.host) is not None
    }
    if not placed:
        return []
    questions = _questions(store, placed)
    return asyncio.run(_try_all(placed, questions, listers, limits))


def _questions(
    store: MetadataStore, placed: Mapping[BookieId, object]
) -> dict[BookieId, list[ListQuestion]]:
    """Return, for each bookie, some closed ledgers of which it should hold entries, with these
    entries.
    """
    found: dict[BookieId, list[ListQuestion]] = {one: [] for one in placed}
    ids = islice(_listed_ids(store), LEDGERS_READ_MAX)
    for record in store.read_ledgers(ids, 1, now_ms, with_marks=False):
        metadata = record.metadata
        if metadata is None or metadata.state is not LedgerState.CLOSED:
            continue
        for bookie in {one for segment in metadata.segments for one in segment.ensemble}:
            wanted = found.get(bookie)
            if wanted is None or len(wanted) >= LEDGERS_TRIED_MAX:
                continue
            expected = expected_list(metadata, bookie)
            if expected:
                wanted.append(ListQuestion(record.ledger_id, expected_groups=expected))
    return found


def _listed_ids(store: MetadataStore) -> Iterator[int]:
    parents = chain.from_iterable(
        store.list_ids(partition) for partition in store.listing_partitions().partitions
    )
    return chain.from_iterable(parent.ledger_ids for parent in parents)


async def _try_all(
    placed: Mapping[BookieId, tuple[str, int]],
    questions: Mapping[BookieId, Sequence[ListQuestion]],
    listers: Listers,
    limits: BookieLimits,
) -> list[ListerTrial]:
    tried = (_try_one(one, placed[one], questions[one], listers, limits) for one in placed)
    return list(await asyncio.gather(*tried))


async def _try_one(
    bookie_id: BookieId,
    address: tuple[str, int],
    questions: Sequence[ListQuestion],
    listers: Listers,
    limits: BookieLimits,
) -> ListerTrial:
    at = listers.address_of(bookie_id, address[0])
    assert at is not None, bookie_id
    where = f"{at[0]}:{at[1]}"
    if not questions:
        why = (
            f"no closed ledger of it is among the first {LEDGERS_READ_MAX:,}: not asked for a list"
        )
        return ListerTrial(bookie_id, where, None, why)
    lane = open_lane(bookie_id, address, limits, 1, now_ms, listers)
    try:
        answers = await lane.lists(questions)
    finally:
        await lane.close()
    for question, answer in zip(questions, answers, strict=True):
        if answer.status is AnswerStatus.HELD and answer.detail.startswith(LISTED_BY_LISTER):
            return ListerTrial(bookie_id, where, True, _listed_words(question, answer))
    first = answers[0]
    why = first.detail or first.status.value
    return ListerTrial(bookie_id, where, False, f"ledger {first.ledger_id} was not listed: {why}")


def _listed_words(question: ListQuestion, answer: Answer) -> str:
    expected = held_entries(question.expected_groups or b"")
    listed = held_entries(answer.groups) & expected
    return (
        f"it lists {listed.count():,} of the {expected.count():,} entries that the bookie should"
        f" hold of ledger {answer.ledger_id}"
    )
