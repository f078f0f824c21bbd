"""Files of a directory that somebody else filled: links, pipes and devices neither hang nor lead in
circles.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditor.errors import OutputError
from auditor.evidence.local_files import find_files, find_table_files
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import LISTING


def filled(table: Path) -> Path:
    (table / "part").mkdir(parents=True)
    for name in ("b.parquet", "a.parquet", "part/c.parquet", "_SUCCESS", ".a.parquet.crc"):
        (table / name).write_text("")
    return table


def test_a_table_is_its_files_without_what_spark_writes_beside_them(tmp_path: Path):
    """Sorted, those in folders too; and a file alone is itself."""
    table = filled(tmp_path / "t")
    expected = [f"{table}/{name}" for name in ("a.parquet", "b.parquet", "part/c.parquet")]
    assert expected == find_table_files(str(table))
    assert expected[:1] == find_table_files(expected[0])
    found = dict(find_files(str(table)))
    assert {*expected, f"{table}/_SUCCESS", f"{table}/.a.parquet.crc"} == found.keys()
    assert {Path(file).stat().st_size for file in found} == {*found.values()}


def test_a_link_to_a_file_is_read_like_it(tmp_path: Path):
    """Archives may keep content elsewhere."""
    table = filled(tmp_path / "t")
    (tmp_path / "x").write_text("")
    (table / "d.parquet").symlink_to("../x")
    assert f"{table}/d.parquet" in find_table_files(str(table))


@pytest.mark.parametrize("goal", ["..", ".", "/dev/zero", "nowhere", "itself"])
def test_a_link_that_is_no_file_is_refused(tmp_path: Path, goal: str):
    """Up, round, to a device that never ends, to nothing: Arrow would follow each."""
    table = filled(tmp_path / "t")
    (table / "itself").symlink_to(goal)
    with pytest.raises(OutputError, match="itself is not a file"):
        find_table_files(str(table))
    assert f"{table}/itself" not in dict(find_files(str(table)))


def test_a_table_that_is_a_link_is_refused(tmp_path: Path):
    """It may lead to anything, also out of the run."""
    filled(tmp_path / "t")
    (tmp_path / "link").symlink_to("t")
    with pytest.raises(OutputError, match="link is not a file"):
        find_table_files(str(tmp_path / "link"))


def test_a_pipe_is_refused(tmp_path: Path):
    """Opening one waits for a writer for ever."""
    os.mkfifo(filled(tmp_path / "t") / "z")
    with pytest.raises(OutputError, match="z is not a file"):
        find_table_files(str(tmp_path / "t"))


@pytest.mark.parametrize("find", [find_files, find_table_files])
def test_a_directory_that_cannot_be_read_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch, find
):
    """What is missing would pass for nothing. A directory that is not there has no files."""

    def scandir(path: str) -> None:
        raise PermissionError(13, "no", path)

    table = filled(tmp_path / "t")
    assert [] == list(find_files(str(tmp_path / "none")))
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError):
        list(find(str(table)))


def test_a_table_without_files_is_empty(tmp_path: Path):
    """Spark writes none for no rows."""
    (tmp_path / "run" / "listing").mkdir(parents=True)
    assert 0 == place(str(tmp_path / "run")).read_table("listing", LISTING).num_rows
