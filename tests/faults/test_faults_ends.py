"""How the end of a run finds the process that it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.ends import jvm_of
from support.started_command import Started

FORKS = r"import os, time; os.fork(); os.write(1, b'forked\n'); time.sleep(60)"
"""One write a process: what two print at once may be mixed."""
WAIT_S = 20.0
"""How long the processes of a session may take to end, in seconds."""


@contextmanager
def named_java(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a session whose only program is named java, which is Python in truth."""
    process = subprocess.Popen(
        ["/opt/jdk/bin/java", "-c", code],
        executable=sys.executable,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
        process.communicate(timeout=WAIT_S)


def test_a_process_that_the_jvm_is_about_to_start_is_not_taken_for_it(tmp_path: Path) -> None:
    """Between fork and exec a child has the name of its parent."""
    with named_java(FORKS) as process:
        assert process.stdout is not None
        assert [b"forked\n"] * 2 == [process.stdout.readline() for _ in range(2)]
        assert process.pid == jvm_of(Started(process, tmp_path))
