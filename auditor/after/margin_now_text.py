"""Render whether bookies can be restarted or decommissioned now, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from auditor.after.ledgers_in_use import HarmInUse
from auditor.after.margin import Sort
from auditor.after.margin_now import NowAnswer, Purpose, Repair, Word
from auditor.after.margin_text import (
    NO_COPY,
    SHOWN_MAX,
    MarginBasis,
    absorption_json,
    absorption_words,
    age_words,
    ids_words,
    sort_json,
)
from auditor.after.repairing import repair_json, repair_sentences
from auditor.clock import rfc3339
from auditor.model.identity import BookieId
from auditor.report.layout import Screen, of, printable, table

_DONE = {Purpose.RESTART: "restarted", Purpose.DECOMMISSION: "decommissioned"}
_IN_USE = ("no_copy", "not_writable", "may_have_no_copy", "may_not_be_writable")


def is_basis_weak(basis: MarginBasis) -> bool:
    """Return whether the run cannot vouch for the cluster as a whole."""
    return basis.is_too_old or basis.is_partial or basis.unread > 0


def now_json(basis: MarginBasis, answer: NowAnswer, exit_code: int) -> dict[str, Any]:
    """Return the JSON form."""
    reading, state, absorption = answer.reading, answer.state, answer.harm.absorption
    return {
        "answer": answer.word(is_basis_weak(basis)).value,
        "for": answer.purpose.value,
        "without": list(answer.named),
        "bookies": list(answer.bookies),
        "run_id": basis.run_id,
        "started_at": basis.started_at,
        "age_s": round(basis.age_s),
        "too_old": basis.is_too_old,
        "partial": basis.is_partial,
        "read_at": state.read_at,
        "ledgers": {
            "in_order": basis.in_order,
            "unconfirmed": basis.unconfirmed,
            "in_use": answer.in_use,
            "unread": basis.unread,
        },
        "ledgers_read": {
            "listed": reading.listed,
            "read": reading.read,
            "new": reading.new,
            "changed": reading.changed,
            "deleted": reading.deleted,
        },
        "unseen": answer.unseen,
        "copies_assumed": basis.assumed_copies,
        "bookies_missing": sorted(answer.loss.missing),
        "bookies_down": list(answer.down),
        "bookies_with_new_cookies": list(answer.new_cookies),
        "bookies_writable": len(answer.loss.left),
        "largest_ensemble": answer.largest_ensemble,
        "bookies_without_location": answer.unlocated,
        "marked": len(state.marks),
        "replication_disabled": state.is_replication_disabled,
        "problem": state.problem or None,
        "no_copy": sort_json(answer.harm.losses.no_copy),
        "may_have_no_copy": sort_json(answer.harm.losses.may_have_no_copy),
        "of_ledgers_in_use": _in_use_json(answer.harm.in_use),
        "not_replicable": sort_json(answer.harm.not_replicable),
        "absorption": None if absorption is None else absorption_json(absorption),
        "max": answer.together_max,
        "repair": _repair_json(answer.repair),
        "exit_code": exit_code,
    }


def _repair_json(repair: Repair) -> dict[str, Any]:
    return {
        **repair_json(repair.since),
        "locked": repair.locked,
        "in_use": repair.in_use,
        "blocked": sort_json(repair.blocked),
        "oldest_ms": repair.oldest_ms,
    }


def _in_use_json(harm: HarmInUse) -> dict[str, Any]:
    return {name: sort_json(getattr(harm, name)) for name in _IN_USE}


def now_text(basis: MarginBasis, answer: NowAnswer, exit_code: int, screen: Screen) -> str:
    """Return the text form. Its last line is for machines."""
    word = answer.word(is_basis_weak(basis))
    losses = answer.harm.losses
    last = (
        f"auditor: MARGIN run={printable(basis.run_id)} exit={exit_code} answer={word.value}"
        f" no_copy={losses.no_copy.ledgers} may_have_no_copy={losses.may_have_no_copy.ledgers}"
    )
    lines = [
        *screen.wrap(_first_sentence(word, answer)),
        *(screen.wrap(_why_not_known(basis, answer)) if word is Word.NOT_KNOWN else ()),
        "",
        *_harm_lines(basis, answer, screen),
        "",
        *screen.wrap(" ".join(_state_sentences(basis, answer))),
        "",
        *screen.wrap(" ".join(_basis_sentences(basis, answer))),
        "",
        last,
        "",
    ]
    return "\n".join(lines)


def _names(bookies: Sequence[BookieId]) -> str:
    shown = ", ".join(map(printable, bookies[:SHOWN_MAX]))
    return f"{shown} ..." if len(bookies) > SHOWN_MAX else shown


def _first_sentence(word: Word, answer: NowAnswer) -> str:
    who, done = _names(answer.bookies), _DONE[answer.purpose]
    if not answer.bookies:
        if word is Word.NO_GO:
            return f"NO GO: no bookie can be {done} now."
        return f"NOT KNOWN: it is not known whether any bookie can be {done} now."
    many = " together" if len(answer.bookies) > 1 else ""
    if word is Word.GO:
        return f"GO: {who} can be {done} now{many}."
    if word is Word.NO_GO:
        return f"NO GO: {who} must not be {done} now{many}."
    return f"NOT KNOWN: it is not known whether {who} can be {done} now{many}."


def _why_not_known(basis: MarginBasis, answer: NowAnswer) -> str:
    """Return each reason why the answer is neither GO nor NO GO."""
    absorption = answer.harm.absorption
    may_lose = answer.harm.losses.may_have_no_copy.ledgers or answer.harm.in_use.is_possible
    unread = f"the metadata of {of(basis.unread, 'ledger')} could not be read or understood"
    unlocated = f"the location of {of(answer.unlocated, 'bookie')} is not known"
    reasons = (
        ("the run is not of the age that --evidence-age-max allows", basis.is_too_old),
        ("the run audited named ledgers only", basis.is_partial),
        (unread, basis.unread > 0),
        ("harm is not ruled out for the ledgers below", may_lose),
        ("too little room for the copies is known", absorption is not None and absorption.is_open),
        ("not everything is known of the cluster's state now", bool(answer.state.problem)),
        (unlocated, answer.unlocated > 0),
    )
    return f"Why: {'; '.join(reason for reason, is_so in reasons if is_so)}."


def _harm_lines(basis: MarginBasis, answer: NowAnswer, screen: Screen) -> Iterator[str]:
    losses, in_use = answer.harm.losses, answer.harm.in_use
    who = of(len(answer.bookies), "bookie") if answer.bookies else _names(sorted(answer.loss.asked))
    yield from screen.wrap(f"Without {who}, of {basis.closed_words()} and {count_in_use(answer)}:")
    rows = [
        _row(NO_COPY, losses.no_copy),
        _row("  not ruled out for", losses.may_have_no_copy, "more "),
        _row("in use, no copy of some entry", in_use.no_copy),
        _row("  not ruled out for", in_use.may_have_no_copy, "more "),
        _row("in use, cannot be written", in_use.not_writable),
        _row("  not ruled out for", in_use.may_not_be_writable, "more "),
    ]
    if answer.purpose is Purpose.DECOMMISSION:
        rows.append(_row("too few bookies to replace the copies", answer.harm.not_replicable))
    yield from table(rows, "  ")


def _row(name: str, sort: Sort, more: str = "") -> list[str]:
    return [name, of(sort.ledgers, f"{more}ledger"), ids_words(sort)]


def count_in_use(answer: NowAnswer) -> str:
    """Return the ledgers in use: "2 ledgers in use"."""
    return of(answer.in_use, "ledger in use", "ledgers in use")


def _state_sentences(basis: MarginBasis, answer: NowAnswer) -> Iterator[str]:
    state, missing = answer.state, sorted(answer.loss.missing)
    yield f"ZooKeeper was read at {state.read_at}."
    if missing:
        yield f"Not registered, and counted as lost: {_names(missing)}."
    if answer.down and answer.purpose is Purpose.RESTART:
        yield (f"Already down, so that a stop changes nothing: {_names(answer.down)}.")
    if answer.new_cookies:
        yield (
            f"A new cookie since the run: {_names(answer.new_cookies)}. What was there may be gone:"
            " copies of ledgers that are older than the cookie do not count as sure."
        )
    yield f"{of(len(answer.loss.left), 'writable bookie')} would be left."
    if len(answer.loss.left) < answer.largest_ensemble:
        yield (
            f"That is fewer than the {answer.largest_ensemble} of the largest ensemble: no ledger"
            " of that size can be created until more bookies are writable."
        )
    yield "Racks are not considered."
    if answer.harm.absorption is not None:
        yield absorption_words(answer.harm.absorption)
        yield "The room is what the run recorded."
    if answer.in_use:
        yield (
            "Assumption: each acknowledged entry of a ledger in use has an ack quorum of copies. No"
            " run looks for these."
        )
    if answer.together_max is not None and len(answer.bookies) < answer.together_max:
        yield (
            f"Up to {answer.together_max} were wanted. Bookies were tried one after the other:"
            " there may be a larger set."
        )
    yield from repair_sentences(answer.repair.since)
    if state.marks:
        yield "A replica that a mark names as missing does not count as sure."
    if state.is_replication_disabled:
        yield "Replication is switched off: nothing repairs marked ledgers."
    yield from _blocking_sentences(answer.repair)
    if state.problem:
        yield f"{printable(state.problem, 1_000)}."
    if answer.unlocated:
        yield (
            f"The location of {of(answer.unlocated, 'bookie')} is not known:"
            " locations may have more bookies."
        )
    may_not = answer.harm.in_use.may_not_be_writable.ledgers
    if may_not:
        yield (
            "A ledger keeps its ack quorum and has no bookie to replace the lost one: whether it"
            " can be written depends on the client's delayEnsembleChange."
        )


def _blocking_sentences(repair: Repair) -> Iterator[str]:
    """Yield how old the marks are, who works on them, and what blocks their repair."""
    if repair.oldest_ms is not None:
        oldest = rfc3339(datetime.fromtimestamp(repair.oldest_ms / 1000, UTC))
        yield f"The oldest mark is of {oldest}."
    if repair.locked:
        yield f"A replication worker is at {of(repair.locked, 'ledger')}."
    if repair.in_use:
        yield (
            f"{of(repair.in_use, 'marked ledger is', 'marked ledgers are')} not closed: the last"
            " segment is replicated only when its writer has left it."
        )
    if repair.blocked.ledgers:
        yield (
            f"{of(repair.blocked.ledgers, 'marked ledger')} cannot be repaired, because too few"
            f" writable bookies are outside of the ensemble: {ids_words(repair.blocked)}."
        )


def _basis_sentences(basis: MarginBasis, answer: NowAnswer) -> Iterator[str]:
    reading = answer.reading
    yield (f"Which copies were seen is from run {printable(basis.run_id)}, {age_words(basis)}.")
    if basis.is_partial:
        yield "That run audited named ledgers only."
    if basis.is_too_old and basis.age_s >= 0:
        yield "That is older than --evidence-age-max: run the audit again before you rely on it."
    yield (
        f"Of {of(reading.listed, 'ledger')} listed now, {reading.read:,} were read again:"
        f" {reading.new:,} new since the run, {reading.changed:,} changed."
        f" {of(reading.deleted, 'ledger')} of the run"
        f" {'is' if reading.deleted == 1 else 'are'} deleted."
    )
    if answer.unseen:
        yield (
            f"Assumption: {of(answer.unseen, 'closed ledger has', 'closed ledgers have')} a copy"
            " that is newer than the run and was not looked for. It counts as there."
        )
    if basis.unread:
        yield (
            f"The metadata of {of(basis.unread, 'ledger')} could not be read or understood: what"
            f" {'it' if basis.unread == 1 else 'they'} would lose is not known."
        )
    if basis.unconfirmed:
        yield (
            f"Of some entry of {of(basis.unconfirmed, 'closed ledger')}, no copy was confirmed:"
            " see the report of the run."
        )
    if basis.assumed_copies:
        copies = of(basis.assumed_copies, "copy", "copies")
        yield f"Of the cluster's copies, {copies} rest on a sample of other entries."
    yield "No bookie was asked: one that has just died may still be registered."
