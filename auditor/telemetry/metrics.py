"""The metrics of a run as text, and their delivery to node_exporter or a Pushgateway.

The names are those of docs/names.md, "Metrics". All families are built from one summary at the end
of a run. Nothing is counted during the run: a task that Spark repeats cannot count twice. The
families have no `_created` series.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from http.client import HTTPException
from itertools import chain
from math import nan
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import Request, build_opener

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import (
    basic_auth_handler,
    default_handler,
    generate_latest,
    push_to_gateway,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from auditor.config import without_credentials
from auditor.console import without_controls
from auditor.findings.gone_ledgers import Gone
from auditor.model.finding import CATALOGUE
from auditor.model.summary import (
    MarkCounts,
    MetadataComparison,
    MuteCounts,
    References,
    RequestOutcomes,
    RequestTotals,
    Sampling,
    Space,
    Summary,
)
from auditor.model.verdict import CopyCounts, Exempt, Standing, Unknown
from auditor.report.layout import moment
from auditor.report.outcome_text import OUTCOMES
from auditor.report.tally import Tally, tally_of
from auditor.summary.counts import MARK_STATES
from auditor.summary.run_summary import STAGES
from auditor.summary.sweeps import LENGTHS
from auditor.witness.finding_lines import LISTED, PROBED

COPY_EVIDENCE = ("expected", "listed", "read", "assumed")
READ_AGES = ("within_day", "within_week", "within_period", "never", "overdue")
PREFIX = "bookkeeper_auditor_"
SUCCESSES = frozenset({"SOUND", "VIOLATED", "INCOMPLETE"})
"""Outcomes that update the time of the last success: the auditor finished, whatever it found."""


_OUTCOME = PREFIX + "last_run_outcome"
_TIMESTAMP = PREFIX + "last_run_timestamp_seconds"
_SUCCESS = PREFIX + "last_success_timestamp_seconds"


def exposition(
    summary: Summary, *, cluster: str, spark_version: str = "", previous_text: str = ""
) -> str:
    """Return the metrics of a finished run in Prometheus' text format. Pure.

    `summary` is summary.json. The counters are the sums over runs that it holds: `totals` by kind,
    and `request_totals` ({bookie_requests, zookeeper_reads: {answered, failed}}). Without
    `request_totals` they are this run's own numbers. `previous_text` has the metrics before this
    run: they give the time of last success if this run is not a success.
    """
    finished = moment(summary.finished_at)
    assert finished is not None, "a finished run has an end"
    outcome = summary.outcome
    success = finished.timestamp() if outcome in SUCCESSES else _last_success(previous_text)
    return _text([
        *_counts(summary, cluster),
        _muted_findings(summary, cluster),
        *_certainty(summary, cluster),
        *_disks(summary.space or Space(), cluster),
        *_orphans(summary.references, cluster),
        *_requests(summary, cluster),
        *_run(cluster, outcome, finished.timestamp(), success),
        _build(cluster, summary.auditor_version, spark_version),
    ])  # fmt: skip


def failed_run(
    previous_text: str, *, outcome: str, now_s: float, cluster: str, version: str
) -> str:
    """Return the metrics after a failed run: the last run's, with a new outcome and timestamp.

    Without a readable `previous_text` they are outcome, timestamp, build, and a last success of 0
    (never).
    """
    kept = _parse_families(previous_text)
    if not kept:
        return _text([*_run(cluster, outcome, now_s, 0.0), _build(cluster, version, "")])
    own = kept[0].samples[0].labels.get("cluster", cluster)
    fresh = {
        family.name: family for family in _run(own, outcome, now_s, 0.0) if family.name != _SUCCESS
    }
    return _text([*(family for family in kept if family.name not in fresh), *fresh.values()])


def _gauge(
    name: str, says: str, cluster: str, samples: Iterable[tuple[dict[str, str], float]]
) -> Metric:
    return _family(GaugeMetricFamily, name, says, cluster, samples)


def _counter(
    name: str, says: str, cluster: str, samples: Iterable[tuple[dict[str, str], float]]
) -> Metric:
    return _family(CounterMetricFamily, name, says, cluster, samples)


def _family(
    make: Callable[..., Any],
    name: str,
    says: str,
    cluster: str,
    samples: Iterable[tuple[dict[str, str], float]],
) -> Metric:
    """Return a family with the label `cluster` and the labels of `samples`.

    There is at least one sample, and all have the same labels.
    """
    rows = list(samples)
    family: Metric = make(name, says, labels=["cluster", *rows[0][0]])
    for labels, value in rows:
        family.add_metric([without_controls(label) for label in (cluster, *labels.values())], value)  # type: ignore[attr-defined]
    return family


def _counts(summary: Summary, cluster: str) -> Iterator[Metric]:
    """Yield the counts of ledgers and findings, of every kind, standing and reason, zeros too."""
    yield _gauge(
        PREFIX + "last_run_violations",
        "Ledgers (or bookies; 1 for the cluster) in violation, by kind of finding.", cluster,
        [({"kind": k.value, "severity": f.severity.word}, summary.hits(k))
        for k, f in CATALOGUE.items()],
    )  # fmt: skip
    yield _counter(
        PREFIX + "violations", "Findings that were new in a run, added up over runs.", cluster,
        [({"kind": k.value}, float(summary.new_in_all_runs(k))) for k in CATALOGUE],
    )  # fmt: skip
    yield from _by_severity(tally_of(summary), cluster)
    yield _gauge(
        PREFIX + "last_run_ledgers", "Ledgers by standing; they add up to the ledgers listed.",
        cluster,
        [({"standing": s.word}, float(summary.ledgers.of(s))) for s in Standing],
    )  # fmt: skip
    yield _gauge(
        PREFIX + "last_run_indeterminate_ledgers",
        "Ledgers that could not be judged, or not in full, by reason (or reasons).", cluster,
        [({"reason": r.value}, float(summary.unknown(r))) for r in Unknown],
    )  # fmt: skip
    yield _gauge(
        PREFIX + "last_run_exempt_ledgers", "Ledgers that are not judged, by reason.", cluster,
        [({"reason": r.value}, float(summary.exempt(r))) for r in Exempt],
    )  # fmt: skip
    yield _gauge(
        PREFIX + "last_run_coverage_ratio",
        "Share of ledgers that carry no reason to be unknown and are not merely excused by a mark.",
        cluster, [({}, summary.coverage)],
    )  # fmt: skip
    yield _gauge(
        PREFIX + "last_run_oldest_underreplicated_seconds",
        "Age of the oldest under-replication mark.", cluster,
        [({}, summary.oldest_underreplicated_s)],
    )  # fmt: skip
    yield _gauge(
        PREFIX + "last_run_duration_seconds", "Time the last finished run took, by stage.", cluster,
        [({"stage": stage}, summary.duration_s.get(stage, 0.0)) for stage in STAGES],
    )  # fmt: skip


def _by_severity(tally: Tally, cluster: str) -> Iterator[Metric]:
    """Yield the numbers of the first screen; NaN where an earlier run could not be compared."""
    for name, says, values in (
        (
            "findings",
            "Findings by severity, muted ones too.",
            [row.counts.findings for row in tally.rows],
        ),
        (
            "new_findings",
            "Findings that are new since the earlier run, by severity; NaN where no earlier run"
            " could be compared.",
            [nan if row.new is None else row.new for row in tally.rows],
        ),
        (
            "hit_ledgers",
            "Ledgers with findings, each at the severity of its worst finding.",
            [row.counts.ledgers for row in tally.rows],
        ),
        (
            "hit_bookies",
            "Bookies with findings, each at the severity of its worst finding.",
            [row.counts.bookies for row in tally.rows],
        ),
    ):
        samples = [
            ({"severity": row.severity.word}, float(value))
            for row, value in zip(tally.rows, values, strict=True)
        ]
        if samples:
            yield _gauge(f"{PREFIX}last_run_{name}", says, cluster, samples)


def _muted_findings(summary: Summary, cluster: str) -> Metric:
    mutes = summary.mutes or MuteCounts()
    says = (
        "Of last_run_violations, the ledgers (or bookies; 1 for the cluster) all of whose findings"
        " of the kind are muted."
    )
    samples = [
        ({"kind": k.value, "severity": f.severity.word}, float(mutes.of(k)))
        for k, f in CATALOGUE.items()
    ]
    return _gauge(PREFIX + "last_run_muted_findings", says, cluster, samples)


def _since_earlier_run(compared: MetadataComparison | None, cluster: str) -> Iterator[Metric]:
    """Yield what the comparison with the newest earlier run counted; NaN where there was none."""
    found = compared if compared is not None and compared.was_made else None
    gone = {} if found is None else {why.value: found.gone.get(why.value, 0) for why in Gone}
    yield _gauge(
        PREFIX + "last_run_gone_ledgers",
        "Ledgers that the run before listed and this one did not, by what explains it; NaN where"
        " nothing was compared.",
        cluster,
        [({"why": why.value}, float(gone.get(why.value, nan))) for why in Gone],
    )
    signs = {"returned": found.returned, "version": found.went_back} if found else {}
    yield _gauge(
        PREFIX + "last_run_older_ledgers",
        "Ledgers that came back although they are dated before the run before (returned), and those"
        " whose znode has a lower version than then (version); NaN where nothing was compared.",
        cluster,
        [({"sign": sign}, float(signs.get(sign, nan))) for sign in ("returned", "version")],
    )


def _certainty(summary: Summary, cluster: str) -> Iterator[Metric]:
    """Yield what verdicts are based on: assurance, verified copies, marks and maintenance."""
    assurance = summary.assurance
    yield _gauge(
        PREFIX + "last_run_maintenance_ledgers",
        "Ledgers that could not be judged for no other reason than bookies in planned maintenance.",
        cluster,
        [({}, float(summary.maintenance.ledgers))],
    )
    yield _gauge(
        PREFIX + "last_run_assurance_ledgers",
        "Ledgers judged by lists of entries, and by entries read instead.", cluster,
        [({"assurance": LISTED}, float(assurance.listed)),
        ({"assurance": PROBED}, float(assurance.probed))],
    )  # fmt: skip
    blocked = summary.open_recovery_blocked
    yield _gauge(
        PREFIX + "last_run_open_recovery_blocked_ledgers",
        "Open ledgers that could not be recovered if their writers died; NaN where the run made no"
        " two looks at the bookies.",
        cluster,
        [({}, nan if blocked is None else float(blocked.ledgers))],
    )
    yield from _since_earlier_run(summary.metadata_compared, cluster)
    marks = asdict(summary.marks or MarkCounts())
    yield _gauge(
        PREFIX + "last_run_marks",
        "Under-replication marks; within_grace and beyond_grace add up to total, the others are"
        " counted beside.",
        cluster,
        [({"state": state}, float(marks[state])) for state in MARK_STATES],
    )
    verified = summary.verified_ratio
    yield _gauge(
        PREFIX + "last_run_verified_copies_ratio",
        "Share of the copies in judged closed ledgers that were read, or listed by a bookie that is"
        " not in doubt; NaN where there is none.",
        cluster,
        [({}, nan if verified is None else verified)],
    )
    copies = asdict(summary.copies or CopyCounts(0, 0, 0, 0))
    yield _gauge(
        PREFIX + "last_run_copies",
        "Copies in judged closed ledgers by what they rest on: expected is all of them, listed"
        " those that only the list of a bookie that is not in doubt names, read those that were"
        " read, assumed those that rest on a sample of other entries.",
        cluster,
        [({"evidence": name}, float(copies[name])) for name in COPY_EVIDENCE],
    )
    yield from _carried(summary, cluster)
    yield _loss_found(summary.sampling, cluster)
    ages = summary.verification.counts if summary.verification else None
    yield _gauge(
        PREFIX + "last_run_copies_by_read_age",
        "Copies that bookies should hold, by the age of their newest read with its digest: within a"
        " day, a week and --verify-within, never, or overdue. NaN where the run did not count.",
        cluster,
        [({"age": age}, float(getattr(ages, age)) if ages else nan) for age in READ_AGES],
    )


def _carried(summary: Summary, cluster: str) -> Iterator[Metric]:
    """Yield how many verdicts are carried over from earlier runs, and how old the oldest is."""
    carried, began = summary.carried, moment(summary.started_at)
    oldest = None if carried is None else moment(carried.oldest_listed_at)
    age_s = 0.0 if oldest is None or began is None else (began - oldest).total_seconds()
    yield _gauge(
        PREFIX + "last_run_carried_ledgers",
        "Ledgers that were not asked about, because --within let their verdicts be carried over.",
        cluster,
        [({}, float(carried.ledgers) if carried else 0.0)],
    )
    yield _gauge(
        PREFIX + "last_run_oldest_carried_seconds",
        "How long before the run the oldest run began whose lists it carried over; 0 without any.",
        cluster,
        [({}, age_s)],
    )


def _loss_found(sampling: Sampling | None, cluster: str) -> Metric:
    """Return how likely the sample was to hit a range of lost entries on bookies that cannot
    list.
    """
    together = sampling.accumulated if sampling else None
    chances = {
        "this": sampling.alone if sampling else None,
        "all": together.chances if together else None,
    }
    return _gauge(
        PREFIX + "last_run_loss_found_ratio",
        "Least chance that so many entries in a row, lost by a bookie that cannot list, were found"
        " by this run, or by one of all runs of the series if lost before them; NaN where no ledger"
        " was judged so.",
        cluster,
        [
            ({"entries": str(length), "runs": runs}, found.of(length) if found else nan)
            for runs, found in chances.items()
            for length in LENGTHS
        ],
    )


def _orphans(references: References | None, cluster: str) -> Iterator[Metric]:
    """Yield the number and the bytes of orphans; NaN where no topics were looked for."""
    ledgers, stored = nan, nan
    if references is not None:
        ledgers = float(references.orphaned)
        stored = nan if references.orphaned_bytes is None else float(references.orphaned_bytes)
    yield _gauge(
        PREFIX + "last_run_orphaned_ledgers",
        "Old ledgers of Pulsar that no topic references; NaN where no topics were looked for.",
        cluster,
        [({}, ledgers)],
    )
    yield _gauge(
        PREFIX + "last_run_orphaned_bytes",
        "Bytes of all copies of the closed ones among them; the others have no length.",
        cluster,
        [({}, stored)],
    )


def _disks(space: Space, cluster: str) -> Iterator[Metric]:
    """Yield how full the disks are: of all bookies, by location, and of the fullest bookies."""
    yield _gauge(
        PREFIX + "last_run_disk_bytes",
        "Disks of the bookies that said how full theirs are; bookies on one host may share some."
        " NaN where none said it.",
        cluster,
        _sizes({}, *((space.total_bytes, space.free_bytes) if space.bookies else (nan, nan))),
    )
    yield _gauge(
        PREFIX + "last_run_disk_bookies",
        "Registered bookies by whether they said how full their disks are.",
        cluster,
        [({"disks": "known"}, float(space.bookies)), ({"disks": "unknown"}, float(space.unknown))],
    )
    if space.racks:
        yield _gauge(
            PREFIX + "last_run_rack_disk_bytes",
            "Disks of bookies by location; the rack is empty where it is not known. The fullest"
            " locations only.",
            cluster,
            chain.from_iterable(
                _sizes({"rack": rack.location or ""}, rack.total_bytes, rack.free_bytes)
                for rack in space.racks
            ),
        )
    if space.fullest:
        yield _gauge(
            PREFIX + "last_run_bookie_disk_bytes",
            "Disks by bookie. The fullest bookies only.",
            cluster,
            chain.from_iterable(
                _sizes({"bookie": bookie.bookie_id}, bookie.total_bytes, bookie.free_bytes)
                for bookie in space.fullest
            ),
        )


def _sizes(
    labels: dict[str, str], total_bytes: float, free_bytes: float
) -> list[tuple[dict[str, str], float]]:
    """Return the samples of a size and its free part."""
    states = {"total": total_bytes, "free": free_bytes}
    return [({**labels, "state": state}, float(size)) for state, size in states.items()]


def _requests(summary: Summary, cluster: str) -> Iterator[Metric]:
    requests = summary.requests
    totals = summary.request_totals or RequestTotals(
        RequestOutcomes(requests.bookie_requests - requests.retries, requests.retries),
        RequestOutcomes(requests.zookeeper_reads, 0),
    )
    for name, says, total in (
        (
            "bookie_requests",
            "Requests sent to bookies, added up over runs.",
            totals.bookie_requests,
        ),
        ("zookeeper_reads", "Znodes read, added up over runs.", totals.zookeeper_reads),
    ):
        samples = [
            ({"outcome": "answered"}, float(total.answered)),
            ({"outcome": "failed"}, float(total.failed)),
        ]
        yield _counter(PREFIX + name, says, cluster, samples)


def _run(cluster: str, outcome: str, now_s: float, success_s: float) -> Iterator[Metric]:
    assert outcome in OUTCOMES, outcome
    yield _gauge(
        _TIMESTAMP, "When the last run ended, whatever its outcome.", cluster, [({}, now_s)]
    )
    yield _gauge(
        _SUCCESS,
        "When a run last ended with a verdict (SOUND, VIOLATED or INCOMPLETE); 0: never.",
        cluster,
        [({}, success_s)],
    )
    yield _gauge(
        _OUTCOME,
        "1 for the outcome of the last run.",
        cluster,
        [({"outcome": o}, float(o == outcome)) for o in OUTCOMES],
    )


def _build(cluster: str, version: str, spark_version: str) -> Metric:
    labels = {"version": version, "spark_version": spark_version}
    return _gauge(
        PREFIX + "build_info", "Versions of the auditor and of Spark.", cluster, [(labels, 1.0)]
    )


class Families(Collector):
    """A collector for prometheus_client that always returns these families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _text(families: Iterable[Metric]) -> str:
    return generate_latest(Families(families)).decode("utf-8")


def _parse_families(text: str) -> list[Metric]:
    """Return the auditor's families in `text`, or none if it is not in Prometheus' text format."""
    try:
        families = list(text_string_to_metric_families(text))
    except (ValueError, KeyError, IndexError):
        return []
    return [family for family in families if family.name.startswith(PREFIX) and family.samples]


def _last_success(previous_text: str) -> float:
    found = [f.samples[0].value for f in _parse_families(previous_text) if f.name == _SUCCESS]
    return float(found[0]) if found else 0.0


PUSH_JOB = "bookkeeper_auditor"
PUSH_TIMEOUT_S = 10.0
READY_PATH = "/-/ready"
"""Path at which a Pushgateway says whether it is ready."""
TRIED_BYTES = 4_096
"""This many blanks are written to test a directory: a full disk still takes an empty file."""


def write_textfile(path: Path, text: str) -> str | None:
    """Write `text` to `path` atomically, with mode 0644 for node_exporter.

    Returns None, or a sentence for the log if that failed: a run must not fail because of it.
    """
    # The collector reads *.prom only, so the unfinished file must not end in it.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.chmod(0o644)
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        return f"the metrics could not be written to {path}: {error.strerror or error}"
    return None


def try_textfile(path: Path) -> str | None:
    """Return why `write_textfile` could not replace `path`, or None if it could. Leaves `path`
    alone.
    """
    tried = path.with_name(f".{path.name}.{os.getpid()}.tried")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with tried.open("wb") as file:
            file.write(b" " * TRIED_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return f"the metrics could not be written to {path}: {error.strerror or error}"
    finally:
        with contextlib.suppress(OSError):
            tried.unlink()
    return None


def try_pushgateway(url: str, timeout_s: float = PUSH_TIMEOUT_S) -> str | None:
    """Return why a Pushgateway cannot take metrics, or None if it says that it is ready.

    Pushes nothing.
    """
    plain = without_credentials(url)
    try:
        parts = urlsplit(url)
        plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        request = Request(f"{plain.rstrip('/')}{READY_PATH}")  # noqa: S310 - the setting takes http and https alone
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            coded = base64.b64encode(pair.encode()).decode("ascii")
            request.add_unredirected_header("Authorization", f"Basic {coded}")
        with build_opener().open(request, timeout=timeout_s):
            return None
    except HTTPError as error:
        error.close()
        return (
            f"the Pushgateway at {plain} does not say that it is ready: {READY_PATH} answers"
            f" {error.code} {error.reason}"
        )
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        return f"the Pushgateway at {plain} cannot be reached: {reason}"


def push(url: str, text: str, cluster: str, timeout_s: float = PUSH_TIMEOUT_S) -> str | None:
    """Replace the cluster's group on a Pushgateway with `text`.

    Returns None, or a sentence for the log if that failed: a run must not fail because of it. The
    group is only the cluster: a run id or host would leave series behind for ever. Credentials in
    `url` go into the Authorization header and never into a message.
    """
    plain = without_credentials(url)
    try:
        parts = urlsplit(url)
        plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        send = default_handler
        if parts.username is not None:
            send = _authorise(unquote(parts.username), unquote(parts.password or ""))
        families = Families(_parse_families(text))
        push_to_gateway(plain, PUSH_JOB, families, {"cluster": cluster}, timeout_s, send)
    except (OSError, HTTPException, ValueError) as error:
        return f"the metrics could not be pushed to {plain}: {error}"
    return None


def _authorise(user: str, password: str) -> Callable[..., Callable[[], None]]:
    def send(
        url: str, method: str, timeout: float | None, headers: list[tuple[str, str]], data: bytes
    ) -> Callable[[], None]:
        return basic_auth_handler(url, method, timeout, headers, data, user, password)

    return send
