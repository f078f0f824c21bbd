"""A lane against a bookie that does everything wrong at random: each question answered once, and no
answer a lie.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from support.lanes import HELD, INVALID, NO_SUCH_LEDGER, ask
from support.scripted_bookie import LIST, Connection, ScriptedBookie, list_answer

from auditor.wire.entry_availability import canonical, encode_periodic, encode_runs, groups_of
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

LEDGERS = 120
HELD_UNTIL = 100


def holding(ledger_id: int) -> list[int]:
    """What the bookie holds of a ledger: a stripe with a hole."""
    return [entry for entry in range(ledger_id) if entry % 3 != ledger_id % 3 and entry != 7]


class Chaos:
    """Each request may be dropped, answered late, twice, with another's id, refused, cut short, or
    with the connection.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.spoiled: set[int] = set()

    def __call__(self, connection: Connection, request: pb.Request) -> bool:
        chance = self.rng.random()
        if request.header.operation != LIST:
            return chance < 0.01
        ledger_id, txn_id = request.getListOfEntriesOfLedgerRequest.ledgerId, request.header.txnId
        right = list_answer(txn_id, ledger_id, encode_runs(holding(ledger_id)))
        if chance < 0.02:
            connection.reset()
        elif chance < 0.03:
            connection.send(right[: self.rng.randrange(len(right))])
            connection.close()
        elif chance < 0.05:
            pass
        elif chance < 0.08:
            connection.later(self.rng.random() / 4, right)
        elif chance < 0.09:
            connection.send(right + right)
        elif chance < 0.10:
            connection.send(
                list_answer(txn_id + self.rng.randint(1, 3), ledger_id, encode_runs([]))
            )
        elif chance < 0.11:
            connection.send(self.rng.randbytes(80))
        elif chance < 0.14:
            connection.send(list_answer(txn_id, ledger_id, None, pb.EIO))
        elif chance < 0.17:
            self.spoiled.add(ledger_id)
            connection.send(list_answer(txn_id, ledger_id, encode_runs(holding(ledger_id))[:-1]))
        elif ledger_id > HELD_UNTIL:
            connection.send(list_answer(txn_id, ledger_id, None, pb.ENOLEDGER))
        else:
            for at in range(0, len(right), 50):
                asyncio.get_running_loop().call_soon(connection.send, right[at : at + 50])
        return True


@pytest.mark.parametrize("seed", range(10))
def test_every_question_is_answered_once_and_no_answer_is_a_lie(seed: int) -> None:
    """Whatever was broken: what is HELD is exactly what is held, what is said not to be there is
    not, the rest is unknown.
    """
    chaos = Chaos(seed)
    with ScriptedBookie(act=chaos) as bookie:
        answers, _ = ask(
            bookie,
            range(1, LEDGERS + 1),
            bookie_inflight=8,
            rpc_timeout_ms=250,
            bookie_deadline_ms=20_000,
        )
    for answer in answers:
        case = f"seed {seed}: {answer}"
        if answer.status is HELD:
            assert (
                canonical(groups_of(encode_periodic(holding(answer.ledger_id))[64:]))
                == answer.groups
            ), case
        elif answer.status is NO_SUCH_LEDGER:
            assert answer.ledger_id > HELD_UNTIL, case
        else:
            assert answer.detail, case
            assert answer.groups == b"", case
        assert (
            answer.status is not INVALID or answer.ledger_id in chaos.spoiled or answer.retries == 3
        ), case
        assert answer.retries == max(0, answer.requests - 1) <= 3, case
