"""Metadata of ledgers that Hypothesis draws, and bytes of it that are damaged."""

from __future__ import annotations

from string import ascii_letters, digits

from hypothesis import strategies as st

from auditor.model.identity import is_bookie_id
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, Segment

BOOKIE_IDS = st.text(ascii_letters + digits + ":;<=>?@[\\]^_.-", min_size=1, max_size=20).filter(
    is_bookie_id
)
"""Of the characters that BookKeeper accepts. Text that fits an expression is drawn far slower."""
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
LEDGERS = st.builds(
    LedgerMetadata,
    format_version=st.sampled_from([1, 2, 3]),
    state=st.sampled_from(LedgerState),
    ensemble_size=INT32,
    write_quorum=INT32,
    ack_quorum=INT32,
    last_entry_id=INT64,
    length=INT64,
    segments=st.lists(
        st.builds(
            Segment, INT64, st.lists(BOOKIE_IDS.filter("CLOSED".__ne__), min_size=1).map(tuple)
        )
    ).map(tuple),
    digest_type=st.sampled_from(DigestType),
    ctime_ms=st.none() | INT64,
    custom_metadata=st.lists(st.tuples(st.text(), st.binary())).map(tuple),
)


def damaged(data: bytes, draw: st.DataObject, edits_min: int = 1) -> bytes:
    """Return the bytes after some drawn edits: bytes are cut out and put in."""
    whole = bytearray(data)
    for _ in range(draw.draw(st.integers(edits_min, 4), label="edits")):
        at = draw.draw(st.integers(0, len(whole)), label="at")
        whole[at : at + draw.draw(st.integers(0, 3), label="cut")] = draw.draw(
            st.binary(max_size=3), label="put"
        )
    return bytes(whole)
