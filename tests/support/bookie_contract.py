"""What every bookie under test must do on the wire: each case has an observation and the expected
value.

The cases (`contract_of_ledgers`, `contract_of_connections`) do not know how a bookie is run. They
get a `BookieUnderTest` and a ledger id of their own, and may use the ids after it, up to
`LEDGERS_A_CASE`. An observation is plain data without txnIds, ports or disk sizes, so it can be
compared for equality. Where the two storages rightly differ (a list can lack its last entry, see
IndexInMemPageMgr), there is one expected value for each storage.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from support.raw_bookie import RawBookie, info_request, list_request, read_request, status_name

from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

LEDGERS_A_CASE = 10
"""Ledger ids that a case may use, starting with the one it gets."""

Observation = Any
"""Nested tuples, lists and strings."""


class BookieUnderTest(Protocol):
    """A running bookie of some implementation, with a way to put entries on it."""

    implementation: str
    storage: str
    host: str
    port: int

    def hold(self, ledger_id: int, *runs: tuple[int, int]) -> None:
        """Store these runs (inclusive)."""

    def know_empty(self, ledger_id: int) -> None:
        """Make the ledger known to the bookie without an entry, as fencing does."""


@dataclass(frozen=True)
class Case:
    """One law of the protocol. `expected` is the observation, or a mapping from storage to it."""

    name: str
    observe: Callable[[BookieUnderTest, int], Observation]
    expected: Observation
    number: int

    def expected_of(self, storage: str) -> Observation:
        return self.expected[storage] if isinstance(self.expected, dict) else self.expected

    @property
    def ledger_id(self) -> int:
        """The first of this case's ledger ids. It is the same for every implementation, so that
        frames can be compared.
        """
        return 700_000 + self.number * LEDGERS_A_CASE


CASES: list[Case] = []
"""Every case, in the order in which the modules are imported."""
CASES_RUN: dict[str, set[str]] = {}
"""Names of the cases that passed in this run, by implementation."""


def case(
    expected: Observation,
) -> Callable[[Callable[[BookieUnderTest, int], Observation]], Callable[..., Observation]]:
    """Add the decorated function to `CASES` with the observation it must make."""

    def enter(observe: Callable[[BookieUnderTest, int], Observation]) -> Callable[..., Observation]:
        CASES.append(Case(observe.__name__, observe, expected, len(CASES)))
        return observe

    return enter


def connect(bookie: BookieUnderTest) -> RawBookie:
    """Return a fresh connection, inside TLS if the bookie under test wants it."""
    connection = RawBookie(bookie.host, bookie.port)
    context = getattr(bookie, "context", None)
    if context is not None:
        connection.start_tls(context)
    return connection


def statuses(response: pb.Response, sub_message: str) -> tuple[str, str | None]:
    """Return both statuses of an answer; None where the sub-message is absent."""
    sub = (
        status_name(getattr(response, sub_message).status)
        if response.HasField(sub_message)
        else None
    )
    return status_name(response.status), sub


def groups(response: pb.Response) -> list[tuple[int, int, int, int]] | None:
    """Decode the sequence groups of a list by hand; None if the field is absent."""
    answer = response.getListOfEntriesOfLedgerResponse
    if not answer.HasField("availabilityOfEntriesOfLedger"):
        return None
    payload = answer.availabilityOfEntriesOfLedger
    version, count = struct.unpack_from(">ii", payload)
    assert (version, len(payload), payload[8:64]) == (
        0,
        64 + 24 * count,
        bytes(56),
    ), "a list with another shape"
    return list(struct.iter_unpack(">qqii", payload[64:]))


def listing(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    """Return the statuses, whether the ledger id is echoed, and the groups, of one GET_LIST."""
    with connect(bookie) as connection:
        response = connection.ask(list_request(ledger_id, 1))
    answer = response.getListOfEntriesOfLedgerResponse
    return (
        *statuses(response, "getListOfEntriesOfLedgerResponse"),
        answer.ledgerId == ledger_id,
        groups(response),
    )


def reading(bookie: BookieUnderTest, ledger_id: int, entry_id: int) -> Observation:
    """Return the statuses, whether both ids are echoed, and the ids at the head of the body, of one
    READ_ENTRY.
    """
    with connect(bookie) as connection:
        response = connection.ask(read_request(ledger_id, entry_id, 1))
    answer = response.readResponse
    echoed = (answer.ledgerId, answer.entryId) == (ledger_id, entry_id)
    held = (
        struct.unpack_from(">qq", answer.body)[1]
        if answer.HasField("body") and answer.body
        else None
    )
    return (*statuses(response, "readResponse"), echoed, held)


def closes(bookie: BookieUnderTest, data: bytes) -> str:
    """Return what happens to a connection on which a good request, then `data`, is sent."""
    with connect(bookie) as connection:
        connection.ask(info_request(1, 1))
        with suppress(ConnectionError):
            connection.send_bytes(data)
        return "closed" if connection.is_closed_by_peer() else "answered"


def check(subject: Case, bookie: BookieUnderTest) -> None:
    """Observe one case on one bookie, and count it if it is as expected."""
    expected = subject.expected_of(bookie.storage)
    observed = subject.observe(bookie, subject.ledger_id)
    assert expected == observed, (
        f"{subject.name} on {bookie.implementation}: expected {expected}, observed {observed}"
    )
    CASES_RUN.setdefault(bookie.implementation, set()).add(subject.name)
