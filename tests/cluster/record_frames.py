"""Record what real bookies say, into tests/cluster/recorded/: `.venv/bin/python
tests/cluster/record_frames.py`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import recorded_frames
from support.bookies_under_test import STORAGES, real_bookie
from support.real_cluster import RealCluster


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        RealCluster(
            Path(folder), bookies=len(STORAGES), storage=list(STORAGES.values())
        ) as cluster,
    ):
        for kind in STORAGES:
            bookie = real_bookie(cluster, kind)
            recorded_frames.seed(bookie)
            exchanges = recorded_frames.ask(bookie, recorded_frames.requests())
            print(f"{len(exchanges)} exchanges in {recorded_frames.write(kind, exchanges)}")


if __name__ == "__main__":
    main()
