"""A real HDFS on the loopback interface: a name node and a data node in one JVM.

with hdfs(tmp_path) as uri:      # hdfs://127.0.0.1:PORT
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.real_jars import hdfs_jars

from auditor.java import find_java

START_TIMEOUT_S = 240


@contextmanager
def hdfs(workdir: Path) -> Iterator[str]:
    """Yield the URI of an empty file system, which is removed at the end."""
    details = workdir / "details.json"
    command = [
        str(find_java().executable), "-Xmx384m", "-cp", f"{hdfs_jars()}/*",
        f"-Dtest.build.data={workdir}", "org.apache.hadoop.test.MiniDFSClusterManager",
        "-format", "-datanodes", "1", "-nnport", "0", "-writeDetails", str(details),
    ]  # fmt: skip
    with (workdir / "hdfs.log").open("w") as log:
        process = subprocess.Popen(command, cwd=workdir, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not details.is_file() or not details.read_text().endswith("}"):
            assert process.poll() is None, (workdir / "hdfs.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "HDFS did not start"
            time.sleep(0.2)
        yield f"hdfs://127.0.0.1:{json.loads(details.read_text())['namenode_port']}"
    finally:
        process.kill()
        process.wait()
