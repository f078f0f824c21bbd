#!/usr/bin/env bash
# Packs the auditor and its libraries for executors that have nothing of it:
#
#     pack-environment.sh WHEEL ARCHIVE.tar.gz
#     pack-environment.sh bookkeeper_cluster_auditor-0.1.0-py3-none-any.whl environment.tar.gz
#
# Give the archive to spark-submit with --archives ARCHIVE.tar.gz#environment and PYSPARK_PYTHON=./environment/bin/python. It has
# no Python itself: each machine needs the Python that made it, in the same place. Pack on a machine like those of the cluster.
# PySpark is not packed: Spark gives executors its own.
#
# PYTHON           the Python to pack for; else python3
# PIP_CONSTRAINT   constraints.txt of the release, for the versions that were tried together
set -euo pipefail

if [[ $# -ne 2 || ! -f $1 ]]; then
    printf 'pack-environment: write pack-environment.sh WHEEL ARCHIVE.tar.gz\n' >&2
    exit 2
fi
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

"${PYTHON:-python3}" -m venv "$home/environment"
python=$home/environment/bin/python
"$python" -m pip install --quiet --disable-pip-version-check --no-deps "$1"
# The libraries that the wheel names, but PySpark and those of extras.
"$python" -c '
from importlib.metadata import requires
for line in requires("bookkeeper-cluster-auditor"):
    if "extra ==" not in line and not line.startswith("pyspark"):
        print(line)
' > "$home/requirements.txt"
"$python" -m pip install --quiet --disable-pip-version-check --no-compile -r "$home/requirements.txt"
"$python" -m pip uninstall --quiet --yes pip setuptools
tar -czf "$2" -C "$home/environment" .
