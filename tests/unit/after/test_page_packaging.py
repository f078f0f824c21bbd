"""The templates of report.html are in what is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
TEMPLATES = PROJECT / "auditor" / "after" / "page" / "templates"
PACKED = "auditor/after/page/templates/"
BUILD_TIMEOUT_S = 120


def test_the_wheel_has_the_templates(tmp_path: Path):
    """Each file, byte for byte: without them a run from a wheel has no page."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=PROJECT, check=True, capture_output=True, timeout=BUILD_TIMEOUT_S)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        packed = {name: files.read(name) for name in files.namelist() if name.startswith(PACKED)}
    assert {f"{PACKED}{path.name}": path.read_bytes() for path in TEMPLATES.iterdir()} == packed
    assert {"page.html", "page.css", "page.js"} == {path.name for path in TEMPLATES.iterdir()}
