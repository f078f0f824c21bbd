"""Find out which corrupt copies and emptied bookies of another run this run checked again.

Reads nothing of the evidence unless the other run found such copies or bookies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.evidence.table_scan import TableScan, iterate_rows
from auditor.first_checker.bookies import is_most
from auditor.first_checker.probing import ANSWERED_READS
from auditor.model.availability import VALID_ANSWERS, Greeting, ReadStatus
from auditor.model.cluster import BookieRecord
from auditor.model.finding import RANGES_MAX
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.summary.changes.compared_finding import ComparedFinding
from auditor.summary.cluster.content import lacking_most, lacks_of
from auditor.summary.last_words import SPOKEN, by_word, newest_words, probed_ledgers

Copies = frozenset[tuple[BookieId, EntryId]]

_NONE: Ids = np.empty(0, np.int64)


def ledgers_reread(run: Place, corrupt: Sequence[ComparedFinding]) -> frozenset[LedgerId]:
    """Return the ledgers whose corrupt copies this run read again and found none of corrupt.

    `corrupt` are the findings ENTRY_CORRUPT of another run. A copy also counts if its bookie is no
    longer asked about the ledger while others are: the metadata does not name it any more.
    """
    wanted = {
        one.ledger_id: copies
        for one in corrupt
        if one.ledger_id is not None and (copies := _copies_of(one))
    }
    ids = sorted(wanted)
    if not ids:
        return frozenset()
    asked: dict[LedgerId, set[BookieId]] = {ledger: set() for ledger in ids}
    columns = ["ledger_id", "bookie_id"]
    for table in run.scan("evidence/answers", ANSWERS).tables_of_ledgers(ids, columns):
        for row in iterate_rows(table):
            asked[row["ledger_id"]].add(row["bookie_id"])
    shown = _copies_shown(run, wanted)
    return frozenset(
        ledger
        for ledger, copies in wanted.items()
        if asked[ledger]
        and all(copy in shown[ledger] or copy[0] not in asked[ledger] for copy in copies)
    )


def _copies_of(finding: ComparedFinding) -> Copies:
    """Return the copies that a finding names; none if it may not name all, or does not say."""
    named = finding.facts.corrupt_copies if finding.facts else {}
    if any(len(entries) >= RANGES_MAX for entries in named.values()):
        return frozenset()
    return frozenset((bookie, entry) for bookie, entries in named.items() for entry in entries)


def _copies_shown(
    run: Place, wanted: Mapping[LedgerId, Copies]
) -> dict[LedgerId, set[tuple[BookieId, EntryId]]]:
    """Return, by ledger, the wanted copies that were read and not corrupt at any look.

    A copy that the bookie no longer has was read, too.
    """
    columns = ["ledger_id", "bookie_id", "entry_id", "status"]
    shown, bad = ({ledger: set[tuple[BookieId, EntryId]]() for ledger in wanted} for _ in range(2))
    for table in run.scan("evidence/reads", READS).tables_of_ledgers(sorted(wanted), columns):
        for row in iterate_rows(table):
            ledger, copy = row["ledger_id"], (row["bookie_id"], row["entry_id"])
            if copy in wanted[ledger] and row["status"] in ANSWERED_READS:
                (bad if row["status"] == ReadStatus.CORRUPT else shown)[ledger].add(copy)
    return {ledger: shown[ledger] - bad[ledger] for ledger in wanted}


def why_content_unknown(
    run: Place,
    verdicts: TableScan,
    records: Iterable[BookieRecord],
    bookies: Collection[BookieId],
) -> dict[BookieId, str]:
    """Return, by bookie, why the run does not show that it holds most of what it should.

    `bookies` are those with BOOKIE_LOST_CONTENT in another run, `records` the last ones of this
    run. A bookie is left out if the finding cannot be true of it, even if it had lost each ledger
    for which it gave no valid answer.
    """
    if not bookies:
        return {}
    mine = pc.field("bookie_id").isin(sorted(bookies))
    answers = run.read_table(
        "evidence/answers", ANSWERS, mine & pc.is_valid(pc.field("ledger_id")), SPOKEN
    )
    words = newest_words(answers)
    unable = {one.bookie_id for one in records if one.greeting is Greeting.UNSUPPORTED}
    read = probed_ledgers(run.stream("evidence/reads", READS, SPOKEN), unable & set(bookies))
    most = lacking_most(lacks_of(verdicts, keep=None))
    lacking = dict(by_word(most["bookie_id"], most["ledger_id"]))
    valid = words.filter(pc.is_in(words["status"], pa.array(sorted(VALID_ANSWERS))))
    listed = dict(by_word(valid["bookie_id"], valid["ledger_id"]))
    found = {}
    for bookie, named in by_word(words["bookie_id"], words["ledger_id"]):
        heard = np.union1d(listed.get(bookie, _NONE), read.get(bookie, _NONE))
        if why := _why_unknown(named, heard, lacking.get(bookie, _NONE)):
            found[bookie] = why
    return found


def _why_unknown(named: Ids, heard: Ids, lacking: Ids) -> str:
    """Return why ledgers that name a bookie do not show that its content exists; "" if they do.

    `heard` are those for which it gave a valid answer, `lacking` those of which it lacks most.
    """
    lacks, unheard = np.intersect1d(named, lacking), np.setdiff1d(named, heard)
    if is_most(len(lacks), len(named)):
        return (
            f"it lacks most of {len(lacks)} of {len(named)} ledgers, and those that are marked,"
            " exempt or not judged do not count"
        )
    if is_most(len(np.union1d(lacks, unheard)), len(named)):
        return f"it answered for {len(named) - len(unheard)} of {len(named)} ledgers"
    return ""
