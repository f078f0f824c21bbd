"""The commands of findings, run in BookKeeper's own shell: it knows them, and they do what the
finding says.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from support import real_bookkeeper
from support.findings_by_kind import EXAMPLES, MARK, facts_types
from support.printed_commands import harmless, read_tree, run_printed, state_of
from support.raw_bookie import read_request, status_name
from support.real_cluster import RealCluster
from support.real_jars import PROJECT, bookkeeper_jars
from support.real_processes import free_port, java_command

from auditor.model.facts import (
    CorruptFacts,
    EntryFacts,
    EntryLogLostFacts,
    Facts,
    FailingFacts,
    LostContentFacts,
    MarkFacts,
    MarkWithoutLedgerFacts,
    Search,
    UnrecoverableFacts,
)
from auditor.model.finding import CATALOGUE, Finding, Kind, Subject
from auditor.model.identity import LedgerId
from auditor.wire.znode_paths import UNDERREPLICATION, mark_path
from auditor.witness.ledger_commands import GC_PAUSE_MS, SAVE_ZOOKEEPER
from auditor.witness.next_commands import next_commands, sort_steps

pytestmark = pytest.mark.real

SHELL = "bookkeeper shell "
LEDGER, WORST = 7, 4
FAILING, WITHOUT_LEDGER = EXAMPLES[FailingFacts], EXAMPLES[MarkWithoutLedgerFacts]
LOST_LOG = EXAMPLES[EntryLogLostFacts]
assert isinstance(LOST_LOG, EntryLogLostFacts)
assert isinstance(FAILING, FailingFacts) and isinstance(WITHOUT_LEDGER, MarkWithoutLedgerFacts)
GONE = {str(ledger_id) for ledger_id in WITHOUT_LEDGER.some_ledgers}
"""Ledgers that the cluster below does not have."""
NO_COLLECTION = {
    "gcWaitTime": GC_PAUSE_MS,
    "minorCompactionInterval": -1,
    "majorCompactionInterval": -1,
}
EAGER = {**NO_COLLECTION, "gcWaitTime": 1_000, "gcOverreplicatedLedgerWaitTime": 1}
COLLECTS, KEEPS_STRANDED, KEEPS_ALL = "b4", "b5", "b6"
SETTINGS: dict[str, dict[str, int]] = {
    COLLECTS: EAGER,
    KEEPS_STRANDED: {**EAGER, "gcOverreplicatedLedgerWaitTime": 0},
    KEEPS_ALL: NO_COLLECTION,
}
SHELL_TRIES_MAX = 5
ZOOKEEPER_TIMEOUT_S = 60.0
POLL_S = 0.2
COLLECTED_TIMEOUT_S = 120.0
"""How long the eager bookie may take to collect, in seconds: three rounds of a second or two, on a
busy machine.
"""


def finding(kind: Kind) -> Finding:
    """Return a finding of each kind on the cluster below: entry 4 of ledger 7 is not on b2, and b4
    has it as well.
    """
    subject = CATALOGUE[kind].subject
    entry = EntryFacts(
        WORST,
        ("b2",),
        search=Search(
            1,
            1,
            1,
            0,
            (KEEPS_STRANDED,),
            (KEEPS_STRANDED,),
            (KEEPS_STRANDED,),
            found_first=(WORST,),
        ),
    )
    mark = replace(MARK, missing_replicas=("b2",))
    of_kind: dict[type, Facts] = {
        CorruptFacts: CorruptFacts(WORST, ("b2",), (("b2", (WORST,)),)),
        EntryFacts: entry,
        EntryLogLostFacts: replace(
            LOST_LOG, some_logs=(replace(LOST_LOG.some_logs[0], some=((LEDGER, WORST, WORST),)),)
        ),
        FailingFacts: replace(FAILING, some_ledgers=(LEDGER,)),
        LostContentFacts: LostContentFacts("writable", "h:3181", 4, False, 3, 29, 30, (LEDGER,)),
        MarkFacts: mark,
        UnrecoverableFacts: UnrecoverableFacts(entry, mark),
    }
    facts_type = facts_types(kind)[-1]
    return Finding(
        kind,
        of_kind.get(facts_type, EXAMPLES[facts_type]),
        ledger_id=LEDGER if subject is Subject.LEDGER else None,
        bookie_id="b2" if subject is Subject.BOOKIE else None,
        entries=((WORST, WORST),),
        missing_on=(("b2", ((WORST, WORST),)),),
    )


def offered(kind: Kind) -> list[str]:
    return next_commands(finding(kind), replication_disabled=True)


def of_shell(commands: list[str]) -> list[list[str]]:
    """Return the arguments of those commands that are for BookKeeper's shell."""
    steps = sort_steps(commands)
    plain = [*steps.save, *steps.look, *steps.change]
    return [shlex.split(command)[2:] for command in plain if command.startswith(SHELL)]


@cache
def usage() -> dict[str, str]:
    """Return the shell's own help by command; options before the command are under the empty
    name.
    """
    command = java_command(
        bookkeeper_jars(),
        "org.apache.bookkeeper.bookie.BookieShell",
        heap="128m",
        log4j2=real_bookkeeper.LOG4J2_SHELL,
    )
    said = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    first, *parts = re.split(r"^ {7}(?=[a-zA-Z])", said.stdout + said.stderr, flags=re.MULTILINE)
    return {"": first} | {part.split()[0]: part for part in parts}


def unknown_to_the_shell(arguments: list[str]) -> list[str]:
    """Return the command if the shell does not have it; else its options that the shell's help does
    not name.
    """
    command = next((word for word in arguments if word in usage()), None)
    if command is None:
        return arguments
    before, after = arguments[: arguments.index(command)], arguments[arguments.index(command) + 1 :]
    options = [
        (option, usage_text)
        for words, usage_text in ((before, usage()[""]), (after, usage()[command]))
        for option in words
    ]
    return [
        o
        for o, usage_text in options
        if re.fullmatch(r"-[a-z]+", o) and not re.search(rf"{o}[,\s\]]", usage_text)
    ]


@pytest.mark.parametrize("kind", Kind)
def test_the_shell_knows_every_command_and_option(kind: Kind) -> None:
    """Each is one of the shell's commands, with options that its own help names."""
    assert {"readledger", "recover", "clusterinfo"} <= usage().keys()
    assert [] == [
        (words, bad) for words in of_shell(offered(kind)) if (bad := unknown_to_the_shell(words))
    ]


@pytest.mark.parametrize(
    "page", sorted((PROJECT / "docs" / "findings").glob("*.md")), ids=lambda page: page.stem
)
def test_the_shell_knows_what_the_pages_say(page: Path) -> None:
    """This holds for every command in a code block of docs/findings."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", page.read_text(), re.DOTALL | re.MULTILINE)
    commands = [
        line.strip()
        for block in blocks
        for line in block.splitlines()
        if line.strip().startswith(SHELL)
    ]
    assert [] == [
        (words, bad) for words in of_shell(commands) if (bad := unknown_to_the_shell(words))
    ]
    assert commands or page.stem == "README"


def test_what_the_shell_does_not_know_is_noticed() -> None:
    """The two tests above can fail."""
    assert ["-zz"] == unknown_to_the_shell(["recover", "-q", "-zz", "b2"])
    assert ["reread", "-l", "7"] == unknown_to_the_shell(["reread", "-l", "7"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield a cluster: ledger 7 lacks entry 4 on b2; b4, b5 and b6, which it does not name, hold
    that entry and a ledger without metadata.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            real_bookkeeper.RealBookie,
            "write_config",
            _with_settings(real_bookkeeper.RealBookie.write_config),
        )
        with RealCluster(tmp_path_factory.mktemp("commands"), bookies=6) as made:
            made.place(LEDGER, made.ledger("e3 w2 a2 0:[b1 b2 b3] closed 9"), {"b2": str(WORST)})
            made.place(8, made.ledger("e3 w2 a2 0:[b1 b2 b3] 5:[b1 b2 b4] closed 9"))
            made.hold(COLLECTS, 8, "0")
            made.add_ledger(9, made.ledger("e3 w2 a2 0:[b1 b2 b3] open"))
            made.hold(COLLECTS, 9, "0")
            made.elect_auditor("b1")
            made.set_lost_bookie_recovery_delay(0)
            for holder in (COLLECTS, KEEPS_STRANDED, KEEPS_ALL):
                made.hold(holder, LEDGER, str(WORST))
                made.hold(holder, 99, "0")
            yield made


def _with_settings(write_config: Any) -> Any:
    """Write a bookie's configuration with SETTINGS in place of its own."""

    def write(self: real_bookkeeper.RealBookie, read_only: bool = False) -> None:
        write_config(self, read_only)
        mine = SETTINGS.get(self.bookie_id, {})
        kept = [
            line for line in self.config.read_text().splitlines() if line.split("=")[0] not in mine
        ]
        self.config.write_text(
            "\n".join([*kept, *(f"{key}={value}" for key, value in mine.items()), ""])
        )

    return write


def read_on(cluster: RealCluster, bookie: str, ledger: int, entry: int) -> str:
    """Return `held`, or the exception that the shell names.

    The shell ends its client at the first refusal. If another answer arrives just then, it exits
    with an error of its own ("Executor is shutting down"), which says nothing about the entry. The
    read is then repeated, at most SHELL_TRIES_MAX times.
    """
    for tries_left in reversed(range(SHELL_TRIES_MAX)):
        try:
            said = cluster.shell(
                "readledger",
                "-l",
                str(ledger),
                "-fe",
                str(entry),
                "-le",
                str(entry + 1),
                "-b",
                bookie,
            )
            break
        except RuntimeError as failure:
            if "Executor is shutting down" not in str(failure) or not tries_left:
                raise
    error = re.search(r"BKException\$BK(\w+)Exception", said)
    return "held" if f"Lid={ledger}, Eid={entry} " in said else error[1] if error else "nothing"


def answer_of(cluster: RealCluster, bookie: str, ledger: int, entry: int) -> str:
    """Return a bookie's answer to READ_ENTRY, in BookKeeper's own word. The shell would start a JVM
    for each.
    """
    with cluster.connect(bookie) as connection:
        return status_name(
            connection.ask(read_request(ledger, entry, connection.next_txn_id())).status
        )


def said_by(cluster: RealCluster, words: tuple[str, ...]) -> str:
    """Return the shell's output. It fails on a ledger without metadata, and that is the expected
    answer.
    """
    if words[0] == "ledgermetadata" and words[2] in GONE:
        with pytest.raises(
            RuntimeError, match="No such ledger exists on Metadata Server"
        ) as raised:
            cluster.shell(*words)
        return str(raised.value)
    return cluster.shell(*words)


@pytest.mark.long
def test_what_saves_and_looks_is_answered_and_changes_nothing(
    cluster: RealCluster, tmp_path: Path
) -> None:
    """Every such command ends and needs no confirmation. Every znode is the same after it, and so
    is what each bookie that collects no garbage has.
    """
    looks = {
        tuple(words)
        for kind in Kind
        for words in of_shell(harmless(next_commands(finding(kind), replication_disabled=False)))
    }
    assert len(looks) > 10
    before = kept(cluster)
    for words in sorted(looks):
        if words[0] == "ledgermetadata" and words[2] in GONE:
            said_by(cluster, words)
        else:
            said = run_printed(cluster, SHELL + shlex.join(words), tmp_path)
            assert "Unable to find command" not in said.text, words
    assert before == kept(cluster)


def kept(cluster: RealCluster) -> dict[object, object]:
    """Return the state of the cluster without the bookies that collect garbage eagerly, and without
    the znodes that such a bookie makes when it first looks for marks. The cluster `untouched` has
    no such bookie.
    """
    eager = (COLLECTS, KEEPS_STRANDED)
    made = {f"{cluster.root}{UNDERREPLICATION}/{name}" for name in ("LAYOUT", "ledgers", "locks")}
    return {
        key: value
        for key, value in state_of(cluster).items()
        if not (isinstance(key, tuple) and key[0] in eager) and key not in made
    }


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield a cluster on which no auto-recovery ever ran; ledger 8 is still open."""
    with RealCluster(tmp_path_factory.mktemp("untouched"), bookies=3) as made:
        made.place(LEDGER, made.ledger("e3 w2 a2 0:[b1 b2 b3] closed 9"), {"b2": str(WORST)})
        made.place(8, made.ledger("e3 w2 a2 0:[b1 b2 b3] open"), written=9)
        yield made


@pytest.mark.long
def test_reading_and_planning_leave_an_open_ledger_open(untouched: RealCluster) -> None:
    """None of them opens it with recovery: a writer can go on after them."""
    before = state_of(untouched)
    for words in (
        ("readledger", "-l", "8", "-fe", "0", "-le", "1"),
        ("readledger", "-l", "8", "-fe", "0", "-le", "1", "-b", "b1"),
        ("recover", "-dr", "-f", "-l", "8", "b2"),
    ):
        untouched.shell(*words)
    assert before == state_of(untouched)
    untouched.hold("b1", 8, "10")


@pytest.mark.long
def test_a_copy_of_zookeepers_files_has_every_znode(untouched: RealCluster, tmp_path: Path) -> None:
    """It is made while the server runs. A server that is started on the copy reads it."""
    before = state_of(untouched)
    assert 0 == run_printed(untouched, SAVE_ZOOKEEPER, tmp_path).code
    data = tmp_path / "zookeeper" / real_bookkeeper.DATA
    data.mkdir(parents=True)
    (tmp_path / "SAVED_ZOOKEEPER").rename(data / "version-2")
    port = free_port()
    server = real_bookkeeper.start_zookeeper(untouched.jars, tmp_path / "zookeeper", port)
    client = KazooClient(f"127.0.0.1:{port}")
    try:
        client.start(ZOOKEEPER_TIMEOUT_S)
        assert read_tree(untouched.zk) == read_tree(client)
    finally:
        client.stop()
        client.close()
        server.kill()
    assert before == state_of(untouched)


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        "clusterinfo",
        "queryautorecoverystatus",
        "listunderreplicated",
    ],
)
def test_commands_on_auto_recovery_make_znodes_where_it_never_ran(
    untouched: RealCluster, tmp_path: Path, command: str
) -> None:
    """Therefore the children of that znode are listed instead, with ZooKeeper's own shell."""
    where = untouched.root + UNDERREPLICATION
    assert untouched.zk.exists(where) is None
    before = state_of(untouched)
    said = run_printed(untouched, f"zkCli.sh -server ZOOKEEPER ls {where}", tmp_path)
    assert "Node does not exist" in said.text and before == state_of(untouched)
    untouched.shell(command)
    made = {"LAYOUT", "locks"} & set(untouched.zk.get_children(where))
    untouched.zk.delete(where, recursive=True)
    assert {"LAYOUT", "locks"} == made


@pytest.mark.long
def test_listunderreplicated_fails_at_a_znode_that_is_no_mark(
    untouched: RealCluster, tmp_path: Path
) -> None:
    """Therefore a mark is read by itself. Both show what it names."""
    untouched.mark(LEDGER, ["b2"])
    assert "b2" in untouched.shell("listunderreplicated", "-pmr", "-prw")
    mark = untouched.root + mark_path(LEDGER)
    untouched.set_raw(f"{mark.rpartition('/')[0]}/urL-1907126707656498384", b"")
    with pytest.raises(RuntimeError, match="ListUnderReplicated"):
        untouched.shell("listunderreplicated", "-pmr", "-prw")
    said = run_printed(untouched, f"zkCli.sh -server ZOOKEEPER get {mark}", tmp_path)
    assert 'replica: "b2"' in said.text


@pytest.mark.long
def test_reading_on_one_bookie_shows_what_it_holds(cluster: RealCluster) -> None:
    """It is run on the bookie that lacks the entry, and on one that has it; a range that ends where
    it begins is empty.
    """
    assert "NoSuchEntry" == read_on(cluster, "b2", LEDGER, WORST)
    assert "held" == read_on(cluster, "b3", LEDGER, WORST)
    entry = str(WORST)
    assert f"Eid={entry}" not in cluster.shell(
        "readledger", "-l", str(LEDGER), "-fe", entry, "-le", entry, "-b", "b3"
    )


@pytest.mark.long
def test_a_bookie_collects_what_metadata_does_not_put_on_it_unless_configured_not_to(
    cluster: RealCluster,
) -> None:
    """Collected: a closed ledger that no segment puts there, and a ledger without metadata. Kept:
    an open one, one with a segment there, the former with gcOverreplicatedLedgerWaitTime=0, and
    both with a long gcWaitTime.
    """
    deadline = time.monotonic() + COLLECTED_TIMEOUT_S
    awaited = [(COLLECTS, LEDGER, WORST), (COLLECTS, 99, 0), (KEEPS_STRANDED, 99, 0)]
    while any(answer_of(cluster, *one) == "EOK" for one in awaited):
        assert time.monotonic() < deadline, (
            f"still not collected: {[answer_of(cluster, *one) for one in awaited]}"
        )
        time.sleep(POLL_S)
    assert ["ENOLEDGER"] * 3 == [answer_of(cluster, *one) for one in awaited]
    kept = [
        (COLLECTS, 8, 0),
        (COLLECTS, 9, 0),
        (KEEPS_STRANDED, LEDGER, WORST),
        (KEEPS_ALL, LEDGER, WORST),
        (KEEPS_ALL, 99, 0),
    ]
    assert ["EOK"] * 5 == [answer_of(cluster, *one) for one in kept]


def ensemble_of(cluster: RealCluster, ledger_id: LedgerId) -> list[str]:
    """Return the first ensemble, as the shell reads it."""
    said = cluster.shell("ledgermetadata", "-l", str(ledger_id))
    found = re.search(r"ensembles=\{0=\[(.*?)\]", said)
    assert found is not None, said
    return found[1].split(", ")


@pytest.mark.long
def test_recover_gives_the_share_of_one_bookie_to_another(
    shared_cluster: RealCluster, ledger_ids: Iterator[LedgerId]
) -> None:
    """This is the command below a quorum. After confirmation another bookie is named and holds the
    entry.
    """
    number = next(ledger_ids)
    shared_cluster.place(
        number, shared_cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 9"), {"b2": "4"}
    )
    shared_cluster.shell("recover", "-f", "-l", str(number), "b2")
    first, new, third = ensemble_of(shared_cluster, number)
    assert ("b1", "b3") == (first, third) and new in ("b4", "b5")
    assert "held" == read_on(shared_cluster, new, number, 4)


@pytest.mark.long
def test_recover_does_not_part_a_bookie_that_stands_twice(
    shared_cluster: RealCluster, ledger_ids: Iterator[LedgerId]
) -> None:
    """Therefore no command is proposed for such a ledger: one new bookie takes both places."""
    number = next(ledger_ids)
    shared_cluster.place(number, shared_cluster.ledger("e3 w2 a2 0:[b1 b2 b1] closed 9"))
    shared_cluster.shell("recover", "-f", "-l", str(number), "b1")
    first, second, third = ensemble_of(shared_cluster, number)
    assert (first, second) == (third, "b2") and first != "b1"


@pytest.mark.long
def test_recover_fails_where_no_copy_is_left(
    shared_cluster: RealCluster, ledger_ids: Iterator[LedgerId]
) -> None:
    """Therefore no command is proposed for a lost entry: the shell fails, and the metadata
    stays.
    """
    number = next(ledger_ids)
    shared_cluster.place(
        number, shared_cluster.ledger("e3 w2 a2 0:[b1 b2 b3] closed 9"), {"b2": "4", "b3": "4"}
    )
    with pytest.raises(RuntimeError, match="exited with"):
        shared_cluster.shell("recover", "-f", "-l", str(number), "b2")
    assert ["b1", "b2", "b3"] == ensemble_of(shared_cluster, number)


@pytest.mark.long
def test_a_ledger_left_open_is_closed_by_reading_it_with_recovery(
    shared_cluster: RealCluster, ledger_ids: Iterator[LedgerId]
) -> None:
    """This is the command for a stuck ledger that no topic owns."""
    number = next(ledger_ids)
    shared_cluster.place(number, shared_cluster.ledger("e3 w2 a2 0:[b1 b2 b3] open"), written=9)
    shared_cluster.shell("readledger", "-l", str(number), "-fe", "0", "-le", "0", "-r")
    assert "state=CLOSED" in shared_cluster.shell("ledgermetadata", "-l", str(number))
