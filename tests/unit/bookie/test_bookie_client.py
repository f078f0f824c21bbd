"""A lane hands on what it was given, and is of no use once it is closed."""

from __future__ import annotations

import pytest
from support.lanes import LIMITS, LOOK, NOW_MS, lane, ledgers, listed
from support.scripted_bookie import Connection, ScriptedBookie
from support.virtual_time import ask_in_virtual_time

from auditor.bookie.exchange import LateLists
from auditor.bookie.lane import AsyncLane
from auditor.config import BookieLimits
from auditor.model.availability import AnswerStatus, Greeting
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb


def never_lists(_: Connection, request: pb.Request) -> bool:
    """GET_BOOKIE_INFO is answered, GET_LIST is not."""
    return listed(request) is not None


@pytest.mark.parametrize(
    ("has_listed", "greeting", "status"),
    [
        (False, Greeting.UNSUPPORTED, AnswerStatus.UNSUPPORTED),
        (True, Greeting.ANSWERED, AnswerStatus.TIMED_OUT),
    ],
)
def test_who_listed_earlier_in_the_run_has_only_timed_out(
    has_listed: bool, greeting: Greeting, status: AnswerStatus
) -> None:
    """Where no list comes in this conversation either way."""
    bookie = ScriptedBookie(ledgers(3), never_lists)
    answers, (found, _) = ask_in_virtual_time(
        bookie, [1, 2, 3], rpc_timeout_ms=250, has_listed=has_listed
    )
    assert (greeting, [status] * 3) == (found, [one.status for one in answers])


def test_late_lists_have_the_time_out_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """In seconds."""
    given: list[object] = []
    monkeypatch.setattr(
        "auditor.bookie.lane.LateLists",
        lambda *these: (given.append(these[3]), LateLists(*these))[1],
    )
    limits = BookieLimits(**{**LIMITS, "rpc_timeout_ms": 250})  # type: ignore[arg-type]
    AsyncLane("b1:3181", "h", 1, limits, LOOK, lambda: NOW_MS)
    assert [0.25] == given


@pytest.mark.filterwarnings("ignore:coroutine 'AsyncLane.greet' was never awaited")
def test_a_lane_that_was_closed_cannot_be_asked() -> None:
    """Its event loop is closed with it, however often it is closed."""
    with ScriptedBookie(ledgers(1)) as bookie:
        with lane(bookie) as asker:
            asker.greet()
        asker.close()
        with pytest.raises(RuntimeError, match="closed"):
            asker.greet()
