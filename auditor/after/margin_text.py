"""Render what more may fail before ledgers lose copies, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor.after.absorbing import DISK_USAGE_LIMIT, Absorption
from auditor.after.margin import Exposure, Losses, Sort
from auditor.after.repairing import MarksSince, repair_json, repair_sentences
from auditor.model.identity import BookieId
from auditor.report.layout import Screen, duration, of, printable, size, table

SHOWN_MAX = 20
"""At most this many bookies and racks are shown, those with the most ledgers at risk first; the
JSON form has all."""
NO_COPY = "no copy of some entry"
BELOW_ACK = "fewer copies than the ack quorum"
_SORTS = ("no_copy", "may_have_no_copy", "below_ack_quorum", "may_be_below_ack_quorum")
"""The kinds of loss as fields, in the order of `Losses`."""


@dataclass(frozen=True, slots=True)
class MarginBasis:
    """What the answer rests on. `age_s`: seconds since the run started or, if it `has_carried`
    verdicts over, since the oldest run did whose lists they rest on; if negative, a clock is wrong.

    `in_order`: closed ledgers whose every entry has a confirmed copy. `unconfirmed`: closed ledgers
    with an entry that has none. The answer leaves out `others`: still written, in recovery, empty
    or deleted. It does not hold for `unread` (as in `StoredCopies`).
    """

    run_id: str
    started_at: str
    age_s: float
    is_too_old: bool
    is_partial: bool
    in_order: int
    unconfirmed: int
    others: int
    unread: int
    assumed_copies: int
    has_carried: bool = False

    def closed_words(self, of_what: str = "") -> str:
        """Return the ledgers that the answer is about: "8 closed ledgers of the cluster"."""
        closed = of(self.in_order + self.unconfirmed, "closed ledger") + of_what
        return f"{closed} whose metadata is understood" if self.unread else closed


@dataclass(frozen=True, slots=True)
class Without:
    """The question of `--without`: the given names, and which bookies they stand for.

    `unlocated`: bookies that ledgers name and whose location is unknown, if a location was given:
    they may be there too.
    """

    named: tuple[str, ...]
    bookies: tuple[BookieId, ...]
    losses: Losses
    absorption: Absorption
    unlocated: int = 0


@dataclass(frozen=True, slots=True)
class Cluster:
    """The answer for the whole cluster.

    `by_copies`: ledgers by the confirmed copies of their worst entry. `by_rack`: the effect of
    losing a whole location. `unlocated`: as in `Without`, if the run knows any location. `repair`:
    what became of the marks of the run before, None without such a run.
    """

    by_copies: Mapping[int, int]
    exposure: Exposure
    by_rack: Mapping[str, Losses]
    unlocated: int = 0
    repair: MarksSince | None = None


def margin_json(basis: MarginBasis, answer: Without | Cluster, exit_code: int) -> dict[str, Any]:
    """Return the JSON form."""
    known = {
        "run_id": basis.run_id,
        "started_at": basis.started_at,
        "age_s": round(basis.age_s),
        "too_old": basis.is_too_old,
        "partial": basis.is_partial,
        "ledgers": {
            "in_order": basis.in_order,
            "unconfirmed": basis.unconfirmed,
            "others": basis.others,
            "unread": basis.unread,
        },
        "copies_assumed": basis.assumed_copies,
        "bookies_without_location": answer.unlocated,
        "exit_code": exit_code,
    }
    if isinstance(answer, Without):
        return known | {
            "without": list(answer.named),
            "bookies": list(answer.bookies),
            **_losses_json(answer.losses),
            "absorption": absorption_json(answer.absorption),
        }
    return known | {
        "ledgers_by_copies": {
            str(copies): ledgers for copies, ledgers in sorted(answer.by_copies.items())
        },
        "bookies": {bookie: _row_json(row) for bookie, *row in rank_exposure(answer.exposure)},
        "repair": None if answer.repair is None else repair_json(answer.repair),
        "racks": {rack: _losses_json(losses) for rack, losses in answer.by_rack.items()},
    }


def _row_json(numbers: Sequence[Any]) -> dict[str, int]:
    return dict(zip(_SORTS, numbers, strict=True))


def sort_json(sort: Sort) -> dict[str, Any]:
    """Return the ledgers of one kind of loss as JSON."""
    return {"ledgers": sort.ledgers, "ids": list(sort.ids)}


def _losses_json(losses: Losses) -> dict[str, Any]:
    return {
        name: sort_json(sort)
        for name, sort in zip(
            _SORTS,
            (losses.no_copy, losses.may_have_no_copy, losses.below_ack, losses.may_be_below_ack),
            strict=True,
        )
    }


def margin_text(
    basis: MarginBasis, answer: Without | Cluster, exit_code: int, screen: Screen
) -> str:
    """Return the text form. Its last line is for machines."""
    last = f"auditor: MARGIN run={printable(basis.run_id)} exit={exit_code}"
    body: Iterable[str]
    if isinstance(answer, Cluster):
        body = [*_cluster(basis, answer), *_repair_lines(answer, screen)]
    else:
        body = _without(basis, answer, screen)
        last += (
            f" no_copy={answer.losses.no_copy.ledgers}"
            f" may_have_no_copy={answer.losses.may_have_no_copy.ledgers}"
        )
    return "\n".join([*body, "", *_basis(basis, answer, screen), "", last, ""])


def _without(basis: MarginBasis, answer: Without, screen: Screen) -> Iterator[str]:
    who = ", ".join(map(printable, answer.bookies[:SHOWN_MAX])) + (
        " ..." if len(answer.bookies) > SHOWN_MAX else ""
    )
    losses = answer.losses
    of_which = f", of the {basis.closed_words()}" if basis.unread else ""
    yield from screen.wrap(f"Without {of(len(answer.bookies), 'bookie')} ({who}){of_which}:")
    yield from table(
        [
            [NO_COPY, of(losses.no_copy.ledgers, "ledger"), ids_words(losses.no_copy)],
            [
                "  not ruled out for",
                of(losses.may_have_no_copy.ledgers, "more ledger"),
                ids_words(losses.may_have_no_copy),
            ],
            [BELOW_ACK, of(losses.below_ack.ledgers, "ledger"), ids_words(losses.below_ack)],
            [
                "  not ruled out for",
                of(losses.may_be_below_ack.ledgers, "more ledger"),
                ids_words(losses.may_be_below_ack),
            ],
        ],
        "  ",
    )
    yield from screen.wrap(absorption_words(answer.absorption))


def absorption_words(absorption: Absorption) -> str:
    """Return a sentence on the room for the copies of bookies that leave."""
    others = of(absorption.known, "other bookie has", "other bookies have")
    limit = f"{round(DISK_USAGE_LIMIT * 100)} %"
    unshared = (
        ""
        if absorption.room_unshared_bytes == absorption.room_bytes
        else f" If bookies on one host share no disk: {size(absorption.room_unshared_bytes)}."
    )
    near = (
        ""
        if absorption.room_near_bytes is None
        else f" At the same location: {size(absorption.room_near_bytes)}."
    )
    unknown = (
        f" How full {of(absorption.unknown, 'more bookie')} would be is not known."
        if absorption.unknown
        else ""
    )
    return (
        f"To move for good: {size(absorption.bytes_to_move)} of closed ledgers. {others} room for"
        f" {size(absorption.room_bytes)}, up to {limit} of each disk.{unshared}{near}{unknown}"
    )


def absorption_json(absorption: Absorption) -> dict[str, int | None]:
    """Return the room as JSON."""
    return {
        "bytes_to_move": absorption.bytes_to_move,
        "room_bytes": absorption.room_bytes,
        "room_near_bytes": absorption.room_near_bytes,
        "room_unshared_bytes": absorption.room_unshared_bytes,
        "bookies_known": absorption.known,
        "bookies_unknown": absorption.unknown,
    }


def ids_words(sort: Sort) -> str:
    """Return the first ids: "5, 7, 9, ..."."""
    shown = ", ".join(map(str, sort.ids[:3]))
    return shown + (", ..." if sort.ledgers > 3 else "")


def _repair_lines(answer: Cluster, screen: Screen) -> list[str]:
    said = " ".join(repair_sentences(answer.repair))
    return ["", *screen.wrap(said)] if said else []


def _cluster(basis: MarginBasis, answer: Cluster) -> Iterator[str]:
    yield "Ledgers by the confirmed copies of their worst entry"
    yield from table(
        [
            [of(copies, "copy", "copies"), of(n, "ledger")]
            for copies, n in sorted(answer.by_copies.items())
        ],
        "  ",
    )
    yield ""
    yield "Ledgers with such an entry if one bookie failed"
    yield from _lines_by_harm(basis, "bookie", list(rank_exposure(answer.exposure)))
    if answer.by_rack:
        yield ""
        yield "Ledgers with such an entry if all bookies of one location failed"
        yield from _lines_by_harm(basis, "location", rank_racks(answer.by_rack))


Row = tuple[str, int, int, int, int]
"""A bookie or location, and the four numbers of ledgers in the order of `Losses`."""


def _by_harm(row: Row) -> tuple[Any, ...]:
    name, *numbers = row
    return *(-number for number in numbers), name


def rank_exposure(exposure: Exposure) -> Iterator[Row]:
    """Yield the bookies whose failure alone would or may harm a ledger, the most harmful first."""
    sorts = (
        exposure.no_copy,
        exposure.may_have_no_copy,
        exposure.below_ack,
        exposure.may_be_below_ack,
    )
    bookies = {bookie for sort in sorts for bookie in sort}
    no_copy, may_no_copy, below, may_below = sorts
    rows = [
        (b, no_copy.get(b, 0), may_no_copy.get(b, 0), below.get(b, 0), may_below.get(b, 0))
        for b in bookies
    ]
    yield from sorted(rows, key=_by_harm)


def rank_racks(by_rack: Mapping[str, Losses]) -> list[Row]:
    """Return the locations, sorted by how many ledgers their failure would harm, most first."""
    rows = [
        (
            rack,
            exposure.no_copy.ledgers,
            exposure.may_have_no_copy.ledgers,
            exposure.below_ack.ledgers,
            exposure.may_be_below_ack.ledgers,
        )
        for rack, exposure in by_rack.items()
    ]
    return sorted(rows, key=_by_harm)


def no_ledger_words(basis: MarginBasis) -> str:
    """Return the subject of a sentence on failures that would harm none of the ledgers."""
    return f"none of the {basis.closed_words()}" if basis.unread else "no closed ledger"


def _lines_by_harm(basis: MarginBasis, what: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield one line for each bookie or location: its name, and how many ledgers it would harm."""
    if not any(any(numbers) for _, *numbers in rows):
        yield f"  {no_ledger_words(basis)} would have fewer copies than the ack quorum"
        return
    cells = [
        [printable(name), *(f"{number:,}" for number in numbers)]
        for name, *numbers in rows[:SHOWN_MAX]
    ]
    heads = [what, "without a copy", "not ruled out", "below ack quorum", "not ruled out"]
    yield from table([heads, *cells], "  ")
    if len(rows) > SHOWN_MAX:
        yield f"  ... and {len(rows) - SHOWN_MAX:,} more (--format json has all)"


def _location_note(answer: Without | Cluster) -> str:
    """Return a sentence on bookies that may be at a location unnoticed, or ""."""
    if not answer.unlocated:
        return ""
    return (
        f"The location of {of(answer.unlocated, 'bookie')} that ledgers name is not known:"
        " locations may have more bookies."
    )


def limits_of(basis: MarginBasis, answer: Without | Cluster) -> list[str]:
    """Return what the answer leaves out or assumes, each as a sentence."""
    sentences = []
    if basis.unread:
        sentences.append(
            f"The metadata of {of(basis.unread, 'ledger')} could not be read or understood: what"
            f" {'it' if basis.unread == 1 else 'they'} would lose is not known."
        )
    if basis.unconfirmed:
        sentences.append(
            f"Of some entry of {of(basis.unconfirmed, 'closed ledger')}, no copy is confirmed now:"
            " see the report of the run."
        )
    if basis.others:
        sentences.append(
            "Left out because they are not closed, are deleted, or have no entry:"
            f" {of(basis.others, 'ledger')}."
        )
    if basis.assumed_copies:
        copies = of(basis.assumed_copies, "copy", "copies")
        sentences.append(f"Of the cluster's copies, {copies} rest on a sample of other entries.")
    return [sentence for sentence in (*sentences, _location_note(answer)) if sentence]


def _basis(basis: MarginBasis, answer: Without | Cluster, screen: Screen) -> Iterator[str]:
    """Yield what the answer rests on, and what it leaves out."""
    of_what = "the ledgers that the run was asked to audit" if basis.is_partial else "the cluster"
    sentences = [
        f"From the evidence of run {printable(basis.run_id)}, {age_words(basis)}, "
        f"on {basis.closed_words(f' of {of_what}')}."
    ]
    if basis.is_too_old and basis.age_s >= 0:
        sentences.append(
            "That is older than --evidence-age-max: run the audit again before you rely on it."
        )
    yield from screen.wrap(" ".join([*sentences, *limits_of(basis, answer)]))


def age_words(basis: MarginBasis) -> str:
    """Return the age of the run, or of the oldest lists that it carried over: "4 h old"."""
    if basis.age_s < 0:
        return "which started in the future: a clock is wrong, so its age is not known"
    old = f"{duration(basis.age_s)} old"
    return f"whose oldest lists are {old}" if basis.has_carried else old
