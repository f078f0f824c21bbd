"""What may give a secret away while a run lasts: Spark's event log and its files, and the command
lines of processes.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

NOTHING = "(?!)"
"""A regular expression that matches nothing."""


def write_spark_defaults(folder: Path, events: Path) -> None:
    """Make Spark write its event log and its own files uncompressed, and mask no value by the name
    of its key.
    """
    plain = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{events}",
        "spark.redaction.regex": NOTHING,
        "spark.broadcast.compress": "false",
        "spark.shuffle.compress": "false",
        "spark.shuffle.spill.compress": "false",
    }
    lines = "".join(f"{key} {value}\n" for key, value in plain.items())
    (folder / "spark-defaults.conf").write_text(lines)


def environments(events: Path) -> list[dict[str, Any]]:
    """Return the effective configurations in an event log: of Spark, of Hadoop and of the JVM."""
    lines = [
        json.loads(line)
        for path in events.rglob("*")
        if path.is_file() and not path.name.endswith(".crc")
        for line in path.read_text().splitlines()
    ]
    return [line for line in lines if line["Event"] == "SparkListenerEnvironmentUpdate"]


def words_in(path: Path) -> str:
    """Return what a file says; a table is unpacked."""
    if path.suffix == ".parquet":
        return repr(pq.read_table(path).to_pylist())
    return path.read_bytes().decode(errors="replace")


class FilesWhileTheyExist:
    """Collects what files below some folders hold during the block: Spark removes its own at the
    end.
    """

    def __init__(self, *folders: Path) -> None:
        self._folders = folders
        self._sizes: dict[Path, tuple[int, int]] = {}
        self._contents: dict[Path, bytes] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> dict[Path, bytes]:
        self._thread.start()
        return self._contents

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            for folder in self._folders:
                for parent, _, names in os.walk(folder):
                    for name in names:
                        self._read(Path(parent) / name)

    def _read(self, path: Path) -> None:
        try:
            status = path.stat()
            state = (status.st_size, status.st_mtime_ns)
            if stat.S_ISREG(status.st_mode) and self._sizes.get(path) != state:
                self._sizes[path] = state
                self._contents[path] = self._contents.get(path, b"") + path.read_bytes()
        except OSError:
            return  # it is gone already

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()


class CommandLines:
    """Collects the command lines of all processes during the block."""

    def __enter__(self) -> set[str]:
        self._seen: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self._seen

    def _look(self) -> None:
        while not self._over.wait(0.1):
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit():
                    try:
                        self._seen.add(
                            (entry / "cmdline")
                            .read_bytes()
                            .replace(b"\0", b" ")
                            .decode(errors="replace")
                        )
                    except OSError:
                        continue

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
