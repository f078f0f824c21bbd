"""A history through a whole run on Spark: what the run says, held against the engine without Spark and against the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from support.audits import Outcome, accounted, audit
from support.model.engines import SETTINGS, ordered, written_out
from support.model.history import Broken, Cluster, shortest
from support.model.properties import differing, wrong_bookies, wrong_verdicts
from support.model.truth import Row, Told

Json = dict[str, Any]


SHRINKS_MAX = 25
"""Histories tried to find a shorter one that fails too: seconds each."""


def through_spark(cluster: Cluster, lines: Sequence[str], workdir: Path) -> None:
    """A history, its end judged by a whole run. Raises Broken, with the shortest history found that fails.

    The caller has a Spark session (the fixture `spark`). 3 to 10 s.
    """
    if _broken(cluster, lines, workdir):
        short = shortest(lines, lambda some: bool(_broken(cluster, some, workdir)), SHRINKS_MAX)
        raise Broken(short, _broken(cluster, short, workdir), f"{cluster.where}--spark ")


def _broken(cluster: Cluster, lines: Sequence[str], workdir: Path) -> list[str]:
    """What is broken at the end of a history, as sentences."""
    cluster.end(lines)
    run = on_spark(cluster.world.metadata_service_uri, Path(mkdtemp(dir=workdir)))
    found = [(one["kind"], one["bookie_id"]) for one in run.outcome.findings if one["bookie_id"] is not None]
    return [
        *differing(cluster.rows, run.rows),
        *wrong_verdicts(cluster.truth, run.rows),
        *wrong_bookies(cluster.truth, found),
    ]


class SparkRun(NamedTuple):
    """A whole run: the row of each ledger, and all that it said."""

    rows: dict[int, Row]
    outcome: Outcome


def on_spark(metadata_service_uri: str, workdir: Path) -> SparkRun:
    """`auditor run`; its accounts are checked (`accounted`). The caller has the fixture `spark`. 2 to 5 s."""
    settings: dict[str, Any] = {**SETTINGS, "allow_empty": True}
    outcome = accounted(audit(metadata_service_uri, workdir, **settings))
    found: dict[int, list[Told]] = {number: [] for number in outcome.verdicts}
    for one in outcome.findings:
        if one["ledger_id"] is not None:
            found[one["ledger_id"]].append(_told_in_json(one))
    rows = {
        number: Row(said.standing, said.exempt, said.unknowns, tuple(ordered(found[number])))
        for number, said in outcome.verdicts.items()
    }
    return SparkRun(rows, outcome)


def _told_in_json(found: Json) -> Told:
    segment, copies = found["segment"], found["copies"]
    return Told(
        found["kind"],
        segment["first_entry_id"] if segment else None,
        written_out(found["entries"]),
        tuple(sorted((bookie, written_out(ranges)) for bookie, ranges in found["missing_on"].items())),
        copies["confirmed"] if copies else None,
        copies["unknown"] if copies else None,
    )
