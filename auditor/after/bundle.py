"""Pack the evidence of some ledgers of a run into an archive that may be shared.

Names are replaced by pseudonyms, unless the evidence is to stay plain. Ledgers are left out until
the archive fits the size that issue trackers accept.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from auditor import __version__
from auditor.after.finished_run import read_about
from auditor.after.pseudonyms import Pseudonyms, bookie_ids_in
from auditor.errors import ConfigError
from auditor.evidence.run_directory import Place, place, write_json
from auditor.evidence.run_tables import SEEN_TABLES
from auditor.evidence.schemas import BOOKIES, LISTING, VERDICTS
from auditor.model.finding import Family
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import LedgerId
from auditor.report.layout import size
from auditor.summary.about import About
from auditor.summary.previous_run import read_summary_object

LEDGERS_MAX = 200
"""A bundle has at most this many ledgers. A report is about a few, and each has kilobytes of
evidence or more."""


BYTES_MAX = 20 * 2**20
"""Size that issue trackers accept as an attachment. Ledgers are left out until a bundle fits."""


FINDING_FIELDS = (
    "id", "kind", "family", "severity", "ledger_id", "bookie_id", "entries", "entries_total",
    "missing_on", "copies", "assurance", "first_seen", "runs_seen",
)  # fmt: skip
"""Fields of a finding in a bundle with pseudonyms. Families in WITNESSED have `witness` too."""


WITNESSED = frozenset({Family.ENTRY, Family.MARK, Family.METADATA})
"""Families whose witness has no names except those of bookies."""


SUMMARY_FIELDS = (
    "run_id", "auditor_version", "started_at", "finished_at", "partial", "outcome", "exit_code",
    "ledgers", "copies", "verified_ratio", "duration_s",
)  # fmt: skip
"""Fields of the summary in a bundle with pseudonyms: none of them has a name in it."""


_TABLES = (("evidence/listing", LISTING), *SEEN_TABLES)


Json = dict[str, Any]
JudgeAgain: TypeAlias = Callable[[Place, About], pa.Table]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The ledgers and findings of a bundle, the worst ledger first."""

    ledger_ids: Sequence[LedgerId]
    findings: Sequence[FindingRecord]


@dataclass(frozen=True, slots=True)
class Notes:
    """What bundle.json says of a bundle, in its order."""

    auditor_version: str
    is_plain: bool
    ledgers: Sequence[LedgerId]
    ledgers_judged_otherwise: Sequence[LedgerId]
    """Ledgers whose verdict from the bundle differs from the run's."""
    findings: int
    findings_left_out: int
    ledgers_left_out: int


def pack_within_bounds(
    run: Place,
    about: About,
    chosen: Chosen,
    judge_again: JudgeAgain,
    *,
    plain: bool,
) -> tuple[bytes, Notes]:
    """Return the archive and its bundle.json, with as many ledgers as fit.

    `judge_again` returns the verdicts from a run's evidence. Raises ConfigError if the evidence of
    one ledger is too large.
    """
    ledger_ids = list(chosen.ledger_ids[:LEDGERS_MAX])
    while True:
        with TemporaryDirectory(prefix="auditor-bundle-") as home:
            copy = place(home)
            names = _copy(run, copy, about, ledger_ids, plain=plain)
            findings = _findings_of(chosen, ledger_ids)
            notes = Notes(
                __version__,
                plain,
                ledger_ids,
                _differing_ledgers(run, copy, ledger_ids, judge_again),
                findings=len(findings),
                findings_left_out=len(chosen.findings) - len(findings),
                ledgers_left_out=len(chosen.ledger_ids) - len(ledger_ids),
            )
            _write_report(copy, findings, read_summary_object(run) or {}, names)
            write_json(copy, "bundle.json", asdict(notes))
            packed = _archive(Path(home), f"bundle-{about.run_id}")
        if len(packed) <= BYTES_MAX:
            return packed, notes
        if len(ledger_ids) <= 1:
            raise ConfigError(
                f"the evidence of one ledger takes {size(len(packed))}, and a bundle may have"
                f" {size(BYTES_MAX)}: send the run's directory by another way"
            )
        ledger_ids = ledger_ids[: len(ledger_ids) // 2]


def _findings_of(chosen: Chosen, ids: Sequence[LedgerId]) -> list[FindingRecord]:
    """Return the chosen findings without those on ledgers that are left out."""
    left_out = set(chosen.ledger_ids) - set(ids)
    return [finding for finding in chosen.findings if finding.ledger_id not in left_out][
        : 2 * LEDGERS_MAX
    ]


def _copy(
    run: Place,
    copy: Place,
    about: About,
    ids: Sequence[LedgerId],
    *,
    plain: bool,
) -> Pseudonyms | None:
    """Write a run's directory with only these ledgers. Return the pseudonyms, None if plain."""
    keep = pc.field("ledger_id").isin(pa.array(ids, pa.int64())) | pc.field("ledger_id").is_null()
    tables = {name: (run.read_table(name, schema, keep), schema) for name, schema in _TABLES}
    tables["evidence/bookies"] = (run.read_table("evidence/bookies", BOOKIES), BOOKIES)
    run_json = json.loads(json.dumps(about.as_json())) | {
        "partial": True,
        "previous_population": None,
    }
    run_json.pop("within_ms", None)
    names = None
    if not plain:
        rows = {name: rows.to_pylist() for name, (rows, _) in tables.items()}
        names = _pseudonyms(about, run_json, rows)
        run_json = names.of_row(run_json)
        tables = {
            name: (pa.Table.from_pylist([names.of_row(row) for row in rows[name]], schema), schema)
            for name, (_, schema) in tables.items()
        }
    for name, (table, _) in tables.items():
        copy.write_table(name, table, "kept")
    write_json(copy, "run.json", run_json)
    return names


def _pseudonyms(about: About, run_json: Json, rows: Mapping[str, Sequence[Json]]) -> Pseudonyms:
    """Return pseudonyms for all names in the rows, and put the bookies' locations into run.json."""
    around = about.terms.around
    bookies = set(bookie_ids_in([run_json, *rows.values()]))
    for bookie in bookies:  # the host may tell its location, and is removed
        if (location := around.location_of(bookie)) is not None:
            run_json["terms"]["around"]["locations"][bookie] = location
    names = Pseudonyms()
    names.add_bookies(bookies)
    names.add_names_of(list(rows.values()))
    return names


def _differing_ledgers(
    run: Place, copy: Place, ids: Sequence[LedgerId], judge_again: JudgeAgain
) -> list[LedgerId]:
    """Return the ledgers whose verdict from the copy differs from the stored one."""
    if not run.has_table("verdicts"):
        return []
    columns = ["ledger_id", "standing", "findings"]
    of_these = pc.field("ledger_id").isin(pa.array(ids, pa.int64()))
    before = _verdicts(run.read_table("verdicts", VERDICTS, of_these, columns))
    now = _verdicts(judge_again(copy, read_about(copy)).select(columns))
    return sorted(ledger for ledger in before if before[ledger] != now.get(ledger))


def _verdicts(rows: pa.Table) -> dict[LedgerId, tuple[str, list[str]]]:
    return {
        row["ledger_id"]: (
            row["standing"],
            sorted(FindingRecord.from_line(line).kind.value for line in row["findings"]),
        )
        for row in rows.to_pylist()
    }


def _write_report(
    copy: Place,
    findings: Sequence[FindingRecord],
    summary: Mapping[str, object],
    names: Pseudonyms | None,
) -> None:
    """Write the findings and the summary. With pseudonyms, only some fields of each."""
    rows = [finding.as_json() for finding in findings]
    if names is not None:
        rows = [names.of_row(_without_names(row)) for row in rows]
        summary = {name: summary[name] for name in SUMMARY_FIELDS if name in summary}
    reported = copy / "told"
    reported.create()
    reported.write_text("findings.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write_json(reported, "summary.json", summary)


def _without_names(finding: Json) -> Json:
    kept = {name: finding[name] for name in FINDING_FIELDS if name in finding}
    if Family(finding["family"]) in WITNESSED:
        kept["witness"] = finding["witness"]
    return kept


def _archive(home: Path, name: str) -> bytes:
    """Return a tar.gz of a directory. Equal contents give equal bytes."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for file in sorted(path for path in home.rglob("*") if path.is_file()):
            info = tarfile.TarInfo(f"{name}/{file.relative_to(home).as_posix()}")
            info.size, info.mode = file.stat().st_size, 0o640
            with file.open("rb") as opened:
                archive.addfile(info, opened)
    return packed.getvalue()
