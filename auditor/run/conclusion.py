"""End a run: account for the ledgers, gather the findings, count the summary.

Only what was written is read. After that, findings get the times since when they are seen and
whether they are muted, and the summary says what changed. No verdict depends on that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow.compute as pc

from auditor.after.causes import causes
from auditor.after.compared_finding import ComparedFinding
from auditor.after.differences import Change
from auditor.after.history import (
    EarlierRun,
    History,
    UnreadableRun,
    findings_to_act_on,
    first_history,
    history_of,
    trace,
    unknown_history,
)
from auditor.after.mutes import (
    Applied,
    Mutes,
    apply_mutes,
    count_muted,
    state_of,
    why_outgrown,
)
from auditor.after.rechecks import judged_run
from auditor.evidence.ids import Ids
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS, LISTING
from auditor.evidence.table_scan import TableScan
from auditor.findings.bookies import (
    BRIEF_ANSWERS,
    IS_MARKED,
    MARK_KEY,
    STATE,
    UNHEARD_OR_GREETING,
    Missed,
    bookies_missed,
    by_look,
    judge_bookies,
    named_ledgers,
    nobody_answered,
    not_dialled,
    withheld,
)
from auditor.findings.changed_metadata import metadata_changes
from auditor.findings.cookies import judge_cookies
from auditor.findings.disks import judge_disks, read_earlier_bookies
from auditor.findings.doubt import add_doubt, doubt_of
from auditor.findings.failing_requests import Refusals, judge_failing, refusals_of, withheld_failing
from auditor.findings.lost_content import (
    CookieHistory,
    Heard,
    cookie_histories,
    gather_heard,
    is_most,
    judge_content,
    withheld_content,
)
from auditor.findings.lost_logs import Logs, judge_lost_logs, lost_logs, withheld_lost_logs
from auditor.findings.on_cluster import findings_on_cluster
from auditor.findings.open_ledgers import blocked_open
from auditor.findings.overdue import overdue_findings
from auditor.findings.renaming import Renamed, renames
from auditor.findings.topics import topic_hits
from auditor.findings.unreadable_entries import Unreadable, judge_unreadable, unreadable_entries
from auditor.model.cluster import BookieLook, BookieRecord
from auditor.model.finding import Finding, Kind
from auditor.model.finding_record import FindingHistory, FindingRecord
from auditor.model.identity import BookieId
from auditor.model.ledger import LedgerState, RecordStatus
from auditor.model.summary import RenamedBookie, Summary
from auditor.model.verdict import Exempt
from auditor.run.clock_check import clock_sentences
from auditor.run.request_counts import count_requests
from auditor.summary.about import About
from auditor.summary.carried import carried_by_bookie, carried_of
from auditor.summary.counts import account, stale_ledgers, unjudged_ledgers
from auditor.summary.doubted_lists import read_odd_lists, unindexed_bookies
from auditor.summary.due_copies import DUE_COLUMNS, Due, due_by_bookie
from auditor.summary.outcome import FAIL_ON_NEW, exit_code, worst_of
from auditor.summary.previous_run import Previous, unregistered_since
from auditor.summary.run_summary import RunFacts, findings_of, summarise
from auditor.summary.verification import unregistered, verification_of
from auditor.witness.finding_lines import bookie_testimony


@dataclass(frozen=True, slots=True)
class Conclusion:
    """`summary` as in summary.json; `findings` are all of them, the worst first."""

    summary: Summary
    findings: Sequence[FindingRecord]
    ledger_files: Mapping[str, Ids] = field(default_factory=dict)
    """Ids of ledgers by the file's name.

    There is a file for each cause, for stale marks, for marks without a ledger, for each reason to
    be unknown, and for open ledgers whose recovery would be blocked."""
    topics: Sequence[str] | None = None
    """The lines of topics.jsonl, worst first; None if the run did not look for topics."""
    unchecked: Sequence[str] = ()
    """The lines of not_checked_again.jsonl."""


def conclude(
    run: Place,
    about: About,
    bookies: Sequence[BookieRecord],
    previous: Previous,
    *,
    verdicts: TableScan,
    finished_at: str,
    duration_s: Mapping[str, float],
) -> Conclusion:
    """Account for every listed ledger, then count. Raises AccountingError before it counts."""
    account(run.scan("evidence/listing", LISTING), verdicts)
    seen = _bookies(run, about, bookies, verdicts)
    clustered = findings_on_cluster(run, about)
    changed = metadata_changes(run, about)
    carried_on = carried_by_bookie(run)
    found = _bookie_findings(carried_on, seen, about)
    on_others = [*_finding_records(found, seen, about), *clustered.findings, *changed.findings]
    away = _bookies_in_maintenance(about) | unregistered(bookies)
    due: dict[BookieId, Due] = {}
    verified = verification_of(run, about, bookies, away, due)
    on_others += overdue_findings(verified, about, away)
    hits = topic_hits(run, findings_of(verdicts, on_others))
    not_there = _missing_ledgers(run, verdicts) if about.partial else []
    missing = missing_sentences(not_there)
    facts = RunFacts(
        about,
        finished_at=finished_at,
        duration_s=duration_s,
        not_there=len(not_there),
        withheld=(
            *clock_sentences(about.terms),
            *missing,
            *clustered.withheld,
            *changed.withheld,
            *_withheld_sentences(seen, about, found),
        ),
        unregistered_since_ms=seen.since,
        renamed=_renamed_bookies(seen.renamed),
        references=clustered.referenced.counts,
        topics_hit=hits.hit,
        topics_worst=hits.worst,
        nobody_answered=nobody_answered(seen.looks),
        listing_was_short=bool(clustered.listed.withheld),
        unlisted_marks=clustered.marked.unlisted,
        malformed_marks=clustered.marked.malformed,
        baseline=clustered.listed.baseline,
        metadata_compared=changed.counts,
        are_references_known=clustered.referenced.is_complete,
    )
    why = causes(run, about, verdicts, seen.looks, hits.findings, seen.held, seen.renamed)
    costs, copies = count_requests(run, carried_on), _fullest_copies(run, about, due)
    summary = summarise(facts, verdicts, bookies, costs, hits.findings, previous, copies)
    blocked = blocked_open(run, seen.looks, _bookies_in_maintenance(about))
    summary = replace(
        add_doubt(summary, doubt_of(run, verdicts, seen.unreadable)),
        listers=replace(summary.listers, unindexed=unindexed_bookies(run)),
        causes=why.rows,
        causes_rest=why.rest,
        ledgers_without_cause=why.unexplained,
        unjudged_without_cause=why.unexplained_unjudged,
        open_recovery_blocked=blocked.counts,
        carried=carried_of(run, about, verdicts),
        odd_lists=read_odd_lists(run),
        verification=verified,
    )
    unjudged = unjudged_ledgers(verdicts).files | blocked.files
    stale = _stale_marks_file(verdicts)
    files = {**why.files, **stale, **clustered.files, **changed.files, **unjudged}
    topics = None if clustered.referenced.counts is None else hits.lines
    return Conclusion(summary, hits.findings, files, topics)


STALE_MARKS = "marks/stale.txt"
"""The file of ledgers, one id a line, that are marked although every copy was listed or read where
the metadata says."""
_NAMED_MAX = 10  # ledgers in one sentence


def _stale_marks_file(verdicts: TableScan) -> Mapping[str, Ids]:
    """Return the file of stale marks; nothing if there are none."""
    stale = stale_ledgers(verdicts)
    return {STALE_MARKS: stale} if len(stale) else {}


@dataclass(frozen=True, slots=True)
class _Bookies:
    """What a run knows of the bookies. `since`: since when each was not registered, in ms."""

    records: Sequence[BookieRecord]
    looks: Sequence[BookieLook]
    since: Mapping[BookieId, int]
    missed: Mapping[BookieId, Missed]
    renamed: Mapping[BookieId, Renamed]
    held: Heard
    refused: Mapping[BookieId, Refusals]
    logs: Mapping[BookieId, Logs]
    unreadable: Mapping[BookieId, Unreadable]
    earlier: Sequence[BookieRecord]
    """What the run kept of earlier runs."""
    cookies: Mapping[BookieId, CookieHistory]
    """By bookie that lost its content."""


def _bookies(
    run: Place, about: About, records: Sequence[BookieRecord], verdicts: TableScan
) -> _Bookies:
    looks = by_look(records)
    since = unregistered_since(looks, about.unregistered_since_ms)
    renamed = renames(run)
    refused = {} if nobody_answered(looks) else refusals_of(run)
    missed = _missed_bookies(run, since, renamed)
    held, logs = gather_heard(run, verdicts, records), lost_logs(run)
    unreadable = unreadable_entries(run, verdicts)
    earlier = read_earlier_bookies(run)
    cookies = cookie_histories(run, held, records, earlier)
    return _Bookies(
        *(records, looks, since, missed, renamed, held, refused, logs, unreadable, earlier, cookies)
    )


def _missed_bookies(
    run: Place, since: Mapping[BookieId, int], renamed: Mapping[BookieId, Renamed]
) -> dict[BookieId, Missed]:
    """Return what is known of unregistered bookies that closed, non-empty ledgers name."""
    answers = run.read_table("evidence/answers", BRIEF_ANSWERS, UNHEARD_OR_GREETING)
    mine = pc.field("ledger_id").isin(named_ledgers(answers))
    # Bookies of a ledger in recovery are asked too, but it promises no entry yet.
    mine &= ~pc.field("state").isin([LedgerState.IN_RECOVERY.value])
    ledgers = run.scan("evidence/ledgers", LEDGERS)
    states = ledgers.table(STATE, mine)
    found = bookies_missed(answers, states, ledgers.parts_with("mark").table(MARK_KEY, IS_MARKED))
    return {
        bookie: replace(
            missed,
            since_ms=since.get(bookie),
            renamed_to=renamed[bookie].renamed_to if bookie in renamed else None,
        )
        for bookie, missed in found.items()
    }


def _renamed_bookies(renamed: Mapping[BookieId, Renamed]) -> tuple[RenamedBookie, ...]:
    return tuple(
        RenamedBookie(bookie, renaming.renamed_to, tuple(renaming.ledgers))
        for bookie, renaming in sorted(renamed.items())
    )


def _bookie_findings(
    carried_on: Mapping[BookieId, int], seen: _Bookies, about: About
) -> list[Finding]:
    """Return the findings on bookies. `carried_on`: how many carried ledgers name each.

    If an operator named the ledgers, losing most of them says little about all that a bookie holds.
    Neither does losing most of the ledgers that were due: it holds those that were not.
    """
    away = _bookies_in_maintenance(about)
    found = judge_bookies(seen.looks, seen.missed, about.facts, away)
    if not about.partial:
        contents = {
            bookie: content
            for bookie, content in seen.held.contents.items()
            if bookie not in away
            and is_most(content.lacking_most, content.asked + carried_on.get(bookie, 0))
        }
        found += judge_content(seen.looks, contents, seen.cookies)
        found += judge_failing(seen.looks, seen.refused, away)
    accused = {finding.bookie_id for finding in found if finding.bookie_id is not None}
    found += judge_cookies(seen.looks, about.facts, away)
    found += judge_disks(seen.looks, seen.earlier, away)
    failing = {
        finding.bookie_id for finding in found if finding.kind is Kind.BOOKIE_FAILING_REQUESTS
    }
    passed_over = away | {bookie for bookie in failing if bookie is not None}
    found += judge_lost_logs(seen.looks, seen.logs, away | accused)
    return found + judge_unreadable(
        seen.looks, seen.unreadable, passed_over, is_partial=about.partial
    )


def _finding_records(found: Sequence[Finding], seen: _Bookies, about: About) -> list[FindingRecord]:
    """Return the records of findings on bookies, each with the looks at its bookie."""
    in_order = sorted(seen.records, key=lambda record: (record.look, record.read_at_ms))
    on_bookies = []
    for finding in found:
        records = [record for record in in_order if record.bookie_id == finding.bookie_id]
        on_bookies.append(bookie_testimony(finding, records, about.facts))
    return on_bookies


def _withheld_sentences(seen: _Bookies, about: About, found: Sequence[Finding]) -> list[str]:
    """Return what could not be decided about bookies, as sentences."""
    alone: list[str] = []
    if about.partial:
        alone = [*withheld_content(seen.held.contents), *withheld_failing(seen.refused)]
    away = _bookies_in_maintenance(about)
    lost = withheld_lost_logs(seen.logs, found, away)
    gone = withheld(seen.looks, seen.missed, about.facts, away)
    return [*not_dialled(seen.looks), *gone, *alone, *lost]


def _bookies_in_maintenance(about: About) -> frozenset[BookieId]:
    """Return the bookies in planned maintenance: they get no findings."""
    return about.terms.around.maintenance


def _missing_ledgers(run: Place, verdicts: TableScan) -> list[int]:
    """Return the ledgers that an operator named and that did not exist at the first look."""
    gone = (pc.field("look") == 1) & (pc.field("status") == RecordStatus.GONE.value)
    at_once = run.read_table("evidence/ledgers", LEDGERS, gone, ["ledger_id"])["ledger_id"]
    deleted = verdicts.table(["ledger_id"], pc.field("exempt") == Exempt.DELETED.value)["ledger_id"]
    return sorted(set(at_once.to_pylist()) & set(deleted.to_pylist()))


def _fullest_copies(run: Place, about: About, due: Mapping[BookieId, Due]) -> float:
    """Return how many entries the fullest bookie should hold. `due`: what each should hold, if that
    is known.

    0 without a sweep, because counting costs a scan.
    """
    if about.terms.sweep.step == 0:
        return 0.0
    if not due:
        due = due_by_bookie(run.stream("evidence/ledgers", LEDGERS, DUE_COLUMNS))
    return max((share.copies for share in due.values()), default=0.0)


def missing_sentences(not_there: Sequence[int]) -> list[str]:
    """Return a sentence on the ledgers that an operator named and that do not exist, if any."""
    if not not_there:
        return []
    some = ", ".join(map(str, not_there[:_NAMED_MAX]))
    such = "such as " if len(not_there) > _NAMED_MAX else ""
    do = "does" if len(not_there) == 1 else "do"
    gone = f"{len(not_there):,} of the ledgers named {do} not exist ({such}{some})"
    return [f"{gone}: see whether the ids are right"]


def add_history(
    conclusion: Conclusion,
    run: Place,
    about: About,
    verdicts: TableScan,
    bookies: Iterable[BookieRecord],
    earlier: EarlierRun | UnreadableRun | None,
    mutes: Mutes,
) -> Conclusion:
    """Return the conclusion with the history of its findings, the changes and the mutes."""
    found = [ComparedFinding.of(finding) for finding in conclusion.findings]
    try:
        history = _history(conclusion, found, run, about, verdicts, bookies, earlier)
    except Exception as error:  # files of an earlier run must not cost this one its verdicts
        history = unknown_history(
            found, f"the earlier run cannot be used: its files are damaged ({type(error).__name__})"
        )
    applied, problem = _apply(mutes, conclusion.findings)
    findings = [
        replace(finding, history=history_of(chain, became, applied.of(finding), about.run_id))
        for finding, chain, became in zip(
            conclusion.findings, history.chains, history.became, strict=True
        )
    ]
    counted = count_muted(applied, findings, problem)
    summary = replace(
        conclusion.summary,
        changes=history.changes,
        mutes=counted,
        exit_code=_exit_code_of(conclusion, findings, about),
    ).with_also("changes", "mutes")
    unchecked = (
        () if about.partial else [json.dumps(finding.as_json()) for finding in history.unchecked]
    )
    return replace(conclusion, summary=summary, findings=findings, unchecked=unchecked)


def restore_history(
    conclusion: Conclusion,
    about: About,
    stored: Iterable[FindingRecord],
    summary: Summary | None,
) -> Conclusion:
    """Return the conclusion of a replay with the history and the mutes that the run stored, and how
    disks and orphans grew since the run before it.

    The history of a finding that the run did not store is unknown. A run of an earlier version
    stored no history, and none is added.
    """
    if summary is not None and not summary.is_compared:
        return conclusion
    known = {(finding.id, finding.kind): finding for finding in stored}
    findings = [
        replace(
            finding,
            history=_stored_history(known.get((finding.id, finding.kind)), finding, about.run_id),
        )
        for finding in conclusion.findings
    ]
    space = conclusion.summary.space
    if space is not None and summary is not None and summary.space is not None:
        space = replace(space, growth=summary.space.growth)
    references = conclusion.summary.references
    if references is not None and summary is not None and summary.references is not None:
        references = replace(references, orphaned_growth=summary.references.orphaned_growth)
    again = replace(
        conclusion.summary,
        space=space,
        references=references,
        changes=summary.changes if summary else None,
        mutes=summary.mutes if summary else None,
        exit_code=_exit_code_of(conclusion, findings, about),
    ).with_also("changes", "mutes")
    return replace(conclusion, summary=again, findings=findings)


def _exit_code_of(conclusion: Conclusion, findings: Iterable[FindingRecord], about: About) -> int:
    """Return the exit code of a run, in which muted findings do not count.

    With --fail-on new only those count that are news.
    """
    counted = findings_to_act_on(findings) if about.fail_on == FAIL_ON_NEW else findings
    loud = worst_of(finding for finding in counted if not finding.is_muted)
    return exit_code(loud, about.fail_on, conclusion.summary.exit_code_if_clean)


def _stored_history(
    stored: FindingRecord | None, now: FindingRecord, run_id: str
) -> FindingHistory:
    """Return the history of a finding as the run stored it. Neither a mute nor `change` hides a
    finding that is worse now.
    """
    if stored is None or stored.history is None:
        return FindingHistory(news_since=run_id)
    is_quiet = stored.is_muted or stored.change in (Change.STILL, Change.BETTER)
    if is_quiet and why_outgrown(stored.kind, state_of(stored), now):
        return replace(stored.history, muted=None, change=None, news_since=run_id)
    return stored.history


def _apply(mutes: Mutes, findings: Sequence[FindingRecord]) -> tuple[Applied, str | None]:
    """Return what is muted, or why nothing is: `auditor mute` did not write this file."""
    try:
        return apply_mutes(mutes.mutes, findings, mutes.today), mutes.problem
    except Exception as error:  # a file of mutes must not cost a run its verdicts
        return (
            Applied({}),
            (
                "nothing is muted: the file of mutes holds what cannot be compared"
                f" ({type(error).__name__})"
            ),
        )


def _history(
    conclusion: Conclusion,
    found: Sequence[ComparedFinding],
    run: Place,
    about: About,
    verdicts: TableScan,
    bookies: Iterable[BookieRecord],
    earlier: EarlierRun | UnreadableRun | None,
) -> History:
    if earlier is None:
        return first_history(found, about.started_at)
    if isinstance(earlier, UnreadableRun):
        return unknown_history(found, earlier.problem)
    others = [earlier_finding.finding for earlier_finding in (*earlier.found, *earlier.carried)]
    now = judged_run(run, about, conclusion.summary, verdicts, bookies, others)
    return trace(found, earlier, now, about.started_at)
