"""`auditor explain`: which findings a name means, and everything that is known of them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from support import report_stories

from auditor.commands.explain import choose_findings, explain
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.evidence import findings_file
from auditor.evidence.rows import ledger_row, table
from auditor.evidence.run_directory import place
from auditor.evidence.schemas import LEDGERS, VERDICTS
from auditor.first_checker.circle import CIRCLE
from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord
from auditor.model.ledger import LedgerRecord, RecordStatus, ZnodeStamp
from auditor.sandbox.cluster import ledger
from auditor.stop import StopRequest
from auditor.summary.outcome import findings_by_kind
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

RUN = "run-20260101T030000Z-000001"


def found(kind: Kind, subject: int | str, id: str) -> FindingRecord:
    return report_stories.finding(kind, subject, id=id)


FINDINGS = [
    found(Kind.ENTRY_WITHOUT_REPLICA, 7, "abcd000000000001"),
    found(Kind.PLACEMENT_FAILED, 7, "abcd000000000002"),
    found(Kind.BOOKIE_LOST_CONTENT, "b1", "1234000000000003"),
    found(Kind.MARK_WITHOUT_LEDGER, "cluster", "7777000000000004"),
    found(Kind.BOOKIE_LOST_CONTENT, "b2", "fee1000000000005"),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("abcd000000000002", [1]),
        ("7", [0, 1]),
        ("007", [0, 1]),
        ("b1", [2]),
        ("1234", []),
        ("1234000000000003", [2]),
        ("fee1", [4]),
        ("abcd00000000000", []),
        ("777", []),
        ("None", []),
        ("8", []),
    ],
)
def test_a_name_is_an_id_a_subject_or_the_beginning_of_one_id(name: str, expected: list[int]):
    """Nothing is guessed. The beginning of an id names no finding if two ids share it, if it is too
    short, or if it may be a ledger id.
    """
    assert [FINDINGS[n] for n in expected] == choose_findings(FINDINGS, name)


def write(run: Path, findings: list[FindingRecord]) -> None:
    """Write the summary and the findings of a run."""
    (run / "summary.json").write_text(
        json.dumps(report_stories.summary(findings=findings_by_kind(findings)).as_json())
    )
    (run / "findings.jsonl").write_text(findings_file.text(findings))
    rows = [
        {"ledger_id": 30, "standing": "sound", "unknowns": [], "looks": 1},
        {"ledger_id": 31, "standing": "exempt", "exempt": "open", "unknowns": [], "looks": 1},
        {
            "ledger_id": 32,
            "standing": "indeterminate",
            "unknowns": ["bookie_silent", "poison"],
            "detail": "judging it did not end",
            "looks": 2,
        },
    ]
    place(str(run)).write_table("verdicts", pa.Table.from_pylist(rows, VERDICTS), "all")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Return an OUTPUT with one finished run. Its path has a blank and a percent sign."""
    tmp_path = tmp_path / "my audits %20"
    run = tmp_path / RUN
    run.mkdir(parents=True)
    write(run, FINDINGS)
    (tmp_path / "latest.json").write_text(json.dumps({"run": RUN}))
    return tmp_path


def said(name: str, run_dir: Path | None = None, **flags: str) -> str:
    out = io.StringIO()
    settings = parse(Layers(flags=flags), command="explain")
    context = Context(settings, out, log.setup(stream=io.StringIO()), Silent(), StopRequest())
    assert 0 == explain(context, name, None if run_dir is None else str(run_dir))
    return out.getvalue()


def test_a_finding_is_shown_with_everything_that_is_known_of_it(output: Path):
    """Kind, id, entries, what each bookie lacks and answered, commands that look and that change,
    and the page about the kind.
    """
    text = said("abcd000000000001", output / RUN)
    words = " ".join(text.split())
    finding = FINDINGS[0]
    assert text.startswith("CRITICAL ENTRY_WITHOUT_REPLICA  abcd000000000001\n")
    assert " ".join(finding.witness.split()) in words
    assert "Entries 0-1999" in text and "bookie-3:3181 lacks 0-1999" in text
    assert "no_such_ledger" in text and "CHANGES THE CLUSTER" in text
    assert f"page {finding.runbook}" in words
    assert "PLACEMENT_FAILED" not in text


def test_without_a_directory_it_is_the_newest_run_in_output(output: Path):
    """All findings on the ledger are shown, one after another."""
    text = said("7", output=str(output))
    assert ["CRITICAL ENTRY_WITHOUT_REPLICA", "WARNING PLACEMENT_FAILED"] == [
        " ".join(line.split()[:2])
        for line in text.splitlines()
        if line.startswith(("CRITICAL", "WARNING"))
    ]


def test_the_json_form_has_each_finding_as_it_is_stored(output: Path):
    """One array."""
    printed = json.loads(said("7", output / RUN, format="json"))
    assert [one.as_json() for one in FINDINGS[:2]] == printed


def test_entries_beyond_the_stored_ranges_are_counted(output: Path):
    """A finding stores 20 ranges at most."""
    many = report_stories.finding(
        Kind.ENTRY_WITHOUT_REPLICA, 7, entries=[[0, 9]], entries_total=100
    )
    write(output / RUN, [many])
    assert "Entries 0-9, and 90 more entries" in said("7", output / RUN)


@pytest.mark.parametrize(("stored", "more"), [(19, ""), (20, " ...")])
def test_ranges_that_a_bookie_lacks_may_continue_after_the_last_stored(
    output: Path, stored: int, more: str
):
    """A finding stores at most 20 ranges of a bookie, and not how many there are."""
    lacking = [[2 * n, 2 * n] for n in range(stored)]
    one = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7, missing_on={"b1": lacking})
    write(output / RUN, [one])
    text = " ".join(said("7", output / RUN).split())
    assert "b1 lacks 0, 2, 4, " in text
    assert f", {2 * stored - 2}{more} What each bookie answered" in text


def test_a_finding_without_looks_has_no_table_of_answers(output: Path):
    """No bookie is asked about changed metadata."""
    write(output / RUN, [report_stories.finding(Kind.CLOSED_METADATA_CHANGED, 7, looks=[])])
    text = said("7", output / RUN)
    assert "CLOSED_METADATA_CHANGED" in text and "What each bookie answered" not in text


def test_saving_is_advised_where_there_is_something_to_save(output: Path):
    """What looks needs no heading of its own."""
    look = "bookkeeper shell bookieinfo"
    for steps, heading in (
        ([look], "What to do\n    bookkeeper shell bookieinfo\n"),
        (["SAVE FIRST: cp -a a b", look], "What to do: save, then look\n"),
    ):
        write(output / RUN, [report_stories.finding(Kind.BOOKIE_DISK_SHRANK, "b1", next=steps)])
        assert f"  {heading}" in said("b1", output / RUN)


def test_a_ledger_without_a_finding_gets_its_verdict(output: Path):
    """Its standing and why: each reason with its meaning and what to do."""
    assert said("30", output / RUN).startswith("Ledger 30 is SOUND. No finding is on it.\n")
    assert "is EXEMPT" in said("31", output / RUN) and "open: its last" in said("31", output / RUN)
    text = said("32", output / RUN)
    assert text.startswith("Ledger 32 is INDETERMINATE. No finding is on it.\n  bookie_silent\n")
    assert "gave no answer at any look" in text and "to do: see whether the bookie is up" in text
    assert "  poison\n" in text and "judging it did not end" in text and "2 looks." in text


def test_the_json_form_has_the_verdict(output: Path):
    """It is one object, as it is stored."""
    verdict = json.loads(said("32", output / RUN, format="json"))
    assert (32, "indeterminate", ["bookie_silent", "poison"]) == (
        verdict["ledger_id"],
        verdict["standing"],
        verdict["unknowns"],
    )


def test_what_cannot_be_shown_is_refused(output: Path, tmp_path: Path):
    """There is no such finding, no such run, or no run at all."""
    with pytest.raises(ConfigError, match=r"has no finding 99 and no ledger .* has 5 findings"):
        said("99", output / RUN)
    with pytest.raises(ConfigError, match="not the directory of a finished run"):
        said("7", tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="has no finished run"):
        said("7", output=str(tmp_path / "empty"))


def test_a_run_that_lost_its_findings_is_refused(output: Path):
    """The summary counts more findings than the file has."""
    (output / RUN / "findings.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"has 0 findings, and summary\.json counts 5"):
        said("7", output / RUN)


@pytest.fixture
def verified(output: Path) -> Path:
    """Return a run whose bookies were read: ledgers 7 and 30 have ten copies on each of three."""
    arcs, since = [[0, CIRCLE, NOW]], "2025-12-01T00:00:00.000Z"
    bookies = [
        {"bookie_id": "b1", "verified_by": "reads", "since": since, "arcs": arcs},
        {"bookie_id": "b2", "verified_by": "reads", "since": since},
        {"bookie_id": "b3", "verified_by": "scrub", "since": since, "arcs": arcs},
    ]
    value = {"seed": 1, "period_ms": 30 * 86_400_000, "bytes_per_second": 1, "bookies": bookies}
    value["counts"] = {"copies": 60}
    stored = report_stories.summary(findings=findings_by_kind(FINDINGS), verification=value)
    (output / RUN / "summary.json").write_text(json.dumps(stored.as_json()))
    shape = ledger("e3 w3 a2 0:[b1 b2 b3] closed 9")
    rows = [
        ledger_row(LedgerRecord(n, 1, 0, RecordStatus.FOUND, ZnodeStamp(n, 0, 1, 1), shape))
        for n in (7, 30)
    ]
    place(str(output / RUN)).write_table("evidence/ledgers", table(LEDGERS, rows), "look-1")
    return output / RUN


NOW = 1_767_236_400_000
"""When the run of the summary began: 2026-01-01T03:00:00Z."""
VERIFIED = {
    "period_ms": 30 * 86_400_000,
    "counts": {
        "copies": 20, "within_day": 10, "within_week": 10, "within_period": 10,
        "never": 10, "overdue": 10, "oldest": "2026-01-01T03:00:00.000Z",
    },
    "others": [{"bookie_id": "b3", "verified_by": "scrub", "copies": 10}],
}  # fmt: skip


def test_the_ages_of_its_reads_are_said_of_a_ledger(verified: Path):
    """With and without findings, after everything else, and of nothing but a ledger."""
    for name in ("7", "30"):
        text = " ".join(said(name, verified).split())
        assert "Of 20 copies on bookies that runs read, the passes up to this run had read" in text
        assert text.endswith("10 copies on b3, which the scrub of a lister reads.")
    for name in ("b1", "abcd000000000001", "31"):
        assert "bookies that runs read" not in said(name, verified)
        assert "verification" not in said(name, verified, format="json")


def test_the_json_form_has_the_ages(verified: Path):
    """In each finding on the ledger, else in its verdict."""
    findings = json.loads(said("7", verified, format="json"))
    assert [one.as_json() | {"verification": VERIFIED} for one in FINDINGS[:2]] == findings
    verdict = json.loads(said("30", verified, format="json"))
    assert ("sound", VERIFIED) == (verdict["standing"], verdict["verification"])
