"""What is installed: the wheel has the page's templates, and says of itself what PyPI shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
TEMPLATES = PROJECT / "auditor" / "after" / "page" / "templates"
PACKED = "auditor/after/page/templates/"
BUILD_TIMEOUT_S = 120
ADDRESS = "https://forge.example/acme/auditor"
RELATIVE_LINK = re.compile(r"\]\((?!https?://|#)[^)]*\)")


def build(home: Path, **environment: str) -> zipfile.Path:
    """Build the wheel, and return its root."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(home)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")} | environment
    subprocess.run(
        command, cwd=PROJECT, env=env, check=True, capture_output=True, timeout=BUILD_TIMEOUT_S
    )
    (wheel,) = home.glob("*.whl")
    return zipfile.Path(wheel)


def metadata_of(wheel: zipfile.Path) -> Message:
    (folder,) = (path for path in wheel.iterdir() if path.name.endswith(".dist-info"))
    return message_from_bytes((folder / "METADATA").read_bytes())


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """Return the wheel as a release builds it, where the repository has an address."""
    return build(tmp_path_factory.mktemp("released"), REPOSITORY_URL=f"{ADDRESS}/")


def test_the_wheel_has_the_templates(released: zipfile.Path):
    """Each file, byte for byte: without them a run from a wheel has no page."""
    packed = {path.name: path.read_bytes() for path in (released / PACKED).iterdir()}
    assert {path.name: path.read_bytes() for path in TEMPLATES.iterdir()} == packed
    assert {"page.html", "page.css", "page.js"} == set(packed)


def test_a_release_links_to_its_repository(released: zipfile.Path):
    """Every link of the README is absolute and names a file that is there, at the tag of the
    version; so are the project's URLs.
    """
    metadata = metadata_of(released)
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", ()))
    assert {"Source", "Documentation", "Changelog", "Issues", "BP-34"} == set(urls)
    assert urls["Source"] == ADDRESS
    readme = str(metadata.get_payload())
    assert not RELATIVE_LINK.search(readme)
    tag = f"v{metadata['Version']}"
    linked = re.findall(rf"{re.escape(ADDRESS)}/(blob|raw)/{re.escape(tag)}/([^)#\s]+)", readme)
    assert ("raw", "docs/pictures/first-screen.svg") in linked and len(linked) > 20
    assert all((PROJECT / path).exists() for _, path in linked)
    shown = [f"{ADDRESS}/blob/main/{path}" for path in ("docs/getting-started.md", "CHANGELOG.md")]
    assert shown == [urls["Documentation"], urls["Changelog"]]
    assert all((PROJECT / url.removeprefix(f"{ADDRESS}/blob/main/")).exists() for url in shown)
    assert "Operating System :: POSIX" in metadata.get_all("Classifier", ())


def test_a_build_without_an_address_invents_none(tmp_path: Path):
    """Its README names the files instead, and has no link that leads nowhere."""
    metadata = metadata_of(build(tmp_path))
    readme = str(metadata.get_payload())
    assert not RELATIVE_LINK.search(readme) and "docs/cost.md" in readme
    assert 1 == len(metadata.get_all("Project-URL", ()))
