"""Somebody removes what a run stored: while it pauses, or afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.audits import audit, replay_run
from support.command_line import cluster_with_a_loss, command_here

from auditor.evidence.newest_run import LATEST
from auditor.sandbox.cluster import SandboxCluster

Harm = Callable[[Path], None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    with cluster_with_a_loss(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def remove_table(name: str) -> Harm:
    return lambda run: shutil.rmtree(run / name)


def remove_one_file(name: str) -> Harm:
    return lambda run: min((run / name).rglob("*.parquet")).unlink()


def truncate_one_file(name: str) -> Harm:
    def truncate(run: Path) -> None:
        file = min((run / name).rglob("*.parquet"))
        file.write_bytes(file.read_bytes()[:-9])

    return truncate


WHILE_IT_PAUSES: dict[str, tuple[Harm, str]] = {
    "the metadata": (remove_table("evidence/ledgers"), "evidence/ledgers/"),
    "the listing": (remove_table("evidence/listing"), "evidence/listing/"),
    "an answer": (remove_one_file("evidence/answers"), "evidence/answers/"),
    "the end of a file": (truncate_one_file("evidence/answers"), "evidence/answers/"),
    "the bookies": (remove_table("evidence/bookies"), "evidence/bookies/"),
    "a judging": (remove_table("steps"), "steps/"),
    "everything": (lambda run: shutil.rmtree(run), "evidence/"),
}


@pytest.mark.parametrize("name", WHILE_IT_PAUSES)
def test_a_run_whose_evidence_vanished_is_not_published(
    name: str, cluster: SandboxCluster, tmp_path: Path
) -> None:
    """It ends in exit code 5, and says what is lost. An earlier run stays the newest. No advice
    says to resume it.
    """
    harm, says = WHILE_IT_PAUSES[name]
    output = tmp_path / "audits"

    def lose(_: int) -> None:
        (run,) = output.glob("run-*")
        harm(run)

    prom = tmp_path / "auditor.prom"
    done = audit(
        cluster, tmp_path, between=lose, second_look_delay="1s", metrics_textfile=str(prom)
    )
    assert 5 == done.exit_code, done.stdout
    assert "has lost a part of what this run stored" in " ".join(done.stdout.split())
    assert says in done.stdout
    assert "--resume" not in done.stdout
    assert not (output / LATEST).exists()
    assert 'outcome="UNREACHABLE"} 1' in prom.read_text()


@pytest.fixture(scope="module")
def whole(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a finished run with a finding."""
    done = audit(cluster, tmp_path_factory.mktemp("whole"))
    assert (1, True) == (done.exit_code, done.run_dir is not None)
    assert done.run_dir is not None
    return done.run_dir


AFTERWARDS: dict[str, tuple[Harm, str]] = {
    "a table": (remove_table("evidence/ledgers"), "evidence/ledgers has 0 files"),
    "a file": (remove_one_file("evidence/answers"), "evidence/answers has"),
    "the end of a file": (truncate_one_file("evidence/reads"), "evidence/reads has"),
    "the verdicts": (remove_table("verdicts"), "verdicts has 0 files"),
}


@pytest.mark.parametrize("name", AFTERWARDS)
@pytest.mark.parametrize(
    "line",
    [
        "replay RUN",
        "report RUN",
        "margin RUN",
        "explain 9 RUN",
        "bundle RUN --file F",
        "diff RUN RUN",
    ],
)
def test_a_command_on_a_run_that_lost_a_part_says_which(
    name: str, line: str, whole: Path, tmp_path: Path
) -> None:
    """Exit code 2. Less evidence is neither judged nor shown as if it were all."""
    harm, says = AFTERWARDS[name]
    run = tmp_path / whole.name
    shutil.copytree(whole, run)
    words = {"RUN": str(run), "F": str(tmp_path / "b.tar.gz")}
    harm(run)
    done = command_here(*(words.get(word, word) for word in line.split()))
    assert (2, "") == (done.returncode, done.stdout)
    assert "has lost a part of what the run stored" in done.stderr
    assert says in done.stderr


def test_a_copy_of_a_run_is_whole(whole: Path, tmp_path: Path) -> None:
    """Another directory, other times, and marks that are gone do not matter."""
    run = tmp_path / whole.name
    shutil.copytree(whole, run, ignore=shutil.ignore_patterns(".*", "_*"))
    assert 1 == replay_run(run).exit_code
    assert json.loads((run / "summary.json").read_text())["stored"].keys() > {"verdicts"}
