"""The alerts in deploy/prometheus, checked by promtool with their own stories, and with what the
auditor exports.
"""

import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support import report_stories as stories
from support.requirements import lack

from auditor.model.finding import CATALOGUE, Kind, Severity
from auditor.model.verdict import Unknown
from auditor.telemetry import metrics
from auditor.witness.finding_lines import runbook

DEPLOY = Path(__file__).parents[2] / "deploy/prometheus"
RULES = DEPLOY / "rules.yml"
WAIT_S = 60
ABOUT_SILENCE = {"BookKeeperAuditAbsent", "BookKeeperAuditVanished"}
"""Alerts that no run's own metrics can raise: they are about missing metrics. rules_test.yml has
their story.
"""


def promtool(*arguments: str, cwd: Path = DEPLOY) -> subprocess.CompletedProcess[str]:
    """Run promtool. Without promtool the test is skipped, with a message; in CI it fails."""
    found = shutil.which("promtool")
    if found is None:
        lack("promtool is not installed (Debian: prometheus)")
    return subprocess.run(
        [found, *arguments], cwd=cwd, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def alerts(text: str | None = None) -> dict[str, dict[str, str]]:
    """Return expression and severity of each alert of the rules, by name."""
    found: dict[str, dict[str, str]] = {}
    for block in re.split(r"^ {6}- alert: ", text or RULES.read_text(), flags=re.MULTILINE)[1:]:
        name = block.split("\n", 1)[0].strip()
        fields = dict(re.findall(r"^ +(expr|severity): (.*)$", block, re.MULTILINE))
        assert name not in found and {"expr", "severity"} == set(fields), block
        found[name] = fields
    return found


def alert_of(kind: Kind) -> str:
    """Return the alert's name: ENTRY_WITHOUT_REPLICA is BookKeeperEntryWithoutReplica."""
    return "BookKeeper" + "".join(word.capitalize() for word in kind.value.split("_"))


def test_promtool_accepts_the_rules():
    """It accepts syntax, names and templates."""
    done = promtool("check", "rules", "rules.yml")
    assert (0, "") == (done.returncode, done.stderr), done
    assert f"SUCCESS: {len(alerts())} rules found" in done.stdout


def test_each_alert_fires_on_its_story_and_is_silent_on_the_twin():
    """In rules_test.yml prod and its twin differ in one fact."""
    done = promtool("test", "rules", "rules_test.yml")
    assert (0, "") == (done.returncode, done.stderr.strip()), done.stdout + done.stderr


def test_every_alert_has_a_story():
    """Each is expected to fire in rules_test.yml, in prod (or without a cluster), and never in the
    twin.
    """
    rules_tests = (DEPLOY / "rules_test.yml").read_text()
    blocks = re.findall(r"alertname: (\w+)\n +exp_alerts:\n +- exp_labels: \{(.*)\}", rules_tests)
    assert set(alerts()) == {name for name, _ in blocks}
    assert all(
        "cluster: prod" in labels or name == "BookKeeperAuditAbsent" for name, labels in blocks
    )
    for name in alerts():
        series = rules_tests.split(f'name: "{name}: ')[1].split("alert_rule_test")[0]
        assert "twin" in series or name == "BookKeeperAuditAbsent", f"{name} has no twin"


def never_fires(expr: str) -> str:
    """Return an expression that is never true, in place of any."""
    return "vector(0) > 1"


def without_its_comparison(expr: str) -> str:
    """Return the expression without its last comparison, if it ends with one."""
    return re.sub(r" (>|<|==) [0-9.* ]+$", "", expr)


CHANGES = (never_fires, without_its_comparison)


@pytest.fixture(scope="module", params=CHANGES, ids=lambda change: change.__name__)
def complaints(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Callable[[str], str], str]:
    """Return what promtool says of rules_test.yml when every alert is changed in this way: no alert
    depends on another.
    """
    change: Callable[[str], str] = request.param
    directory = tmp_path_factory.mktemp("changed")
    text = RULES.read_text()
    for name, rule in alerts().items():
        head, _, rest = text.partition(f"- alert: {name}\n")
        text = f"{head}- alert: {name}\n" + rest.replace(
            f"expr: {rule['expr']}\n", f"expr: {change(rule['expr'])}\n", 1
        )
    (directory / "rules.yml").write_text(text)
    shutil.copy(DEPLOY / "rules_test.yml", directory)
    done = promtool("test", "rules", "rules_test.yml", cwd=directory)
    assert done.returncode != 0
    return change, done.stdout + done.stderr


@pytest.mark.parametrize("name", list(alerts()))
def test_the_stories_bite(complaints: tuple[Callable[[str], str], str], name: str):
    """With an alert that never fires, or one without its last comparison, rules_test.yml fails on
    that alert.
    """
    change, said = complaints
    expr = alerts()[name]["expr"]
    if change(expr) == expr:
        assert name in ABOUT_SILENCE
        assert f"alertname: {name}," not in said
    else:
        assert f"alertname: {name}," in said


@pytest.mark.parametrize("kind", list(CATALOGUE), ids=lambda kind: kind.value)
def test_every_kind_of_the_catalogue_has_an_alert(kind):
    """It has the kind's name, is on that kind, and has the catalogue's severity."""
    rule = alerts().get(alert_of(kind))
    assert rule is not None, (
        f"no alert {alert_of(kind)} in {RULES}: a kind that joins the catalogue needs one, and its"
        " story"
    )
    all_of_it = f'bookkeeper_auditor_last_run_violations{{kind="{kind.value}"}}'
    assert (
        f"({all_of_it} - bookkeeper_auditor_last_run_muted_findings or {all_of_it}) > 0"
        == rule["expr"]
    )
    assert CATALOGUE[kind].severity.word == rule["severity"]


@pytest.mark.parametrize("kind", list(CATALOGUE), ids=lambda kind: kind.value)
def test_the_alert_on_a_kind_names_its_page(kind):
    """The annotation `runbook_url` is the finding's own field `runbook`, and the page exists."""
    block = RULES.read_text().split(f"- alert: {alert_of(kind)}\n")[1].split("- alert: ")[0]
    named = re.findall(r"^ +runbook_url: (\S+)$", block, re.MULTILINE)
    assert [runbook(kind)] == named
    assert (DEPLOY.parents[1] / named[0]).is_file()


def test_every_alert_has_a_page():
    """Alerts about the audit itself have a section of docs/operating.md."""
    assert len(alerts()) == len(
        re.findall(r"^ +runbook_url: docs/", RULES.read_text(), re.MULTILINE)
    )
    assert "\n## Alerts\n" in (DEPLOY.parents[1] / "docs/operating.md").read_text()


def test_no_alert_is_about_a_kind_that_is_gone():
    """The rules name only kinds and severities of the catalogue."""
    named = set(re.findall(r'kind="(\w+)"', RULES.read_text()))
    assert {kind.value for kind in CATALOGUE} == named
    assert {rule["severity"] for rule in alerts().values()} <= {
        severity.word for severity in Severity
    }


def test_every_metric_in_an_alert_is_exported():
    """A renamed metric would silence its alert for ever."""
    exported = {
        sample.name for sample in samples(metrics.exposition(stories.summary(), cluster="prod"))
    }
    for name, rule in alerts().items():
        used = set(re.findall(r"bookkeeper_auditor_\w+", rule["expr"]))
        assert used and used <= exported, name


def samples(text: str) -> list[Any]:
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def series_of(text: str, cluster: str) -> list[dict[str, str]]:
    """Return the samples that the rules use as promtool series of `cluster`, constant for four
    days.
    """
    out = []
    read = set(re.findall(r"bookkeeper_auditor_\w+", RULES.read_text()))
    for sample in (one for one in samples(text) if one.name in read):
        assert "cluster" in sample.labels, sample.name
        labels = ", ".join(
            f"{name}={json.dumps(value)}"
            for name, value in (sample.labels | {"cluster": cluster}).items()
        )
        values = (
            " ".join(["NaN"] * 25) if math.isnan(sample.value) else f"{sample.value}x24"
        )  # promtool repeats no NaN
        out.append({"series": f"{sample.name}{{{labels}}}", "values": values})
    return out


@dataclass(frozen=True)
class Export:
    """What the auditor exports after one run, and the alerts it must raise: name -> severity."""

    text: str
    firing: Mapping[str, str]


def check_firing(tmp_path: Path, exports: Mapping[str, Export]) -> None:
    """Assert that Prometheus, fed for four days with what each cluster exports, fires exactly the
    alerts of each cluster.
    """
    query = {
        "expr": 'count by (cluster, alertname, severity) (ALERTS{alertstate="firing"})',
        "eval_time": "92h",
        "exp_samples": [
            {
                "labels": f'{{cluster="{cluster}", alertname="{name}", severity="{word}"}}',
                "value": 1,
            }
            for cluster, export in exports.items()
            for name, word in sorted(export.firing.items())
        ],
    }
    series = [one for cluster, export in exports.items() for one in series_of(export.text, cluster)]
    test = {"interval": "4h", "input_series": series, "promql_expr_test": [query]}
    document = {"rule_files": [str(RULES)], "evaluation_interval": "4h", "tests": [test]}
    (tmp_path / "exported.json").write_text(json.dumps(document))
    done = promtool("test", "rules", "exported.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


INCOMPLETE = {"outcome": "INCOMPLETE", "exit_code": 3}
MOSTLY_UNKNOWN = {
    "ledgers": {"listed": 1000, "sound": 600, "exempt": 0, "indeterminate": 400, "violated": 0},
    "coverage": 0.6,
    "complete": False,
}


def export_of_kind(kind: Kind) -> Export:
    """Return one finding of this kind and nothing else; it raises the alert of the kind and no
    other.
    """
    found = [stories.finding(kind, 7 if CATALOGUE[kind].subject.value == "ledger" else "b1:3181")]
    summary = stories.summary(findings=stories.counted(found), outcome="VIOLATED", exit_code=1)
    text = metrics.exposition(summary, cluster="prod", spark_version="4.3.0")
    return Export(text, {alert_of(kind): CATALOGUE[kind].severity.word})


def export_of_mute(muted: int, firing: Mapping[str, str]) -> Export:
    """Return two ledgers below the write quorum, of which so many are muted."""
    found = [stories.finding(Kind.ENTRY_BELOW_WRITE_QUORUM, ledger_id) for ledger_id in (7, 8)]
    summary = stories.summary(findings=stories.counted(found), outcome="VIOLATED", exit_code=1)
    mutes = {"findings": muted, "by_kind": {"ENTRY_BELOW_WRITE_QUORUM": muted}}
    return Export(
        metrics.exposition(
            stories.changed_summary(summary, mutes=mutes), cluster="prod", spark_version="4.3.0"
        ),
        firing,
    )


def export_of_run(firing: Mapping[str, str], **fields: Any) -> Export:
    return Export(
        metrics.exposition(stories.summary(**fields), cluster="prod", spark_version="4.3.0"), firing
    )


def export_of_failure(outcome: str, firing: Mapping[str, str], before: str = "") -> Export:
    """Return what a failed run exports, on top of what the run before it did."""
    return Export(
        metrics.failed_run(before, outcome=outcome, now_s=1.8e9, cluster="prod", version="0.1.0"),
        firing,
    )


def violated(text: str) -> list[Kind]:
    return [
        Kind(s.labels["kind"])
        for s in samples(text)
        if s.name.endswith("last_run_violations") and s.value > 0
    ]


WIPED = metrics.exposition(stories.wiped_bookie(9)[0], cluster="prod")
OF_WIPED = {alert_of(kind): CATALOGUE[kind].severity.word for kind in violated(WIPED)}
"""The alerts of a run with a wiped bookie."""
UNREACHABLE, STALE = {"BookKeeperAuditUnreachable": "warning"}, {"BookKeeperAuditStale": "warning"}
COVERAGE_LOW = {"BookKeeperAuditCoverageLow": "warning"}

EXPORTS = {
    **{f"one finding: {kind.value}": export_of_kind(kind) for kind in CATALOGUE},
    "all of it is muted": export_of_mute(2, {}),
    "one of two is muted": export_of_mute(1, {"BookKeeperEntryBelowWriteQuorum": "warning"}),
    "a sound run raises nothing": export_of_run({}),
    "no ledger under the root that was given": export_of_run(
        {"BookKeeperAuditEmpty": "warning"},
        ledgers=dict.fromkeys(("listed", "sound", "exempt", "indeterminate", "violated"), 0),
        **INCOMPLETE,
    ),
    "little was verified": export_of_run(
        {"BookKeeperAuditVerifiedLow": "info"}, verified_ratio=0.4999
    ),
    "no copy was promised": export_of_run({}, verified_ratio=None),
    "lists of nine days before are carried over": export_of_run(
        {"BookKeeperAuditListsOld": "warning"},
        carried={"within_s": 864_000, "ledgers": 1, "oldest_listed_at": "2025-12-23T03:00:00Z"},
    ),
    "lists of a week before are carried over": export_of_run(
        {}, carried={"within_s": 604_800, "ledgers": 1, "oldest_listed_at": "2025-12-25T03:00:00Z"}
    ),
    "most ledgers unknown": export_of_run(COVERAGE_LOW, coverage=0.4, complete=False, **INCOMPLETE),
    "unknown for planned maintenance alone": export_of_run(
        {}, maintenance={"bookies": [], "ledgers": 400}, **MOSTLY_UNKNOWN, **INCOMPLETE
    ),
    "unknown for more than planned maintenance": export_of_run(
        COVERAGE_LOW,
        maintenance={"bookies": [], "ledgers": 340},
        **MOSTLY_UNKNOWN,
        **INCOMPLETE,
    ),
    "a few unknown for a fault of the auditor's own host": export_of_run(
        {"BookKeeperAuditorLimited": "warning"},
        indeterminate={Unknown.AUDITOR_LIMITED.value: 1},
        **INCOMPLETE,
    ),
    "an open ledger that could not be recovered": export_of_run(
        {"BookKeeperOpenLedgersUnrecoverable": "info"},
        open_recovery_blocked={"ledgers": 1, "some": [3], "bookies": ["b1"]},
    ),
    "whether open ledgers could be recovered is not known": export_of_run(
        {}, open_recovery_blocked=None
    ),
    "ZooKeeper out of reach, after findings": export_of_failure(
        "UNREACHABLE", {**OF_WIPED, **UNREACHABLE}, WIPED
    ),
    "a fault of the auditor, after findings": export_of_failure(
        "AUDITOR_FAULT", {**OF_WIPED, "BookKeeperAuditorFault": "warning"}, WIPED
    ),
    "the first run failed: the last success is 0, never": export_of_failure(
        "UNREACHABLE", {**UNREACHABLE, **STALE}
    ),
}
"""Every run whose metrics Prometheus gets here."""


def test_what_a_run_exports_raises_its_alerts_and_no_other(tmp_path):
    """Findings stay beside the failure of the run that came after them. Each run belongs to a
    cluster of its own, and the alerts of a cluster are about that cluster.
    """
    check_firing(tmp_path, EXPORTS)


def test_a_first_run_that_failed_is_not_taken_for_none(tmp_path):
    """An alert on a metric that no cluster has would fire."""
    name = "the first run failed: the last success is 0, never"
    check_firing(tmp_path, {name: EXPORTS[name]})


def test_an_alert_that_is_not_raised_and_one_too_many_are_noticed(tmp_path):
    """Otherwise promtool would accept anything."""
    sound, wiped = EXPORTS["a sound run raises nothing"], Export(WIPED, OF_WIPED)
    for wrong in (
        {"sound": Export(sound.text, STALE)},
        {"sound": sound, "wiped": Export(WIPED, {})},
    ):
        with pytest.raises(AssertionError, match="FAILED"):
            check_firing(tmp_path, wrong)
    check_firing(tmp_path, {"sound": sound, "wiped": wiped})


def test_a_wiped_bookie_raises_an_alert():
    """Otherwise nothing would show that a failed run keeps the alerts of the run before."""
    assert OF_WIPED


def test_every_alert_is_raised_by_an_export_or_is_about_silence():
    """The exports above, which the previous test feeds to Prometheus, reach every alert except
    those on missing metrics.
    """
    raised = {name for export in EXPORTS.values() for name in export.firing}
    assert set(alerts()) == raised | ABOUT_SILENCE
    assert set() == raised & ABOUT_SILENCE
