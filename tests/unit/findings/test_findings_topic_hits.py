"""Which topics are hit by findings on ledgers, worst first, and who owns a ledger that names no
owner.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.topics import closed

from auditor.evidence.rows import Row, table
from auditor.evidence.run_directory import Place, place
from auditor.evidence.schemas import REFERENCES
from auditor.findings.topics import TopicHits, topic_hits
from auditor.model.codec import encode
from auditor.model.finding_record import FindingRecord, Owner
from auditor.model.topic import (
    Cursor,
    DataLedger,
    ManagedLedger,
    Position,
    SchemaVersion,
    Subscription,
    TopicName,
    TopicRecord,
    TopicStatus,
)
from auditor.pulsar.reference_rows import listing_problem_row, reference_rows
from auditor.pulsar.topic_paths import parse_topic
from auditor.witness.next_commands import NO_LOADING

LOST, COPY = "ENTRY_WITHOUT_REPLICA", "ENTRY_BELOW_WRITE_QUORUM"
TOPIC = "auditor topic persistent://public/default/"
WARNING = f"# {NO_LOADING}"
GET = "zkCli.sh -server PULSAR_ZOOKEEPER get -b"
SAVE = f"SAVE FIRST: {GET} /managed-ledgers/public/default/persistent/"


def topic(
    name: str, *ledgers: int | DataLedger, cursors: dict[str, Cursor] | None = None, **more: Any
) -> TopicRecord:
    """Return a topic that was found. A number stands for a closed ledger of ten entries."""
    data = tuple(closed(one) if isinstance(one, int) else one for one in ledgers)
    subscriptions = tuple(Subscription(*one) for one in (cursors or {}).items())
    name = name if "/" in name else f"public/default/{name}"
    return TopicRecord(
        parse_topic(name), 5, TopicStatus.FOUND, ManagedLedger(data), subscriptions, **more
    )


def finding(
    ledger_id: int | None, kind: str = LOST, *ranges: tuple[int, int], **more: Any
) -> FindingRecord:
    """Return a finding with the fields that topics depend on."""
    total = sum(last - first + 1 for first, last in ranges)
    fields = {"id": f"id-{ledger_id}", "kind": kind, "ledger_id": ledger_id, "bookie_id": None}
    fields |= {"entries": [list(one) for one in ranges], "entries_total": total, "next": ["look"]}
    return FindingRecord.from_json(fields | more)


def write(
    run: Place,
    first: Iterable[TopicRecord],
    again: Iterable[TopicRecord],
    problems: Sequence[Row] = (),
) -> None:
    """Write what both looks read of topics."""
    rows = [*problems, *(row for one in first for row in reference_rows(one, 1))]
    rows += [row for one in again for row in reference_rows(one, 2)]
    run.write_table("evidence/references", table(REFERENCES, rows), "all")


@pytest.fixture
def run(tmp_path: Path) -> Place:
    """Return the directory of a run."""
    return place(str(tmp_path))


def hits_of(run: Place, topics: Iterable[TopicRecord], *findings: FindingRecord) -> TopicHits:
    """Return what these findings hit, where both looks saw the same topics."""
    topics = list(topics)
    write(run, topics, topics)
    return topic_hits(run, findings)


def lines_of(hits: TopicHits) -> list[dict[str, Any]]:
    """Return the lines of topics.jsonl."""
    return list(map(json.loads, hits.lines))


def test_findings_are_handed_on_where_topics_were_not_looked_for(run: Place) -> None:
    """The findings do not change, and the counts of topics are null."""
    assert TopicHits(["x"]) == topic_hits(run, ["x"])


def test_a_line_says_what_the_topic_lost_and_who_is_blocked(run: Place) -> None:
    """The line is compact and ASCII, whatever the name of the topic."""
    cursors = {"s": Cursor(None, Position(6, 9)), "u": Cursor(9, Position(6, 9))}
    (line,) = hits_of(run, [topic("tä", 7, cursors=cursors)], finding(7, LOST, (4, 4))).lines
    assert (
        r'{"topic":"persistent://public/default/t\u00e4","namespace":"public/default","has_loss":true,'
        r'"kinds":["ENTRY_WITHOUT_REPLICA"],"ledgers":[7],"subscriptions_blocked":["s"],'
        r'"subscriptions_possibly_blocked":["u"]}'
    ) == line


@pytest.mark.parametrize(("mark_delete", "expected"), [(7, ["s"]), (8, [])])
def test_all_losses_of_a_ledger_block_and_nothing_else_does(
    run: Place, mark_delete: int, expected: list[str]
) -> None:
    """The losses of both findings count. Entry 9 has a copy left and blocks no subscription."""
    findings = [
        finding(7, "ENTRY_ONLY_OUTSIDE_ENSEMBLE", (8, 8)),
        finding(7, LOST, (4, 4)),
        finding(7, COPY, (9, 9)),
    ]
    cursors = {"s": Cursor(None, Position(7, mark_delete))}
    (line,) = lines_of(hits_of(run, [topic("t", 7, cursors=cursors)], *findings))
    assert expected == line["subscriptions_blocked"]


@pytest.mark.parametrize(
    ("mark_delete", "blocked", "possibly"), [(3, ["s"], []), (4, [], ["s"]), (9, [], [])]
)  # fmt: skip
def test_a_subscription_behind_the_named_losses_may_be_blocked_by_others(
    run: Place, mark_delete: int, blocked: list[str], possibly: list[str]
) -> None:
    """A finding names only its first ranges. A subscription that acknowledged the whole ledger
    needs no entry of it.
    """
    cursors = {"s": Cursor(None, Position(7, mark_delete))}
    (line,) = lines_of(
        hits_of(run, [topic("t", 7, cursors=cursors)], finding(7, LOST, (4, 4), entries_total=2))
    )
    assert (blocked, possibly) == (
        line["subscriptions_blocked"],
        line["subscriptions_possibly_blocked"],
    )


def test_a_finding_that_names_all_losses_leaves_nobody_in_doubt(run: Place) -> None:
    """The lengths of its ranges, both ends included, add up to the total."""
    cursors = {"s": Cursor(None, Position(7, 6))}
    (line,) = lines_of(
        hits_of(run, [topic("t", 7, cursors=cursors)], finding(7, LOST, (1, 2), (4, 6)))
    )
    assert ([], []) == (line["subscriptions_blocked"], line["subscriptions_possibly_blocked"])


@pytest.mark.parametrize(("mark_delete", "expected"), [(-1, ["s"]), (9, ["s"])])
def test_a_missing_ledger_of_unknown_length_lost_all_entries(
    run: Place, mark_delete: int, expected: list[str]
) -> None:
    """A subscription at any position in the ledger is blocked for sure."""
    cursors = {"s": Cursor(None, Position(7, mark_delete))}
    record = topic("t", DataLedger(7), 8, cursors=cursors)
    (line,) = lines_of(
        hits_of(run, [record], finding(7, "REFERENCED_LEDGER_MISSING", entries_total=0))
    )
    assert (expected, []) == (line["subscriptions_blocked"], line["subscriptions_possibly_blocked"])


def test_a_missing_ledger_of_unknown_length_lost_its_first_entry(run: Place) -> None:
    """A subscription that acknowledged all but this one is blocked."""
    others = ((Position(7, 0), Position(8, 9)),)
    record = topic("t", DataLedger(7), 8, cursors={"s": Cursor(None, Position(6, 9), others)})
    (line,) = lines_of(hits_of(run, [record], finding(7, "REFERENCED_LEDGER_MISSING")))
    assert ["s"] == line["subscriptions_blocked"]


def test_losses_of_which_none_is_named_leave_a_subscription_in_doubt(run: Place) -> None:
    """Only a missing ledger has surely lost all its entries."""
    cursors = {"s": Cursor(None, Position(6, 9))}
    (line,) = lines_of(
        hits_of(run, [topic("t", 7, cursors=cursors)], finding(7, LOST, entries_total=3))
    )
    assert ([], ["s"]) == (line["subscriptions_blocked"], line["subscriptions_possibly_blocked"])


def test_a_missing_ledger_of_known_length_blocks_up_to_its_last_entry(run: Place) -> None:
    """A subscription that acknowledged its last entry is not blocked."""
    cursors = {"s": Cursor(None, Position(7, 9)), "u": Cursor(None, Position(7, 8))}
    (line,) = lines_of(
        hits_of(
            run,
            [topic("t", 7, 8, cursors=cursors)],
            finding(7, "REFERENCED_LEDGER_MISSING", (0, 9)),
        )
    )
    assert (["u"], []) == (line["subscriptions_blocked"], line["subscriptions_possibly_blocked"])


@pytest.mark.parametrize(
    ("kind", "has_loss"),
    [
        ("ENTRY_ONLY_OUTSIDE_ENSEMBLE", True),
        ("UNDERREPLICATED_UNRECOVERABLE", True),
        ("REFERENCED_LEDGER_MISSING", True),
        ("LEDGER_TRUNCATED", True),
        ("ENTRY_CORRUPT", False),
    ],
)
def test_a_loss_is_what_no_client_can_read(run: Place, kind: str, has_loss: bool) -> None:
    """A topic that uses the ledger is hit by each of these kinds, also by one that is not a
    loss.
    """
    (line,) = lines_of(hits_of(run, [topic("t", 7)], finding(7, kind, (4, 4))))
    assert (has_loss, [kind]) == (line["has_loss"], line["kinds"])


def test_messages_and_schemas_are_losses_and_a_cursor_is_none(run: Place) -> None:
    """A subscription that lost its cursor ledger continues from an older position."""
    topics = [
        topic("cursor", cursors={"s": Cursor(7, Position(6, 3))}),
        topic("schema", schemas=(SchemaVersion(0, Position(8, 1)),)),
    ]
    lines = lines_of(hits_of(run, topics, finding(7), finding(8)))
    assert {"cursor": False, "schema": True} == {
        one["topic"].rpartition("/")[2]: one["has_loss"] for one in lines
    }
    assert [[], []] == [one["subscriptions_possibly_blocked"] for one in lines]


def test_what_is_in_long_term_storage_is_not_hit(run: Place) -> None:
    """A topic without a finding is not hit either, nor a topic with an info finding only."""
    topics = [topic("offloaded", closed(7, offloaded=True)), topic("sound", 8), topic("stuck", 9)]
    assert (
        ()
        == hits_of(
            run,
            topics,
            finding(7),
            finding(9, "LEDGER_STUCK"),
            finding(None, "LEDGER_POPULATION_DROPPED"),
        ).lines
    )


def test_each_ledger_and_each_kind_is_reported_once_in_order(run: Place) -> None:
    """Kinds in the order of the catalogue, ledgers ascending."""
    record = topic(
        "t", 7, 8, cursors={"s": Cursor(8, Position(6, 3)), "u": Cursor(8, Position(6, 3))}
    )
    (line,) = lines_of(
        hits_of(
            run,
            [record],
            finding(8, COPY),
            finding(7, LOST, (1, 1)),
            finding(8, LOST, (2, 2)),
        )
    )
    assert ([LOST, COPY], [7, 8]) == (line["kinds"], line["ledgers"])


def test_a_topic_counts_as_it_was_found_last(run: Place) -> None:
    """A topic that was deleted or could not be read again counts as at the first look."""

    def before(name: str, entry: int) -> TopicRecord:
        return topic(name, 7, cursors={"s": Cursor(None, Position(7, entry))})

    first = [before(name, 1) for name in ("deleted", "moved", "once", "shut")]
    again = [
        TopicRecord(first[0].topic, 5, TopicStatus.MISSING),
        before("moved", 9),
        TopicRecord(first[3].topic, 5, TopicStatus.UNREADABLE, problems=("shut",)),
    ]
    write(run, first, again)
    lines = lines_of(topic_hits(run, [finding(7, LOST, (4, 4))]))
    blocked = {one["topic"].rpartition("/")[2]: one["subscriptions_blocked"] for one in lines}
    assert {"deleted": ["s"], "moved": [], "once": ["s"], "shut": ["s"]} == blocked


def test_a_subscription_that_could_not_be_read_is_not_judged(run: Place) -> None:
    """The topic is counted as unreadable elsewhere."""
    record = topic("t", 7, cursors={"s": None}, problems=("s is shut",))  # type: ignore[dict-item]
    (line,) = lines_of(hits_of(run, [record], finding(7, LOST, (4, 4))))
    assert ([], []) == (line["subscriptions_blocked"], line["subscriptions_possibly_blocked"])


def ranked_topics() -> tuple[list[TopicRecord], list[FindingRecord]]:
    """Return topics in the order of the report, worst first, and the findings that hit them."""
    sure, unsure = Cursor(None, Position(1, 0)), Cursor(9, Position(1, 0))
    topics = [
        topic("z/a/blocked-two", 11, cursors={"s": sure, "u": sure}),
        topic("y/a/blocked-one", 12, cursors={"s": sure}),
        topic("x/a/possibly", 13, cursors={"s": unsure, "u": unsure}),
        topic("w/b/two-ledgers", 14, 15),
        topic("v/a/lost-1", 16),
        topic("v/a/lost-2", 17),
        topic("a/a/copies-1", 21, 22, 23),
        topic("a/a/copies-2", 24),
    ]
    lost = [finding(n, LOST, (1, 1)) for n in (11, 12, 13, 14, 15, 16, 17)]
    return topics, [*lost, *(finding(n, COPY, (1, 1)) for n in (21, 22, 23, 24))]


def test_topics_stand_worst_first(run: Place) -> None:
    """Topics with losses come first, then by blocked, then by possibly blocked subscriptions, then
    by ledgers, then by name.
    """
    topics, findings = ranked_topics()
    hits = hits_of(run, topics, *findings)
    assert [str(one.topic) for one in topics] == [one["topic"] for one in lines_of(hits)]
    assert 8 == hits.hit


def test_the_summary_counts_what_is_hit_with_the_worst_namespaces_first(run: Place) -> None:
    """The order is that of topics, with the number of topics in place of ledgers."""
    hits = hits_of(run, ranked_topics()[0], *ranked_topics()[1])
    worst = encode(hits.worst)
    words = (
        "namespace",
        "with_loss",
        "subscriptions_blocked",
        "subscriptions_possibly_blocked",
        "topics",
    )
    rows = [
        ("v/a", 2, 0, 0, 2),
        ("z/a", 1, 2, 0, 1),
        ("y/a", 1, 1, 0, 1),
        ("x/a", 1, 0, 2, 1),
        ("w/b", 1, 0, 0, 1),
        ("a/a", 0, 0, 0, 2),
    ]
    assert [dict(zip(words, row, strict=True)) for row in rows] == worst["worst_namespaces"]
    names = ("with_loss", "subscriptions_blocked", "subscriptions_possibly_blocked", "namespaces")
    assert dict(zip(names, (6, 3, 2, 6), strict=True)) == {name: worst[name] for name in names}
    assert {*names, "worst_namespaces", "worst_topics"} == worst.keys()
    brief = {
        "topic": "persistent://z/a/blocked-two", "namespace": "z/a", "has_loss": True,
        "kinds": [LOST], "ledgers": 1,
        "subscriptions_blocked": 2, "subscriptions_possibly_blocked": 0,
    }  # fmt: skip
    assert brief == worst["worst_topics"][0]


def test_namespaces_that_are_hit_alike_stand_by_topics_and_name(run: Place) -> None:
    """The namespace with more topics comes first."""
    topics = [topic("t/c/1", 1), topic("t/b/1", 2), topic("t/d/1", 3), topic("t/d/2", 4)]
    hits = hits_of(run, topics, *(finding(n, COPY) for n in (1, 2, 3, 4)))
    assert ["t/d", "t/b", "t/c"] == [
        one["namespace"] for one in encode(hits.worst)["worst_namespaces"]
    ]


def test_the_summary_names_ten_of_each(run: Place) -> None:
    """All topics and namespaces are counted."""
    topics = [topic(f"t/n{n:02}/t", n) for n in range(1, 13)]
    hits = hits_of(run, topics, *(finding(n, LOST, (1, 1)) for n in range(1, 13)))
    worst = encode(hits.worst)
    assert (10, 10) == (len(worst["worst_namespaces"]), len(worst["worst_topics"]))
    assert (12, 12, 12) == (hits.hit, worst["namespaces"], worst["with_loss"])


def test_no_hit_is_zero_where_all_topics_were_listed_and_null_where_not(
    run: Place, tmp_path: Path
) -> None:
    """A topic that was not listed may be hit. The findings get their owners nevertheless."""
    assert 0 == hits_of(run, []).hit
    blind = place(str(tmp_path / "blind"))
    write(blind, [topic("t", closed(7, offloaded=True))], [], [listing_problem_row(1, 5, "shut")])
    hits = topic_hits(blind, [finding(7)])
    assert ((), None, None) == (hits.lines, hits.hit, hits.worst)
    assert "public/default/persistent/t" == hits.findings[0].owner.name


def test_hits_are_counted_where_not_all_topics_were_listed(run: Place) -> None:
    """These topics are hit, whether or not others are."""
    write(run, [topic("t", 7)], [], [listing_problem_row(1, 5, "shut")])
    assert 1 == topic_hits(run, [finding(7)]).hit


def test_the_owner_is_what_the_first_topic_uses_the_ledger_for(run: Place) -> None:
    """Topics are sorted by name, and messages come before cursors."""
    cursors = {"s": Cursor(7, Position(6, 3)), "v": Cursor(8, Position(6, 3))}
    hits = hits_of(
        run,
        [topic("ü", 7), topic("a", 7, cursors=cursors)],
        finding(7),
        finding(8),
        finding(9),
    )
    owner = Owner("pulsar", "managed-ledger", "public/default/persistent/a")
    steps = (WARNING, f"{SAVE}a", "look", f"{TOPIC}a")
    assert replace(finding(7), owner=owner, next=steps) == hits.findings[0]
    assert "public/default/persistent/a cursor v" == hits.findings[1].owner.name
    assert finding(9) == hits.findings[2]


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        (
            ["look", "CHANGES THE CLUSTER: a"],
            [f"{SAVE}t", "look", f"{TOPIC}t", "CHANGES THE CLUSTER: a"],
        ),
        (["CHANGES THE CLUSTER: a"], [f"{SAVE}t", f"{TOPIC}t", "CHANGES THE CLUSTER: a"]),
        (["SAVE FIRST: s", "look"], ["SAVE FIRST: s", f"{SAVE}t", "look", f"{TOPIC}t"]),
        ([f"{TOPIC}t", "look"], [f"{SAVE}t", f"{TOPIC}t", "look"]),
    ],
)
def test_the_topic_is_saved_and_looked_at_before_anything_is_changed(
    run: Place, commands: list[str], expected: list[str]
) -> None:
    """Its commands come after the others of their group, and come once."""
    (found,) = hits_of(run, [topic("t", 7)], finding(7, next=commands)).findings
    assert (WARNING, *expected) == found.next


def test_a_stuck_ledger_that_a_topic_references_is_not_fenced(run: Place) -> None:
    """Its own metadata names no owner: what was said before the topic was known is taken back."""
    fence = "CHANGES THE CLUSTER: bookkeeper shell readledger -l 7 -fe 0 -le 0 -r"
    stuck = finding(7, kind="LEDGER_STUCK", next=["look", fence])
    (found,) = hits_of(run, [topic("t", 7)], stuck).findings
    steps = found.next
    assert fence not in steps
    assert (
        "CHANGES THE CLUSTER: pulsar-admin topics unload persistent://public/default/t" == steps[-1]
    )


def test_a_topic_that_must_not_stand_on_a_command_line_is_an_owner_all_the_same(run: Place) -> None:
    """Only the command for it is left out, and a line says so."""
    name = TopicName("public", "", "default", "t\x07")
    (found,) = hits_of(run, [replace(topic("t", 7), topic=name)], finding(7)).findings
    assert ("public/default/persistent/t%07", (f"{SAVE}t%07", "look")) == (
        found.owner.name,
        found.next[2:],
    )


def test_an_owner_that_is_known_stays(run: Place) -> None:
    """The topic does not replace it, and a finding on the cluster gets no owner."""
    named = finding(7, owner={"application": "mine", "component": None, "name": "x"})
    cluster = finding(None, "LEDGER_POPULATION_DROPPED")
    hits = hits_of(run, [topic("t", 7)], finding(7), named, cluster)
    assert [named, cluster] == list(hits.findings[1:])
