"""Renders how much more may fail before ledgers lose copies, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.model.identity import BookieId
from auditor.report.layout import duration, of, printable, table, wrap
from auditor.summary.margin import Exposure, Losses, Sort

SHOWN_MAX = 20
"""Bookies and racks shown, those that hold up most ledgers first; all of them are in the JSON form."""
NO_COPY = "no copy of some entry"
BELOW_ACK = "fewer copies than the ack quorum"


@dataclass(frozen=True, slots=True)
class MarginBasis:
    """What the answer rests on. `age_s`: seconds since the run finished.

    `in_order`: ledgers whose every entry has a confirmed copy. The other numbers are ledgers that
    the answer leaves out: `unconfirmed` (closed, and some entry has no confirmed copy), and `others`
    (still written, in recovery, empty, gone or unreadable).
    """

    run_id: str
    finished_at: str
    age_s: float
    is_too_old: bool
    is_partial: bool
    in_order: int
    unconfirmed: int
    others: int
    assumed_copies: int


@dataclass(frozen=True, slots=True)
class Without:
    """The question of `--without`: what was named, and which bookies that is."""

    named: tuple[str, ...]
    bookies: tuple[BookieId, ...]
    losses: Losses


@dataclass(frozen=True, slots=True)
class Cluster:
    """The answer for the whole cluster.

    `by_copies`: ledgers by the confirmed copies of their worst entry. `by_rack`: what losing a whole
    location would do.
    """

    by_copies: Mapping[int, int]
    exposure: Exposure
    by_rack: Mapping[str, Losses]


def margin_json(basis: MarginBasis, answer: Without | Cluster, exit_code: int) -> dict[str, Any]:
    """Return the JSON form."""
    known = {
        "run_id": basis.run_id,
        "finished_at": basis.finished_at,
        "age_s": round(basis.age_s),
        "too_old": basis.is_too_old,
        "partial": basis.is_partial,
        "ledgers": {"in_order": basis.in_order, "unconfirmed": basis.unconfirmed, "others": basis.others},
        "copies_assumed": basis.assumed_copies,
        "exit_code": exit_code,
    }
    if isinstance(answer, Without):
        return known | {"without": list(answer.named), "bookies": list(answer.bookies), **_losses_json(answer.losses)}
    return known | {
        "ledgers_by_copies": {str(copies): ledgers for copies, ledgers in sorted(answer.by_copies.items())},
        "bookies": {
            bookie: {"last_copy": answer.exposure.last_copy.get(bookie, 0), "ack_quorum": ledgers}
            for bookie, ledgers in answer.exposure.ack_quorum.items()
        },
        "racks": {rack: _losses_json(losses) for rack, losses in answer.by_rack.items()},
    }


def _losses_json(losses: Losses) -> dict[str, Any]:
    return {
        name: {"ledgers": sort.ledgers, "ids": list(sort.ids)}
        for name, sort in (
            ("no_copy", losses.no_copy),
            ("may_have_no_copy", losses.may_have_no_copy),
            ("below_ack_quorum", losses.below_ack),
            ("may_be_below_ack_quorum", losses.may_be_below_ack),
        )
    }


def margin_text(basis: MarginBasis, answer: Without | Cluster, exit_code: int, width: int) -> str:
    """Return the text form. Its last line is for machines."""
    body = _without(answer, width) if isinstance(answer, Without) else _cluster(answer, width)
    last = f"auditor: MARGIN run={basis.run_id} exit={exit_code}"
    if isinstance(answer, Without):
        last += f" no_copy={answer.losses.no_copy.ledgers} may_have_no_copy={answer.losses.may_have_no_copy.ledgers}"
    return "\n".join([*body, "", *_basis(basis, width), "", last, ""])


def _without(answer: Without, width: int) -> Iterator[str]:
    who = ", ".join(map(printable, answer.bookies[:SHOWN_MAX])) + (" ..." if len(answer.bookies) > SHOWN_MAX else "")
    losses = answer.losses
    yield from wrap(f"Without {of(len(answer.bookies), 'bookie')} ({who}):", width)
    yield from table(
        [
            [NO_COPY, of(losses.no_copy.ledgers, "ledger"), _ids(losses.no_copy)],
            ["  not ruled out for", of(losses.may_have_no_copy.ledgers, "more ledger"), _ids(losses.may_have_no_copy)],
            [BELOW_ACK, of(losses.below_ack.ledgers, "ledger"), _ids(losses.below_ack)],
            ["  not ruled out for", of(losses.may_be_below_ack.ledgers, "more ledger"), _ids(losses.may_be_below_ack)],
        ],
        "  ",
    )


def _ids(sort: Sort) -> str:
    shown = ", ".join(map(str, sort.ids[:3]))
    return shown + (", ..." if sort.ledgers > 3 else "")


def _cluster(answer: Cluster, width: int) -> Iterator[str]:
    yield "Ledgers by the confirmed copies of their worst entry"
    yield from table([[of(copies, "copy", "copies"), of(n, "ledger")] for copies, n in sorted(answer.by_copies.items())], "  ")
    yield ""
    exposure = answer.exposure
    bookies = sorted(exposure.ack_quorum.keys() | exposure.last_copy.keys(), key=lambda b: (_weight(exposure, b), b))
    yield "If one bookie failed"
    yield from _lines_by_harm(
        "bookie", [(bookie, exposure.last_copy.get(bookie, 0), exposure.ack_quorum.get(bookie, 0)) for bookie in bookies]
    )
    if answer.by_rack:
        yield ""
        yield "If all bookies of one location failed"
        rows = [(rack, losses.no_copy.ledgers, losses.below_ack.ledgers) for rack, losses in answer.by_rack.items()]
        yield from _lines_by_harm("location", sorted(rows, key=lambda row: (-row[1], -row[2], row[0])))


def _weight(exposure: Exposure, bookie: BookieId) -> tuple[int, int]:
    return -exposure.last_copy.get(bookie, 0), -exposure.ack_quorum.get(bookie, 0)


def _lines_by_harm(what: str, rows: Sequence[tuple[str, int, int]]) -> Iterator[str]:
    """Yield one line for each bookie or location: its name, and how many ledgers it would harm."""
    if not any(lost or below for _, lost, below in rows):
        yield "  no ledger would have fewer copies than the ack quorum"
        return
    cells = [[printable(name), f"{lost:,}", f"{below:,}"] for name, lost, below in rows[:SHOWN_MAX]]
    yield from table([[what, f"ledgers with {NO_COPY}", f"with {BELOW_ACK}"], *cells], "  ")
    if len(rows) > SHOWN_MAX:
        yield f"  ... and {len(rows) - SHOWN_MAX:,} more (--format json has all)"


def _basis(basis: MarginBasis, width: int) -> Iterator[str]:
    """Yield what the answer rests on, and what it leaves out."""
    of_what = "the ledgers that the run was told to audit" if basis.is_partial else "the cluster"
    sentences = [
        f"From the evidence of run {basis.run_id}, {duration(basis.age_s)} old, on {of(basis.in_order, 'ledger')} of {of_what}."
    ]
    if basis.is_too_old:
        sentences.append("That is older than --evidence-age-max: run the audit again before you rely on it.")
    if basis.unconfirmed:
        closed = of(basis.unconfirmed, "closed ledger")
        sentences.append(f"Left out: {closed} with an entry of which no copy is confirmed now.")
    if basis.others:
        sentences.append(f"Left out because they are not closed, or have no entry: {of(basis.others, 'ledger')}.")
    if basis.assumed_copies:
        copies = of(basis.assumed_copies, "copy", "copies")
        sentences.append(f"Of the cluster's copies, {copies} rest on a sample of other entries.")
    yield from wrap(" ".join(sentences), width)
