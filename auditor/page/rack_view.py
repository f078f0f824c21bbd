"""Bookies by location, with what each surely lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from auditor.model.availability import Greeting
from auditor.model.cluster import Registration
from auditor.page.contents import BookieSeen
from auditor.page.drawing import meter
from auditor.report.layout import count, of, printable

BOOKIES_SHOWN_MAX = 500
"""At most this many bookies are drawn: those that lack entries, have findings or did not answer
first. The rest is counted."""

_STATES: dict[Greeting, str] = {
    Greeting.ANSWERED: "answered",
    Greeting.SILENT: "silent",
    Greeting.REFUSED: "refused",
    Greeting.UNSUPPORTED: "gave no list of entries",
    Greeting.ADDRESS_UNKNOWN: "without a readable address",
    Greeting.AUDITOR_LIMITED: "out of reach of the auditor",
    Greeting.UNREGISTERED: "not registered",
}
_AWAY = "not registered, has a cookie"
_GONE = "gone: neither registered nor known by a cookie"
_READ_ONLY = ", read-only"

Json = dict[str, Any]


def racks_view(bookies: Sequence[BookieSeen], found: Mapping[str, Sequence[str]]) -> Json:
    """Return {racks: [{location, bookies}], left}: locations sorted, unknown ones last.

    `found` has, by bookie, the kinds of its findings.
    """
    worst_first = sorted(bookies, key=lambda one: _badness(one, found))
    shown, left = worst_first[:BOOKIES_SHOWN_MAX], worst_first[BOOKIES_SHOWN_MAX:]
    most = max((one.lacking.entries for one in shown), default=0)
    racks: dict[str | None, list[BookieSeen]] = {}
    for one in sorted(shown, key=lambda one: _natural(one.bookie_id)):
        racks.setdefault(one.location, []).append(one)
    order = sorted(racks, key=lambda location: (location is None, location or ""))
    return {
        "racks": [
            {
                "location": None if name is None else printable(name),
                "bookies": [_tile(one, most, found) for one in racks[name]],
            }
            for name in order
        ],
        "left": _left_words(left, found),
    }


def _left_words(left: Sequence[BookieSeen], found: Mapping[str, Sequence[str]]) -> str:
    """Return a text on how many bookies are not drawn, and whether they are healthy; "" for
    none.
    """
    if not left:
        return ""
    head = of(len(left), "bookie is not drawn", "bookies are not drawn")
    if any(_badness(one, found)[0] < _HEALTHY for one in left):
        return f"{head}; some of them lack entries, have a finding or did not answer."
    return (
        f"{head}; it answered and lacks nothing."
        if len(left) == 1
        else f"{head}; all answered and lack nothing."
    )


_HEALTHY = 2


def _badness(one: BookieSeen, found: Mapping[str, Sequence[str]]) -> tuple[Any, ...]:
    rank = (
        0
        if one.lacking.entries or one.bookie_id in found
        else 1
        if one.record.greeting is not Greeting.ANSWERED
        else _HEALTHY
    )
    return rank, -one.lacking.entries, _natural(one.bookie_id)


def _natural(name: str) -> tuple[int, str]:
    """Return a key that sorts b2 before b10, if names have the same pattern."""
    return len(name), name


def _tile(one: BookieSeen, most: int, found: Mapping[str, Sequence[str]]) -> Json:
    lacking = one.lacking
    says = (
        f"lacks {of(lacking.entries, 'entry', 'entries')} of {of(lacking.ledgers, 'ledger')}"
        if lacking.entries
        else ""
    )
    name = printable(one.bookie_id)
    return {
        "name": name,
        "state": state_words(one),
        "is_answering": one.record.greeting is Greeting.ANSWERED,
        "lacks": says,
        "found": list(found.get(one.bookie_id, ())),
        "bar": (
            meter(
                lacking.entries / most,
                "violated",
                f"{count(lacking.entries)} of at most {count(most)}",
            )
            if says
            else ""
        ),
    }


def state_words(one: BookieSeen) -> str:
    """Return the state of the bookie at its newest look."""
    record = one.record
    if record.registration is Registration.NONE:
        return _AWAY if record.has_cookie else _GONE
    greeting = "registered, not asked" if record.greeting is None else _STATES[record.greeting]
    return greeting + (_READ_ONLY if record.registration is Registration.READONLY else "")
