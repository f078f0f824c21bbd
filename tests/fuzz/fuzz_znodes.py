"""Fuzz targets: what ZooKeeper holds, as BookKeeper and Pulsar write it."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from support.decoded_columns import row_alone, rows_in_columns
from targets import Target, check_storable

from auditor.errors import MalformedMetadata, StoreUnavailable, UnknownMetadataFormat
from auditor.first_checker.placement import recorded_policy
from auditor.model.finding_record import Owner
from auditor.model.ledger import DigestType, LedgerMetadata
from auditor.model.topic import Cursor, DataLedger, ManagedLedger, Position, SchemaVersion
from auditor.pulsar import metadata as pulsar_metadata
from auditor.pulsar.metadata import UNCOMPRESSED_BYTES_MAX
from auditor.sandbox import cluster
from auditor.second_checker.placement import read_recorded
from auditor.topology.location_table import Places
from auditor.wire import (
    bookie_registration,
    ledger_metadata,
    locations,
    underreplication_mark,
    znode_paths,
)
from auditor.wire.generated.managed_ledger_pb2 import CompressionHeader
from auditor.witness.pulsar_commands import owner_of

POLICY = (
    b'{"policyClass":"org.apache.pulsar.IsolatedPolicy","properties":'
    b'{"isolationBookieGroups":"a,b","secondaryIsolationBookieGroups":["c"]}}'
)
CUSTOM = (
    ("application", b"pulsar"),
    ("component", b"managed-ledger"),
    ("pulsar/managed-ledger", b"public/default/persistent/t"),
    ("EnsemblePlacementPolicyConfig", POLICY),
)
BOMB_BYTES_MAX = 70_000
"""Longest input that holds a compressed value: LZ4 shrinks UNCOMPRESSED_BYTES_MAX into it."""
EMPTY_RECORD = b"\x0a\x00"
"""One more ledger of a topic, without a field."""


def _metadata() -> LedgerMetadata:
    plain = cluster.ledger("e3 w2 a2 0:[b1 b2 b3] 40:[b1 b4 b3] closed 99")
    return replace(
        plain, digest_type=DigestType.CRC32C, ctime_ms=1_700_000_000_000, custom_metadata=CUSTOM
    )


def read_ledger_metadata(data: bytes) -> None:
    (in_columns,) = rows_in_columns([data])
    assert in_columns in (None, row_alone(0, data))
    try:
        metadata = ledger_metadata.decode(data)
    except MalformedMetadata as error:
        malformed = ledger_metadata.describe_malformed(data, error)
        assert 0 <= malformed.offset <= len(data), malformed
        check_storable(malformed.reason)
        raise
    ledger_metadata.password(data)
    for segment in metadata.segments:
        for member in segment.ensemble:
            check_storable(member)
    _check_custom(metadata)


def _check_custom(metadata: LedgerMetadata) -> None:
    """Check that both checkers read the recorded policy alike, and that owner and policy can be
    written.
    """
    for key, _ in metadata.custom_metadata:
        check_storable(key)
    said = recorded_policy(metadata)
    assert said == read_recorded(metadata)
    assert said.isprintable()
    check_storable(said)
    for part in (owner_of(metadata) or Owner()).as_json().values():
        check_storable(part)


def read_custom_metadata(data: bytes) -> None:
    keys = (
        "EnsemblePlacementPolicyConfig",
        "pulsar/managed-ledger",
        "pulsar/cursor",
        "application",
    )
    _check_custom(replace(_metadata(), custom_metadata=tuple((key, data) for key in keys)))


def read_mark(data: bytes) -> None:
    mark = underreplication_mark.decode(data, 1)
    for text in (mark.problem, *mark.missing_replicas, underreplication_mark.decode_name(data)):
        check_storable(text)


def read_registration(data: bytes) -> None:
    """Read a registration: the first line is the bookie's id, the rest its registration."""
    name, _, rest = data.partition(b"\n")
    endpoint = bookie_registration.decode(name.decode("latin-1"), rest)
    assert 1 <= endpoint.port <= 65_535 and endpoint.host
    check_storable(endpoint.host)


def read_rack_map(data: bytes) -> None:
    found = locations.decode_rack_map(data)
    places = Places()
    for bookie, location in found.locations.items():
        check_storable(bookie)
        assert location.startswith("/") and location.isprintable()
        places.add(bookie, location, any_port=True)
    places.areas()
    assert len(found.problems) <= locations.RACK_MAP_PROBLEMS_MAX + 1
    for problem in found.problems:
        check_storable(problem)


def read_managed_ledger(data: bytes) -> None:
    """Read a managed ledger: the first byte chooses what the rest is read as."""
    read = (
        pulsar_metadata.decode_managed_ledger,
        lambda cursor: pulsar_metadata.decode_cursor(cursor, "__compaction"),
        pulsar_metadata.decode_schemas,
    )
    read[data[0] % 3 if data else 0](data[1:])


def _packed(compression: int, packed: bytes, size: int) -> bytes:
    header = CompressionHeader(
        compressionType=compression, uncompressedSize=size
    ).SerializeToString()
    return (
        b"\x00"
        + pulsar_metadata.COMPRESSED_MAGIC
        + len(header).to_bytes(4, "big")
        + header
        + packed
    )


_PACKS: dict[int, Callable[[bytes], bytes]] = {
    CompressionHeader.NONE: bytes,
    CompressionHeader.LZ4: lambda data: pa.Codec("lz4_raw").compress(data, asbytes=True),
    CompressionHeader.ZLIB: zlib.compress,
    CompressionHeader.ZSTD: lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    CompressionHeader.SNAPPY: lambda data: pa.Codec("snappy").compress(data, asbytes=True),
}


def _managed_ledgers() -> list[bytes]:
    """Return each sort of value, and each compression."""
    topic = pulsar_metadata.encode_managed_ledger(
        ManagedLedger(
            (
                DataLedger(7, 10, 1_000, 5, True, True),
                DataLedger(8, None, None, None, False, False),
            ),
            Position(8, 4),
        )
    )
    schemas = pulsar_metadata.encode_schemas(
        (SchemaVersion(0, Position(12, 0)), SchemaVersion(1, Position(13, 1)))
    )
    cursor = pulsar_metadata.encode_cursor(
        Cursor(9, Position(7, 3), ((Position(7, 4), Position(7, 6)),), 11)
    )
    plain = [bytes((number,)) + data for number, data in enumerate((topic, cursor, schemas))]
    return plain + [_packed(one, pack(topic), len(topic)) for one, pack in _PACKS.items()]


@functools.cache
def bombs() -> list[bytes]:
    """Return values as large as is accepted, and one byte larger: zeros in each compression, and
    records of two bytes, which become many objects.

    LZ4 and SNAPPY cannot shrink further than by these factors, and must fit into BOMB_BYTES_MAX.
    """
    factors = {CompressionHeader.LZ4: 254, CompressionHeader.SNAPPY: 20}
    made = []
    for one, pack in _PACKS.items():
        if one != CompressionHeader.NONE:
            size = min(UNCOMPRESSED_BYTES_MAX, factors.get(one, 2**20) * (BOMB_BYTES_MAX - 100))
            made += [_packed(one, pack(bytes(size + more)), size) for more in (0, 1)]
    records = zlib.compress(EMPTY_RECORD * (UNCOMPRESSED_BYTES_MAX // len(EMPTY_RECORD)))
    made.append(_packed(CompressionHeader.ZLIB, records, UNCOMPRESSED_BYTES_MAX))
    assert max(map(len, made)) <= BOMB_BYTES_MAX, [len(one) for one in made]
    return made


_V = [
    ledger_metadata.encode(_metadata(), password=b"secret", version=version)
    for version in (1, 2, 3)
]

TARGETS = (
    Target(
        "ledger-metadata-1",
        read_ledger_metadata,
        [_V[0]],
        (MalformedMetadata, UnknownMetadataFormat),
    ),
    Target(
        "ledger-metadata-2",
        read_ledger_metadata,
        [_V[1]],
        (MalformedMetadata, UnknownMetadataFormat),
    ),
    Target(
        "ledger-metadata-3",
        read_ledger_metadata,
        [_V[2]],
        (MalformedMetadata, UnknownMetadataFormat),
    ),
    Target("custom-metadata", read_custom_metadata, [POLICY, b"public/default/persistent/t"]),
    Target(
        "mark",
        read_mark,
        [
            underreplication_mark.encode(["b1:3181", "b2:3181"], 5),
            underreplication_mark.encode_name("worker-1"),
        ],
    ),
    Target(
        "registration",
        read_registration,
        [
            b"b1:3181\n",
            b"b1:3181\n" + bookie_registration.encode("10.0.0.1", 3181, tls=True, http_port=8080),
        ],
        (MalformedMetadata,),
    ),
    Target(
        "layout",
        znode_paths.decode_layout,
        [znode_paths.encode_layout(one) for one in znode_paths.LedgerLayout],
        (StoreUnavailable,),
    ),
    Target(
        "rack-map",
        read_rack_map,
        [
            locations.encode_rack_map(
                {"b1:3181": "/r1", "b2:3181": "/region/r2", "10.0.0.1:3181": "r3"}
            )
        ],
    ),
    Target(
        "managed-ledger",
        read_managed_ledger,
        _managed_ledgers() + bombs(),
        (MalformedMetadata,),
        bytes_max=BOMB_BYTES_MAX,
    ),
)
