"""Laws of BOOKIE_UNREADABLE_ENTRIES."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import pytest

from auditor.findings.unreadable_entries import (
    Reading,
    judge_unreadable,
    least_share,
    unreadable_of,
)
from auditor.model.availability import Greeting, ReadStatus
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.finding import Kind

EIO = (ReadStatus.FAILED, "EIO: the bookie's storage failed")
WRONG = (ReadStatus.CORRUPT, "")
SENT = (ReadStatus.PRESENT, "")
DENIED = (ReadStatus.NO_ENTRY, "")
SILENT = (ReadStatus.SILENT, "")
REFUSED = (ReadStatus.REFUSED, "EUA")


def reading(*words: tuple[ReadStatus, str], ledger: int = 7, entry: int = 0) -> Reading:
    return Reading(ledger, entry, words, is_spot=True)


@pytest.mark.parametrize(
    "words",
    [(EIO, EIO), (WRONG, WRONG), (EIO, WRONG), (EIO, SILENT, EIO), (SENT, EIO, EIO)],
    ids=str,
)
def test_a_copy_that_fails_at_two_looks_is_found(words: tuple[tuple[ReadStatus, str], ...]) -> None:
    """Looks at which nobody answered do not count in between."""
    found = unreadable_of([reading(*words)])
    assert found is not None and (1, 1) == (found.failed, found.read)


@pytest.mark.parametrize(
    "words",
    [(EIO,), (EIO, SENT), (EIO, DENIED), (EIO, SILENT), (SILENT, SILENT), (REFUSED, REFUSED)],
    ids=str,
)
def test_a_copy_that_fails_at_one_look_is_not(words: tuple[tuple[ReadStatus, str], ...]) -> None:
    """Nor is one that was refused or not answered, however often."""
    assert unreadable_of([reading(*words)]) is None


def test_what_failed_once_counts_beside_what_failed_twice_in_its_ledger() -> None:
    """Not every copy is read twice. Another ledger may have been deleted after the first look."""
    found = unreadable_of(
        [
            reading(EIO, EIO, entry=0),
            reading(EIO, entry=1),
            reading(SENT, entry=2),
            reading(EIO, ledger=8),
            reading(SILENT, ledger=9),
        ]
    )
    assert found is not None
    assert (2, 4, 1, ((7, 0), (7, 1))) == (found.failed, found.read, found.ledgers, found.some)
    assert (("EIO", 2),) == found.statuses


def test_the_share_is_that_of_a_sample_of_the_whole_cluster() -> None:
    """A run of named ledgers, and reads that were not drawn, prove no share."""
    b1 = BookieRecord("b1", 1, 0, Registration.WRITABLE, "h", 1, greeting=Greeting.ANSWERED)
    looks = [{"b1": b1}, {"b1": replace(b1, look=2)}]
    drawn = unreadable_of([reading(EIO, EIO), reading(SENT, entry=1)])
    other = unreadable_of([Reading(7, 0, (EIO, EIO), is_spot=False)])
    assert drawn is not None and other is not None
    shares = []
    for one, is_partial in ((drawn, False), (drawn, True), (other, False)):
        (finding,) = judge_unreadable(looks, {"b1": one}, is_partial=is_partial)
        assert Kind.BOOKIE_UNREADABLE_ENTRIES is finding.kind
        shares.append(finding.facts.share_min)  # type: ignore[union-attr]
    assert [least_share(1, 2), None, None] == shares
    assert [] == judge_unreadable(looks, {"b1": drawn}, frozenset({"b1"}))


@pytest.mark.parametrize("why", ["is_denser", "is_named"])
def test_reads_with_a_reason_count_and_prove_no_share(why: str) -> None:
    """The bookie was in doubt, or a scrub named them: only what was drawn before is a sample."""
    flags = {"is_spot": True, why: True}
    denser = [Reading(7, entry, (EIO, EIO), **flags) for entry in range(5, 10)]
    found = unreadable_of([reading(EIO, EIO), reading(SENT, entry=1), *denser])
    assert found is not None
    assert (6, 7, 1, 2) == (found.failed, found.read, found.sample_failed, found.sample_read)
    b1 = BookieRecord("b1", 1, 0, Registration.WRITABLE, "h", 1, greeting=Greeting.ANSWERED)
    (finding,) = judge_unreadable([{"b1": b1}], {"b1": found})
    assert least_share(1, 2) == finding.facts.share_min  # type: ignore[union-attr]
    only_denser = unreadable_of(denser)
    assert only_denser is not None
    (finding,) = judge_unreadable([{"b1": b1}], {"b1": only_denser})
    assert finding.facts.share_min is None  # type: ignore[union-attr]


@pytest.mark.parametrize("read", [1, 2, 10, 137, 500])
def test_the_least_share_is_where_such_a_result_becomes_improbable(read: int) -> None:
    """At the share, so many failures or more have a probability of 5 %; rounded down."""
    for failed in {1, read // 2 or 1, read}:
        share = least_share(failed, read)

        def tail(p: float, failed: int = failed) -> float:
            counts = range(failed, read + 1)
            return sum(comb(read, k) * p**k * (1 - p) ** (read - k) for k in counts)

        assert tail(share) <= 0.05 + 1e-9 <= tail(share + 2e-6) + 1e-4


def test_nothing_failed_proves_nothing() -> None:
    """The share may be as low as 0."""
    assert 0.0 == least_share(0, 500)
