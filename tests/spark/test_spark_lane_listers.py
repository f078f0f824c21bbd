"""The work of one lane with a lister: the effect of a contradiction in a later batch on earlier
ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.listers import INSTANCE, ListerUnderTest, lister_in_process

from auditor.bookie.listers import Listers
from auditor.config import BookieLimits
from auditor.evidence.rows import table
from auditor.model.availability import LISTED_BY_LISTER, LISTER_CONTRADICTED
from auditor.sandbox.listener import HOST
from auditor.stages.asking import QUESTIONS, Directory, list_asker
from auditor.wire.entry_availability import HEADER_BYTES, encode_runs

TEN = encode_runs([(0, 10)])[HEADER_BYTES:]


@pytest.fixture
def lister(tmp_path: Path) -> Iterator[ListerUnderTest]:
    with lister_in_process(tmp_path) as lister:
        yield lister


def asked(lister: ListerUnderTest, *batches: list[int]) -> dict[int | None, tuple[str, str]]:
    """Return status and detail by ledger, and the greeting under None, for these batches of ledgers
    with ten entries each.
    """
    directory = Directory(
        {"b1": (HOST, lister.bookie_listener.port)},
        frozenset(),
        listers=Listers(INSTANCE, lister.port),
    )
    questions = (
        table(QUESTIONS, [("b1", ledger, 64, TEN, False, True, None) for ledger in batch])
        for batch in batches
    )
    answers = list_asker(directory, BookieLimits(rpc_timeout_ms=2_000), 1)(questions)
    rows = pa.Table.from_batches(list(answers)).to_pylist()
    return {row["ledger_id"]: (row["status"], row["detail"]) for row in rows}


def test_each_answer_says_that_a_lister_listed(lister: ListerUnderTest) -> None:
    """So does the greeting, which the summary counts."""
    where = f"{LISTED_BY_LISTER}{HOST}:{lister.port}"
    for ledger_id in (1, 2, 3):
        lister.hold(ledger_id, (0, 9))
    said = asked(lister, [1, 2], [3])
    assert {
        1: ("held", where),
        2: ("held", where),
        3: ("held", where),
        None: ("answered", where),
    } == said


def test_a_contradiction_in_the_last_batch_spoils_the_first(lister: ListerUnderTest) -> None:
    """No list of that lister is believed, whenever it was given."""
    for ledger_id in (1, 2, 3):
        lister.hold(ledger_id, (0, 9))
    lister.bookie.hold(3, [(1000, 1000)])
    said = asked(lister, [1, 2], [3])
    assert ["invalid"] * 3 == [said[ledger][0] for ledger in (1, 2, 3)]
    assert all(
        detail.startswith(LISTER_CONTRADICTED) and "ledger 3" in detail
        for _, detail in said.values()
    )
