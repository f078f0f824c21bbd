"""The summary fields on bookies, planned maintenance, placement and what verdicts rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.table_scan import TableScan
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.evidence import Policy, Terms
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.summary import (
    Assurance,
    BookieCounts,
    BookieInMaintenance,
    Maintenance,
    PlacementJudged,
)
from auditor.model.verdict import Probes
from auditor.summary.assurance import (
    ANSWERED,
    BOOKIES_NAMED_MAX,
    JUDGED_WORDS,
    NO_SUCH_BOOKIE,
    NOT_ASKED,
    NOT_REGISTERED,
    assurance_of,
    listed_by_lister,
    missing_on,
)
from auditor.witness.finding_lines import LISTED, PROBED

_UNHEARD = (
    Greeting.SILENT,
    Greeting.REFUSED,
    Greeting.UNSUPPORTED,
    Greeting.UNREGISTERED,
    Greeting.ADDRESS_UNKNOWN,
    Greeting.AUDITOR_LIMITED,
)
_JUDGED = pa.array(JUDGED_WORDS)


def bookie_counts(records: Iterable[BookieRecord], named_by_ledgers: int) -> BookieCounts:
    """Return counts of bookies, each as of the last look at it.

    A bookie that answered at any look counts as answered. `away_bookies` are not registered but
    have a cookie; `gone_bookies` have neither.
    """
    last, answered = _last(records), _ever(records, Greeting.ANSWERED)

    def count_greeted(greeting: Greeting) -> int:
        return sum(record.greeting is greeting and b not in answered for b, record in last.items())

    return BookieCounts(
        registered=sum(record.registration is not Registration.NONE for record in last.values()),
        readonly=sum(record.registration is Registration.READONLY for record in last.values()),
        named_by_ledgers=named_by_ledgers,
        answered=len(answered),
        silent=count_greeted(Greeting.SILENT),
        refused=count_greeted(Greeting.REFUSED),
        unsupported=count_greeted(Greeting.UNSUPPORTED),
        listed_by_lister=len(listed_by_lister(records)),
        away=len(_away_ids(last)),
        gone=len(_gone_ids(last)),
    )


def unheard(records: Sequence[BookieRecord]) -> dict[str, tuple[BookieId, ...]]:
    """Return the bookies without the greeting ANSWERED at any look, by their last greeting.

    Gone bookies are left out: what they should hold counts as absent, not as unknown. Names at most
    BOOKIES_NAMED_MAX for each greeting.
    """
    last = _last(records)
    left_out = {*_ever(records, Greeting.ANSWERED), *_gone_ids(last)}
    named = {
        greeting: sorted(b for b, r in last.items() if r.greeting is greeting and b not in left_out)
        for greeting in _UNHEARD
    }
    return {
        greeting.value: tuple(bookies[:BOOKIES_NAMED_MAX]) for greeting, bookies in named.items()
    }


def away_bookies(records: Iterable[BookieRecord]) -> tuple[BookieId, ...]:
    """Return bookies that are not registered and have a cookie, with or without a finding.

    Names at most BOOKIES_NAMED_MAX.
    """
    return tuple(_away_ids(_last(records))[:BOOKIES_NAMED_MAX])


def gone_bookies(records: Iterable[BookieRecord]) -> tuple[BookieId, ...]:
    """Return bookies that ledgers name and that have neither a registration nor a cookie.

    Names at most BOOKIES_NAMED_MAX.
    """
    return tuple(_gone_ids(_last(records))[:BOOKIES_NAMED_MAX])


def maintenance(records: Iterable[BookieRecord], terms: Terms, verdicts: TableScan) -> Maintenance:
    """Return the bookies in planned maintenance and the state of each.

    `ledgers` counts the ledgers that could not be judged only because of these bookies.
    """
    last, answered = _last(records), _ever(records, Greeting.ANSWERED, Greeting.UNSUPPORTED)
    found = (
        BookieInMaintenance(bookie, _maintenance_state(last.get(bookie), bookie in answered))
        for bookie in sorted(terms.around.maintenance)
    )
    return Maintenance(tuple(found), verdicts.count(pc.field("only_maintenance")))


def placement(records: Iterable[BookieRecord], terms: Terms) -> PlacementJudged:
    """Return the placement policy of the judgement, and which bookies have no location.

    Names no bookie without a policy, because none needs a location then.
    """
    rule = terms.placement
    judged = rule.policy is not Policy.NONE
    around = terms.around
    without = sorted(b for b in _last(records) if around.location_of(b) is None) if judged else []
    return PlacementJudged(
        rule.policy.value,
        "java" if rule.java_compatible else "assigned",
        len(without),
        tuple(without[:BOOKIES_NAMED_MAX]),
    )


def assurance(
    records: Iterable[BookieRecord],
    terms: Terms,
    verdicts: TableScan,
    findings: Sequence[FindingRecord],
) -> Assurance:
    """Return what the verdicts of judged (sound or violated) ledgers rest on: lists or probes.

    `missing_bound` is the largest share of entries that may be missing, at 95 % confidence. It is
    null unless the random probes found nothing missing on any bookie that cannot list.
    """
    judged = pc.field("standing").isin(_JUDGED)
    probed = verdicts.table(["probes", "random_probes"], pc.field("assurance") == PROBED)
    unable = {record.bookie_id for record in records if record.greeting is Greeting.UNSUPPORTED}
    unable |= (
        set(listed_by_lister(records)) if probed.num_rows else set()
    )  # ledgers that its lister did not list
    ledgers = {
        word: verdicts.count(judged & (pc.field("assurance") == word)) for word in (LISTED, PROBED)
    }
    probes = Probes(_sum(probed["probes"]), _sum(probed["random_probes"]))
    return assurance_of(
        ledgers, probes, unable, terms, _lacking_bookies(verdicts) | missing_on(findings)
    )


def _lacking_bookies(verdicts: TableScan) -> set[BookieId]:
    found: set[BookieId] = set()
    for batch in verdicts.batches(["lacks"]):
        found.update(
            pc.unique(pc.struct_field(pc.list_flatten(batch["lacks"]), "bookie_id")).to_pylist()
        )
    return found


def _last(records: Iterable[BookieRecord]) -> dict[BookieId, BookieRecord]:
    """Return each bookie's record of the last look that has one."""
    return {record.bookie_id: record for record in sorted(records, key=lambda one: one.look)}


def _ever(records: Iterable[BookieRecord], *greetings: Greeting) -> set[BookieId]:
    return {record.bookie_id for record in records if record.greeting in greetings}


def _away_ids(last: Mapping[BookieId, BookieRecord]) -> list[BookieId]:
    return sorted(
        b
        for b, record in last.items()
        if record.registration is Registration.NONE and record.has_cookie
    )


def _gone_ids(last: Mapping[BookieId, BookieRecord]) -> list[BookieId]:
    """Return the gone bookies, sorted. Empty if no bookie has a cookie, which proves nothing."""
    if not any(record.has_cookie for record in last.values()):
        return []
    return sorted(
        b
        for b, record in last.items()
        if record.registration is Registration.NONE and not record.has_cookie
    )


def _maintenance_state(record: BookieRecord | None, answered: bool) -> str:
    if record is None:
        return NO_SUCH_BOOKIE
    if answered:
        return ANSWERED
    if record.registration is Registration.NONE:
        return NOT_REGISTERED
    return record.greeting.value if record.greeting else NOT_ASKED


def _sum(values: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)
