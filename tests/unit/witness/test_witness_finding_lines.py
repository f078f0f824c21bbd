"""Findings described so that a person can check them by hand."""

import json
from dataclasses import replace
from struct import pack

import pytest
from support.findings_by_kind import ENTRY as ENTRY_FACTS
from support.findings_by_kind import EXAMPLES, MARK, finding_of

from auditor.model.availability import Answer, AnswerStatus, EntryRead, Greeting, ReadStatus
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.evidence import Look
from auditor.model.facts import (
    BeyondEndFacts,
    Contradiction,
    ContradictionFacts,
    Contradicts,
    EndHeader,
    HeldBeyondEnd,
    LostFacts,
    StuckFacts,
    UndecodableFacts,
    WhyMarked,
)
from auditor.model.finding import Kind
from auditor.model.finding_record import Owner
from auditor.model.ledger import LedgerRecord, LedgerState, Mark, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.witness.finding_lines import (
    bookie_testimony,
    gist,
    ledger_look,
    ledger_testimony,
)
from auditor.witness.metadata import INNOCENT_REASONS
from auditor.witness.phrases import span

FACTS = ClusterFacts("zk://h/ledgers", ("h:2181",), "/ledgers", "hierarchical", "id", False, None)
ENTRY = finding_of(Kind.ENTRY_BELOW_ACK_QUORUM)
BELONGS = "Entry 42 of ledger 7 belongs on b1 and b2 (segment 0-99, ensemble b1, b2, b3)."
HELD = (
    HeldBeyondEnd("b1", ((100, 102),), 3, True),
    HeldBeyondEnd("b2", ((102, 102),), 1, False),
)
NO_LIST = "it cannot list, and may hold more."
COUNTED = "1 of 2 copies found; ack quorum is 2."


def look(number, status=AnswerStatus.HELD, read=None, mark=None):
    record = LedgerRecord(
        7, number, number * 1000, RecordStatus.FOUND, stamp=ZnodeStamp(1, 3, 0), mark=mark
    )
    reads = {("b1", 42): EntryRead("b1", 7, 42, number, number * 1000, read)} if read else {}
    return Look(record, {"b1": Answer("b1", 7, number, number * 1000, status)}, reads)


def listing(number, read=None):
    """Return a look at which b1's list names the entry."""
    held = Answer(
        "b1", 7, number, number * 1000, AnswerStatus.HELD, groups=pack(">qqii", 42, 42, 1, 0)
    )
    return replace(look(number, read=read), answers={"b1": held})


def witness(finding, *looks):
    return ledger_testimony(finding, looks, FACTS).witness


def closing(number, mark=None):
    """Return the look that reads the metadata once more."""
    return Look(look(number, mark=mark).record)


def said(finding, *looks):
    """Return what the bookies said, between where the entry belongs and the count of its copies."""
    return (
        gist(witness(finding, *looks)).removeprefix(BELONGS).partition(" 1 of 2 copies")[0].strip()
    )


def test_an_entry_is_reported_from_where_it_belongs_to_when_bookies_were_asked():
    """The order of the sentences is: its bookies, what each said, the count, the times, the
    metadata.
    """
    asked = look(1, AnswerStatus.NO_SUCH_LEDGER, ReadStatus.NO_LEDGER)
    expected = (
        f"{BELONGS} b1 does not know the ledger (ENOLEDGER) and has no such ledger (READ_ENTRY:"
        f" ENOLEDGER). {COUNTED} Bookies were asked at 1970-01-01 00:00:01 UTC; metadata was read"
        " last at 1970-01-01 00:00:02 UTC: unchanged (version 3), not marked under-replicated."
    )
    assert expected == witness(ENTRY, asked, closing(2))


@pytest.mark.parametrize(
    ("expected", "read"),
    [
        ("b1 does not list it and has no such entry (READ_ENTRY: ENOENTRY).", ReadStatus.NO_ENTRY),
        (
            "b1 does not list it and has no such ledger (READ_ENTRY: ENOLEDGER).",
            ReadStatus.NO_LEDGER,
        ),
        ("b1 does not list it and did not answer when it was read.", ReadStatus.SILENT),
        ("b1 does not list it.", None),
    ],
)
def test_what_a_bookie_said_is_reported_in_words(expected, read):
    """The words are on its list and on the read, with the status of the protocol."""
    assert expected == said(ENTRY, look(1, read=read), look(2, read=read), closing(3))


def test_a_bookie_that_fell_silent_is_described_by_its_last_word():
    """The witness has the answer that counted, and says that the bookie did not answer later."""
    spoke, silent = look(1, read=ReadStatus.NO_ENTRY), look(2, AnswerStatus.SILENT)
    expected = (
        "At look 1 b1 does not list it and has no such entry (READ_ENTRY: ENOENTRY). At look 2 it"
        " did not answer."
    )
    assert expected == said(ENTRY, spoke, silent, closing(3))
    assert "b1 did not answer." == said(ENTRY, look(1, AnswerStatus.REFUSED), silent, closing(3))


@pytest.mark.parametrize(
    ("expected", "first", "second"),
    [
        (
            (
                "At look 1 b1 does not list it and has no such entry (READ_ENTRY: ENOENTRY). "
                "At look 2 it does not list it and did not answer when it was read."
            ),
            look(1, read=ReadStatus.NO_ENTRY),
            look(2, read=ReadStatus.SILENT),
        ),
        (
            (
                "At look 1 b1 does not list it and sent it when it was read. "
                "At look 2 it does not list it and did not answer in time when it was read."
            ),
            look(1, read=ReadStatus.PRESENT),
            look(2, read=ReadStatus.TIMED_OUT),
        ),
        (
            (
                "At look 1 b1 does not list it and has no such entry (READ_ENTRY: ENOENTRY). At"
                " look 2 it does not list it."
            ),
            look(1, read=ReadStatus.NO_ENTRY),
            look(2),
        ),
        ("b1 lists it.", look(1, read=ReadStatus.NO_ENTRY), listing(2)),
        (
            (
                "At look 1 b1 lists it and sent it with a digest that does not match. "
                "At look 2 it lists it and did not answer when it was read."
            ),
            listing(1, read=ReadStatus.CORRUPT),
            listing(2, read=ReadStatus.SILENT),
        ),
        (
            "b1 does not list it and did not answer when it was read.",
            listing(1),
            look(2, read=ReadStatus.SILENT),
        ),
    ],
)
def test_what_a_bookie_said_is_taken_from_the_look_that_counts(expected, first, second):
    """The newest list counts, and if it lacks the entry, the newest read that was answered. A later
    failure does not replace it.
    """
    assert expected == said(ENTRY, first, second, closing(3))


def other(number, status):
    """Return a look at which b1, which cannot list, was read for entry 41 alone."""
    reads = {("b1", 41): EntryRead("b1", 7, 41, number, number * 1000, status)}
    return replace(look(number, AnswerStatus.UNSUPPORTED), reads=reads)


@pytest.mark.parametrize(
    ("expected", "counted", "asked"),
    [
        ("b1 gave no list and was not read.", "found;", look(1, AnswerStatus.UNSUPPORTED)),
        (
            "b1 gave no list and has no such entry (READ_ENTRY: ENOENTRY).",
            "found;",
            look(1, AnswerStatus.UNSUPPORTED, ReadStatus.NO_ENTRY),
        ),
        (
            "b1 gave no list and was read for other entries, not for this one.",
            "found or assumed;",
            other(1, ReadStatus.PRESENT),
        ),
        (
            "b1 gave no list and was read for other entries, not for this one.",
            "found or assumed;",
            other(1, ReadStatus.NO_ENTRY),
        ),
        (
            "b1 gave no list and was read for other entries, not for this one.",
            "found;",
            other(1, ReadStatus.TIMED_OUT),
        ),
        (
            ("b1 gave no list and, read for entry 41, has no such ledger (READ_ENTRY: ENOLEDGER)."),
            "found;",
            other(1, ReadStatus.NO_LEDGER),
        ),
    ],
)
def test_a_copy_that_was_not_read_is_called_assumed(expected, counted, asked):
    """On a bookie that cannot list, the copy is assumed if a read of another entry was answered,
    unless the bookie does not know the ledger.
    """
    assert expected == said(ENTRY, asked, closing(2))
    assert f"1 of 2 copies {counted}" in witness(ENTRY, asked, closing(2))


@pytest.mark.parametrize(
    "newest", [AnswerStatus.SILENT, AnswerStatus.TIMED_OUT, AnswerStatus.UNREGISTERED]
)
def test_a_copy_that_was_assumed_stays_assumed_when_its_bookie_falls_silent(newest):
    """Its sample still counts, and no read of the entry came since."""
    looks = (other(1, ReadStatus.PRESENT), look(2, newest), closing(3))
    first = (
        "At look 1 b1 gave no list and was read for other entries, not for this one. At look 2 it "
    )
    assert said(ENTRY, *looks).startswith(first)
    assert "1 of 2 copies found or assumed;" in witness(ENTRY, *looks)


def test_a_sample_in_a_ledger_that_is_gone_since_assumes_nothing():
    """A bookie that does not know the ledger has none of its entries."""
    looks = (other(1, ReadStatus.PRESENT), other(2, ReadStatus.NO_LEDGER), closing(3))
    assert "1 of 2 copies found;" in witness(ENTRY, *looks)


def test_every_way_an_answer_or_a_reading_ends_has_words():
    """No ending is shown by its name in the code."""
    reads = [said(ENTRY, look(1, read=read), closing(2)) for read in ReadStatus]
    answers = [said(ENTRY, look(1, answer), closing(2)) for answer in AnswerStatus]
    assert (len(set(reads)), len(set(answers))) == (len(ReadStatus), len(AnswerStatus))
    assert not any("_" in text.replace("READ_ENTRY", "") for text in (*reads, *answers))


def test_of_a_large_write_set_the_first_bookies_are_reported():
    """However large the quorum, a witness can be read."""
    many = tuple(f"b{n}" for n in range(200))
    answers = {b: Answer(b, 7, 1, 1000, AnswerStatus.HELD) for b in many}
    wide = replace(ENTRY, facts=replace(ENTRY_FACTS, write_set=many))
    text = witness(wide, replace(look(1), answers=answers), closing(2))
    assert "belongs on b0, b1, b2, b3, b4, b5, b6, b7 and 192 more (" in text
    assert "b7 does not list it. What 192 more said is not shown. 1 of 2" in text


def seen_at(*looks):
    """Return the sentence after what was found."""
    text = witness(finding_of(Kind.METADATA_MALFORMED), *looks)
    return text.removeprefix(gist(text)).strip()


def changed(number, **changes):
    """Return a look that asked nobody and saw another version."""
    return Look(replace(look(number).record, stamp=ZnodeStamp(1, 4, 0), **changes))


@pytest.mark.parametrize(
    ("expected", "looks"),
    [
        ("", [look(1)]),
        (
            (
                "Bookies were asked at 1970-01-01 00:00:01 and 00:00:02 UTC; metadata was read last"
                " at 1970-01-01 00:00:03 UTC: unchanged (version 3), marked under-replicated."
            ),
            [look(1), look(2), closing(3, Mark(0))],
        ),
        (
            (
                "Metadata was read at 1970-01-01 00:00:01 and 1970-01-02 00:00:00 UTC: unchanged"
                " (version 3), not marked under-replicated."
            ),
            [closing(1), closing(86_400)],
        ),
        (
            (
                "Bookies were asked at 1970-01-01 00:00:02 UTC; metadata was read last at"
                " 1970-01-01 00:00:03 UTC: unchanged (version 3), not marked under-replicated."
            ),
            [
                look(1, AnswerStatus.UNREGISTERED),
                look(2, AnswerStatus.UNREGISTERED, ReadStatus.NO_ENTRY),
                closing(3),
            ],
        ),
        (
            (
                "Metadata was read at 1970-01-01 00:00:01, 00:00:02 and 00:00:03 UTC: unchanged"
                " (version 3), not marked under-replicated."
            ),
            [
                look(1, AnswerStatus.UNREGISTERED),
                look(2, AnswerStatus.ADDRESS_UNKNOWN, ReadStatus.NOT_ASKED),
                closing(3),
            ],
        ),
        (
            (
                "Metadata was read at 1970-01-01 00:00:02 UTC: changed since the look before"
                " (version 4), not marked under-replicated."
            ),
            [look(1), changed(2)],
        ),
        (
            (
                "Metadata was read at 1970-01-01 00:00:01 and 00:00:02 UTC: it could not be read,"
                " marked under-replicated."
            ),
            [
                Look(LedgerRecord(7, n, n * 1000, RecordStatus.UNREADABLE, mark=Mark(0)))
                for n in (1, 2)
            ],
        ),
    ],
)
def test_when_it_was_seen_counts_looks_at_the_newest_metadata(expected, looks):
    """Answers from looks at an older version of the metadata do not count. Each date is written
    once.
    """
    assert expected == seen_at(*looks)


def lost(**changes):
    records = [
        BookieRecord("b7", n, n, Registration.NONE, greeting=Greeting.UNREGISTERED) for n in (0, 1)
    ]
    facts = replace(EXAMPLES[LostFacts], **changes)
    return bookie_testimony(
        finding_of(Kind.BOOKIE_LOST_UNNOTICED, facts, bookie_id="b7"), records, FACTS
    )


def test_a_lost_bookie_is_reported_with_its_ledgers_its_cookie_and_the_time_between_the_looks():
    """Words are singular for one ledger. Of many ledgers, those that are not named are counted."""
    expected = (
        "Bookie b7 is not registered and has no cookie. 1 closed ledger names it and is not marked"
        " under-replicated (160). This was seen at each look; the first and the last were 18 s"
        " apart."
    )
    assert expected == lost().witness
    expected = (
        "Bookie b7 is not registered and still has a cookie. 12 closed ledgers name it and are not"
        " marked under-replicated (160, 161 and 10 more). This was seen at each look; the first and"
        " the last were 18 s apart. lostBookieRecoveryDelay is 10 min. Auto-recovery is disabled"
        " (underreplication/disable exists): it repairs nothing until it is enabled."
    )
    many = {"unmarked_ledgers": 12, "some_ledgers": (160, 161), "has_cookie": True}
    assert (
        expected
        == lost(**many, lost_bookie_recovery_delay_s=600, replication_disabled=True).witness
    )


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
def test_spans_are_written_as_people_say_them(expected, seconds):
    """A span has two units at most, the smaller one rounded down. It may be as long as any mark
    claims.
    """
    assert expected == span(seconds * 1000 + 999)


@pytest.mark.parametrize(
    ("expected", "ms"),
    [("0 s", 99), ("0.4 s", 400), ("2 s", 2_000), ("9.9 s", 9_999), ("10 s", 10_999)],
)
def test_short_spans_have_tenths_where_that_is_wanted(expected: str, ms: int):
    """What a command took is often less than a second."""
    assert expected == span(ms, tenths=True)


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (
            (
                "The mark names b3 as missing. Its znode was created at 1970-01-01 00:00:00 UTC and"
                " its ctime field says 1970-01-01 00:00:01 UTC: by the older of the two the mark is"
                " 10 days old. Up to 3 days is acceptable. Nothing that was read says why it still"
                " stands."
            ),
            {"changed_ms": 1000},
        ),
        (
            (
                "The mark names no missing bookie. Its znode was created at 1970-01-01 00:00:00 UTC"
                " and it has no ctime field: the mark is 10 days old. Up to 3 days is acceptable."
                " Why it may still stand: every copy "
                "was listed or read where the metadata says; placement repair"
                " makes marks that name no bookie"
                " (repairedPlacementPolicyNotAdheringBookieEnabled)."
            ),
            {"missing_replicas": (), "why": (WhyMarked.STALE,)},
        ),
        (
            (
                "The mark names b3 as missing. Its znode was created at 1970-01-01 00:00:00 UTC and"
                " it has no ctime field: the mark is 10 days old. Up to 3 days is acceptable. Why"
                " it may still stand: every copy was listed or read where the metadata says."
            ),
            {"why": (WhyMarked.STALE,)},
        ),
        (
            (
                "What the mark holds cannot be read (no end). Its znode was created at 1970-01-01"
                " 00:00:00 UTC: the mark is 10 days old. Up to 3 days is acceptable. Nothing that"
                " was read says why it still stands. The ledger's metadata could not be read: its"
                " entries are not checked."
            ),
            {"missing_replicas": (), "problem": "no end", "state": None},
        ),
        (
            (
                "The mark names b3 and b4 as missing. Its znode was created at 1970-01-01 00:00:00"
                " UTC and it has no ctime field: the mark is 10 days old. Up to 3 days is"
                " acceptable. Why it may still stand: auto-recovery is disabled"
                " (underreplication/disable exists); a worker that does not give its name has held"
                " the replication lock since 1970-01-01 00:00:09 UTC. The ledger is OPEN: its"
                " entries are not checked."
            ),
            {
                "missing_replicas": ("b3", "b4"),
                "lock_holder": "",
                "lock_since_ms": 9000,
                "why": (WhyMarked.REPLICATION_DISABLED, WhyMarked.LOCKED),
                "state": LedgerState.OPEN,
            },
        ),
    ],
)
def test_a_mark_is_reported_with_its_times_its_age_and_why_it_may_stand(expected, changes):
    """The older of the znode's time and the mark's own field counts. Both are shown."""
    marked = finding_of(Kind.UNDERREPLICATED_BEYOND_GRACE, replace(MARK, **changes))
    text = gist(witness(marked, look(1), look(2, mark=Mark(0))))
    assert f"Ledger 7 is marked under-replicated. {expected}" == text


@pytest.mark.parametrize(
    ("expected", "finding"),
    [
        (
            (
                "The metadata of ledger 7 (version 3) contradicts itself: the ledger is CLOSED and"
                " has no lastEntryId."
            ),
            finding_of(Kind.METADATA_MALFORMED, EXAMPLES[ContradictionFacts]),
        ),
        (
            (
                "The metadata of ledger 7 cannot be decoded: at byte 5 of 9, no end (SHA-256 of the"
                " bytes: 00ff)."
            ),
            finding_of(Kind.METADATA_MALFORMED, EXAMPLES[UndecodableFacts]),
        ),
        (
            (
                "Segment 0-99 of ledger 7 (ensemble b1, b2, b3) names b1 at positions 0 and 2. An"
                " entry whose write set has two positions of one bookie has one copy there, not"
                " two."
            ),
            finding_of(Kind.ENSEMBLE_DUPLICATE_BOOKIE),
        ),
        (
            (
                "Ledger 7 has been OPEN for 31 days, since 1970-01-01 00:00:00 UTC (the creation of"
                " its znode). --stuck-after is 30 days."
            ),
            finding_of(Kind.LEDGER_STUCK),
        ),
        (
            (
                "Ledger 7 has been IN_RECOVERY for at least 31 days, since 1970-01-01 00:00:00 UTC"
                " (the last write of its znode). --stuck-after is 30 days."
            ),
            finding_of(
                Kind.LEDGER_STUCK, replace(EXAMPLES[StuckFacts], state=LedgerState.IN_RECOVERY)
            ),
        ),
        (
            (
                "The metadata of ledger 7 ends at entry 99 (lastEntryId 99). b1 lists entries"
                f" 100-102. b2 sent entry 102 when it was read; {NO_LIST} The header of entry 102,"
                " read on b2, names entry 99 as the last acknowledged one (lastAddConfirmed 99)."
                f" {INNOCENT_REASONS}"
            ),
            finding_of(
                Kind.ENTRIES_BEYOND_END,
                BeyondEndFacts(99, 2, HELD, EndHeader("b2", 102, 99, 824)),
                entries=((100, 102),),
                entries_total=3,
            ),
        ),
        (
            (
                "The metadata of ledger 7 says that it is closed without entries (lastEntryId -1)."
                " b1 lists entry 0. No header of an entry above the end could be read with a digest"
                f" that proves it. {INNOCENT_REASONS}"
            ),
            finding_of(
                Kind.ENTRIES_BEYOND_END,
                BeyondEndFacts(-1, 1, (HeldBeyondEnd("b1", ((0, 0),), 1, True),)),
                entries=((0, 0),),
            ),
        ),
        (
            (
                "The metadata of ledger 7 (version 3) contradicts itself: the ledger is CLOSED"
                " without entries (lastEntryId -1), and its length is 8 bytes. b1 lists entry 0."
                " The header of entry 0, read on b1, names no entry as the last acknowledged one"
                " (lastAddConfirmed -1)."
                f" {INNOCENT_REASONS}"
            ),
            finding_of(
                Kind.METADATA_MALFORMED,
                ContradictionFacts(
                    (Contradiction(Contradicts.LENGTH_WITHOUT_ENTRY, (8,)),),
                    1,
                    BeyondEndFacts(
                        -1, 1, (HeldBeyondEnd("b1", ((0, 0),), 1, True),), EndHeader("b1", 0, -1, 8)
                    ),
                ),
            ),
        ),
        (
            (
                "The metadata of ledger 7 ends at entry 99 (lastEntryId 99). The header of entry"
                " 102, read on b2, says that entry 101 was acknowledged (lastAddConfirmed 101), and"
                " its digest holds. The end cuts off 2 acknowledged entries: 100-101. b1 lists"
                f" entries 100-102. b2 sent entry 102 when it was read; {NO_LIST}"
            ),
            finding_of(
                Kind.LEDGER_CLOSED_SHORT,
                BeyondEndFacts(99, 2, HELD, EndHeader("b2", 102, 101, 824)),
                entries=((100, 101),),
                entries_total=2,
            ),
        ),
        (
            (
                "The metadata of ledger 7 ends at entry 99 (lastEntryId 99). The header of entry"
                " 101, read on b2, says that entry 100 was acknowledged (lastAddConfirmed 100), and"
                " its digest holds. The end cuts off entry 100, which was acknowledged. No bookie"
                " that answered still holds an entry above the end."
            ),
            finding_of(
                Kind.LEDGER_CLOSED_SHORT,
                BeyondEndFacts(99, 2, (), EndHeader("b2", 101, 100, 816)),
                entries=((100, 100),),
            ),
        ),
    ],
)
def test_what_is_wrong_with_metadata_is_reported_whole(expected, finding):
    """The gist has every sentence but those on the times. A screen with few lines shows it."""
    assert expected == gist(witness(finding, look(1), look(2)))


@pytest.mark.parametrize(
    ("since", "words"),
    [
        (AnswerStatus.HELD, "b1 lists entries 100-102."),
        (AnswerStatus.SILENT, "b1 listed entries 100-102 at look 1. At look 2 it did not answer."),
        (
            AnswerStatus.UNREGISTERED,
            "b1 listed entries 100-102 at look 1. At look 2 it is not registered.",
        ),
    ],
)
def test_a_list_that_only_an_earlier_look_had_is_said_with_that_look(since, words):
    """The newest look that asked the bookie got none."""
    finding = finding_of(
        Kind.ENTRIES_BEYOND_END,
        BeyondEndFacts(99, 2, HELD[:1], EndHeader("b1", 102, 99, 824)),
        entries=((100, 102),),
        entries_total=3,
    )
    assert words in witness(finding, look(1), look(2, since), closing(3))


@pytest.mark.parametrize(
    ("since", "words"),
    [
        (AnswerStatus.HELD, "Outside the write set b1 lists entry 42."),
        (
            AnswerStatus.TIMED_OUT,
            "Outside the write set b1 listed entry 42 at look 1. At look 2 it did not answer for"
            " this ledger in time.",
        ),
    ],
)
def test_a_list_outside_the_write_set_is_said_with_its_look(since, words):
    """The newest answer of the bookie is none."""
    facts = replace(ENTRY.facts, listed_outside=("b1",))
    assert words in witness(replace(ENTRY, facts=facts), look(1), look(2, since), closing(3))


def test_the_gist_of_an_unknown_witness_is_the_whole_text():
    """Witnesses of another version of the auditor are rendered too."""
    assert "words of another version" == gist("words of another version")


def test_a_finding_is_one_line_of_ascii():
    """Other characters and line breaks are escaped."""
    line = replace(lost(), owner=Owner(name="语\n")).line()
    assert line.isascii() and "\n" not in line and json.loads(line)["bookie_id"] == "b7"


def test_a_look_counts_what_a_list_names_of_what_its_bookie_should_hold():
    """Of a closed ledger. Entries that belong elsewhere do not count, and silence has no list."""
    metadata = ledger("e3 w2 a2 0:[b1 b2 b3] closed 99")
    groups = pack(">qqii", 0, 0, 50, 0)
    answers = {
        "b1": Answer("b1", 7, 1, 1000, AnswerStatus.HELD, groups=groups),
        "b2": Answer("b2", 7, 1, 1000, AnswerStatus.SILENT),
        "b9": Answer("b9", 7, 1, 1000, AnswerStatus.HELD, groups=groups),
    }
    record = replace(look(1).record, metadata=metadata)
    assert {"b1": (33, 67), "b9": (0, 0)} == ledger_look(Look(record, answers)).listed
    assert {} == ledger_look(look(1)).listed
