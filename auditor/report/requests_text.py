"""The section of a report on requests: bookies, numbers, and how long each stage took."""

from __future__ import annotations

from collections.abc import Iterator

from auditor.model.summary import Pace, Paces, Requests, Summary
from auditor.report.layout import count, duration, of, paint, size, wrap
from auditor.report.surroundings_text import missing_words, placement_words

_HANG = " " * len("requests  ")


def requests_section(summary: Summary, width: int, color: bool) -> Iterator[str]:
    """Yield the lines on bookies, placement, requests and the time of each stage."""
    requests = summary.requests
    yield paint("What was asked", "bold", color)
    yield from wrap(_bookies_words(summary), width, "  ", hang=_HANG)
    yield from wrap(placement_words(summary), width, "  ", hang=_HANG)
    yield from wrap(_requests_words(requests), width, "  ", hang=_HANG)
    if requests.confirming_reads:
        back = of(
            requests.listing_false_negatives,
            "entry that a list left out was",
            "entries that lists left out were",
        )
        reads = of(requests.confirming_reads, "confirming read")
        yield from wrap(f"{reads}; {back} there", width, "  " + _HANG)
    if spots := requests.spot_reads:
        words = f"{of(spots, 'spot read')} of entries that bookies should hold, to test their lists"
        if in_doubt := requests.doubt_reads:
            words += f"; {count(in_doubt)} of them on bookies in doubt"
        yield from wrap(words, width, "  " + _HANG)
    if words := _paces_words(summary.paces):
        yield from wrap(words, width, "  ", hang=_HANG)
    stages = ", ".join(
        f"{stage} {duration(seconds)}"
        for stage, seconds in summary.duration_s.items()
        if seconds >= 0.05
    )
    if stages:
        yield from wrap(f"time      {stages}", width, "  ", hang=_HANG)
    yield ""


def _bookies_words(summary: Summary) -> str:
    bookies = summary.bookies
    assert bookies is not None, "a run counts its bookies"
    numbers = {
        "answered": bookies.answered,
        "silent": bookies.silent,
        "refused": bookies.refused,
        "unsupported": bookies.unsupported,
    }
    states = [f"{count(number)} {name}" for name, number in numbers.items() if number]
    if listed := bookies.listed_by_lister:
        whose = "their listers" if listed > 1 else "its lister"
        states.append(f"{count(listed)} of them listed by {whose}")
    return (
        f"bookies   {count(bookies.registered)} registered"
        f" ({count(bookies.readonly)} read-only),"
        f" {count(bookies.named_by_ledgers)} named by ledgers:"
        f" {', '.join(states) or 'none asked'}{missing_words(summary)}"
    )


def _paces_words(paces: Paces) -> str:
    """Return which bookies were asked less than the limits allow, and the final pace of their
    lanes.

    "" if none. Stored runs may lack the field, or the final pace.
    """
    if not paces.bookies:
        return ""
    named = [
        f"{one.bookie_id} ({_pace_words(one.lowest)}"
        + (f"; settled at {_pace_words(one.settled)})" if one.settled else ")")
        for one in paces.slowest
    ]
    rest = paces.bookies - len(named)
    return (
        f"pace      {of(paces.bookies, 'bookie was', 'bookies were')} asked less than the limits"
        " allow at some time, having refused requests, closed connections or become slow:"
        f" {', '.join(named)}{f' and {count(rest)} more' if rest else ''}"
    )


def _pace_words(pace: Pace) -> str:
    rate = pace.requests_per_second
    return f"{count(pace.inflight)} outstanding" + (f", {rate:g} a second" if rate else "")


def _requests_words(requests: Requests) -> str:
    return (
        f"requests  {of(requests.zookeeper_reads, 'ZooKeeper read')},"
        f" {of(requests.bookie_requests, 'bookie request')}"
        f" ({size(requests.bookie_bytes)} received,"
        f" {of(requests.retries, 'retry', 'retries')})"
    )
