"""When a view of an index counts: by its stamp, its write-ahead log and its tables. No index is
opened.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from auditor.lister.index_view import (
    TABLE_AGE_S,
    TABLE_CHECK_S,
    IndexInDoubt,
    IndexView,
    Stamp,
    check_wal_directory,
    stamp_of,
)


@pytest.fixture
def locations(tmp_path: Path) -> Path:
    """The files of an index."""
    found = tmp_path / "locations"
    found.mkdir()
    (found / "CURRENT").write_text("MANIFEST-000005\n")
    (found / "MANIFEST-000005").write_bytes(bytes(7))
    for name in ("000004.log", "000006.log", "000003.sst", "LOG", "LOG.old.1"):
        (found / name).touch()
    return found


def test_a_stamp_is_the_manifest_its_size_and_the_logs(locations: Path) -> None:
    """A flush changes the logs and the size; an index made anew has another file."""
    found = (locations / "MANIFEST-000005").stat()
    stamp = Stamp(
        "MANIFEST-000005", (found.st_dev, found.st_ino), 7, frozenset({"000004.log", "000006.log"})
    )
    assert stamp == stamp_of(locations)
    (locations / "000006.log").unlink()
    assert stamp._replace(logs=frozenset({"000004.log"})) == stamp_of(locations)
    (locations / "MANIFEST-000005").write_bytes(bytes(8))
    assert stamp._replace(logs=frozenset({"000004.log"}), manifest_bytes=8) == stamp_of(locations)


@pytest.mark.parametrize(
    "current", ["", "MANIFEST-", "MANIFEST-1x", "MANIFEST-000009", "../MANIFEST-000005", None]
)
def test_an_index_without_a_readable_manifest_has_no_stamp(
    locations: Path, current: str | None
) -> None:
    """Whatever CURRENT says, nothing else is read in its place."""
    (
        (locations / "CURRENT").unlink()
        if current is None
        else (locations / "CURRENT").write_text(current)
    )
    with pytest.raises(IndexInDoubt):
        stamp_of(locations)


def options(locations: Path, number: int, text: bytes) -> None:
    (locations / f"OPTIONS-{number:06}").write_bytes(text)


def test_the_newest_options_say_where_the_log_is(locations: Path, tmp_path: Path) -> None:
    """Without any, and without a word on it, it is beside the tables. What is no UTF-8 is no
    fault.
    """
    check_wal_directory(locations)
    options(locations, 5, b"[DBOptions]\n  wal_dir=/elsewhere\n")
    options(locations, 7, b"[DBOptions]\n  wal_dir=" + str(locations).encode() + b"\n  x=\xff\n")
    (locations / "OPTIONS-dbtmp").write_text("wal_dir=/elsewhere")
    check_wal_directory(locations)
    (tmp_path / "link").symlink_to(locations)
    options(locations, 8, f"wal_dir={tmp_path}/link\n".encode())
    check_wal_directory(locations)
    options(locations, 9, b"wal_dir=\n")
    check_wal_directory(locations)
    options(locations, 10, f"wal_dir={locations.parent.name}/{locations.name}\n".encode())
    check_wal_directory(locations)
    options(locations, 11, b"wal_dir=elsewhere\n")
    with pytest.raises(IndexInDoubt, match="write-ahead log in elsewhere"):
        check_wal_directory(locations)
    (locations / "OPTIONS-000011").unlink()
    options(locations, 12, b"  wal_dir=/elsewhere\n")
    with pytest.raises(IndexInDoubt, match="write-ahead log in /elsewhere"):
        check_wal_directory(locations)


class Viewed:
    """A view with tables of its own, and a clock. `asked` counts how often they were named."""

    def __init__(self, locations: Path, links: Path, *tables: str) -> None:
        links.mkdir()
        self.now, self.asked = 1_000.0, 0
        self.tables = tables
        self.view = IndexView(locations, links, lambda: self.now)
        self.view._db = self

    def live_files(self) -> list[dict[str, Any]]:
        self.asked += 1
        return [{"name": name, "size": 1} for name in self.tables]

    def close(self) -> None:
        self.tables = ()


STAMP = Stamp("MANIFEST-000005", (1, 2), 7, frozenset())


def age(path: Path, seconds: float) -> None:
    path.touch()
    at = time.time() - seconds
    os.utime(path, (at, at))


def test_an_old_table_that_the_view_has_is_no_doubt(locations: Path, tmp_path: Path) -> None:
    """Nor is a young one that it lacks, nor any other file."""
    age(locations / "000003.sst", TABLE_AGE_S + 60)
    age(locations / "000009.sst", TABLE_AGE_S - 60)
    age(locations / "000001.tmp", TABLE_AGE_S + 60)
    viewed = Viewed(locations, tmp_path / "links", "/000003.sst")
    viewed.view._check_tables(STAMP)
    viewed.tables = ()
    viewed.now += TABLE_CHECK_S
    with pytest.raises(IndexInDoubt, match=r"lacks 1 tables that are on disk, 000003\.sst first"):
        viewed.view._check_tables(STAMP)
    assert viewed.view._db is None


def test_a_table_counts_from_its_age_on(
    locations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the second."""
    now = float(int(time.time()))
    monkeypatch.setattr("auditor.lister.index_view.time.time", lambda: now)
    os.utime(locations / "000003.sst", (now, now - TABLE_AGE_S))
    with pytest.raises(IndexInDoubt, match="lacks 1 tables"):
        Viewed(locations, tmp_path / "links").view._check_tables(STAMP)


def test_tables_are_compared_when_the_index_changed_or_time_is_over(
    locations: Path, tmp_path: Path
) -> None:
    """An idle bookie is not asked for the names of its tables at each list."""
    viewed = Viewed(locations, tmp_path / "links")
    (locations / "000003.sst").unlink()
    asked = []
    for seconds, stamp in (
        (0, STAMP),
        (1, STAMP),
        (TABLE_CHECK_S - 2, STAMP),
        (1, STAMP),
        (1, STAMP._replace(file=(1, 3))),
    ):
        viewed.now += seconds
        viewed.view._check_tables(stamp)
        asked.append(viewed.asked)
    assert [1, 1, 1, 2, 3] == asked


def test_a_view_that_changes_while_it_is_read_is_tried_again(
    locations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its age counts from the beginning of the try that was whole, and its tables are those of that
    stamp.
    """
    viewed = Viewed(locations, tmp_path / "links", "000003.sst")
    stamps: list[Stamp] = []
    checked: list[Stamp] = []

    def catch_up(stamp: Stamp) -> None:
        stamps.append(stamp)
        viewed.now += 1
        if len(stamps) < 3:
            (locations / f"00010{len(stamps)}.log").touch()

    monkeypatch.setattr("auditor.lister.index_view.STAMP_WAIT_S", 0.0)
    monkeypatch.setattr(viewed.view, "_catch_up", catch_up)
    monkeypatch.setattr(viewed.view, "_check_tables", checked.append)
    viewed.view.refresh()
    assert ([stamps[2]], 1_002.0) == (checked, viewed.view.seen_at)
    assert stamp_of(locations) == stamps[2]


def test_links_that_an_ended_process_left_are_replaced(
    locations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may name an older manifest. Two links are made: CURRENT and the manifest."""
    links = tmp_path / "links"
    links.mkdir()
    (links / "CURRENT").symlink_to(tmp_path / "elsewhere")
    (links / "MANIFEST-000001").symlink_to(locations / "MANIFEST-000001")
    view = IndexView(locations, links)
    monkeypatch.setattr(view, "_open", lambda: None)
    view._catch_up(stamp_of(locations))
    made = {link.name: link.readlink() for link in links.iterdir()}
    assert {name: locations / name for name in ("CURRENT", "MANIFEST-000005")} == made
