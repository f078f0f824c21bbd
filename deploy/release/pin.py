"""Write runtime.txt, lister.txt and build.txt: every file that a release is built from, by hash.

    .venv/bin/python deploy/release/pin.py

Versions are those of constraints.txt. Pip says which file of each it would take, on each Python and
processor of a release, and the file's SHA-256; PySpark has one file for all. No address of an index
is written: the same files have the same hashes wherever they come from.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

HOME = Path(__file__).resolve().parent
PROJECT = HOME.parents[1]
EXTRAS = {"runtime.txt": ("jdk", "lister", "s3", "hdfs"), "lister.txt": ("lister",)}
"""The extras of each image of deploy/docker, by the file with its packages."""
SOURCES = frozenset({"pyspark"})
"""Packages that are built from their source."""
PYTHONS = ("3.11", "3.12")
"""The Python of the release workflow, and that of the images."""
PROCESSORS = ("x86_64", "aarch64")
GLIBC_NEWEST, GLIBC_OLDEST = 39, 5
"""Minor versions of glibc 2 whose wheels are looked for."""
PIP_WAIT_S = 900

Pins = dict[str, set[str]]
"""The hashes of the files of each `name==version`."""


def main() -> int:
    """Write the files, and return 0."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for file, names in EXTRAS.items():
        wanted = (one for name in names for one in extras[name])
        write(HOME / file, [*project["dependencies"], *wanted])
    hatchling = [one for one in extras["dev"] if one.startswith("hatchling==")]
    write(HOME / "build.txt", [*extras["release"], *hatchling, "setuptools", "wheel"])
    return 0


def write(path: Path, requirements: list[str]) -> None:
    """Write what pip would install for the requirements, with the hashes of every platform."""
    pins = resolve(["-c", str(PROJECT / "constraints.txt"), *requirements])
    wheels = [pin for pin in pins if pin.partition("==")[0] not in SOURCES]
    for python in PYTHONS:
        for processor in PROCESSORS:
            where = ["--no-deps", "--only-binary=:all:", "--python-version", python]
            for pin, hashes in resolve([*where, *platforms(processor), *wheels]).items():
                pins[pin] |= hashes
    path.write_text(
        "# Made by deploy/release/pin.py: change constraints.txt, and run it.\n"
        + "".join(f"{pin} {options(hashes)}\n" for pin, hashes in sorted(pins.items()))
    )


def platforms(processor: str) -> Iterable[str]:
    """Yield the options of pip for the wheels that this processor takes, the newest glibc first."""
    for minor in range(GLIBC_NEWEST, GLIBC_OLDEST - 1, -1):
        yield from ("--platform", f"manylinux_2_{minor}_{processor}")
    yield from ("--platform", f"manylinux2014_{processor}")


def options(hashes: Iterable[str]) -> str:
    """Return the hashes as options of a requirement."""
    return " ".join(f"--hash=sha256:{one}" for one in sorted(hashes))


def resolve(words: Iterable[str]) -> Pins:
    """Return what pip would install, and the hash of the file that it would take."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
        dry = ("--dry-run", "--ignore-installed", "--target", folder, "--report", str(report))
        command = [sys.executable, "-m", "pip", "install", *quiet, *dry, *words]
        subprocess.run(command, check=True, timeout=PIP_WAIT_S)  # noqa: S603 - our own words
        found = json.loads(report.read_text())["install"]
    return {
        f"{one['metadata']['name'].lower()}=={one['metadata']['version']}": {
            one["download_info"]["archive_info"]["hashes"]["sha256"]
        }
        for one in found
    }


if __name__ == "__main__":
    sys.exit(main())
