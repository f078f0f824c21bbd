"""Read what the page shows of a finished run. What cannot be read becomes a sentence on the page.

The margin and what changed are read by the same functions as for their commands.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from auditor.after.comparison import compare_runs
from auditor.after.finished_run import UNREADABLE, open_finished_run, read_about
from auditor.after.margin_of_run import (
    StoredRun,
    margin_basis,
    margin_of_cluster,
    read_copies,
    unreadable_bookies,
)
from auditor.after.page.contents import (
    BookieSeen,
    ChangesSeen,
    Lacking,
    MarginSeen,
    NamespaceBytes,
    PageContents,
    PastRun,
    RackCopies,
)
from auditor.after.page.page_view import TOPICS_SHOWN_MAX
from auditor.after.page.pictures import LEDGERS_MAX
from auditor.after.stored_copies import count_by_bookie
from auditor.errors import ConfigError, OutputError
from auditor.evidence.newest_run import RUN_NAME
from auditor.evidence.rows import bookie_records
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import BOOKIES, LEDGERS, VERDICTS
from auditor.evidence.table_scan import file_errors
from auditor.findings.bookies import by_look
from auditor.findings.doubt import doubt_of
from auditor.model.cluster import ClusterFacts
from auditor.model.codec import decode
from auditor.model.finding import CATALOGUE
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId, LedgerId
from auditor.model.ledger import LedgerState
from auditor.model.summary import Summary, TopicLine
from auditor.model.verdict import Standing
from auditor.summary.about import About
from auditor.summary.previous_run import is_of_cluster, read_summary
from auditor.summary.space import newest_figures

NO_AGE_LIMIT_S = float("inf")
"""The age that a page accepts of its evidence: no limit, because a page says how old the evidence
is."""


COMPARED_MAX = 20_000
"""A page compares at most this many findings, of both runs together. Each takes some 10 kB of
memory. `auditor diff` compares any number."""


def read_margin(directory: Place, summary: Summary) -> MarginSeen | None:
    """Return what more may fail; None for a run of more than LEDGERS_MAX ledgers.

    Raises OutputError if the run lacks a part of what it stored.
    """
    if summary.ledgers.listed > LEDGERS_MAX:
        return None
    try:
        run = read_copies(directory)
    except ConfigError as error:
        raise OutputError(str(error)) from error
    racks = copies_by_rack(run, _copies_in_doubt(directory, summary))
    return MarginSeen(margin_basis(run, NO_AGE_LIMIT_S), margin_of_cluster(run), racks)


def _copies_in_doubt(directory: Place, summary: Summary) -> Mapping[BookieId, int]:
    """Return how many copies only each bookie in doubt lists; empty if the run counted none."""
    if not summary.doubt.copies:
        return {}
    verdicts = directory.scan("verdicts", VERDICTS)
    return doubt_of(directory, verdicts, unreadable_bookies(directory, summary)).by_bookie


def copies_by_rack(run: StoredRun, in_doubt: Mapping[BookieId, int]) -> list[RackCopies]:
    """Return the copies by the location of their bookie. Those that only bookies in doubt list are
    not confirmed.
    """
    locations = run.locations()
    racks: dict[str | None, list[tuple[int, int]]] = {}
    for bookie, (promised, listed) in count_by_bookie(run.copies).items():
        confirmed = max(0, listed - in_doubt.get(bookie, 0))
        racks.setdefault(locations.get(bookie), []).append((promised, confirmed))
    return [
        RackCopies(location, len(counts), *map(sum, zip(*counts, strict=True)))
        for location, counts in racks.items()
    ]


_TOPIC_PARTS = (4, 5)
"""Parts of a topic's name in the metadata of its ledgers: tenant, (cluster,) namespace,
"persistent", topic."""
_CLOSED = pc.field("state") == LedgerState.CLOSED.value


def read_bytes_by_namespace(directory: Place, summary: Summary) -> list[NamespaceBytes] | None:
    """Return the bytes of closed ledgers by Pulsar namespace, from their newest metadata.

    None if no ledger names a topic, or for a run of more than LEDGERS_MAX ledgers.
    """
    if summary.ledgers.listed > LEDGERS_MAX:
        return None
    columns = ["ledger_id", "look", "length_bytes", "custom_metadata"]
    standings = directory.scan("verdicts", VERDICTS).table(["ledger_id", "standing"])
    by_ledger = dict(
        zip(standings["ledger_id"].to_pylist(), standings["standing"].to_pylist(), strict=True)
    )
    newest: dict[LedgerId, tuple[int, str, int]] = {}
    for batch in directory.scan("evidence/ledgers", LEDGERS).batches(columns, _CLOSED):
        for row in batch.to_pylist():
            before = newest.get(row["ledger_id"])
            if before is None or before[0] <= row["look"]:
                name = namespace_of(row["custom_metadata"] or ())
                newest[row["ledger_id"]] = row["look"], name, max(0, row["length_bytes"] or 0)
    if not any(name for _, name, _ in newest.values()):
        return None
    found: dict[str, Counter[str]] = {}
    for ledger, (_, name, length) in newest.items():
        found.setdefault(name, Counter())[by_ledger.get(ledger, "")] += length
    return [
        NamespaceBytes(
            name,
            lengths.total(),
            lengths[Standing.VIOLATED.word],
            lengths[Standing.INDETERMINATE.word],
        )
        for name, lengths in found.items()
    ]


def namespace_of(custom: Sequence[Mapping[str, Any]]) -> str:
    """Return the Pulsar namespace of a ledger by its custom metadata; "" if it names none."""
    name = next((row["value"] for row in custom if row["key"] == "pulsar/managed-ledger"), None)
    parts = (name or b"").decode("utf-8", "replace").split("/")
    return "/".join(parts[:-2]) if len(parts) in _TOPIC_PARTS and all(parts) else ""


def _has_marks(summary: Summary) -> bool:
    return summary.marks is not None and summary.marks.total > 0


def read_grace(directory: Place) -> int:
    """Return the age in ms up to which a mark was no finding."""
    return read_about(directory).terms.underreplication_grace_ms


def read_changes(directory: Place, summary: Summary) -> ChangesSeen | None:
    """Return what became of the findings since the run that this one was compared with.

    None if there was no such run. Raises OutputError if it can no longer be read.
    """
    since = summary.changes.since if summary.changes else None
    if since is None:
        return None
    name = f"run-{since.run_id}"
    if not RUN_NAME.fullmatch(name):
        raise OutputError("the earlier run has no name that a run has")
    path = f"{directory.path.rpartition('/')[0]}/{name}"
    earlier = Place(directory.files, path, path)
    try:
        _, before = open_finished_run(earlier)
        if before.findings_total + summary.findings_total > COMPARED_MAX:
            raise OutputError(
                f"the two runs have more than {COMPARED_MAX:,} findings: use auditor diff"
            )
        found = compare_runs(earlier, replace(directory, missing_is_empty=False))
    except ConfigError as error:
        raise OutputError(str(error)) from error
    return ChangesSeen(since.run_id, since.started_at, tuple(found.notes), found.differences)


HISTORY_RUNS_MAX = 60
"""Runs in the history, including this one: two months of nightly runs. Each costs one file read."""


T = TypeVar("T")


def read_contents(
    directory: Place,
    summary: Summary,
    findings: Sequence[FindingRecord],
    report: str,
    runbooks: str | None = None,
) -> PageContents:
    """Read what the page shows of a finished run. `runbooks` is the address of the documents.

    What cannot be read becomes a sentence on the page.
    """
    problems: list[str] = []

    def attempt(what: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (OutputError, *UNREADABLE) as error:
            problems.append(f"{what}: not shown, because it could not be read ({error}).")
            return None

    return PageContents(
        summary,
        findings,
        report,
        directory.address,
        bookies=attempt("Bookies", lambda: read_bookies(directory)),
        topics=attempt("Topics", lambda: read_topics(directory)),
        history=attempt("History", lambda: read_history(directory, summary)),
        margin=attempt("Margin", lambda: read_margin(directory, summary)),
        changes=attempt("Changes", lambda: read_changes(directory, summary)),
        namespaces=attempt("Bytes", lambda: read_bytes_by_namespace(directory, summary)),
        grace_ms=attempt("Grace", lambda: read_grace(directory)) if _has_marks(summary) else None,
        problems=tuple(problems),
        runbooks=runbooks,
    )


def read_bookies(directory: Place) -> list[BookieSeen]:
    """Return each bookie at the newest look that has it, with its location and what it lacks."""
    around = About.from_json(json.loads(directory.read_text("run.json") or "null")).terms.around
    records = bookie_records(directory.read_table("evidence/bookies", BOOKIES))
    newest = {bookie: record for look in by_look(records) for bookie, record in look.items()}
    newest |= newest_figures(records)
    lacking = count_lacking(directory.scan("verdicts", VERDICTS).batches(["lacks"]))
    return [
        BookieSeen(record, around.location_of(bookie), lacking.get(bookie, Lacking(0, 0)))
        for bookie, record in newest.items()
    ]


def count_lacking(batches: Iterator[pa.RecordBatch]) -> dict[BookieId, Lacking]:
    """Add up the column `lacks` of VERDICTS by bookie. Costs the rows that are not empty."""
    ledgers: Counter[BookieId] = Counter()
    entries: Counter[BookieId] = Counter()
    for batch in batches:
        lacks = batch["lacks"].flatten()
        if not len(lacks):
            continue
        columns = pa.table({name: lacks.field(name) for name in ("bookie_id", "absent")})
        for row in (
            columns.group_by("bookie_id")
            .aggregate([("absent", "sum"), ("absent", "count")])
            .to_pylist()
        ):
            ledgers[row["bookie_id"]] += row["absent_count"]
            entries[row["bookie_id"]] += row["absent_sum"]
    return {bookie: Lacking(ledgers[bookie], entries[bookie]) for bookie in entries}


def read_topics(directory: Place) -> list[TopicLine] | None:
    """Return the worst topics that are hit; None if the run did not look for topics.

    Raises KeyError, TypeError or ValueError if topics.jsonl is damaged.
    """
    text = directory.read_text("topics.jsonl")
    return (
        None
        if text is None
        else [
            decode(TopicLine, json.loads(line))
            for line in islice(text.splitlines(), TOPICS_SHOWN_MAX)
        ]
    )


def read_history(directory: Place, summary: Summary) -> list[PastRun]:
    """Return the finished whole runs of this cluster next to this one, up to it, oldest first.

    They are the newest HISTORY_RUNS_MAX at most. Empty for a run of named ledgers. A run that
    cannot be read is left out.
    """
    if summary.is_partial:
        return []
    home, _, name = directory.path.rpartition("/")
    with file_errors(f"list {home}"):
        infos = directory.files.get_file_info(fs.FileSelector(home))
    names = sorted(
        i.base_name for i in infos if RUN_NAME.fullmatch(i.base_name) and i.base_name < name
    )
    cluster = _facts_of(summary)
    before = [f"{home}/{other}" for other in names[-(HISTORY_RUNS_MAX - 1) :]]
    earlier = (_earlier_run(Place(directory.files, path, path), cluster) for path in before)
    return [*(run for run in earlier if run is not None), past_run(summary)]


def _earlier_run(directory: Place, cluster: ClusterFacts) -> PastRun | None:
    """Return a neighbouring run; None if it is damaged or not a finished whole run of the
    cluster.
    """
    try:
        summary = read_summary(directory)
        if summary is None or summary.is_partial:
            return None
        if not is_of_cluster(summary, cluster):
            return None
        return past_run(summary)
    except (OutputError, KeyError, TypeError, ValueError, AttributeError):
        return None


def _facts_of(summary: Summary) -> ClusterFacts:
    cluster = summary.cluster
    uri, hosts, root = cluster.metadata_service_uri, cluster.hosts, cluster.root or ""
    return ClusterFacts(uri, hosts, root, "", cluster.instance_id, False, None)


def past_run(summary: Summary) -> PastRun:
    """Return the numbers of a run that the history shows. Raises ValueError for an invalid
    share.
    """
    ledgers, verified = summary.ledgers, summary.verified_ratio
    if verified is not None and not 0 <= verified <= 1:
        raise ValueError(f"verified_ratio is {verified}")
    began = str(summary.started_at)
    return PastRun(
        summary.run_id,
        began,
        ledgers.violated,
        ledgers.indeterminate,
        verified,
        findings_by_severity_of(summary),
    )


def findings_by_severity_of(summary: Summary) -> dict[str, int]:
    """Return how many findings of each severity a run has, of any version."""
    found = Counter[str]()
    for kind, facts in CATALOGUE.items():
        found[facts.severity.word] += summary.found(kind).findings
    return dict(found)
