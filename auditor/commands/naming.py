"""`auditor ledger --naming BOOKIE` lists the ledgers that name a bookie, with their standings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from auditor.clock import now_ms, utc_now
from auditor.context import EXIT_SOUND, EXIT_UNKNOWN, EXIT_UNREACHABLE, Context
from auditor.errors import ConfigError, StoreUnavailable
from auditor.evidence.newest_run import NewestRun, newest_run
from auditor.model.cluster import ClusterFacts, Naming, NamingLedger, Registration
from auditor.model.identity import BookieId, LedgerId, is_bookie_id
from auditor.model.ledger import LedgerState
from auditor.report.layout import count, duration, moment, of, printable
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store
from auditor.zookeeper.naming import ledgers_naming

UNREAD_SHOWN_MAX = 10
"""Maximum number of ledgers with unreadable metadata that are named; the rest is only counted."""
NOT_AUDITED = "not_audited"
"""The standing shown for a ledger on which the newest run has no verdict."""


def naming_lines(naming: Naming, standings: Mapping[LedgerId, str]) -> Iterator[str]:
    """Yield a line per ledger: its id, then `#` and what is known of it."""
    for ledger in naming.ledgers:
        standing = standings.get(ledger.ledger_id, NOT_AUDITED).replace("_", " ")
        facts = (
            ledger.state.value,
            f"named by {ledger.segments_naming} of {of(ledger.segments, 'segment')}",
            _entries(ledger),
            {True: "marked", False: "not marked", None: "not known whether marked"}[
                ledger.is_marked
            ],
            f"standing: {standing}",
        )
        yield f"{ledger.ledger_id}  # {'; '.join(facts)}"


def naming_sentences(naming: Naming, newest: NewestRun | None, age: str) -> Iterator[str]:
    """Yield sentences on what the list means and what it lacks.

    `age` is how long ago the newest run finished.
    """
    bookie = printable(naming.bookie_id)
    if not naming.listed:
        yield "No ledger was listed at all: check the metadata service URI."
        return
    if naming.is_unheard_of:
        yield (
            f"{_nobody_names(naming, bookie)}, and the bookie has neither a registration nor a"
            " cookie: check the id."
        )
    else:
        yield _counts(naming, bookie)
    if naming.ledgers:
        yield _blocking_words(naming)
        yield (
            f"Standings are those of run {newest.run_id}, which finished {age} ago."
            if newest
            else "Standings are not known: OUTPUT has no finished run of this cluster."
        )
    if naming.unread:
        first, why = naming.unread_shown[0]
        yield (
            f"The metadata of {of(naming.unread, 'ledger')} could not be read, and may name the"
            f" bookie too; ledger {first}: {printable(why, 1_000)}."
        )
    if naming.marks_problem:
        yield f"{printable(naming.marks_problem, 1_000)}."


def _counts(naming: Naming, bookie: str) -> str:
    total, at_least = len(naming.ledgers), "At least " if naming.unread else ""
    if not total:
        unread = f"; {count(naming.unread)} could not be read" if naming.unread else ""
        return f"{_nobody_names(naming, bookie)}{unread}."
    fewest = "at least " if naming.marks_problem or naming.unread else ""
    is_open, recovering = naming.count(LedgerState.OPEN), naming.count(LedgerState.IN_RECOVERY)
    closed = naming.count(LedgerState.CLOSED)
    return (
        f"{at_least}{of(total, 'ledger names', 'ledgers name')} bookie {bookie}:"
        f" {count(is_open)} open, {count(recovering)} in recovery, {count(closed)} closed;"
        f" {fewest}{count(naming.marked_count)} marked under-replicated."
    )


def _nobody_names(naming: Naming, bookie: str) -> str:
    """Return that no ledger names the bookie, as far as ledgers could be read."""
    if not naming.unread:
        return f"None of {of(naming.listed, 'ledger')} names bookie {bookie}"
    read = of(naming.listed - naming.unread, "ledger")
    return f"None of the {read} that could be read names bookie {bookie}"


def _blocking_words(naming: Naming) -> str:
    if not naming.blocking_count:
        none = "It should hold no entry of any of them: none of these blocks a decommission"
        unread = of(naming.unread, "unread ledger")
        return f"{none}; the {unread} may." if naming.unread else f"{none}."
    unclosed = len(naming.ledgers) - naming.count(LedgerState.CLOSED)
    closing = (
        f" {count(unclosed)} of them {'is' if unclosed == 1 else 'are'} not closed: a segment that"
        " is still written to can be replicated only after its writer has left it or the ledger is"
        " closed."
        if unclosed
        else ""
    )
    return (
        f"What blocks a decommission: {'at least ' if naming.unread else ''}"
        f"{of(naming.blocking_count, 'ledger')} of which it may hold entries, until another bookie"
        f" has replaced it there.{closing}"
    )


def _entries(ledger: NamingLedger) -> str:
    if ledger.entries is None:
        return "entries there not known"
    return f"should hold {of(ledger.entries, 'entry', 'entries')}"


Json = dict[str, Any]


def naming(context: Context, bookie_id: BookieId) -> int:
    """Print the ledgers that name the bookie, and return the exit code.

    0: every ledger was read. 3: some ledgers or marks could not be read, no ledger was listed, or
    nothing names the bookie. 5: ZooKeeper is unreachable. Raises ConfigError if `bookie_id` cannot
    be a bookie id, and Interrupted.
    """
    if not is_bookie_id(bookie_id):
        raise ConfigError(f"--naming: {printable(bookie_id)!r} cannot be a bookie id")
    settings = context.settings
    uri = parse_uri(settings.metadata_service_uri or "")
    try:
        with open_store(uri, settings.zookeeper_limits(1)) as store:
            facts = store.cluster_facts()
            context.progress.stage("read ledgers")
            found = ledgers_naming(store, bookie_id, now_ms, lambda: _go_on(context))
    except StoreUnavailable as error:
        return _unreachable(context, bookie_id, str(error))
    finally:
        context.progress.close()
    newest = newest_run(settings.output, facts)
    standings = newest.standings(ledger.ledger_id for ledger in found.ledgers) if newest else {}
    exit_code = EXIT_SOUND if found.is_complete and not found.is_unheard_of else EXIT_UNKNOWN
    if settings.format == "json":
        context.say(json.dumps(_as_json(found, facts, newest, standings, exit_code)) + "\n")
    else:
        context.say("".join(f"{line}\n" for line in naming_lines(found, standings)))
    for sentence in naming_sentences(found, newest, _age(newest)):
        context.note(sentence)
    return exit_code


def _go_on(context: Context) -> None:
    """Count one more ledger as read. Raises Interrupted if the command should stop."""
    context.stop.check()
    context.progress.advance()


def _unreachable(context: Context, bookie_id: BookieId, sentence: str) -> int:
    """Print why ZooKeeper gave no result, and return the exit code.

    In the text form stdout stays empty: it may be piped into --ledgers-from.
    """
    if context.settings.format == "json":
        said = {
            "bookie_id": bookie_id,
            "outcome": "UNREACHABLE",
            "exit_code": EXIT_UNREACHABLE,
            "error": sentence,
        }
        context.say(json.dumps(said) + "\n")
    context.note(f"UNREACHABLE: {sentence}")
    return EXIT_UNREACHABLE


def _age(newest: NewestRun | None) -> str:
    finished = moment(newest.finished_at) if newest else None
    return duration(max(0.0, (utc_now() - finished).total_seconds())) if finished else ""


def _as_json(
    found: Naming,
    facts: ClusterFacts,
    newest: NewestRun | None,
    standings: Mapping[LedgerId, str],
    exit_code: int,
) -> Json:
    bookie = found.bookie
    return {
        "bookie_id": found.bookie_id,
        "registration": (bookie.registration if bookie else Registration.NONE).value,
        "has_cookie": bool(bookie and bookie.has_cookie),
        "cluster": {
            "metadata_service_uri": facts.metadata_service_uri,
            "instance_id": facts.instance_id,
        },
        "newest_run": newest.as_json() if newest else None,
        "listed": found.listed,
        "naming": len(found.ledgers),
        "states": {state.value: found.count(state) for state in LedgerState},
        "marked": None if found.marks_problem else found.marked_count,
        "waited_for": found.blocking_count,
        "unread": found.unread,
        "unread_ledgers": [
            {"ledger_id": ledger_id, "detail": why} for ledger_id, why in found.unread_shown
        ],
        "ledgers": [
            {
                **asdict(ledger),
                "state": ledger.state.value,
                "standing": standings.get(ledger.ledger_id, NOT_AUDITED),
            }
            for ledger in found.ledgers
        ],
        "exit_code": exit_code,
    }
