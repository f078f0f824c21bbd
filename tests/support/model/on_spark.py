"""Audits of the model's cluster by `auditor run` on Spark, with its verdicts as the model's
rows.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from support.audits import FIRST_LOOK_ON_SPARK, Outcome, accounted, audit, replay_run
from support.model.engines import SETTINGS, ordered, written_out
from support.model.properties import wrong_bookies, wrong_verdicts
from support.model.rows import CopyFacts, FindingRow, Row, flat
from support.model.truth import Truth
from support.model.truth_of_runs import wrong_facts_of_run, wrong_marks, wrong_summary

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import VERDICTS
from auditor.run.replay import judge_again
from auditor.summary.about import About

Json = dict[str, Any]


class SparkRun(NamedTuple):
    """A whole run: the row of each ledger, and all that it said."""

    rows: dict[int, Row]
    outcome: Outcome


def on_spark(metadata_service_uri: str, workdir: Path, **more: object) -> SparkRun:
    """Run `auditor run` with `more` settings; check its counts, and that a replay says the same
    (`accounted`).

    The caller has the fixture `spark`. 2 to 5 s.
    """
    settings: dict[str, Any] = {**SETTINGS, **FIRST_LOOK_ON_SPARK, "allow_empty": True, **more}
    outcome = accounted(audit(metadata_service_uri, workdir, **settings))
    assert outcome.run_dir is not None
    verdicts = place(str(outcome.run_dir)).read_table("verdicts", VERDICTS)
    return SparkRun(_rows(verdicts.to_pylist(), outcome.findings), outcome)


def judged_again(run: SparkRun) -> SparkRun:
    """Judge the evidence of a run again with the product as it is patched now. Half a second, no
    Spark.
    """
    directory = run.outcome.run_dir
    assert directory is not None
    outcome = replay_run(directory)
    about = About.from_json(json.loads((directory / "run.json").read_text()))
    verdicts = judge_again(place(str(directory)), about)
    return SparkRun(_rows(verdicts.to_pylist(), outcome.findings), outcome)


def _rows(verdicts: Iterable[Json], findings: Iterable[Json]) -> dict[int, Row]:
    """Return the rows of VERDICTS and the findings of a run, as the model's."""
    found: dict[int, list[FindingRow]] = defaultdict(list)
    for one in findings:
        if one["ledger_id"] is not None:
            found[one["ledger_id"]].append(_finding_row_of_json(one))
    return {
        one["ledger_id"]: Row(
            one["standing"],
            one["exempt"],
            tuple(one["unknowns"]),
            tuple(ordered(found[one["ledger_id"]])),
            _copies(one),
            one["is_mark_stale"],
        )
        for one in verdicts
    }


def _copies(verdict: Json) -> CopyFacts | None:
    counts = [verdict[f"copies_{name}"] for name in CopyFacts._fields]
    return None if None in counts else CopyFacts(*counts)


def _finding_row_of_json(found: Json) -> FindingRow:
    segment, copies = found["segment"], found["copies"]
    return FindingRow(
        found["kind"],
        segment["first_entry_id"] if segment else None,
        written_out(found["entries"]),
        tuple(
            sorted((bookie, written_out(ranges)) for bookie, ranges in found["missing_on"].items())
        ),
        copies["confirmed"] if copies else None,
        copies["unknown"] if copies else None,
        flat(found["facts"]),
    )


def wrong_run(truth: Truth, run: SparkRun) -> Iterator[str]:
    """Yield each false statement of a whole run on ledgers, bookies, marks and copies, as a
    sentence.
    """
    findings = run.outcome.findings
    found = [(one["kind"], one["bookie_id"]) for one in findings if one["bookie_id"] is not None]
    yield from wrong_verdicts(truth, run.rows)
    yield from wrong_bookies(truth, found)
    yield from wrong_facts_of_run(truth, findings)
    if run.outcome.summary:  # a substitute for a run has none
        yield from wrong_marks(truth, findings, run.outcome.summary["marks"])
        yield from wrong_summary(truth, run.outcome.summary)
