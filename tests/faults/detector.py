"""A detector of lost, duplicated, reordered and corrupted verdicts, apart from the auditor: it reads what a run wrote and what
the proxies saw, and derives no verdict.

What a run goes through is a sequence: the ledgers in the order in which a bookie was asked about them. That order is the one a
proxy saw. The run's outputs are to be the same sequence again, with the state that belongs to each ledger: the answer that was
delivered, the verdict that is owed. Sequences are split by ledger id modulo M, so that what happens to one part of the ledgers
does not hide in the others, and looked at through windows of the last four, as one breach shifts all that follow it:

    asked    1 4 7 10            told  1 4 10        7 is lost:        [1 4 7 10] became [0 1 4 10]
                                 told  1 4 4 7 10    4 is duplicated
                                 told  1 7 4 10      reordered; also when each of two has the other's state
                                 told  1 4 7 13      13 was never asked, or has a state that nobody delivered: corrupted

    told = of_run(run_dir)                              # or of_command(outcome), for `auditor ledger`
    breaches(log, told, owed={7: frozenset({Judged("sound")})})
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from faults.frames import entries_of_groups
from faults.harm import Log, Passed

M = 3
"""How many parts the ledgers of a sequence are split into."""
WINDOW = 4
HEARD = ("held", "no_such_ledger")
"""Answers that say which entries are there. All others are an answer that was not heard, which is never a breach."""


class Sort(StrEnum):
    LOSS = "loss"
    DUPLICATION = "duplication"
    REORDERING = "reordering"
    CORRUPTION = "corruption"


@dataclass(frozen=True)
class Breach:
    """Of one sequence: what happened, to which ledger, and the window that ends with it as it was told."""

    sort: Sort
    sequence: str
    ledger_id: int
    window: tuple[int, ...]


@dataclass(frozen=True)
class Heard:
    """What a run says a bookie answered of a ledger. `entries` None: it does not say which."""

    status: str
    entries: frozenset[int] | None = None


@dataclass(frozen=True)
class Judged:
    """What a run says of a ledger: its standing, and the kinds of its findings, sorted."""

    standing: str
    kinds: tuple[str, ...] = ()


State = Heard | Judged
Row = tuple[str, int, int, Heard]
"""Bookie, look, ledger, answer."""


@dataclass(frozen=True)
class Told:
    """A run's outputs, each in the order in which it was written; `in_order`: the verdicts' order means something."""

    answers: Sequence[Row]
    verdicts: Sequence[tuple[int, Judged]]
    in_order: bool


def of_run(run_dir: Path) -> Told:
    """What a run's directory says. Raises AssertionError where its files contradict each other."""
    summary = json.loads((run_dir / "summary.json").read_text())
    findings = [json.loads(line) for line in (run_dir / "findings.jsonl").read_text().splitlines()]
    rows = _rows(run_dir / "evidence" / "answers")
    answers = [
        (row["bookie_id"], row["look"], row["ledger_id"], Heard(row["status"], entries_of_groups(row["groups"] or b"")))
        for row in rows
        if row["ledger_id"] is not None
    ]
    verdicts = _rows(run_dir / "verdicts")
    written = Counter((row["ledger_id"], json.loads(text)["kind"]) for row in verdicts for text in row["findings"])
    published = Counter((found["ledger_id"], found["kind"]) for found in findings if found["ledger_id"] is not None)
    assert written == published, f"the verdicts have {written - published} more, findings.jsonl {published - written}"
    counts = Counter(row["standing"] for row in verdicts)
    told = {word: n for word, n in summary["ledgers"].items() if word in counts}
    assert told == counts, f"summary.json counts {told}, the verdicts are {counts}"
    judged = [(r["ledger_id"], _judged(r["standing"], [json.loads(t) for t in r["findings"]])) for r in verdicts]
    return Told(answers, judged, in_order=False)


def of_command(ledgers: Sequence[Mapping[str, Any]], findings: Sequence[Mapping[str, Any]]) -> Told:
    """What `auditor ledger` says as JSON, in its order, which is that of the ids it was given."""
    answers = [
        (bookie, look, one["ledger_id"], Heard(status))
        for one in ledgers
        for look, seen in enumerate(one.get("looks", ()), start=1)
        for bookie, status in seen["answers"].items()
    ]
    verdicts = [
        (one["ledger_id"], _judged(one["standing"], [f for f in findings if f["ledger_id"] == one["ledger_id"]]))
        for one in ledgers
    ]
    return Told(answers, verdicts, in_order=True)


def breaches(log: Log, told: Told, owed: Mapping[int, frozenset[Judged]]) -> list[Breach]:
    """Everything that is wrong. `owed`: what may be said of each ledger that the run was to judge.

    The log has a mark where the second look begins; later looks without a pause of their own are in its epoch.
    """
    epochs = log.epochs()
    bookies = {row[0] for row in told.answers} | {one.proxy for epoch in epochs for one in epoch} - {"zookeeper"}
    by_look = {1: epochs[0], 2: [one for epoch in epochs[1:] for one in epoch]}
    seen = {
        (bookie, look): [one for one in frames if one.proxy == bookie]
        for bookie in sorted(bookies)
        for look, frames in by_look.items()
    }
    return compared(seen, told, owed)


def compared(
    seen: Mapping[tuple[str, int], Sequence[Passed]], told: Told, owed: Mapping[int, frozenset[Judged]]
) -> list[Breach]:
    """The same, where it is known which frames of a bookie belong to which look."""
    found = [breach for (bookie, look), mine in seen.items() for breach in _answers(bookie, look, mine, told)]
    asked = _asked(sorted((one for mine in seen.values() for one in mine), key=lambda one: one.number))
    order = [ledger for ledger in asked if ledger in owed] + [ledger for ledger in owed if ledger not in asked]
    if told.in_order:  # the proxies saw each bookie's part of it; the whole is the order of the ids
        order = sorted(order)
    return found + compare("verdicts", order, owed, told.verdicts, in_order=told.in_order)


def compare(
    sequence: str,
    expected: Sequence[int],
    allowed: Mapping[int, frozenset[State]],
    told: Sequence[tuple[int, State]],
    *,
    in_order: bool = True,
) -> list[Breach]:
    """How what is told departs from what is expected; each part modulo M for itself."""
    found = []
    for part in range(M):
        mine = [one for one in told if one[0] % M == part]
        wanted = [ledger for ledger in expected if ledger % M == part]
        found += _part(f"{sequence}, ids {part} modulo {M}", wanted, allowed, mine, in_order)
    return found


def _part(
    name: str,
    expected: Sequence[int],
    allowed: Mapping[int, frozenset[State]],
    told: Sequence[tuple[int, State]],
    in_order: bool,
) -> list[Breach]:
    ids = [ledger for ledger, _ in told]
    known = [ledger for ledger in dict.fromkeys(ids) if ledger in expected]

    def breach(sort: Sort, ledger: int) -> Breach:
        return Breach(sort, name, ledger, _window(ids, ids.index(ledger) if ledger in ids else len(ids) - 1))

    found = [breach(Sort.CORRUPTION, ledger) for ledger in dict.fromkeys(ids) if ledger not in expected]
    found += [breach(Sort.DUPLICATION, ledger) for ledger, n in Counter(ids).items() if n > 1 and ledger in expected]
    found += [breach(Sort.LOSS, ledger) for ledger in expected if ledger not in ids]
    kept = [ledger for ledger in expected if ledger in ids]
    if in_order and kept != known:
        at = next(n for n, pair in enumerate(zip(kept, known, strict=True)) if pair[0] != pair[1])
        found.append(breach(Sort.REORDERING, known[at]))
    return found + [breach(sort, ledger) for sort, ledger in _strange(dict(told), allowed, known)]


def _strange(
    told: Mapping[int, State], allowed: Mapping[int, frozenset[State]], known: Sequence[int]
) -> list[tuple[Sort, int]]:
    """Ledgers with a state that is not theirs: another's, where that one has lost its own, or nobody's."""
    wrong = [ledger for ledger in known if not _may_be(told[ledger], allowed[ledger])]
    found = []
    for ledger in wrong:
        owners = [other for other in wrong if other != ledger and _may_be(told[ledger], allowed[other])]
        found.append((Sort.REORDERING if owners else Sort.CORRUPTION, ledger))
    return found


def _may_be(state: State, allowed: frozenset[State]) -> bool:
    if isinstance(state, Heard) and (state.status not in HEARD):
        return True
    if isinstance(state, Heard) and state.entries is None:
        return any(isinstance(one, Heard) and one.status == state.status for one in allowed)
    return state in allowed


def _answers(bookie: str, look: int, seen: Sequence[Passed], told: Told) -> list[Breach]:
    """One bookie's answers of one look against what its proxy saw. Answers that were not heard need not have been asked for:
    the bookie could not be reached."""
    asked = _asked(seen)
    rows = [(ledger, heard) for name, at, ledger, heard in told.answers if name == bookie and at == look]
    mine = [(ledger, heard) for ledger, heard in rows if ledger in asked or heard.status in HEARD]
    delivered: dict[int, set[State]] = {ledger: set() for ledger in asked}
    for one in seen:
        sent = one.sent
        if one.reply and sent is not None and sent.operation == "list" and sent.ledger_id in delivered:
            delivered[sent.ledger_id].add(Heard(sent.status, sent.entries))
    allowed = {ledger: frozenset(states) for ledger, states in delivered.items()}
    later = {ledger for name, at, ledger, _ in told.answers if name == bookie and at > look > 1} - {
        ledger for ledger, _ in rows
    }
    expected = [ledger for ledger in asked if ledger not in later]
    return compare(f"{bookie} at look {look}", expected, allowed, mine)


def _asked(seen: Iterable[Passed]) -> list[int]:
    """Ledgers in the order in which lists of them were first asked for."""
    lists = (one.said.ledger_id for one in seen if not one.reply and one.said.operation == "list")
    return list(dict.fromkeys(ledger for ledger in lists if ledger is not None))


def _window(ids: Sequence[int], at: int) -> tuple[int, ...]:
    """The last WINDOW ids up to a place, zeros before the first."""
    return tuple(ids[n] if n >= 0 else 0 for n in range(at - WINDOW + 1, at + 1))


def _judged(standing: str, findings: Iterable[Mapping[str, Any]]) -> Judged:
    return Judged(standing, tuple(sorted(found["kind"] for found in findings)))


def _rows(table: Path) -> list[dict[str, Any]]:
    """Rows of a written table in the order in which its files were written, and in each file."""
    return [row for path in written_files(table) for row in pq.read_table(path, partitioning=None).to_pylist()]


def written_files(table: Path) -> list[Path]:
    """The files of a table, oldest first: each stage of a run adds some."""
    return sorted(table.glob("*.parquet"), key=lambda path: (path.stat().st_mtime_ns, path.name))
