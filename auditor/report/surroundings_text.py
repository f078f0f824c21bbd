"""Sentences of a report on bookies: in maintenance, away, renamed, unable to list, asked.

They say what was read on bookies that cannot list, and what that shows; which listers did not list
or are not believed; which indexes have lost something; and which stage made how many requests in
what time. Also on placement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from auditor.model.availability import NON_CANONICAL, Greeting
from auditor.model.evidence import Policy
from auditor.model.summary import (
    Assurance,
    Chances,
    Pace,
    Paces,
    Requests,
    Space,
    SpaceGrowth,
    Summary,
)
from auditor.model.verdict import Unknown
from auditor.report.layout import Screen, count, duration, name_some, of, printable, share, size
from auditor.report.verification_text import verification_sentences
from auditor.summary.assurance import NO_SUCH_BOOKIE, NOT_ASKED, NOT_REGISTERED


def assurance_sentence(summary: Summary) -> str:
    """Return how many bookies cannot list, and what is known of their ledgers; "" if all can."""
    bookies, assurance = summary.bookies, summary.assurance
    unable = bookies.unsupported if bookies else len(assurance.bookies_unable)
    if not unable and not assurance.probed:
        return ""
    of_all = of(unable, "bookie")
    if bookies:
        of_all = f"{count(unable)} of {of(bookies.registered, 'bookie')}"
    head = f"{of_all} gave no list of entries (as with DbLedgerStorage): "
    if not assurance.probe_entries:
        unjudged = summary.unknown(Unknown.BOOKIE_UNSUPPORTED)
        return (
            f"{head}{of(unjudged, 'ledger is', 'ledgers are')} not judged, or not in full, on their"
            " account, because probing is off; --probe-entries 3 has a few of their entries read"
            " instead."
        )
    return head + probed_words(assurance)


def sampling_sentences(summary: Summary) -> Iterator[str]:
    """Yield the chance that consecutive lost entries were found on a bookie that cannot list.

    Yields nothing if no ledger was judged by probes. Stored runs may lack the field.
    """
    sampling = summary.sampling
    if sampling is None or not summary.assurance.probed:
        return
    alone, together = sampling.alone, sampling.accumulated
    if alone is None:
        yield (
            "No chance can be given that a run of lost entries was found there: none was read by"
            " rank (--probe-budget)."
        )
    elif alone.of_one_entry == 1.0:
        yield (
            "Of each of these that was judged in full,"
            " every entry that such a bookie should hold was read."
        )
    else:
        yield (
            f"Of each of these that was judged in full, 1 in {count(sampling.step or 0)} of the"
            " entries that such a bookie should hold was read, other ones in each run. A run of"
            f" entries of one such ledger that one bookie lost was found with a chance of"
            f" {_chances(alone)} in this run."
        )
    if alone and alone.of_one_entry < 1.0 and together and together.runs > 1:
        yield (
            f"If it was lost before {together.since}, with {_chances(together.chances)} in the"
            f" {count(together.runs)} counted runs since then, in ledgers that did not change"
            " and that each of these runs judged so."
        )


def _chances(chances: Chances) -> str:
    """Return probabilities by number of entries as per cent, rounded down."""
    *most, last = (
        f"{_at_least(float(chance))} ({of(int(length), 'entry', 'entries')})"
        for length, chance in chances.by_length.items()
    )
    return f"{', '.join(most)} and {last}"


def _at_least(chance: float) -> str:
    return f"{math.floor(chance * 10_000 + 1e-9) / 100:.2f} %"


def probed_words(assurance: Assurance) -> str:
    """Return how many entries were read instead of listed, and a bound on what is missing.

    The reads are those of all ledgers, also of those that are not judged. The bound says how much
    may be missing although the sample did not hit it. There is none if an entry that was read is
    missing.
    """
    probed, read, drawn = assurance.probed, assurance.probes, assurance.random_probes
    if not read:
        return "no entry could be read there instead."
    at_random = f", {count(drawn)} of them drawn at random" if drawn else ""
    said = f"{of(read, 'entry was', 'entries were')} read there instead{at_random}"
    if not probed:
        return f"{said}; no ledger there was found sound or in violation."
    judged = f"{of(probed, 'ledger there was', 'ledgers there were')} found sound or in violation."
    bound = assurance.missing_bound
    if bound is not None:
        return (
            f"{said}; none missing: at most {_at_most(bound)} of what was sampled from"
            f" is missing at 95 %. {judged}"
        )
    if drawn:
        return f"{said}; some of what was read is missing, so no bound can be given. {judged}"
    return f"{said}. {judged}"


def _at_most(ratio: float) -> str:
    """Return a bound as per cent, rounded up."""
    return f"{min(100.0, math.ceil(ratio * 10_000 - 1e-9) / 100):.2f} %"


LISTER_DETAIL_MAX = 400
"""At most this many characters are shown of what a lister said, which may be anything."""
UNINDEXED_SHOWN_MAX = 3
"""At most this many bookies whose index lost entries get a sentence; summary.json has more."""
REBUILD = "bookkeeper shell rebuild-db-ledger-locations-index"


def lister_sentences(summary: Summary) -> Iterator[str]:
    """Yield which listers did not list, and which are not believed. Stored runs may lack the
    field.
    """
    listers = summary.listers
    for listed in listers.not_believed:
        why = printable(listed.detail, LISTER_DETAIL_MAX)
        yield (
            f"The lister of bookie {printable(listed.bookie_id)} is not believed: {why}."
            " No list of it counts from then on."
        )
    silent = listers.silent
    if silent:
        first = silent[0]
        why = printable(first.detail, LISTER_DETAIL_MAX)
        more = f", and {len(silent) - 1} more" if len(silent) > 1 else ""
        yield (
            f"No list came from the lister of bookie {printable(first.bookie_id)} ({why}){more}:"
            " the bookie was asked as without one."
        )
    for odd in listers.unindexed[:UNINDEXED_SHOWN_MAX]:
        ledger, entry = odd.some[0]
        others = odd.ledgers - 1
        more = f" (and entries of {of(others, 'ledger')} more)" if others > 0 else ""
        yield unindexed_sentence(odd.bookie_id, f"entry {entry} of ledger {ledger}{more}")


def unindexed_sentence(bookie: str, entries: str) -> str:
    """Return what is known of entries that a bookie's index lost, and how to index them again."""
    return (
        f"Bookie {printable(bookie)} sends {entries} although its index does not have it, long"
        " after it was written: the index lost it, the bytes exist. While the bookie is STOPPED,"
        f" {REBUILD} indexes it again. Never run that while the bookie is up: it says Done, and"
        " from its next start the bookie finds none of its entries."
    )


AWAY_NAMED_MAX = 3
"""At most this many bookies that are away for an upgrade are named. The sentence ends with what to
do."""
SENTENCE_LINES_MAX = 6
RENAMED_SHOWN_MAX = 3
"""At most this many renamed bookies get a sentence each; summary.json has all of them."""

_FOUND: dict[str, str] = {
    NOT_REGISTERED: "not registered",
    Greeting.SILENT.value: "registered and silent",
    Greeting.REFUSED.value: "registered and refusing",
    Greeting.ADDRESS_UNKNOWN.value: "registered without a readable address",
    Greeting.AUDITOR_LIMITED.value: "registered and out of this host's reach",
    NOT_ASKED: "registered and not asked",
    Greeting.ANSWERED.value: "answering",
}
"""Words for the state of a bookie in maintenance. Other words are shown unchanged."""


def note_lines(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield the lines of `note_sentences`."""
    for sentence in note_sentences(summary):
        yield from screen.wrap(sentence, "", SENTENCE_LINES_MAX)


def note_sentences(summary: Summary) -> Iterator[str]:
    """Yield what a reader must know before the counts.

    That is which bookies cannot list, are in maintenance, are away for an upgrade, or were renamed,
    and which open ledgers could not be recovered.
    """
    blocked, renamed = blocked_open_sentence(summary), renamed_sentences(summary)
    absent = (
        blocked,
        odd_lists_sentence(summary),
        upgrade_sentence(summary),
        *renamed,
        malformed_sentence(summary),
    )
    probed = (assurance_sentence(summary), *sampling_sentences(summary))
    yield from filter(
        None, (*probed, *lister_sentences(summary), *maintenance_sentences(summary), *absent)
    )


def malformed_sentence(summary: Summary) -> str:
    """Return which znodes among the marks mark no ledger, and which tools fail at them; "" if
    none.
    """
    paths = [printable(path, 300) for path in summary.malformed_marks]
    if not paths:
        return ""
    rest = f" and {len(paths) - 1} more (malformed_marks in summary.json)" if paths[1:] else ""
    is_one = len(paths) == 1
    return (
        f"Malformed mark{'' if is_one else 's'} of under-replication: {paths[0]}{rest}"
        f" mark{'s' if is_one else ''} no ledger. BookKeeper's `listunderreplicated` fails at such"
        " a znode and lists no mark. Do not delete it before you know which ledger was meant."
    )


def blocked_open_sentence(summary: Summary) -> str:
    """Return how many open ledgers could not be recovered if their writers died, and why.

    Return "" if there are none, or if a stored run did not look for them.
    """
    if not summary.has_looked_at_open:
        return ""
    blocked = summary.open_recovery_blocked
    if blocked is None:
        return (
            "Whether open ledgers could be recovered if their writers died is not known: there were"
            " not two looks at the bookies."
        )
    number = blocked.ledgers
    if not number:
        return ""
    some = ", ".join(map(str, blocked.some)) + (" ..." if number > len(blocked.some) else "")
    writers = "its writer" if number == 1 else "their writers"
    bookies = ", ".join(printable(bookie) for bookie in blocked.bookies)
    return (
        f"{of(number, 'open ledger')} ({some}) could not be recovered if {writers} died now: too"
        f" many bookies of the last ensemble are not registered or silent ({bookies})."
    )


def odd_lists_sentence(summary: Summary) -> str:
    """Return how many lists are believed although no known bookie sends such lists; "" if none."""
    odd = summary.odd_lists
    if not odd.lists:
        return ""
    lists, are = of(odd.lists, "list"), "is" if odd.lists == 1 else "are"
    return (
        f"{lists} of {name_some(odd.some_bookies, odd.bookies)} {are} believed, but no bookie"
        f" is known to send such: {NON_CANONICAL}."
    )


REPLICATION_DISABLED = (
    "Auto-recovery is disabled in this cluster: it repairs nothing until it is enabled."
)


def maintenance_sentences(summary: Summary) -> Iterator[str]:
    """Yield which bookies are in planned maintenance, the state of each, and what that costs.

    Yields nothing if none is in maintenance.
    """
    maintenance = summary.maintenance
    found: dict[str, list[str]] = {}
    for bookie in maintenance.bookies:
        found.setdefault(bookie.found, []).append(bookie.bookie_id)
    unknown, answering = found.pop(NO_SUCH_BOOKIE, []), found.get(Greeting.ANSWERED.value, [])
    if found:
        parts = "; ".join(
            f"{name_some(bookies)} {_FOUND.get(word, word)}"
            for word, bookies in sorted(found.items())
        )
        ledgers = maintenance.ledgers
        cost = (
            f" {of(ledgers, 'ledger')} could not be judged for no other reason." if ledgers else ""
        )
        yield f"In planned maintenance: {parts}.{cost}"
    if answering:
        verb = "answers" if len(answering) == 1 else "answer"
        yield f"{name_some(answering)} {verb}: take what is back out of --maintenance."
    if unknown:
        yield (
            f"WARNING: no bookie of this cluster is named {name_some(unknown)}, as --maintenance"
            " has it."
        )


def upgrade_sentence(summary: Summary) -> str:
    """Return which bookies are not reported as lost because auto-recovery is disabled.

    Returns "" if there are none.
    """
    planned = summary.maintenance.bookie_ids
    away = [bookie for bookie in summary.bookies_away if bookie not in planned]
    if not away or not summary.is_replication_disabled:
        return ""
    are = "is not registered and has" if len(away) == 1 else "are not registered and have"
    return (
        f"{name_some(away[:AWAY_NAMED_MAX], len(away))} {are} a cookie. While auto-recovery is"
        " disabled, as during an upgrade, that is not reported as a lost bookie: enable it when"
        " the upgrade is over."
    )


def renamed_sentences(summary: Summary) -> Iterator[str]:
    """Yield a sentence on each bookie that was probably renamed, at most RENAMED_SHOWN_MAX."""
    for bookie in summary.bookies_renamed[:RENAMED_SHOWN_MAX]:
        noun = "ledger" if len(bookie.ledgers) == 1 else "ledgers"
        ledgers = f"{noun} {', '.join(map(str, bookie.ledgers))}"
        old, new = printable(bookie.bookie_id), printable(bookie.renamed_to)
        yield (
            f"{old} was probably renamed to {new}, which holds what {old} should hold of {ledgers}."
            " Clients cannot read there until the metadata of the ledgers names it."
        )


def missing_words(summary: Summary) -> str:
    """Return which bookies are not registered: away (with a cookie) or gone (without a cookie).

    Returns "" if there are none.
    """
    counts = summary.bookies
    if counts is None:
        return ""
    said = (
        (counts.away, "with a cookie and no registration", summary.bookies_away),
        (counts.gone, "gone, with neither a cookie nor a registration", summary.bookies_gone),
    )
    return "".join(
        f"; {count(number)} {words} ({name_some(some, number)})"
        for number, words, some in said
        if number
    )


def placement_words(summary: Summary) -> str:
    """Return the policy by which ensembles were judged; "" if the summary does not say."""
    placement = summary.placement
    if placement is None:
        return ""
    if placement.policy == Policy.NONE.value:
        return "placement: not judged (placement_policy is none)"
    is_java = placement.compat == "java"
    how = "as BookKeeper's own classes judge" if is_java else "by assigned location"
    without = placement.without_location
    lack = ""
    if without:
        lack = f"; no location of {name_some(placement.bookies_without_location, without)}"
    return f"placement {placement.policy}-aware, {how}{lack}"


_HANG = " " * len("requests  ")


def requests_section(summary: Summary, screen: Screen) -> Iterator[str]:
    """Yield the lines on bookies, placement, requests and the time of each stage."""
    requests = summary.requests
    yield screen.paint("What was asked", "bold")
    yield from screen.wrap(_bookies_words(summary), "  ", hang=_HANG)
    if words := _space_words(summary.space):
        yield from screen.wrap(words, "  ", hang=_HANG)
    yield from screen.wrap(placement_words(summary), "  ", hang=_HANG)
    yield from screen.wrap(_requests_words(requests), "  ", hang=_HANG)
    if requests.confirming_reads:
        back = of(
            requests.listing_false_negatives,
            "entry that a list left out was",
            "entries that lists left out were",
        )
        reads = of(requests.confirming_reads, "confirming read")
        yield from screen.wrap(f"{reads}; {back} there", "  " + _HANG)
    if spots := requests.spot_reads:
        words = f"{of(spots, 'spot read')} of entries that bookies should hold, to test their lists"
        if in_doubt := requests.doubt_reads:
            words += f"; {count(in_doubt)} of them on bookies in doubt"
        yield from screen.wrap(words, "  " + _HANG)
    if named := requests.scrub_reads:
        words = f"{of(named, 'read')} of entries that scrubs of listers named"
        yield from screen.wrap(words, "  " + _HANG)
    if words := " ".join(verification_sentences(summary)):
        yield from screen.wrap(f"reads     {words}", "  ", hang=_HANG)
    if words := _paces_words(summary.paces):
        yield from screen.wrap(words, "  ", hang=_HANG)
    stages = ", ".join(
        f"{stage} {duration(seconds)}"
        for stage, seconds in summary.duration_s.items()
        if seconds >= 0.05
    )
    if stages:
        yield from screen.wrap(f"time      {stages}", "  ", hang=_HANG)
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


FULLEST_SHOWN_MAX = 3
"""At most this many bookies, and locations, are named in the line on disks, the fullest first."""


def _space_words(space: Space | None) -> str:
    """Return how full the bookies' disks are, and how much that grew; "" if no bookie says it."""
    if space is None or not space.bookies:
        return ""
    of_all = f"{count(space.bookies)} of {of(space.bookies + space.unknown, 'bookie')}"
    some = [
        f"{printable(bookie.bookie_id)} {filled(bookie.used_bytes, bookie.total_bytes)}"
        for bookie in space.fullest[:FULLEST_SHOWN_MAX]
    ]
    rest = space.bookies - len(some)
    words = (
        f"disks     {of_all} said how full their disks are:"
        f" {filled(space.used_bytes, space.total_bytes)}; fullest: {', '.join(some)}"
        f"{f' and {count(rest)} more' if rest else ''}{_rack_words(space)}"
    )
    if space.sharing_hosts:
        words += (
            f"; {count(space.sharing_hosts)} of them are on a host with another bookie: disks that"
            " they share are counted more than once"
        )
    return words + _growth_words(space.growth)


def _rack_words(space: Space) -> str:
    """Return how full the disks are at the fullest locations; "" unless there are several."""
    if len(space.racks) < 2:
        return ""
    some = [
        f"{'no location' if rack.location is None else printable(rack.location)}"
        f" {filled(rack.total_bytes - rack.free_bytes, rack.total_bytes)}"
        for rack in space.racks[:FULLEST_SHOWN_MAX]
    ]
    rest = len(space.racks) - len(some)
    return f"; by location: {', '.join(some)}{f' and {count(rest)} more' if rest else ''}"


def filled(used_bytes: int, total_bytes: int) -> str:
    """Return how much of a disk is used: "40.0 GiB of 100.0 GiB used (40.00 %)"."""
    ratio = used_bytes / total_bytes
    return f"{size(used_bytes)} of {size(total_bytes)} used ({share(ratio)})"


def _growth_words(growth: SpaceGrowth | None) -> str:
    """Return how many bytes more or fewer are used than at an earlier run; "" without one."""
    if growth is None:
        return ""
    difference = "as much as"
    if growth.used_bytes:
        more = "more" if growth.used_bytes > 0 else "less"
        difference = f"{size(abs(growth.used_bytes))} {more} than"
    since = f"at run {growth.since.run_id} (began {growth.since.started_at})"
    return f"; on the {of(growth.bookies, 'bookie')} that both runs know, {difference} {since}"


def _paces_words(paces: Paces) -> str:
    """Return which bookies were asked less than the limits allow, and the final pace of their
    lanes.

    "" if none. Stored runs may lack the field, or the final pace.
    """
    if not paces.bookies:
        return ""
    named = [
        f"{printable(pace.bookie_id)} ({_pace_words(pace.lowest)}"
        + (f"; settled at {_pace_words(pace.settled)})" if pace.settled else ")")
        for pace in paces.slowest
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
