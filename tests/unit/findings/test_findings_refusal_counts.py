"""Which bookies answered every request with an error status."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from auditor.findings.bookies import LEDGERS_NAMED_MAX
from auditor.findings.failing_requests import REQUESTED, Refusals, refusals
from auditor.model.availability import NOT_ADMITTED

EIO = "EIO: the bookie's storage failed"
EUA = "EUA: the bookie does not let this client ask (not authorised)"


def rows(*cells: tuple[Any, ...]) -> pa.Table:
    """Return rows of requests from (bookie, ledger, look, status[, detail])."""
    padded = [(*one, EIO if one[3] in ("refused", "failed") else "")[:5] for one in cells]
    columns = list(zip(*padded, strict=True)) or [()] * 5
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, REQUESTED, strict=True)],
        schema=REQUESTED,
    )


def lists(
    status: str = "refused", ledgers: range = range(1, 4), looks: tuple[int, ...] = (1, 2)
) -> list[tuple[Any, ...]]:
    return [("b1", ledger, look, status) for ledger in ledgers for look in looks]


def test_every_request_refused_is_counted_by_its_status():
    """Lists and reads are counted, the most frequent status first. A greeting is not a request. The
    bookie's own failures count like its refusals.
    """
    answers = rows(*lists("failed"), ("b1", 9, 1, "refused", EUA), ("b1", None, 1, "answered"))
    found = refusals(answers, rows(("b1", 1, 1, "failed"), ("b1", 2, 1, "refused", EUA)))
    assert {"b1": Refusals(3, (1, 2, 3), 7, 2, (("EIO", 7), ("EUA", 2)))} == found


@pytest.mark.parametrize(
    "status", ["held", "no_such_ledger", "timed_out", "silent", "invalid", "too_large"]
)
def test_a_bookie_with_one_list_that_ended_otherwise_does_not_fail(status: str):
    """A valid answer shows that it serves. A silence, a time-out or an undecodable answer is not an
    error status.
    """
    assert {} == refusals(rows(*lists(), ("b1", 9, 1, status)), rows())


@pytest.mark.parametrize("status", ["present", "no_entry", "no_ledger", "corrupt", "timed_out"])
def test_a_bookie_with_one_read_that_ended_otherwise_does_not_fail(status: str):
    """A read of a ledger that it was not asked to list does not count."""
    assert {} == refusals(rows(*lists()), rows(("b1", 1, 1, status)))
    assert {"b1"} == refusals(rows(*lists()), rows(("b1", 77, 1, status))).keys()


def test_a_bookie_that_did_not_admit_us_was_asked_nothing():
    """A wrong certificate or password of ours is not a fault of the bookie."""
    refused = f"{NOT_ADMITTED}the bookie offers no TLS"
    unasked = [
        ("b1", ledger, look, "refused", refused) for ledger in range(1, 4) for look in (1, 2)
    ]
    assert {} == refusals(rows(*unasked), rows())
    assert {} == refusals(rows(*lists(), unasked[0]), rows())
    assert {} == refusals(rows(*lists()), rows(unasked[0]))


def test_a_bookie_that_cannot_list_is_counted_by_its_reads():
    """A list that it does not support is not a refusal."""
    unable = rows(*lists("unsupported"))
    reads = rows(*lists())
    assert {"b1": Refusals(3, (1, 2, 3), 0, 6, (("EIO", 6),))} == refusals(unable, reads)
    assert {} == refusals(unable, rows(*lists(), ("b1", 1, 1, "present")))


def test_only_ledgers_refused_at_two_looks_count():
    """A refusal at one look accuses no bookie."""
    found = refusals(rows(*lists(looks=(1,)), *lists(ledgers=range(2, 3), looks=(2, 3))), rows())
    assert (1, (2,), 5) == (found["b1"].ledgers, found["b1"].some, found["b1"].lists)


def test_few_ledgers_are_named():
    """All refused ledgers are counted."""
    found = refusals(rows(*lists(ledgers=range(1, 100))), rows())["b1"]
    assert (99, tuple(range(1, LEDGERS_NAMED_MAX + 1))) == (found.ledgers, found.some)


def test_statuses_come_with_the_most_frequent_first():
    """Statuses with equal counts are sorted by name. The name ends before the first colon."""
    details = ["EUA: a", "EIO: x", "EBUSY: a: b: c", "EUA: d"]
    found = refusals(
        rows(*(("b1", n, 1, "refused", detail) for n, detail in enumerate(details))), rows()
    )
    assert (("EUA", 2), ("EBUSY", 1), ("EIO", 1)) == found["b1"].statuses
