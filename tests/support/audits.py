"""Whole commands in one call: `audit` is `auditor run`, `audit_ledgers` is `auditor ledger`,
`replay_run` is `auditor replay`.

    outcome = audit(cluster, tmp_path)              # few ledgers: in this process, under a second
    outcome = audit(cluster, tmp_path, **ON_SPARK)  # needs the fixture `spark`: 2-4 s an audit
    outcome = audit(
        cluster, tmp_path, underreplication_grace="0s", between=lambda pause: cluster.unmark(7)
    )
    outcome = audit_ledgers(cluster, [7, 8])        # no Spark; about half a second
    accounted(outcome)                              # counts add up, a replay says the same
    outcome.exit_code, outcome.findings, outcome.verdicts[7].standing, outcome.summary["ledgers"]

`cluster` is anything with a `metadata_service_uri`: a RealCluster, a SandboxCluster, or the URI as
text. Settings are those of the command, by their keys and as a user writes them. `QUICK` holds
those that differ from the product's defaults.

Nothing sleeps between two looks. The product asks its StopRequest to wait. The one used here
records how long (`outcome.pauses_s`) and calls `between` with the number of the pause: 1 is the
pause before the second look. There a test changes the cluster. `skipped_clock` is a clock for the
pauses that are not slept.
"""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import pyarrow as pa
import structlog
from structlog.stdlib import BoundLogger

from auditor.clock import now_ms
from auditor.commands import ledger as ledger_command
from auditor.commands import naming as naming_command
from auditor.commands import replay as replay_command
from auditor.commands import run as run_command
from auditor.commands import topic as topic_command
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import VERDICTS
from auditor.model.facts import LOOKS_APART_MIN_MS
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import LedgerId
from auditor.model.summary import Summary
from auditor.pulsar.topic_paths import parse_topic
from auditor.report.first_screen import Whereabouts, render_first_screen
from auditor.report.layout import LINES_UNKNOWN, Screen
from auditor.run.replay import judge_again
from auditor.stop import StopRequest
from auditor.telemetry.progress import Silent

Json = dict[str, Any]

ON_SPARK: Mapping[str, str] = {"suspects_in_process_max": "0"}
"""Settings that leave every stage to Spark."""
FIRST_LOOK_ON_SPARK: Mapping[str, str] = {"ledgers_in_process_max": "0"}
"""Settings that leave the first look to Spark, as in a large cluster. The driver looks again at few
suspects.
"""
QUICK: Mapping[str, str] = {
    "second_look_delay": "0s",
    "rpc_timeout": "4s",
    "bookie_connect_timeout": "5s",
}
"""Settings of every audit here, unless a test gives others: a loopback bookie answers in
milliseconds, on a busy machine in a second or two, or not at all.
"""


class HasCluster(Protocol):
    """The part of a cluster that an audit uses."""

    metadata_service_uri: str


class Pauses(StopRequest):
    """A StopRequest that records the seconds it is asked to wait, waits a little more than
    LOOKS_APART_MIN_MS, and lets a test act.

    Pass one as `stop` to share it.
    """

    def __init__(self, between: Callable[[int], object] | None = None) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._between = between

    def wait(self, seconds: float) -> None:
        self.check()
        self.seconds.append(seconds)
        time.sleep(min(seconds, 1.05 * LOOKS_APART_MIN_MS / 1000))
        if self._between is not None:
            self._between(len(self.seconds))

    def skipped_clock(self) -> Callable[[], int]:
        """Return a wall clock, in ms, on which every requested pause has passed."""
        return lambda: now_ms() + int(sum(self.seconds) * 1000)


@dataclass(frozen=True)
class JudgedLedger:
    """The verdict on one ledger; for `auditor ledger` also its looks (`report`: its object in the
    JSON report).
    """

    standing: str
    exempt: str | None = None
    unknowns: tuple[str, ...] = ()
    listing_false_negatives: int = 0
    looks: int = 0
    report: Json = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `summary` is empty where the command gave no verdict; `events` are what
    it logged, `event` their text.
    """

    exit_code: int
    summary: Json
    findings: list[Json]
    verdicts: dict[LedgerId, JudgedLedger]
    run_dir: Path | None
    stdout: str
    pauses_s: list[float]
    events: list[Json]

    @property
    def last_line(self) -> str:
        """The last line of stdout, which is for machines."""
        return self.stdout.splitlines()[-1]

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of all findings, with repetitions, in the order of `findings`."""
        return [Kind(found["kind"]) for found in self.findings]

    def of(self, ledger_or_bookie: LedgerId | str) -> list[Json]:
        """Return the findings on one ledger or one bookie."""
        key = "ledger_id" if isinstance(ledger_or_bookie, int) else "bookie_id"
        return [found for found in self.findings if found[key] == ledger_or_bookie]

    def one(self, ledger_or_bookie: LedgerId | str) -> Json:
        """Return the only finding on one ledger or one bookie."""
        found = self.of(ledger_or_bookie)
        assert len(found) == 1, f"{ledger_or_bookie} has {[one['kind'] for one in found]}"
        return found[0]

    def standings(self, *ledger_ids: LedgerId) -> list[str]:
        """Return the standings of some ledgers, in their order; an exemption or unknown reasons
        follow a colon.
        """
        return [_in_a_word(self.verdicts[ledger_id]) for ledger_id in ledger_ids]


def audit(
    cluster: HasCluster | str,
    tmp_path: Path,
    *,
    between: Callable[[int], object] | None = None,
    stop: StopRequest | None = None,
    ledger_ids: Iterable[LedgerId] | None = None,
    **settings: object,
) -> Outcome:
    """Run `auditor run` into `tmp_path`/audits or `output`, on all ledgers or on `ledger_ids` only.

    The whole report is printed; `accounted` checks the length of each run's first screen.
    """
    flags = {"output": str(tmp_path / "audits"), "full": "true", **settings}
    if ledger_ids is not None:
        named = tmp_path / "ledgers.txt"
        named.write_text("".join(f"{ledger_id}\n" for ledger_id in ledger_ids))
        flags["ledgers_from"] = str(named)
    said = _Call("run", cluster, flags, stop or Pauses(between))
    before = set(_runs(Path(str(flags["output"]))))
    code = run_command.run(said.context)
    new = sorted(set(_runs(Path(str(flags["output"])))) - before)
    if "resume" in settings:
        assert not new, f"a run that goes on made new directories: {new}"
        new = [Path(str(flags["output"])) / f"run-{settings['resume']}"]
    assert len(new) <= 1, f"one run, several directories: {new}"
    directory = new[0] if new else None
    summary: Json = {}
    findings: list[Json] = []
    verdicts: dict[LedgerId, JudgedLedger] = {}
    if directory is not None and (directory / "summary.json").is_file():
        summary = json.loads((directory / "summary.json").read_text())
        findings = [
            json.loads(line) for line in (directory / "findings.jsonl").read_text().splitlines()
        ]
        verdicts = _judged(place(str(directory)).read_table("verdicts", VERDICTS).to_pylist())
    return said.outcome(code, summary, findings, verdicts, directory)


def audit_ledgers(
    cluster: HasCluster | str,
    ledger_ids: Sequence[LedgerId],
    *,
    between: Callable[[int], object] | None = None,
    stop: StopRequest | None = None,
    **settings: object,
) -> Outcome:
    """Run `auditor ledger ID…` with JSON output (with `format="text"` the outcome has only stdout
    and the exit code).
    """
    said = _Call("ledger", cluster, {"format": "json", **settings}, stop or Pauses(between))
    code = ledger_command.ledger(said.context, ledger_ids)
    if said.context.settings.format == "text":
        return said.outcome(code, {}, [], {}, None)
    printed = json.loads(said.out.getvalue())
    verdicts = {
        one["ledger_id"]: JudgedLedger(
            one["standing"],
            one.get("exempt"),
            tuple(one.get("unknowns", ())),
            one.get("listing_false_negatives", 0),
            len(one.get("looks", ())),
            one,
        )
        for one in printed.get("ledgers", ())  # without a verdict there is no report
    }
    return said.outcome(code, printed["summary"], printed.get("findings", []), verdicts, None)


def audit_topics(
    cluster: HasCluster | str, *names: str, stop: StopRequest | None = None, **settings: object
) -> Outcome:
    """Run `auditor topic TOPIC…`; `summary` has the JSON output, with the topics under `topics` (as
    text there is only stdout).
    """
    said = _Call("topic", cluster, {"format": "json", **settings}, stop or Pauses())
    code = topic_command.topic(said.context, [parse_topic(name) for name in names])
    if said.context.settings.format == "text":
        return said.outcome(code, {}, [], {}, None)
    printed = json.loads(said.out.getvalue())
    return said.outcome(
        code,
        {**printed["summary"], "topics": printed.get("topics", [])},
        printed.get("findings", []),
        {},
        None,
    )


def list_naming(cluster: HasCluster | str, bookie_id: str, **settings: object) -> Outcome:
    """Run `auditor ledger --naming BOOKIE`, as text unless `format` differs; `summary` has the JSON
    output.
    """
    said = _Call("ledger", cluster, settings, Pauses())
    code = naming_command.naming(said.context, bookie_id)
    printed = json.loads(said.out.getvalue()) if said.context.settings.format == "json" else {}
    return said.outcome(code, printed, [], {}, None)


def replay_run(run_dir: Path, **settings: object) -> Outcome:
    """Run `auditor replay RUN_DIR` with JSON output; `verdicts` are the replayed ones."""
    said = _Call("replay", None, {"format": "json", **settings}, Pauses())
    judged: list[pa.Table] = []

    def keep(*arguments: Any) -> pa.Table:
        judged.append(judge_again(*arguments))
        return judged[-1]

    with patch.object(replay_command, "judge_again", keep):
        code = replay_command.replay(said.context, str(run_dir))
    printed = json.loads(said.out.getvalue())
    (rows,) = judged
    verdicts = _judged(rows.to_pylist())
    return said.outcome(code, printed["summary"], printed["findings"], verdicts, run_dir)


def accounted(outcome: Outcome) -> Outcome:
    """Fail unless what holds for every finished run holds for this one.

    The counts add up, the exit code and the last line agree with the findings, the first screen
    fits a terminal, and a replay of the written evidence gives the same verdicts and the same
    findings, byte for byte.
    """
    assert outcome.run_dir is not None and outcome.summary, outcome.stdout
    counts = outcome.summary["ledgers"]
    by_standing = {word: counts[word] for word in ("sound", "exempt", "indeterminate", "violated")}
    standings = [verdict.standing for verdict in outcome.verdicts.values()]
    assert {word: standings.count(word) for word in by_standing} == by_standing
    assert counts["listed"] == len(standings) == sum(by_standing.values())
    found = {kind.value: outcome.kinds.count(kind) for kind in Kind}
    assert found == {
        kind: counted["findings"] for kind, counted in outcome.summary["findings"].items()
    }
    assert outcome.exit_code == outcome.summary["exit_code"]
    counts_text = " ".join(f"{word}={counts[word]}" for word in ("listed", *by_standing))
    assert (
        outcome.last_line
        == f"auditor: {outcome.summary['outcome']} run={outcome.summary['run_id']} {counts_text}"
    )
    records = [FindingRecord.from_json(one) for one in outcome.findings]
    screen = render_first_screen(
        Summary.from_json(outcome.summary),
        records,
        Whereabouts(str(outcome.run_dir)),
        screen=Screen(80),
    )
    assert sum(-(-len(line) // 80) for line in screen.splitlines()) <= LINES_UNKNOWN, screen
    assert screen.splitlines()[-1] == outcome.last_line
    again = replay_run(outcome.run_dir)
    lines = "".join(json.dumps(found, separators=(",", ":")) + "\n" for found in again.findings)
    assert (outcome.run_dir / "findings.jsonl").read_text() == lines
    assert outcome.verdicts == again.verdicts
    assert outcome.exit_code == again.exit_code
    return outcome


class _Call:
    """One call of one command: its context and its output."""

    def __init__(
        self,
        command: str,
        cluster: HasCluster | str | None,
        flags: Mapping[str, object],
        stop: StopRequest,
    ) -> None:
        self.out, self.events, self._stop = io.StringIO(), [], stop
        if cluster is not None:
            uri = cluster if isinstance(cluster, str) else cluster.metadata_service_uri
            flags = {**QUICK, "metadata_service_uri": uri, **flags}
        settings = parse(Layers(flags=flags), command=command)
        self.context = Context(settings, self.out, self._logger(), Silent(), stop)

    def outcome(
        self,
        code: int,
        summary: Json,
        findings: list[Json],
        verdicts: dict[LedgerId, JudgedLedger],
        run_dir: Path | None,
    ) -> Outcome:
        pauses = self._stop.seconds if isinstance(self._stop, Pauses) else []
        return Outcome(
            code, summary, findings, verdicts, run_dir, self.out.getvalue(), pauses, self.events
        )

    def _logger(self) -> BoundLogger:
        def keep(
            _logger: Any, method: str, event: MutableMapping[str, Any]
        ) -> MutableMapping[str, Any]:
            self.events.append({"level": method, **event})
            raise structlog.DropEvent

        logger: BoundLogger = structlog.wrap_logger(
            logging.getLogger(__name__), processors=[keep], wrapper_class=BoundLogger
        )
        return logger


def _runs(output: Path) -> list[Path]:
    return sorted(output.glob("run-*"))


def _judged(rows: Iterable[Json]) -> dict[LedgerId, JudgedLedger]:
    """Return the VERDICTS rows by ledger. Each ledger has one row."""
    verdicts: dict[LedgerId, JudgedLedger] = {}
    for row in rows:
        assert row["ledger_id"] not in verdicts, f"two verdicts on ledger {row['ledger_id']}"
        verdicts[row["ledger_id"]] = JudgedLedger(
            row["standing"],
            row["exempt"],
            tuple(row["unknowns"]),
            row["listing_false_negatives"],
            row["looks"],
        )
    return verdicts


def _in_a_word(verdict: JudgedLedger) -> str:
    reasons = ([verdict.exempt] if verdict.standing == "exempt" and verdict.exempt else []) + list(
        verdict.unknowns
    )
    return ": ".join([verdict.standing, *([" ".join(reasons)] if reasons else [])])
