"""Read the newest finished run in OUTPUT, for commands that answer in seconds.

Arrow takes a third of a second to load. It is loaded only to read a table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import OutputError
from auditor.evidence.local_files import is_uri
from auditor.model.availability import Greeting
from auditor.model.cluster import ClusterFacts
from auditor.model.identity import BookieId, LedgerId
from auditor.model.summary import Summary

LATEST = "latest.json"
RUN_NAME = re.compile(r"run-\d{8}T\d{6}Z-[0-9a-f]{6}")


def run_name(text: str) -> str | None:
    """Return the name of a run's directory for its id or that name; None for anything else."""
    name = text if text.startswith("run-") else f"run-{text}"
    return name if RUN_NAME.fullmatch(name) else None


@dataclass(frozen=True, slots=True)
class NewestRun:
    """A finished run of a whole cluster. `finished_at` is RFC 3339, UTC."""

    run_id: str
    finished_at: str
    summary: Summary
    path: str
    """Its directory: a local path or a URI."""

    def as_json(self) -> dict[str, str]:
        """Return the run's id and end. A command's output names the run that it used by these."""
        return {"run_id": self.run_id, "finished_at": self.finished_at}

    def bookies_unable(self) -> frozenset[BookieId]:
        """Return the bookies that the run recorded as unable to list; empty if its files are
        unreadable.
        """
        try:
            named, counts = self.summary.assurance.bookies_unable, self.summary.bookies
            if counts is not None and len(named) >= counts.unsupported:
                return frozenset(named)
            return _bookies_unsupported(self.path)
        except (KeyError, TypeError, OutputError):
            return frozenset()

    def standings(self, ids: Iterable[LedgerId]) -> dict[LedgerId, str]:
        """Return the standing of each of these ledgers that the run judged.

        The result is empty if the run's files cannot be read.
        """
        wanted = list(ids)
        try:
            return _standings(self.path, wanted) if wanted else {}
        except OutputError:
            return {}


def newest_run(output: str, facts: ClusterFacts) -> NewestRun | None:
    """Return the newest finished run in `output`, if it audited the cluster that `facts` describe.

    Also returns None if there is no run or it cannot be read: callers can do without.
    """
    try:
        read = _reader(output)
        name = json.loads(read(LATEST) or "null")["run"]
        if not RUN_NAME.fullmatch(name):
            return None
        summary = Summary.from_json(json.loads(read(f"{name}/summary.json") or "null"))
        cluster = summary.cluster
        if not facts.is_of(cluster.instance_id, cluster.root, cluster.hosts):
            return None
        return NewestRun(
            summary.run_id,
            str(summary.finished_at),
            summary,
            f"{output.rstrip('/')}/{name}",
        )
    except (OSError, OutputError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _reader(output: str) -> Callable[[str], str | bytes | None]:
    """Return a function that reads a file below `output`.

    That function returns None or raises OSError if there is no such file.
    """
    if is_uri(output):
        from auditor.evidence.run_directory import place

        return place(output).read_text
    root = Path(output)
    return lambda name: (root / name).read_bytes()


def _bookies_unsupported(run: str) -> frozenset[BookieId]:
    import pyarrow.compute as pc

    from auditor.evidence.run_directory import place
    from auditor.evidence.schemas import BOOKIES

    keep = pc.field("greeting") == Greeting.UNSUPPORTED.value
    table = place(run).read_table("evidence/bookies", BOOKIES, keep, ["bookie_id"])
    return frozenset(table["bookie_id"].to_pylist())


def _standings(run: str, ids: list[LedgerId]) -> dict[LedgerId, str]:
    import pyarrow as pa
    import pyarrow.compute as pc

    from auditor.evidence.run_directory import place
    from auditor.evidence.schemas import VERDICTS

    keep = pc.is_in(pc.field("ledger_id"), pa.array(ids))
    table = place(run).read_table("verdicts", VERDICTS, keep, ["ledger_id", "standing"])
    return dict(zip(table["ledger_id"].to_pylist(), table["standing"].to_pylist(), strict=True))
