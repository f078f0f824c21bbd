"""What a stored run knows of the subjects of another run's findings, and whether it checked them.

A run may have asked again about the corrupt copies, the emptied bookies and the changed metadata of
the other run. Nothing of the evidence is read unless the other run found such.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.after.compared_finding import ComparedFinding, Subjects
from auditor.evidence.gathered import ledger_records
from auditor.evidence.ids import Ids
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import ANSWERS, LEDGERS, READS
from auditor.evidence.table_scan import TableScan, iterate_rows
from auditor.findings.changed_metadata import field_values
from auditor.findings.lost_content import (
    SPOKEN,
    by_word,
    is_most,
    lacking_most,
    lacks_of,
    newest_words,
    probed_ledgers,
)
from auditor.model.availability import (
    ANSWERED_READS,
    LISTED_BY_LISTER,
    VALID_ANSWERS,
    Greeting,
    ReadStatus,
)
from auditor.model.cluster import BookieRecord, Registration, newest_records
from auditor.model.facts import MetadataField
from auditor.model.finding import (
    BESIDE_VERDICTS,
    CATALOGUE,
    MATCHED_BY_KIND,
    RANGES_MAX,
    Family,
    Kind,
    Subject,
)
from auditor.model.identity import BookieId, EntryId, LedgerId
from auditor.model.ledger import LedgerMetadata
from auditor.model.summary import Summary
from auditor.model.verdict import Exempt
from auditor.summary.about import About
from auditor.witness.finding_lines import PROBED

_NOT_PUT_BACK = "the later run did not read its metadata as it was before the change"
SAMPLED = "the later run only read a sample of its entries"
UNREAD = (
    "its corrupt copies were not all read again: a list does not show whether the bytes are right"
)
POPULATION_DROP = "population_drop"
"""The name of the drop in the number of ledgers that a run allows (percent); None if it compared
its number with that of no run."""

_SETTING_OF = {
    Kind.PLACEMENT_FAILED: "placement",
    Kind.PLACEMENT_SOFT: "placement",
    Kind.UNDERREPLICATED_BEYOND_GRACE: "underreplication_grace_ms",
    Kind.MARK_WITHOUT_LEDGER: "underreplication_grace_ms",
    Kind.LEDGER_STUCK: "stuck_after_ms",
    Kind.LEDGER_ORPHANED: "orphan_age_ms",
    Kind.LEDGER_POPULATION_DROPPED: POPULATION_DROP,
}
"""The setting on which a kind depends: runs with different values judge it differently."""
_NEEDS_EVERY_ENTRY = frozenset({Kind.UNDERREPLICATED_UNRECOVERABLE, Kind.ENTRIES_BEYOND_END})
"""Kinds outside the family `entry` that a run finds only among entries that it looked at."""
_NEEDS_ANSWERS = frozenset({Kind.BOOKIE_LOST_CONTENT, Kind.ENTRY_LOG_LOST})
_GIVES_NO_ANSWERS = frozenset({Kind.BOOKIE_SILENT_YET_REGISTERED, Kind.BOOKIE_FAILING_REQUESTS})


@dataclass(frozen=True, slots=True)
class Row:
    """A VERDICTS row, as far as it shows whether a ledger was judged."""

    exempt: str | None
    unknowns: tuple[str, ...]
    assurance: str | None = None

    @property
    def is_probed(self) -> bool:
        """Whether the verdict rests on entry reads."""
        return self.assurance == PROBED


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run knows of the subjects of the other run's findings.

    `rows` has those ledgers that the run listed. `bookies` has the bookies that it saw, each with
    its registration and whether it answered, as of the last look; `listers` those whose lister
    listed. `withholds`: the run could not decide something about bookies or the cluster.
    `are_references_known`: it read everything that Pulsar's topics reference. `terms` are the terms
    of judgement as JSON. `baseline`: the run with whose number of ledgers this one was compared.
    `nobody_answered`: no bookie did, and the run therefore judged none. `are_ages_counted`: it
    counted how long ago copies were read, and had a period for it.

    The last three are about findings of the other run. `reread` has the ledgers whose corrupt
    copies this run all read again, `put_back` those whose metadata is again as it was before it
    changed. `content_unknown` says by bookie why this run does not show whether the
    bookie holds what it should.
    """

    is_partial: bool
    withholds: bool
    are_references_known: bool
    rows: Mapping[LedgerId, Row]
    bookies: Mapping[BookieId, tuple[Registration, bool]]
    listers: frozenset[BookieId] = frozenset()
    maintenance: frozenset[BookieId] = frozenset()
    terms: Mapping[str, Any] = field(default_factory=dict)
    baseline: str | None = None
    nobody_answered: bool = False
    are_ages_counted: bool = False
    reread: frozenset[LedgerId] = frozenset()
    put_back: frozenset[LedgerId] = frozenset()
    content_unknown: Mapping[BookieId, str] = field(default_factory=dict)


def setting_of(kind: Kind) -> str | None:
    """Return the setting on which a kind depends, None if there is none."""
    return _SETTING_OF.get(kind)


def is_judged_otherwise(kind: Kind, earlier: Judged, later: Judged) -> str:
    """Return the setting on which a kind depends if the runs differ in it, else ""."""
    name = setting_of(kind)
    return (
        name
        if name is not None and differs(name, earlier.terms.get(name), later.terms.get(name))
        else ""
    )


def differs(name: str, value: Any, other: Any) -> bool:
    """Return whether two runs with these values of a setting judge differently.

    A run that accepted its number of ledgers has no POPULATION_DROP and differs from no run.
    """
    return value != other and not (name == POPULATION_DROP and None in (value, other))


def why_new(subjects: Subjects, kind: Kind, earlier: Judged, later: Judged) -> str:
    """Return why the earlier run could not have this finding; "" if it could."""
    if setting := is_judged_otherwise(kind, earlier, later):
        return f"the earlier run had another setting ({setting})"
    if subjects.ledger_id is None or kind in BESIDE_VERDICTS:
        return "the earlier run was of named ledgers" if earlier.is_partial else ""
    row = earlier.rows.get(subjects.ledger_id)
    if row is None:
        return (
            "the earlier run did not name this ledger"
            if earlier.is_partial
            else "the earlier run did not list this ledger"
        )
    if row.unknowns:
        return f"the earlier run could not judge it ({', '.join(row.unknowns)})"
    if row.exempt:
        return f"it was {row.exempt} in the earlier run"
    return "the earlier run only read a sample of its entries" if _is_sampled(kind, row) else ""


def why_unchecked(
    subjects: Subjects, kind: Kind, earlier: Judged, later: Judged, now: frozenset[Kind]
) -> str:
    """Return why the later run did not check the finding; "" if it did.

    `now`: the kinds that the later run found on the same ledger or bookie.
    """
    if setting := is_judged_otherwise(kind, earlier, later):
        return f"the later run had another setting ({setting})"
    is_around = CATALOGUE[kind].subject is not Subject.LEDGER or kind in BESIDE_VERDICTS
    if is_around and kind not in MATCHED_BY_KIND:
        return _why_unchecked_around(subjects, kind, later, now)
    assert subjects.ledger_id is not None, subjects
    row = later.rows.get(subjects.ledger_id)
    if row is None:
        return (
            "the later run did not name this ledger"
            if later.is_partial
            else "the later run did not list this ledger"
        )
    if row.exempt == Exempt.DELETED:
        return "the ledger was not there when the later run read it last"
    if kind in BESIDE_VERDICTS:
        return "" if subjects.ledger_id in later.put_back else _NOT_PUT_BACK
    if row.unknowns:
        return f"the later run could not judge it ({', '.join(row.unknowns)})"
    if row.exempt == Exempt.MARKED_UNDERREPLICATED and subjects.family != Family.METADATA:
        return _why_excused(now)
    if kind is Kind.ENTRY_CORRUPT and subjects.ledger_id in later.reread:
        return ""
    if _is_sampled(kind, row):
        return SAMPLED
    return UNREAD if kind is Kind.ENTRY_CORRUPT else ""


def why_no_better(subjects: Subjects, kind: Kind, later: Judged) -> str:
    """Return why a weaker finding of the later run may not be the whole truth; "" if it is.

    `kind` is that of the earlier run.
    """
    if subjects.ledger_id is None or kind in BESIDE_VERDICTS:
        return ""
    row = later.rows.get(subjects.ledger_id)
    if row is None or row.unknowns:
        reasons = "" if row is None else f" ({', '.join(row.unknowns)})"
        return f"the later run could not judge all of it{reasons}"
    if row.exempt == Exempt.MARKED_UNDERREPLICATED and subjects.family != Family.METADATA:
        return "it is marked under-replicated in the later run"
    is_unread = kind is Kind.ENTRY_CORRUPT and subjects.ledger_id not in later.reread
    return UNREAD if is_unread else ""


def _is_sampled(kind: Kind, row: Row) -> bool:
    return row.is_probed and (CATALOGUE[kind].family is Family.ENTRY or kind in _NEEDS_EVERY_ENTRY)


def _why_excused(now: frozenset[Kind]) -> str:
    """Return what a mark means for the other findings on its ledger."""
    if Kind.UNDERREPLICATED_UNRECOVERABLE in now:
        return "it has UNDERREPLICATED_UNRECOVERABLE now, which stands alone"
    if Kind.UNDERREPLICATED_BEYOND_GRACE in now:
        return "it is marked under-replicated beyond grace now (UNDERREPLICATED_BEYOND_GRACE)"
    return "its under-replication mark, within grace, excuses it now"


def _why_unchecked_around(
    subjects: Subjects, kind: Kind, later: Judged, now: frozenset[Kind]
) -> str:
    """Return why the later run did not check a finding on a bookie, the cluster, or a referenced
    ledger.

    No run lists a ledger without metadata: its row says nothing.
    """
    if later.is_partial:
        return "the later run was of named ledgers"
    if later.withholds:
        return "the later run withheld something about bookies or the cluster; see its report"
    if subjects.family == Family.REFERENCE:
        return (
            ""
            if later.are_references_known
            else "the later run could not read everything that topics reference"
        )
    if kind is Kind.VERIFICATION_OVERDUE and not later.are_ages_counted:
        return "the later run did not count how long ago copies were read"
    if subjects.bookie_id is None:
        return ""
    if later.nobody_answered:
        return "no bookie answered the later run"
    return _why_unseen(subjects.bookie_id, kind, later, now)


def _why_unseen(bookie: BookieId, kind: Kind, later: Judged, now: frozenset[Kind]) -> str:
    """Return why the later run cannot say whether a bookie still has a finding; "" if it can."""
    if bookie in later.maintenance:
        return "the bookie is in planned maintenance in the later run"
    registration, has_answered = later.bookies.get(bookie, (Registration.NONE, False))
    if not has_answered and registration is not Registration.NONE:
        return "the bookie gave the later run no answer"
    if not has_answered:
        return "" if kind is Kind.BOOKIE_LOST_UNNOTICED else "the bookie is not registered any more"
    if kind is Kind.ENTRY_LOG_LOST and bookie not in later.listers:
        return "its lister did not list for the later run"
    failing = sorted(now & _GIVES_NO_ANSWERS)
    if failing and kind in _NEEDS_ANSWERS:
        return f"it has {', '.join(failing)} now"
    return later.content_unknown.get(bookie, "") if kind is Kind.BOOKIE_LOST_CONTENT else ""


Copies = frozenset[tuple[BookieId, EntryId]]

_NONE: Ids = np.empty(0, np.int64)


def ledgers_reread(run: Place, corrupt: Sequence[ComparedFinding]) -> frozenset[LedgerId]:
    """Return the ledgers whose corrupt copies this run read again and found none of corrupt.

    `corrupt` are the findings ENTRY_CORRUPT of another run. A copy also counts if its bookie is no
    longer asked about the ledger while others are: the metadata does not name it any more.
    """
    wanted = {
        finding.ledger_id: copies
        for finding in corrupt
        if finding.ledger_id is not None and (copies := _copies_of(finding))
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
    unable = {record.bookie_id for record in records if record.greeting is Greeting.UNSUPPORTED}
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


def ledgers_put_back(run: Place, others: Iterable[ComparedFinding]) -> frozenset[LedgerId]:
    """Return the ledgers of CLOSED_METADATA_CHANGED whose metadata this run last read as it was
    before. `others` are the findings of another run.

    That this run has no such finding does not show it: it may have compared with a run that read
    the changed metadata.
    """
    before = {
        finding.ledger_id: finding.facts.metadata_before
        for finding in others
        if finding.kind is Kind.CLOSED_METADATA_CHANGED
        and finding.ledger_id is not None
        and finding.facts is not None
    }
    if not before:
        return frozenset()
    newest: dict[LedgerId, LedgerMetadata] = {}
    for table in run.scan("evidence/ledgers", LEDGERS).tables_of_ledgers(
        sorted(before), LEDGERS.names
    ):
        for record in ledger_records(table.sort_by("look")):
            if record.metadata is not None:
                newest[record.ledger_id] = record.metadata
    return frozenset(
        ledger_id
        for ledger_id, metadata in newest.items()
        if all(
            value in (None, before[ledger_id].get(name.value, value))
            for name, value in zip(MetadataField, field_values(metadata), strict=True)
        )
    )


HEARD = (Greeting.ANSWERED, Greeting.UNSUPPORTED)
"""The greetings of bookies that answer."""


def judged_run(
    run: Place | None,
    about: About,
    summary: Summary,
    verdicts: TableScan,
    records: Iterable[BookieRecord],
    others: Sequence[ComparedFinding],
) -> Judged:
    """Return what a run knows of its bookies, its cluster and the subjects of `others`.

    `others` are the findings of the other run. `run` is None for the earlier of two runs: then it
    is not looked up what was checked again. Raises OutputError if the verdicts or the evidence
    cannot be read.
    """
    references, verified = summary.references, summary.verification
    ledgers = {finding.ledger_id for finding in others if finding.ledger_id is not None}
    corrupt = [finding for finding in others if finding.kind is Kind.ENTRY_CORRUPT]
    emptied = {
        finding.bookie_id
        for finding in others
        if finding.kind is Kind.BOOKIE_LOST_CONTENT and finding.bookie_id is not None
    }
    last = newest_records(records)
    baseline = about.previous_population
    return Judged(
        is_partial=about.partial,
        withholds=bool(summary.withheld),
        are_references_known=references is not None
        and not references.unreadable
        and not references.unknown,
        rows=_rows(verdicts, sorted(ledgers)),
        bookies={
            record.bookie_id: (record.registration, record.greeting in HEARD)
            for record in last.values()
        },
        listers=frozenset(
            record.bookie_id
            for record in last.values()
            if record.greeting_detail.startswith(LISTED_BY_LISTER)
        ),
        maintenance=about.terms.around.maintenance,
        terms=terms_json(about),
        baseline=None if baseline is None else baseline.run_id,
        nobody_answered=summary.has_no_answer,
        are_ages_counted=verified is not None
        and verified.counts is not None
        and verified.period_ms > 0,
        reread=ledgers_reread(run, corrupt) if run else frozenset(),
        put_back=ledgers_put_back(run, others) if run else frozenset(),
        content_unknown=why_content_unknown(run, verdicts, last.values(), emptied) if run else {},
    )


def terms_json(about: About) -> dict[str, Any]:
    """Return the terms of judgement as JSON, with the bookies in maintenance and the drop of the
    number of ledgers that is allowed.
    """
    terms, baseline = about.as_json()["terms"], about.previous_population
    drop = None if baseline is None else baseline.drop_percent
    return {**terms, "maintenance": terms["around"]["maintenance"], POPULATION_DROP: drop}


def _rows(verdicts: TableScan, ledgers: Sequence[LedgerId]) -> dict[LedgerId, Row]:
    rows: dict[LedgerId, Row] = {}
    columns = ["ledger_id", "exempt", "unknowns", "assurance"]
    for table in verdicts.tables_of_ledgers(ledgers, columns):
        rows |= {
            row["ledger_id"]: Row(row["exempt"], tuple(row["unknowns"]), row["assurance"])
            for row in table.to_pylist()
        }
    return rows
