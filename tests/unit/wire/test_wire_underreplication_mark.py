"""Under-replication marks: a mark stands whatever its bytes say."""

# The expected value comes first, which ruff calls Yoda.
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.drawn_metadata import BOOKIE_IDS

from auditor.model.ledger import Mark
from auditor.wire import underreplication_mark

CREATED_MS = 1_795_226_300_000
WRITTEN = b'replica: "127.0.0.1:23182"\nctime: 1795226326844\n'


def test_decodes_what_bookkeeper_wrote() -> None:
    """A real mark names the missing replica and when it last changed; when it was made is the
    znode's to say.
    """
    expected = Mark(CREATED_MS, 1_795_226_326_844, ("127.0.0.1:23182",))
    assert expected == underreplication_mark.decode(WRITTEN, CREATED_MS)


def test_encodes_byte_for_byte_as_bookkeeper() -> None:
    """The bytes are the ones a real cluster wrote."""
    assert WRITTEN == underreplication_mark.encode(["127.0.0.1:23182"], 1_795_226_326_844)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", Mark(CREATED_MS)),
        (b"ctime: 7\n", Mark(CREATED_MS, 7)),
        (b'replica: "b1:3181"\n', Mark(CREATED_MS, None, ("b1:3181",))),
        (
            b'replica: "b1:3181"\nreplica: "b2:3181"\nctime: 0\n',
            Mark(CREATED_MS, 0, ("b1:3181", "b2:3181")),
        ),
        (
            b'replica: "b1:3181" replica: "b1:3181" ctime: -1',
            Mark(CREATED_MS, -1, ("b1:3181", "b1:3181")),
        ),
    ],
    ids=["nothing", "placement repair", "before 4.8.0", "two replicas", "on one line"],
)
def test_decodes_each_shape_of_mark(data: bytes, expected: Mark) -> None:
    """Replicas and ctime are each optional; what is there is reported as written."""
    assert expected == underreplication_mark.decode(data, CREATED_MS)


@pytest.mark.parametrize(
    "data",
    [
        b"replica: b1:3181\n",
        b"\xff\xfe",
        b'replica: "b1',
        b"newer: 1\n",
        b"ctime: now\n",
        b"\x0a\x07b1:3181",
    ],
)
def test_a_mark_that_cannot_be_read_still_stands(data: bytes) -> None:
    """Undecodable bytes are a problem of the mark, which keeps its age and nothing else."""
    mark = underreplication_mark.decode(data, CREATED_MS)
    assert Mark(CREATED_MS, problem=mark.problem) == mark
    assert mark.problem


def test_a_replica_that_is_no_bookie_id_is_a_problem() -> None:
    """The sound rest of the mark is kept."""
    expected = Mark(CREATED_MS, 5, ("b2:3181",), "a missing replica is not a bookie id")
    assert expected == underreplication_mark.decode(
        b'replica: "a/b:1"\nreplica: "b2:3181"\nctime: 5\n', CREATED_MS
    )


@settings(deadline=None, print_blob=True)
@given(
    st.lists(BOOKIE_IDS).map(tuple),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**62),
)
def test_what_is_encoded_decodes_to_itself(
    replicas: tuple[str, ...], changed_ms: int | None, created_ms: int
) -> None:
    """Decoding an encoding gives the mark back."""
    data = underreplication_mark.encode(replicas, changed_ms)
    assert Mark(created_ms, changed_ms, replicas) == underreplication_mark.decode(data, created_ms)


@settings(deadline=None, print_blob=True)
@given(
    st.binary(max_size=100) | st.text('replica: ctime"0123\n{}\\x', max_size=60).map(str.encode),
    st.integers(0, 2**62),
)
def test_no_bytes_raise(data: bytes, created_ms: int) -> None:
    """Decoding a mark never raises, and the creation time is always kept."""
    assert created_ms == underreplication_mark.decode(data, created_ms).created_ms


# --- who is at work: locks and votes ---


def test_a_lock_names_the_worker_as_bookkeeper_writes_it() -> None:
    """The text form of LockDataFormat, one line."""
    assert b'bookieId: "worker-1.example"\n' == underreplication_mark.encode_name(
        "worker-1.example"
    )
    assert "worker-1.example" == underreplication_mark.decode_name(
        b'bookieId: "worker-1.example"\n'
    )


@pytest.mark.parametrize("length", [1, underreplication_mark.NAME_CHARACTERS_MAX])
def test_a_name_may_be_short_and_long(length: int) -> None:
    """From one character to the longest that is taken."""
    assert "x" * length == underreplication_mark.decode_name(b'bookieId: "' + b"x" * length + b'"')


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"bookieId: ",
        b'bookieId: ""',
        b'other: "x"',
        b'bookieId: "two\\nlines"',
        b'bookieId: "' + b"x" * 256 + b'"',
    ],
)
def test_what_names_nobody_is_none(data: bytes) -> None:
    """Never an error, never something that breaks a line or fills a screen."""
    assert underreplication_mark.decode_name(data) is None


@settings(deadline=None, print_blob=True)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_short_name_or_none(data: bytes) -> None:
    """Whatever a znode holds."""
    name = underreplication_mark.decode_name(data)
    assert name is None or 0 < len(name) <= underreplication_mark.NAME_CHARACTERS_MAX
