"""Laws of runs that ask only about what is due (`--within`), over simulated hours."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog
from support.audits import Outcome, accounted, audit
from support.listers import scrubs_of_sandbox

from auditor.commands.bundle import bundle
from auditor.commands.explain import explain
from auditor.commands.margin import margin
from auditor.commands.status import status
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.evidence.journal import StageResult
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import ANSWERS, READS
from auditor.model.finding import Kind
from auditor.model.scrub import Candidate, ScrubPass, ScrubReport, Suspicion
from auditor.run.open_hours import OpenHours
from auditor.run.pipeline import Audit
from auditor.sandbox.bookie import LedgerFault
from auditor.sandbox.cluster import SandboxCluster
from auditor.stages.stages import SINGLY_MAX
from auditor.stop import StopRequest
from auditor.summary.due_ledgers import Rotation
from auditor.summary.reading_plan import milliseconds
from auditor.telemetry.progress import Progress, Silent

LEDGERS = range(1, 201)
PERIOD_HOURS = 8


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SandboxCluster]:
    """Yield four bookies with cookies, and 200 sound ledgers of five entries on three of them."""
    with SandboxCluster(tmp_path / "cluster", bookies=4, named=True) as made:
        for bookie in ("b1", "b2", "b3", "b4"):
            made.cookie(bookie)
        for ledger in LEDGERS:
            first = 1 + ledger % 2
            names = " ".join(f"b{number}" for number in range(first, first + 3))
            made.place(ledger, made.ledger(f"e3 w3 a2 0:[{names}] closed 4"))
        yield made


class Hours:
    """Runs of one output that begin at given hours."""

    def __init__(
        self, cluster: SandboxCluster, output: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.cluster, self.output, self.monkeypatch = cluster, output, monkeypatch
        self.first = datetime.now(UTC)

    def run(self, hour: float, **settings: str) -> Outcome:
        """Run an audit that begins so many hours after the first."""
        at = self.first + timedelta(hours=hour)
        self.monkeypatch.setattr("auditor.run.run.utc_now", lambda: at)
        return audit(self.cluster, self.output, **{"within": f"{PERIOD_HOURS}h", **settings})

    def due_between(
        self, earlier: float, later: float, period_hours: int = PERIOD_HOURS
    ) -> set[int]:
        """Return the ledgers whose turn comes between two hours."""
        at = [milliseconds((self.first + timedelta(hours=h)).isoformat()) for h in (earlier, later)]
        ids = np.array(LEDGERS, np.int64)
        rotation = Rotation(period_hours * 3_600_000, at[1], at[0])
        return set(ids[rotation.is_passed(ids, np.full(len(ids), at[0]))].tolist())


@pytest.fixture
def hours(cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hours:
    return Hours(cluster, tmp_path / "output", monkeypatch)


def asked(outcome: Outcome) -> set[int]:
    rows = place(str(outcome.run_dir)).read_table("evidence/answers", ANSWERS, None, ["ledger_id"])
    return set(rows["ledger_id"].to_pylist()) - {None}


def test_a_loss_in_a_carried_ledger_is_found_within_the_period(
    hours: Hours, cluster: SandboxCluster
) -> None:
    """Every hour a share is asked about, and the lost ledger in turn. The next run asks about all
    those on the bookie that lost it that this one did not. Later ones ask about the lost one only.
    """
    whole = accounted(hours.run(0, spot_reads="0"))
    assert (0, set(LEDGERS)) == (whole.exit_code, asked(whole))
    assert "every ledger was asked about, although --within is 8 h" in whole.stdout
    first = accounted(hours.run(1, spot_reads="0"))
    carried = first.summary["carried"]
    assert (len(LEDGERS), len(asked(first))) == (
        carried["ledgers"] + carried["due"]["turn"],
        carried["due"]["turn"],
    )
    assert 10 < len(asked(first)) < 50
    rest = f"{carried['ledgers']} of 200 ledgers were not asked about now"
    assert rest in " ".join(first.stdout.split())
    lost = hours.due_between(2, 3) - asked(first)
    ledger = min(lost)
    bookie = "b4" if ledger % 2 else "b1"
    on_bookie = {one for one in LEDGERS if one % 2 == ledger % 2}
    cluster.hold(bookie, ledger, [])
    before = accounted(hours.run(2, spot_reads="0"))
    assert (0, False) == (before.exit_code, ledger in asked(before))
    found = accounted(hours.run(3, spot_reads="0"))
    assert lost <= asked(found)
    assert [ledger] == [one["ledger_id"] for one in found.findings]
    again = accounted(hours.run(3.1, spot_reads="0"))
    assert on_bookie - asked(found) <= asked(again)
    assert [ledger] == [one["ledger_id"] for one in again.findings]
    later = accounted(hours.run(3.2, spot_reads="0"))
    assert ledger in asked(later)
    assert len(asked(later)) < 50


def test_what_is_new_changed_or_marked_is_asked_about_at_once(
    hours: Hours, cluster: SandboxCluster
) -> None:
    """Of the others a run asks for nothing: it reads each znode once.

    Within 72 seconds at most four ledgers have their turn, whenever they begin.
    """
    whole = hours.run(0, spot_reads="0").summary["requests"]
    calm = hours.run(0.01, spot_reads="0")
    made = calm.summary["requests"]
    assert 4 + 3 * len(asked(calm)) == made["bookie_requests"] < whole["bookie_requests"] / 30
    assert made["zookeeper_reads"] <= whole["zookeeper_reads"] + len(asked(calm)) + 20
    assert 4 == calm.summary["bookies"]["named_by_ledgers"]
    quiet, changed, marked, gone = sorted({*LEDGERS} - hours.due_between(0, 0.02))[:4]
    cluster.add_ledger(changed, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 4"))
    cluster.mark(marked, ["b1"])
    cluster.delete_ledger(gone)
    cluster.place(201, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 4"))
    found = accounted(hours.run(0.02, spot_reads="0"))
    due = found.summary["carried"]["due"]
    assert {changed, marked, 201} <= asked(found) | {marked}
    assert quiet not in asked(found)
    assert (1, 1, 1) == (due["new"], due["marked"], due["changed"])
    assert ("exempt", "sound") == (found.verdicts[marked].standing, found.verdicts[201].standing)
    assert gone not in found.verdicts


@pytest.mark.parametrize("while_the_base_runs", [False, True])
def test_a_bookie_that_lost_its_disks_makes_its_ledgers_due_at_once(
    hours: Hours, cluster: SandboxCluster, while_the_base_runs: bool
) -> None:
    """Also if it came back with a new cookie before the base ended, which had its lists."""

    def change_cookie() -> None:
        cluster.delete_cookie("b1")
        cluster.cookie("b1")

    if while_the_base_runs:
        with hours.monkeypatch.context() as patched:
            listed = Audit.list_ledgers
            patched.setattr(Audit, "list_ledgers", lambda *of: (change_cookie(), listed(*of))[1])
            hours.run(0)
    else:
        hours.run(0)
        change_cookie()
    on_b1 = {ledger for ledger in LEDGERS if ledger % 2 == 0}
    for ledger in on_b1:
        cluster.hold("b1", ledger, [])
    found = accounted(hours.run(0.01))
    assert on_b1 <= asked(found)
    assert on_b1 == {ledger for ledger, one in found.verdicts.items() if one.standing != "sound"}
    assert Kind.BOOKIE_LOST_CONTENT.value in {one["kind"] for one in found.findings}


def test_a_silent_bookie_ends_the_carried_verdicts_on_its_ledgers(
    hours: Hours, cluster: SandboxCluster
) -> None:
    """They are unknown, as after a whole run, and asked about by the next run."""
    hours.run(0)
    cluster.stop_bookie("b1")
    silent = accounted(hours.run(0.01))
    on_b1 = {ledger for ledger in LEDGERS if ledger % 2 == 0}
    assert on_b1 == {i for i, one in silent.verdicts.items() if one.unknowns == ("bookie_silent",)}
    assert len(on_b1 - asked(silent)) == silent.summary["carried"]["withheld"] > 90
    assert [Kind.BOOKIE_SILENT_YET_REGISTERED.value] == [one["kind"] for one in silent.findings]
    cluster.start_bookie("b1")
    assert on_b1 <= asked(accounted(hours.run(0.02)))


def test_what_a_scrub_names_in_a_carried_ledger_is_read_at_once(
    hours: Hours, cluster: SandboxCluster, tmp_path: Path
) -> None:
    """A list cannot show the rotten copy."""
    hours.run(0, spot_reads="0")
    ledger = max(ledger for ledger in set(LEDGERS) - hours.due_between(0, 0.01) if ledger % 2 == 0)
    cluster.corrupt("b1", ledger, 2)
    done = ScrubPass(1_000, 2_000, logs=1, entries=9, verified=8, failed=1, suspected=1)
    report = ScrubReport(3_000, done, None, (Candidate(ledger, 2, Suspicion.DIGEST),))
    (tmp_path / "scrubs").mkdir()
    with scrubs_of_sandbox(cluster, tmp_path / "scrubs", {"b1": report}) as listers:
        found = accounted(hours.run(0.01, spot_reads="0", lister_map=str(listers)))
    assert Kind.ENTRY_CORRUPT.value == found.one(ledger)["kind"]
    assert (1, 1) == (
        found.summary["carried"]["due"]["scrub"],
        found.summary["requests"]["scrub_reads"],
    )


COSTS = {"duration_s", "paces", "request_totals", "requests", "stored"}
DIFFERENT = COSTS | {"carried", "verification.seed"}
"""The parts of a summary that a run with a period states otherwise than a whole run."""


@pytest.mark.parametrize(
    ("settings", "singly_max"), [({}, SINGLY_MAX), ({}, 0), ({"maintenance": "b1"}, 0)]
)
def test_each_number_is_that_of_a_whole_run_of_the_same_moment(
    hours: Hours,
    cluster: SandboxCluster,
    tmp_path: Path,
    settings: dict[str, str],
    singly_max: int,
) -> None:
    """A silent bookie leaves unknown what it leaves unknown in a whole run, also for `margin`.

    Those that are due are asked about and judged one by one, or in columns.
    """
    hours.monkeypatch.setattr("auditor.stages.stages.SINGLY_MAX", singly_max)
    hours.run(-1, spot_reads="0")
    cluster.stop_bookie("b1")
    shutil.copytree(hours.output, tmp_path / "copy")
    due = accounted(hours.run(-0.99, spot_reads="0", **settings))
    hours.output = tmp_path / "copy"
    whole = accounted(hours.run(-0.99, within="0", spot_reads="0", **settings))
    assert due.summary["carried"]["ledgers"] > 150
    verdicts = [
        {i: (one.standing, one.unknowns) for i, one in each.verdicts.items()}
        for each in (due, whole)
    ]
    assert verdicts[0] == verdicts[1]
    stated, expected = (stated_by(one) for one in (due, whole))
    other = {
        name for name in stated.keys() | expected.keys() if stated.get(name) != expected.get(name)
    }
    assert set() == {name for name in other if not DIFFERENT & {name, name.split(".")[0]}}
    for without in ([], ["b2"], ["b3"], ["b2", "b3"]):
        one, other = (
            json.loads(said(margin, str(one.run_dir), without, format="json"))
            for one in (due, whole)
        )
        assert {"run_id", "age_s"} >= {key for key in one if one[key] != other[key]}


def test_a_bookie_that_could_not_send_what_it_lists_is_asked_and_read_as_by_a_whole_run(
    hours: Hours, cluster: SandboxCluster
) -> None:
    """Else only due ledgers would be read, and `margin` would count copies that cannot be sent."""
    on_b1 = {ledger for ledger in LEDGERS if ledger % 2 == 0}
    quiet = sorted(on_b1 - hours.due_between(0, 0.01))
    failing = [quiet[:9], quiet[9:]]
    for hour, ledgers in zip((0, 0.01), failing, strict=True):
        for ledger in on_b1:
            is_failing = ledger in ledgers
            cluster.fault("b1", ledger, LedgerFault.READS_FAIL if is_failing else None)
        found = accounted(hours.run(hour))
        assert [("BOOKIE_UNREADABLE_ENTRIES", "b1")] == [
            (one["kind"], one["bookie_id"]) for one in found.findings if one["bookie_id"]
        ]
        assert on_b1 <= asked(found)
        without = json.loads(said(margin, str(found.run_dir), ["b2", "b3"], format="json"))
        assert len(on_b1) == without["may_have_no_copy"]["ledgers"]


COPIES = 3 * 5 * len(LEDGERS)
"""The copies that the bookies of the sandbox should hold."""


def copies_read(outcome: Outcome) -> set[tuple[str, int, int]]:
    columns = ["bookie_id", "ledger_id", "entry_id"]
    rows = place(str(outcome.run_dir)).read_table("evidence/reads", READS, None, columns)
    cells = list(zip(*rows.to_pydict().values(), strict=True))
    assert len(cells) == len(set(cells)), "each copy is read once"
    return set(cells)


def test_runs_with_a_period_read_every_copy_within_the_other_period(hours: Hours) -> None:
    """Without a whole run between them. They say how old the reads of all copies are, carried
    ledgers included, and make few more requests than the reads.
    """
    settings = {"within": "60h", "verify_within": "24h", "verify_bytes_per_second": "1MiB"}
    read = dict.fromkeys(copies_read(accounted(hours.run(0, **settings))), 0)
    for hour in range(3, 28, 3):
        outcome = accounted(hours.run(hour, **settings))
        read.update(dict.fromkeys(copies_read(outcome), hour))
        ages = outcome.summary["verification"]["counts"]
        assert {
            "copies": COPIES,
            "within_day": sum(hour - at <= 24 for at in read.values()),
            "within_week": len(read),
            "within_period": sum(hour - at <= 24 for at in read.values()),
            "never": COPIES - len(read),
            "overdue": 0,
        } == {name: value for name, value in ages.items() if name != "oldest"}
        assert len(asked(outcome)) < 40
        assert {"reads"} == {
            one["verified_by"] for one in outcome.summary["verification"]["bookies"]
        }
        reads = outcome.summary["requests"]["spot_reads"]
        assert len(copies_read(outcome)) == reads
        assert outcome.summary["requests"]["bookie_requests"] <= 3 * len(asked(outcome)) + reads + 8
    assert COPIES == len(read)


def test_copies_of_carried_ledgers_are_read_within_the_window(
    hours: Hours, cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the window closes while ledgers are listed."""
    settings = {"verify_within": "1h", "verify_bytes_per_second": "10MiB", "within": "60h"}
    hours.run(0, **settings)
    at, requests = [datetime(2026, 11, 24, 2, tzinfo=UTC)], list[int]()
    write_listing, hours_of = Audit._write_listing, OpenHours.of

    def count_requests() -> None:
        names = ("b1", "b2", "b3", "b4")
        requests.append(sum(cluster.bookie(name).operations.total() for name in names))

    class Naps(StopRequest):
        def wait(self, seconds: float) -> None:
            count_requests()
            at[0] += timedelta(seconds=seconds)

    def until_five(audit: Audit, ids: None) -> StageResult:
        made = write_listing(audit, ids)
        at[0] = at[0].replace(hour=5)
        count_requests()
        return made

    def simulated(context: Context, progress: Progress) -> OpenHours:
        return replace(hours_of(context, progress), now=lambda: at[0], stop=Naps())

    monkeypatch.setattr(Audit, "_write_listing", until_five)
    monkeypatch.setattr(OpenHours, "of", simulated)
    found = hours.run(1, window="01:00-05:00 UTC", **settings)
    assert len(requests) > 20 * 60
    assert {requests[0]} == set(requests)
    assert len(copies_read(found)) > 1_000


def test_what_runs_with_a_period_do_not_read_in_time_is_overdue(hours: Hours) -> None:
    """Without a rate they read what tests lists, as whole runs do. The count is exact."""
    settings = {"within": "60h", "verify_within": "24h", "verify_bytes_per_second": "0"}
    read: dict[tuple[str, int, int], int] = {}
    for hour in (0, 3, 26):
        outcome = accounted(hours.run(hour, **settings))
        read.update(dict.fromkeys(copies_read(outcome), hour))
    fresh = sum(26 - at <= 24 for at in read.values())
    assert COPIES - fresh == outcome.summary["verification"]["counts"]["overdue"] > 0
    assert [Kind.VERIFICATION_OVERDUE.value] == [one["kind"] for one in outcome.findings]


@pytest.mark.parametrize("fault", [None, LedgerFault.READS_FAIL])
def test_a_copy_that_cannot_be_read_in_a_carried_ledger_is_found_as_by_a_whole_run(
    hours: Hours, cluster: SandboxCluster, tmp_path: Path, fault: LedgerFault | None
) -> None:
    """No list shows it. It is read before any list is asked for, and once at each look."""
    settings = {"verify_within": "1h", "verify_bytes_per_second": "10MiB", "within": "60h"}
    hours.run(0, **settings)
    quiet = sorted(set(LEDGERS) - hours.due_between(0, 1, 60))
    ledger, other = [one for one in quiet if one % 2 == 0][:2]
    if fault is None:
        cluster.corrupt("b1", ledger, 2)
    else:
        cluster.fault("b1", ledger, fault)
    shutil.copytree(hours.output, tmp_path / "copy")
    due = accounted(hours.run(1, **settings))
    hours.output = tmp_path / "copy"
    whole = accounted(hours.run(1, **{**settings, "within": "0"}))
    assert (1, True, False) == (
        due.summary["carried"]["due"]["read"],
        ledger in asked(due),
        other in asked(due),
    )
    assert [one["id"] for one in whole.findings] == [one["id"] for one in due.findings]
    assert [one["facts"] for one in whole.findings] == [one["facts"] for one in due.findings]
    assert whole.exit_code == due.exit_code == 1
    verdicts = [
        {i: (one.standing, one.unknowns) for i, one in each.verdicts.items()}
        for each in (due, whole)
    ]
    assert verdicts[0] == verdicts[1]
    ages = [each.summary["verification"] for each in (due, whole)]
    assert ages[0]["counts"] == ages[1]["counts"]
    assert [one["arcs"] for one in ages[0]["bookies"]] == [
        one["arcs"] for one in ages[1]["bookies"]
    ]


def test_reads_that_a_bookie_leaves_unanswered_end_no_carried_verdict(
    hours: Hours, cluster: SandboxCluster
) -> None:
    """Their copies count as read when they were read before."""
    settings = {"verify_within": "1h", "verify_bytes_per_second": "10MiB", "within": "60h"}
    first = copies_read(hours.run(0, **settings))
    ledger = min(set(LEDGERS) - hours.due_between(0, 1, 60))
    for bookie in ("b2", "b3"):
        cluster.fault(bookie, ledger, LedgerFault.NEVER_ANSWERED)
    found = accounted(hours.run(1, rpc_timeout="1s", **settings))
    assert ("sound", False) == (found.verdicts[ledger].standing, ledger in asked(found))
    counts = found.summary["verification"]["counts"]
    unread = {("b2", ledger, n) for n in range(5)} | {("b3", ledger, n) for n in range(5)}
    assert (COPIES, len(unread - first)) == (counts["copies"], counts["never"])


def stated_by(outcome: Outcome) -> dict[str, object]:
    """Return the values in a run's summary, each by its path, without the run's id and dates."""
    summary = {**outcome.summary, "started_at": None, "finished_at": None}
    text = json.dumps(summary).replace(summary["run_id"], "this run")
    return dict(numbers_of(json.loads(text)))


def numbers_of(value: Any, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values in a summary, each with its path."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from numbers_of(one, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        yield name, json.dumps(value)
    else:
        yield name, value


def test_other_settings_than_those_of_the_base_ask_about_every_ledger(hours: Hours) -> None:
    hours.run(0)
    found = hours.run(0.01, spot_reads="7")
    assert set(LEDGERS) == asked(found)
    assert "it had other settings" in found.summary["carried"]["problem"]


def test_a_run_of_all_ledgers_says_nothing_of_carrying(hours: Hours) -> None:
    whole = hours.run(0, within="0")
    assert whole.summary["carried"] is None
    assert "Carried over" not in whole.stdout
    assert not {"within_ms", "base"} & json.loads((whole.run_dir / "run.json").read_text()).keys()


@pytest.mark.parametrize("other", [{"dry_run": "true"}, {"resume": "latest"}])
def test_a_period_does_not_go_with_every_flag(hours: Hours, other: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="does not go with --within"):
        hours.run(0, **other)


def test_each_command_says_what_is_carried_over(hours: Hours, tmp_path: Path) -> None:
    """`explain` names the run whose lists a verdict rests on, `bundle` sends the reader there, and
    `margin` takes the run to be as old as these lists.
    """
    whole = hours.run(-30)
    hour = next(one for one in range(-29, 0) if hours.due_between(-30, one, 400))
    due = hours.run(hour, within="400h")
    carried = max(set(LEDGERS) - asked(due))
    asked_again = min(asked(due))
    run_dir, run_id = str(due.run_dir), whole.summary["run_id"]
    assert f"its lists are from run {run_id}" in said(explain, str(carried), run_dir)
    assert "its lists are from" not in said(explain, str(asked_again), run_dir)
    page = (due.run_dir / "report.html").read_text()
    assert "ledgers were not asked about now" in " ".join(page.split())
    stored = json.loads(said(explain, str(carried), run_dir, format="json"))
    assert run_id == stored["carried_from"]["run_id"]
    pack = partial(said, partial(bundle, plain=False), run_dir, [str(carried)])
    not_asked = f"did not ask about ledger {carried}: the evidence on it is in run {run_id}"
    with pytest.raises(ConfigError, match=f"{not_asked}; bundle {whole.run_dir}"):
        pack(str(tmp_path / "bundle.tar.gz"))
    whole.run_dir.rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=f"{not_asked}; {whole.run_dir} is not there any more"):
        pack(str(tmp_path / "bundle.tar.gz"))
    words = " ".join(said(margin, run_dir, []).split())
    assert "whose oldest lists are" in words and "older than --evidence-age-max" in words
    shown = " ".join(said(status, str(hours.output / "audits"), 5).split())
    assert f"{due.summary['carried']['ledgers']} of 200 ledgers were not asked about now" in shown


def said(command: Callable[..., int], *arguments: Any, **flags: str) -> str:
    """Return what a command prints."""
    settings = parse(Layers(flags={"output": "unused", **flags}), command="config")
    out = io.StringIO()
    command(Context(settings, out, structlog.get_logger(), Silent(), StopRequest()), *arguments)
    return out.getvalue()
