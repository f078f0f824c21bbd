"""`auditor margin --now`: the gate reads ZooKeeper again before it answers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.audits import audit

from auditor.after.margin_now import Purpose
from auditor.cli import cli
from auditor.commands.margin import margin
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.sandbox.cluster import SandboxCluster
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

PAIR, TRIPLE, OPEN, LATER = 1, 2, 3, 9
LEDGERS = {
    PAIR: "e2 w2 a2 0:[b1 b2] closed 9",
    TRIPLE: "e3 w3 a2 0:[b1 b2 b3] closed 9",
    OPEN: "e3 w3 a2 0:[b3 b4 b5] open",
}
DISKS = ("bookies_known", "bookies_unknown")
NOWHERE = "zk+hierarchical://127.0.0.1:1/ledgers"


class Gate:
    """A cluster, a stored run of it, and the gate's answers."""

    def __init__(self, cluster: SandboxCluster, run_dir: str) -> None:
        self.cluster = cluster
        self.run_dir = run_dir

    def ask(
        self,
        *bookies: str,
        purpose: Purpose = Purpose.RESTART,
        together_max: int | None = None,
        **flags: str,
    ) -> Any:
        """Return the JSON answer; with `format="text"` the exit code and the text."""
        settings = parse(Layers(flags={"format": "json", **flags}), command="margin")
        out = io.StringIO()
        context = Context(settings, out, log.setup(stream=io.StringIO()), Silent(), StopRequest())
        named = [self.cluster.id_of(bookie) for bookie in bookies]
        code = margin(context, self.run_dir, named, purpose, together_max)
        if settings.format == "text":
            return code, out.getvalue()
        answer = json.loads(out.getvalue())
        assert code == answer.get("exit_code", 5)
        return answer

    def word(self, *bookies: str, purpose: Purpose = Purpose.RESTART) -> str:
        return str(self.ask(*bookies, purpose=purpose)["answer"])


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """Yield the gate of five bookies with three ledgers, which a run found in order."""
    home = tmp_path_factory.mktemp("gate")
    with SandboxCluster(home / "cluster", 5) as cluster:
        for ledger_id, text in LEDGERS.items():
            written = 4 if ledger_id == OPEN else None
            cluster.place(ledger_id, cluster.ledger(text), written=written)
        outcome = audit(cluster, home)
        assert 0 == outcome.exit_code
        yield Gate(cluster, str(outcome.run_dir))


@contextmanager
def ledger(gate: Gate, ledger_id: int, text: str) -> Iterator[None]:
    """Write other metadata of the ledger for a while."""
    gate.cluster.add_ledger(ledger_id, gate.cluster.ledger(text))
    try:
        yield
    finally:
        if ledger_id in LEDGERS:
            gate.cluster.add_ledger(ledger_id, gate.cluster.ledger(LEDGERS[ledger_id]))
        else:
            gate.cluster.delete_ledger(ledger_id)


@contextmanager
def down(gate: Gate, *bookies: str) -> Iterator[None]:
    """Take away the registrations of these bookies for a while."""
    for bookie in bookies:
        gate.cluster.unregister(bookie)
    try:
        yield
    finally:
        for bookie in bookies:
            gate.cluster.register(bookie)


def test_a_bookie_whose_copies_are_elsewhere_too_can_be_restarted(gate: Gate):
    """Only the ledgers that name it, and those in use, are read again."""
    answer = gate.ask("b1")
    assert ("GO", 0, 4) == (
        answer["answer"],
        answer["exit_code"],
        answer["bookies_writable"],
    )
    assert {"listed": 3, "read": 3, "new": 0, "changed": 0, "deleted": 0} == answer["ledgers_read"]
    assert 1 == gate.ask("b5")["ledgers_read"]["read"]


def test_the_text_begins_with_the_answer_and_ends_with_the_line_for_machines(gate: Gate):
    """A person reads the first line, a script the last."""
    code, text = gate.ask("b1", format="text")
    first, *_, last = text.splitlines()
    assert 0 == code and first.startswith("GO: ") and first.endswith("can be restarted now.")
    assert last.endswith("exit=0 answer=GO no_copy=0 may_have_no_copy=0")
    assert "No bookie was asked" in " ".join(text.split())


@pytest.mark.parametrize(
    ("bookies", "is_said"), [(("b1", "b2"), False), (("b1", "b2", "b3"), True)]
)
def test_too_few_bookies_for_the_largest_ensemble_are_noticed(
    gate: Gate, bookies: tuple[str, ...], is_said: bool
):
    """Ledgers that do not exist yet are not judged: the text says that they cannot be created."""
    _, text = gate.ask(*bookies, format="text")
    says = "That is fewer than the 3 of the largest ensemble"
    assert is_said == (says in " ".join(text.split()))


def test_a_second_bookie_must_not_stop_while_the_first_is_down(gate: Gate):
    """The only other copy of ledger 1 is on the bookie that is not registered."""
    with down(gate, "b2"):
        answer = gate.ask("b1")
        text = gate.ask("b1", format="text")[1]
    assert ("NO_GO", 1, [PAIR]) == (answer["answer"], answer["exit_code"], answer["no_copy"]["ids"])
    assert [gate.cluster.id_of("b2")] == answer["bookies_missing"]
    assert text.startswith("NO GO: ") and "Not registered, and counted as lost" in text


def test_a_bookie_that_is_down_already_can_be_restarted(gate: Gate):
    """A stop changes nothing. To decommission it would lose nothing more either, but its copies
    are counted as lost: the pair keeps the copy on b2.
    """
    with down(gate, "b1"):
        answer = gate.ask("b1")
        assert ("GO", [gate.cluster.id_of("b1")]) == (answer["answer"], answer["bookies_down"])
        assert "NO_GO" == gate.word("b1", "b2", purpose=Purpose.DECOMMISSION)


def test_a_replica_that_a_mark_names_is_not_sure(gate: Gate):
    """BookKeeper's auditor says that the copy on b2 is missing. Perhaps it is not."""
    gate.cluster.mark(PAIR, ["b2"])
    try:
        answer = gate.ask("b1")
        assert ("NOT_KNOWN", 3, 1) == (answer["answer"], answer["exit_code"], answer["marked"])
        assert [PAIR] == answer["may_have_no_copy"]["ids"]
        assert "GO" == gate.word("b2")
    finally:
        gate.cluster.unmark(PAIR)


def test_a_mark_counts_for_a_ledger_in_use_too(gate: Gate):
    """Entries 0 to 4 may be on b2 alone. A mark that names nobody may mean any copy."""
    with ledger(gate, LATER, "e2 w2 a2 0:[b1 b2] 5:[b3 b2] open"):
        assert "GO" == gate.word("b2")
        for missing in (["b1"], []):
            gate.cluster.mark(LATER, missing)
            try:
                answer = gate.ask("b2")
            finally:
                gate.cluster.unmark(LATER)
            assert ("NOT_KNOWN", [LATER]) == (
                answer["answer"],
                answer["of_ledgers_in_use"]["may_have_no_copy"]["ids"],
            )


def test_a_ledger_that_is_newer_than_the_run_counts(gate: Gate):
    """Its only copy is on b4. Nobody has looked for it: it counts as there, and is named."""
    with ledger(gate, LATER, "e1 w1 a1 0:[b4] closed 3"):
        answer = gate.ask("b4")
        assert ("NO_GO", [LATER]) == (answer["answer"], answer["no_copy"]["ids"])
        answer = gate.ask("b5")
        assert ("GO", 1, 1) == (answer["answer"], answer["unseen"], answer["ledgers_read"]["new"])
        assert "was not looked for" in " ".join(gate.ask("b5", format="text")[1].split())


def test_copies_that_were_moved_since_the_run_count_where_they_are_now(gate: Gate):
    """Ledger 1 moved from b2 to b5: b1 and b2 may stop together, b1 and b5 may not."""
    assert "NO_GO" == gate.word("b1", "b2")
    with ledger(gate, PAIR, "e2 w2 a2 0:[b1 b5] closed 9"):
        answer = gate.ask("b1", "b2")
        assert ("GO", 1) == (answer["answer"], answer["ledgers_read"]["changed"])
        answer = gate.ask("b1", "b5")
        assert ("NO_GO", [PAIR]) == (answer["answer"], answer["no_copy"]["ids"])


def test_a_ledger_that_moved_onto_the_missing_bookies_altogether_is_found(gate: Gate):
    """In the run it was on b1 and b2 only. With two bookies missing it might have moved to both."""
    with ledger(gate, PAIR, "e2 w2 a2 0:[b4 b5] closed 9"):
        answer = gate.ask("b4", "b5")
    assert ("NO_GO", [PAIR]) == (answer["answer"], answer["no_copy"]["ids"])


def test_a_deleted_ledger_has_nothing_to_lose(gate: Gate):
    """The pair is gone, and its bookies may stop together."""
    gate.cluster.delete_ledger(PAIR)
    try:
        answer = gate.ask("b1", "b2")
        assert ("GO", 1) == (answer["answer"], answer["ledgers_read"]["deleted"])
    finally:
        gate.cluster.add_ledger(PAIR, gate.cluster.ledger(LEDGERS[PAIR]))


def test_a_writer_needs_a_bookie_to_replace_the_lost_one(gate: Gate):
    """b1 and b2 are read-only: nobody can replace b3 in the open ledger. It keeps its ack quorum,
    and whether that is enough depends on the client. With two bookies lost it is not.
    """
    for bookie in ("b1", "b2"):
        gate.cluster.readonly(bookie)
    try:
        answer = gate.ask("b3")
        assert ("NOT_KNOWN", [OPEN]) == (
            answer["answer"],
            answer["of_ledgers_in_use"]["may_not_be_writable"]["ids"],
        )
        assert "delayEnsembleChange" in gate.ask("b3", format="text")[1]
        answer = gate.ask("b3", "b4")
        assert ("NO_GO", [OPEN]) == (
            answer["answer"],
            answer["of_ledgers_in_use"]["not_writable"]["ids"],
        )
    finally:
        for bookie in ("b1", "b2"):
            gate.cluster.register(bookie)


def test_a_decommission_needs_bookies_to_take_the_copies(gate: Gate):
    """Four writable bookies are left for three copies. With b4 and b5 read-only, none is left
    outside of ledger 2's ensemble.
    """
    answer = gate.ask("b1", purpose=Purpose.DECOMMISSION)
    assert ("GO", 4) == (answer["answer"], sum(map(answer["absorption"].get, DISKS)))
    text = " ".join(gate.ask("b1", purpose=Purpose.DECOMMISSION, format="text")[1].split())
    assert "To move for good: " in text
    for bookie in ("b4", "b5"):
        gate.cluster.readonly(bookie)
    try:
        answer = gate.ask("b1", purpose=Purpose.DECOMMISSION)
        assert ("NO_GO", [TRIPLE]) == (answer["answer"], answer["not_replicable"]["ids"])
        assert 0 == gate.ask("b1")["not_replicable"]["ledgers"]
    finally:
        for bookie in ("b4", "b5"):
            gate.cluster.register(bookie)


def ids(gate: Gate, *bookies: str) -> list[str]:
    return sorted(map(gate.cluster.id_of, bookies))


def test_the_bookies_that_can_go_together_are_proposed(gate: Gate):
    """Each ledger keeps a copy, and the open one its ack quorum and a bookie to replace the lost
    one. With b1 given, the others fit to it. The ledgers of the proposed bookies were read again.
    """
    answer = gate.ask(together_max=2)
    assert ("GO", 2, 2) == (answer["answer"], len(answer["bookies"]), answer["max"])
    assert "GO" == gate.ask(*map(name_of(gate), answer["bookies"]))["answer"]
    answer = gate.ask("b1", together_max=3)
    assert "GO" == answer["answer"] and gate.cluster.id_of("b1") in answer["bookies"]
    assert gate.cluster.id_of("b2") not in answer["bookies"]
    text = " ".join(gate.ask("b1", together_max=5, format="text")[1].split())
    assert "there may be a larger set" in text


def name_of(gate: Gate) -> Callable[[str], str]:
    names = {gate.cluster.id_of(name): name for name in ("b1", "b2", "b3", "b4", "b5")}
    return names.__getitem__


def test_a_proposal_that_newer_metadata_forbids_is_made_smaller(gate: Gate):
    """The run saw nothing on b1 that b4 lacks. Since then ledger 2 moved onto b1 and b4."""
    first = gate.ask("b1", together_max=2)
    other = next(bookie for bookie in first["bookies"] if bookie != gate.cluster.id_of("b1"))
    text = f"e2 w2 a2 0:[b1 {name_of(gate)(other)}] closed 9"
    with ledger(gate, TRIPLE, text):
        answer = gate.ask("b1", together_max=2)
        assert "GO" == answer["answer"] and other not in answer["bookies"]


def test_where_no_bookie_can_go_the_least_harmful_one_is_shown(gate: Gate):
    """Each bookie has the only copy of a new ledger."""
    with ExitStack() as stack:
        for number, bookie in enumerate(("b1", "b2", "b3", "b4", "b5")):
            stack.enter_context(ledger(gate, LATER + number, f"e1 w1 a1 0:[{bookie}] closed 3"))
        answer = gate.ask(together_max=2)
        assert ("NO_GO", []) == (answer["answer"], answer["bookies"])
        assert 1 == answer["no_copy"]["ledgers"]
        text = gate.ask(together_max=2, format="text")[1]
    assert text.startswith("NO GO: no bookie can be restarted now.")


def test_an_asked_bookie_that_cannot_go_gets_no_company(gate: Gate):
    """The answer is about it alone."""
    with ledger(gate, LATER, "e1 w1 a1 0:[b4] closed 3"):
        answer = gate.ask("b4", together_max=3)
    assert ("NO_GO", ids(gate, "b4")) == (answer["answer"], answer["bookies"])


def test_the_repair_of_marks_and_what_blocks_it_are_shown(gate: Gate):
    """The run saw no mark. Replication is off."""
    gate.cluster.mark(PAIR, ["b2"])
    gate.cluster.disable_replication()
    try:
        answer = gate.ask("b5")
        text = " ".join(gate.ask("b5", format="text")[1].split())
    finally:
        gate.cluster.enable_replication()
        gate.cluster.unmark(PAIR)
    assert (0, 1, None) == tuple(answer["repair"][n] for n in ("marked_then", "new", "per_hour"))
    assert answer["replication_disabled"]
    assert "Replication is switched off: nothing repairs marked ledgers." in text
    assert "Marked since then: 1 ledger." in text


def test_a_mark_without_a_ledger_is_no_marked_ledger(gate: Gate):
    """It is a finding of the run's, and nothing can repair it."""
    gate.cluster.mark(LATER, ["b2"])
    try:
        answer = gate.ask("b5")
    finally:
        gate.cluster.unmark(LATER)
    repair = answer["repair"]
    assert (0, 0, 0, None) == (
        answer["marked"], repair["marked_now"], repair["new"], repair["oldest_ms"],
    )  # fmt: skip


def test_metadata_that_cannot_be_read_now_leaves_the_answer_open(gate: Gate):
    """It may name the bookie. The run could read it, and that does not help."""
    gate.cluster.set_raw(TRIPLE, b"no metadata")
    try:
        answer = gate.ask("b1")
        assert ("NOT_KNOWN", 1) == (answer["answer"], answer["ledgers"]["unread"])
        text = gate.ask("b1", format="text")[1]
        assert "\nWhy: the metadata of 1 ledger could not be read or understood.\n" in text
    finally:
        gate.cluster.add_ledger(TRIPLE, gate.cluster.ledger(LEDGERS[TRIPLE]))


def test_a_run_of_another_cluster_is_refused(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its copies are not those of the ledgers that are read now."""
    monkeypatch.setattr("auditor.model.cluster.ClusterFacts.is_of", lambda *_: False)
    with pytest.raises(ConfigError, match="of another cluster"):
        gate.ask("b1")


def test_without_zookeeper_there_is_no_answer(gate: Gate):
    """Exit code 5 is not a NO GO: nothing is known."""
    code, text = gate.ask(
        "b1", format="text", metadata_service_uri=NOWHERE, zookeeper_connect_timeout="200ms"
    )
    assert 5 == code and "UNREACHABLE" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--now"], "--without"),
        (["--for", "restart", "--without", "b1"], "give --now too"),
        (["--max", "2", "--without", "b1"], "give --now too"),
    ],
)
def test_options_that_go_together_are_asked_for(words: list[str], says: str):
    """A gate that ignored an option would answer another question."""
    done = CliRunner().invoke(cli, ["margin", *words])
    assert 2 == done.exit_code and says in done.output


def test_what_was_repaired_since_the_run_stands_in_no_ones_way(tmp_path: Path):
    """Each bookie had the only copy of a ledger. Workers have replaced the copies that lacked."""
    with SandboxCluster(tmp_path / "cluster", 3) as cluster:
        ensembles = ("b1 b2", "b2 b3", "b3 b1")
        for number, names in enumerate(ensembles):
            metadata = cluster.ledger(f"e2 w2 a2 0:[{names}] closed 9")
            cluster.place(number, metadata, lose={names.split()[1]: "0-9"})
        run = Gate(cluster, str(audit(cluster, tmp_path).run_dir))
        assert "NO_GO" == run.ask(together_max=1)["answer"]
        for number, names in enumerate(("b1 b3", "b2 b1", "b3 b2")):
            cluster.add_ledger(number, cluster.ledger(f"e2 w2 a2 0:[{names}] closed 9"))
        answer = run.ask(together_max=1)
        assert ("GO", 1, 3) == (
            answer["answer"],
            len(answer["bookies"]),
            answer["ledgers_read"]["read"],
        )


def test_a_bookie_that_came_back_with_a_new_cookie_has_no_sure_copies(gate: Gate):
    """b1 was formatted since the run: the copy on b2 may be the last. A ledger that was created
    after the new cookie, and its copy on b1, are newer than the format. The cookie stays: this is
    the last test of the cluster.
    """
    opened = "e2 w2 a2 0:[b1 b2] open"
    with ledger(gate, LATER, opened):
        gate.cluster.delete_cookie("b1")
        gate.cluster.cookie("b1")
        with ledger(gate, LATER + 1, "e2 w2 a2 0:[b1 b2] closed 9"):
            answer = gate.ask("b2")
            text = " ".join(gate.ask("b2", format="text")[1].split())
    assert ("NOT_KNOWN", [PAIR], [LATER], ids(gate, "b1")) == (
        answer["answer"],
        answer["may_have_no_copy"]["ids"],
        answer["of_ledgers_in_use"]["may_have_no_copy"]["ids"],
        answer["bookies_with_new_cookies"],
    )
    assert "A new cookie since the run" in text
    assert "GO" == gate.word("b1") == gate.word("b5")
