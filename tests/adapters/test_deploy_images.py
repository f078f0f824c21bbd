"""The recipes of images: hadolint has no complaint, and each image is pinned and runs as an
unprivileged user.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.deployed import DEPLOY

RECIPES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))
HADOLINT = Path(sys.executable).parent / "hadolint"


def linted(path: Path) -> subprocess.CompletedProcess[str]:
    words = [str(HADOLINT), "--failure-threshold", "style", str(path)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_hadolint_has_nothing_to_say(path: Path) -> None:
    """At its strictest level."""
    done = linted(path)
    assert (0, "") == (done.returncode, done.stdout)


def test_hadolint_would_say_it(tmp_path: Path) -> None:
    """A base without a version is named."""
    path = tmp_path / "x.Dockerfile"
    path.write_text(RECIPES[0].read_text().replace("python:3.12-slim", "python"))
    assert "DL3006" in linted(path).stdout


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_an_image_is_slim_pinned_and_runs_as_nobody(path: Path) -> None:
    """It has no root user, and files that exist. Both of its stages have one base."""
    text = path.read_text()
    bases = re.findall(r"^FROM (python:3\.\d+-slim)(?: AS wheels)?$", text, re.MULTILINE)
    assert 2 == len(bases) == text.count("\nFROM ") and 1 == len(set(bases))
    user = re.findall(r"^USER (\d+)", text, re.MULTILINE)
    assert ["10001"] == user
    copied = [
        name for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for name in line.split()
    ]
    assert all((DEPLOY.parent / name).exists() for name in copied)


def test_the_image_of_a_run_has_java_and_no_health_check() -> None:
    """A run ends by itself: no check is needed while it works."""
    text = (DEPLOY / "docker/auditor.Dockerfile").read_text()
    assert (
        "/release/runtime.txt" in text
        and "\nHEALTHCHECK NONE\n" in text
        and 'ENTRYPOINT ["auditor"]' in text
    )
