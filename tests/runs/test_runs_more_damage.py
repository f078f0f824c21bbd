"""More damage never gets a milder word: whole runs over the demo's stories, damaged step by step.

The exceptions are those of docs/soundness.md. What was proven of a bookie's own copies goes with
that bookie or those copies: the ledger is unknown then, unless it is marked. Of entries above the
end, and of a contradiction that a header shows, nothing is left. A removed ledger is no longer
listed, and a finding on a bookie no longer counts it. A finding on a bookie that is stopped or
removed becomes another finding on it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.audits import Json, Outcome, audit

from auditor.evidence.run_directory import place
from auditor.evidence.schemas import REFERENCES
from auditor.model.finding import CATALOGUE, Kind, Severity
from auditor.model.identity import BookieId, LedgerId
from auditor.model.verdict import Exempt
from auditor.sandbox.bookie import LedgerFault, Storage
from auditor.sandbox.cluster import SandboxCluster
from auditor.sandbox.seeding import DEMO_BOOKIES, seed_exempt, seed_stories, topology_table
from auditor.sandbox.stories import LOST, LOST_AND_MARKED, SILENT, UNLISTABLE

HIT_EACH = 3
"""One ledger in so many loses something at a step that damages copies."""
REMOVED = 4
MILDER_THAN = {0: 0, 3: 1, 1: 2}
"""The exit codes from the mildest on."""
ABOVE_END = {Kind.ENTRIES_BEYOND_END, Kind.LEDGER_CLOSED_SHORT}


@dataclass
class Harm:
    """What a step did: bookies that serve nothing more, copies of ledgers on bookies, znodes."""

    bookies: set[BookieId] = field(default_factory=set)
    copies: dict[LedgerId, BookieId] = field(default_factory=dict)
    removed: set[LedgerId] = field(default_factory=set)

    def on(self, ledger_id: LedgerId) -> set[BookieId]:
        """Return the bookies whose copies of the ledger are harmed."""
        return self.bookies | {self.copies[ledger_id]} if ledger_id in self.copies else self.bookies


@dataclass
class Scene:
    """The cluster, the bookies that still serve, and the draws of one seed."""

    cluster: SandboxCluster
    draw: random.Random
    serving: list[BookieId]

    def some_copies(self, ledgers: list[LedgerId]) -> dict[LedgerId, BookieId]:
        """Return one bookie with entries, and no fault yet, of one ledger in HIT_EACH."""
        held = {
            ledger_id: [b for b in self.serving if self.has_entries(b, ledger_id)]
            for ledger_id in ledgers
        }
        some = [one for one in ledgers if held[one]]
        chosen = self.draw.sample(some, len(some) // HIT_EACH)
        return {ledger_id: self.draw.choice(held[ledger_id]) for ledger_id in chosen}

    def has_entries(self, bookie_id: BookieId, ledger_id: LedgerId) -> bool:
        bookie = self.cluster.bookie(bookie_id)
        holding = bookie.holding(ledger_id)
        return (
            holding is not None and holding.highest() is not None and ledger_id not in bookie.faults
        )


def lose_the_highest_copy(scene: Scene, ledgers: list[LedgerId]) -> Harm:
    copies = scene.some_copies(ledgers)
    for ledger_id, bookie_id in copies.items():
        *runs, (first, last) = scene.cluster.bookie(bookie_id).holding(ledger_id).runs()
        scene.cluster.hold(bookie_id, ledger_id, [*runs, *[(first, last - 1)] * (first < last)])
    return Harm(copies=copies)


def forget_ledgers(scene: Scene, ledgers: list[LedgerId]) -> Harm:
    copies = scene.some_copies(ledgers)
    for ledger_id, bookie_id in copies.items():
        scene.cluster.bookie(bookie_id).forget(ledger_id)
    return Harm(copies=copies)


def lose_logs(scene: Scene, ledgers: list[LedgerId]) -> Harm:
    copies = scene.some_copies(ledgers)
    for ledger_id, bookie_id in copies.items():
        scene.cluster.fault(bookie_id, ledger_id, LedgerFault.READS_FAIL)
    return Harm(copies=copies)


def of_a_bookie(damage: Callable[[SandboxCluster, BookieId], None]) -> Damage:
    """Return the damage to one bookie that still serves."""

    def harm(scene: Scene, _: list[LedgerId]) -> Harm:
        bookie_id = scene.draw.choice(scene.serving)
        scene.serving.remove(bookie_id)
        damage(scene.cluster, bookie_id)
        return Harm(bookies={bookie_id})

    return harm


def remove_znodes(scene: Scene, ledgers: list[LedgerId]) -> Harm:
    removed = set(scene.draw.sample(ledgers, REMOVED))
    for ledger_id in removed:
        scene.cluster.delete_ledger(ledger_id)
    return Harm(removed=removed)


Damage = Callable[[Scene, list[LedgerId]], Harm]
LOGS = "logs"
DAMAGES: dict[str, Damage] = {
    "copies": lose_the_highest_copy,
    "ledgers on bookies": forget_ledgers,
    LOGS: lose_logs,
    "a bookie stopped": of_a_bookie(SandboxCluster.stop_bookie),
    "a registration removed": of_a_bookie(SandboxCluster.unregister),
    "a bookie and its cookie removed": of_a_bookie(SandboxCluster.lose_bookie),
    "znodes": remove_znodes,
}


@contextmanager
def stories(workdir: Path) -> Iterator[SandboxCluster]:
    storages = [
        Storage.DB if f"b{n}" == UNLISTABLE else Storage.SORTED for n in range(1, DEMO_BOOKIES + 1)
    ]
    with SandboxCluster(workdir, DEMO_BOOKIES, named=True, storage=storages) as cluster:
        cluster.elect_auditor("b1")
        seed_exempt(cluster)
        seed_stories(cluster)
        yield cluster


def badness(outcome: Outcome, ledger_id: LedgerId) -> int:
    """Return 0 for what raises no exit code, 1 for unknown, then the worst severity."""
    worst = worst_of(outcome.of(ledger_id))
    is_unknown = outcome.verdicts[ledger_id].standing == "indeterminate"
    return int(worst) if worst > Severity.INFO else int(is_unknown)


def worst_of(findings: list[Json]) -> Severity:
    return max((CATALOGUE[Kind(one["kind"])].severity for one in findings), default=Severity.INFO)


def floor(before: Outcome, ledger_id: LedgerId, harmed: set[BookieId]) -> int:
    """Return the least badness that is owed to the ledger after copies on these bookies are
    harmed.
    """
    owed, findings = badness(before, ledger_id), before.of(ledger_id)
    if not harmed & {bookie for one in findings for bookie in rests_on(one)}:
        return owed
    is_marked = before.verdicts[ledger_id].exempt == Exempt.MARKED_UNDERREPLICATED.value
    if is_marked or any(Kind(one["kind"]) in ABOVE_END for one in findings):
        return 0
    return min(owed, 1)


def rests_on(finding: Json) -> set[BookieId]:
    """Return the bookies of whose copies the finding says something that is proven."""
    facts = finding["facts"]
    return {
        *(finding["missing_on"] or ()),
        *(bookie for bookie, _ in facts.get("copies") or ()),
        *(facts.get("failed") or () if finding["kind"] == Kind.ENTRY_UNAVAILABLE.value else ()),
        *(held["bookie_id"] for held in facts.get("held_on") or ()),
    }


def what_became_milder(before: Outcome, after: Outcome, harm: Harm) -> list[str]:
    """Return a sentence on each subject that gets a milder word than the law allows."""
    wrong = [
        f"ledger {n}: {before.of(n)}, {before.verdicts[n]} became {after.of(n)},"
        f" {after.verdicts[n]}"
        for n in after.verdicts
        if badness(after, n) < floor(before, n, harm.on(n))
    ]
    wrong += [
        f"ledger {n} is not listed"
        for n in before.verdicts.keys() - after.verdicts.keys()
        if n not in harm.removed
    ]
    wrong += [
        f"removed ledger {n}, which a topic references, has no finding"
        for n in harm.removed & referenced(before)
        if worst_of(after.of(n)) < Severity.CRITICAL
    ]
    if not harm.removed:
        wrong += [
            f"bookie {one['bookie_id']}: {one['kind']} became {after.of(one['bookie_id'])}"
            for one in before.findings
            if one["bookie_id"] not in (None, *harm.copies.values())
            and not is_still_named(after, one, is_harmed=one["bookie_id"] in harm.bookies)
        ]
    if MILDER_THAN[after.exit_code] < MILDER_THAN[before.exit_code]:
        wrong.append(f"exit code {before.exit_code} became {after.exit_code}")
    return wrong


def is_still_named(after: Outcome, finding: Json, *, is_harmed: bool) -> bool:
    """Return whether the bookie of a finding has one that is as bad.

    If the bookie itself was stopped or removed, any finding will do, or a sentence that it could
    not be decided about. So it is said of one with a cookie, where two looks are too close.
    """
    found, bookie_id = after.of(finding["bookie_id"]), finding["bookie_id"]
    if is_harmed:
        return bool(found) or any(f"bookie {bookie_id} is" in s for s in after.summary["withheld"])
    return worst_of(found) >= CATALOGUE[Kind(finding["kind"])].severity


def referenced(outcome: Outcome) -> set[LedgerId]:
    assert outcome.run_dir is not None
    rows = place(str(outcome.run_dir)).read_table("evidence/references", REFERENCES)
    return {one for one in rows["ledger_id"].to_pylist() if one is not None}


def damaged_runs(workdir: Path, seed: str, steps: int) -> list[str]:
    """Damage the stories step by step, audit them after each, and return what became milder."""
    wrong: list[str] = []
    table = workdir / "topology.txt"
    table.write_text(topology_table())
    with stories(workdir) as cluster:
        serving = sorted(set(cluster.bookie_ids) - {SILENT, LOST, LOST_AND_MARKED})
        scene = Scene(cluster, random.Random(seed), serving)
        quick = {"second_look_delay": "0s", "rpc_timeout": "500ms", "bookie_connect_timeout": "1s"}
        whole = {"spot_reads": "100000"}  # all but the longest ledgers
        policy = {"placement_policy": "rack", "topology": f"file:{table}"}

        def run() -> Outcome:
            return audit(cluster, workdir, **quick, **whole, **policy)

        before, names = run(), scene.draw.sample(sorted(DAMAGES), steps)
        # What only a sample of reads shows may be missed by the next run: lost logs come last.
        for name in sorted(names, key=lambda one: one == LOGS):
            harm = DAMAGES[name](scene, sorted(before.verdicts))
            after = run()
            wrong += [f"{name} ({harm}): {one}" for one in what_became_milder(before, after, harm)]
            before = after
    return wrong


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_more_damage_never_gets_a_milder_word_in_many_runs(tmp_path: Path, seed: int) -> None:
    """All of the damages, in any order."""
    assert [] == damaged_runs(tmp_path, f"many {seed}", len(DAMAGES))
