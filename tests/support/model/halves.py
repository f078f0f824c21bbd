"""A whole run on Spark that is killed at a stage and resumed, perhaps on a changed cluster, and the
laws for it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import pyarrow.dataset as ds
from support.model.across import Heard, wrong_across, wrong_bookies_across
from support.model.engines import tick
from support.model.on_spark import Json, SparkRun, on_spark, wrong_run
from support.model.truth import HALF, WRITTEN, Cut, Truth

from auditor.evidence.run_directory import Place

SHARD_LEDGERS = 2
"""Ledgers of a shard. Those of one history make three shards."""
KEPT = ("evidence/", "verdicts/")
"""Where a finished run keeps the tables of its stages."""


class CutDown(BaseException):
    """Raised to end the run, in place of a killed process."""


@dataclass
class Halves:
    """One run in two parts. `cut` is the cut of the history; `begin` runs up to it, and `send_more`
    resumes there.
    """

    metadata_service_uri: str
    home: Path
    cut: Cut
    run: SparkRun | None = None
    """The whole run, once it has ended. A run with fewer stages ends in `begin`."""
    written: dict[str, str] = field(default_factory=dict)
    """The digest of each file that was in place at the cut, by its name."""
    cut_ms: int | None = None
    """Answers later than this came after the run was resumed."""
    is_listed: bool = True
    """Whether the ledgers had been listed by then."""

    def begin(self) -> None:
        """Run the first part: up to the stage that ends it, or to its end."""
        reached = 0
        write = Place.write_text

        def ends(place: Place, name: str, text: str) -> None:
            nonlocal reached
            reached += place.path.endswith("/journal")
            if reached < self.cut.stage or not place.path.endswith("/journal"):
                return write(place, name, text)
            if self.cut.left == WRITTEN:
                write(place, name, text)
            if self.cut.left == HALF:
                for file in list(json.loads(text)["files"])[::2]:
                    (Path(place.path).parent / file).unlink()
            raise CutDown

        with patch.object(Place, "write_text", ends):
            try:
                self.run = self._audit()
            except CutDown:
                self.cut_ms = tick()
                names = [
                    name for one in self._journal() for name in json.loads(one.read_text())["files"]
                ]
                self.written = self._digests(name for name in names if name.startswith(KEPT))
                self.is_listed = bool(self._journal())

    def send_more(self) -> None:
        """Resume with `--resume`; start a whole new run if nothing was in place to resume."""
        if self.run is None:
            more = {"resume": self._directory().name.removeprefix("run-")} if self.is_listed else {}
            self.run = self._audit(**more)

    def broken(self, now: Truth) -> Iterator[str]:
        """Yield the broken laws of the whole run, as sentences. `now`: the cluster since the run
        was resumed.
        """
        assert self.run is not None
        parts = [self.cut.cluster, now]
        listed = parts[not self.is_listed].listed()
        if sorted(self.run.rows) != sorted(listed):
            yield f"verdicts on {sorted(self.run.rows)}, where {listed} were listed"
            return
        yield from wrong_across(parts, self.run.rows, self._heard())
        found = [
            (one["kind"], one["bookie_id"])
            for one in self.run.outcome.findings
            if one["bookie_id"] is not None
        ]
        seen = parts[: 1 if self.cut_ms is None else 2][0 if self.is_listed else 1 :]
        yield from wrong_bookies_across(seen, found)
        if parts[0] == now:
            yield from wrong_run(now, self.run)
        yield from self._asked_again()

    def _asked_again(self) -> Iterator[str]:
        """Yield what of the state at the cut changed by the end, or is there twice."""
        for name in sorted(self.written.keys() - (again := self._digests(self.written)).keys()):
            yield f"{name} was written before the run was cut down, and is gone"
        for name in sorted(name for name in again if again[name] != self.written[name]):
            yield f"{name} was written before the run was cut down, and again when it went on"
        for table, key in (
            ("ledgers", ["ledger_id", "look"]),
            ("answers", ["bookie_id", "ledger_id", "look"]),
        ):
            rows = [row for row in self._rows(table, key) if row["ledger_id"] is not None]
            twice = [
                row
                for row, times in Counter(tuple(one.values()) for one in rows).items()
                if times > 1
            ]
            if twice:
                yield f"evidence/{table} has twice what its key is: {key} {sorted(twice)}"

    def _heard(self) -> dict[int, Heard]:
        """Return in which part each ledger was looked at, by the dates of the evidence."""
        heard: dict[int, Heard] = {}
        records = self._rows("ledgers", ["ledger_id", "look", "read_at_ms"])
        read: dict[int, list[int]] = {}
        for row in sorted(records, key=lambda one: int(one["look"])):
            read.setdefault(row["ledger_id"], []).append(self._part(row["read_at_ms"]))
        for number, at in read.items():
            heard[number] = Heard(at[-1], looks_before=sum(one < at[-1] for one in at))
        for table in ("answers", "reads"):
            for row in self._rows(table, ["ledger_id", "bookie_id", "asked_at_ms"]):
                if row["ledger_id"] is not None:
                    one, part = heard[row["ledger_id"]], self._part(row["asked_at_ms"])
                    one.asked = max(one.asked, part)
                    if table == "answers":
                        one.lists.setdefault(row["bookie_id"], set()).add(part)
        return heard

    def _part(self, at_ms: int) -> int:
        return int(self.cut_ms is not None and at_ms > self.cut_ms)

    def _audit(self, **more: object) -> SparkRun:
        return on_spark(self.metadata_service_uri, self.home, shard_ledgers=SHARD_LEDGERS, **more)

    def _directory(self) -> Path:
        return max((self.home / "audits").glob("run-*"))

    def _journal(self) -> list[Path]:
        return sorted(self._directory().glob("journal/*.json"))

    def _digests(self, names: Iterator[str] | dict[str, str]) -> dict[str, str]:
        files = {name: self._directory() / name for name in names}
        return {
            name: sha256(file.read_bytes()).hexdigest()
            for name, file in files.items()
            if file.is_file()
        }

    def _rows(self, table: str, columns: Sequence[str]) -> list[Json]:
        if not (self._directory() / "evidence" / table).is_dir():
            return []
        rows = ds.dataset(self._directory() / "evidence" / table, format="parquet").to_table(
            columns=list(columns)
        )
        return list(rows.to_pylist())
