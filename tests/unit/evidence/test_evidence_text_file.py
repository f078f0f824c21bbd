"""Text files of a run: bounded, UTF-8, or a sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditor.errors import OutputError
from auditor.evidence import run_directory
from auditor.evidence.findings_file import parse_json
from auditor.evidence.run_directory import TEXT_BYTES_MAX, place


def test_a_file_that_is_too_large_is_not_opened(tmp_path: Path):
    """It has a size and no content: reading it would take all memory."""
    (tmp_path / "a").touch()
    os.truncate(tmp_path / "a", TEXT_BYTES_MAX + 1)
    with pytest.raises(OutputError, match="that are read of one file"):
        place(str(tmp_path)).read_text("a")


def test_what_is_not_utf_8_is_refused(tmp_path: Path):
    """With the first byte that is wrong."""
    (tmp_path / "a").write_bytes(b"ab\xff")
    with pytest.raises(OutputError, match=r"a is not UTF-8 text \(byte 2\)"):
        place(str(tmp_path)).read_text("a")


@pytest.mark.parametrize(
    "make", [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("/dev/zero")]
)
def test_what_is_no_file_is_not_there(tmp_path: Path, make):
    """A folder, a pipe, a device: none is opened."""
    make(tmp_path / "a")
    assert place(str(tmp_path)).read_text("a") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [("[" * 100_000, "nested too deeply"), ("9" * 5_000, "not JSON"), ("{", "not JSON")],
)
def test_json_that_cannot_be_parsed_is_a_sentence(text: str, says: str):
    """Depth and digits beyond what Python takes are the file's fault."""
    with pytest.raises(OutputError, match=f"summary.json is {says}"):
        parse_json(text, "summary.json")


def test_a_file_of_the_largest_size_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """One byte more is too large."""
    monkeypatch.setattr(run_directory, "TEXT_BYTES_MAX", 3)
    (tmp_path / "a").write_bytes(b"abc")
    assert "abc" == place(str(tmp_path)).read_text("a")
    (tmp_path / "a").write_bytes(b"abcd")
    with pytest.raises(OutputError, match="a has 4 bytes, more than the 3 that are read"):
        place(str(tmp_path)).read_text("a")
