"""Run the commands that findings print, and compare the cluster before and after.

    before = state_of(cluster)
    for command in harmless(finding["next"]):
        run_printed(cluster, command, tmp_path)
    assert before == state_of(cluster)

The state is every znode with its data and version, except those that live as long as a session, and
what each bookie says of each ledger: its list, where it can list, and its highest entry.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from support.command_line import environment_of
from support.raw_bookie import list_request, read_request
from support.real_bookkeeper import LOG4J2_WARN
from support.real_cluster import RealCluster
from support.real_processes import java_command

from auditor.model.identity import LedgerId
from auditor.wire.znode_paths import LedgerLayout, ledger_id_of
from auditor.witness.next_commands import sort_steps

COMMAND_TIMEOUT_S = 120
HIGHEST = -1
"""READ_ENTRY with this entry id returns the highest entry that a bookie has of a ledger."""
OF_SESSIONS = frozenset({"zookeeper", "namespace", "loadbalance"})
"""Children of the root that come and go with the sessions of brokers."""
LISTLESS = ("DbLedgerStorage",)
"""Storages that do not answer a request for a list."""
SHELL, ZOOKEEPER, AUDITOR = "bookkeeper shell ", "zkCli.sh ", "auditor "


class Said(NamedTuple):
    """How a command ended, and what it printed on both streams."""

    code: int
    text: str


def harmless(lines: Iterable[str]) -> list[str]:
    """Return the commands of a field `next` that must change nothing: those that save, and look."""
    steps = sort_steps(lines)
    return [*steps.save, *steps.look]


def state_of(cluster: RealCluster) -> dict[object, object]:
    """Return every znode and what each bookie that answers has of each ledger."""
    znodes = read_tree(cluster.zk)
    root = cluster.root
    ledgers = sorted(
        ledger_id
        for path in znodes
        if path.startswith(f"{root}/")
        and (ledger_id := ledger_id_of(LedgerLayout.HIERARCHICAL, path[len(root) :])) is not None
    )
    return {**znodes, **dict(_holdings(cluster, ledgers))}


def read_tree(zk: KazooClient) -> dict[str, tuple[bytes, int]]:
    """Return the data and version of every znode that no session keeps."""
    return dict(_znodes(zk, "/"))


def _znodes(zk: KazooClient, path: str) -> Iterable[tuple[str, tuple[bytes, int]]]:
    data, stat = zk.get(path)
    if stat.ephemeralOwner:
        return
    yield path, (bytes(data), stat.version)
    for name in sorted(zk.get_children(path)):
        if path != "/" or name not in OF_SESSIONS:
            yield from _znodes(zk, f"{path.rstrip('/')}/{name}")


def _holdings(cluster: RealCluster, ledgers: Iterable[LedgerId]) -> Iterable[tuple[object, object]]:
    for bookie in cluster.bookie_ids:
        with suppress(OSError), cluster.connect(bookie) as connection:
            for ledger_id in ledgers:
                read = connection.ask(read_request(ledger_id, HIGHEST, connection.next_txn_id()))
                yield (bookie, ledger_id), (read.status, read.readResponse.body)
                if cluster.storage(bookie) not in LISTLESS:
                    said = connection.ask(list_request(ledger_id, connection.next_txn_id()))
                    listed = said.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
                    yield (bookie, ledger_id, "list"), (said.status, listed)


def run_printed(cluster: RealCluster, command: str, directory: Path) -> Said:
    """Run one printed command as a person would, in `directory`, with its placeholders filled in.

    Raises ValueError for a program that no test knows.
    """
    if command.startswith(SHELL):
        try:
            return Said(0, cluster.shell(*_in_directory(shlex.split(command)[2:], directory)))
        except RuntimeError as failure:
            return Said(1, str(failure))
    if command.startswith(ZOOKEEPER):
        words = [_address(cluster, word) for word in shlex.split(command)[1:]]
        main = "org.apache.zookeeper.ZooKeeperMain"
        return _run(java_command(cluster.jars, main, *words, heap="64m", log4j2=LOG4J2_WARN))
    if command.startswith(AUDITOR):
        env = environment_of(
            AUDITOR_METADATA_SERVICE_URI=cluster.metadata_service_uri,
            AUDITOR_SECOND_LOOK_DELAY="0s",
        )
        line = [sys.executable, "-m", "auditor", *shlex.split(command)[1:]]
        return _run(line, directory, env)
    if command.startswith("cp -a ZOOKEEPER_DATA/"):
        filled = command.replace("ZOOKEEPER_DATA", str(cluster.zookeeper_data))
        return _run(shlex.split(filled), directory)
    if command.startswith("ls -l "):
        return _run(shlex.split(command))
    raise ValueError(f"no test knows how to run {command!r}")


def _in_directory(words: list[str], directory: Path) -> list[str]:
    """Return the words with the file that is written in `directory`."""
    after = words.index("-dumptofile") + 1 if "-dumptofile" in words else len(words)
    return [str(directory / word) if at == after else word for at, word in enumerate(words)]


def _address(cluster: RealCluster, word: str) -> str:
    return cluster.zookeeper_hosts if word in ("ZOOKEEPER", "PULSAR_ZOOKEEPER") else word


def _run(line: list[str], directory: Path | None = None, env: dict[str, str] | None = None) -> Said:
    done = subprocess.run(
        line, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False,
        cwd=directory, env=env or dict(os.environ),
    )  # fmt: skip
    return Said(done.returncode, done.stdout + done.stderr)


def harm_of(
    cluster: RealCluster, findings: Iterable[Mapping[str, Any]], directory: Path, most: int
) -> list[tuple[str, list[object]]]:
    """Run what the findings say to save and to look at, at most `most` commands of each sort.

    Return each command after which something differs, with what differs; none is right.
    """
    harm = []
    runs: Counter[str] = Counter()
    before = state_of(cluster)
    for command in dict.fromkeys(one for finding in findings for one in harmless(finding["next"])):
        sort = " ".join(
            word for word in command.split() if not any(c in "0123456789/" for c in word)
        )
        runs[sort] += 1
        if runs[sort] <= most:
            run_printed(cluster, command, directory)
            after = state_of(cluster)
            changed = sorted(map(str, before.items() ^ after.items()))
            harm += [(command, changed)] if changed else []
            before = after
    assert runs, "no finding says what to look at"
    return harm
