"""The bytes of multiRead requests and replies."""

from __future__ import annotations

import struct
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.model.identity import LEDGER_ID_MAX
from auditor.wire.znode_paths import LEGACY_ID_MAX, LONG_ID_MIN, LedgerLayout
from auditor.zookeeper.multi_read import (
    GET_CHILDREN,
    GET_DATA,
    NO_NODE,
    OK,
    UNIFORM_MIN,
    Children,
    GarbledReply,
    LedgerPaths,
    MultiRead,
    UniformNames,
    Znode,
    ZnodeColumns,
    columns_of,
    concatenate,
    decode_columns,
    decode_reply,
)

END = struct.pack("!iBi", -1, 1, -1)
STAT = struct.pack("!qqqqiiiqiiq", 11, 12, 1_000, 2_000, 3, 4, 5, 6, 7, 8, 9)


def data_item(data: bytes) -> bytes:
    return struct.pack("!iBii", GET_DATA, 0, 0, len(data)) + data + STAT


def children_item(*names: str) -> bytes:
    return struct.pack("!iBii", GET_CHILDREN, 0, 0, len(names)) + b"".join(
        struct.pack("!i", len(name.encode())) + name.encode() for name in names
    )


def failed_item(code: int) -> bytes:
    return struct.pack("!iBii", -1, 0, code, code)


def test_a_request_is_laid_out_like_multi() -> None:
    """A header before each operation, path and no watch; a header with done at the end. In bytes,
    as a server took it.
    """
    expected = bytes.fromhex(
        "00000004 00 ffffffff 00000002 2f61 0000000004 00 ffffffff 00000003 2fc3bc 00ffffffff 01"
        " ffffffff"
    )
    assert expected == MultiRead(GET_DATA, ["/a", "/ü"]).serialize()


def test_the_reply_of_a_real_server_is_decoded() -> None:
    """What ZooKeeper 3.9.5 answered to reads of "/", "/a" (one byte) and "/nope"."""
    reply = bytes.fromhex(
        "00000004 00 00000000 00000000"
        "0000000000000000 0000000000000000 0000000000000000 0000000000000000"
        "00000000 00000000 00000000 0000000000000000 00000000 00000002 0000000000000002"
        "00000004 00 00000000 00000001 78"
        "0000000000000002 0000000000000002 0000018bcfe56800 0000018bcfe56800"
        "00000000 00000000 00000000 0000000000000000 00000001 00000000 0000000000000002"
        "ffffffff 00 ffffff9b ffffff9b"
        "ffffffff 01 ffffffff"
    )
    assert [
        Znode("/", OK, b""),
        Znode("/a", OK, b"x", 2, 2, 1_700_000_000_000, 1_700_000_000_000, 0),
        Znode("/nope", NO_NODE),
    ] == decode_reply(GET_DATA, ["/", "/a", "/nope"], reply, 0)


def test_stats_are_taken_from_their_places() -> None:
    """czxid, mzxid, ctime, mtime and version, of eleven fields."""
    assert [Znode("/a", OK, b"xyz", 11, 12, 1_000, 2_000, 3)] == decode_reply(
        GET_DATA, ["/a"], data_item(b"xyz") + END, 0
    )


def test_a_znode_without_data_has_empty_data() -> None:
    """A null buffer (length -1) is a znode without data, not an error."""
    reply = struct.pack("!iBii", GET_DATA, 0, 0, -1) + STAT + END
    assert [
        item.data for item in decode_reply(GET_DATA, ["/a"], reply, 0) if isinstance(item, Znode)
    ] == [b""]


def test_children_keep_their_names() -> None:
    """Names in UTF-8, none at all, and a failure, each with its path."""
    reply = b"header" + children_item("a", "ü", "") + children_item() + failed_item(NO_NODE) + END
    assert [
        Children("/x", OK, ["a", "ü", ""]),
        Children("/y", OK, []),
        Children("/z", NO_NODE),
    ] == decode_reply(GET_CHILDREN, ["/x", "/y", "/z"], reply, 6)


def test_a_reply_cut_anywhere_is_garbled() -> None:
    """No prefix of a reply passes for it, and nothing may follow it."""
    for operation, items in (
        (GET_DATA, data_item(b"xyz") + failed_item(-102)),
        (GET_CHILDREN, children_item("a", "b") + failed_item(-4)),
    ):
        reply = items + END
        assert len(decode_reply(operation, ["/a", "/b"], reply, 0)) == 2
        for cut in range(len(reply)):
            with pytest.raises(GarbledReply):
                decode_reply(operation, ["/a", "/b"], reply[:cut], 0)
        with pytest.raises(GarbledReply):
            decode_reply(operation, ["/a", "/b"], reply + b"\0", 0)


@pytest.mark.parametrize("paths", [["/a"], ["/a", "/b", "/c"]])
def test_as_many_items_as_were_asked(paths: list[str]) -> None:
    """A reply with fewer or more items than paths is not taken for an answer."""
    with pytest.raises(GarbledReply):
        decode_reply(GET_DATA, paths, data_item(b"x") + data_item(b"y") + END, 0)


def test_an_item_of_another_kind_is_garbled() -> None:
    """Children where data was asked for are no answer, and the other way round."""
    with pytest.raises(GarbledReply, match="type 8 where data"):
        decode_reply(GET_DATA, ["/a"], children_item("x") + END, 0)
    with pytest.raises(GarbledReply, match="type 4 where children"):
        decode_reply(GET_CHILDREN, ["/a"], data_item(b"x") + END, 0)


def test_a_request_tells_its_size_and_no_paths() -> None:
    """What kazoo may log of a request is short."""
    assert repr(MultiRead(GET_DATA, ["/ledgers/00/0000/L0001"] * 200)) == "MultiRead(200 paths)"


def test_a_child_whose_name_is_not_utf_8_is_shown_with_replacements() -> None:
    """The other names are still read."""
    item = struct.pack("!iBiii", GET_CHILDREN, 0, 0, 2, 2) + b"a\xff" + struct.pack("!i", 1) + b"b"
    assert [Children("/x", OK, ["a\ufffd", "b"])] == decode_reply(
        GET_CHILDREN, ["/x"], item + END, 0
    )


NAMES = [f"L{number:04}" for number in range(UNIFORM_MIN)]


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        NAMES[1:],
        [*NAMES, "L"],
        [*NAMES[:-1], "L012\u00fc"],
        ["\u00fc\u00fc\u00fc", *NAMES],
        [""] * UNIFORM_MIN,
    ],
)
def test_many_names_are_read_together(names: list[str]) -> None:
    """Names of one length in ASCII are made when they are used. All others are made at once."""
    reply = children_item("x") + children_item(*names) + children_item(*names) + END
    _, found, again = decode_reply(GET_CHILDREN, ["/x", "/y", "/z"], reply, 0)
    assert isinstance(found, Children) and isinstance(again, Children)
    assert names == list(found.names) == list(again.names)
    assert names[3:5] == list(found.names[3:5])
    assert isinstance(found.names, UniformNames) is (names is NAMES)
    for cut in range(len(reply)):
        with pytest.raises(GarbledReply):
            decode_reply(GET_CHILDREN, ["/x", "/y", "/z"], reply[:cut], 0)


def znodes_of(columns: ZnodeColumns) -> list[Znode]:
    return [columns.znode(row, f"/{row}") for row in range(len(columns.errors))]


REPLIES = st.lists(st.binary(max_size=40) | st.none() | st.sampled_from([NO_NODE, -102]))
"""Data, no data, or an error."""


def reply_of(items: list[bytes | int | None]) -> bytes:
    return (
        b"".join(
            failed_item(item)
            if isinstance(item, int)
            else struct.pack("!iBii", GET_DATA, 0, 0, -1) + STAT
            if item is None
            else data_item(item)
            for item in items
        )
        + END
    )


@settings(deadline=None, print_blob=True)
@given(REPLIES, REPLIES)
def test_columns_are_the_items_of_a_reply(
    items: list[bytes | int | None], more: list[bytes | int | None]
) -> None:
    """Decoded at once, read one by one, and with the rows of another reply behind them."""
    paths = [f"/{row}" for row in range(len(items))]
    expected = decode_reply(GET_DATA, paths, b"head" + reply_of(items), 4)
    columns = decode_columns(paths, b"head" + reply_of(items), 4)
    assert expected == znodes_of(columns)
    single = columns_of([item for item in expected if isinstance(item, Znode)])
    assert expected == znodes_of(single)
    behind = decode_columns([""] * len(more), reply_of(more), 0)
    both = znodes_of(concatenate([columns, behind, single]))
    assert [item[1:] for item in znodes_of(behind)] == [
        item[1:] for item in both[len(items) : len(items) + len(more)]
    ]
    assert [item[1:] for item in expected] == [item[1:] for item in both[: len(items)]]
    assert [item[1:] for item in expected] == [item[1:] for item in both[len(items) + len(more) :]]


@settings(deadline=None, print_blob=True)
@given(REPLIES, st.integers(0))
def test_a_failure_without_an_error_is_garbled(items: list[bytes | int | None], at: int) -> None:
    """It brings neither data nor a reason, wherever it is in a reply."""
    items.insert(at % (len(items) + 1), OK)
    paths = [f"/{row}" for row in range(len(items))]
    for decode in (decode_columns, partial(decode_reply, GET_DATA)):
        with pytest.raises(GarbledReply):
            decode(paths, reply_of(items), 0)
    with pytest.raises(GarbledReply):
        decode_reply(GET_CHILDREN, ["/x", "/y"], children_item("a") + failed_item(OK) + END, 0)


def test_columns_of_a_reply_cut_anywhere_are_garbled() -> None:
    """No prefix of a reply passes for it, nothing may follow it, and no item may be of another
    kind.
    """
    reply = data_item(b"xyz") + failed_item(-102) + data_item(b"") + END
    paths = ["/a", "/b", "/c"]
    assert 3 == len(decode_columns(paths, reply, 0).errors)
    for cut in range(len(reply)):
        with pytest.raises(GarbledReply):
            decode_columns(paths, reply[:cut], 0)
    for wrong in (reply + b"\0", data_item(b"x") + END, children_item("x") * 3 + END):
        with pytest.raises(GarbledReply):
            decode_columns(paths, wrong, 0)


IDS = st.integers(0, LEDGER_ID_MAX) | st.integers(0, LONG_ID_MIN + 5) | st.integers(0, 99_999)


@settings(deadline=None, print_blob=True)
@given(st.sampled_from(LedgerLayout), st.lists(IDS, min_size=1, max_size=5))
def test_ledgers_are_requested_like_their_paths(layout: LedgerLayout, ids: list[int]) -> None:
    """The request has the same bytes, and the paths are there when they are wanted."""
    if layout is LedgerLayout.LEGACY_HIERARCHICAL:
        ids = [min(ledger_id, LEGACY_ID_MAX) for ledger_id in ids]
    paths = LedgerPaths("/a/ledgers-\u00fc", layout, np.array(ids, np.int64))
    assert MultiRead(GET_DATA, list(paths)).serialize() == MultiRead(GET_DATA, paths).serialize()
    assert all(len(path.encode()) <= paths.path_bytes_max for path in paths)
    assert list(paths)[1:] == list(paths[1:])
