"""Reads, at the end of a run, the evidence for causes and for the content of bookies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.evidence.table_scan import TableScan
from auditor.first_checker.content import Content
from auditor.first_checker.reachability import BookieLook, nobody_answered
from auditor.first_checker.renaming import Renamed
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord
from auditor.model.identity import BookieId
from auditor.summary.about import About
from auditor.summary.causes.cause_rows import Backdrop, Causes, causes_json
from auditor.summary.causes.choosing import Backgrounds, choose
from auditor.summary.causes.clues import (
    BIRTHS,
    MARKS,
    Clues,
    births,
    count_created,
    ledgers_by_locker,
    newest_marks,
    unjudged_by_reason,
)
from auditor.summary.causes.touches import TOUCHING, count_touches
from auditor.summary.cluster.bookies import IS_MARKED
from auditor.summary.cluster.content import contents, lacking_by_bookie, lacks_of
from auditor.summary.last_words import SPOKEN, LastWords, last_words, probed_ledgers


@dataclass(frozen=True, slots=True)
class Heard:
    """What bookies said about the content that they hold. `lacks` holds LACKS rows."""

    lacks: pa.Table
    words: LastWords
    contents: Mapping[BookieId, Content]


def gather_heard(run: Place, verdicts: TableScan, bookies: Sequence[BookieRecord]) -> Heard:
    """Return counts of what the bookies said of ledgers.

    Costs a scan of the answers, and one of the reads if some bookie cannot list.
    """
    unsupported = {
        record.bookie_id for record in bookies if record.greeting is Greeting.UNSUPPORTED
    }
    probed = probed_ledgers(run.stream("evidence/reads", READS, SPOKEN), unsupported)
    later = pc.is_valid(pc.field("ledger_id")) & (pc.field("look") > 1)
    again = pc.unique(
        run.read_table("evidence/answers", ANSWERS, later, ["ledger_id"])["ledger_id"]
    )
    unjudged = [pa.array(ids) for ids in unjudged_by_reason(verdicts).values()]
    words = last_words(
        run.stream("evidence/answers", ANSWERS, SPOKEN),
        again,
        pa.concat_arrays([pa.array([], pa.int64()), *unjudged]),
        {bookie: ids for bookie, ids in probed.items() if len(ids)},
    )
    lacks = lacks_of(verdicts)
    return Heard(lacks, words, contents(lacks, words.asked, probed))


def causes(
    run: Place,
    about: About,
    verdicts: TableScan,
    looks: Sequence[BookieLook],
    findings: Iterable[str],
    words: Heard,
    renamed: Mapping[BookieId, Renamed],
) -> Causes:
    """Return the causes of what was found. `findings` are lines of findings.jsonl, read one by one.

    Reads nothing of the ledgers if none is hit. Otherwise it reads the marks. It also scans the
    ledgers for the creation times of affected ledgers, to count all ledgers by the bookies they
    name, and to count them by creation time. If no bookie answered, our network is at fault, and no
    bookie's silence is a cause.
    """
    around = about.terms.around
    clues = Clues(around.locations)
    for line in findings:
        clues.add(json.loads(line))
    unheard = {} if nobody_answered(looks) else words.words.unheard
    found = clues.marked_ledgers()
    hits = clues.hits(
        verdicts,
        lacking=lacking_by_bookie(words.lacks),
        unheard=unheard,
        marks=_marks(run, found),
        marked=_marked_ledgers(run) if len(found) else found,
        locked=(
            ledgers_by_locker(run.stream("evidence/ledgers", LEDGERS, ["ledger_id", "mark"]))
            if len(found)
            else {}
        ),
    )
    backgrounds = _backgrounds(run, about, hits.affected_ledgers())
    last = {bookie: record for look in looks for bookie, record in look.items()}
    renamed_to = {bookie: one.renamed_to for bookie, one in renamed.items()}
    return causes_json(
        choose(hits, backgrounds), hits, Backdrop(about.facts, last, around.maintenance, renamed_to)
    )


def _backgrounds(run: Place, about: About, affected: Ids) -> Backgrounds:
    """Return what the hits are compared with. Reads nothing if no ledger is affected."""
    locations = about.terms.around.locations
    born = births(
        run.stream("evidence/ledgers", LEDGERS, BIRTHS) if len(affected) else (), affected
    )
    touching = run.stream("evidence/ledgers", LEDGERS, TOUCHING) if len(affected) else ()
    return Backgrounds(
        count_touches(touching, locations, affected),
        locations,
        born,
        lambda edges: count_created(run.stream("evidence/ledgers", LEDGERS, BIRTHS), edges),
        replication_disabled=about.facts.replication_disabled,
    )


def _marked_ledgers(run: Place) -> Ids:
    """Return all ledgers that were marked at any look."""
    ids: Ids = pc.unique(
        run.read_table("evidence/ledgers", LEDGERS, IS_MARKED, ["ledger_id"])["ledger_id"]
    ).to_numpy()
    return ids


def _marks(run: Place, marked: Ids) -> pa.Table:
    """Return the newest MARKS rows of these ledgers. Reads nothing for none."""
    if not len(marked):
        return MARKS.empty_table()
    keep = pc.field("ledger_id").isin(pa.array(marked))
    return newest_marks(
        run.read_table("evidence/ledgers", LEDGERS, keep, ["ledger_id", "look", "mark"])
    )
