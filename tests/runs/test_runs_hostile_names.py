"""A whole run over names chosen to mislead: no file of it, and no screen, has them unescaped."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.audits import accounted, audit
from support.hostile_names import HOSTILE, OVERRIDES, unprintable

from auditor.sandbox.cluster import SandboxCluster

LEDGERS = range(1, 9)
OWNER = (("application", b"pulsar"), ("component", b"managed-ledger"))
BOOKIE = f"b{OVERRIDES}:3181"
"""ZooKeeper accepts no control character in a path, but does accept direction overrides."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield four bookies and eight ledgers that lack an entry, of a hostile owner; and a
    registration without a valid name.
    """
    with SandboxCluster(tmp_path_factory.mktemp("hostile"), 4) as made:
        plain = made.ledger("e3 w2 a2 0:[b1 b2 b3] closed 9")
        for ledger_id in LEDGERS:
            name = f"public/default/persistent/{HOSTILE}".encode()
            owned = replace(plain, custom_metadata=(*OWNER, ("pulsar/managed-ledger", name)))
            made.place(ledger_id, owned, lose={"b1": "3", "b2": "3", "b3": "3"})
        made.set_raw(f"{made.root}/available/{BOOKIE}", b"")
        yield made


def test_no_output_of_a_run_has_a_hostile_name_as_it_is(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    """Screen, report, findings, summary, topics, metrics, names of files, and each command splits
    into plain words.
    """
    outcome = accounted(audit(cluster, tmp_path))
    assert len(LEDGERS) <= len(outcome.findings) and outcome.run_dir is not None
    assert [] == unprintable(outcome.stdout)
    assert outcome.stdout.count("\nauditor: ") == 1 and outcome.last_line.startswith(
        "auditor: VIOLATED"
    )
    texts = [
        path
        for path in outcome.run_dir.rglob("*")
        if path.suffix in {".txt", ".json", ".jsonl", ".prom"}
    ]
    assert {"report.txt", "findings.jsonl", "summary.json", "metrics.prom"} <= {
        path.name for path in texts
    }
    assert {} == {path.name: bad for path in texts if (bad := unprintable(path.read_text()))}
    assert [] == [
        path.name
        for path in outcome.run_dir.rglob("*")
        if not (path.name.isascii() and path.name.isprintable())
    ]
    assert outcome.of(1)[0]["owner"]["name"].endswith(HOSTILE)  # it was there
    for finding in outcome.findings:
        for command in finding["next"]:
            assert [] == unprintable(command, "") and "touch" not in shlex.split(command)
