"""The ledgers that have an index file, as a bookie that lists itself names them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import structlog

from auditor import __version__
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.index_file_names import page_of_files
from auditor.lister.server import ListerServer, ServerLimits
from auditor.lister.serving import Cookie
from auditor.telemetry.lister_metrics import ListerMetrics
from auditor.wire.bookie_server import BookieInfo
from auditor.wire.frames import Status, decode_response
from auditor.wire.ledger_pages import LedgerPage, decode_page, encode_page_request
from auditor.wire.lister_fields import ListerIdentity


def put(directory: Path, *ids: int) -> Path:
    """Create empty index files as BookKeeper places them; return the directory `current`."""
    current = directory / "current"
    for ledger_id in ids:
        place = current / f"{ledger_id >> 8 & 0xFF:x}" / f"{ledger_id & 0xFF:x}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{ledger_id:x}.idx").touch()
    return current


def test_index_files_are_named_in_order_whatever_lies_beside_them(tmp_path: Path) -> None:
    """Over all directories, each ledger once; logs, relocated files and other names are none."""
    one, other = put(tmp_path / "1", 5, 0xABCDE, 2**62), put(tmp_path / "2", 7, 5)
    (one / "0.log").touch()
    (one / "0" / "5" / "6.idx.rloc").touch()
    (one / "0" / "5" / "xyz.idx").touch()
    assert LedgerPage((5, 7, 0xABCDE, 2**62), None) == page_of_files([one, other], 0)
    assert LedgerPage((5, 7), 0xABCDE) == page_of_files([one, other], 0, 2)
    assert LedgerPage((0xABCDE, 2**62), None) == page_of_files([one, other], 8, 2)


def test_a_directory_that_cannot_be_read_is_no_empty_one(tmp_path: Path) -> None:
    """One that is gone was removed by the bookie, with its last ledger."""
    current = put(tmp_path, 5)
    assert LedgerPage((), None) == page_of_files([tmp_path / "gone"], 0)
    with pytest.raises(OSError, match="Not a directory"):
        page_of_files([current / "0" / "5" / "5.idx"], 0)


class Serves:
    """A bookie that serves."""

    async def problem(self) -> str:
        """Return no problem."""
        return ""


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_lister_that_lists_nothing_names_its_ledgers(
    tmp_path: Path, *, is_readable: bool
) -> None:
    """From the names of the index files; EIO if they cannot be read."""
    directory = tmp_path / "bookie"
    put(directory, 9)
    if not is_readable:
        (directory / "current").rename(tmp_path / "moved")
        (directory / "current").touch()
    configured = BookieConfiguration((directory,), (directory,), "b1")
    cookie = Cookie("b1", "instance", (str(directory),), None)
    serving: Any = Serves()
    server = ListerServer(
        configured,
        cookie,
        [],
        serving,
        ServerLimits(1, 1),
        structlog.get_logger("auditor"),
        ListerMetrics("b1", __version__),
    )
    frame = asyncio.run(server.answer(BookieInfo(1, True, True, encode_page_request(0))))
    answer = decode_response(frame[4:])
    if is_readable:
        page = decode_page(answer.extra, ListerIdentity("b1", "instance"), 0)
        assert (Status.EOK, LedgerPage((9,), None)) == (answer.status, page)
    else:
        assert Status.EIO == answer.status
