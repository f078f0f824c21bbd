"""The sums that runs hand on count every run exactly once, wherever one is killed; the detector
finds every violation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from faults import nights
from faults.carried import CARRIED, breaches_of_carried, summary_of
from faults.detector import Sort
from faults.nights import READ_A_STAGE, Night, Nights
from faults.playing import PLAYS_ALL, SEED
from support.quick_forms import one_in

from auditor.errors import ConfigError
from auditor.evidence.output_directory import Output
from auditor.evidence.output_lock import HeldLock
from auditor.evidence.run_directory import Place
from auditor.model.cluster import ClusterFacts
from auditor.model.finding import Kind
from auditor.summary.previous_run import NO_PREVIOUS, Previous, read_previous
from auditor.telemetry import metrics

BELOW, WITHOUT = Kind.ENTRY_BELOW_WRITE_QUORUM, Kind.ENTRY_WITHOUT_REPLICA
NIGHTS = (
    Night({1: BELOW, 2: BELOW}, listed=5),
    Night({2: BELOW, 3: WITHOUT}, listed=6, requests=2),
    Night({2: WITHOUT, 4: BELOW}, listed=4),
    Night({1: BELOW, 2: WITHOUT}, listed=7, requests=3),
)
"""Findings that stay, go, come back and become worse; no two nights ask the same number of
questions.
"""
MANY, FEW = Night({}, listed=200), Night({}, listed=90)
"""Nights in which the number of ledgers drops, and stays there."""

INSTANTS = (
    "write_text run.json",
    "write_table evidence/listing",
    "write_table evidence/listings",
    "create journal",
    "write_text 000000.json",
    "write_table evidence/ledgers",
    "write_table evidence/marks",
    "write_table evidence/answers",
    "write_table evidence/reads",
    "create journal",
    "write_text 000001.json",
    "write_table verdicts",
    "create journal",
    "write_text 000002.json",
    "write_table evidence/zookeeper_reads",
    "write_text findings.jsonl",
    "write_text report.txt",
    "write_text metrics.prom",
    "write_text summary.json",
    "write_text latest.json",
    "metrics sent",
    "write_text report.html",
    "remove_file journal/000002.json",
    "remove_file journal/000001.json",
    "remove_file journal/000000.json",
    "remove journal",
    "remove steps",
)
"""All file operations of a run, in order: it can be killed before each of them."""
PUBLICATION = INSTANTS.index("write_text findings.jsonl")
PLAYED = [
    n
    for n in range(len(INSTANTS))
    if PLAYS_ALL or n >= PUBLICATION or n in Random(SEED).sample(range(PUBLICATION), 3)
]
PLAYED_OF_PUSHES = [
    n
    for n in PLAYED
    if PLAYS_ALL
    or INSTANTS.index("write_text summary.json") <= n <= INSTANTS.index("write_text report.html")
]
"""What is sent to a Pushgateway is sent between these."""
PLAYED_OF_DROPS = PLAYED if PLAYS_ALL else PLAYED[::3]
PLAYED_OF_READS = PLAYED if PLAYS_ALL else PLAYED[::2]
AFTER: dict[str, Callable[[Nights], object]] = {
    "resumed": lambda nights: nights.resume_or_run(NIGHTS[1]),
    "followed by a fresh run": lambda nights: nights.run(NIGHTS[2]),
    "followed by a run that fails": lambda nights: nights.fail(),
}
HISTORIES = 60 if PLAYS_ALL else 3


def instants(after: str, played: list[int]) -> list[int]:
    """Return the instants at which the run is killed: with `make faults` all of `played`; else a
    third, so that each instant has one of AFTER.
    """
    ways = list(AFTER)
    return played if PLAYS_ALL else played[ways.index(after) :: len(ways)]


def adds_up(nights: Nights, *what: object) -> None:
    """Assert that no run is lost and none counted twice."""
    assert [] == breaches_of_carried(nights.chain, nights.samples), f"FAULT_SEED={SEED} {what}"


@pytest.mark.parametrize("pushes", [False, True], ids=["text file", "Pushgateway"])
@pytest.mark.parametrize("after", AFTER)
def test_a_run_killed_at_any_instant_is_counted_exactly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str, pushes: bool
):
    """The run is killed before each of its file operations, then resumed, or not; with runs before
    and after it.
    """
    for at in instants(after, PLAYED_OF_PUSHES if pushes else PLAYED):
        with monkeypatch.context() as patch:
            nights = Nights(tmp_path / f"{at}", patch, pushes=pushes)
            nights.run(NIGHTS[0])
            nights.run(NIGHTS[1], cut_at=at)
            AFTER[after](nights)
            nights.run(NIGHTS[2])
            nights.run(NIGHTS[3])
            adds_up(nights, f"killed before {INSTANTS[at]!r}, then {after}")
        assert 3 <= len(nights.chain)


@pytest.mark.parametrize("after", ["resumed", "followed by a fresh run"])
def test_a_drop_is_held_against_the_same_run_wherever_one_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
):
    """Two hundred ledgers, then ninety: three runs report the drop, and no run counts twice because
    it was killed.
    """
    for at in instants(after, PLAYED_OF_DROPS):
        with monkeypatch.context() as patch:
            nights = Nights(tmp_path / f"{at}", patch)
            nights.run(MANY)
            nights.run(FEW)
            nights.run(FEW, cut_at=at)
            nights.resume_or_run(FEW) if after == "resumed" else nights.run(FEW)
            while len(nights.chain) < 5:
                nights.run(FEW)
            adds_up(nights, f"killed before {at}, then {after}")
        kinds = [
            summary_of(run.directory)["findings"]["LEDGER_POPULATION_DROPPED"]["findings"]
            for run in nights.chain
        ]
        assert [0, 1, 1, 1, 0] == kinds[:5]


@pytest.mark.parametrize("at", PLAYED_OF_READS)
def test_reads_of_znodes_are_counted_once_for_each_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
):
    """The sum does not have reads for a stage that was not written, whichever process did the
    stage.
    """
    nights = Nights(tmp_path, monkeypatch)
    nights.run(NIGHTS[0], cut_at=at)
    nights.resume_or_run(NIGHTS[0])
    stages = 2
    assert {stages * READ_A_STAGE.reads} == {
        summary_of(run.directory)["requests"]["zookeeper_reads"] for run in nights.chain
    }


def test_the_instants_are_all_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A run reaches them in this order. Metrics are sent only when latest.json names their run."""
    assert list(INSTANTS) == Nights(tmp_path, monkeypatch).run(NIGHTS[0])


def test_runs_killed_again_and_again_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The seed draws kills, resumed runs, new runs, older runs resumed after newer ones, and
    failures.
    """
    for number in range(HISTORIES):
        draw = Random(f"{SEED} carried {number}")
        with monkeypatch.context() as patch:
            nights = Nights(
                tmp_path / f"{number}",
                patch,
                pushes=draw.random() < 0.3,
                keep_runs=draw.choice(["0", "1", "2"]),
            )
            steps = [_drawn_step(nights, draw) for _ in range(8)]
            nights.run(draw.choice(NIGHTS))
            adds_up(nights, f"history {number}:", *steps)


def _drawn_step(nights: Nights, draw: Random) -> str:
    night, begun = draw.choice(NIGHTS), nights.begun
    cut_at = draw.choice(
        [None, draw.randrange(len(INSTANTS)), draw.randrange(PUBLICATION, len(INSTANTS))]
    )
    what = draw.choice(["run", "run", "resume", "resume", "fail"])
    if what == "fail":
        nights.fail()
        return what
    if what == "run" or not begun:
        nights.run(night, cut_at)
        return f"run cut at {cut_at}"
    run_id = draw.choice(begun)
    try:
        nights.resume(night, run_id, cut_at)
    except ConfigError:
        return f"{run_id} refused"
    return f"{run_id} resumed, cut at {cut_at}"


@pytest.fixture(scope="module")
def three_nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    """Return three runs that ended well."""
    with pytest.MonkeyPatch.context() as patch:
        nights = Nights(tmp_path_factory.mktemp("three"), patch)
        for night in NIGHTS[:3]:
            nights.run(night)
    return nights


def rewritten(
    nights: Nights, name: str, change: Callable[[dict[str, Any]], object], at: int = 1
) -> list[tuple[Sort, str]]:
    """Return sort and field of the breaches while a JSON file of a run is changed; later runs stay
    as they are.
    """
    file = nights.chain[at].directory / name
    right = file.read_text()
    content = json.loads(right)
    change(content)
    file.write_text(json.dumps(content))
    found = breaches_of_carried(nights.chain[: at + 1])
    file.write_text(right)
    return sorted({(breach.sort, breach.field) for breach in found})


def add(field: str, key: str, count: int) -> Callable[[dict[str, Any]], object]:
    """Return a change that counts a run's findings or questions so many more times."""

    def change(summary: dict[str, Any]) -> None:
        if field == "totals":
            summary[field][key] += count
        else:
            summary[field][key]["answered"] += count

    return change


def baseline(**changes: object) -> Callable[[dict[str, Any]], object]:
    """Return a change to another baseline of the number of ledgers, or to none."""
    return lambda about: about.update(
        previous_population={**about["previous_population"], **changes} if changes else None
    )


ONE_NIGHT = 13
"""The second night's questions to bookies, and their answers."""
PLANTED: dict[str, tuple[Sort, str, str, Callable[[dict[str, Any]], object]]] = {
    "a finding counted twice": (Sort.DUPLICATION, "totals", "summary.json",
    add("totals", WITHOUT.value, 1)),
    "a finding never counted": (Sort.LOSS, "totals", "summary.json",
    add("totals", WITHOUT.value, -1)),
    "the totals began anew": (Sort.LOSS, "totals", "summary.json", add("totals", BELOW.value, -2)),
    "a run's requests counted twice": (
        Sort.DUPLICATION, "request_totals", "summary.json",
        add("request_totals", "bookie_requests", ONE_NIGHT),
    ),
    "a run's requests never counted": (
        Sort.LOSS, "request_totals", "summary.json",
        add("request_totals", "bookie_requests", -ONE_NIGHT),
    ),
    "a run's reads of znodes counted twice": (
        Sort.DUPLICATION, "request_totals", "summary.json",
        add("request_totals", "zookeeper_reads", 6),
    ),
    "no number of ledgers to be held against": (Sort.LOSS, "previous_population", "run.json",
    baseline()),
    "a bookie is missing since this run only": (
        Sort.CORRUPTION, "unregistered_since_ms", "run.json",
        lambda about: about.update(unregistered_since_ms={}),
    ),
    "a turn that another run took": (
        Sort.CORRUPTION, "sweep", "run.json", lambda about: about["terms"]["sweep"].update(turn=0),
    ),
    "a run's sweep counted twice": (
        Sort.CORRUPTION, "sampling", "summary.json",
        lambda summary: summary["sampling"]["series"]["spans"][0].update(runs=3),
    ),
    "the number of ledgers of no run": (Sort.CORRUPTION, "previous_population", "run.json",
    baseline(listed=10)),
}  # fmt: skip


@pytest.mark.parametrize("what", PLANTED)
def test_planted_among_what_is_carried(three_nights: Nights, what: str):
    """A doubled and a lost sum of each field, written into the run's own files, are reported by
    sort and field, and nothing else is.
    """
    sort, field, name, change = PLANTED[what]
    assert [(sort, field)] == rewritten(three_nights, name, change)


def test_everything_that_is_carried_has_its_plant():
    """A field that is added to the table of carried ones must also be shown to the detector."""
    assert {carried.name for carried in CARRIED} == {field for _, field, _, _ in PLANTED.values()}


def test_planted_among_metrics(three_nights: Nights):
    """Counters that decrease, that are ahead of every run, or that no run ever had are found."""

    def found(*samples: str) -> set[Sort]:
        return {breach.sort for breach in breaches_of_carried(three_nights.chain, samples)}

    first, second, third = three_nights.samples
    assert (
        set()
        == found(first, second, third)
        == found(first, third)
        == found("", first, first, third)
    )
    assert {Sort.LOSS} == found(first, third, second) == found(second, third, first)
    doubled = re.sub(
        r"(_requests_total.*answered.* )([0-9.]+)$",
        lambda m: f"{m[1]}{2 * float(m[2])}",
        third,
        flags=re.M,
    )
    assert {Sort.DUPLICATION} == found(first, second, doubled)


def counts_every_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count a finding as new in every run that has it."""
    right = Previous.totals_after
    monkeypatch.setattr(
        Previous,
        "totals_after",
        lambda self, found: right(replace(self, findings=frozenset()), found),
    )


def knows_no_previous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each run without a previous one."""
    monkeypatch.setattr(nights, "read_previous", lambda *_: NO_PREVIOUS)


def goes_on_from_any_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the newest run with a summary for the previous one, although latest.json does not name
    it: after a resumption that is the run itself.
    """

    def newest(output: Output) -> Place | None:
        runs = sorted(Path(output.root.path).glob("run-*/summary.json"))
        return output.root / runs[-1].parent.name if runs else None

    right = read_previous

    def previous(output: Output, facts: ClusterFacts) -> Previous:
        with monkeypatch.context() as patch:
            patch.setattr(Output, "latest", newest)
            return right(output, facts)

    monkeypatch.setattr(nights, "read_previous", previous)


def sends_metrics_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send counters before latest.json names their run."""
    right = Output.publish

    def publish(output: Output, run: Place, lock: HeldLock | None = None) -> None:
        metrics.write_textfile(
            Path(output.root.path).parent / "auditor.prom", run.read_text("metrics.prom") or ""
        )
        right(output, run, lock)

    monkeypatch.setattr(Output, "publish", publish)


BUGS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], set[tuple[Sort, str]]]] = {
    "counts every finding": (counts_every_finding, {(Sort.DUPLICATION, "totals")}),
    "knows no previous": (
        knows_no_previous,
        {(Sort.LOSS, field) for field in ("totals", "request_totals", "previous_population")},
    ),
    "goes on from any summary": (
        goes_on_from_any_summary,
        {
            (Sort.DUPLICATION, "totals"),
            (Sort.DUPLICATION, "request_totals"),
            (Sort.CORRUPTION, "previous_population"),
        },
    ),
    "sends metrics first": (sends_metrics_first, {(Sort.DUPLICATION, "metrics")}),
}


@pytest.mark.parametrize("bug", one_in(4, BUGS))
def test_a_bug_in_what_is_carried_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str
):
    """A run is killed before latest.json names it, and resumed, or followed by a new one: the plan
    finds the bug.
    """
    plant, expected = BUGS[bug]
    sorts: set[tuple[Sort, str]] = set()
    for after in ("resumed", "followed by a fresh run"):
        with monkeypatch.context() as patch:
            nights = Nights(tmp_path / after, patch)
            plant(patch)
            nights.run(NIGHTS[0])
            nights.run(
                NIGHTS[1],
                cut_at=INSTANTS.index("write_text latest.json") + (bug == "sends metrics first"),
            )
            AFTER[after](nights)
            nights.run(NIGHTS[3])
            sorts |= {
                (found.sort, found.field)
                for found in breaches_of_carried(nights.chain, nights.samples)
            }
    assert expected <= sorts
