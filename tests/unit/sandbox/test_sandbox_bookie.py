"""The sandbox's bookies on the wire: the contract that real bookies keep, and the faults that can
be set.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from support import contract_of_connections, contract_of_ledgers
from support.bookie_contract import CASES, Case
from support.raw_bookie import (
    BookieClosedConnection,
    RawBookie,
    add_request,
    entry_body,
    info_request,
    list_request,
    master_key,
    read_request,
    status_name,
)

from auditor.model.availability import SequenceGroup
from auditor.model.ledger import DigestType
from auditor.sandbox.bookie import Behaviour, Bookie, LedgerFault, ListForm, Storage
from auditor.sandbox.listener import Listener, LoopThread
from auditor.wire.bookie_server import Operation
from auditor.wire.digest import BodyCheck, check_body
from auditor.wire.entry_availability import encode_runs, groups_of
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

CASE_MODULES = (contract_of_connections, contract_of_ledgers)
"""Modules whose import adds their cases to CASES."""
SILENCE_S = 0.3
"""Seconds without an answer that count as "never answered". Other requests are answered within a
millisecond.
"""


@contextmanager
def listening(bookie: Bookie) -> Iterator[Listener]:
    loop = LoopThread("bookie")
    listener = Listener(bookie)
    loop.call(listener.start())
    try:
        yield listener
    finally:
        loop.call(listener.stop())
        loop.stop()


@contextmanager
def connected(bookie: Bookie) -> Iterator[RawBookie]:
    with listening(bookie) as listener, RawBookie("127.0.0.1", listener.port) as connection:
        yield connection


def payload(answer: pb.Response) -> bytes:
    return answer.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger


@dataclass(frozen=True)
class Subject:
    """A sandbox bookie as the contract suite uses it. Entries come over the wire, or the bookie is
    set to hold them.
    """

    implementation: str
    storage: str
    host: str
    port: int
    bookie: Bookie
    over_the_wire: bool

    def hold(self, ledger_id: int, *runs: tuple[int, int]) -> None:
        if not self.over_the_wire:
            # The contract reads back the same bodies that it writes over the wire.
            self.bookie.hold(ledger_id, runs)
            for first, last in runs:
                for entry_id in {first, last}:
                    self.bookie.holding(ledger_id).store(entry_id, entry_body(ledger_id, entry_id))
            return
        with RawBookie(self.host, self.port) as connection:
            connection.add(ledger_id, runs)

    def know_empty(self, ledger_id: int) -> None:
        if not self.over_the_wire:
            self.bookie.hold(ledger_id, ())
            return
        with RawBookie(self.host, self.port) as connection:
            assert connection.fence(ledger_id) == "ENOENTRY"


@pytest.fixture(
    scope="module",
    params=[(Storage.SORTED, True), (Storage.INTERLEAVED, True), (Storage.SORTED, False)],
    ids=str,
)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    storage, over_the_wire = request.param
    bookie = Bookie(Behaviour(storage=storage))
    with listening(bookie) as listener:
        yield Subject(
            f"sandbox-{storage}", storage, "127.0.0.1", listener.port, bookie, over_the_wire
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_sandbox_bookie_keeps_the_contract_of_real_ones(case: Case, subject: Subject) -> None:
    """A sandbox bookie does what the contract expects of a real one."""
    assert case.expected_of(subject.storage) == case.observe(subject, case.ledger_id)


def test_db_storage_answers_everything_but_the_list_of_a_ledger_that_it_holds() -> None:
    """Like DbLedgerStorage: info, reads and ENOLEDGER are answered on the same connection, the list
    of a held ledger is not.
    """
    bookie = Bookie(Behaviour(storage=Storage.DB))
    bookie.hold(7, [(0, 9)])
    with connected(bookie) as connection:
        connection.send(
            list_request(7, 1), list_request(8, 2), info_request(3, 3), read_request(7, 9, 4)
        )
        answers = {
            a.header.txnId: status_name(a.status) for a in (connection.receive() for _ in range(3))
        }
        assert answers == {2: "ENOLEDGER", 3: "EOK", 4: "EOK"}
        connection.wait_at_most(SILENCE_S)
        with pytest.raises(TimeoutError):
            connection.receive()


@pytest.mark.parametrize(
    ("storage", "expected"), [(Storage.SORTED, []), (Storage.DB, ["ENOENTRY"])]
)
def test_read_below_minus_one_is_answered_by_db_storage_alone(
    storage: Storage, expected: list[str]
) -> None:
    """Sorted storage never answers entry -2, DbLedgerStorage says ENOENTRY."""
    bookie = Bookie(Behaviour(storage=storage))
    bookie.hold(7, [(0, 9)])
    with connected(bookie) as connection:
        connection.send(read_request(7, -2, 1), info_request(1, 2))
        answers = [connection.receive() for _ in range(len(expected) + 1)]
        assert expected == [
            status_name(answer.status) for answer in answers if answer.header.txnId == 1
        ]


def test_refusing_bookie_says_eua_to_everything() -> None:
    """EUA without a sub-message, and the connection stays."""
    bookie = Bookie(Behaviour(refuses=True))
    bookie.hold(7, [(0, 9)])
    with connected(bookie) as connection:
        for message in (list_request(7, 1), read_request(7, 0, 2), info_request(3, 3)):
            answer = connection.ask(message)
            assert status_name(answer.status) == "EUA"
            assert not answer.HasField("getListOfEntriesOfLedgerResponse")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [(LedgerFault.EIO, "EIO"), (LedgerFault.UNKNOWN_LEDGER_STATE, "EUNKNOWNLEDGERSTATE")],
)
def test_ledger_in_trouble_answers_its_status_to_lists_and_reads(
    fault: LedgerFault, expected: str
) -> None:
    """Only this ledger has the fault. Requests for another ledger are answered."""
    bookie = Bookie()
    for ledger_id in (7, 8):
        bookie.hold(ledger_id, [(0, 9)])
    bookie.faults[7] = fault
    with connected(bookie) as connection:
        asked = [list_request(7, 1), read_request(7, 0, 2), list_request(8, 3)]
        assert [expected, expected, "EOK"] == [
            status_name(connection.ask(message).status) for message in asked
        ]


def test_one_ledger_can_stay_without_an_answer() -> None:
    """Requests for this ledger are never answered. Requests for others are."""
    bookie = Bookie()
    bookie.hold(8, [(0, 9)])
    bookie.faults[7] = LedgerFault.NEVER_ANSWERED
    with connected(bookie) as connection:
        connection.send(list_request(7, 1), read_request(7, 0, 2), list_request(8, 3))
        assert connection.receive().header.txnId == 3
        connection.wait_at_most(SILENCE_S)
        with pytest.raises(TimeoutError):
            connection.receive()


def test_last_entry_can_be_left_out_of_the_list_and_read() -> None:
    """The defect of lists that lack their last entry can be set for a ledger."""
    bookie = Bookie()
    bookie.hold(7, [(0, 2), (4, 4)])
    bookie.faults[7] = LedgerFault.LAST_ENTRY_UNLISTED
    with connected(bookie) as connection:
        assert encode_runs([0, 1, 2]) == payload(connection.ask(list_request(7, 1)))
        assert status_name(connection.ask(read_request(7, 4, 2)).status) == "EOK"


def test_list_cut_short_announces_more_than_it_has() -> None:
    """No decoder may accept this list."""
    bookie = Bookie()
    bookie.hold(7, [(0, 2)])
    bookie.faults[7] = LedgerFault.LIST_CUT_SHORT
    with connected(bookie) as connection:
        cut = payload(connection.ask(list_request(7, 1)))
    assert (struct.unpack_from(">i", cut, 4)[0], len(cut)) == (2, 64 + 24)


def test_a_list_out_of_order_names_a_group_twice() -> None:
    """Each group is valid, and their number is right."""
    bookie = Bookie()
    bookie.hold(7, [(0, 2), (5, 5)])
    bookie.faults[7] = LedgerFault.LIST_OUT_OF_ORDER
    with connected(bookie) as connection:
        odd = payload(connection.ask(list_request(7, 1)))
    first, last = (0, 0, 3, 0), (5, 5, 1, 0)
    assert 3 == struct.unpack_from(">i", odd, 4)[0]
    assert [first, last, first] == list(struct.iter_unpack(">qqii", odd[64:]))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, BodyCheck.OK),
        (LedgerFault.WRONG_DIGEST, BodyCheck.WRONG_DIGEST),
        (LedgerFault.WRONG_IDS, BodyCheck.WRONG_IDS),
    ],
)
def test_bodies_made_on_demand_are_right_by_default(
    fault: LedgerFault | None, expected: BodyCheck
) -> None:
    """An entry that was never stored reads back with its ids and digest, or with the fault that was
    set.
    """
    bookie = Bookie()
    bookie.hold(7, [(0, 10**9)])
    if fault is not None:
        bookie.faults[7] = fault
    with connected(bookie) as connection:
        body = connection.ask(read_request(7, 10**9 - 1, 1)).readResponse.body
    assert expected is check_body(body, 7, 10**9 - 1, DigestType.CRC32C, None)


@pytest.mark.parametrize("stored", ["not held", "made on demand", "sent by a client"])
def test_one_entry_can_be_corrupt(stored: str) -> None:
    """It is listed, and reads back with the right ids and a digest that does not match. The entries
    around it are unchanged.
    """
    bookie = Bookie()
    bookie.hold(7, [(0, 3), (5, 9)] if stored == "not held" else [(0, 9)])
    with connected(bookie) as connection:
        if stored == "sent by a client":
            connection.add(7, [(4, 4)])
        bookie.corrupt(7, 4)
        bodies = [
            connection.ask(read_request(7, entry, entry + 1)).readResponse.body
            for entry in (3, 4, 5)
        ]
        listed = payload(connection.ask(list_request(7, 20)))
    checks = [
        check_body(body, 7, entry, DigestType.CRC32C, None)
        for entry, body in zip((3, 4, 5), bodies, strict=True)
    ]
    assert [BodyCheck.OK, BodyCheck.WRONG_DIGEST, BodyCheck.OK] == checks
    assert encode_runs(range(10)) == listed


def test_list_can_be_periodic() -> None:
    """A periodic group, as in BP-34, has 200 million entries in 24 bytes. A bookie that lists by
    runs refuses to hold it.
    """
    stripe = SequenceGroup(2, 2 + 3 * 10**8, 2, 3)
    bookie = Bookie(Behaviour(list_form=ListForm.PERIODIC))
    bookie.hold(7, [stripe])
    with connected(bookie) as connection:
        assert groups_of(payload(connection.ask(list_request(7, 1)))[64:]) == (stripe,)
    with pytest.raises(ValueError, match="PERIODIC"):
        Bookie().hold(7, [stripe])


def test_busy_bookie_turns_reads_away_and_recovers() -> None:
    """The first reads, as many as set, get ETOOMANYREQUESTS. Later reads are answered."""
    bookie = Bookie(Behaviour(busy_reads=2))
    bookie.hold(7, [(0, 9)])
    with connected(bookie) as connection:
        said = [status_name(connection.ask(read_request(7, 0, n)).status) for n in range(1, 4)]
    assert said == ["ETOOMANYREQUESTS", "ETOOMANYREQUESTS", "EOK"]


def test_too_many_lists_at_once_close_the_connection() -> None:
    """With one list more than the read queue takes, the connection closes and every outstanding
    request is lost.
    """
    bookie = Bookie(Behaviour(lists_outstanding_max=4))
    with listening(bookie) as listener:
        with RawBookie("127.0.0.1", listener.port) as connection:
            assert len(connection.ask_all([list_request(7, n) for n in range(4)])) == 4
            connection.send(*[list_request(7, n) for n in range(5)])
            assert connection.is_closed_by_peer()
        with RawBookie("127.0.0.1", listener.port) as connection:
            assert status_name(connection.ask(list_request(7, 1)).status) == "ENOLEDGER"
        assert (listener.connections_made, listener.connections_open_max) == (2, 1)


def test_connection_closed_amid_an_answer() -> None:
    """The client gets half a frame, then the connection ends."""
    bookie = Bookie(Behaviour(closes_mid_answer=True))
    with connected(bookie) as connection:
        connection.send(info_request(3, 1))
        with pytest.raises(BookieClosedConnection):
            connection.receive()


def test_connection_can_be_closed_after_some_answers() -> None:
    """The connection ends after the number of answers that was set."""
    with connected(Bookie(Behaviour(answers_per_connection_max=2))) as connection:
        connection.send(*[info_request(3, n) for n in range(5)])
        assert {connection.receive().header.txnId, connection.receive().header.txnId} <= set(
            range(5)
        )
        assert connection.is_closed_by_peer()


def test_silent_bookie_accepts_and_says_nothing() -> None:
    """The connection stays open, and no request is answered. Once the fault is healed, requests are
    answered.
    """
    bookie = Bookie(Behaviour(silent=True))
    with connected(bookie) as connection:
        connection.send(info_request(3, 1))
        connection.wait_at_most(SILENCE_S)
        with pytest.raises(TimeoutError):
            connection.receive()
        bookie.behaviour.silent = False
    with connected(bookie) as connection:
        assert status_name(connection.ask(info_request(3, 2)).status) == "EOK"


def test_questions_that_come_together_are_answered_in_another_order() -> None:
    """A client must not rely on the order of answers."""
    with connected(Bookie()) as connection:
        connection.send(*[info_request(3, n) for n in range(50)])
        order = [connection.receive().header.txnId for _ in range(50)]
    assert list(range(50)) == sorted(order)
    assert list(range(50)) != order


def test_stopped_listener_resets_and_comes_back_on_its_port() -> None:
    """A stopped listener ends its connections, accepts none, and keeps its port from others.
    Started again, it has the same port and ledgers.
    """
    bookie = Bookie()
    bookie.hold(7, [(0, 9)])
    loop, listener = LoopThread("bookie"), Listener(bookie)
    try:
        loop.call(listener.start())
        port = listener.port
        with RawBookie("127.0.0.1", port) as connection:
            connection.ask(info_request(3, 1))
            loop.call(listener.stop(keeps_port=True))
            assert connection.is_closed_by_peer()
        with pytest.raises(ConnectionRefusedError):
            RawBookie("127.0.0.1", port)
        with socket.socket() as another, pytest.raises(OSError, match="in use"):
            another.bind(("127.0.0.1", port))
        loop.call(listener.start())
        with RawBookie("127.0.0.1", port) as connection:
            assert status_name(connection.ask(list_request(7, 1)).status) == "EOK"
    finally:
        loop.call(listener.stop())
        loop.stop()


def test_wiped_and_forgotten_ledgers_leave_no_trace() -> None:
    """A forgotten ledger is ENOLEDGER. A wiped bookie holds no ledger, and no entry that a client
    stored.
    """
    bookie = Bookie()
    for ledger_id in (7, 8, 9):
        bookie.hold(ledger_id, [(0, 9)])
    with connected(bookie) as connection:
        assert (
            status_name(
                connection.ask(add_request(9, 10, entry_body(9, 10), master_key(), 1)).status
            )
            == "EOK"
        )
        bookie.forget(7)
        assert [status_name(connection.ask(list_request(n, n)).status) for n in (7, 8)] == [
            "ENOLEDGER",
            "EOK",
        ]
        bookie.wipe()
        assert [status_name(connection.ask(list_request(n, n)).status) for n in (8, 9)] == [
            "ENOLEDGER"
        ] * 2


def test_read_only_bookie_takes_no_entries() -> None:
    """A write gets EREADONLY, and reads are answered."""
    bookie = Bookie(Behaviour(read_only=True))
    bookie.hold(7, [(0, 9)])
    with connected(bookie) as connection:
        assert (
            status_name(
                connection.ask(add_request(7, 10, entry_body(7, 10), master_key(), 1)).status
            )
            == "EREADONLY"
        )
        assert status_name(connection.ask(read_request(7, 9, 2)).status) == "EOK"


def test_bookie_remembers_what_it_was_asked() -> None:
    """It counts operations and lists by ledger, and remembers which ledgers were fenced. Tests of
    clients use this.
    """
    bookie = Bookie()
    bookie.hold(7, [(0, 9)])
    with connected(bookie) as connection:
        connection.ask_all(
            [list_request(7, 1), list_request(7, 2), list_request(8, 3), read_request(7, 0, 4)]
        )
        assert dict(bookie.operations) == {
            Operation.GET_LIST_OF_ENTRIES_OF_LEDGER: 3,
            Operation.READ_ENTRY: 1,
        }
        assert dict(bookie.asked) == {7: 2, 8: 1}
        assert bookie.fenced == frozenset()
        connection.fence(7)
        assert bookie.fenced == {7}


def test_large_lists_wait_until_the_client_reads() -> None:
    """A client that sends many requests and reads late gets every answer whole."""
    bookie = Bookie()
    bookie.hold(7, [(entry_id, entry_id) for entry_id in range(0, 60_000, 2)])
    with connected(bookie) as connection:
        connection.send(*[list_request(7, n) for n in range(40)])
        sizes = [len(payload(connection.receive())) for _ in range(40)]
    assert sizes == [64 + 24 * 30_000] * 40
