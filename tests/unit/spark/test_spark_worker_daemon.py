"""What a worker of Spark costs before its first task: counted, not timed."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyspark
import pytest

from auditor.host_limits import POOL_VARIABLE
from auditor.spark.worker_daemon import PYSPARK_ZIP, WORKER_MEMORY_VARIABLE, without_zip

INSTALLED = Path(pyspark.__file__).parent
ZIP = INSTALLED / "python" / "lib" / PYSPARK_ZIP
WORKER = """
import sys
from zipimport import zipimporter
import auditor.spark.worker_daemon
import pyspark
zips = [f for f in sys.path_importer_cache.values() if isinstance(f, zipimporter)]
print(pyspark.__file__)
print(len(zips))
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""


def test_the_daemon_imports_pyspark_from_files_and_leaves_no_zip_to_be_read_by_each_worker():
    """Spark puts its zips first in the path of its daemon."""
    assert ZIP.exists()
    first = [str(ZIP), *map(str, ZIP.parent.glob("py4j-*-src.zip"))]
    path = os.pathsep.join([*first, os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", WORKER]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert [str(INSTALLED / "__init__.py"), "0"] == done.stdout.split()[:2]


@pytest.mark.parametrize("limited", [{}, {WORKER_MEMORY_VARIABLE: "2048"}])
def test_workers_of_limited_address_space_allocate_as_arrow_does_by_default(limited):
    """jemalloc keeps address space that it does not use. Spark limits it after the fork."""
    env = {name: value for name, value in os.environ.items() if name != POOL_VARIABLE} | limited
    done = subprocess.run(
        [sys.executable, "-c", WORKER], env=env, capture_output=True, text=True, check=True
    )
    has_jemalloc = "jemalloc" in pyarrow.supported_memory_backends()
    expected = "jemalloc" if has_jemalloc and not limited else "mimalloc"
    assert expected == done.stdout.split()[-1]


def test_the_zip_of_another_spark_stays_first(tmp_path):
    """Its modules may be of another version than those that are installed."""
    theirs = str(tmp_path / "python" / "lib" / PYSPARK_ZIP)
    path = [theirs, str(INSTALLED.parent)]
    assert path == without_zip(path)


def test_the_zip_stays_if_pyspark_is_not_installed_elsewhere(tmp_path):
    path = [str(ZIP), str(tmp_path)]
    assert path == without_zip(path)


def test_the_other_entries_stay_in_their_order(tmp_path):
    path = [str(tmp_path), str(ZIP), str(INSTALLED.parent), str(tmp_path / "more")]
    assert [path[0], *path[2:]] == without_zip(path)
