"""The sentences on what is unknown of topics and of the ledgers they reference."""

from __future__ import annotations

from auditor.findings.reference_findings import (
    partition_sentences,
    unjudged_sentences,
    withheld_sentences,
)
from auditor.findings.references import Doubt


def test_nothing_is_withheld_where_all_is_known() -> None:
    """There is no sentence on zero ledgers either."""
    assert [] == [*withheld_sentences({}, [], [], 0), *unjudged_sentences(0, 100_000)]


def test_unreadable_topics_are_counted_and_the_first_five_by_name_are_listed() -> None:
    """None stands for topics that could not be listed. They have a sentence of their own."""
    topics = ["t6", None, "t5", "t4", "t3", "t2", "t1"]
    named, unlisted = withheld_sentences({}, [], topics, 0)
    assert (
        "reference_unreadable: of 6 topics something could not be read or decoded (such as t1, t2,"
        " t3, t4, t5): what they reference is not known in full, and nothing is said of orphans in"
        " their namespaces" == named
    )
    assert (
        "reference_unreadable: not all of Pulsar's topics could be listed: nothing is said of"
        " orphans where they may be" == unlisted
    )


def test_a_topic_that_was_not_listed_is_not_counted_as_unreadable() -> None:
    """Nobody knows how many topics were not listed."""
    (sentence,) = withheld_sentences({}, [], [None], 0)
    assert sentence.startswith("reference_unreadable: not all of Pulsar's topics")


def test_each_doubt_on_ledgers_has_its_own_sentence() -> None:
    """The order is unknown, outdated, undecided. A single ledger is written in the singular."""
    unknown, outdated, undecided = withheld_sentences({7: Doubt.UNREAD}, [8], [], 1)
    assert unknown.startswith("1 ledger that topics reference (such as 7) could not be read")
    assert outdated.startswith("1 compacted ledger (such as 8) that ZooKeeper has")
    assert undecided.startswith(
        "1 ledger of Pulsar without a known reference is not called an orphan: "
    )
    assert " may reference it, " in undecided


def test_each_sort_of_doubt_has_its_own_sentence() -> None:
    """One that could not be read, one that seemed missing, and one that seemed cut short."""
    unread, missing, short = withheld_sentences(
        {7: Doubt.SHORT, 8: Doubt.UNREAD, 9: Doubt.MISSING}, [], [], 0
    )
    assert "(such as 8) could not be read at some look" in unread
    assert "(such as 9) had no metadata at some look" in missing
    assert "(such as 7) ended before what a topic recorded" in short


def test_several_ledgers_are_written_in_the_plural() -> None:
    """At most five are named."""
    doubts = dict.fromkeys(range(1, 8), Doubt.UNREAD)
    unknown, outdated, undecided = withheld_sentences(doubts, [8, 9], [], 2)
    assert unknown.startswith(
        "7 ledgers that topics reference (such as 1, 2, 3, 4, 5) could not be read"
    )
    assert outdated.startswith("2 compacted ledgers (such as 8, 9) that ZooKeeper has")
    assert undecided.startswith(
        "2 ledgers of Pulsar without a known reference are not called orphans: "
    )
    assert " may reference them, " in undecided


def test_ledgers_that_were_not_judged_are_counted_with_the_bound() -> None:
    """The bound is written with thousands separators."""
    (one,), (two,) = unjudged_sentences(1, 100_000), unjudged_sentences(2, 100_000)
    assert one.startswith("1 more ledger that topics reference") and one.endswith(
        "a run judges the first 100,000"
    )
    assert two.startswith("2 more ledgers that topics reference")


def test_partitions_without_a_znode_are_counted_after_the_namespaces_in_doubt() -> None:
    """Each has its own sentence. At most five are named."""
    namespaces = [f"public/{name}" for name in "abcdef"]
    in_doubt, lone = partition_sentences(["p0"], namespaces)
    assert in_doubt.startswith(
        "not all partitioned topics of 6 namespaces (such as public/a, public/b, public/c,"
        " public/d, public/e) could be listed or read: "
    )
    assert lone.startswith("1 partition of partitioned topics (such as p0) has no znode: ")
    (several,) = partition_sentences(["p0", "p1"], [])
    assert several.startswith("2 partitions of partitioned topics (such as p0, p1) have no znode: ")
    assert [] == [*partition_sentences([], [])]
