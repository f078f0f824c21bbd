"""Which files of a ZooKeeper's data directory are used, and what is said of others."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from auditor.errors import ConfigError
from auditor.recovery.zookeeper_data import find_files


def put(directory: Path, name: str, version: int = 2) -> Path:
    """Write the beginning of a snapshot or a log."""
    directory.mkdir(parents=True, exist_ok=True)
    magic = b"ZKSN" if name.startswith("snapshot") else b"ZKLG"
    path = directory / name
    path.write_bytes(struct.pack(">4siq", magic, version, 0))
    return path


def names(*places: Path) -> list[str]:
    return [file.path.name for file in find_files(places)]


def test_the_newest_snapshots_and_the_logs_behind_them_are_used(tmp_path: Path) -> None:
    """A log holds what is behind its name: the last one before the oldest snapshot is needed."""
    for name in ("snapshot.a", "snapshot.1f", "snapshot.30", "snapshot.100"):
        put(tmp_path / "data" / "version-2", name)
    for name in ("log.1", "log.b", "log.20", "log.31"):
        put(tmp_path / "logs" / "version-2", name)
    put(tmp_path / "data" / "version-2", "acceptedEpoch")
    assert ["snapshot.1f", "log.20", "snapshot.30", "log.31", "snapshot.100"] == names(
        tmp_path / "data", tmp_path / "logs" / "version-2"
    )
    assert ["snapshot.100"] == names(tmp_path / "data" / "version-2" / "snapshot.100")


def test_an_unusable_snapshot_is_left_out_if_there_is_another(tmp_path: Path) -> None:
    """ZooKeeper does the same."""
    put(tmp_path, "snapshot.1")
    (tmp_path / "snapshot.2").touch()
    assert ["snapshot.1"] == names(tmp_path)


def test_a_missing_log_is_noticed(tmp_path: Path) -> None:
    """ZooKeeper would apply the later transactions to the older state. After an election the
    numbers begin anew: nothing is missing there.
    """
    put(tmp_path, "snapshot.16")
    put(tmp_path, "log.2d")
    with pytest.raises(ConfigError, match=r"log with the transactions 0x17 to 0x2c is missing"):
        find_files([tmp_path])
    put(tmp_path, "log.17")
    assert 3 == len(names(tmp_path))
    later = tmp_path / "later"
    put(later, "snapshot.100000016")
    put(later, "log.200000001")
    assert 2 == len(names(later))


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "neither a snapshot nor a log"),
        ({"log.1": b"ZKLG"}, r"logs \(1\) and no snapshot"),
        ({"snapshot.1": b""}, "snapshot.1 is empty"),
        ({"snapshot.1": b"not a snapshot"}, "is not a snapshot of ZooKeeper"),
        ({"snapshot.1": struct.pack(">4si", b"ZKSN", 3)}, "format version 3.*--restored-uri"),
        (
            {"snapshot.1": struct.pack(">4si", b"ZKSN", 2), "log.2": b"garbage!"},
            "log.2 is not a log of ZooKeeper: copy it again",
        ),
    ],
)
def test_unusable_data_is_refused_with_what_to_do(
    tmp_path: Path, files: dict[str, bytes], says: str
) -> None:
    """The error names the file."""
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        find_files([tmp_path])


def test_a_place_must_be_a_directory_or_keep_the_name_of_a_snapshot(tmp_path: Path) -> None:
    """The name of a snapshot has its transaction id."""
    with pytest.raises(ConfigError, match="there is no"):
        find_files([tmp_path / "nowhere"])
    renamed = put(tmp_path, "snapshot.1").rename(tmp_path / "backup")
    with pytest.raises(ConfigError, match=r"not named snapshot\.<zxid in hex>"):
        find_files([renamed])
