"""Replay one history through the model, and print what is said after each action.

    .venv/bin/python tests/model/replay.py 'create 1 e3 w2 a2 b1 b2 b3; append 1 9; close 1'
    .venv/bin/python tests/model/replay.py --real '...'           # on real BookKeeper
    .venv/bin/python tests/model/replay.py --spark '...'          # a whole run on Spark at its end
    .venv/bin/python tests/model/replay.py --seed 7 --steps 40    # the history of a seed

Exits 1 if a property breaks, with the sentence that says which. Without a history it prints the
table of actions.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.model import actions, clusters
from support.model.history import Broken, Cluster, draw_history
from support.model.spark import SHRINKS_MAX, through_spark

from auditor.spark.session import spark_session
from auditor.stop import StopRequest


def main(words: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description="Take one history through the model.")
    parser.add_argument("history", nargs="?", help="actions, with ; between them")
    parser.add_argument("--real", action="store_true", help="on real BookKeeper")
    parser.add_argument("--spark", action="store_true", help="a whole run on Spark at its end")
    parser.add_argument("--seed", help="the history of this seed instead")
    parser.add_argument("--steps", type=int, default=12, help="actions of that history")
    given = parser.parse_args(words)
    if given.history is None and given.seed is None:
        print("\n".join(f"{action.weight:3} {action.name}" for action in actions.ACTIONS))
        return 0
    with (
        tempfile.TemporaryDirectory() as workdir,
        clusters.started(Path(workdir), real=given.real) as cluster,
    ):
        first = cluster.truth
        lines = (
            actions.lines_of(given.history)
            if given.history
            else draw_history(given.seed, given.steps, first)
        )
        try:
            _replay(cluster, lines)
            if given.spark:
                with spark_session(6, "local[2]", StopRequest()):
                    through_spark(
                        cluster, lines, Path(workdir), 0 if given.history else SHRINKS_MAX
                    )
        except Broken as failure:
            print(f"\n{failure}")
            return 1
    return 0


def _replay(cluster: Cluster, lines: Sequence[str]) -> None:
    for line in lines:
        print(line)
        cluster.step(line)
        if line == "resume":
            for number, row in cluster.went_on.items():
                print(f"  of ledger {number} the audit that went on says: {row}")
        for number, row in cluster.rows.items():
            print(f"  ledger {number}: {row}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
