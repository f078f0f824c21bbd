"""The task that judges: healthy ledgers are found in columns, and the rows are as if each ledger
had been judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest
from support.entry_by_entry import expected_on

from auditor.config import JudgingLimits
from auditor.evidence.rows import answer_row, ledger_row, table
from auditor.evidence.schemas import SEEN
from auditor.judging import settle as judgement
from auditor.judging.healthy_ledgers import Healthy
from auditor.model.availability import Answer, AnswerStatus, SequenceGroup
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import LedgerEvidence, Terms
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    Mark,
    RecordStatus,
    ZnodeStamp,
)
from auditor.model.verdict import COPIES_MAX, Standing, Unknown, Verdict
from auditor.sandbox.cluster import ledger
from auditor.second_checker.agreement import is_in_sample
from auditor.stages import steps
from auditor.wire.entry_availability import canonical

FACTS = ClusterFacts("zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", None, False, None)
LIMITS = JudgingLimits(ledger_time_max_ms=600_000, ledger_memory_max=256 * 2**20)
TERMS = Terms(1_000, 0, 16, 5)
HALF = replace(TERMS, sound_sample=0.5)
LEDGERS = 24
LOSSES = frozenset({3, 4, 11})
METADATA = ledger("e3 w2 a2 0:[b1 b2 b3] closed 29")


def said_of(ledger_id: int, metadata: LedgerMetadata = METADATA) -> tuple[Any, ...]:
    """Return the cells of a SEEN row. One bookie lists nothing of the ledgers in LOSSES."""
    record = LedgerRecord(ledger_id, 1, 0, RecordStatus.FOUND, ZnodeStamp(1, 0, 0, 0), metadata)
    lists = {
        name: canonical(SequenceGroup(e, e, 1, 0) for e in sorted(held))
        for name, held in expected_on(metadata).items()
    }
    if ledger_id in LOSSES:
        lists["b2"] = b""
    answers = [
        Answer(name, ledger_id, 1, 0, AnswerStatus.HELD, groups) for name, groups in lists.items()
    ]
    return (ledger_id, [ledger_row(record)], [answer_row(one) for one in answers], None)


def batch(*ids: int) -> pa.RecordBatch:
    return table(SEEN, [said_of(one) for one in ids])


EVERY = batch(*range(LEDGERS))


def rows(terms: Terms, *batches: pa.RecordBatch, **options: Any) -> pa.Table:
    """Return the rows of all batches, made by one task."""
    return pa.Table.from_batches(
        list(steps.judge_of(terms, FACTS, LIMITS, **options)(iter(batches)))
    )


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the ledgers that are judged one by one, in order."""
    seen: list[int] = []
    settle = judgement.settle

    def settled(evidence: LedgerEvidence, terms: Terms) -> judgement.Step:
        seen.append(evidence.ledger_id)
        return settle(evidence, terms)

    monkeypatch.setattr(judgement, "settle", settled)
    return seen


def overlook(monkeypatch: pytest.MonkeyPatch, *overlooked: int, copies: int = 60) -> None:
    """Let these ledgers too be found healthy by their columns, with this number of copies."""
    find = steps.healthy_ledgers

    def found(batch: pa.RecordBatch, terms: Terms) -> Mapping[int, Healthy]:
        ids = batch["ledger_id"].to_pylist()
        return {
            **find(batch, terms),
            **{ids.index(one): Healthy(copies, 0) for one in overlooked if one in ids},
        }

    monkeypatch.setattr(steps, "healthy_ledgers", found)


def sample() -> list[int]:
    return [one for one in range(LEDGERS) if is_in_sample(one, HALF)]


@pytest.mark.parametrize("careful", [True, False])
@pytest.mark.parametrize("terms", [TERMS, HALF])
def test_rows_by_columns_are_those_of_ledgers_judged_one_by_one(
    terms: Terms, careful: bool
) -> None:
    """They are in the same order. Batches have healthy ledgers and others, only healthy ones, only
    others, or none.
    """
    batches = (EVERY, EVERY.slice(5, 3), EVERY.slice(3, 2), EVERY.slice(0, 0))
    plain = rows(terms, *batches, careful=careful)
    assert rows(terms, *batches, careful=careful, by_columns=True).equals(plain)
    assert LEDGERS - len(LOSSES) == plain.slice(0, LEDGERS)["standing"].to_pylist().count("sound")


def test_of_healthy_ledgers_only_the_sample_is_judged(judged: list[int]) -> None:
    """Ledgers that are not healthy are judged as well."""
    rows(HALF, EVERY, by_columns=True)
    assert sorted({*LOSSES, *sample()}) == judged
    assert {*sample()} - LOSSES and {*range(LEDGERS)} - {*sample()} - LOSSES


def test_unless_it_is_asked_for_every_ledger_is_judged(judged: list[int]) -> None:
    """A judging that is done again does not rely on columns."""
    rows(HALF, EVERY)
    assert list(range(LEDGERS)) == judged


def test_a_ledger_that_is_only_healthy_by_its_columns_is_withheld(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A healthy ledger in the sample is judged as well. If the verdict differs, it is withheld as
    if the checkers differed.
    """
    hit = next(one for one in LOSSES if is_in_sample(one, HALF))
    overlook(monkeypatch, hit)
    row = rows(HALF, EVERY, by_columns=True).slice(hit, 1).to_pylist()[0]
    assert (hit, "indeterminate", ["checkers_disagree"], "nothing") == tuple(
        row[name] for name in ("ledger_id", "standing", "unknowns", "todo")
    )
    assert (
        "by its columns it is sound with 60 copies listed of 60; the first checker says"
        " indeterminate with 40 copies listed of 60, and next reads" == row["detail"]
    )


def test_copies_that_are_counted_otherwise_by_columns_are_withheld(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Equal standings are not enough."""
    sound = next(one for one in sample() if one not in LOSSES)
    overlook(monkeypatch, sound, copies=59)
    row = rows(HALF, EVERY, by_columns=True).slice(sound, 1).to_pylist()[0]
    assert ["checkers_disagree"] == row["unknowns"]
    assert row["detail"].endswith(
        "the first checker says sound with 60 copies listed of 60, and next nothing"
    )


def test_what_the_two_checkers_differ_on_is_reported_in_their_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This includes a ledger that is healthy by its columns."""
    settle = judgement.settle
    wrong = Verdict(0, Standing.INDETERMINATE, unknowns=(Unknown.BOOKIE_SILENT,))

    def settled(evidence: LedgerEvidence, terms: Terms) -> judgement.Step:
        return replace(
            settle(evidence, terms), verdict=replace(wrong, ledger_id=evidence.ledger_id)
        )

    monkeypatch.setattr(judgement, "settle", settled)
    sound = next(one for one in sample() if one not in LOSSES)
    row = rows(HALF, batch(sound), by_columns=True).to_pylist()[0]
    assert ["checkers_disagree"] == row["unknowns"]
    assert row["detail"].startswith(
        "standing: the first checker says indeterminate, the second sound"
    )


def test_a_ledger_of_the_sample_on_which_judging_raises_is_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be set aside without columns too."""

    def raises(*_: object) -> judgement.Step:
        raise KeyError("odd")

    monkeypatch.setattr(judgement, "settle", raises)
    sound = next(one for one in sample() if one not in LOSSES)
    (row,) = rows(HALF, batch(sound), by_columns=True).to_pylist()
    assert (["poison"], "KeyError: 'odd'") == (row["unknowns"], row["detail"])


def test_what_was_found_in_one_batch_is_not_said_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A ledger id that comes again is judged by the evidence of its own batch."""
    hit = next(one for one in LOSSES if is_in_sample(one, HALF))
    find, calls = steps.healthy_ledgers, iter([True, False])

    def found(batch: pa.RecordBatch, terms: Terms) -> Mapping[int, Healthy]:
        return {0: Healthy(60, 0)} if next(calls) else find(batch, terms)

    monkeypatch.setattr(steps, "healthy_ledgers", found)
    unknowns = rows(HALF, batch(hit), batch(hit), by_columns=True)["unknowns"].to_pylist()
    assert [["checkers_disagree"], []] == [
        unknowns[0],
        [one for one in unknowns[1] if one == "checkers_disagree"],
    ]


def test_more_copies_than_a_column_can_count_are_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row counts at most 2^53 copies."""
    counts = {0: Healthy(COPIES_MAX + 1, 0), 1: Healthy(COPIES_MAX - 1, 0)}
    monkeypatch.setattr(steps, "healthy_ledgers", lambda *_: counts)
    found = rows(TERMS, batch(0, 1), by_columns=True)
    for name in ("copies_expected", "copies_listed"):
        assert [COPIES_MAX, COPIES_MAX - 1] == found[name].to_pylist()


STAMP = ZnodeStamp(1, 0, 0, 0)
OTHER_STAMPS = [replace(STAMP, **{field.name: 7}) for field in fields(ZnodeStamp)]


def reread(ledger_id: int, look: int = 2, **others: Any) -> tuple[Any, ...]:
    """Return a suspect's cells of a SEEN row whose metadata was read again at a later look."""
    (_, records, answers, reads) = said_of(ledger_id)
    record = LedgerRecord(ledger_id, look, 9, RecordStatus.FOUND, STAMP, METADATA)
    return (ledger_id, [*records, ledger_row(replace(record, **others))], answers, reads)


def test_lists_of_unchanged_suspects_are_demanded_without_judging_them(judged: list[int]) -> None:
    """Any other ledger is judged. The steps are the same."""
    cells = {
        3: reread(3),
        4: reread(4),
        5: reread(5, mark=Mark(5)),
        6: reread(6, look=3),
        7: said_of(7),
        8: reread(8, status=RecordStatus.GONE, stamp=None, metadata=None),
        **{10 + n: reread(10 + n, stamp=stamp) for n, stamp in enumerate(OTHER_STAMPS)},
        20: reread(20),
    }
    seen = table(SEEN, list(cells.values()))
    again = steps.Unchanged(2, frozenset(cells) - {4})
    found = rows(TERMS, seen.slice(0, 0), seen.slice(1), seen.slice(0, 1), unchanged=again)
    assert sorted({*cells} - {3, 20}) == judged
    demanded = {row["ledger_id"]: row["todo"] for row in found.to_pylist()}
    assert cells.keys() == demanded.keys()
    assert {"lists"} == {demanded[3], demanded[4], demanded[20]}
    lists = [row for row in found.to_pylist() if row["ledger_id"] in (3, 20)]
    assert {("indeterminate", ())} == {(row["standing"], tuple(row["findings"])) for row in lists}


def silent_on(ledger_id: int, mark: Mark | None) -> tuple[Any, ...]:
    """Return the cells of a SEEN row of a ledger of which no bookie said anything."""
    record = LedgerRecord(ledger_id, 1, 0, RecordStatus.FOUND, STAMP, METADATA, mark=mark)
    bookies = expected_on(METADATA)
    said = [Answer(name, ledger_id, 1, 0, AnswerStatus.SILENT) for name in bookies]
    return (ledger_id, [ledger_row(record)], [answer_row(one) for one in said], None)


def test_a_suspect_says_that_its_lists_are_demanded_again() -> None:
    """A sound ledger does not, nor one that is marked: what it may hide depends on more."""
    suspects = table(SEEN, [silent_on(3, None), silent_on(4, Mark(5))])
    found = rows(TERMS, suspects, batch(5)).to_pylist()
    assert ["look", "look", "nothing"] == [row["todo"] for row in found]
    assert [True, False, False] == [row["asks_next"] for row in found]
