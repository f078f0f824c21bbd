"""The metrics of a run."""

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support import report_stories as stories

from auditor.findings.gone_ledgers import Gone
from auditor.model.finding import CATALOGUE, Kind
from auditor.model.verdict import Exempt, Standing, Unknown
from auditor.report.outcome_text import OUTCOMES
from auditor.telemetry import metrics

P = "bookkeeper_auditor_"
LAST = P + "last_run_"


def samples(text: str) -> dict[tuple[str, frozenset[str]], float]:
    """Return the values by (name, labels without the cluster). Each sample must have the
    cluster.
    """
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("cluster") == "prod", sample
            found[sample.name, frozenset(labels.values())] = sample.value
    return found


def series_of(**changes: object) -> dict[tuple[str, frozenset[str]], float]:
    return samples(
        metrics.exposition(stories.summary(**changes), cluster="prod", spark_version="4.3.0")
    )


def test_every_series_of_the_contract_is_there_at_zero():
    """Kinds, standings, reasons, outcomes and stages exist before anything happens: an alert then
    sees the change.
    """
    found = set(series_of())
    expected = {
        (LAST + "violations", frozenset({k.value, f.severity.word})) for k, f in CATALOGUE.items()
    }
    expected |= {
        (LAST + "muted_findings", frozenset({k.value, f.severity.word}))
        for k, f in CATALOGUE.items()
    }
    expected |= {(P + "violations_total", frozenset({k.value})) for k in Kind}
    expected |= {(LAST + "ledgers", frozenset({s.word})) for s in Standing}
    expected |= {(LAST + "indeterminate_ledgers", frozenset({r.value})) for r in Unknown}
    expected |= {(LAST + "exempt_ledgers", frozenset({r.value})) for r in Exempt}
    expected |= {(LAST + "outcome", frozenset({o})) for o in OUTCOMES}
    expected |= {
        (LAST + "duration_seconds", frozenset({s}))
        for s in ("load", "ask", "judge", "second_look", "report")
    }
    expected |= {
        (P + f"{n}_total", frozenset({o}))
        for n in ("bookie_requests", "zookeeper_reads")
        for o in ("answered", "failed")
    }
    single = (
        LAST + "coverage_ratio", LAST + "oldest_underreplicated_seconds",
        LAST + "timestamp_seconds",
        P + "last_success_timestamp_seconds", LAST + "maintenance_ledgers",
        LAST + "verified_copies_ratio", LAST + "open_recovery_blocked_ledgers",
        LAST + "orphaned_ledgers", LAST + "orphaned_bytes",
        LAST + "carried_ledgers", LAST + "oldest_carried_seconds",
    )  # fmt: skip
    expected |= {(name, frozenset()) for name in single}
    expected |= {(LAST + "gone_ledgers", frozenset({why.value})) for why in Gone}
    expected |= {(LAST + "older_ledgers", frozenset({sign})) for sign in ("returned", "version")}
    states = ("total", "within_grace", "beyond_grace", "stale", "without_ledger")
    expected |= {(LAST + "marks", frozenset({state})) for state in states}
    expected |= {(LAST + "assurance_ledgers", frozenset({word})) for word in ("listed", "probed")}
    evidence = ("expected", "listed", "read", "assumed")
    expected |= {(LAST + "copies", frozenset({word})) for word in evidence}
    ages = ("within_day", "within_week", "within_period", "never", "overdue")
    expected |= {(LAST + "copies_by_read_age", frozenset({age})) for age in ages}
    expected |= {(LAST + "disk_bytes", frozenset({state})) for state in ("total", "free")}
    expected |= {(LAST + "disk_bookies", frozenset({word})) for word in ("known", "unknown")}
    lengths = ("1", "10", "100", "1000")
    expected |= {
        (LAST + "loss_found_ratio", frozenset({n, runs}))
        for n in lengths
        for runs in ("this", "all")
    }
    expected.add((P + "build_info", frozenset({"0.1.0", "4.3.0"})))
    assert expected == found


def test_violations_count_ledgers_or_bookies_by_the_kind():
    """A finding on a bookie counts bookies, a finding on a ledger ledgers."""
    summary, _ = stories.wiped_bookie(400)
    found = samples(metrics.exposition(summary, cluster="prod"))
    assert found[LAST + "violations", frozenset({"ENTRY_BELOW_WRITE_QUORUM", "warning"})] == 400
    assert found[LAST + "violations", frozenset({"BOOKIE_LOST_UNNOTICED", "critical"})] == 1
    assert found[LAST + "ledgers", frozenset({"violated"})] == 400


def test_muted_findings_are_a_gauge_beside_the_violations():
    """The violations include muted findings. A stored run without mutes has none muted."""
    summary, _ = stories.wiped_bookie(30)
    one = frozenset({"ENTRY_BELOW_WRITE_QUORUM", "warning"})
    for muted, fields in (
        (7.0, {"mutes": {"by_kind": {"ENTRY_BELOW_WRITE_QUORUM": 7}}}),
        (0.0, {}),
    ):
        found = samples(
            metrics.exposition(stories.changed_summary(summary, **fields), cluster="prod")
        )
        assert (muted, 30.0) == (
            found[LAST + "muted_findings", one],
            found[LAST + "violations", one],
        )


def test_a_finding_on_the_cluster_counts_one():
    """The number of ledgers in the finding does not matter."""
    found = stories.finding(Kind.LEDGER_POPULATION_DROPPED, "cluster")
    series = series_of(findings=stories.counted([found]))
    assert series[LAST + "violations", frozenset({"LEDGER_POPULATION_DROPPED", "critical"})] == 1


def test_what_verdicts_rest_on_and_what_maintenance_costs_are_gauges():
    """An alert on unjudged ledgers can subtract those that maintenance explains."""
    maintenance = {"bookies": [{"bookie_id": "b1", "found": "silent"}], "ledgers": 12}
    series = series_of(maintenance=maintenance, assurance={"listed": 900, "probed": 80})
    assert 12 == series[LAST + "maintenance_ledgers", frozenset()]
    assert (900, 80) == tuple(
        series[LAST + "assurance_ledgers", frozenset({word})] for word in ("listed", "probed")
    )


def test_orphans_are_gauges():
    """They are NaN where no topics were looked for."""
    names = [(LAST + name, frozenset[str]()) for name in ("orphaned_ledgers", "orphaned_bytes")]
    assert all(math.isnan(series_of(references=None)[name]) for name in names)
    series = series_of(references={"orphaned": 3, "orphaned_bytes": 70})
    assert [3, 70] == [series[name] for name in names]


def test_disks_are_gauges_by_location_and_by_bookie():
    """Without a bookie that said how full its disks are, their size is NaN. A location that is not
    known is an empty label.
    """
    nothing = series_of(space={"bookies": 0, "unknown": 2})
    assert all(math.isnan(nothing[LAST + "disk_bytes", frozenset({w})]) for w in ("total", "free"))
    assert (0, 2) == tuple(
        nothing[LAST + "disk_bookies", frozenset({word})] for word in ("known", "unknown")
    )
    sizes = {"total_bytes": 100, "free_bytes": 40}
    series = series_of(
        space={
            **sizes,
            "bookies": 1,
            "racks": [{**sizes, "location": None, "bookies": 1}],
            "fullest": [{**sizes, "location": None, "bookie_id": "b1"}],
        }
    )
    for name, label in (("disk", ()), ("rack_disk", ("",)), ("bookie_disk", ("b1",))):
        assert (100, 40) == tuple(
            series[LAST + f"{name}_bytes", frozenset({*label, word})] for word in ("total", "free")
        )


def test_open_ledgers_that_could_not_be_recovered_are_a_gauge():
    """What a run did not find out is NaN, which triggers no alert."""
    name = LAST + "open_recovery_blocked_ledgers", frozenset[str]()
    blocked = {"ledgers": 4, "some": [3, 5, 7], "bookies": ["b3"]}
    assert 4 == series_of(open_recovery_blocked=blocked)[name]
    assert math.isnan(series_of(open_recovery_blocked=None)[name])


def test_ledgers_that_are_gone_and_those_that_came_back_are_gauges():
    """A run that compared nothing says NaN, which triggers no alert."""
    compared = {
        "earlier_run": "20260101T030000Z-000001", "problem": "", "compared": 9, "changed": 0,
        "unknown": 0, "went_back": 2, "some_went_back": [1, 2], "returned": 1, "some_returned": [7],
        "gone": {"trimmed": 5}, "gone_namespaces": [],
    }  # fmt: skip
    gone, older = LAST + "gone_ledgers", LAST + "older_ledgers"
    found = series_of(metadata_compared=compared)
    trimmed, unexplained = frozenset({"trimmed"}), frozenset({"unexplained"})
    assert (5, 0) == (found[gone, trimmed], found[gone, unexplained])
    signs = [found[older, frozenset({sign})] for sign in ("returned", "version")]
    assert [1, 2] == signs
    for nothing in (None, compared | {"problem": "damaged"}, compared | {"earlier_run": None}):
        found = series_of(metadata_compared=nothing)
        assert math.isnan(found[gone, trimmed]) and math.isnan(found[older, frozenset({"version"})])


def test_the_help_of_gauges_says_what_they_count():
    """Coverage also counts open and empty ledgers. A reason also stands on ledgers in violation.
    What only bookies in doubt list is not verified.
    """
    text = metrics.exposition(stories.summary(), cluster="prod")
    assert (
        "last_run_coverage_ratio Share of ledgers that carry no reason to be unknown and are not"
        " merely excused by a mark." in text
    )
    assert "indeterminate_ledgers Ledgers that could not be judged, or not in full, by" in text
    assert "were read, or listed by a bookie that is not in doubt; NaN where there is none" in text


def test_marks_and_verified_copies_are_gauges():
    """Each state of the summary has a series. A ratio without any copy is NaN, which triggers no
    alert.
    """
    marks = {"total": 7, "within_grace": 4, "beyond_grace": 3, "stale": 2, "without_ledger": 1}
    series = series_of(marks=marks, verified_ratio=0.015)
    assert marks == {state: series[LAST + "marks", frozenset({state})] for state in marks}
    assert 0.015 == series[LAST + "verified_copies_ratio", frozenset()]
    assert math.isnan(series_of(verified_ratio=None)[LAST + "verified_copies_ratio", frozenset()])


def test_the_probability_of_finding_a_loss_is_a_gauge():
    """This run and all runs have one. It is NaN if no ledger was sampled, which triggers no
    alert.
    """
    sampling = {
        "bounds": {"1": 0.25, "1000": 1.0},
        "accumulated": {"bounds": {"1": 0.75, "1000": 1.0}},
    }
    series, name = series_of(sampling=sampling), LAST + "loss_found_ratio"
    assert (0.25, 0.75) == tuple(series[name, frozenset({"1", runs})] for runs in ("this", "all"))
    for nothing in (None, {"bounds": None, "accumulated": None}):
        assert math.isnan(series_of(sampling=nothing)[name, frozenset({"1000", "this"})])


def test_the_ages_of_reads_are_a_gauge():
    """They are NaN where the run did not count."""
    counts = {"copies": 9, "within_day": 1, "within_week": 2, "within_period": 3, "overdue": 4}
    verified = {"seed": 1, "period_ms": 1, "bytes_per_second": 1, "bookies": []}
    name = LAST + "copies_by_read_age"
    series = series_of(verification={**verified, "counts": counts})
    assert (2, 4, 0) == tuple(
        series[name, frozenset({age})] for age in ("within_week", "overdue", "never")
    )
    for nothing in (None, {**verified, "counts": None}):
        assert math.isnan(series_of(verification=nothing)[name, frozenset({"overdue"})])


def test_counters_continue_from_the_totals():
    """Findings of earlier runs stay in the counter when this run has none."""
    found = series_of(totals={"ENTRY_WITHOUT_REPLICA": 17})
    assert found[P + "violations_total", frozenset({"ENTRY_WITHOUT_REPLICA"})] == 17
    assert found[LAST + "violations", frozenset({"ENTRY_WITHOUT_REPLICA", "critical"})] == 0
    totals = {
        "bookie_requests": {"answered": 5_000, "failed": 3},
        "zookeeper_reads": {"answered": 9_000},
    }
    found = series_of(request_totals=totals)
    assert found[P + "bookie_requests_total", frozenset({"answered"})] == 5_000
    assert found[P + "zookeeper_reads_total", frozenset({"failed"})] == 0


def test_values_come_from_the_summary():
    """Coverage, the oldest mark, stages, the end of the run and the outcome are checked."""
    found = series_of(
        coverage=0.25, oldest_underreplicated_s=86_400, outcome="INCOMPLETE", exit_code=3
    )
    assert found[LAST + "coverage_ratio", frozenset()] == 0.25
    assert found[LAST + "oldest_underreplicated_seconds", frozenset()] == 86_400
    assert found[LAST + "duration_seconds", frozenset({"ask"})] == 520.0
    assert (
        found[LAST + "timestamp_seconds", frozenset()]
        == found[P + "last_success_timestamp_seconds", frozenset()]
        == 1767237286.5
    )
    assert {o: found[LAST + "outcome", frozenset({o})] for o in OUTCOMES} == {
        o: float(o == "INCOMPLETE") for o in OUTCOMES
    }


def test_nothing_unbounded_becomes_a_label():
    """Neither a run id nor a finding id does, and there is no _created series."""
    summary, findings = stories.wiped_bookie(10)
    text = metrics.exposition(summary, cluster="prod")
    assert summary.run_id not in text and "_created" not in text
    assert not any(f.id in text for f in findings)


def test_a_failed_run_keeps_the_values_and_replaces_outcome_and_timestamp_only():
    """The violations of the last run do not vanish because ZooKeeper was unreachable."""
    before = metrics.exposition(stories.wiped_bookie(9)[0], cluster="prod", spark_version="4.3.0")
    after = metrics.failed_run(
        before, outcome="UNREACHABLE", now_s=1.8e9, cluster="other", version="9"
    )
    was, now = samples(before), samples(after)
    changed = {
        key for key in was | now if str(was.get(key)) != str(now.get(key))
    }  # as text, because NaN does not equal itself
    assert {
        (LAST + "timestamp_seconds", frozenset()),
        *((LAST + "outcome", frozenset({o})) for o in ("VIOLATED", "UNREACHABLE")),
    } == changed
    assert now[LAST + "timestamp_seconds", frozenset()] == 1.8e9
    again = metrics.failed_run(
        after, outcome="AUDITOR_FAULT", now_s=1.9e9, cluster="prod", version="9"
    )
    assert (
        samples(again)[P + "last_success_timestamp_seconds", frozenset()]
        == was[P + "last_success_timestamp_seconds", frozenset()]
    )


@pytest.mark.parametrize(
    "before",
    ["", "no metrics at all {", 'bookkeeper_auditor_x{cluster="a', "go_goroutines 7\n", "\x00"],
)
def test_a_first_run_that_fails_claims_nothing(before):
    """Nothing was judged: the run has an outcome, a timestamp and a build, but no violations at
    zero. The last success is 0.
    """
    found = samples(
        metrics.failed_run(
            before, outcome="UNREACHABLE", now_s=5.0, cluster="prod", version="0.1.0"
        )
    )
    assert (
        found[P + "last_success_timestamp_seconds", frozenset()] == 0
        and found[LAST + "outcome", frozenset({"UNREACHABLE"})] == 1
    )
    assert {
        LAST + "timestamp_seconds",
        P + "last_success_timestamp_seconds",
        LAST + "outcome",
        P + "build_info",
    } == {n for n, _ in found}


def test_a_run_with_a_fault_of_the_auditor_is_not_a_success():
    """Its values are published, and the time of the last success stays."""
    before = metrics.exposition(stories.summary(), cluster="prod")
    fault = stories.summary(
        outcome="AUDITOR_FAULT", exit_code=4, finished_at="2026-02-01T00:00:00Z"
    )
    found = samples(metrics.exposition(fault, cluster="prod", previous_text=before))
    assert (
        found[P + "last_success_timestamp_seconds", frozenset()]
        == 1767237286.5
        < found[LAST + "timestamp_seconds", frozenset()]
    )


def test_a_label_with_quotes_survives():
    """Any name of a cluster can be read back from the text."""
    text = metrics.exposition(stories.summary(), cluster='a"b\\c')
    family = next(iter(text_string_to_metric_families(text)))
    assert family.samples[0].labels["cluster"] == 'a"b\\c'
