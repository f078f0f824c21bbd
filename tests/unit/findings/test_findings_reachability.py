"""Findings on bookies: silent though registered, and lost unnoticed."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from auditor.findings.bookies import (
    LEDGERS_NAMED_MAX,
    Missed,
    judge_bookies,
    nobody_answered,
    not_dialled,
    recovery_gap_ms,
    withheld,
)
from auditor.model.availability import NOT_DIALLED, Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.facts import LostFacts, SilentFacts
from auditor.model.finding import Finding, Kind
from auditor.witness.finding_lines import bookie_testimony

FACTS = ClusterFacts("zk://h/ledgers", ("h",), "/ledgers", "hierarchical", "id", False, None)
MISSED = {"lost": Missed(3, (4, 5, 6))}
WRITABLE, READONLY, NONE = Registration.WRITABLE, Registration.READONLY, Registration.NONE


def bookie(
    name: str,
    registration: Registration = WRITABLE,
    greeting: Greeting | None = Greeting.ANSWERED,
    **more: object,
) -> BookieRecord:
    """Return one bookie at one look."""
    return replace(BookieRecord(name, 0, 0, registration, "h", 3181, greeting=greeting), **more)


def look(*records: BookieRecord) -> Mapping[str, BookieRecord]:
    return {record.bookie_id: record for record in records}


def kinds(
    looks: list[Mapping[str, BookieRecord]], facts: ClusterFacts = FACTS
) -> list[tuple[Kind, str | None]]:
    return [(finding.kind, finding.bookie_id) for finding in judge_bookies(looks, MISSED, facts)]


WELL = bookie("well")
MUTE = bookie("mute", greeting=Greeting.SILENT)
LOST = bookie("lost", NONE, Greeting.UNREGISTERED, host=None, port=None)
SILENT_FOUND = (Kind.BOOKIE_SILENT_YET_REGISTERED, "mute")
LOST_FOUND = (Kind.BOOKIE_LOST_UNNOTICED, "lost")


def test_a_registered_bookie_silent_at_both_looks_is_found() -> None:
    """It is registered, writable or read-only, and silent each time it was asked."""
    assert [SILENT_FOUND] == kinds([look(WELL, MUTE), look(WELL, MUTE)])
    assert [SILENT_FOUND] == kinds(
        [look(WELL, MUTE), look(WELL, replace(MUTE, registration=READONLY))]
    )


@pytest.mark.parametrize(
    "second",
    [
        bookie("mute"),
        bookie("mute", NONE, Greeting.UNREGISTERED),
        bookie("mute", greeting=Greeting.REFUSED),
        bookie("mute", greeting=Greeting.UNSUPPORTED),
        bookie("mute", greeting=None),
    ],
)
def test_one_other_word_and_it_is_not_silent(second: BookieRecord) -> None:
    """If it answered, was gone, refused, was unable or was not asked at the other look, in either
    order, there is no finding.
    """
    assert [] == kinds([look(WELL, MUTE), look(WELL, second)])
    assert [] == kinds([look(WELL, second), look(WELL, MUTE)])


UNDIALLED = replace(MUTE, greeting_detail=f"{NOT_DIALLED}no KDC")


def test_a_bookie_that_was_not_dialled_at_some_look_is_not_silent() -> None:
    """No KDC gave us a ticket for it: nothing is known of it at that look."""
    assert [] == kinds([look(WELL, UNDIALLED), look(WELL, UNDIALLED)])
    assert [] == kinds([look(WELL, MUTE), look(WELL, UNDIALLED)])
    assert [] == kinds([look(WELL, UNDIALLED), look(WELL, MUTE)])


def test_bookies_that_were_not_dialled_in_the_end_are_named_in_one_sentence() -> None:
    """With the first, and why; not those that were dialled later, or are silent or refuse."""
    refused = bookie("never", greeting=Greeting.REFUSED, greeting_detail=f"{NOT_DIALLED}x")
    [said] = not_dialled([look(WELL), look(WELL, UNDIALLED, refused)])
    assert said.startswith("bookie mute was asked nothing at the last look")
    assert "(mute: not dialled: no KDC)" in said
    [said] = not_dialled([look(replace(UNDIALLED, bookie_id="z"), UNDIALLED)])
    assert said.startswith("2 bookies were asked nothing")
    assert "(mute: " in said
    assert not_dialled([look(UNDIALLED), look(WELL, MUTE)]) == []
    assert not_dialled([]) == []


def test_one_look_is_no_finding() -> None:
    """Nothing is reported of a bookie that was seen once."""
    assert [] == kinds([look(WELL, MUTE, LOST)])
    assert [] == kinds([look(WELL), look(WELL, MUTE, LOST)])


def test_where_no_bookie_answered_nothing_is_said_of_any() -> None:
    """If all are silent or refuse, our network or our credentials are at fault."""
    refused = bookie("refusing", greeting=Greeting.REFUSED)
    looks = [look(MUTE, refused, LOST), look(MUTE, refused, LOST)]
    assert nobody_answered(looks)
    assert [] == kinds(looks)


def test_a_bookie_without_an_address_was_not_asked() -> None:
    """Without an address its greeting is not an answer. If all others are silent, no bookie
    answered, whatever its registration says.
    """
    nameless = bookie("nameless", greeting=Greeting.ADDRESS_UNKNOWN, host=None)
    looks = [look(MUTE, nameless), look(MUTE, nameless)]
    assert nobody_answered(looks)
    assert [] == kinds(looks)


def test_one_answer_at_one_look_is_an_answer() -> None:
    """This includes an answer of a bookie that cannot list. A cluster in which no bookie had to be
    asked is not silent.
    """
    assert not nobody_answered(
        [look(MUTE, WELL), look(MUTE, replace(WELL, greeting=Greeting.SILENT))]
    )
    assert not nobody_answered([look(MUTE, bookie("old", greeting=Greeting.UNSUPPORTED))])
    assert not nobody_answered([look(bookie("idle", greeting=None))])
    assert not nobody_answered([])


def test_a_lost_bookie_whose_ledgers_are_unmarked_is_found() -> None:
    """It is not registered at both looks, and closed ledgers without a mark still name it."""
    assert [LOST_FOUND] == kinds([look(WELL, LOST), look(WELL, LOST)])
    assert [LOST_FOUND, SILENT_FOUND] == kinds([look(WELL, MUTE, LOST), look(WELL, MUTE, LOST)])


def test_a_lost_bookie_that_nothing_unmarked_names_is_no_finding() -> None:
    """The cluster knows of it, or no ledger needs it."""
    gone = replace(LOST, bookie_id="nobody's")
    assert [] == kinds([look(WELL, gone), look(WELL, gone)])


def test_a_bookie_that_came_back_or_went_between_the_looks_is_not_lost() -> None:
    """It must be unregistered at both looks."""
    back = bookie("lost")
    assert [] == kinds([look(WELL, LOST), look(WELL, back)])
    assert [] == kinds([look(WELL, back), look(WELL, LOST)])


@pytest.mark.parametrize(
    ("delay_s", "apart_ms", "found"),
    [(None, 9_999, False), (None, 10_000, True), (300, 309_999, False), (300, 310_000, True)],
)
def test_while_it_has_a_cookie_the_looks_must_lie_apart(
    delay_s: int | None, apart_ms: int, found: bool
) -> None:
    """The looks must be lostBookieRecoveryDelay and a session time-out apart, so that a slow
    restart does not page anybody.
    """
    facts = replace(FACTS, lost_bookie_recovery_delay_s=delay_s)
    first = replace(LOST, has_cookie=True, read_at_ms=10**6)
    second = replace(first, look=1, read_at_ms=10**6 + apart_ms)
    assert ([LOST_FOUND] if found else []) == kinds([look(WELL, first), look(WELL, second)], facts)
    assert (delay_s or 0) * 1000 + 10_000 == recovery_gap_ms(facts)


def test_without_a_cookie_there_is_nothing_to_wait_for() -> None:
    """A decommissioned bookie does not restart. The finding says that it has no cookie."""
    facts = replace(FACTS, lost_bookie_recovery_delay_s=86_400)
    assert [LOST_FOUND] == kinds([look(WELL, LOST), look(WELL, LOST)], facts)
    (found,) = judge_bookies([look(WELL, LOST), look(WELL, LOST)], MISSED, facts)
    assert isinstance(found.facts, LostFacts)
    assert not found.facts.has_cookie


def test_the_finding_names_some_ledgers_and_counts_all() -> None:
    """At most LEDGERS_NAMED_MAX ledgers are named."""
    looks = [look(WELL, LOST), look(WELL, LOST)]
    (found,) = judge_bookies(looks, {"lost": Missed(40_000, tuple(range(50)))}, FACTS)
    assert isinstance(found.facts, LostFacts)
    assert (40_000, LEDGERS_NAMED_MAX) == (
        found.facts.unmarked_ledgers,
        len(found.facts.some_ledgers),
    )


def test_a_lost_bookie_counts_at_the_looks_that_know_it() -> None:
    """Only ledgers know a bookie without a cookie. A third look, taken for another ledger, does not
    clear it.
    """
    assert [LOST_FOUND] == kinds([look(WELL, LOST), look(WELL, LOST), look(WELL)])
    assert [] == kinds([look(WELL, LOST), look(WELL), look(WELL)]), "once is not twice"
    back = bookie("lost")
    assert [] == kinds([look(WELL, LOST), look(WELL, LOST), look(WELL, back)]), "it came back"


def test_what_is_not_said_of_a_bookie_that_may_be_restarting_is_named() -> None:
    """If it is gone with a cookie and the looks are too close together, there is a sentence instead
    of a finding.
    """
    cooked = replace(LOST, has_cookie=True)
    near = [look(WELL, cooked), look(WELL, replace(cooked, read_at_ms=9_999))]
    (sentence,) = withheld(near, MISSED, FACTS)
    assert all(
        word in sentence
        for word in ("bookie lost", "for 10 s (lostBookieRecoveryDelay", "for 9 s;")
    )
    far = [look(WELL, cooked), look(WELL, replace(cooked, read_at_ms=10_000))]
    assert [] == withheld(far, MISSED, FACTS) == withheld(near, {}, FACTS)


@pytest.mark.parametrize(
    "away",
    [
        frozenset(),
        frozenset({"mute"}),
        frozenset({"lost"}),
        frozenset({"mute", "lost", "no bookie"}),
    ],
)
def test_nothing_is_found_on_a_bookie_in_maintenance(away: frozenset[str]) -> None:
    """A bookie in maintenance is known to be silent or lost. All others are reported as usual."""
    looks = [look(WELL, MUTE, LOST), look(WELL, MUTE, LOST)]
    found = [
        (finding.kind, finding.bookie_id) for finding in judge_bookies(looks, MISSED, FACTS, away)
    ]
    assert [one for one in (LOST_FOUND, SILENT_FOUND) if one[1] not in away] == found


def test_a_bookie_in_maintenance_need_not_be_distinguished_from_a_restarting_one() -> None:
    """There is no sentence on looks that are too close together."""
    cooked = replace(LOST, has_cookie=True)
    near = [look(WELL, cooked), look(WELL, cooked)]
    assert (1, 0) == (
        len(withheld(near, MISSED, FACTS)),
        len(withheld(near, MISSED, FACTS, frozenset({"lost"}))),
    )


@pytest.mark.parametrize("kind", [SILENT_FOUND[0], LOST_FOUND[0]])
def test_both_findings_say_what_the_cluster_will_do_about_it(kind: Kind) -> None:
    """The facts are whether auto-recovery is disabled, and how long the cluster's own auditor
    waits.
    """
    facts = replace(FACTS, replication_disabled=True, lost_bookie_recovery_delay_s=900)
    found = judge_bookies([look(WELL, MUTE, LOST), look(WELL, MUTE, LOST)], MISSED, facts)
    (witness,) = [bookie_testimony(one, [WELL], facts).witness for one in found if one.kind is kind]
    assert "lostBookieRecoveryDelay is 15 min" in witness and "Auto-recovery is disabled" in witness
    (quiet,) = [
        f
        for f in judge_bookies([look(WELL, MUTE, LOST), look(WELL, MUTE, LOST)], MISSED, FACTS)
        if f.kind is kind
    ]
    assert not any(
        word in bookie_testimony(quiet, [WELL], FACTS).witness
        for word in ("lostBookie", "Auto-recovery")
    )


def test_the_finding_on_a_silent_bookie_says_what_was_seen_of_it() -> None:
    """The facts are the bookie as of the last look, how often it was silent, and what the cluster
    will do about it.
    """
    last = replace(MUTE, registration=READONLY, host="g", port=1, greeting_detail="no route")
    facts = SilentFacts("readonly", "g:1", 3, "no route", None, False)
    expected = [Finding(SILENT_FOUND[0], facts, bookie_id="mute")]
    assert expected == judge_bookies(
        [look(WELL, MUTE), look(WELL, MUTE), look(WELL, last)], {}, FACTS
    )


def test_the_finding_on_a_lost_bookie_says_what_was_seen_of_it() -> None:
    """The facts are its cookie, the ledgers that need it, and how long it is gone, from the first
    look to the last.
    """
    looks = [
        look(WELL, replace(LOST, has_cookie=at > 5_000, read_at_ms=at))
        for at in (2_000, 4_000, 905_000)
    ]
    facts = LostFacts(True, 3, (4, 5, 6), 2, 2, 903_000, 903_000, 893, False, "new")
    slow_facts = replace(FACTS, lost_bookie_recovery_delay_s=893)
    missed = {"lost": Missed(3, (4, 5, 6), 2, 2, renamed_to="new")}
    assert [Finding(LOST_FOUND[0], facts, bookie_id="lost")] == judge_bookies(
        looks, missed, slow_facts
    )


def test_behind_a_bookie_that_was_seen_once_the_others_are_judged() -> None:
    """Bookies are judged in order of their ids. A bookie that was seen once does not stop the
    others from being judged.
    """
    once = bookie("a", greeting=Greeting.SILENT)
    assert [SILENT_FOUND] == kinds([look(WELL, MUTE), look(once, WELL, MUTE)])


@pytest.mark.parametrize("looks", [[NONE], [NONE, WRITABLE], [WRITABLE, WRITABLE]])
def test_a_bookie_that_is_not_gone_at_two_looks_is_not_withheld(looks: list[Registration]) -> None:
    """A bookie that was seen once, or is registered: looks further apart would not show more."""
    records = [bookie("lost", registration, has_cookie=True) for registration in looks]
    assert [] == withheld([look(WELL, record) for record in records], MISSED, FACTS)


GONE_TWICE = [look(WELL, LOST), look(WELL, LOST)]


@pytest.mark.parametrize(
    ("marked_first", "marked_last", "found"),
    [(0, 0, True), (39, 39, True), (0, 39, False), (38, 39, False)],
)
def test_while_the_cluster_is_marking_nobody_is_accused(
    marked_first: int, marked_last: int, found: bool
) -> None:
    """If more ledgers are marked than at the first look, the cluster is at work. If as many are, it
    knows of these, and not of the rest.
    """
    missed = {"lost": Missed(1, (4,), marked_first, marked_last)}
    assert ([LOST_FOUND] if found else []) == [
        (f.kind, f.bookie_id) for f in judge_bookies(GONE_TWICE, missed, FACTS)
    ]
    sentences = withheld(GONE_TWICE, missed, FACTS)
    assert found == (sentences == [])
    assert all(
        "replication is being arranged: 39 of 40 ledgers are marked" in sentence
        for sentence in sentences
    )


def test_a_bookie_whose_ledgers_are_all_marked_is_no_matter() -> None:
    """Whether they were marked before or while we looked: neither a finding nor a sentence."""
    missed = {"lost": Missed(0, (), 3, 40)}
    assert ([], []) == (
        judge_bookies(GONE_TWICE, missed, FACTS),
        withheld(GONE_TWICE, missed, FACTS),
    )


@pytest.mark.parametrize(
    ("disabled", "has_cookie", "found"),
    [(True, True, False), (True, False, True), (False, True, True)],
)
def test_while_replication_is_disabled_a_bookie_with_a_cookie_is_not_accused(
    disabled: bool, has_cookie: bool, found: bool
) -> None:
    """An upgrade looks the same, however long it takes. A bookie without a cookie does not come
    back.
    """
    facts = replace(FACTS, replication_disabled=disabled)
    first = replace(LOST, has_cookie=has_cookie)
    looks = [look(WELL, first), look(WELL, replace(first, read_at_ms=86_400_000))]
    assert ([LOST_FOUND] if found else []) == kinds(looks, facts)
    sentences = withheld(looks, MISSED, facts)
    assert found == (sentences == []) and all(
        "auto-recovery is disabled" in sentence for sentence in sentences
    )


@pytest.mark.parametrize(
    ("before_ms", "found"), [(None, False), (290_001, False), (290_000, True), (10_000_000, False)]
)
def test_what_earlier_runs_saw_counts_for_the_delay(before_ms: int | None, found: bool) -> None:
    """If earlier runs saw it unregistered for long enough, it is reported, however close this run's
    looks are. A time in the future, from a clock that was set back, does not shorten its absence.
    """
    facts = replace(FACTS, lost_bookie_recovery_delay_s=300)
    first = replace(LOST, has_cookie=True, read_at_ms=595_000)
    looks = [look(WELL, first), look(WELL, replace(first, read_at_ms=600_000))]
    missed = {"lost": Missed(3, (4, 5, 6), since_ms=before_ms)}
    assert ([LOST_FOUND] if found else []) == [
        (f.kind, f.bookie_id) for f in judge_bookies(looks, missed, facts)
    ]
    assert found == (withheld(looks, missed, facts) == [])
    for one in judge_bookies(looks, missed, facts):
        assert isinstance(one.facts, LostFacts)
        assert (5_000, 310_000) == (one.facts.apart_ms, one.facts.unregistered_ms)
        assert (
            "Earlier runs saw it unregistered too, first 5 min 10 s before"
            in bookie_testimony(one, [WELL], facts).witness
        )


def test_the_witness_has_the_marked_ledgers_and_the_new_name() -> None:
    """Both are facts of the finding. No copy is proposed for data that exists under another
    name.
    """
    missed = {"lost": Missed(1, (4,), 39, 39, renamed_to="new")}
    (found,) = judge_bookies(GONE_TWICE, missed, FACTS)
    testimony = bookie_testimony(found, [WELL], FACTS)
    assert "39 more that name it are marked, and were at the first look." in testimony.witness
    assert "It was probably renamed to new" in testimony.witness
    assert not any("recover lost" in command for command in testimony.next)
