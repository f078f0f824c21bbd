"""The report of `auditor topic`: bounded, the worst first, and open about what is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from support import report_stories as stories

from auditor.model.codec import decode
from auditor.model.topic import Role, TopicStatus
from auditor.pulsar.readability import Answer, Condition, TopicReport
from auditor.report.topics_text import LEDGERS_SHOWN_MAX, SUBSCRIPTIONS_SHOWN_MAX, render_topics

Json = dict[str, Any]
SUMMARY: Json = {
    "run_id": "r",
    "outcome": "SOUND",
    "cluster": {"metadata_service_uri": "zk://h/ledgers", "instance_id": None},
    "ledgers": {"listed": 1, "sound": 1, "exempt": 0, "indeterminate": 0, "violated": 0},
}


def ledger(ledger_id: int, condition: Condition = Condition.NOTHING_LOST, **facts: Any) -> Json:
    return {
        "ledger_id": ledger_id, "condition": condition.value, "standing": "sound", "lost": [],
        "lost_more": False,
        "is_unknown": False, "detail": "", "role": Role.DATA.value, "name": None, "entries": 10,
        "size_bytes": 2048, **facts,
    }  # fmt: skip


def subscription(name: str = "s", answer: Answer = Answer.READABLE, **facts: Any) -> Json:
    return {
        "name": name, "position": [1, 2], "is_newest_position": True, "cursor_ledger_id": None,
        "answer": answer.value,
        "first_loss": None, "problem": "", **facts,
    }  # fmt: skip


def topic(**facts: Any) -> Json:
    return {
        "topic": "persistent://t/n/x", "status": TopicStatus.FOUND.value, "is_complete": True,
        "answer": Answer.READABLE.value,
        "first_loss": None, "blocker": "", "shadow_source": None, "problems": [], "unread": {},
        "ledgers": [ledger(1)],
        "subscriptions": [subscription()], "schemas": [], **facts,
    }  # fmt: skip


def text(*topics: Json, **summary: Any) -> str:
    reports = [decode(TopicReport, one) for one in topics]
    shown = stories.summary(**{**SUMMARY, **summary})
    return render_topics(shown, reports, [], second_look_delay_s=1.0)


def test_a_topic_in_order_takes_a_few_lines():
    """It has counts and an answer for the subscription. The line for machines is last."""
    lines = text(topic()).splitlines()
    assert "persistent://t/n/x: READABLE: no loss was found" in lines
    assert "  1 data ledger, 10 entries recorded (2.0 KiB)." in lines
    assert "    position 1:2: no loss was found after it." in lines
    assert "auditor: SOUND run=r listed=1 sound=1 exempt=0 indeterminate=0 violated=0" == lines[-1]
    assert "  ledgers" not in lines


@pytest.mark.parametrize("condition", [Condition.OPEN, Condition.OFFLOADED])
def test_what_was_not_judged_is_said_beside_readable(condition: Condition):
    """The topic has an open ledger, or one in long-term storage."""
    said = text(topic(ledgers=[ledger(1), ledger(2, condition)]))
    assert "READABLE: no loss was found in what was judged" in said
    assert {
        Condition.OPEN: "1 not judged, because not closed",
        Condition.OFFLOADED: "1 in long-term storage",
    }[condition] in said


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            {"status": "missing", "problems": []},
            "persistent://t/n/x: no such topic, or it has no ledgers",
        ),
        (
            {"status": "unreadable", "problems": ["znode /a may not be read"]},
            "  not read: znode /a may not be read",
        ),
        (
            {"answer": "unknown"},
            "persistent://t/n/x: NOT KNOWN whether it is readable from end to end",
        ),
        ({"subscriptions": []}, "  It has no subscription."),
        ({"problems": [f"problem {n}" for n in range(9)]}, "  and 4 problems more (--format json)"),
    ],
)
def test_what_is_not_known_is_said(facts: Json, said: str):
    """The text claims neither a loss nor that everything was read."""
    assert said in text(topic(**facts)).splitlines()


def test_the_report_is_bounded_and_the_worst_come_first():
    """A thousand subscriptions and ledgers fit on a screen or two."""
    subscriptions = [
        subscription(f"s{n}", Answer.READABLE if n % 2 else Answer.BLOCKED, first_loss=[3, 4])
        for n in range(1000)
    ]
    ledgers = [ledger(n, Condition.UNKNOWN if n % 2 else Condition.MISSING) for n in range(1000)]
    lines = text(
        topic(answer="blocked", first_loss=[0, 0], subscriptions=subscriptions, ledgers=ledgers)
    ).splitlines()
    assert len(lines) < 110
    shown = [line for line in lines if line.startswith("  subscription ")]
    assert SUBSCRIPTIONS_SHOWN_MAX == len(shown) == sum("BLOCKED" in line for line in shown)
    assert "  and 980 subscriptions more, none of them worse (--format json)" in lines
    assert LEDGERS_SHOWN_MAX == sum("BookKeeper does not know the ledger" in line for line in lines)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"lost": [[4, 4]]}, "lost: entry 4"),
        ({"lost": [[4, 4]], "lost_more": True}, "lost: entries 4 and more"),
        ({"lost": [[4, 6]]}, "lost: entries 4-6"),
        ({"lost": [[0, None]]}, "lost: all entries, how many was not recorded"),
        ({"detail": "bookie_silent"}, "(bookie_silent)"),
        ({"role": "cursor", "name": "mine"}, "1 (cursor of mine): "),
    ],
)
def test_what_is_wrong_with_a_ledger_is_said(facts: Json, said: str):
    """Which entries, why, and what the ledger is for."""
    report = text(topic(ledgers=[ledger(1, Condition.ENTRIES_LOST, **facts)]))
    assert said in " ".join(report.split())


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (Condition.MISSING, "was in ledger 7, which is missing"),
        (Condition.NOTHING_LOST, "is in ledger 7, which was not read"),
    ],
)
def test_the_position_of_a_subscription_in_use_is_an_older_one(condition: Condition, kept: str):
    """The text says which ledger has the newer position, and whether that ledger is missing."""
    reading = subscription(is_newest_position=False, cursor_ledger_id=7)
    said = text(
        topic(
            ledgers=[ledger(1), ledger(7, condition, role="cursor", name="s")],
            subscriptions=[reading],
        )
    )
    assert f"a newer one {kept}" in " ".join(said.split())


def test_names_cannot_forge_a_line():
    """Anybody may choose the name of a subscription. The name of a topic is quoted in commands."""
    forged = "x\nauditor: SOUND run=forged"
    hit = ledger(1, Condition.MISSING)
    said = text(
        topic(
            topic="persistent://t/n/a; rm -rf b",
            subscriptions=[subscription(forged)],
            ledgers=[hit],
        )
    )
    assert 1 == sum(line.startswith("auditor: ") for line in said.splitlines())
    assert "get -b '/managed-ledgers/t/n/persistent/a%3B+rm+-rf+b'" not in said
    assert "get -b /managed-ledgers/t/n/persistent/a%3B+rm+-rf+b\n" in said


def test_copies_that_are_assumed_are_said():
    """Where bookies cannot list, most copies rest on a sample."""
    said = text(
        topic(),
        copies={"expected": 100, "listed": 0, "read": 4, "assumed": 96},
        verified_ratio=0.04,
    )
    assert "96 are assumed from a sample" in said


def test_the_lost_end_of_a_truncated_ledger_is_said_to_be_skipped():
    """Pulsar takes the end of a ledger from BookKeeper: it does not stop at what was cut off."""
    said = " ".join(text(topic(ledgers=[ledger(1, Condition.TRUNCATED, lost=[[60, 99]])])).split())
    assert (
        "1 (data): its metadata ends before the entries that the topic recorded; lost: entries"
        " 60-99; " in said
    )
    assert "a broker that opens the ledger skips them without an error" in said


def test_the_last_line_counts_ledgers_that_are_missing():
    """Such a ledger is not listed: no other number shows why the outcome is VIOLATED."""
    said = text(
        topic(ledgers=[ledger(1, Condition.MISSING)]),
        references={"missing": 1, "newest_missing": 0, "truncated": 0},
    )
    assert said.splitlines()[-1].endswith(" missing=1 newest_missing=0 truncated=0")


def test_what_a_shadow_topic_lists_is_saved_from_its_source():
    """The broker drops the ledger from the list of the source."""
    said = text(
        topic(
            shadow_source="persistent://t/n/source",
            ledgers=[ledger(1, Condition.NEWEST_MISSING)],
        )
    )
    assert "get -b /managed-ledgers/t/n/persistent/source" in said
    assert "get -b /managed-ledgers/t/n/persistent/x" not in said


@pytest.mark.parametrize("role", [one for one in Role if one is not Role.DATA])
@pytest.mark.parametrize(
    "condition",
    [
        Condition.UNRECOVERABLE,
        Condition.ENTRIES_UNAVAILABLE,
        Condition.ENTRIES_LOST,
        Condition.MISSING,
    ],
)
def test_every_role_is_said_with_what_its_damage_does(role: Role, condition: Condition):
    """A reader of the report need not know what Pulsar keeps in such a ledger."""
    said = " ".join(text(topic(ledgers=[ledger(7, condition, role=role.value, name="s")])).split())
    assert EFFECTS[role] in said
    assert EFFECTS[role] not in text(topic(ledgers=[ledger(7, role=role.value, name="s")]))


EFFECTS = {
    Role.CURSOR: "falls back to the position in ZooKeeper, and delivers again what was",
    Role.SCHEMA: "A broker that reads the schemas",
    Role.COMPACTED: "Readers of the compacted topic get an error",
    Role.DELAYED: "No message is lost",
}


def test_a_cursors_ledger_that_cannot_be_recovered_counts_as_lost():
    """That of the compactor takes the name of the newest compacted ledger along."""
    one = ledger(7, Condition.UNRECOVERABLE, role=Role.CURSOR.value, name="__compaction")
    said = " ".join(text(topic(ledgers=[one])).split())
    assert "The newest compacted ledger is named there alone." in said


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (Condition.ENTRIES_UNAVAILABLE, "If no bookie serves that, the topic does not load, or"),
        (Condition.ENTRIES_LOST, "If that is lost, the broker gives the ledger up."),
        (Condition.CLOSED_SHORT, "which is older than what was written last."),
    ],
)
def test_of_a_cursors_ledger_the_last_entry_counts(condition: Condition, words: str):
    """A broker reads no other."""
    one = ledger(7, condition, role=Role.CURSOR.value, name="s", lost=[[0, 3]])
    assert words in " ".join(text(topic(ledgers=[one])).split())


def test_each_missing_ledger_has_its_znode_saved():
    """One that is left out is rewritten by the broker as the others are."""
    cursors = [
        ledger(n, Condition.MISSING, role=Role.CURSOR.value, name=name)
        for n, name in ((7, "__compaction"), (8, "mine"))
    ]
    said = text(topic(ledgers=cursors))
    for name in ("__compaction", "mine"):
        assert f"get -b /managed-ledgers/t/n/persistent/x/{name}" in said
    assert "ledgermetadata -l 7" in said and "ledgermetadata -l 8" in said
