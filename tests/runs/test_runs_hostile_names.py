"""A whole run over names chosen to mislead: no file of it, and no screen, has them unescaped."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.audits import Outcome, accounted, audit
from support.command_line import as_it_was
from support.hostile_names import HOSTILE, OVERRIDES, SHELL, unprintable

from auditor.model.finding import Kind
from auditor.model.ledger import Segment
from auditor.sandbox.cluster import SandboxCluster
from auditor.telemetry import log

LEDGERS = range(1, 9)
LOCKED = range(11, 21)
"""Marked ledgers, locked by a worker whose name is hostile: it is their common cause."""
WORKER = f"../../worker{SHELL}"
REFUSED, UNREADABLE = 21, 22
OWNER = (("application", b"pulsar"), ("component", b"managed-ledger"))
BOOKIE = f"b{OVERRIDES}:3181"
"""ZooKeeper accepts no control character in a path, but does accept direction overrides."""
MEMBER = f"b9{HOSTILE}:3181"
"""A bookie that metadata and marks name: any text can stand there."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield four bookies; ledgers that lack an entry, of a hostile owner; ledgers locked by a
    hostile worker; metadata, a mark and a registration that name bookies with hostile ids.
    """
    with SandboxCluster(tmp_path_factory.mktemp("hostile"), 4) as made:
        plain = made.ledger("e3 w2 a2 0:[b1 b2 b3] closed 9")
        for ledger_id in LEDGERS:
            name = f"public/default/persistent/{HOSTILE}".encode()
            owned = replace(plain, custom_metadata=(*OWNER, ("pulsar/managed-ledger", name)))
            made.place(ledger_id, owned, lose={"b1": "3", "b2": "3", "b3": "3"})
        for ledger_id in LOCKED:
            at = ledger_id % 3  # entry 0 belongs on b1, 1 on b2, and 2 on b3
            made.place(ledger_id, plain, lose={f"b{at + 1}": str(at)})
            made.mark(ledger_id, [made.id_of(f"b{at + 1}")], ctime_ms=1)
            made.lock(ledger_id, WORKER)
        ensemble = (MEMBER, made.id_of("b2"), made.id_of("b3"))
        made.place(REFUSED, replace(plain, segments=(Segment(0, ensemble),)))
        made.mark(REFUSED, [MEMBER], ctime_ms=1)
        made.set_raw(UNREADABLE, f"BookieMetadataFormatVersion\t2\n{HOSTILE}".encode())
        made.set_raw(f"{made.root}/available/{BOOKIE}", b"")
        yield made


def test_no_output_of_a_run_has_a_hostile_name_as_it_is(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Screen, log, report, page, findings, summary, topics, metrics, files of causes and their
    names. Each command splits into plain words.
    """
    outcome = accounted(audit(cluster, tmp_path))
    assert len(LEDGERS) <= len(outcome.findings) and outcome.run_dir is not None
    assert [] == unprintable(outcome.stdout)
    assert outcome.stdout.count("\nauditor: ") == 1 and outcome.last_line.startswith(
        "auditor: VIOLATED"
    )
    for log_format in ("console", "json"):
        lines = log_lines(outcome, log_format)
        assert len(outcome.events) == lines.count("\n") and [] == unprintable(lines)
    check_files(outcome.run_dir)
    assert outcome.of(1)[0]["owner"]["name"].endswith(HOSTILE)  # it was there
    assert WORKER in {one["facts"].get("lock_holder") for one in outcome.of(LOCKED[0])}
    assert {Kind.METADATA_MALFORMED} < {Kind(one["kind"]) for one in outcome.of(REFUSED)}
    assert Kind.METADATA_MALFORMED == outcome.one(UNREADABLE)["kind"]
    for finding in outcome.findings:
        for command in finding["next"]:
            assert [] == unprintable(command, "") and "touch" not in shlex.split(command)


def check_files(run_dir: Path) -> None:
    """Assert that each text of a run is printable, and so is its name; there is one of each
    sort.
    """
    files = [path for path in run_dir.rglob("*") if path.is_file()]
    texts = [path for path in files if path.suffix != ".parquet"]
    assert {"report.txt", "findings.jsonl", "summary.json", "metrics.prom", "report.html"} <= {
        path.name for path in texts
    }
    assert {} == {path.name: bad for path in texts if (bad := unprintable(path.read_text()))}
    assert [] == [path for path in files if not (path.name.isascii() and path.name.isprintable())]
    causes = {path.name: path.read_text() for path in (run_dir / "causes").iterdir()}
    assert causes and all(
        line.isdecimal() for text in causes.values() for line in text.splitlines()
    )


def log_lines(outcome: Outcome, log_format: str) -> str:
    """Return what the run logged, as the product writes it."""
    stream = io.StringIO()
    with as_it_was():
        logger = log.setup(log_format=log_format, verbose=True, stream=stream)
        for event in outcome.events:
            fields = {
                name: value for name, value in event.items() if name not in {"level", "event"}
            }
            getattr(logger, event["level"])(event["event"], **fields)
    return stream.getvalue()
