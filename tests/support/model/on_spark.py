"""The product asked about the model's cluster on Spark: `auditor run`, and its verdicts as the model's rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from support.audits import Outcome, accounted, audit
from support.model.engines import SETTINGS, ordered, written_out
from support.model.rows import Row, Told, flat

Json = dict[str, Any]


class SparkRun(NamedTuple):
    """A whole run: the row of each ledger, and all that it said."""

    rows: dict[int, Row]
    outcome: Outcome


def on_spark(metadata_service_uri: str, workdir: Path, **more: object) -> SparkRun:
    """`auditor run`, with `more` settings; its accounts are checked, and that a replay says the same (`accounted`).

    The caller has the fixture `spark`. 2 to 5 s.
    """
    settings: dict[str, Any] = {**SETTINGS, "allow_empty": True, **more}
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
        flat(found["facts"]),
    )
