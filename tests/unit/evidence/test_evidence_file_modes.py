"""The mask restricts who may read the files of a run, beyond the process's own umask."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.evidence.local_files import restrict_new_files


@pytest.fixture(params=[0o022, 0o077], ids=oct)
def own(request: pytest.FixtureRequest) -> Iterator[int]:
    """Yield the umask of the process, as an operator may have set it."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_new_files_lack_what_the_mask_or_the_own_umask_removes(own: int, tmp_path: Path):
    """This holds in this process and in its children. A stricter umask stays."""
    with restrict_new_files(0o027):
        (tmp_path / "here").touch(0o666)
        (tmp_path / "folder").mkdir()
        subprocess.run(["touch", str(tmp_path / "child")], check=True)
    found = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    removed = own | 0o027
    assert {
        "here": 0o666 & ~removed,
        "child": 0o666 & ~removed,
        "folder": 0o777 & ~removed,
    } == found


def test_the_own_umask_is_restored_afterwards(own: int):
    """This holds also where the run raised."""
    with pytest.raises(ZeroDivisionError), restrict_new_files(0o027):
        raise ZeroDivisionError
    now = os.umask(own)
    assert own == now
