"""Compares what is unknown of references with what the second checker does not know of them.

A run says "nothing is lost" only if nothing is unknown. A reference that the first checker forgets
to count would therefore hide a loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, REFERENCES
from auditor.evidence.table_scan import iterate_rows
from auditor.model.finding import Kind
from auditor.model.identity import LedgerId
from auditor.second_checker.finding_comparison import Difference
from auditor.second_checker.references import CLOSED, FIRST, FOUND, GONE
from auditor.second_checker.unknown_references import Doubt, doubt_about
from auditor.summary.references.second_reference_rows import (
    LEDGER_COLUMNS,
    LISTED,
    READ_FOR_REFERENCES,
    TOPIC_ROWS,
    Looks,
    ledger_look,
    ledger_looks,
    rows_by_topic,
)

DIFFERING_SHOWN_MAX = 20
"""Ledgers on which the checkers differ that are said one by one."""


class UnknownReferences(NamedTuple):
    """What is not known of references.

    `unknown` and `outdated` are ledgers, `more` counts those that were too many to judge.
    `unreadable` counts topics, `not_listed` the failures to list topics.
    """

    unknown: Sequence[LedgerId]
    outdated: Sequence[LedgerId]
    more: int
    unreadable: int
    not_listed: int


def unknowns_differ(run: Place, first: UnknownReferences, judged_max: int) -> list[Difference]:
    """Return where the two checkers differ in what they do not know.

    `judged_max` is the number of ledgers that a run judges. Costs a scan of the references and of
    five columns of the ledgers.
    """
    ids = _in_question(run)
    doubts = _doubts(run, ids[:judged_max])
    words = dict.fromkeys(first.unknown, Doubt.UNKNOWN)
    words |= dict.fromkeys(first.outdated, Doubt.OUTDATED)
    differing = sorted(
        ledger for ledger in words | doubts if words.get(ledger) != doubts.get(ledger)
    )
    found = [
        _difference(f"the first says {_word(words, one)}, the second {_word(doubts, one)}", one)
        for one in differing[:DIFFERING_SHOWN_MAX]
    ]
    unreadable, not_listed = _unread(run)
    counts = (
        ("ledgers not judged", first.more, max(0, len(ids) - judged_max)),
        ("topics that could not be read", first.unreadable, unreadable),
        ("failures to list topics", first.not_listed, not_listed),
    )
    return found + [
        _difference(f"{what}: the first says {one}, the second {other}")
        for what, one, other in counts
        if one != other
    ]


def _difference(detail: str, ledger: LedgerId | None = None) -> Difference:
    what = f"unknown references: {detail}"
    return Difference(Kind.REFERENCED_LEDGER_MISSING, None, what, ledger, is_withheld=False)


def _word(doubts: dict[LedgerId, Doubt], ledger: LedgerId) -> str:
    doubt = doubts.get(ledger)
    return "known" if doubt is None else doubt.value


def _doubts(run: Place, ids: Ids) -> dict[LedgerId, Doubt]:
    """Return the ledgers in question about which the second checker knows too little."""
    mine = pc.field("ledger_id").isin(pa.array(ids))
    naming: dict[LedgerId, set[str]] = {}
    at_first = mine & (pc.field("look") == FIRST)
    for row in iterate_rows(run.read_table(TOPIC_ROWS, REFERENCES, at_first, _NAMING)):
        naming.setdefault(row["ledger_id"], set()).add(row["topic"])
    by_topic = rows_by_topic(run, {topic for topics in naming.values() for topic in topics})
    looks, newest = _looks(run, ids)
    found: dict[LedgerId, Doubt] = {}
    for ledger, topics in naming.items():
        rows = (row for topic in topics for row in by_topic[topic].about(ledger))
        is_said = newest.get(ledger, FOUND) not in (FOUND, GONE)
        doubt = doubt_about(ledger, rows, looks[ledger], is_said_elsewhere=is_said)
        if doubt is not None:
            found[ledger] = doubt
    return found


_NAMING = ["topic", "ledger_id"]
_NEVER = (0, "")
"""A look before the first, which found nothing."""


def _looks(run: Place, ids: Ids) -> tuple[dict[LedgerId, Looks], dict[LedgerId, str]]:
    """Return the looks at these ledgers, and what the newest look of the run itself found."""
    mine = pc.field("ledger_id").isin(pa.array(ids))
    found = ledger_looks(run, mine)
    newest: dict[LedgerId, tuple[int, str]] = {}
    for row in iterate_rows(run.read_table(LISTED, LEDGERS, mine, LEDGER_COLUMNS)):
        ledger, look = row["ledger_id"], row["look"]
        newest[ledger] = max(newest.get(ledger, _NEVER), (look, row["status"]))
        if look == FIRST:
            found.setdefault(ledger, {}).setdefault(FIRST, ledger_look(row))
    return found, {ledger: status for ledger, (_, status) in newest.items()}


def _in_question(run: Place) -> Ids:
    """Return the referenced ledgers that some look did not find, or the first found cut short,
    ascending.
    """
    needed = run.read_table(
        TOPIC_ROWS,
        REFERENCES,
        pc.field("look") == FIRST,
        ["row", "ledger_id", "entries", "offloaded", "bookkeeper_deleted", "position"],
    )
    needed = needed.filter(pc.invert(pc.fill_null(needed["bookkeeper_deleted"], False)))
    named = pc.unique(needed["ledger_id"].drop_null())
    ids, most = _recorded_ends(needed)
    found = [np.array([], np.int64)]
    for batch in _statuses(run):
        is_lacking = pc.not_equal(batch["status"], FOUND)
        is_named = pc.is_in(batch["ledger_id"], value_set=named)
        found.append(_ids(batch.filter(pc.and_(is_lacking, is_named))))
        is_closed = pc.and_(pc.equal(batch["look"], FIRST), pc.equal(batch["state"], CLOSED))
        batch = batch.filter(pc.and_(is_closed, pc.is_valid(batch["last_entry_id"])))
        recorded = pc.take(most, pc.index_in(batch["ledger_id"], value_set=ids))
        is_short = pc.less(pc.add(batch["last_entry_id"], 1), recorded)
        found.append(_ids(batch.filter(is_short)))
    return np.unique(np.concatenate(found))


def _ids(batch: pa.RecordBatch) -> Ids:
    ids: Ids = batch["ledger_id"].to_numpy()
    return ids


def _statuses(run: Place) -> Iterator[pa.RecordBatch]:
    columns = ["ledger_id", "look", "status", "state", "last_entry_id"]
    for name in (LISTED, READ_FOR_REFERENCES):
        if run.has_table(name):
            yield from run.stream(name, LEDGERS, columns)


def _recorded_ends(needed: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Return the ledgers of which topics say how many entries they need, and the most of each.

    Left out is what long-term storage has.
    """
    needed = needed.filter(pc.invert(pc.fill_null(needed["offloaded"], False)))
    data = needed.filter(
        pc.and_(pc.equal(needed["row"], "data"), pc.is_valid(needed["entries"]))
    ).select(["ledger_id", "entries"])
    ends = needed.filter(
        pc.and_(
            pc.is_in(needed["row"], value_set=pa.array(["schema", "topic"])),
            pc.is_valid(needed["position"]),
        )
    )["position"]
    last = pc.struct_field(ends, "entry_id")
    other = pa.table({"ledger_id": pc.struct_field(ends, "ledger_id"), "entries": pc.add(last, 1)})
    most = (
        pa.concat_tables([data, other.cast(data.schema)])
        .group_by("ledger_id")
        .aggregate([("entries", "max")])
    )
    return most["ledger_id"].combine_chunks(), most["entries_max"].combine_chunks()


def _unread(run: Place) -> tuple[int, int]:
    """Return how many topics could not be read in full, and how often listing topics failed."""
    topics: set[str] = set()
    not_listed = 0
    mine = pc.field("row") == "problem"
    for row in iterate_rows(run.read_table(TOPIC_ROWS, REFERENCES, mine, ["topic"])):
        if row["topic"] is None:
            not_listed += 1
        else:
            topics.add(row["topic"])
    return len(topics), not_listed
