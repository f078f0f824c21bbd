"""A lister must say, on each connection, that it speaks for the bookie that is asked about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from support.lanes import BlockingLane
from support.scripted_bookie import (
    INFO,
    LIST,
    READ,
    Connection,
    ScriptedBookie,
    frame,
    info_answer,
    list_answer,
)
from support.scripted_bookie import answer as header_of
from support.virtual_time import VirtualLoop

from auditor.bookie.listers import (
    CONNECT_TIMEOUT_MS,
    NAME_MAX,
    ListerEvidence,
    ListerLane,
    limits_of_lister,
)
from auditor.bookie.questions import Ask, ListQuestion, ReadQuestion
from auditor.config import BookieLimits
from auditor.config.access import BookieAccess, SaslLogin, SecretSource, TlsFiles
from auditor.model.availability import Answer, AnswerStatus, Greeting, MissingLog, ReadStatus
from auditor.wire.bookie_connection import Answered, AnswerTooLarge
from auditor.wire.entry_availability import HEADER_BYTES, encode_runs
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb
from auditor.wire.lister_fields import ListerIdentity, with_identity

MINE = ListerIdentity("b1", "cluster-1")
LIMITS = BookieLimits(
    rpc_timeout_ms=5_000,
    bookie_connect_timeout_ms=2_000,
    bookie_deadline_ms=60_000,
    frame_bytes_max=2**12,
    list_groups_max=3,
)
LOOK, NOW_MS = 2, 1_700_000_000_000


class Lister(ScriptedBookie):
    """Says who it is; each connection may hear something else."""

    def __init__(
        self, *who: ListerIdentity | None, status: int = 0, expected: ListerIdentity = MINE
    ) -> None:
        super().__init__({1: range(10), 2: range(0, 20, 5)}, self.say)
        self.who, self.status, self.expected = who, status, expected

    def say(self, connection: Connection, request: pb.Request) -> bool:
        if request.header.operation != INFO:
            return False
        plain = info_answer(request.header.txnId, self.status)
        who = self.who[min(connection.number, len(self.who)) - 1]
        connection.send(plain if who is None else with_identity(plain, who))
        return True


@contextmanager
def lane_of(
    lister: ScriptedBookie, limits: BookieLimits = LIMITS, expected: ListerIdentity = MINE
) -> Iterator[BlockingLane]:
    with (
        lister,
        BlockingLane(
            ListerLane(expected, ("127.0.0.1", lister.port), limits, LOOK, lambda: NOW_MS)
        ) as lane,
    ):
        yield lane


def lists(lane: BlockingLane, *ledgers: int) -> list[Answer]:
    return lane.lists([ListQuestion(ledger) for ledger in ledgers])


def test_what_its_lister_says_is_the_bookies_answer() -> None:
    """At this look, at this time."""
    with lane_of(Lister(MINE)) as lane:
        (found,) = lists(lane, 1)
        assert ("b1", 1, LOOK, NOW_MS, AnswerStatus.HELD) == (
            found.bookie_id, found.ledger_id, found.look, found.asked_at_ms, found.status,
        )  # fmt: skip
        assert (Greeting.ANSWERED, "") == lane.greeting()


def test_a_list_is_bounded_as_a_bookies_is() -> None:
    """Four groups, where three are accepted."""
    with lane_of(Lister(MINE)) as lane:
        assert [AnswerStatus.HELD, AnswerStatus.INVALID] == [
            one.status for one in lists(lane, 1, 2)
        ]


def test_an_answer_is_bounded_as_a_bookies_is() -> None:
    """Nothing larger is read into memory."""
    lister = Lister(MINE)
    lister.ledgers[1] = bytes(2**13)
    with lane_of(lister) as lane:
        (found,) = lists(lane, 1)
        assert AnswerStatus.TOO_LARGE is found.status
        assert found.detail.endswith("frame_bytes_max accepts 4096")


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        (None, "what answers there is not a lister"),
        (ListerIdentity("b2", "cluster-1"), "it is the lister of bookie b2 in cluster cluster-1"),
        (ListerIdentity("b1", "cluster-2"), "it is the lister of bookie b1 in cluster cluster-2"),
        (ListerIdentity("b1", None), "it is the lister of bookie b1 in cluster without an id"),
        (
            ListerIdentity("b" * (NAME_MAX + 1), "c" * (NAME_MAX + 1)),
            f"it is the lister of bookie {'b' * NAME_MAX} in cluster {'c' * NAME_MAX}",
        ),
    ],
)
def test_a_lister_of_somebody_else_is_refused(who: ListerIdentity | None, reason: str) -> None:
    """The reason has its name, shortened. It is asked for nothing."""
    lister = Lister(who)
    with lane_of(lister) as lane:
        assert (Greeting.REFUSED, reason) == lane.greet()
        assert [AnswerStatus.REFUSED] == [one.status for one in lists(lane, 1)]
    assert [] == lister.asked(LIST)


def test_clusters_without_an_id_are_recognised_by_the_bookie() -> None:
    """Neither side has one: that is no difference."""
    nameless = ListerIdentity("b1", None, 7)
    with lane_of(Lister(nameless), expected=replace(nameless, view_age_ms=None)) as lane:
        assert (Greeting.ANSWERED, "") == lane.greet()


def test_a_lister_whose_bookie_does_not_serve_is_refused() -> None:
    """It says so itself, whoever it is."""
    with lane_of(Lister(MINE, status=pb.EIO)) as lane:
        assert (
            Greeting.REFUSED,
            "EIO: its lister says that the bookie does not serve",
        ) == lane.greet()


def test_a_lister_that_became_another_is_not_believed() -> None:
    """The connection was lost, and at the same address another answers."""
    lister = Lister(MINE, ListerIdentity("b2", "cluster-1"))
    plain = lister.act

    def lose(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation == LIST and connection.number == 1:
            connection.reset()
            return True
        return plain(connection, request)

    lister.act = lose
    with lane_of(lister) as lane:
        assert [AnswerStatus.REFUSED] == [one.status for one in lists(lane, 1)]
        assert Greeting.REFUSED is lane.greeting()[0]


def test_what_is_behind_a_strangers_greeting_in_one_packet_does_not_count() -> None:
    """The conversation is over with the first word of somebody else."""

    def crowd(connection: Connection, request: pb.Request) -> bool:
        stranger = with_identity(
            info_answer(request.header.txnId), ListerIdentity("b2", "cluster-1")
        )
        connection.send(stranger + list_answer(request.header.txnId + 1, 1, None, pb.ENOLEDGER))
        return True

    with lane_of(ScriptedBookie({}, crowd)) as lane:
        assert Greeting.REFUSED is lane.greet()[0]
        assert [AnswerStatus.REFUSED] == [one.status for one in lists(lane, 1)]


def test_a_list_that_stays_away_does_not_make_a_lister_unable() -> None:
    """A lister can list: it is not asked only because of that. The other lists count."""
    lister = Lister(MINE)
    plain = lister.act

    def keep(connection: Connection, request: pb.Request) -> bool:
        is_kept = (
            request.header.operation == LIST
            and request.getListOfEntriesOfLedgerRequest.ledgerId > 10
        )
        return is_kept or plain(connection, request)

    lister.act = keep
    with VirtualLoop(lister) as loop:
        limits = replace(LIMITS, bookie_deadline_ms=600_000)
        lane = ListerLane(MINE, ("b1", 3182), limits, LOOK, lambda: NOW_MS)
        kept = loop.run(lane.lists([ListQuestion(ledger) for ledger in (11, 12, 13, 14)]))
        (found,) = loop.run(lane.lists([ListQuestion(1)]))
        assert not lane.has_late_lists
    assert [AnswerStatus.TIMED_OUT] * 4 == [one.status for one in kept]
    assert AnswerStatus.HELD is found.status


def test_an_error_about_a_list_is_no_error_of_the_greeting() -> None:
    """EIO of one ledger leaves the others."""
    lister = Lister(MINE)
    plain = lister.act

    def fail(connection: Connection, request: pb.Request) -> bool:
        if (
            request.header.operation == LIST
            and request.getListOfEntriesOfLedgerRequest.ledgerId == 9
        ):
            connection.send(list_answer(request.header.txnId, 9, None, pb.EIO))
            return True
        return plain(connection, request)

    lister.act = fail
    with lane_of(lister) as lane:
        assert [AnswerStatus.FAILED, AnswerStatus.HELD] == [one.status for one in lists(lane, 9, 1)]


def test_a_lister_is_connected_once_and_soon() -> None:
    """It is beside the bookie, which was reached; whoever waits less for a bookie waits less for
    its lister.
    """
    far = BookieLimits(
        bookie_connect_attempts=5,
        bookie_connect_timeout_ms=CONNECT_TIMEOUT_MS + 1,
        rpc_timeout_ms=77,
    )
    near = limits_of_lister(far)
    assert (1, CONNECT_TIMEOUT_MS) == (near.bookie_connect_attempts, near.bookie_connect_timeout_ms)
    assert far == replace(
        near,
        bookie_connect_attempts=5,
        bookie_connect_timeout_ms=far.bookie_connect_timeout_ms,
        access=far.access,
    )
    assert (
        5 == limits_of_lister(replace(far, bookie_connect_timeout_ms=5)).bookie_connect_timeout_ms
    )


def test_a_lister_is_asked_with_the_tls_of_listers_and_no_login() -> None:
    """What bookies want is not sent to it: it may be without TLS beside a bookie that has it."""
    bookies, listers = TlsFiles("bookie"), TlsFiles("bookie", ca="ca.pem")
    login = SaslLogin("user", SecretSource("it", "AUDITOR_X"))
    for tls in (None, listers):
        access = limits_of_lister(BookieLimits(access=BookieAccess(bookies, login, tls))).access
        assert (tls, None, "lister") == (access.tls, access.sasl, access.peer)


def test_a_lister_that_is_not_there_is_not_tried_again() -> None:
    """A firewall that drops what goes to its port must not cost more."""
    with ScriptedBookie({}) as bookie:
        port = bookie.port
    with BlockingLane(
        ListerLane(
            MINE,
            ("127.0.0.1", port),
            replace(LIMITS, bookie_connect_attempts=5),
            LOOK,
            lambda: NOW_MS,
        )
    ) as lane:
        greeting, why = lane.greet()
    assert greeting is Greeting.SILENT and why.endswith("(1 attempts)")


def test_a_greeting_of_another_operation_is_left_to_the_conversation() -> None:
    """Only GET_BOOKIE_INFO says who answers."""
    lister = Lister(MINE)
    plain = lister.act

    def chat(connection: Connection, request: pb.Request) -> bool:
        connection.send(frame(header_of(LIST, request.header.txnId + 1_000)))
        return plain(connection, request)

    lister.act = chat
    with lane_of(lister) as lane:
        greeting, why = lane.greet()
        assert "not a lister" not in why and greeting is not Greeting.REFUSED


def missing(**changes: object) -> bytes:
    """What a lister says beside a list: the entry logs that it does not find."""
    return json.dumps(
        {"lister": 1, "missing_logs": [["/l/1.log", 3, [[4, 6]]]], **changes}
    ).encode()


def made(event: Answered | AnswerTooLarge, question: ListQuestion | ReadQuestion) -> object:
    ask = Ask(question)
    ask.requests = 1
    return ListerEvidence("b1", LOOK, 3, 4096, lambda: NOW_MS).from_event(ask, event)


LIST_OF_TEN = encode_runs([(0, 10)])


@pytest.mark.parametrize("extra", [b"", missing()])
def test_a_list_has_the_logs_that_its_lister_does_not_find(extra: bytes) -> None:
    """A list that says nothing beside has none."""
    found = made(Answered(1, LIST, 0, LIST_OF_TEN, 100, False, extra), ListQuestion(7))
    logs = (MissingLog("/l/1.log", 3, ((4, 6),)),) if extra else ()
    assert (
        Answer("b1", 7, LOOK, 0, AnswerStatus.HELD, LIST_OF_TEN[HEADER_BYTES:], "", 1, 0, 100)
    ) == replace(found, missing_logs=())  # type: ignore[type-var]
    assert logs == found.missing_logs  # type: ignore[attr-defined]


def test_a_list_beside_which_something_else_is_said_is_invalid() -> None:
    """With the reason, and without its list; what it cost stays."""
    event = Answered(1, LIST, 0, LIST_OF_TEN, 100, False, missing(lister=2))
    why = "what its lister says beside the list is of another version"
    expected = Answer("b1", 7, LOOK, 0, AnswerStatus.INVALID, b"", why, 1, 0, 100)
    assert expected == made(event, ListQuestion(7))


def test_what_is_no_list_has_no_logs() -> None:
    """Not an error, an answer that is too large, or an entry, whatever is said beside."""
    error = Answered(1, LIST, pb.EIO, b"", 100, False, b"?")
    assert AnswerStatus.FAILED is made(error, ListQuestion(7)).status  # type: ignore[attr-defined]
    large = AnswerTooLarge(1, LIST, 5000, False)
    assert AnswerStatus.TOO_LARGE is made(large, ListQuestion(7)).status  # type: ignore[attr-defined]
    entry = Answered(1, READ, pb.ENOENTRY, b"", 100, False, b"?")
    assert ReadStatus.NO_ENTRY is made(entry, ReadQuestion(7, 1)).status  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("takes_s", "status", "reason"),
    [(64, AnswerStatus.HELD, ""), (100, AnswerStatus.TIMED_OUT, "no answer within 65000 ms")],
)
def test_a_lister_may_be_silent_as_long_as_a_list_may_take(
    takes_s: float, status: AnswerStatus, reason: str
) -> None:
    """Longer than a bookie may, and no longer than was said. That it answers all else gives it no
    more time.
    """
    lister = Lister(MINE)
    plain = lister.act

    def wait(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation != LIST:
            return plain(connection, request)
        connection.later(takes_s, list_answer(request.header.txnId, 1, LIST_OF_TEN))
        return True

    lister.act = wait
    limits = replace(LIMITS, bookie_deadline_ms=600_000, bookie_retries=0)
    with VirtualLoop(lister) as loop:
        lane = ListerLane(MINE, ("b1", 3182), limits, LOOK, lambda: NOW_MS)
        (found,) = loop.run(lane.lists([ListQuestion(1)]))
        assert loop.time() < 66
    assert (status, True) == (found.status, found.detail.startswith(reason))


def test_with_each_list_the_time_of_the_others_starts_anew() -> None:
    """A lister makes them one after another."""
    lister = Lister(MINE)
    plain = lister.act

    def wait(connection: Connection, request: pb.Request) -> bool:
        if request.header.operation != LIST:
            return plain(connection, request)
        ledger = request.getListOfEntriesOfLedgerRequest.ledgerId
        connection.later(60 * ledger, list_answer(request.header.txnId, ledger, LIST_OF_TEN))
        return True

    lister.act = wait
    with VirtualLoop(lister) as loop:
        limits = replace(LIMITS, bookie_deadline_ms=600_000, bookie_retries=0)
        lane = ListerLane(MINE, ("b1", 3182), limits, LOOK, lambda: NOW_MS)
        found = loop.run(lane.lists([ListQuestion(ledger) for ledger in (1, 2, 3)]))
    assert [AnswerStatus.HELD] * 3 == [one.status for one in found]
