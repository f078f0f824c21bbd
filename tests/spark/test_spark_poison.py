"""Ledgers that harm the process that judges them: each is named and set aside, and all others get
their verdict in the same run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.playing import PLAYS_ALL
from support.audits import FIRST_LOOK_ON_SPARK, Outcome, accounted, audit, audit_ledgers, replay_run
from support.poison import HARM, Poison, plant_here, plant_in_askers, plant_in_workers

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, LEDGERS, VERDICTS
from auditor.model.finding import Kind
from auditor.sandbox.cluster import SandboxCluster

LEDGERS_ALL = range(1, 13)
LACKING = 5, 6
UNCLEAR = 3
"""A ledger of two segments: bookies are asked about it by its own metadata, not by its shape."""
LIMITS = {"ledger_time_max": "1s", "ledger_memory_max": "256MiB"}
SAID = {
    "an exception": "NobodyForesaw: a ledger from another world",
    "a loop in Python": "judging was stopped: it took longer than 1 s",
    "a loop in C": "judging was stopped: it took longer than 1 s and could not be interrupted",
    "a wait in C": "judging was stopped: it took longer than 1 s and could not be interrupted",
    "all memory": "judging was stopped: it took more memory than 256 MiB",
    "SIGSEGV": "judging was stopped: it ended its process with SIGSEGV",
    "SIGKILL": (
        "judging was stopped: it ended its process with SIGKILL, as a kernel out of memory does"
    ),
    "an exit": "judging was stopped: it ended its process with exit code 7",
    "sys.exit": "SystemExit: 3",
}
"""The column `detail` of a ledger that does such harm."""
RAISED = "an exception", "sys.exit"
"""Harm after which the ledger is not judged again in a child."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Yield twelve ledgers on three bookies; two lack an entry."""
    with SandboxCluster(tmp_path_factory.mktemp("poison"), 3) as cluster:
        for ledger_id in LEDGERS_ALL:
            lose = {"b1": "6", "b2": "6"} if ledger_id in LACKING else {}
            segments = "0:[b1 b2 b3]" + " 12:[b1 b3 b2]" * (ledger_id == UNCLEAR)
            cluster.place(ledger_id, cluster.ledger(f"e3 w2 a2 {segments} closed 29"), lose=lose)
        yield cluster


@pytest.fixture(scope="module")
def undisturbed(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return a run on the same cluster without poison."""
    outcome = accounted(audit(cluster, tmp_path_factory.mktemp("undisturbed"), **LIMITS))
    assert ["violated"] * 2 == outcome.standings(*LACKING)
    return outcome


def details(outcome: Outcome) -> dict[int, str]:
    """Return what each ledger's row says of how judging it failed; each ledger occurs once."""
    assert outcome.run_dir is not None, outcome.stdout
    rows = place(str(outcome.run_dir)).read_table("verdicts", VERDICTS).to_pylist()
    assert list(LEDGERS_ALL) == sorted(row["ledger_id"] for row in rows)
    return {row["ledger_id"]: row["detail"] for row in rows if row["detail"]}


def others(outcome: Outcome, harm: dict[int, str]) -> tuple[Any, ...]:
    """Return everything said of ledgers without poison."""
    verdicts = {
        ledger_id: verdict
        for ledger_id, verdict in outcome.verdicts.items()
        if ledger_id not in harm
    }
    return verdicts, [
        (found["id"], found["kind"]) for found in outcome.findings if found["ledger_id"] not in harm
    ]


def evidence(home: Path, name: str, schema: Any) -> list[Any]:
    return list(place(str(home)).read_table(name, schema).to_pylist())


def poisoned(
    cluster: SandboxCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harm: dict[int, str],
    from_look: int = 1,
    **way: str,
) -> Outcome:
    """Run an audit that meets the harm, as does the replay. Counts add up, and the replay says the
    same.
    """
    poison = Poison(harm, from_look)
    plant_in_workers(monkeypatch, poison)
    plant_here(monkeypatch, poison)
    return accounted(audit(cluster, tmp_path, **LIMITS, **way))


WAYS = [
    pytest.param({}, id="in process"),
    pytest.param(FIRST_LOOK_ON_SPARK, id="on Spark", marks=pytest.mark.spark),
]
"""Which process judges first."""
WAYS_LONG = [
    pytest.param({}, id="in process"),
    pytest.param(FIRST_LOOK_ON_SPARK, id="on Spark", marks=[pytest.mark.spark, pytest.mark.long]),
]
"""The same for laws that `make test` has on Spark with ledgers of every kind."""


@pytest.fixture
def way(request: pytest.FixtureRequest) -> dict[str, str]:
    """Return one of WAYS, with a Spark session if it needs one."""
    if request.param:
        request.getfixturevalue("spark")
    return dict(request.param)


@pytest.mark.parametrize("way", WAYS if PLAYS_ALL else WAYS[:1], indirect=True)
@pytest.mark.parametrize("kind", HARM if PLAYS_ALL else ["SIGSEGV"])
def test_a_poisoned_ledger_is_one_row_that_names_it_and_all_others_are_judged(
    way: dict[str, str],
    cluster: SandboxCluster,
    undisturbed: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
):
    """The ledger is INDETERMINATE(poison), its evidence is kept apart, the report names it; every
    other verdict is that of a run without it.

    On Spark `make test` has all kinds at once, below; `make faults` has each alone.
    """
    harm = {3: kind}
    outcome = poisoned(cluster, tmp_path, monkeypatch, harm, **way)
    assert ["indeterminate: poison"] == outcome.standings(3)
    assert {3: SAID[kind]} == details(outcome)
    assert 1 == outcome.summary["indeterminate"]["poison"]
    assert [{"ledger_id": 3, "detail": SAID[kind]}] == outcome.summary["poison"]
    assert f"ledger 3: {SAID[kind]}" in " ".join(outcome.stdout.split())
    assert others(undisturbed, harm) == others(outcome, harm)
    assert outcome.run_dir is not None
    assert ["ledger-3"] == sorted(
        path.name for path in (outcome.run_dir / "poison").glob("ledger-*")
    )
    kept = outcome.run_dir / "poison" / "ledger-3"
    assert [3] == [row["ledger_id"] for row in evidence(kept, "evidence/ledgers", LEDGERS)]
    assert [3, 3, 3] == [row["ledger_id"] for row in evidence(kept, "evidence/answers", ANSWERS)]
    assert (kind not in RAISED) == (outcome.run_dir / "poison" / "stopped").exists()


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_ledgers_of_every_kind_are_named_in_one_run(
    way: dict[str, str],
    cluster: SandboxCluster,
    undisturbed: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """One kills its worker, one never ends, one takes all memory, one raises, and so on: one more
    pass finds them all. `make faults` has each alone.
    """
    harm = dict(
        zip(
            (ledger_id for ledger_id in LEDGERS_ALL if ledger_id not in LACKING), HARM, strict=False
        )
    )
    outcome = poisoned(cluster, tmp_path, monkeypatch, harm, **way)
    assert {ledger_id: SAID[kind] for ledger_id, kind in harm.items()} == details(outcome)
    assert len(HARM) == len(harm) == outcome.summary["indeterminate"]["poison"]
    assert others(undisturbed, harm) == others(outcome, harm)


@pytest.mark.parametrize("way", WAYS_LONG, indirect=True)
def test_a_ledger_on_which_asking_raises_is_set_aside(
    way: dict[str, str],
    cluster: SandboxCluster,
    undisturbed: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """No bookie was asked about it, and nothing waits for that: all others are judged."""
    plant_in_askers(monkeypatch, UNCLEAR)
    outcome = accounted(audit(cluster, tmp_path, **LIMITS, **way))
    said = {UNCLEAR: "judging was stopped: whom to ask about it could not be found out"}
    assert said == details(outcome)
    assert others(undisturbed, said) == others(outcome, said)


def test_a_ledger_that_is_poison_only_at_the_second_look_is_named_too(
    cluster: SandboxCluster, undisturbed: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is a suspect of the first look: no finding of it is reported. Its lists are asked for
    again, because an unchanged suspect is not judged before.
    """
    harm = {5: "SIGKILL"}
    outcome = poisoned(cluster, tmp_path, monkeypatch, harm, from_look=2)
    assert {5: SAID["SIGKILL"]} == details(outcome)
    assert [Kind.ENTRY_WITHOUT_REPLICA] == outcome.kinds
    assert others(undisturbed, harm) == others(outcome, harm)
    assert outcome.run_dir is not None
    assert {1, 2} == {
        row["look"]
        for row in evidence(outcome.run_dir / "poison" / "ledger-5", "evidence/answers", ANSWERS)
    }


STRUCK = {3: "SIGSEGV", 8: "a loop in Python"}


@pytest.fixture(scope="module")
def struck(cluster: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Return a run that met the harm of STRUCK; a later replay does not, unless a test plants it
    again.
    """
    with pytest.MonkeyPatch.context() as planted:
        return poisoned(cluster, tmp_path_factory.mktemp("struck"), planted, STRUCK)


def test_a_replay_survives_poison_that_the_run_did_not_name(
    struck: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The evidence lacks its `poison/`, as after a killed run: the ledger is found in a child, with
    the same words.
    """
    assert struck.run_dir is not None
    copy = Path(shutil.copytree(struck.run_dir, tmp_path / struck.run_dir.name))
    shutil.rmtree(copy / "poison")
    plant_here(monkeypatch, Poison(STRUCK))
    again = replay_run(copy, **LIMITS)
    assert struck.verdicts == again.verdicts
    assert struck.summary["poison"] == again.summary["poison"]


def test_the_kept_evidence_of_a_poisoned_ledger_is_a_run_of_its_own(struck: Outcome):
    """Once the fault is fixed, replaying that directory gives the ledger's verdict; the whole run
    still sets it aside.
    """
    assert struck.run_dir is not None
    assert ["sound"] == replay_run(struck.run_dir / "poison" / "ledger-3").standings(3)
    assert ["indeterminate: poison"] == replay_run(struck.run_dir).standings(3)


@pytest.mark.parametrize("way", WAYS_LONG, indirect=True)
def test_more_poison_than_ledgers_can_be_guilty_of_is_our_fault(
    way: dict[str, str], cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Exit 4, with a sentence that names some; nothing is published. `auditor ledger` gives up with
    the same words.
    """
    poison = Poison(dict.fromkeys(LEDGERS_ALL, "an exit"), stopped_max=1)
    plant_in_workers(monkeypatch, poison)
    plant_here(monkeypatch, poison)
    outcome = audit(cluster, tmp_path, **LIMITS, **way)
    assert (4, {}) == (outcome.exit_code, outcome.summary)
    assert outcome.last_line.startswith("auditor: AUDITOR_FAULT run="), outcome.stdout
    text = " ".join(outcome.stdout.split())
    assert "judging was stopped on more than 1 ledgers (ledger " in text
    assert ": it ended its process with exit code 7;" in text
    for form in ("text", "json"):
        alone = audit_ledgers(cluster, list(LEDGERS_ALL), format=form, **LIMITS)
        assert 4 == alone.exit_code
        assert "judging was stopped on more than 1 ledgers (ledger " in " ".join(
            alone.stdout.split()
        )
    assert {"AUDITOR_FAULT"} == {alone.summary["outcome"]}


@pytest.mark.parametrize("kind", HARM)
def test_single_ledgers_are_judged_beside_poison(
    cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch, kind: str
):
    """`auditor ledger` says the same of it, and survives."""
    plant_here(monkeypatch, Poison({3: kind}))
    outcome = audit_ledgers(cluster, [2, 3, 5], **LIMITS)
    assert ["sound", "indeterminate: poison", "violated"] == outcome.standings(2, 3, 5)
    assert SAID[kind] == outcome.verdicts[3].report["detail"]
    assert 1 == outcome.summary["indeterminate"]["poison"]
