"""The lines of the shell blocks in the documents, and what each line needs to run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[2]
SHELL = ("sh", "bash", "console")
FOLDERS = ("docs", "deploy", "proto", "benchmarks")
NEEDS_A_CLUSTER = frozenset(
    {"run", "ledger", "topic", "rehearse", "salvage", "topology", "lister", "init"}
)
"""Our commands that ask ZooKeeper or bookies, whatever their flags are."""
TO_A_CLUSTER = ("--metadata-service-uri", "--config")
"""Flags that name a cluster: `doctor` with one of them asks it. `margin` asks it with --now."""
ON_A_CLUSTER = frozenset({"bookkeeper", "pulsar-admin", "curl", "zkCli.sh", "kubectl", "ls", "cp"})
"""Other programs that need a cluster or a bookie's disk. tests/cluster/test_next_commands.py runs
those that findings name on real BookKeeper."""
ON_A_HOST = frozenset(
    {
        *(
            "apt-get",
            "docker",
            "helm",
            "install",
            "jq",
            "kadmin",
            "keytool",
            "openssl",
            "pip",
            "pipx",
            "prometheus",
            "prometheus-pushgateway",
            "promtool",
            "shellcheck",
        ),
        *("sudo", "systemctl", "systemd-analyze", "useradd", "uvx", "python3"),
        "deploy/rolling-restart/rolling-restart.sh",
        "deploy/spark-submit/auditor-submit.sh",
        *("deploy/spark-submit/pack-environment.sh", "mkdir", "export"),
    }
)
"""Programs that change a host, or belong to another project. tests/adapters/test_deploy_*.py tries
the files in deploy/ that they use."""
OF_THE_TREE = frozenset({"make", ".venv/bin/python"})
"""Programs that contributors run. A separate test checks that the targets and files exist."""
COMPLETION = re.compile(r"_AUDITOR_COMPLETE=(\w+)_source auditor")


class ShownLine(NamedTuple):
    """One line of a shell block without its prompt; continued lines are joined."""

    where: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words up to a redirection, with `auditor` for each way to reach the program."""
        text = re.sub(r"^\S*bin/(?=(auditor|pip) )", "", self.text)
        words = shlex.split(re.sub(r"^([A-Z_]+=\S+ )+", "", text), comments=True)
        end = next((n for n, word in enumerate(words) if word in (">", "|", "&&")), len(words))
        return words[:end]

    @property
    def needs(self) -> str:
        """`run` if a stored run is enough, else what prevents a test from running it here.

        Raises ValueError for a program that is in none of the lists above.
        """
        if COMPLETION.search(self.text):
            return "run"
        program, *arguments = self.words
        if program == "auditor":
            asks = any(flag in arguments for flag in TO_A_CLUSTER)
            is_poison = any("/poison/" in word for word in arguments)
            asks = asks if arguments[0] == "doctor" else "--now" in arguments
            if arguments[0] in NEEDS_A_CLUSTER or asks:
                return "cluster"
            return "poison ledger" if is_poison else "run"
        owners = {"cluster": ON_A_CLUSTER, "host": ON_A_HOST, "tree": OF_THE_TREE}
        for need, programs in owners.items():
            if program in programs:
                return need
        raise ValueError(f"{self.where}: no rule says what {program!r} needs: {self.text}")


def documents() -> list[Path]:
    """Return every document of the project, sorted."""
    found = [*PROJECT.glob("*.md"), *(p for one in FOLDERS for p in (PROJECT / one).rglob("*.md"))]
    return sorted(path for path in found if "node_modules" not in path.parts)


def _lines(path: Path) -> Iterator[ShownLine]:
    fence, pending = "", ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if text.startswith("```"):
            fence = "" if fence else text.removeprefix("```") or "none"
            continue
        if fence not in SHELL or text.startswith("#") or not text:
            continue
        if fence == "console" and not pending:
            if not text.startswith("$ "):
                continue
            text = text.removeprefix("$ ")
        text, pending = pending + text, ""
        if text.endswith("\\"):
            pending = text[:-1]
            continue
        yield ShownLine(f"{path.relative_to(PROJECT)}:{number}", text)


def shown_lines() -> list[ShownLine]:
    """Return the lines of all shell blocks, without comments and console output."""
    return [line for path in documents() for line in _lines(path)]
