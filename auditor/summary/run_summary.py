"""Make the summary of a run (docs/names.md, "summary.json") from written tables alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from auditor import __version__
from auditor.evidence.table_scan import TableScan
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration, newest_records
from auditor.model.evidence import LastPopulation, Policy, Terms
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.summary import (
    Assurance,
    BookieCounts,
    BookieInMaintenance,
    ClusterName,
    Maintenance,
    MetadataComparison,
    PlacementJudged,
    Population,
    References,
    RenamedBookie,
    Requests,
    Summary,
    WorstTopics,
)
from auditor.model.verdict import Exempt, Probes, Standing, Unknown, verified_ratio
from auditor.summary.about import About
from auditor.summary.assurance import (
    ANSWERED,
    BOOKIES_NAMED_MAX,
    JUDGED_WORDS,
    NO_SUCH_BOOKIE,
    NOT_ASKED,
    NOT_REGISTERED,
    assurance_of,
    listed_by_lister,
    listers_of,
    missing_on,
)
from auditor.summary.costs import Costs
from auditor.summary.counts import (
    HAS_DETAIL,
    UnlistedMark,
    copies_of_verdicts,
    disputed_ledgers,
    marks_of,
    name_set_aside,
    oldest_mark_s,
    poisoned_ledgers,
    unjudged_ledgers,
)
from auditor.summary.outcome import (
    count_reasons,
    count_standings,
    exit_code,
    exit_code_if_clean,
    findings_by_kind,
    findings_by_severity,
    is_fault,
    outcome_of,
    worst_of,
)
from auditor.summary.previous_run import Previous, longest_unregistered
from auditor.summary.space import space_of, with_orphan_growth
from auditor.summary.sweeps import SweptRun, sampling_of
from auditor.witness.finding_lines import LISTED, PROBED

_UNHEARD = (
    Greeting.SILENT,
    Greeting.REFUSED,
    Greeting.UNSUPPORTED,
    Greeting.UNREGISTERED,
    Greeting.ADDRESS_UNKNOWN,
    Greeting.AUDITOR_LIMITED,
)
_JUDGED = pa.array(JUDGED_WORDS)


def bookie_counts(records: Iterable[BookieRecord], named_by_ledgers: int) -> BookieCounts:
    """Return counts of bookies, each as of the last look at it.

    A bookie that answered at any look counts as answered. `away_bookies` are not registered but
    have a cookie; `gone_bookies` have neither.
    """
    last, answered = newest_records(records), _ever(records, Greeting.ANSWERED)

    def count_greeted(greeting: Greeting) -> int:
        return sum(record.greeting is greeting and b not in answered for b, record in last.items())

    return BookieCounts(
        registered=sum(record.is_registered for record in last.values()),
        readonly=sum(record.registration is Registration.READONLY for record in last.values()),
        named_by_ledgers=named_by_ledgers,
        answered=len(answered),
        silent=count_greeted(Greeting.SILENT),
        refused=count_greeted(Greeting.REFUSED),
        unsupported=count_greeted(Greeting.UNSUPPORTED),
        listed_by_lister=len(listed_by_lister(records)),
        away=len(_away_ids(last)),
        gone=len(_gone_ids(last)),
    )


def unheard(records: Sequence[BookieRecord]) -> dict[str, tuple[BookieId, ...]]:
    """Return the bookies without the greeting ANSWERED at any look, by their last greeting.

    Gone bookies are left out: what they should hold counts as absent, not as unknown. Names at most
    BOOKIES_NAMED_MAX for each greeting.
    """
    last = newest_records(records)
    left_out = {*_ever(records, Greeting.ANSWERED), *_gone_ids(last)}
    named = {
        greeting: sorted(b for b, r in last.items() if r.greeting is greeting and b not in left_out)
        for greeting in _UNHEARD
    }
    return {
        greeting.value: tuple(bookies[:BOOKIES_NAMED_MAX]) for greeting, bookies in named.items()
    }


def away_bookies(records: Iterable[BookieRecord]) -> tuple[BookieId, ...]:
    """Return bookies that are not registered and have a cookie, with or without a finding.

    Names at most BOOKIES_NAMED_MAX.
    """
    return tuple(_away_ids(newest_records(records))[:BOOKIES_NAMED_MAX])


def gone_bookies(records: Iterable[BookieRecord]) -> tuple[BookieId, ...]:
    """Return bookies that ledgers name and that have neither a registration nor a cookie.

    Names at most BOOKIES_NAMED_MAX.
    """
    return tuple(_gone_ids(newest_records(records))[:BOOKIES_NAMED_MAX])


def maintenance(records: Iterable[BookieRecord], terms: Terms, verdicts: TableScan) -> Maintenance:
    """Return the bookies in planned maintenance and the state of each.

    `ledgers` counts the ledgers that could not be judged only because of these bookies.
    """
    last, answered = (
        newest_records(records),
        _ever(records, Greeting.ANSWERED, Greeting.UNSUPPORTED),
    )
    found = (
        BookieInMaintenance(bookie, _maintenance_state(last.get(bookie), bookie in answered))
        for bookie in sorted(terms.around.maintenance)
    )
    return Maintenance(tuple(found), verdicts.count(pc.field("only_maintenance")))


def placement(records: Iterable[BookieRecord], terms: Terms) -> PlacementJudged:
    """Return the placement policy of the judgement, and which bookies have no location.

    Names no bookie without a policy, because none needs a location then.
    """
    rule = terms.placement
    judged = rule.policy is not Policy.NONE
    around = terms.around
    without = (
        sorted(b for b in newest_records(records) if around.location_of(b) is None)
        if judged
        else []
    )
    return PlacementJudged(
        rule.policy.value,
        "java" if rule.java_compatible else "assigned",
        len(without),
        tuple(without[:BOOKIES_NAMED_MAX]),
    )


def assurance_of_run(
    records: Iterable[BookieRecord],
    terms: Terms,
    verdicts: TableScan,
    findings: Sequence[FindingRecord],
) -> Assurance:
    """Return what the verdicts of judged (sound or violated) ledgers rest on: lists or probes.

    `missing_bound` is the largest share of entries that may be missing, at 95 % confidence. It is
    null unless the random probes found nothing missing on any bookie that cannot list.
    """
    judged = pc.field("standing").isin(_JUDGED)
    probed = verdicts.table(["probes", "random_probes"], pc.field("assurance") == PROBED)
    unable = {record.bookie_id for record in records if record.greeting is Greeting.UNSUPPORTED}
    unable |= (
        set(listed_by_lister(records)) if probed.num_rows else set()
    )  # ledgers that its lister did not list
    ledgers = {
        word: verdicts.count(judged & (pc.field("assurance") == word)) for word in (LISTED, PROBED)
    }
    probes = Probes(_sum(probed["probes"]), _sum(probed["random_probes"]))
    return assurance_of(
        ledgers, probes, unable, terms, _lacking_bookies(verdicts) | missing_on(findings)
    )


def _lacking_bookies(verdicts: TableScan) -> set[BookieId]:
    found: set[BookieId] = set()
    for batch in verdicts.parts_with("lacks").batches(["lacks"]):
        found.update(
            pc.unique(pc.struct_field(pc.list_flatten(batch["lacks"]), "bookie_id")).to_pylist()
        )
    return found


def _ever(records: Iterable[BookieRecord], *greetings: Greeting) -> set[BookieId]:
    return {record.bookie_id for record in records if record.greeting in greetings}


def _away_ids(last: Mapping[BookieId, BookieRecord]) -> list[BookieId]:
    return sorted(b for b, record in last.items() if not record.is_registered and record.has_cookie)


def _gone_ids(last: Mapping[BookieId, BookieRecord]) -> list[BookieId]:
    """Return the gone bookies, sorted. Empty if no bookie has a cookie, which proves nothing."""
    if not any(record.has_cookie for record in last.values()):
        return []
    return sorted(
        b for b, record in last.items() if not record.is_registered and not record.has_cookie
    )


def _maintenance_state(record: BookieRecord | None, answered: bool) -> str:
    if record is None:
        return NO_SUCH_BOOKIE
    if answered:
        return ANSWERED
    if not record.is_registered:
        return NOT_REGISTERED
    return record.greeting.value if record.greeting else NOT_ASKED


def _sum(values: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


STAGES = ("load", "ask", "judge", "second_look", "report")


MALFORMED_IN_SUMMARY = 20
"""At most this many malformed marks are named in the summary; evidence/marks has at most a
thousand."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run beside its tables.

    `finished_at` is RFC 3339 in UTC. `duration_s` has seconds by stage.
    """

    about: About
    finished_at: str
    duration_s: Mapping[str, float]
    nobody_answered: bool
    not_there: int
    """Number of ledgers named by an operator that did not exist at any look."""
    withheld: tuple[str, ...]
    """Sentences on what could not be decided, and why."""
    listing_was_short: bool = False
    """Whether the audited listing lacked, or may have lacked, ledgers that exist."""
    unlisted_marks: tuple[UnlistedMark, ...] = ()
    """Marks whose ledgers the listing did not name. Empty in a partial run."""
    malformed_marks: tuple[str, ...] = ()
    """Paths of znodes among the marks that mark no ledger. Empty in a partial run."""
    baseline: LastPopulation | None = None
    """The run with whose number of ledgers the next run's is compared; None for this run."""
    unregistered_since_ms: Mapping[BookieId, int] = field(default_factory=dict)
    """Since when each bookie that is not registered was not, in ms."""
    renamed: tuple[RenamedBookie, ...] = ()
    """Bookies that are not registered and probably there under another name."""
    metadata_compared: MetadataComparison | None = None
    """The comparison with an earlier run; None in a partial run."""
    are_references_known: bool = True
    """Whether it is known of each referenced ledger whether it is lost."""
    references: References | None = None
    topics_hit: int | None = None
    topics_worst: WorstTopics | None = None
    """What Pulsar's topics reference, and which are hit; None if the run looked for no topics."""


def findings_of(
    verdicts: TableScan, beside_verdicts: Iterable[FindingRecord]
) -> list[FindingRecord]:
    """Return all findings, worst severity first, then by kind, ledger, bookie, segment.

    Each takes some 6 kB of memory. This is the only place that reads them from VERDICTS in a run.
    """
    found = list(beside_verdicts)
    for batch in verdicts.parts_with("findings").batches(["findings"]):
        found += map(FindingRecord.from_line, batch["findings"].flatten().to_pylist())
    return sorted(found, key=_rank)


def _rank(found: FindingRecord) -> tuple[object, ...]:
    """Return a sort key. Findings of one kind have the same kind of subject: None is compared with
    None.
    """
    first = found.segment.first_entry_id if found.segment else -1
    place = _PLACES[found.kind]
    return (-found.severity, place, found.ledger_id, found.bookie_id, first)


_PLACES = {kind: place for place, kind in enumerate(Kind)}


def summarise(
    run: RunFacts,
    verdicts: TableScan,
    bookies: Sequence[BookieRecord],
    costs: Costs,
    findings: Sequence[FindingRecord],
    previous: Previous,
    copies: float,
) -> Summary:
    """Return summary.json of VERDICTS rows and all findings. `copies` is as in `Series`."""
    standings = _count_words(batch["standing"] for batch in verdicts.batches(["standing"]))
    unjudged = verdicts.parts_with("unknowns").batches(["unknowns"])
    unknowns = _count_words(batch["unknowns"].flatten() for batch in unjudged)
    listed = standings.total()
    changes = run.metadata_compared
    is_known = run.are_references_known and (changes is None or not changes.unknown)
    complete = not unknowns and not run.nobody_answered and is_known
    all_judged = complete and _is_whole(run, listed)
    fault, worst = is_fault(unknowns), worst_of(findings)
    if_clean = exit_code_if_clean(is_complete=all_judged, is_fault=fault)
    assurance = assurance_of_run(bookies, run.about.terms, verdicts, findings)
    swept = SweptRun(
        run.about.terms.sweep,
        run.about.started_at,
        run.about.partial or run.about.within_ms > 0,
        assurance.probed,
        copies,
    )
    counted = copies_of_verdicts(verdicts)
    marks, marks_by_age = marks_of(
        verdicts, run.unlisted_marks, run.about.terms.underreplication_grace_ms
    )
    aside = verdicts.table(["ledger_id", "unknowns", "detail"], HAS_DETAIL)
    return Summary(
        run_id=run.about.run_id,
        auditor_version=__version__,
        cluster=ClusterName.of(run.about.facts),
        started_at=run.about.started_at,
        finished_at=run.finished_at,
        resumed_at=run.about.resumed_at,
        duration_s={stage: round(run.duration_s.get(stage, 0.0), 3) for stage in STAGES},
        ledgers=count_standings(standings),
        ledgers_by_exemption=count_reasons(Exempt, _count_exempt(verdicts)),
        ledgers_by_unknown=count_reasons(Unknown, unknowns),
        findings=findings_by_kind(findings),
        severities=findings_by_severity(findings),
        bookies=bookie_counts(bookies, costs.bookies_named),
        listers=listers_of(bookies),
        bookies_unheard=unheard(bookies),
        bookies_away=away_bookies(bookies),
        bookies_gone=gone_bookies(bookies),
        maintenance=maintenance(bookies, run.about.terms, verdicts),
        placement=placement(bookies, run.about.terms),
        assurance=assurance,
        sampling=sampling_of(swept, previous.series),
        bookies_unregistered=longest_unregistered(run.unregistered_since_ms),
        bookies_renamed=run.renamed,
        metadata_compared=run.metadata_compared,
        space=space_of(bookies, run.about.terms.around, previous.sizes),
        references=with_orphan_growth(run.references, previous.sizes),
        topics_hit=run.topics_hit,
        topics_worst=run.topics_worst,
        requests=_requests(costs, verdicts),
        paces=costs.paces,
        totals=previous.totals_after(findings),
        request_totals=previous.request_totals_after(costs),
        coverage=_coverage(verdicts, listed),
        copies=counted,
        verified_ratio=verified_ratio(counted),
        oldest_underreplicated_s=oldest_mark_s(verdicts),
        marks=marks,
        marks_by_age=marks_by_age,
        unjudged=unjudged_ledgers(verdicts).counts,
        malformed_marks=run.malformed_marks[:MALFORMED_IN_SUMMARY],
        population=None if run.about.partial else _population(run, listed),
        has_no_answer=run.nobody_answered,
        is_replication_disabled=run.about.facts.replication_disabled,
        is_partial=run.about.partial,
        poison=name_set_aside(poisoned_ledgers(aside)),
        checkers_disagree=name_set_aside(disputed_ledgers(aside)),
        withheld=run.withheld,
        is_complete=complete,
        outcome=outcome_of(worst, is_complete=all_judged, is_fault=fault),
        exit_code=exit_code(worst, run.about.fail_on, if_clean),
        exit_code_if_clean=if_clean,
    ).without("changes", "mutes", "stored", "newest_run")


def _is_whole(run: RunFacts, listed: int) -> bool:
    """Return whether the run lacks no ledger that it should have judged."""
    if run.not_there or run.listing_was_short:
        return False
    return listed > 0 or run.about.allow_empty


def _population(run: RunFacts, listed: int) -> Population:
    """Return the number of ledgers with which the next whole run is compared.

    It is this run's, or an earlier run's if this run lists far fewer ledgers.
    """
    baseline = run.baseline or LastPopulation(run.about.run_id, run.finished_at, listed, 0)
    return Population(
        baseline.run_id,
        baseline.finished_at,
        baseline.listed,
        baseline.low_listed,
        baseline.low_runs,
    )


def _count_words(columns: Iterable[pa.Array]) -> Counter[str]:
    """Return how often each word occurs in the parts of a column."""
    found: Counter[str] = Counter()
    for words in columns:
        for row in pc.value_counts(words).to_pylist():
            if row["values"] is not None:
                found[row["values"]] += row["counts"]
    return found


def _count_exempt(verdicts: TableScan) -> Counter[str]:
    exempt = pc.field("standing") == Standing.EXEMPT.word
    return _count_words(batch["exempt"] for batch in verdicts.batches(["exempt"], exempt))


def _requests(costs: Costs, verdicts: TableScan) -> Requests:
    column = "listing_false_negatives"
    late = (batch[column] for batch in verdicts.batches([column]))
    return Requests(
        zookeeper_reads=costs.zookeeper_reads,
        bookie_requests=costs.bookie_requests,
        bookie_bytes=costs.bookie_bytes,
        retries=costs.retries,
        confirming_reads=costs.confirming_reads,
        spot_reads=costs.spot_reads,
        doubt_reads=costs.doubt_reads,
        scrub_reads=costs.scrub_reads,
        listing_false_negatives=sum(int(pc.sum(counts).as_py() or 0) for counts in late),
    )


def _coverage(verdicts: TableScan, listed: int) -> float:
    """Return the share of ledgers with no reason to be unknown and not exempt for their mark.

    1.0 if there are no ledgers.
    """
    if listed == 0:
        return 1.0
    uncovered = 0
    columns = ["unknowns", "standing", "exempt"]
    for batch in verdicts.parts_with("unknowns", "exempt").batches(columns):
        unknown = pc.greater(pc.list_value_length(batch["unknowns"]), 0)
        standing = pc.equal(batch["standing"], Standing.EXEMPT.word)
        marked = pc.and_kleene(
            standing, pc.equal(batch["exempt"], Exempt.MARKED_UNDERREPLICATED.value)
        )
        uncovered += int(pc.sum(pc.or_(unknown, marked)).as_py() or 0)
    return round(1 - uncovered / listed, 6)
