"""The class-data archive of the tests' JVMs is used. A JVM that cannot use one works silently
without it, only slower.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.real_archive import make_archive
from support.real_bookkeeper import COMMAND_TIMEOUT_S, LOG4J2_SHELL
from support.real_jars import bookkeeper_jars
from support.real_processes import archive_of, class_path, java_command

FROM_THE_ARCHIVE = re.compile(r"org\.apache\.bookkeeper\.\S+ source: shared objects file \(top\)")


@pytest.mark.real
@pytest.mark.parametrize("classes", [None, Path("/nowhere")], ids=["alone", "with more"])
def test_a_jvm_maps_classes_of_bookkeeper(classes: Path | None):
    """It maps most of the classes that a bookie loads before it has read its configuration."""
    jars = bookkeeper_jars()
    make_archive(jars)
    command = java_command(
        jars,
        "org.apache.bookkeeper.server.Main",
        "--help",
        heap="128m",
        log4j2=LOG4J2_SHELL,
        flag="-Xlog:class+load",
        classes=classes,
    )
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    mapped = len(FROM_THE_ARCHIVE.findall(done.stdout))
    loaded = len(re.findall(r"org\.apache\.bookkeeper\.\S+ source: ", done.stdout))
    assert 0 < loaded <= 2 * mapped, (mapped, loaded, done.stdout[-2000:], done.stderr[-2000:])


def test_an_archive_is_of_one_folder_of_jars_as_it_is(tmp_path: Path):
    """A moved copy, a rewritten jar and an added jar each have another archive."""
    jars, copy = tmp_path / "one" / "lib", tmp_path / "two" / "lib"
    jars.mkdir(parents=True)
    for name in ("b.jar", "a.jar"):
        (jars / name).write_bytes(b"")
    shutil.copytree(jars, copy)
    seen = [archive_of(jars), archive_of(copy)]
    os.utime(jars / "a.jar", (1, 1))
    seen.append(archive_of(jars))
    (jars / "c.jar").write_bytes(b"")
    seen.append(archive_of(jars))
    assert archive_of(jars) == seen[-1]
    assert len({path.name for path in seen}) == 4
    assert f"{jars}/a.jar:{jars}/b.jar:{jars}/c.jar" == class_path(jars)
