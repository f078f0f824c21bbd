"""What a run reports to have heard and found, as comparable values, read from its outputs without
the run's code.

    reported = of_run(run_dir)      # or of_command(outcome), for `auditor ledger`
    reported.answers[0], reported.reads[0], reported.verdicts[0]
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from faults.frames import entries_of_groups

from auditor.model.finding_record import HISTORY_FIELDS

Json = Mapping[str, Any]
Runs = tuple[tuple[int, int], ...]
"""Runs of entries, first and last."""


@dataclass(frozen=True)
class Heard:
    """A bookie's answer about a ledger, as a run reports it. `entries` None: it does not say
    which.
    """

    status: str
    entries: frozenset[int] | None = None


@dataclass(frozen=True)
class Read:
    """The result of reading one entry, as a run reports it."""

    status: str


@dataclass(frozen=True)
class Loss:
    """A finding on a ledger. `missing_on`: by bookie, in order; `segment`: its first and last
    entry; `copies`: write quorum, ack quorum, confirmed and unknown copies of the worst entry.
    Findings without a loss have none of these.
    """

    kind: str
    entries: Runs = ()
    missing_on: tuple[tuple[str, Runs], ...] = ()
    segment: tuple[int, int] | None = None
    copies: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class Judged:
    """A run's verdict on a ledger: its standing, the reasons and the findings, each in alphabetical
    order. `assurance`: "listed", or "probed" if it rests on a sample.
    """

    standing: str
    exempt: str | None = None
    unknowns: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    assurance: str = "listed"


@dataclass(frozen=True)
class Partly:
    """A permitted verdict on a ledger, as long as all of `lacking` and at least `count` of its
    bookies are not heard.
    """

    judged: Judged
    bookies: frozenset[str]
    lacking: frozenset[str]
    count: int

    def allows(self, other: State, unheard: frozenset[str]) -> bool:
        """Return whether the report says this, and those bookies are unheard."""
        return (
            other == self.judged
            and self.lacking <= unheard
            and self.count <= len(self.bookies & unheard)
        )


@dataclass(frozen=True)
class Sampled:
    """A permitted verdict on a ledger: the part of its truth that a sample shows, if the verdict
    says that it rests on one, and one of its bookies does not list.
    """

    truth: Judged
    bookies: frozenset[str]

    def allows(self, other: State, unheard: frozenset[str]) -> bool:
        """Return whether it says this: no loss, or the true ones, and of no entry that is not
        lost.
        """
        if (
            not isinstance(other, Judged)
            or other.assurance != "probed"
            or not self.bookies & unheard
        ):
            return False
        whole = replace(self.truth, assurance="probed")
        nothing = replace(whole, standing="exempt" if whole.exempt else "sound", losses=())
        if other == nothing:
            return True
        found = [_whole(part, loss) for part, loss in zip(other.losses, whole.losses, strict=False)]
        return whole == replace(other, losses=(*found, *other.losses[len(found) :]))


def _whole(part: Loss, loss: Loss) -> Loss:
    """Return the loss of which this is a part that says the same of every bookie."""
    shown = tuple((bookie, part.entries) for bookie, _ in loss.missing_on)
    known = all(
        any(first <= run[0] and run[1] <= last for first, last in loss.entries)
        for run in part.entries
    )
    return (
        loss
        if known and part.entries and part == replace(loss, entries=part.entries, missing_on=shown)
        else part
    )


State = Heard | Read | Judged
Key = tuple[int, ...]
"""What a sequence is about: a ledger, or a ledger and an entry."""
Row = tuple[str, int, Key, Heard | Read]
"""Bookie, look, subject of the question, answer."""


@dataclass(frozen=True)
class Reported:
    """A run's outputs, each in the order in which it was written.

    `in_order`: the order of the verdicts means something; `reads_in_order`: so does that of the
    reads of each bookie.
    """

    answers: Sequence[Row]
    verdicts: Sequence[tuple[int, Judged]]
    in_order: bool
    reads: Sequence[Row] = ()
    reads_in_order: bool = True


def of_run(run_dir: Path) -> Reported:
    """Return what a run's directory says. Raises AssertionError if its files contradict each
    other.
    """
    summary = json.loads((run_dir / "summary.json").read_text())
    lines = (run_dir / "findings.jsonl").read_text().splitlines()
    verdicts = _rows(run_dir / "verdicts")
    written = Counter(text for row in verdicts for text in row["findings"])
    published = Counter(
        as_judged(line) for line in lines if json.loads(line)["ledger_id"] is not None
    )
    assert written == published, (
        f"the verdicts have {written - published} more, findings.jsonl {published - written}"
    )
    judged = [
        (row["ledger_id"], judged_of(row, [json.loads(text) for text in row["findings"]]))
        for row in verdicts
    ]
    _counted(summary, judged)
    metadata = {(row["ledger_id"], row["look"]): row for row in _rows(run_dir / "evidence/ledgers")}
    return Reported(
        answers_of(_rows(run_dir / "evidence/answers"), metadata),
        judged,
        False,
        reads_of(_rows(run_dir / "evidence/reads")),
    )


def as_judged(line: str) -> str:
    """Return a line of findings.jsonl as the verdict has it, without what the run knows of earlier
    runs and of mutes.
    """
    found = {name: value for name, value in json.loads(line).items() if name not in HISTORY_FIELDS}
    return json.dumps(found, separators=(",", ":"))


def of_command(report: Json, answers: Sequence[Row] = (), reads: Sequence[Row] = ()) -> Reported:
    """Return what `auditor ledger` says as JSON, in its order, which is that of the given ids.

    The report has no entries: `answers` and `reads` are its evidence, ledger by ledger. Raises
    AssertionError if the report contradicts its evidence, or counts other ledgers than it names.
    """
    shown = {
        (bookie, look, (one["ledger_id"],)): status
        for one in report["ledgers"]
        for look, seen in enumerate(one.get("looks", ()), start=1)
        for bookie, status in seen["answers"].items()
    }
    heard = {row[:3]: row[3].status for row in answers}
    assert shown == heard, (
        f"the report shows {set(shown.items()) - set(heard.items())} more than was heard, or less"
    )
    judged = [
        (
            one["ledger_id"],
            judged_of(
                one,
                [found for found in report["findings"] if found["ledger_id"] == one["ledger_id"]],
            ),
        )
        for one in report["ledgers"]
    ]
    _counted(report["summary"], judged)
    return Reported(answers, judged, True, reads, reads_in_order=False)


def _counted(summary: Json, judged: Sequence[tuple[int, Judged]]) -> None:
    counts = Counter(verdict.standing for _, verdict in judged)
    by_word = {word: n for word, n in summary["ledgers"].items() if word != "listed" and n}
    assert by_word == counts, f"the summary counts {by_word}, the verdicts are {counts}"


def answers_of(
    rows: Iterable[Json], metadata: Mapping[tuple[int, int], Json] | None = None
) -> list[Row]:
    """Return rows of evidence as answers, without those that only greet.

    `metadata` has the rows of the ledgers by ledger and look: a list that was as expected is not
    stored, and its entries are counted from them.
    """
    return [
        (
            row["bookie_id"],
            row["look"],
            (row["ledger_id"],),
            Heard(row["status"], _listed(row, metadata or {})),
        )
        for row in rows
        if row["ledger_id"] is not None
    ]


def _listed(row: Json, metadata: Mapping[tuple[int, int], Json]) -> frozenset[int] | None:
    """Return the entries of a list; those that its bookie should hold if it is not stored."""
    if row["status"] != "held" or row["groups"] is not None:
        return entries_of_groups(row["groups"] or b"")
    assert row["is_as_expected"], f"a list is neither stored nor as expected: {row}"
    ledger = metadata[row["ledger_id"], row["look"]]
    (segment,) = ledger["segments"]
    ensemble, quorum = segment["ensemble"], ledger["write_quorum"]
    return frozenset(
        entry
        for entry in range(ledger["last_entry_id"] + 1)
        if row["bookie_id"] in {ensemble[(entry + i) % len(ensemble)] for i in range(quorum)}
    )


def reads_of(rows: Iterable[Json]) -> list[Row]:
    """Return rows of evidence as entries that were read."""
    return [
        (row["bookie_id"], row["look"], (row["ledger_id"], row["entry_id"]), Read(row["status"]))
        for row in rows
    ]


def judged_of(verdict: Json, findings: Iterable[Json]) -> Judged:
    """Return a verdict as a run reports it, with the findings on that ledger."""
    losses = sorted((_loss(found) for found in findings), key=repr)
    unknowns = tuple(sorted(verdict.get("unknowns", ())))
    return Judged(
        verdict["standing"],
        verdict.get("exempt"),
        unknowns,
        tuple(losses),
        verdict.get("assurance", ""),
    )


def _loss(found: Json) -> Loss:
    segment, copies = found["segment"], found["copies"]
    return Loss(
        found["kind"],
        _runs(found["entries"]),
        tuple(sorted((bookie, _runs(runs)) for bookie, runs in found["missing_on"].items())),
        segment and (segment["first_entry_id"], segment["last_entry_id"]),
        copies
        and tuple(copies[word] for word in ("write_quorum", "ack_quorum", "confirmed", "unknown")),
    )


def _runs(runs: Iterable[Iterable[int]]) -> Runs:
    return tuple((first, last) for first, last in runs)


def _rows(table: Path) -> list[dict[str, Any]]:
    """Return the rows of a written table in the order of its files, and of the rows in each
    file.
    """
    return [
        row
        for path in written_files(table)
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]


def written_files(table: Path) -> list[Path]:
    """Return the files of a table, oldest first: each stage of a run adds some."""
    return sorted(table.glob("*.parquet"), key=lambda path: (path.stat().st_mtime_ns, path.name))
