"""BookKeeper's own auditor, 4.17.2, and ours on the same real cluster: what Java gets wrong, what
it reports, and what we report.

The test that places the entries states the truth of each case, and the entries are read back from
the bookies one by one. `support.side_by_side.holds_truth` compares an answer with that truth. It is
seen to reject Java's answer wherever Java is wrong, and to accept it wherever Java is right. The
defects are those of docs/java-auditor.md, which also has those that no test shows.

One cluster: b1 to b4 Sorted, b5 Interleaved, b6 DbLedgerStorage, b7 killed and still registered; b9
has only a cookie. One audit of ours judges all ledgers at once, with unreadable metadata and
malformed marks among them; `auditor ledger` judges the cases that change the cluster. Java is asked
about the ledgers of one case at a time, so that its defects do not hide each other.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.audits import Outcome, accounted, audit, audit_ledgers
from support.java_auditor import STUCK_S, JavaAuditor, JavaRun
from support.java_cases import (
    BAD_MARKS,
    CASES,
    DAY_MS,
    DOWN,
    EVERY_SECOND,
    GARBAGE,
    GRACE_S,
    JAVA_GRACE,
    LEDGER_OF_A_BAD_MARK,
    LOST,
    MARKED,
    OLD_MARK,
    OVERWRITTEN,
    SILENT,
    STORAGES,
    WITHOUT_TIME,
    Case,
    addresses_of_their_own,
    bad_mark_names,
    by_address,
    mark_parent,
    unparsable_mark,
)
from support.real_cluster import RealCluster
from support.side_by_side import Answer, Question, holds_truth, java_answer, lives_on, our_answer
from support.zookeeper_znodes import QUICK

from auditor.model.availability import SequenceGroup
from auditor.model.finding import Kind
from auditor.model.verdict import Unknown
from auditor.wire import ledger_metadata, underreplication_mark, znode_paths
from auditor.wire.service_uri import parse
from auditor.wire.znode_paths import LedgerLayout
from auditor.zookeeper.metadata_store import open_store

pytestmark = [pytest.mark.real, pytest.mark.long]

TABLE = Path(__file__).resolve().parents[2] / "docs" / "java-auditor.md"
DEFECTS = [case for case in CASES if not case.right]
AGREED = [case for case in CASES if case.right]
PLACED = [case for case in CASES if case.question is Question.PLACEMENT]
ON_DISK = [case for case in CASES if case.question is Question.ENTRIES]

each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
each_defect = pytest.mark.parametrize("case", DEFECTS, ids=lambda case: case.name)
each_agreed = pytest.mark.parametrize("case", AGREED, ids=lambda case: case.name)
each_placed = pytest.mark.parametrize("case", PLACED, ids=lambda case: case.name)
each_on_disk = pytest.mark.parametrize("case", ON_DISK, ids=lambda case: case.name)


@dataclass(frozen=True)
class BothAnswers:
    """What both said of each case, and the sources of the answers."""

    java: dict[str, Answer]
    java_runs: dict[str, JavaRun]
    ours: dict[str, Answer]
    our_outcomes: dict[str, Outcome]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield a cluster with every ledger of every case, and the marks."""
    with RealCluster(
        tmp_path_factory.mktemp("beside"), bookies=len(STORAGES), storage=STORAGES
    ) as cluster:
        for case in CASES:
            for ledger_id, text in case.ledgers.items():
                _place(cluster, ledger_id, text, case.lose.get(ledger_id))
        cluster.stop_bookie(SILENT)
        _down_for_long(cluster, DOWN)
        yield cluster


def _down_for_long(cluster: RealCluster, bookie_id: str) -> None:
    """Make a bookie known to the cluster by its cookie, and unregistered for long."""
    cookies = cluster.root + znode_paths.COOKIES
    cluster.set_raw(f"{cookies}/{bookie_id}", cluster.zk.get(f"{cookies}/b1")[0])


def _place(cluster: RealCluster, ledger_id: int, text: str, lose: dict[str, str] | None) -> None:
    if text == GARBAGE:
        cluster.set_raw(ledger_id, b"garbage")
    elif text.endswith("closed 3000000000"):
        cluster.add_ledger(ledger_id, cluster.ledger(text))
        cluster.hold("b1", ledger_id, "0-5")
    elif text == EVERY_SECOND:
        cluster.add_ledger(ledger_id, cluster.ledger(text))
        cluster.hold("b1", ledger_id, [SequenceGroup(0, 436_998, 1, 2)])
    else:
        cluster.place(ledger_id, cluster.ledger(text), lose)


@pytest.fixture(scope="module")
def java(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaAuditor]:
    """Yield BookKeeper's auditor on that cluster."""
    with JavaAuditor(cluster.metadata_service_uri, tmp_path_factory.mktemp("java")) as java:
        yield java


@pytest.fixture(scope="module")
def both(
    cluster: RealCluster, java: JavaAuditor, tmp_path_factory: pytest.TempPathFactory
) -> BothAnswers:
    """Return the answers: Java's case by case, ours once for all cases that leave the cluster
    unchanged.
    """
    _marks(cluster, java)
    marked_at_s = time.monotonic()
    both = BothAnswers({}, {}, {}, {})
    with unparsable_mark(cluster):
        with bad_mark_names(cluster):
            outcome = accounted(audit(cluster, tmp_path_factory.mktemp("ours"), probe_entries="0"))
        for case in (case for case in CASES if not case.is_alone):
            _keep(both, case, _ask_java(case, cluster, java), outcome)
    time.sleep(max(0.0, marked_at_s + GRACE_S + 0.2 - time.monotonic()))  # marks must be old enough
    for case in (case for case in CASES if case.is_alone):
        changed = case.changed or (lambda _: nullcontext())
        with changed(cluster):
            run = _ask_java(case, cluster, java)
            if case.between is None:
                _keep(both, case, run, _ask_ours(case, cluster, tmp_path_factory))
                continue
        with changed(cluster):
            _keep(both, case, run, _ask_ours(case, cluster, tmp_path_factory))
    return both


def _marks(cluster: RealCluster, java: JavaAuditor) -> None:
    now_ms = int(time.time() * 1000)
    java.mark(OVERWRITTEN, "b1")
    cluster.set_raw(
        cluster.root + znode_paths.mark_path(WITHOUT_TIME),
        underreplication_mark.encode(["b1"], None),
    )
    cluster.mark(OLD_MARK, ["b1"], now_ms - 10 * DAY_MS)
    cluster.mark(LEDGER_OF_A_BAD_MARK, ["b1"], now_ms - 10 * DAY_MS)
    cluster.mark(MARKED, ["b1"], now_ms)


def _ask_java(case: Case, cluster: RealCluster, java: JavaAuditor) -> JavaRun:
    if case.ask_java is not None:
        return case.ask_java(cluster, java)
    if case.question is Question.ENTRIES:
        return java.replicas(case.ledgers, **case.java)
    if case.question is Question.MARKS:
        return java.placement(case.ledgers, **case.java)
    with addresses_of_their_own(cluster):
        return java.placement(case.ledgers, locations=by_address(case.locations), **case.java)


def _ask_ours(
    case: Case, cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory, **settings: Any
) -> Outcome:
    """Run `auditor ledger` for the ledgers of one case."""
    if case.locations:
        table = tmp_path_factory.mktemp("topology") / "table"
        table.write_text(
            "".join(f"{bookie_id} {location}\n" for bookie_id, location in case.locations.items())
        )
        settings["topology"] = str(table)

    def act(pause: int) -> None:
        if case.between is not None:
            case.between(cluster)

    return audit_ledgers(
        cluster, sorted(case.ledgers), between=act, **{**case.settings, **settings}
    )


def _keep(both: BothAnswers, case: Case, run: JavaRun, outcome: Outcome) -> None:
    both.java[case.name], both.java_runs[case.name] = java_answer(case.question, run), run
    both.ours[case.name], both.our_outcomes[case.name] = (
        our_answer(case.question, outcome, case.ledgers),
        outcome,
    )


def check(answer: Answer, case: Case) -> None:
    """Check our answer, or any other in its place, against the truth."""
    assert holds_truth(answer, case.truth), f"{case.name}: {answer} for {case.truth}"


@each_on_disk
def test_the_truth_is_on_the_bookies(both: BothAnswers, cluster: RealCluster, case: Case) -> None:
    """Reading every entry from every bookie of its write set gives the truth that the case states.
    (`malformed` does not concern entries. Reading also gives the truth of a ledger whose bookies
    cannot list.)
    """
    closed = {
        ledger_id: text
        for ledger_id, text in case.ledgers.items()
        if text != GARBAGE and "open" not in text
    }
    found = " ".join(
        lives_on(cluster, ledger_id, text) for ledger_id, text in closed.items()
    ).split()
    words = {word: found.count(word) for word in found if word != "sound"}
    assert words == {word: count for word, count in case.truth.says.items() if word != "malformed"}


@each
def test_java_says(both: BothAnswers, case: Case) -> None:
    """They are published after its check of these ledgers, with whether the check finished."""
    assert Answer(case.java_finishes, case.java_says) == both.java[case.name]


@each
def test_we_say_the_truth(both: BothAnswers, case: Case) -> None:
    """Ours finishes, accuses nothing that is sound, and misses nothing that is not."""
    check(both.ours[case.name], case)


@each_defect
def test_javas_answer_in_the_place_of_ours_is_rejected(both: BothAnswers, case: Case) -> None:
    """The test above fails if Java's answer replaces ours."""
    with pytest.raises(AssertionError):
        check(both.java[case.name], case)


@each_placed
def test_the_java_mode_gives_javas_answer(
    both: BothAnswers, cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    """With `--placement-compat java` ours says what Java says, even if that is wrong. (If Java
    never ends, ours cannot tell.)
    """
    changed = case.changed or (lambda _: nullcontext())
    with changed(cluster):
        outcome = _ask_ours(case, cluster, tmp_path_factory, placement_compat="java")
    expected = both.java[case.name].says if case.java_finishes else {"unknown": 1, "malformed": 1}
    assert Answer(True, expected) == our_answer(case.question, outcome, case.ledgers)


@each_agreed
def test_java_is_right_and_we_agree(both: BothAnswers, case: Case) -> None:
    """Without a defect Java's answer agrees with the truth and with ours."""
    check(both.java[case.name], case)
    assert both.java[case.name] == both.ours[case.name]


# What a number of ledgers does not show


def test_j3_our_reason_is_that_the_bookie_cannot_list(both: BothAnswers) -> None:
    """Without probes a ledger on DbLedgerStorage is never sound by a list: it is unknown, with the
    reason.
    """
    verdict = both.our_outcomes["J3 DbLedgerStorage"].verdicts[123]
    assert ("indeterminate", (Unknown.BOOKIE_UNSUPPORTED.value,)) == (
        verdict.standing,
        verdict.unknowns,
    )
    run = both.java_runs["J3 DbLedgerStorage"]
    assert run.finished and run.logged("Ledger : 123", "unavailable bookies")


def test_j3_probes_find_the_loss(both: BothAnswers, cluster: RealCluster) -> None:
    """With as many probes as entries nothing is hidden: reading finds the entry that no bookie
    has.
    """
    outcome = audit_ledgers(cluster, [123], probe_entries="16")
    assert Answer(True, LOST.says) == our_answer(Question.ENTRIES, outcome, [123])
    assert [[4, 4]] == outcome.one(123)["entries"]


def test_j2_java_has_seen_what_its_gauge_has_not(both: BothAnswers) -> None:
    """The loss is in Java's log, but its gauge is 0: the next range has cleared it."""
    run = both.java_runs["J2 a loss in a range before the last"]
    assert 0 == run.gauges["no_replica"]
    assert 1 == len(run.logged("Ledger : 122 entryId : 4 is missing all replicas"))


def test_j7_every_run_gives_up_there(both: BothAnswers, java: JavaAuditor) -> None:
    """Java's next run, and its placement check, give up at the same znode."""
    assert both.java_runs["J7 unreadable metadata"].logged("BKAuditException")
    ids = [128, 10_128, 20_128]
    assert [False, False] == [java.replicas(ids).finished, java.placement(ids).finished]
    assert [True, True] == [
        java.replicas([128, 20_128]).finished,
        java.placement([128, 20_128]).finished,
    ]


def test_j8_a_bad_name_ends_the_schedule_for_ever(
    both: BothAnswers, cluster: RealCluster, java: JavaAuditor
) -> None:
    """At a fixed rate, as the auditor schedules it, the check never starts again after one
    malformed mark, even when the mark is gone; without the mark it starts again and again.
    """

    def scheduled(until: Callable[[int, bool], bool]) -> tuple[int, bool]:
        name = mark_parent(cluster) + BAD_MARKS[0]
        return java.starts_at_a_fixed_rate(
            [MARKED], JAVA_GRACE, until, lambda: cluster.delete_raw(name)
        )

    cluster.set_raw(mark_parent(cluster) + BAD_MARKS[0], b"")
    assert (0, False) == scheduled(lambda starts, ended: ended)
    starts, is_alive = scheduled(lambda starts, ended: starts >= 2)
    assert starts > 0 and is_alive


def test_j11_it_waits_for_two_minutes_and_says_nothing(both: BothAnswers) -> None:
    """Java's check of that ledger did not return, and logged nothing but its start."""
    run = both.java_runs["J11 more entries than fit into an int"]
    assert (True, 1) == (run.stuck, len(run.log))


def test_j16_ours_names_the_entries(both: BothAnswers) -> None:
    """Java publishes a number; our finding has the ledger, the entries and the bookie that lacks
    them.
    """
    found = both.our_outcomes["J16 one copy of three lost, all acknowledged"].one(106)
    assert (Kind.ENTRY_BELOW_ACK_QUORUM.value, [[2, 6]], {"b3": [[2, 6]]}) == (
        found["kind"],
        found["entries"],
        found["missing_on"],
    )


def test_j17_the_bookie_that_stands_twice_is_named(both: BothAnswers) -> None:
    """Beside the missing copy ours names the ensemble in which one bookie occurs twice."""
    kinds = {found["kind"] for found in both.our_outcomes["J17 one bookie twice"].of(134)}
    assert {Kind.ENTRY_BELOW_ACK_QUORUM.value, Kind.ENSEMBLE_DUPLICATE_BOOKIE.value} == kinds


def test_j26_a_flat_layout_too_big_for_java(cluster: RealCluster, java: JavaAuditor) -> None:
    """Java's check does not get past the listing of 72,000 ledgers in one znode, although it did
    with 1,000; ours lists them.
    """
    root, lost, hosts = "/flat/ledgers", 7, cluster.zookeeper_hosts
    uri = f"zk+flat://{hosts}{root}"
    registration = f"{cluster.root}{znode_paths.AVAILABLE}/b1"
    cluster.set_raw(f"{root}{znode_paths.LAYOUT}", znode_paths.encode_layout(LedgerLayout.FLAT))
    cluster.set_raw(f"{root}{znode_paths.AVAILABLE}/b1", cluster.zk.get(registration)[0])
    cluster.set_raw(f"{root}{znode_paths.READONLY}", b"")
    text = ledger_metadata.encode(
        cluster.ledger("e1 w1 a1 0:[b1] closed 9"), password=b"", version=3
    )
    _flat_ledgers(cluster, root, range(1_000), text)
    before = java.replicas([lost], uri=uri)
    _flat_ledgers(cluster, root, range(1_000, 72_000), b"")

    after = java.replicas([lost], uri=uri, client="a new one", timeout_s=STUCK_S)

    assert Answer(True, {"no_replica": 1}) == java_answer(Question.ENTRIES, before)
    assert Answer(False, {}) == java_answer(Question.ENTRIES, after)
    with open_store(parse(uri), QUICK) as store:
        listed = [
            parent.ledger_ids
            for part in store.listing_partitions().partitions
            for parent in store.list_ids(part)
        ]
    assert 72_000 == sum(map(len, listed))
    assert [Kind.ENTRY_WITHOUT_REPLICA] == audit_ledgers(uri, [lost]).kinds


def _flat_ledgers(cluster: RealCluster, root: str, ledger_ids: range, data: bytes) -> None:
    for at in range(0, len(ledger_ids), 1_000):
        together = cluster.zk.transaction()
        for ledger_id in ledger_ids[at : at + 1_000]:
            together.create(f"{root}/L{ledger_id:010d}", data)
        refused = [said for said in together.commit() if isinstance(said, Exception)]
        assert refused == []


def test_j28_a_big_loss_is_a_long_line_in_java_and_a_short_finding_here(both: BothAnswers) -> None:
    """20,000 entries are lost: Java logs each number, five characters or more; ours is a range."""
    case = "J28 everything lost"
    longest = max(line.chars for line in both.java_runs[case].log)
    ours = json.dumps(both.our_outcomes[case].one(107))
    assert longest > 100_000
    assert [[0, 19_999]] == both.our_outcomes[case].one(107)["entries"]
    assert len(ours) < longest / 10


def test_one_run_of_ours_judged_them_all(both: BothAnswers, tmp_path: Path) -> None:
    """One run judges all cases that leave the cluster unchanged, with everything that ends a run of
    Java's.
    """
    outcomes = {id(both.our_outcomes[case.name]) for case in CASES if not case.is_alone}
    assert 1 == len(outcomes)
    assert sum(not case.is_alone for case in CASES) > 25
