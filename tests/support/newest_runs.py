"""OUTPUT with a finished run in it, of which only the parts exist that other commands read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from support import report_stories

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import BOOKIES, VERDICTS
from auditor.model.cluster import ClusterFacts

RUN_ID = "20260102T030405Z-abcdef"
FINISHED_AT = "2026-01-02T03:14:15.000Z"


def output_with_a_run(
    root: Path,
    facts: ClusterFacts,
    *,
    unable: Sequence[str] = (),
    unsupported: int | None = None,
    standings: Mapping[int, str] | None = None,
) -> Path:
    """Write a run that found these bookies unable to list. `unsupported` is the number it counted,
    if it is larger than the number of names.
    """
    name = f"run-{RUN_ID}"
    (root / name).mkdir(parents=True)
    summary = report_stories.summary().as_json() | {
        "run_id": RUN_ID,
        "finished_at": FINISHED_AT,
        "cluster": {
            "metadata_service_uri": facts.metadata_service_uri,
            "instance_id": facts.instance_id,
            "root": facts.root,
            "hosts": list(facts.hosts),
        },
        "bookies": dict.fromkeys(("registered", "readonly", "named_by_ledgers", "answered"), 9)
        | {"silent": 0, "refused": 0}
        | {"unsupported": len(unable) if unsupported is None else unsupported},
        "assurance": {"bookies_unable": list(unable)},
    }
    (root / name / "summary.json").write_text(json.dumps(summary))
    (root / "latest.json").write_text(json.dumps({"run": name}))
    if standings is not None:
        rows = [
            {"ledger_id": ledger_id, "standing": standing}
            for ledger_id, standing in standings.items()
        ]
        place(str(root / name)).write_table("verdicts", table(VERDICTS, rows), "all")
    return root


def table(schema: pa.Schema, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows in which only some columns are filled."""
    return pa.Table.from_pylist(
        [{field: row.get(field) for field in schema.names} for row in rows], schema
    )


def add_greetings(root: Path, greetings: Mapping[str, str]) -> None:
    """Add to the run how each bookie greeted it."""
    rows = [
        {"bookie_id": bookie, "look": 1, "greeting": greeting}
        for bookie, greeting in greetings.items()
    ]
    place(str(root / f"run-{RUN_ID}")).write_table(
        "evidence/bookies", table(BOOKIES, rows), "look-01"
    )
