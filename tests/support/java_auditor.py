"""BookKeeper's own auditor: `java/AuditorPeer.java` as one process that answers many questions.

    with JavaAuditor(cluster.metadata_service_uri, tmp_path) as java:    # 3 s: compiling, one JVM
        run = java.replicas([7, 8])                          # only these ledgers; 20-300 ms
        run.gauges["no_replica"], run.finished, run.log
        java.placement(
            [7], conf={"minNumRacksPerWriteQuorum": "2"}, locations={"127.0.0.1": "/r1"}
        )
        java.adherence(
            RACK, {"1": "/r1", "2": "/r2"}, [["1", "2"]], [(["1", "2"], 2, 2)]
        )                                                    # ["MEETS_STRICT"]

The checks and the policy classes are those of the jars. Each `conf` and `client` has one client of
BookKeeper. Pass another `client` for a change of the cluster that a long-lived client would miss.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from support.compiled_java import compiled
from support.real_bookkeeper import LOG4J2_WARN
from support.real_jars import bookkeeper_jars
from support.real_processes import JVM_FLAGS, class_path, sharing_flags

from auditor.model.evidence import Adherence, Policy

SOURCE = Path(__file__).resolve().parent / "java" / "AuditorPeer.java"
MAIN_CLASS = "org.apache.bookkeeper.replication.AuditorPeer"
STOP_WAIT_S = 20
CHECK_TIMEOUT_S = 30.0
"""How long a check may take before it counts as endless, unless a test gives another limit. The
slowest one that ends waits 5 s for a bookie.
"""
STUCK_S = 4.0
"""The same for a check that is known to wait for ever, or for BookKeeper's 120 s. A sound check
ends in a tenth of a second.
"""

CLIENT = "org.apache.bookkeeper.client."
RACK = CLIENT + "RackawareEnsemblePlacementPolicy"
ZONE = CLIENT + "ZoneawareEnsemblePlacementPolicy"
REGION = CLIENT + "RegionAwareEnsemblePlacementPolicy"
NO_POLICY = CLIENT + "DefaultEnsemblePlacementPolicy"
POLICY_CLASSES = {
    Policy.RACK: RACK,
    Policy.ZONE: ZONE,
    Policy.REGION: REGION,
    Policy.NONE: NO_POLICY,
}
STRICT, SOFT, FAIL, RAISES = "MEETS_STRICT", "MEETS_SOFT", "FAIL", "ArithmeticException"
ADHERENCE_WORDS = {
    Adherence.STRICT: STRICT,
    Adherence.SOFT: SOFT,
    Adherence.FAIL: FAIL,
    Adherence.UNKNOWN: RAISES,
}
"""The answers of the policy classes. The zone-aware class raises (it divides by the write quorum)
and its check never ends; for this case ours says that it cannot tell.
"""
PARAMETERS = {
    "min_num_racks_per_write_quorum": "minNumRacksPerWriteQuorum",
    "enforce_min_num_racks_per_write_quorum": "enforceMinNumRacksPerWriteQuorum",
    "min_num_zones_per_write_quorum": "minNumZonesPerWriteQuorum",
    "desired_num_zones_per_write_quorum": "desiredNumZonesPerWriteQuorum",
}
"""Fields of `PlacementRule` that the policy classes know, in BookKeeper's names."""
RESOLVER = "org.apache.bookkeeper.replication.AuditorPeer$LocationsByAddress"
"""A script that gives each address the location that the newest command names."""

QUICK_CLIENT: Mapping[str, str] = {"readEntryTimeoutSec": "1", "reppDnsResolverClass": RESOLVER}
"""Settings that differ from BookKeeper's defaults in every check here: silence costs 1 s instead of
5.
"""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the auditor's log: its beginning, and its length."""

    text: str
    chars: int


@dataclass(frozen=True, slots=True)
class JavaRun:
    """One run of one check.

    `finished`: it stored its date in ZooKeeper, as a complete run does. `stuck`: it had not
    returned when we stopped waiting. `gauges` are all six that it publishes, whether it set them or
    not.
    """

    finished: bool
    stuck: bool
    threw: str | None
    asked_for_shutdown: bool
    gauges: Mapping[str, int]
    log: tuple[LogLine, ...]

    def logged(self, *words: str) -> list[LogLine]:
        """Return the log lines with all of these words."""
        return [line for line in self.log if all(word in line.text for word in words)]


GAUGES = (
    "no_replica",
    "below_ack",
    "below_write",
    "placement_failed",
    "placement_soft",
    "beyond_grace",
)


class JavaAuditor:
    """The Java process of the module's description. It ends with `with`, or when the process that
    started it ends, because its stdin is closed then.
    """

    def __init__(self, metadata_service_uri: str, workdir: Path) -> None:
        jars = bookkeeper_jars()
        classes = compiled(jars, SOURCE)
        workdir.mkdir(parents=True, exist_ok=True)
        options = [
            *JVM_FLAGS,
            *sharing_flags(jars),
            "-Xmx384m",
            f"-Dlog4j2.configurationFile={LOG4J2_WARN}",
            "-cp",
            class_path(jars, classes),
        ]
        self._log = (workdir / "java-auditor.log").open("ab")
        self._process = subprocess.Popen(
            ["java", *options, MAIN_CLASS, metadata_service_uri],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def __enter__(self) -> JavaAuditor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Close its stdin, and wait until it has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_WAIT_S)
        self._process.stdout.close()
        self._log.close()

    def replicas(self, ledger_ids: Iterable[int], **how: Any) -> JavaRun:
        """Run AuditorReplicasCheckTask over these ledgers.

        `how` is as for `placement`; `between` is called after a ledger's metadata was read and
        before its bookies are asked.
        """
        return self._check("replicas", ledger_ids, **how)

    def placement(self, ledger_ids: Iterable[int], **how: Any) -> JavaRun:
        """Run AuditorPlacementPolicyCheckTask over these ledgers.

        `conf`: settings in BookKeeper's names. `locations`: by IP address. `client`: each name has
        a client of its own. `uri`: another cluster. `gauges`: a name under which gauges outlive the
        run. `pending_audit`: a lost-bookie audit is due. `timeout_s`: CHECK_TIMEOUT_S.
        """
        return self._check("placement", ledger_ids, **how)

    def starts_at_a_fixed_rate(
        self,
        ledger_ids: Iterable[int],
        conf: Mapping[str, str],
        until: Callable[[int, bool], bool],
        then: Callable[[], None],
    ) -> tuple[int, bool]:
        """Schedule the placement check as the auditor does, and return how often it started after a
        change, and whether it is still scheduled.

        The change is `then`; it is made once `until(starts, ended)` holds.
        """
        period_ms = 50
        self._ask(
            {
                **self._command("placement", ledger_ids, conf),
                "do": "schedule",
                "period_ms": period_ms,
            }
        )
        before, _ = self._scheduled(until)
        then()
        self._ask(
            {"do": "scheduled", "wait_ms": 2 * period_ms}
        )  # a start that was under way has ended
        self._ask({"do": "scheduled", "wait_ms": 10 * period_ms})  # long enough for many starts
        after, ended = self._scheduled(lambda starts, ended: ended or starts > before)
        self._ask({"do": "unschedule"})
        return after - before, not ended

    def _scheduled(self, until: Callable[[int, bool], bool]) -> tuple[int, bool]:
        """Return the starts so far, and whether more will follow, once `until` holds for them."""
        deadline = time.monotonic() + CHECK_TIMEOUT_S
        while time.monotonic() < deadline:
            said = self._ask({"do": "scheduled", "wait_ms": 50})
            if until(said["starts"], said["ended"]):
                return said["starts"], said["ended"]
        raise TimeoutError(f"the scheduled check did not get there: {said}")

    def mark(self, ledger_id: int, replica: str) -> None:
        """Mark the ledger under-replicated as BookKeeper's auditor does, or add a replica to its
        mark.
        """
        self._ask(
            {"do": "mark", "ledger": ledger_id, "replica": replica, "conf": dict(QUICK_CLIENT)}
        )

    def adherence(
        self,
        policy: str,
        locations: Mapping[str, str],
        writable: Sequence[Sequence[str]],
        rows: Sequence[tuple[Sequence[str], int, int]],
        *,
        readonly: Sequence[str] = (),
        **conf: object,
    ) -> list[str]:
        """Return the policy class's answer for each (ensemble, write quorum, ack quorum).

        `writable`: the writable bookies, change after change; `readonly`: bookies that are always
        read-only.
        """
        settings = {name: str(value).lower() for name, value in conf.items()}
        command = {
            "do": "adherence",
            "policy": policy,
            "locations": locations,
            "conf": settings,
            "rows": rows,
        }
        return list(self._ask({**command, "writable": writable, "readonly": readonly})["rows"])

    def _check(
        self,
        check: str,
        ledger_ids: Iterable[int],
        *,
        conf: Mapping[str, str] | None = None,
        timeout_s: float = CHECK_TIMEOUT_S,
        between: Callable[[], object] | None = None,
        **more: object,
    ) -> JavaRun:
        command = {
            **self._command(check, ledger_ids, conf),
            **more,
            "timeout_ms": int(timeout_s * 1000),
        }
        said = self._ask({**command, "hold_reads": between is not None})
        while "held" in said:
            assert between is not None
            between()
            said = self._ask({})
        gauges = {name: said[name] for name in GAUGES}
        log = tuple(LogLine(line["text"], line["chars"]) for line in said["log"])
        return JavaRun(
            said["finished"], said["stuck"], said["threw"], said["asked_for_shutdown"], gauges, log
        )

    @staticmethod
    def _command(
        check: str, ledger_ids: Iterable[int], conf: Mapping[str, str] | None
    ) -> dict[str, Any]:
        return {
            "do": "check",
            "check": check,
            "ledgers": sorted(ledger_ids),
            "conf": {**QUICK_CLIENT, **(conf or {})},
        }

    def _ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"the Java auditor ended on {command}: {self._log.name}\n{self._tail()}"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"the Java auditor could not do {command}: {answer['error']}")
        return answer

    def _tail(self) -> str:
        return Path(self._log.name).read_text(errors="replace")[-3000:]
