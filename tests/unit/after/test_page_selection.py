"""Which findings a page lists, and which it holds in full."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from support.page_stories import every_kind, many

from auditor.after.page.findings_data import choose_in_full, choose_listed, share_fairly


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(0, 200))
def test_shares_are_fair(wanted: list[int], limit: int):
    """All shares together are at most the limit, and none exceeds its group. A group that is not
    taken whole gets as much as any other, or one less.
    """
    shares = share_fairly(wanted, limit)
    assert sum(shares) <= limit and all(
        got <= want for got, want in zip(shares, wanted, strict=True)
    )
    cut = [got for got, want in zip(shares, wanted, strict=True) if got < want]
    assert all(max(shares, default=0) - got <= 1 for got in cut)
    assert not cut or sum(shares) == limit or limit == 0


def test_all_findings_are_listed_in_their_order_below_the_limit():
    """The table has the order of findings.jsonl."""
    findings = every_kind("b")
    assert findings == choose_listed(findings, len(findings))


def test_above_the_limit_each_kind_keeps_its_worst():
    """A kind with many findings leaves room for kinds with few, and keeps its worst findings."""
    crowd = [
        replace(finding, copies=replace(finding.copies, confirmed=n))
        for n, finding in enumerate(many(10, 1))
    ]
    few = every_kind("b")[-1]
    listed = choose_listed([*crowd, few], 4)
    assert [0, 1, 2] == [finding.copies.confirmed for finding in listed[:-1]]
    assert few is listed[-1]


def test_the_worst_of_each_kind_is_held_in_full():
    """A reader of the worst finding of a kind finds its witness."""
    listed = many(40, 4)
    chosen = choose_in_full(listed, 8)
    assert [0, 1, 10, 11, 20, 21, 30, 31] == sorted(chosen)
