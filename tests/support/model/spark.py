"""A history through whole runs on Spark, compared with the engine without Spark and with the
truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp

from support.model.halves import Halves
from support.model.history import Broken, Cluster, raised, shortest
from support.model.on_spark import on_spark, wrong_run
from support.model.properties import differing

SHRINKS_MAX = 25
"""Histories tried in search of a shorter failing one. Each takes seconds."""


def through_spark(
    cluster: Cluster, lines: Sequence[str], workdir: Path, shrinks_max: int = SHRINKS_MAX
) -> None:
    """Run a history whose end a whole run judges; each audit that is killed and resumed in it is a
    whole run, too.

    Raises Broken, with the shortest failing history. The caller has a Spark session (the fixture
    `spark`). 3 to 10 s, and as much again for each killed audit.
    """
    _holds(_cut_down, cluster, lines, workdir, shrinks_max)


def end_through_spark(cluster: Cluster, lines: Sequence[str], workdir: Path) -> None:
    """Do the same with a single whole run, at the end. 3 to 10 s."""
    _holds(_at_the_end, cluster, lines, workdir, SHRINKS_MAX)


def each_through_spark(cluster: Cluster, lines: Sequence[str], workdir: Path) -> None:
    """Do the same with a whole run after each action. Minutes; but a failing action is then the
    last one, and the history is shrunk accordingly.
    """
    if failure := _failure(_at_each, cluster, lines, workdir):
        end_through_spark(cluster, failure.lines, workdir)
        raise failure


Way = Callable[[Cluster, Sequence[str], Path], list[str]]
"""A history through the model: returns what is broken first, as sentences."""


def _holds(
    way: Way, cluster: Cluster, lines: Sequence[str], workdir: Path, shrinks_max: int
) -> None:
    if failure := _failure(way, cluster, lines, workdir):
        short = shortest(
            failure.lines,
            lambda some: _failure(way, cluster, some, workdir) is not None,
            shrinks_max,
        )
        raise _failure(way, cluster, short, workdir) or failure


def _failure(way: Way, cluster: Cluster, lines: Sequence[str], workdir: Path) -> Broken | None:
    try:
        sentences = way(cluster, lines, workdir)
    except Broken as broken:  # raised by the engine without Spark
        sentences = broken.sentences
    except Exception as error:  # counts, resumption, Spark
        sentences = [raised(error)]
    return Broken(cluster.lines, sentences, f"{cluster.where}--spark ") if sentences else None


def _cut_down(cluster: Cluster, lines: Sequence[str], workdir: Path) -> list[str]:
    """Judge a history in which each resumed audit is a whole run; without one, judge its end."""
    return _broken_on_the_way(cluster, lines, workdir) or _broken_at_the_end(cluster, workdir)


def _at_the_end(cluster: Cluster, lines: Sequence[str], workdir: Path) -> list[str]:
    cluster.begin()
    for line in lines:
        cluster.happen(line)
    return _broken_at_the_end(cluster, workdir)


def _at_each(cluster: Cluster, lines: Sequence[str], workdir: Path) -> list[str]:
    cluster.begin()
    for line in lines:
        so_far = len(cluster.lines)
        cluster.step(line)
        if len(cluster.lines) > so_far and (sentences := _broken_on_spark(cluster, workdir)):
            return sentences
    return []


def _broken_on_the_way(cluster: Cluster, lines: Sequence[str], workdir: Path) -> list[str]:
    """Apply the whole history, until a resumed audit in it is wrong."""
    cluster.begin()
    halves: Halves | None = None
    for line in lines:
        if not cluster.happen(line):
            continue
        if cluster.truth.cut is not None and halves is None:
            cluster.world.become(cluster.truth)
            halves = Halves(
                cluster.world.metadata_service_uri, Path(mkdtemp(dir=workdir)), cluster.truth.cut
            )
            halves.begin()
        if cluster.truth.cut is None and halves is not None:
            cluster.world.become(cluster.truth)
            halves.send_more()
            if sentences := [*halves.broken(cluster.truth)]:
                return sentences
            halves = None
    return []


def _broken_at_the_end(cluster: Cluster, workdir: Path) -> list[str]:
    """Judge the present cluster by the engine without Spark and by a whole run."""
    cluster.step("again")
    cluster.lines.pop()  # not part of the history
    return _broken_on_spark(cluster, workdir)


def _broken_on_spark(cluster: Cluster, workdir: Path) -> list[str]:
    """Compare a whole run of the present cluster with the last result of the engine without
    Spark.
    """
    run = on_spark(cluster.world.metadata_service_uri, Path(mkdtemp(dir=workdir)))
    return [*differing(cluster.rows, run.rows), *wrong_run(cluster.truth, run)]
