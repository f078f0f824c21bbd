"""Findings on the cluster: far fewer ledgers than before, and marks whose ledgers have no metadata.

**A drop in the number of ledgers.** Bookies collect the data of every ledger without metadata: if
many ledgers vanish at once, it is urgent. Verified: two listings of one run both name fewer ledgers
than the last run's number allows. Not verified: who deleted them, and whether on purpose. New
ledgers hide as many that are gone.

**Marks.** Those whose ledgers have no metadata are stored in evidence/marks. They make one finding,
or it is said why there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from auditor.evidence.ids import Ids, missing_numbers
from auditor.evidence.rows import Row, named_row
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LISTING, LISTINGS, MARKS
from auditor.findings.reference_findings import ReferenceFindings, reference_findings
from auditor.first_checker.underreplication import (
    ConfirmedMark,
    MarkLook,
    SeenMark,
    age_ms,
    confirmed_marks,
    is_suspect,
    judge_marks,
    newest_marks,
    withheld_marks,
)
from auditor.model.evidence import LastPopulation, Terms
from auditor.model.facts import PopulationFacts
from auditor.model.finding import Finding, Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import LedgerId
from auditor.model.ledger import Mark
from auditor.summary.about import About
from auditor.summary.counts import UnlistedMark
from auditor.wire.znode_paths import mark_path
from auditor.witness.finding_lines import ClusterLook, cluster_testimony

FIRST_LISTING, SECOND_LISTING = 1, 2
"""The listing that is audited, and a second one, made at the end if the first was too short."""
LISTINGS_AT = {FIRST_LISTING: "evidence/listing", SECOND_LISTING: "evidence/listing_again"}
"""The table of ids of each listing."""


def listing_row(listing: int, began_at_ms: int, gone: list[LedgerId]) -> Row:
    """Return one row of LISTINGS."""
    return named_row(LISTINGS, listing=listing, began_at_ms=began_at_ms, gone=gone)


def some_gone(before: pa.ChunkedArray, now: pa.ChunkedArray) -> list[LedgerId]:
    """Return the lowest ids of `before` that `now` lacks, at most GONE_NAMED_MAX.

    Costs a sort of both: 8 bytes a ledger.
    """
    gone = missing_numbers(before.to_numpy(), now.to_numpy())
    return [int(ledger_id) for ledger_id in gone[:GONE_NAMED_MAX]]


def listings_of(rows: pa.Table, counts: dict[int, int]) -> tuple[list[Listing], list[LedgerId]]:
    """Return the listings, oldest first, and the ids that are gone according to the newest one.

    `rows` are those of LISTINGS. `counts` has the number of ids by listing.
    """
    in_order = sorted(rows.to_pylist(), key=lambda row: row["listing"])
    listings = [Listing(row["began_at_ms"], counts[row["listing"]]) for row in in_order]
    return listings, list(in_order[-1]["gone"]) if in_order else []


@dataclass(frozen=True, slots=True)
class Population:
    """The result of the comparison.

    `findings` has one or none. `withheld` has a sentence if the audited listing lacked ledgers
    that exist, or could not be repeated. Such a run is not complete, whether or not it has a
    finding. `baseline` is what the next run is compared with, or None for this run.
    """

    findings: tuple[FindingRecord, ...] = ()
    withheld: tuple[str, ...] = ()
    baseline: LastPopulation | None = None


def population(run: Place, about: About) -> Population:
    """Return what the stored listings show. Costs a count of each listing."""
    last = about.previous_population
    if last is None:
        return Population()
    listings, gone = _listings(run)
    baseline = kept_baseline(last, listings)
    finding = judge_population(last, listings, gone, about.facts.instance_id)
    if finding is not None:
        looks = [
            ClusterLook(listing.began_at_ms, "listing", f"{listing.count} ledgers")
            for listing in listings
        ]
        found = cluster_testimony(finding, looks, about.facts)
        unjudged = (_short(last, listings),) if listings[-1].count > listings[0].count else ()
        return Population((found,), unjudged, baseline)
    short = bool(listings) and has_dropped(last, listings[0].count)
    return (
        Population(withheld=(_short(last, listings),), baseline=baseline) if short else Population()
    )


def _listings(run: Place) -> tuple[list[Listing], list[LedgerId]]:
    rows = run.read_table("evidence/listings", LISTINGS)
    counts = {
        listing: run.count(LISTINGS_AT[listing], LISTING) for listing in rows["listing"].to_pylist()
    }
    return listings_of(rows, counts)


def _short(last: LastPopulation, listings: list[Listing]) -> str:
    now = f"{listings[0].count} ledgers were listed, and run {last.run_id} had listed {last.listed}"
    if len(listings) < 2:
        return (
            f"{now}; they could not be listed again, so nothing is said of ledgers that are gone:"
            " run again"
        )
    return (
        f"{now}; listed again at the end of this run there were {listings[-1].count}: what was not"
        " there at first was not judged; run again"
    )


MARKS_AT = "evidence/marks"
LISTED, FIRST_LOOK, LAST_LOOK = 0, 1, 2
"""The listing of all marks, and the two looks at single marks."""


@dataclass(frozen=True, slots=True)
class SeenMarks:
    """The marks that a run saw.

    `marks` were read one by one, `unchecked` only listed. `problem` says why not all were listed.
    """

    marks: tuple[SeenMark, ...] = ()
    unchecked: tuple[SeenMark, ...] = ()
    problem: str = ""
    malformed: tuple[str, ...] = ()
    """Paths of znodes among the marks that mark no ledger."""

    def as_unlisted(self, now_ms: int) -> tuple[UnlistedMark, ...]:
        """Return each mark that existed when it was last read, with its age."""
        newest = (look for _, look in newest_marks((*self.marks, *self.unchecked)))
        return tuple(
            UnlistedMark(age_ms(look.mark, now_ms), look.has_metadata)
            for look in newest
            if look.mark
        )


def mark_row(
    ledger_id: LedgerId, look: int, read_at_ms: int, mark: Mark | None, has_metadata: bool | None
) -> Row:
    """Return one row of MARKS. `mark` is None if it was gone."""
    return named_row(
        MARKS,
        ledger_id=ledger_id,
        look=look,
        read_at_ms=read_at_ms,
        created_ms=mark and mark.created_ms,
        changed_ms=mark and mark.changed_ms,
        has_metadata=has_metadata,
        problem="",
    )


def problem_row(read_at_ms: int, problem: str) -> Row:
    """Return the row of MARKS that says why not all marks could be listed."""
    return named_row(MARKS, look=LISTED, read_at_ms=read_at_ms, problem=problem)


def malformed_row(read_at_ms: int, path: str) -> Row:
    """Return the row of MARKS for a znode that is among the marks and names no ledger."""
    return named_row(MARKS, look=LISTED, read_at_ms=read_at_ms, problem="", malformed_path=path)


def suspects_of(rows: pa.Table, terms: Terms) -> dict[LedgerId, int]:
    """Return the ledgers whose marks need another look, each with the time of the first (ms)."""
    seen = [row for row in rows.to_pylist() if row["look"] == FIRST_LOOK]
    grace_ms = terms.underreplication_grace_ms
    suspects = [row for row in seen if is_suspect(_look(row), terms.judged_at_ms, grace_ms)]
    return {row["ledger_id"]: row["read_at_ms"] for row in suspects}


def seen_marks(rows: pa.Table) -> SeenMarks:
    """Return the rows of MARKS as values, sorted by ledger id."""
    looks: dict[LedgerId, dict[int, MarkLook]] = {}
    problem, malformed = "", []
    for row in rows.sort_by([("ledger_id", "ascending"), ("look", "ascending")]).to_pylist():
        if row["malformed_path"] is not None:
            malformed.append(row["malformed_path"])
        elif row["ledger_id"] is None:
            problem = row["problem"]
        else:
            looks.setdefault(row["ledger_id"], {})[row["look"]] = _look(row)
    marks = tuple(
        SeenMark(i, seen[FIRST_LOOK], seen.get(LAST_LOOK))
        for i, seen in looks.items()
        if FIRST_LOOK in seen
    )
    unchecked = tuple(
        SeenMark(i, seen[LISTED]) for i, seen in looks.items() if FIRST_LOOK not in seen
    )
    return SeenMarks(marks, unchecked, problem, tuple(sorted(malformed)))


def _look(row: Mapping[str, Any]) -> MarkLook:
    return MarkLook(row["read_at_ms"], row["created_ms"], row["changed_ms"], row["has_metadata"])


@dataclass(frozen=True, slots=True)
class MarkFindings:
    """What the marks of unlisted ledgers show.

    `findings` has one or none. `withheld` says in sentences what could not be judged.
    `ledger_ids` are those of the finding, ascending. `malformed` are paths of znodes among the
    marks that mark no ledger.
    """

    findings: tuple[FindingRecord, ...] = ()
    withheld: tuple[str, ...] = ()
    unlisted: tuple[UnlistedMark, ...] = ()
    ledger_ids: tuple[LedgerId, ...] = ()
    malformed: tuple[str, ...] = ()


def mark_findings(run: Place, about: About) -> MarkFindings:
    """Return what evidence/marks shows; nothing in a partial run.

    Holds the marks of all ledgers that were not listed.
    """
    if about.partial:
        return MarkFindings()
    seen = seen_marks(run.read_table(MARKS_AT, MARKS))
    now_ms, grace_ms = about.terms.judged_at_ms, about.terms.underreplication_grace_ms
    found = confirmed_marks(seen.marks, now_ms, grace_ms)
    finding = _mark_finding(seen, about)
    return MarkFindings(
        findings=(_record(finding, found, about),) if finding else (),
        withheld=tuple(
            withheld_marks(
                seen.marks, now_ms, grace_ms, unchecked=len(seen.unchecked), problem=seen.problem
            )
        ),
        unlisted=seen.as_unlisted(now_ms),
        ledger_ids=tuple(sorted(mark.ledger_id for mark in found)) if finding else (),
        malformed=seen.malformed,
    )


def _mark_finding(seen: SeenMarks, about: About) -> Finding | None:
    return judge_marks(
        seen.marks,
        about.terms.judged_at_ms,
        about.terms.underreplication_grace_ms,
        unchecked=len(seen.unchecked),
        path_of=lambda ledger_id: about.facts.root + mark_path(ledger_id),
        replication_disabled=about.facts.replication_disabled,
    )


def _record(finding: Finding, found: list[ConfirmedMark], about: About) -> FindingRecord:
    times = (max(mark.first_at_ms for mark in found), min(mark.again_at_ms for mark in found))
    looks = [ClusterLook(at_ms, "marks", f"{len(found)} without a ledger") for at_ms in times]
    return cluster_testimony(finding, looks, about.facts)


MARKS_WITHOUT_LEDGER, ORPHANED = "marks/without_ledger.txt", "references/orphaned.txt"
"""Files with ids of ledgers, one a line: marked ledgers without metadata, and Pulsar's ledgers
without a reference."""


@dataclass(frozen=True, slots=True)
class OnCluster:
    """The findings on the cluster, and on ledgers that topics reference."""

    listed: Population
    marked: MarkFindings
    referenced: ReferenceFindings

    @property
    def findings(self) -> tuple[FindingRecord, ...]:
        """The findings of all three."""
        return (*self.listed.findings, *self.marked.findings, *self.referenced.findings)

    @property
    def withheld(self) -> tuple[str, ...]:
        """What could not be decided, in sentences."""
        return (*self.listed.withheld, *self.marked.withheld, *self.referenced.withheld)

    @property
    def files(self) -> Mapping[str, Ids]:
        """The files of ledger ids that are not empty, by name."""
        ids = {MARKS_WITHOUT_LEDGER: self.marked.ledger_ids, ORPHANED: self.referenced.orphaned}
        return {name: np.array(ledgers, np.int64) for name, ledgers in ids.items() if ledgers}


def findings_on_cluster(run: Place, about: About) -> OnCluster:
    """Return what the written listings, marks and references show."""
    return OnCluster(
        population(run, about), mark_findings(run, about), reference_findings(run, about)
    )


RUNS_TO_AGREE = 3
"""After this many whole runs in a row list about as few ledgers, the next run is compared with
their number."""


POPULATION_MIN = 100
"""There is no finding if the last run listed fewer ledgers. Two of three ledgers may go on any day,
but not half of a hundred at once."""


GONE_NAMED_MAX = 10
"""At most this many ledgers are named that the last run listed and this one did not. The others are
counted."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One listing of all ledgers: when it began, and how many there were."""

    began_at_ms: int
    count: int


def has_dropped(last: LastPopulation | None, count: int) -> bool:
    """Return whether `count` is below (100 - drop_percent) % of the last run's ledgers.

    False without a last run, if drop_percent is 0, or if that run listed fewer than POPULATION_MIN.
    """
    if last is None or last.drop_percent == 0 or last.listed < POPULATION_MIN:
        return False
    return count * 100 < last.listed * (100 - last.drop_percent)


def kept_baseline(
    last: LastPopulation | None, listings: Sequence[Listing]
) -> LastPopulation | None:
    """Return the run with which the next run is compared, or None if that is this run.

    After a drop the baseline stays until RUNS_TO_AGREE runs agree. Runs agree if none of them lists
    fewer ledgers than another by more than `drop_percent`.
    """
    if last is None or not listings or not has_dropped(last, listings[0].count):
        return None
    if len(listings) < 2:
        return last
    if not has_dropped(last, listings[-1].count):
        return replace(last, low_listed=(), low_runs=0)
    count = listings[0].count
    low = (*last.low_listed, count)
    if has_dropped(replace(last, listed=max(low)), min(low)):
        low = (count,)
    return (
        None
        if len(low) >= RUNS_TO_AGREE
        else replace(last, low_listed=low, low_runs=last.low_runs + 1)
    )


def judge_population(
    last: LastPopulation | None,
    listings: Sequence[Listing],
    gone: Sequence[LedgerId],
    instance_id: str | None,
) -> Finding | None:
    """Return the finding on the cluster if both listings have dropped, else None.

    A single listing gives no finding. `gone` are some of the ledgers that the last run listed and
    this run did not, if that run's evidence still exists.
    """
    if (
        last is None
        or len(listings) < 2
        or not all(has_dropped(last, listing.count) for listing in listings)
    ):
        return None
    first, again = listings[0], listings[-1]
    facts = PopulationFacts(
        previous_run=last.run_id,
        previous_finished_at=last.finished_at,
        previous_ledgers=last.listed,
        ledgers=first.count,
        ledgers_again=again.count,
        apart_ms=again.began_at_ms - first.began_at_ms,
        drop_percent=last.drop_percent,
        some_gone=tuple(gone[:GONE_NAMED_MAX]),
        instance_id=instance_id,
        runs_in_a_row=last.low_runs + 1,
    )
    return Finding(Kind.LEDGER_POPULATION_DROPPED, facts)
