"""The report's section on topics: what was read, what is lost, and who is hit, worst first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import report_stories as stories

from auditor.model.codec import decode
from auditor.model.finding import Kind
from auditor.model.summary import References
from auditor.report.layout import PLAIN
from auditor.report.outcome_text import outcome_sentences
from auditor.report.references_text import TOPICS_SHOWN_MAX, _orphan_words, references_section
from auditor.report.text import render

REFERENCES = {
    "topics": 5, "cursors": 1, "schemas": 0, "ledgers_referenced": 9, "missing": 1, "truncated": 2,
    "orphaned": 3,
    "unreadable": 1, "unknown": 2, "orphaned_unknown": 4,
}  # fmt: skip


def topic(number: int) -> dict[str, Any]:
    return {
        "topic": f"persistent://public/default/t{number}", "namespace": "public/default",
        "has_loss": number == 0,
        "kinds": ["REFERENCED_LEDGER_MISSING"], "ledgers": 1, "subscriptions_blocked": 1,
        "subscriptions_possibly_blocked": 0,
    }  # fmt: skip


def section(**changes: Any) -> str:
    summary = stories.summary(
        **{"references": REFERENCES, "topics_hit": 0, "topics_worst": None, **changes}
    )
    return " ".join("\n".join(references_section(summary, PLAIN)).split())


def test_no_topics_no_section() -> None:
    """No topics were looked for, or an earlier version stored the run."""
    assert ["", ""] == [
        section(references=None),
        "\n".join(references_section(stories.summary(), PLAIN)),
    ]


def test_what_was_read_and_what_is_wrong_is_counted() -> None:
    """Words are singular or plural as the count is. What is unknown has a sentence."""
    said = section()
    assert (
        "5 topics, 1 cursor, 0 schemas were read; they reference 9 ledgers; of 1 topic something"
        " could not be read" in said
    )
    assert (
        "1 referenced ledger has no metadata, and 2 end before what their topics recorded" in said
    )
    assert "of 2 referenced ledgers it is not known whether they are lost" in said
    assert "3 old ledgers are referenced by no topic (orphans)" in said
    assert "4 more without a known reference may be needed by something that is not decoded" in said


def test_topics_that_are_hit_are_named_worst_first_and_bounded() -> None:
    """Their namespaces are counted where there are several."""
    worst = {
        "with_loss": 1, "subscriptions_blocked": 8, "subscriptions_possibly_blocked": 0,
        "namespaces": 2,
        "worst_namespaces": [{"namespace": "public/default", "topics": 7},
        {"namespace": "t/n", "topics": 1}],
        "worst_topics": [topic(number) for number in range(8)],
    }  # fmt: skip
    said = section(references={**REFERENCES, "truncated": 0}, topics_hit=8, topics_worst=worst)
    assert (
        "8 topics are hit, in 2 namespaces: 1 with a loss, 8 subscriptions blocked and 0 possibly;"
        " worst first:" in said
    )
    assert (
        "public/default/t0: a loss, 1 ledger (REFERENCED_LEDGER_MISSING), 1 subscription blocked"
        " and 0 possibly" in said
    )
    assert "public/default/t1: no loss of entries" in said
    assert TOPICS_SHOWN_MAX == said.count("persistent://")
    assert said.endswith("by namespace: public/default 7, t/n 1")


def test_subscriptions_of_a_truncated_ledger_may_skip_what_is_lost() -> None:
    """A broker goes past the end of a truncated ledger without an error."""
    cut = {**topic(0), "kinds": ["LEDGER_TRUNCATED"]}
    worst = {
        "with_loss": 1,
        "subscriptions_blocked": 1,
        "namespaces": 1,
        "worst_topics": [cut, topic(1)],
    }
    said = section(topics_hit=2, topics_worst=worst)
    word = "1 subscription blocked (or skipping the lost entries without an error) and 0 possibly"
    assert 2 == said.count(word) and f"(LEDGER_TRUNCATED), {word}" in said
    assert "(REFERENCED_LEDGER_MISSING), 1 subscription blocked and 0 possibly" in said


def test_topics_that_were_not_listed_are_no_number() -> None:
    """Nor do they count as topics that could not be read."""
    said = section(references={**REFERENCES, "unreadable": 0, "not_listed": 1, "outdated": 1})
    assert "they reference 9 ledgers; not all topics could be listed" in said
    assert "1 outdated compacted ledger of subscriptions in use could not be found" in said


def test_a_run_with_nothing_but_a_missing_ledger_says_so_first() -> None:
    """No ledger that is listed is in violation."""
    found = [stories.finding(Kind.REFERENCED_LEDGER_MISSING, 70)]
    summary = stories.summary(findings=stories.counted(found), outcome="VIOLATED", exit_code=1)
    summary = replace(summary, ledgers=replace(summary.ledgers, violated=0))
    assert outcome_sentences(summary).startswith(
        "1 ledger that topics need is missing or cut short."
    )
    assert "REFERENCED_LEDGER_MISSING" in render(summary, found)


@pytest.mark.parametrize(
    ("orphans", "words"),
    [
        ({}, []),
        ({"orphaned_bytes": 2048}, ["(orphans), with 2.0 KiB in all copies"]),
        (
            {"orphaned_bytes": 2048, "orphaned_without_length": 1},
            ["(orphans), with at least 2.0 KiB in all copies"],
        ),
        (
            {"orphaned_growth": {"ledgers": 2, "stored_bytes": -1024}},
            ["that is 2 more orphans and 1.0 KiB less than at run r-1 (began 2026-01-01)"],
        ),
        (
            {"orphaned_growth": {"ledgers": -1, "stored_bytes": 1024}},
            ["that is 1 fewer orphans and 1.0 KiB more than at run r-1 (began 2026-01-01)"],
        ),
    ],
)
def test_orphans_are_said_with_their_bytes_and_growth(
    orphans: dict[str, Any], words: list[str]
) -> None:
    """The bytes are at least so many where one has no length."""
    if growth := orphans.get("orphaned_growth"):
        growth["since"] = {"run_id": "r-1", "started_at": "2026-01-01"}
    references = decode(References, {"orphaned": 3, **orphans})
    said = "; ".join(_orphan_words(references))
    assert all(word in said for word in words)
    assert ("than at run" in said) == ("orphaned_growth" in orphans)
