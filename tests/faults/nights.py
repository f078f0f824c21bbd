"""Runs on one OUTPUT, night after night: begun, killed, resumed, concluded and published, without
Spark.

The tables that Spark would write are written by hand, as stages of the journal. Everything else is
the product's: which run may be resumed, what it takes over from the one before, how it is
concluded, published and cleared up.

    nights = Nights(tmp_path, monkeypatch)
    nights.run(Night({1: LOST}))                        # a run that ends well
    effects = nights.run(Night({2: LOST}), cut_at=17)   # killed before its 17th file operation
    nights.resume(Night({2: LOST}))
    breaches_of_carried(nights.chain, nights.samples)
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import structlog
from faults.carried import Finished
from support import report_stories

from auditor import __version__
from auditor.clock import rfc3339
from auditor.commands.page import publish_page
from auditor.config import Layers, parse
from auditor.context import Context, terms_of
from auditor.errors import ConfigError
from auditor.evidence.journal import Journal
from auditor.evidence.output_directory import Output
from auditor.evidence.rows import answer_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place, place, write_json
from auditor.evidence.schemas import ANSWERS, LEDGERS, LISTING, LISTINGS, MARKS, READS, VERDICTS
from auditor.findings.on_cluster import (
    FIRST_LISTING,
    LISTINGS_AT,
    SECOND_LISTING,
    has_dropped,
    listing_row,
)
from auditor.model.availability import Answer, AnswerStatus, EntryRead, ReadStatus
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration, Surroundings
from auditor.model.finding import Kind
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.run.conclusion import conclude
from auditor.run.publishing import (
    clear_up,
    publish,
    publish_failure,
    send_metrics,
    write_results,
)
from auditor.run.request_counts import add_kept_counts, kept_reads, write_read_counts
from auditor.run.resumption import resume_about
from auditor.stop import StopRequest
from auditor.summary.about import About
from auditor.summary.previous_run import read_previous
from auditor.summary.sweeps import continue_series
from auditor.telemetry import metrics
from auditor.telemetry.progress import Silent
from auditor.zookeeper.session import ReadCounts

FACTS = ClusterFacts(
    "zk://h/ledgers", ("h:2181",), "/ledgers", "hierarchical", "an id", False, None
)
EFFECTS = ("create", "write_text", "write_table", "remove_file", "remove")
"""What a run does to files, always through Place."""
FIRST_NIGHT = datetime(2026, 3, 1, 2, tzinfo=UTC)
CLUSTER = "test"
READ_A_STAGE = ReadCounts(reads=5, reads_ok=4)
"""What the driver reads from ZooKeeper in each stage after the listing."""


STEP = 64
"""The series of every run's sweep: its bookies cannot list."""


class Killed(BaseException):
    """Raised to end the run, in place of a killed process."""


@dataclass(frozen=True)
class Night:
    """What a run finds, by ledger, how many ledgers there are, and how many requests each of its
    questions takes.
    """

    found: Mapping[int, Kind]
    listed: int = 5
    requests: int = 1


@dataclass
class Cut:
    """Counts file operations and ends the process before number `at`. `done` has their names."""

    at: int | None = None
    done: list[str] = field(default_factory=list)

    def __call__(self, what: str) -> None:
        if len(self.done) == self.at:
            raise Killed(what)
        self.done.append(what)


class Nights:
    """A chain of runs. `pushes`: metrics go to a Pushgateway instead of a text file."""

    def __init__(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, *, pushes: bool = False, **flags: str
    ) -> None:
        self.output = Output(place(str(home / "audits")))
        self.output.root.create()
        self.chain: list[Finished] = []
        self.samples: list[str] = []
        self._kept = home / "kept"
        self._textfile = home / "auditor.prom"
        sent_to = (
            {"pushgateway": "http://127.0.0.1:9"}
            if pushes
            else {"metrics_textfile": str(self._textfile)}
        )
        self._flags = {"metadata_service_uri": "zk://h:2181/ledgers", **sent_to, **flags}
        self._begun: dict[str, Path | None] = {}
        self._now = FIRST_NIGHT
        self._cut = Cut()
        for name in EFFECTS:
            monkeypatch.setattr(Place, name, self._counted(f"{name} ", getattr(Place, name)))
        monkeypatch.setattr(metrics, "write_textfile", self._sampled(metrics.write_textfile))
        monkeypatch.setattr(metrics, "push", self._sampled(lambda *_: None))

    @property
    def begun(self) -> list[str]:
        """The ids of all runs that were begun, oldest first."""
        return sorted(self._begun)

    def run(self, night: Night, cut_at: int | None = None) -> list[str]:
        """Run a new run, killed before this file operation if one is given. Return its file
        operations.
        """
        return self._process(night, None, cut_at)

    def resume(self, night: Night, run_id: str = "", cut_at: int | None = None) -> list[str]:
        """Resume the newest run, or the given one. Raises ConfigError if that is refused."""
        return self._process(night, run_id or self.begun[-1], cut_at)

    def resume_or_run(self, night: Night) -> None:
        """Do what an operator does: resume the newest run, or start a new one if that is
        refused.
        """
        try:
            self.resume(night)
        except ConfigError:
            self.run(night)

    def fail(self) -> None:
        """Run a run that ends without a verdict, and publish its metrics."""
        publish_failure(
            self._context(),
            self.output,
            "UNREACHABLE",
            CLUSTER,
            self._tomorrow().timestamp(),
            __version__,
        )

    def _process(self, night: Night, resumed: str | None, cut_at: int | None) -> list[str]:
        context, now = self._context(), self._tomorrow()
        about = (
            resume_about(context, self.output, resumed, now)
            if resumed
            else self._begin(context, now)
        )
        self._cut = Cut(cut_at)
        before = self._latest()
        try:
            self._work(context, about, night, now)
        except Killed:
            assert cut_at is not None
        done, self._cut = self._cut.done, Cut()
        if self._latest() != before:
            self._published(self._latest(), before, self._begun[about.run_id])
        return done

    def _published(self, *runs: Path | None) -> None:
        """Add a run in its present state to the chain: later runs may remove it."""
        kept = [run and self._kept / run.name for run in runs]
        assert runs[0] is not None and kept[0] is not None
        shutil.copytree(runs[0], kept[0])
        self.chain.append(Finished(kept[0], *kept[1:]))

    def _work(self, context: Context, about: About, night: Night, now: datetime) -> None:
        """Do the steps of a run, in the order of `auditor run`."""
        previous = read_previous(self.output, FACTS)
        if not about.resumed_at:
            handed = {"unregistered_since_ms": previous.unregistered_since_ms}
            about = replace(about, previous_population=previous.population(50), **handed)
            about = continue_series(about, previous.series)
        directory = self.output.start(about.run_id)
        journal = Journal.reopen(directory)
        counts = ReadCounts()
        add_kept_counts(counts, journal.began_with_reads)
        journal.reads = lambda: kept_reads(counts)
        write_json(directory, "run.json", about.as_json())
        journal.run_once("listing", _write, directory, _listing(night))
        ids = directory.read_table("evidence/listing", LISTING)["ledger_id"].to_pylist()
        for stage, tables in _stages(night, ids).items():
            counts.add(ReadCounts() if journal.has(stage) else READ_A_STAGE)
            journal.run_once(stage, _write, directory, tables)
        if has_dropped(about.previous_population, night.listed):
            journal.run_once("listing again", _write, directory, _listing(night, SECOND_LISTING))
        bookies = [
            BookieRecord(b, 1, 0, Registration.WRITABLE, "h", 1, True, "") for b in ("b1", "b2")
        ]
        bookies.append(
            BookieRecord(
                "gone", 1, round(now.timestamp() * 1_000), Registration.NONE, None, None, True, ""
            )
        )
        verdicts = directory.scan("verdicts", VERDICTS)
        write_read_counts(directory, counts)
        done = conclude(
            directory,
            about,
            bookies,
            previous,
            verdicts=verdicts,
            finished_at=rfc3339(now),
            duration_s={"ask": 1.0},
        )
        results = write_results(context, self.output, directory, done, CLUSTER, "")
        publish(context, self.output, results)
        send_metrics(context, results, CLUSTER)
        publish_page(context, directory, results.summary, results.findings, results.report)
        clear_up(context, self.output, directory)

    def _begin(self, context: Context, now: datetime) -> About:
        run_id = f"{now:%Y%m%dT%H%M%SZ}-{len(self._begun):06x}"
        self._begun[run_id] = self._latest()
        waits = (context.settings.second_look_delay_ms, context.settings.lost_bookie_wait_max_ms)
        terms = terms_of(context, run_id, Surroundings())
        terms = replace(terms, sweep=replace(terms.sweep, step=STEP))
        return About(run_id, rfc3339(now), FACTS, terms, "warning", False, waits_ms=waits)

    def _latest(self) -> Path | None:
        latest = self.output.latest()
        return Path(latest.path) if latest else None

    def _context(self) -> Context:
        settings = parse(Layers(flags=self._flags), command="run")
        return Context(settings, io.StringIO(), structlog.get_logger(), Silent(), StopRequest())

    def _tomorrow(self) -> datetime:
        self._now += timedelta(hours=1)
        return self._now

    def _counted(self, what: str, effect: Callable[..., Any]) -> Callable[..., Any]:
        def counted(where: Place, *args: Any, **options: Any) -> Any:
            name = args[0] if args else where.path.rpartition("/")[2]
            self._cut(f"{what}{name}")
            return effect(where, *args, **options)

        return counted

    def _sampled(self, send: Callable[..., str | None]) -> Callable[..., str | None]:
        def sampled(to: object, text: str, *rest: object) -> str | None:
            self._cut("metrics sent")
            self.samples.append(text)
            return send(to, text, *rest)

        return sampled


Tables = Mapping[str, tuple[pa.Schema, list[Any]]]
"""Schema and rows, by table name."""


def _write(directory: Place, tables: Tables) -> None:
    for name, (schema, rows) in tables.items():
        directory.write_table(name, table(schema, rows), f"all-{len(directory.files_in(name))}")


def _listing(night: Night, listing: int = FIRST_LISTING) -> Tables:
    ids = [(n,) for n in range(1, night.listed + 1)]
    return {
        LISTINGS_AT[listing]: (LISTING, ids),
        "evidence/listings": (LISTINGS, [listing_row(listing, listing, [])]),
    }


def _stages(night: Night, ids: Sequence[int]) -> Mapping[str, Tables]:
    """Write what Spark writes, stage by stage: b1 lists each ledger, and each finding has a read
    that confirms it.
    """
    held, silent = AnswerStatus.HELD, AnswerStatus.TIMED_OUT
    answers = [Answer("b1", n, 1, 0, held, requests=night.requests, received_bytes=9) for n in ids]
    answers.append(Answer("b2", 1, 1, 0, silent, requests=night.requests))
    reads = [
        EntryRead("b1", n, 0, 1, 0, ReadStatus.NO_ENTRY, requests=1, received_bytes=9)
        for n in night.found
    ]
    records = [LedgerRecord(n, 1, 0, RecordStatus.FOUND) for n in ids]
    return {
        "look": {
            "evidence/ledgers": (LEDGERS, [ledger_row(record) for record in records]),
            "evidence/marks": (MARKS, []),
            "evidence/answers": (ANSWERS, [answer_row(answer) for answer in answers]),
            "evidence/reads": (READS, [read_row(read) for read in reads]),
        },
        "verdicts": {"verdicts": (VERDICTS, [_verdict(n, night.found.get(n)) for n in ids])},
    }


def _verdict(ledger_id: int, kind: Kind | None) -> tuple[Any, ...]:
    lines = [report_stories.finding(kind, ledger_id).line()] if kind else []
    row = {
        "ledger_id": ledger_id, "standing": "violated" if kind else "sound", "unknowns": [],
        "findings": lines,
        "listing_false_negatives": 0, "looks": 1, "todo": "nothing", "assurance": "probed",
    }  # fmt: skip
    return tuple(row.get(name) for name in VERDICTS.names)
