"""Findings told so that a person can check them by hand."""

import json

import pytest

from auditor.confirm.witness import bookie_testimony, finding_line, gist, ledger_testimony
from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Look
from auditor.model.finding import Copies, Finding, FindingSegment, Kind
from auditor.model.ledger import LedgerRecord, Mark, RecordStatus, ZnodeStamp

FACTS = ClusterFacts("zk://h/ledgers", ("h:2181",), "/ledgers", "hierarchical", "id", False, None)
ENTRY = Finding(
    Kind.ENTRY_BELOW_ACK_QUORUM,
    ledger_id=7,
    segment=FindingSegment(0, 99, ("b1", "b2", "b3")),
    entries=((42, 42),),
    entries_total=1,
    missing_on=(("b1", ((42, 42),)),),
    copies=Copies(write_quorum=2, ack_quorum=2, confirmed=1, unknown=0),
    facts=(("worst_entry", "42"), ("write_set", "b1 b2"), ("held_outside_write_set", "")),
)


def look(number, status=AnswerStatus.HELD, read=None, mark=None):
    record = LedgerRecord(7, number, number * 1000, RecordStatus.FOUND, stamp=ZnodeStamp(1, 3, 0), mark=mark)
    reads = {("b1", 42): EntryRead("b1", 7, 42, number, number * 1000, read)} if read else {}
    return Look(record, {"b1": Answer("b1", 7, number, number * 1000, status)}, reads)


def witness(finding, *looks):
    return ledger_testimony(finding, looks, FACTS)["witness"]


@pytest.mark.parametrize(
    ("expected", "read"),
    [
        ("Bookie b1 does not list it, and asked for that entry it said it has no such entry.", ReadStatus.NO_ENTRY),
        ("Bookie b1 does not list it, and asked for that entry it said it has no such ledger.", ReadStatus.NO_LEDGER),
        ("Bookie b1 does not list it, and asked for that entry it was silent.", ReadStatus.SILENT),
        ("Bookie b1 does not list it.", None),
    ],
)
def test_what_a_bookie_said_is_told_in_words(expected, read):
    """No word of our own tables on the screen of whoever was woken."""
    assert expected in witness(ENTRY, look(1, read=read), look(2, read=read), Look(look(3).record))


def test_a_bookie_that_fell_silent_is_told_by_its_last_word():
    """What it said is what was judged by; and that nobody can ask it any more."""
    spoke, silent = look(1, read=ReadStatus.NO_ENTRY), look(2, AnswerStatus.SILENT)
    expected = (
        "Bookie b1 at look 1 does not list it, and asked for that entry it said it has no such entry; "
        "at look 2 it gave no valid answer (silent)."
    )
    assert expected in witness(ENTRY, spoke, silent, Look(look(3).record))
    read_alone = look(1, AnswerStatus.UNSUPPORTED, ReadStatus.NO_ENTRY)
    assert "Bookie b1 at look 1 gave no valid answer (unsupported)" in witness(ENTRY, read_alone, silent)
    never = witness(ENTRY, look(1, AnswerStatus.REFUSED), silent)
    assert "Bookie b1 gave no valid answer (silent)." in never


def test_every_way_a_reading_ends_has_words():
    """None is told by its code name."""
    said = [witness(ENTRY, look(1, read=read), look(2, read=read)) for read in ReadStatus]
    assert len(set(said)) == len(ReadStatus) and not any("_" in text for text in said)


def test_an_entry_is_told_from_its_write_set_to_its_copies():
    """Let, then, so, again: the sentences from which a person can check it."""
    expected = (
        "Let entry 42 of ledger 7 be in segment 0-99 with ensemble b1, b2, b3; then its write set is b1, b2. "
        "Bookie b1 says it knows no such ledger, and asked for that entry it said it has no such ledger. "
        "So 1 of 2 copies are confirmed and 0 are unknown (ack quorum 2). "
        "Again at look 2: the metadata was read once more in version 3 and the ledger was not marked."
    )
    asked = look(1, AnswerStatus.NO_SUCH_LEDGER, ReadStatus.NO_LEDGER)
    closing = Look(look(2).record)
    assert expected == witness(ENTRY, asked, closing)


def lost(ledgers=1, some="160", apart_s=18, has_cookie="false", replication_disabled="false", delay=""):
    finding = Finding(
        Kind.BOOKIE_LOST_UNNOTICED,
        bookie_id="b7",
        facts=(
            ("has_cookie", has_cookie),
            ("unmarked_ledgers", str(ledgers)),
            ("some_ledgers", some),
            ("apart_s", str(apart_s)),
            ("lost_bookie_recovery_delay_s", delay),
            ("replication_disabled", replication_disabled),
        ),
    )
    records = [BookieRecord("b7", n, n, Registration.NONE, greeting=Greeting.UNREGISTERED) for n in (0, 1)]
    return bookie_testimony(finding, records, FACTS)


def test_a_lost_bookie_is_told_with_its_ledgers_its_cookie_and_the_time_between_the_looks():
    """One ledger is one ledger."""
    expected = (
        "Let bookie b7 not be registered; then 1 closed ledger names it (160) and is not marked under-replicated; "
        "the bookie has no cookie; all this again 18 s later."
    )
    assert expected == lost()["witness"]


def test_a_lost_bookie_of_many_ledgers_counts_those_it_does_not_name():
    """Many ledgers are many; what is not named is counted."""
    told = lost(12, "160 161", has_cookie="true", delay="600", replication_disabled="true")["witness"]
    assert "12 closed ledgers name it (160, 161 and 10 more) and none of them is marked under-replicated" in told
    assert "the bookie still has a cookie" in told and "lostBookieRecoveryDelay is 10 min." in told
    assert "Auto-recovery is disabled" in told


@pytest.mark.parametrize(
    ("expected", "seconds"),
    [
        ("0 s", 0),
        ("23 s", 23),
        ("1 min", 60),
        ("5 min 1 s", 301),
        ("1 h", 3_600),
        ("1 h 5 min", 3_900),
        ("1 day", 86_400),
        ("10 days", 864_000),
        ("10 days 23 h", 950_399),
        ("106751991167 days 7 h", 2**63 // 1000),
    ],
)
def test_spans_are_told_as_people_say_them(expected, seconds):
    """Two units at most, the smaller rounded down; any number of seconds a mark may claim."""
    assert f"all this again {expected} later." in lost(apart_s=seconds)["witness"]


def marked(**changes):
    facts = {"age_s": "864000", "grace_s": "259200", "marked_at_ms": "0", "mark_changed_at_ms": "", "missing_replicas": "b3"}
    named = tuple((facts | {"mark_problem": ""} | changes).items())
    return witness(Finding(Kind.UNDERREPLICATED_BEYOND_GRACE, ledger_id=7, facts=named), look(1), look(2, mark=Mark(0)))


def test_a_mark_is_told_with_both_times_and_its_age():
    """The older of the znode's time and its own field counts, and both are there."""
    told = marked(mark_changed_at_ms="1000")
    assert "made at 1970-01-01T00:00:00.000Z and its own ctime field says 1970-01-01T00:00:01.000Z" in told
    assert "then the mark is, by the older of the two, 10 days old, and up to 3 days is acceptable." in told
    assert "The mark cannot be read (no end), so its znode's time counts." in marked(mark_problem="no end")


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        (
            "the mark is, by the older of the two, 10 days old, and up to 3 days is acceptable. "
            "Nothing that was seen says why it still stands.",
            marked(),
        ),
        (
            "1 closed ledger names it (160) and is not marked under-replicated; the bookie has no cookie; "
            "all this again 18 s later.",
            lost()["witness"],
        ),
        (
            "it contradicts itself: no lastEntryId.",
            witness(
                Finding(Kind.METADATA_MALFORMED, ledger_id=7, facts=(("contradiction", "no lastEntryId"),)), look(1), look(2)
            ),
        ),
        (
            "b1 at positions 0 and 2: an entry striped to both positions has one copy there, not two.",
            witness(
                Finding(
                    Kind.ENSEMBLE_DUPLICATE_BOOKIE, 7, segment=FindingSegment(0, 9, ("b1", "b2", "b1")), facts=(("b1", "0 2"),)
                ),
                look(1),
                look(2),
            ),
        ),
        ("words of another version", "words of another version"),
    ],
)
def test_the_gist_of_a_witness_is_what_it_concludes(expected, told):
    """Neither what it starts from nor the closing look, for a screen with a line for it."""
    assert expected == gist(told)


def test_a_finding_is_one_line_of_ascii():
    """Whatever stands in it."""
    line = finding_line(lost(some="160") | {"owner": {"name": "语\n"}})
    assert line.isascii() and "\n" not in line and json.loads(line)["bookie_id"] == "b7"
