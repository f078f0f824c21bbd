"""`auditor margin` says from a stored run how much more may fail before ledgers lose copies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from auditor.after.absorbing import absorption_of
from auditor.after.margin import losses_without
from auditor.after.margin_now import Purpose
from auditor.after.margin_of_run import StoredRun, margin_basis, margin_of_cluster, read_copies
from auditor.after.margin_text import Cluster, MarginBasis, Without, margin_json, margin_text
from auditor.after.repairing import marks_since_earlier_run
from auditor.commands.margin_now import margin_now
from auditor.commands.stored_run import refuse_damaged_run
from auditor.context import EXIT_FINDINGS, EXIT_SOUND, EXIT_UNKNOWN, Context
from auditor.errors import ConfigError
from auditor.model.identity import BookieId
from auditor.wire.locations import is_within


def margin(
    context: Context,
    run_dir: str,
    without: Sequence[str],
    now: Purpose | None = None,
    together_max: int | None = None,
) -> int:
    """Print what would be lost, and return the exit code.

    With `without`: 1 if some ledger would surely have an entry without a copy; 3 if that is not
    ruled out. With and without it: 3 if the evidence is older than --evidence-age-max, if the run
    was of named ledgers, or if the metadata of some ledger could not be read or understood; else 0.
    With `now`, ZooKeeper is read again first (`auditor.commands.margin_now`).
    Raises ConfigError if the run cannot be read, if a part of it is lost, or if a name is unknown.
    """
    with refuse_damaged_run(context, run_dir):
        run = read_copies(run_dir)
    named = [name.strip() for item in without for name in item.split(",")]
    if now is not None:
        return margin_now(
            context, run_dir, named, now, together_max, run=run, bookies_meant=_bookies_meant
        )
    with refuse_damaged_run(context, run_dir):
        answer = _without(run, named) if named else _of_cluster(run, run_dir)
        basis = margin_basis(run, context.settings.evidence_age_max_ms / 1000)
        code = _exit_code(basis, answer)
        if context.settings.format == "json":
            said = json.dumps(margin_json(basis, answer, code)) + "\n"
        else:
            said = margin_text(basis, answer, code, context.screen)
    context.say(said)
    return code


def _of_cluster(run: StoredRun, run_dir: str) -> Cluster:
    return replace(margin_of_cluster(run), repair=marks_since_earlier_run(run_dir))


def _exit_code(basis: MarginBasis, answer: Without | Cluster) -> int:
    if isinstance(answer, Without) and answer.losses.no_copy.ledgers:
        return EXIT_FINDINGS
    is_open = isinstance(answer, Without) and (
        answer.losses.may_have_no_copy.ledgers > 0 or answer.unlocated > 0
    )
    is_open |= basis.is_too_old or basis.is_partial or basis.unread > 0
    return EXIT_UNKNOWN if is_open else EXIT_SOUND


def _without(run: StoredRun, named: Sequence[str]) -> Without:
    bookies = sorted({bookie for name in named for bookie in _bookies_meant(run, name)})
    unlocated = run.count_unlocated() if any(name.startswith("/") for name in named) else 0
    absorption = absorption_of(
        run.copies, run.bookies, set(bookies), run.writable() - set(bookies), run.locations()
    )
    losses = losses_without(run.copies, bookies)
    return Without(tuple(named), tuple(bookies), losses, absorption, unlocated)


def _bookies_meant(run: StoredRun, name: str) -> list[BookieId]:
    """Return the bookies that a bookie id, or a location that begins with "/", stands for."""
    locations = run.locations()
    if name.startswith("/"):
        there = [
            bookie
            for bookie, location in locations.items()
            if is_within(location, name.rstrip("/"))
        ]
        if not there:
            known = (
                ", ".join(sorted(set(locations.values()))[:10]) or "none: the run had no --topology"
            )
            raise ConfigError(
                f"--without {name}: the run knows no bookie there (locations it knows: {known})"
            )
        return there
    known_ids = {*run.copies.bookies, *run.bookies}
    if name not in known_ids:
        near = get_close_matches(name, known_ids, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigError(
            f"--without {name}: no closed ledger whose metadata is understood names this bookie,"
            f" and it was not registered{hint}"
        )
    return [name]
