"""Bugs to plant in the product, for the model to find. Each is a function that patches the product
until the test ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from auditor.evidence.journal import JOURNAL, TABLES, Journal
from auditor.evidence.run_directory import Place
from auditor.first_checker import (
    coverage,
    entries,
    ledger,
    recheck,
    schedule,
    shares,
    underreplication,
)
from auditor.first_checker.entry_set import EMPTY
from auditor.first_checker.probing import REASON_OF_ANSWER
from auditor.first_checker.shares import BookieShare, Unanswered
from auditor.judging import newest_state
from auditor.judging import settle as judgement
from auditor.model.availability import AnswerStatus
from auditor.model.cluster import BookieRecord, Registration
from auditor.model.facts import UndecodableFacts
from auditor.model.finding import Finding, Kind
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.model.verdict import Standing, Unknown, Verdict
from auditor.run import single_ledgers as single

Plant = Callable[[pytest.MonkeyPatch], None]


def marks_excuse_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask no bookies about a marked ledger."""
    ask = judgement.questions_of
    monkeypatch.setattr(
        judgement, "questions_of", lambda record: () if record.mark else ask(record)
    )


def silence_is_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a silent bookie for one that lacks everything."""
    monkeypatch.setattr(
        shares,
        "Unanswered",
        lambda bookie, reasons=(), is_gone=False: Unanswered(bookie, reasons, True),
    )


def a_refusal_is_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a bookie that answers with an error status for a silent one."""
    monkeypatch.setitem(REASON_OF_ANSWER, AnswerStatus.REFUSED, Unknown.BOOKIE_SILENT)


def silence_is_health(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take an unregistered bookie for one that holds everything."""
    monkeypatch.setattr(
        Unanswered,
        "share",
        lambda self, wants: BookieShare(self.bookie_id, wants, EMPTY, EMPTY, EMPTY),
    )


def one_look_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never ask about a suspect a second time."""
    monkeypatch.setattr(recheck, "ASKED_LOOKS_OF_A_SUSPECT", 1)


def windows_are_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expect the entries of the next position on each bookie."""
    right = schedule.expected_entries

    def shifted(extent: Any, at: tuple[int, ...], size: int, quorum: int) -> Any:
        return right(extent, tuple((position + 1) % size for position in at), size, quorum)

    monkeypatch.setattr(coverage, "expected_entries", shifted)
    monkeypatch.setattr(coverage, "is_healthy", lambda metadata, answers: False)
    monkeypatch.setattr(ledger, "is_healthy", lambda metadata, answers: False)


def the_last_entry_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the entry before the last one for the end of a ledger."""
    extents = schedule.extents

    def shorter(metadata: Any) -> Any:
        last = metadata.last_entry_id
        return extents(
            replace(metadata, last_entry_id=last - 1) if last is not None and last > 0 else metadata
        )

    for module in (schedule, coverage, ledger):
        monkeypatch.setattr(module, "extents", shorter)


def deleted_is_violated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a deleted ledger for one with broken metadata."""
    right = judgement.judge

    def broken(record: LedgerRecord, *evidence: Any, **more: Any) -> Verdict:
        if record.status is not RecordStatus.GONE:
            return right(record, *evidence, **more)
        found = (
            Finding(
                Kind.METADATA_MALFORMED, UndecodableFacts("", 0, 0, ""), ledger_id=record.ledger_id
            ),
        )
        return Verdict(record.ledger_id, Standing.VIOLATED, findings=found)

    monkeypatch.setattr(judgement, "judge", broken)


def absence_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never read what a list lacks, so that no loss can be confirmed."""
    monkeypatch.setattr(judgement, "_wanted_reads", lambda seen: ((), False))


def read_only_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask no read-only bookies."""
    is_writable = property(lambda record: record.registration is Registration.WRITABLE)
    monkeypatch.setattr(BookieRecord, "is_registered", is_writable)


def the_forgotten_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take for unknown what a bookie without registration and cookie held."""
    for module in (judgement, ledger):
        monkeypatch.setattr(module, "gone_bookies", lambda answers: frozenset())


def one_more_copy_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report a loss only from the second lost copy on."""
    beyond = entries.Losses.beyond
    monkeypatch.setattr(entries.Losses, "beyond", lambda self, lost: beyond(self, lost + 1))


def twice_is_two_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count a bookie that occurs twice in a write set as two copies."""
    monkeypatch.setattr(coverage, "_surplus", lambda extent, metadata: ())


def strays_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore what was read on other bookies."""
    monkeypatch.setattr(ledger, "_search", lambda *_: None)


def marks_stay_young(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the younger of a mark's two dates for its age."""
    monkeypatch.setattr(
        underreplication, "age_ms", lambda mark, now_ms: max(0, now_ms - mark.created_ms)
    )


def two_audits_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report one entry more at every other judging of the same loss."""
    losses, count = entries._entry_finding, iter(range(10**9))

    def unsteady(kind: Kind, number: int, *rest: Any, **more: Any) -> Finding:
        found = losses(kind, number, *rest, **more)
        return replace(found, entries_total=found.entries_total + next(count) % 2)

    monkeypatch.setattr(entries, "_entry_finding", unsteady)


def the_last_ledger_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give one of three or more ledgers no verdict."""
    audit_ledgers = single.audit_ledgers

    def leave_out(asker: Any, numbers: Any, terms: Any) -> Any:
        return audit_ledgers(asker, numbers, terms)[: max(2, len(numbers) - 1)]

    monkeypatch.setattr(single, "audit_ledgers", leave_out)


def the_first_word_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a bookie said first, whatever it says at a later look."""

    def heard(chain: Any, terms: Any) -> Any:
        answers: dict[Any, Any] = {}
        reads: dict[Any, Any] = {}
        for look in chain:
            answers, reads = {**look.answers, **answers}, {**look.reads, **reads}
        return answers, reads

    monkeypatch.setattr(newest_state, "_merge_looks", heard)


def changed_metadata_is_not_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use what bookies said although the metadata changed since."""
    for module in (recheck, newest_state):
        monkeypatch.setattr(module, "same_state", lambda one, other: True)


PLANTS: tuple[Plant, ...] = (
    marks_excuse_losses,
    silence_is_health,
    one_look_is_enough,
    windows_are_off_by_one,
    deleted_is_violated,
    two_audits_differ,
    the_last_ledger_is_left_out,
    silence_is_absence,
    a_refusal_is_silence,
    the_last_entry_is_forgotten,
    absence_is_not_read,
    read_only_is_gone,
    the_forgotten_come_back,
    one_more_copy_is_lost,
    twice_is_two_copies,
    strays_are_lost,
    marks_stay_young,
)
"""Bugs that show in one audit: in what is asked, silence, looks, striping, states, steadiness, the
count of ledgers.
"""
PLANTS_BETWEEN: tuple[Plant, ...] = (the_first_word_counts, changed_metadata_is_not_noticed)
"""Bugs that show only if the cluster changes while an audit pauses."""


# Bugs of a run on Spark that is killed and resumed


def reported_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a stage into the journal before it is done."""
    once = Journal.run_once

    def too_early(self: Journal, stage: str, work: Any, *args: Any, **options: Any) -> Any:
        if stage not in self._results:
            once(self, stage, lambda: None)
            result = work(*args, **options) or {}
            sizes = self.run.file_sizes(*TABLES)
            new = {name: sizes[name] for name in sizes.keys() - self._files.keys()}
            entry = Path(self.run.path, JOURNAL, f"{len(self._results) - 1:06}.json")
            entry.write_text(
                json.dumps({**json.loads(entry.read_text()), "result": result, "files": new})
            )
            self._results[stage], self._files = result, self._files | new
        return self._results[stage]

    monkeypatch.setattr(Journal, "run_once", too_early)


def leftovers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a killed stage left among the tables."""
    monkeypatch.setattr(Place, "remove_file", lambda self, name: None)


def all_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resume without the journal."""
    monkeypatch.setattr(Journal, "reopen", classmethod(lambda cls, run: cls(run)))
