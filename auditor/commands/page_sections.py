"""Read the parts of report.html that other commands compute: the margin, and what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from auditor.commands.diff import compare_runs
from auditor.commands.finished_run import open_finished_run
from auditor.commands.margin import margin_basis, margin_of_cluster, read_copies
from auditor.errors import ConfigError, OutputError
from auditor.evidence.newest_run import RUN_NAME
from auditor.evidence.run_directory import Place
from auditor.model.summary import Summary
from auditor.page.contents import ChangesSeen, MarginSeen
from auditor.page.pictures import LEDGERS_MAX

NO_AGE_LIMIT_S = float("inf")
"""The age that a page accepts of its evidence: no limit, because a page says how old the evidence
is."""
COMPARED_MAX = 20_000
"""A page compares at most this many findings, of both runs together. Each takes some 10 kB of
memory. `auditor diff` compares any number."""

Json = Mapping[str, Any]


def read_margin(directory: Place, summary: Summary) -> MarginSeen | None:
    """Return what more may fail; None for a run of more than LEDGERS_MAX ledgers.

    Raises OutputError if the run lacks a part of what it stored.
    """
    if summary.ledgers.listed > LEDGERS_MAX:
        return None
    try:
        run = read_copies(directory)
    except ConfigError as error:
        raise OutputError(str(error)) from error
    return MarginSeen(margin_basis(run, NO_AGE_LIMIT_S), margin_of_cluster(run))


def read_changes(directory: Place, summary: Summary) -> ChangesSeen | None:
    """Return what became of the findings since the run that this one was compared with.

    None if there was no such run. Raises OutputError if it can no longer be read.
    """
    since = summary.changes.since if summary.changes else None
    if since is None:
        return None
    name = f"run-{since.run_id}"
    if not RUN_NAME.fullmatch(name):
        raise OutputError("the earlier run has no name that a run has")
    path = f"{directory.path.rpartition('/')[0]}/{name}"
    earlier = Place(directory.files, path, path)
    try:
        _, before = open_finished_run(earlier)
        if before.findings_total + summary.findings_total > COMPARED_MAX:
            raise OutputError(
                f"the two runs have more than {COMPARED_MAX:,} findings: use auditor diff"
            )
        found = compare_runs(earlier, replace(directory, missing_is_empty=False))
    except ConfigError as error:
        raise OutputError(str(error)) from error
    return ChangesSeen(since.run_id, since.started_at, tuple(found.notes), found.differences)
