"""A notation for a ledger's metadata and for entries, and the striping of entries over bookies.

    ledger("e5 w3 a2  0:[b1 b2 b3 b4 b5] 1200:[b1 b2 b3 b6 b5]  closed 1999")
    holds("1200-1202 1205-1999")

The striping here is independent of the checkers and goes window by window: the code under test must
not decide what the sandbox puts on its bookies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from auditor.model.identity import BookieId, EntryId
from auditor.model.ledger import DigestType, LedgerMetadata, LedgerState, Segment
from auditor.sandbox.bookie import PAYLOAD_BYTES, Run, merge_runs

WINDOWS_MAX = 2_000_000
"""At most this many runs are made by `placement` for one ledger. Larger ledgers need sequence
groups."""

_TOKEN = re.compile(
    r"(?P<quorum>[ewa])(?P<count>\d+)"
    r"|(?P<first>-?\d+):\[(?P<members>[^\]]*)\]"
    r"|(?P<state>open|in_recovery|closed)(?:\s+(?P<last>-?\d+))?"
    r"|v(?P<version>[123])"
    r"|(?P<digest>crc32c|crc32|hmac|dummy)"
)
_STATES = {
    "open": LedgerState.OPEN,
    "in_recovery": LedgerState.IN_RECOVERY,
    "closed": LedgerState.CLOSED,
}
_RUN = re.compile(r"(\d+)(?:-(\d+))?")


def ledger(text: str, ids: Mapping[str, BookieId] | None = None) -> LedgerMetadata:
    """Return the metadata that `text` describes. `ids` maps the names of bookies to their ids.

    A name that `ids` lacks is itself an id. The quorums are `eE wW aA` (default ack quorum: the
    write quorum), and a segment is `first:[bookies by position]`. The state is `open`,
    `in_recovery`, `closed N` (N is the last entry, -1 for none) or `closed` without a last entry.
    `v1` to `v3` is the format version (default 3), and `crc32`, `crc32c` (default), `hmac` or
    `dummy` the digest type. Metadata may contradict itself: only the notation is checked. Raises
    ValueError for any other word, or if E or W is missing.
    """
    quorums: dict[str, int] = {}
    segments: list[Segment] = []
    state, last, version, digest = LedgerState.OPEN, None, 3, DigestType.CRC32C
    for token in _tokens(text):
        if token["quorum"]:
            quorums[token["quorum"]] = int(token["count"])
        elif token["first"]:
            ensemble = tuple((ids or {}).get(name, name) for name in token["members"].split())
            segments.append(Segment(int(token["first"]), ensemble))
        elif token["state"]:
            state, last = _STATES[token["state"]], int(token["last"]) if token["last"] else None
        elif token["version"]:
            version = int(token["version"])
        else:
            digest = DigestType[token["digest"].upper()]
    if missing := {"e", "w"} - quorums.keys():
        raise ValueError(f"a ledger needs {' and '.join(sorted(missing))} and a number: {text!r}")
    if state is not LedgerState.CLOSED:
        last = -1  # BookKeeper writes -1 while the last entry is not known.
    return LedgerMetadata(
        format_version=version,
        state=state,
        ensemble_size=quorums["e"],
        write_quorum=quorums["w"],
        ack_quorum=quorums.get("a", quorums["w"]),
        last_entry_id=last,
        length=0 if last is None else PAYLOAD_BYTES * (last + 1),
        segments=tuple(segments),
        digest_type=None if version == 1 else digest,
    )


def holds(text: str) -> tuple[Run, ...]:
    """Return a text such as `1200-1202 1205` as inclusive runs. Raises ValueError."""
    runs: list[Run] = []
    for word in text.split():
        match = _RUN.fullmatch(word)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"{word!r} is not a run of entries; write 7 or 3-9: {text!r}")
        runs.append((int(match[1]), int(match[2] or match[1])))
    return tuple(runs)


def placement(
    metadata: LedgerMetadata, written: EntryId | None = None
) -> dict[BookieId, list[Run]]:
    """Return the runs of entries that striping puts on each bookie of the ensembles.

    Entry e is at the positions e, e+1, ... e+W-1, modulo E, of its segment. `written` is the last
    entry that exists. Without it, that is the last entry of the metadata; while the ledger has no
    end, its last segment is empty. Raises ValueError for more than WINDOWS_MAX runs.
    """
    e, w = metadata.ensemble_size, metadata.write_quorum
    last = written if written is not None else _last_written(metadata)
    held: dict[BookieId, list[Run]] = {}
    windows = 0
    for segment, ends in zip(metadata.segments, _segment_ends(metadata, last), strict=True):
        windows += max(0, ends - segment.first_entry_id + 1) * len(segment.ensemble) // e
        if w < e and windows > WINDOWS_MAX:
            raise ValueError(
                f"more than {WINDOWS_MAX} runs: hold sequence groups on the bookies instead"
            )
        for position, bookie_id in enumerate(segment.ensemble):
            held.setdefault(bookie_id, []).extend(
                _windows(segment.first_entry_id, ends, position, e, w)
            )
    return {bookie_id: merge_runs(runs) for bookie_id, runs in held.items()}


def without(runs: Iterable[Run], lost: Iterable[Run]) -> list[Run]:
    """Return the entries of `runs` that are not in `lost`."""
    out: list[Run] = []
    gone = merge_runs(lost)
    for first, last in merge_runs(runs):
        at = first
        for lost_first, lost_last in gone:
            if lost_last < at or lost_first > last:
                continue
            if lost_first > at:
                out.append((at, lost_first - 1))
            at = lost_last + 1
        if at <= last:
            out.append((at, last))
    return out


def _tokens(text: str) -> Iterable[dict[str, str]]:
    at = 0
    for match in re.finditer(r"\s*(?:" + _TOKEN.pattern + r")(?=\s|$)", text):
        if text[at : match.start()].strip():
            break
        at = match.end()
        yield match.groupdict(default="")
    if text[at:].strip():
        raise ValueError(f"{text[at:].split()[0]!r} is not a part of a ledger: {text!r}")


def _last_written(metadata: LedgerMetadata) -> EntryId:
    if metadata.state is LedgerState.CLOSED and metadata.last_entry_id is not None:
        return metadata.last_entry_id
    return max((segment.first_entry_id for segment in metadata.segments), default=0) - 1


def _segment_ends(metadata: LedgerMetadata, last: EntryId) -> list[EntryId]:
    """Return the last entry of each segment."""
    return [*(after.first_entry_id - 1 for after in metadata.segments[1:]), last][
        : len(metadata.segments)
    ]


def _windows(first: EntryId, last: EntryId, position: int, e: int, w: int) -> list[Run]:
    """Return which of the entries `first` to `last` the bookie at `position` gets.

    They are w entries of every e, cut at both ends.
    """
    if w >= e:
        return [(first, last)] if first <= last else []
    # The window's last entry is the one whose write set begins at `position`.
    begin = first - (first - (position - w + 1)) % e
    cut = ((max(start, first), min(start + w - 1, last)) for start in range(begin, last + 1, e))
    return [(start, end) for start, end in cut if start <= end]
