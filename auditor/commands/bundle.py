"""`auditor bundle` packs the evidence of some ledgers of a run, to report a wrong verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from auditor.after.bundle import Chosen, Notes, pack_within_bounds
from auditor.after.finished_run import read_about, read_all_findings
from auditor.commands.explain import choose_findings
from auditor.commands.stored_run import refuse_damaged_run
from auditor.context import EXIT_SOUND, Context
from auditor.errors import ConfigError
from auditor.evidence.local_files import restrict_new_files
from auditor.evidence.run_directory import Place, place
from auditor.evidence.run_tables import require_stored
from auditor.evidence.schemas import LISTING, VERDICTS
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import LEDGER_ID_MAX, LedgerId
from auditor.report.layout import of, size
from auditor.run.replay import judge_again
from auditor.summary.about import About
from auditor.summary.carried import carried_from
from auditor.summary.counts import HAS_DETAIL, disputed_ledgers, poisoned_ledgers
from auditor.summary.previous_run import read_summary


def bundle(
    context: Context, run_dir: str, names: Sequence[str], file: str | None, *, plain: bool
) -> int:
    """Write the bundle of a run, print what is in it, and return 0.

    `names` are ids of findings, ledgers or bookies; without any, all findings. Raises ConfigError
    if the run cannot be read or has no such id, or if the file exists already.
    """
    with refuse_damaged_run(context, run_dir):
        run = place(run_dir)
        about = _require_run(run)
        summary = read_summary(run)
        if summary:
            require_stored(run, summary.stored)
        findings = read_all_findings(run, summary) if summary else []
        chosen = _choose(run, findings, names)
        target = Path(file or f"auditor-bundle-{about.run_id}.tar.gz")
        if target.exists():
            raise ConfigError(f"{target} is there already: remove it, or give --file FILE")
        packed, notes = pack_within_bounds(run, about, chosen, judge_again, plain=plain)
    with restrict_new_files(context.settings.output_umask):
        try:
            target.write_bytes(packed)
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error.strerror}") from error
    facts = {"file": str(target), "bytes": len(packed), **asdict(notes)}
    is_text = context.settings.format == "text"
    context.say(_words(target, len(packed), notes) if is_text else json.dumps(facts) + "\n")
    return EXIT_SOUND


def _words(target: Path, packed_bytes: int, notes: Notes) -> str:
    names = "as they are" if notes.is_plain else "replaced; look into it before you share it"
    lines = [
        f"{target}: {size(packed_bytes)}, {of(len(notes.ledgers), 'ledger')},"
        f" {of(notes.findings, 'finding')}; names are {names}"
    ]
    if notes.ledgers_left_out or notes.findings_left_out:
        lines.append(
            f"left out: {of(notes.ledgers_left_out, 'ledger')},"
            f" {of(notes.findings_left_out, 'finding')}; name some to have them"
        )
    if differing := ", ".join(map(str, notes.ledgers_judged_otherwise)):
        lines.append(f"judged again from the bundle, these have another verdict: {differing}")
    return "\n".join(lines) + "\n"


def _require_run(run: Place) -> About:
    if run.read_text("run.json") is None:
        raise ConfigError(f"{run.address} is not a run's directory: it has no run.json")
    return read_about(run)


def _choose(run: Place, findings: Sequence[FindingRecord], names: Sequence[str]) -> Chosen:
    """Return the subjects that the names stand for. Raises ConfigError for an unknown name."""
    named = {name: ledger for name in names if (ledger := _ledger_id(name)) is not None}
    listed = _listed_ids(run, [*named.values(), *(finding.ledger_id for finding in findings)])
    picked: list[FindingRecord] = []
    ids: list[LedgerId] = []
    if not names:
        picked = sorted(findings, key=lambda finding: -finding.severity)
        ids = _set_aside(run)
    for name in names:
        found = choose_findings(findings, name)
        if not found and named.get(name) not in listed:
            raise ConfigError(
                f"{run.address} has no {name}: give the id of a finding, a ledger id or a bookie id"
                " that has a finding"
            )
        _refuse_carried(run, named.get(name))
        picked += found
        ids += [ledger for ledger in (named.get(name),) if ledger in listed]
    ids += [finding.ledger_id for finding in picked if finding.ledger_id in listed]
    if not ids and not picked:
        raise ConfigError(
            f"{run.address} has no finding: name the ledgers that the report is about"
        )
    return Chosen(list(dict.fromkeys(ids)), picked)


def _refuse_carried(run: Place, ledger: LedgerId | None) -> None:
    """Raise ConfigError for a ledger that the run did not ask about: what bookies said of it is in
    an earlier run.
    """
    carried = None if ledger is None else carried_from(run, ledger)
    if carried is None:
        return
    asked = _beside(run, f"run-{carried.run_id}")
    what_to_do = f"bundle {asked.address}"
    if not asked.has_file("run.json"):
        what_to_do = (
            f"{asked.address} is not there any more (--keep-runs), or is elsewhere. `auditor run"
            " --within 0` asks about every ledger"
        )
    raise ConfigError(
        f"{run.address} did not ask about ledger {ledger}: the evidence on it is in run"
        f" {carried.run_id}; {what_to_do}"
    )


def _beside(run: Place, name: str) -> Place:
    """Return the directory of this name in the directory that has the run's."""
    parents = (text.rstrip("/").rpartition("/")[0] for text in (run.path, run.uri))
    path, uri = (f"{parent}/{name}" for parent in parents)
    return replace(run, path=path, uri=uri)


def _ledger_id(name: str) -> LedgerId | None:
    """Return the ledger id that a name spells, None if it spells none."""
    is_number = name.isascii() and name.isdecimal() and len(name) <= len(str(LEDGER_ID_MAX))
    return int(name) if is_number and int(name) <= LEDGER_ID_MAX else None


def _listed_ids(run: Place, ids: Sequence[LedgerId | None]) -> set[LedgerId]:
    """Return which of these ledgers the run listed. Costs a scan of the listing."""
    of_these = pc.field("ledger_id").isin(pa.array(ids, pa.int64()))
    return set(run.read_table("evidence/listing", LISTING, of_these)["ledger_id"].to_pylist())


def _set_aside(run: Place) -> list[LedgerId]:
    """Return the ledgers that a fault of the auditor left unjudged; none in an unfinished run."""
    if not run.has_table("verdicts"):
        return []
    columns = ["ledger_id", "unknowns", "detail"]
    verdicts = run.read_table("verdicts", VERDICTS, HAS_DETAIL, columns)
    return [ledger for ledger, _ in (*poisoned_ledgers(verdicts), *disputed_ledgers(verdicts))]
