"""A lister on the wire: what it answers, what it never answers, and when it says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.bookie_contract import connect, groups, listing, reading, statuses
from support.contract_of_listers import CASES_OF_LISTERS, REFUSED, check_lister
from support.listers import INSTANCE, ListerUnderTest, lister_in_process
from support.raw_bookie import (
    add_request,
    entry_body,
    info_request,
    list_request,
    master_key,
    status_name,
)

from auditor.lister import serving
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.serving import check_cookie
from auditor.sandbox.listener import HOST
from auditor.wire.lister_fields import decode_identity
from auditor.wire.protobuf_forms import LISTER_FIELD, unknown_bytes


@pytest.fixture(scope="module")
def lister(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ListerUnderTest]:
    with lister_in_process(tmp_path_factory.mktemp("lister")) as lister:
        yield lister


@pytest.mark.parametrize("name", CASES_OF_LISTERS)
def test_a_lister_keeps_the_contract_of_bookies(lister: ListerUnderTest, name: str) -> None:
    """Where SortedLedgerStorage answers, a lister answers the same."""
    check_lister(name, lister)


def test_it_says_whose_index_it_reads(lister: ListerUnderTest) -> None:
    """In a field that BookKeeper's own clients skip."""
    with connect(lister) as connection:
        response = connection.ask(info_request(3, 1))
    identity = decode_identity(unknown_bytes(response, LISTER_FIELD))
    assert identity is not None
    assert (lister.bookie_id, INSTANCE) == (identity.bookie_id, identity.instance_id)


def test_it_neither_reads_nor_adds_entries(lister: ListerUnderTest) -> None:
    """Both are bad requests, and the connection stays usable."""
    lister.hold(50, (0, 9))
    assert ("EBADREQ", "EBADREQ", True, None) == reading(lister, 50, 0)
    with connect(lister) as connection:
        added = connection.ask(add_request(50, 10, entry_body(50, 10), master_key(), 1))
        listed = connection.ask(list_request(50, 2))
    assert ("EBADREQ", "EBADREQ") == statuses(added, "addResponse")
    assert [(0, 0, 10, 0)] == groups(listed)


def test_requests_that_come_together_are_all_answered(lister: ListerUnderTest) -> None:
    """More than are in work at once, some of them for one ledger."""
    lister.hold(60, (0, 4))
    with connect(lister) as connection:
        connection.send(*(list_request(60 + number % 2, number) for number in range(300)))
        answers = [connection.receive() for _ in range(300)]
    assert {number: ([(0, 0, 5, 0)], [])[number % 2] for number in range(300)} == {
        answer.header.txnId: groups(answer) for answer in answers
    }


def test_nothing_is_said_while_the_bookie_does_not_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its index is short until the journal is replayed: EIO, and no identity; lists again once it
    serves.
    """
    monkeypatch.setattr(serving, "CHECK_AGE_S", -1.0)
    with lister_in_process(tmp_path) as lister:
        lister.hold(7, (0, 9))
        assert ("EOK", "EOK", True, [(0, 0, 10, 0)]) == listing(lister, 7)
        lister.thread.call(lister.bookie_listener.stop(keeps_port=True))
        assert REFUSED == listing(lister, 7)
        with connect(lister) as connection:
            response = connection.ask(info_request(3, 1))
        assert ("EIO", b"") == (status_name(response.status), unknown_bytes(response, LISTER_FIELD))
        lister.thread.call(lister.bookie_listener.start())
        assert ("EOK", "EOK", True, [(0, 0, 10, 0)]) == listing(lister, 7)


def test_what_is_answered_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP, as Prometheus reads it; ends with the lister."""
    monkeypatch.setattr(serving, "CHECK_AGE_S", -1.0)
    with lister_in_process(tmp_path) as lister:
        port, stop = lister.metrics.serve(HOST, 0)
        lister.hold(7, (0, 9))
        lister.index.put(8, range(5), log=3)
        (lister.index.logs / "3.log").unlink()
        lister.index.put_raw(bytes(7) + b"\x09" + bytes(9), bytes(8))
        answers = [listing(lister, ledger_id) for ledger_id in (7, 8, 9)]
        assert ["EOK", "EOK", "EIO"] == [answer[0] for answer in answers]
        kill_reader(lister)
        assert REFUSED == listing(lister, 7)
        lister.thread.call(lister.bookie_listener.stop(keeps_port=True))
        assert REFUSED == listing(lister, 7)
        try:
            with urlopen(f"http://{HOST}:{port}/metrics") as response:
                said = samples(response.read().decode())
        finally:
            stop()
    expected = {
        "lists_total listed": 2, "lists_total in_doubt": 2, "lists_total not_serving": 1,
        "entries_left_out_total": 5, "readers_lost_total": 1, "bookie_serves": 0,
        "connections_refused_total": 0,
        "view_age_seconds": -1, "build_info": 1,
    }  # fmt: skip
    assert expected == {name: said[name] for name in expected}
    assert said["keys_total"] >= 15


def samples(text: str) -> dict[str, float]:
    """The metrics of a lister by name without its prefix, and outcome; each has the bookie's id."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert "b1" == sample.labels["bookie"]
            name = (
                f"{sample.name.removeprefix('bookkeeper_lister_')}"
                f" {sample.labels.get('outcome', '')}"
            )
            found[name.strip()] = sample.value
    return found


def test_many_clients_together_greet_the_bookie_once(tmp_path: Path) -> None:
    """The check of the first holds for all of them."""
    with lister_in_process(tmp_path) as lister:
        directories = (lister.index.directory,)
        configured = BookieConfiguration(directories, directories)
        check = serving.ServingCheck(
            (HOST, lister.bookie_listener.port), configured, check_cookie(configured)
        )

        async def ask() -> list[str]:
            return await asyncio.gather(*(check.problem() for _ in range(8)))

        assert [""] * 8 == lister.thread.call(ask())
        assert {8: 1} == lister.bookie.operations


def kill_reader(lister: ListerUnderTest) -> None:
    process = lister.reader._process
    assert process is not None
    process.kill()
    process.wait()


def test_a_reader_that_cannot_be_started_is_eio(tmp_path: Path) -> None:
    """The connection stays usable, and the age of a view that is gone is not given."""
    with lister_in_process(tmp_path) as lister:
        lister.hold(7, (0, 9))
        assert ("EOK", "EOK", True, [(0, 0, 10, 0)]) == listing(lister, 7)
        kill_reader(lister)
        assert REFUSED == listing(lister, 7)
        command, lister.reader._command = lister.reader._command, [str(tmp_path / "nowhere")]
        assert REFUSED == listing(lister, 7)
        assert lister.reader.view_age_ms is None
        lister.reader._command = command
        assert ("EOK", "EOK", True, [(0, 0, 10, 0)]) == listing(lister, 7)


def test_its_end_is_no_error_of_its_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that is still there is hung up on, and nothing is logged as unforeseen."""
    with lister_in_process(tmp_path) as lister, connect(lister) as connection:
        assert "EOK" == status_name(connection.ask(info_request(1, 1)).status)
        lister.thread.call(lister.server.stop())
        assert connection.is_closed_by_peer()
    assert [] == [record.getMessage() for record in caplog.records if record.name == "asyncio"]
