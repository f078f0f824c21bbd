"""A bookie whose cookie names another instance than the cluster's."""

from __future__ import annotations

import pytest

from auditor.findings.cookies import judge_cookies
from auditor.model.cluster import BookieLook, BookieRecord, ClusterFacts, Registration
from auditor.model.facts import ForeignCookieFacts
from auditor.model.finding import Finding, Kind, Severity

FACTS = ClusterFacts("zk://h/ledgers", ("h:1",), "/ledgers", "flat", "ours", False, None)


def looks(*instances: str | None) -> list[BookieLook]:
    """Return looks at which b1's cookie names these instances, and b2's the cluster's."""
    found = []
    for look, instance in enumerate(instances, start=1):
        records = {"b1": instance, "b2": "ours"}
        found.append({
            bookie: BookieRecord(
                bookie, look, look, Registration.WRITABLE, cookie_created_ms=7,
                cookie_instance_id=named,
            )
            for bookie, named in records.items()
        })  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("instances", "is_found"),
    [
        (["theirs"], True),
        (["theirs", "theirs"], True),
        (["theirs", "others"], True),
        ([None, "theirs"], True),
        (["theirs", "ours"], False),
        (["ours", "theirs"], False),
        (["theirs", None], False),
        ([None, None], False),
        (["ours", "ours"], False),
        ([], False),
    ],
)
def test_each_cookie_that_was_read_names_another_instance(
    instances: list[str | None], is_found: bool
) -> None:
    """Including that of the last look. A cookie that names none is unknown."""
    found = judge_cookies(looks(*instances), FACTS)
    assert [("b1", Severity.WARNING)] * is_found == [(f.bookie_id, f.severity) for f in found]


def test_the_finding_has_both_ids() -> None:
    """A person compares them with what ZooKeeper has."""
    facts = ForeignCookieFacts("writable", "theirs", "ours", 7, 2)
    assert [Finding(Kind.COOKIE_OF_ANOTHER_INSTANCE, facts, bookie_id="b1")] == judge_cookies(
        looks("theirs", "theirs"), FACTS
    )


def test_a_cluster_without_an_instance_id_and_a_bookie_in_maintenance_have_no_finding() -> None:
    """The first is an old cluster; at the second an operator is at work."""
    old = ClusterFacts("zk://h/ledgers", ("h:1",), "/ledgers", "flat", None, False, None)
    assert [] == judge_cookies(looks("theirs"), old)
    assert [] == judge_cookies(looks("theirs"), FACTS, {"b1"})
