"""`auditor ledger --naming BOOKIE` lists the ledgers that name a bookie, with their standings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from auditor.clock import now_ms, utc_now
from auditor.context import EXIT_SOUND, EXIT_UNKNOWN, EXIT_UNREACHABLE, Context
from auditor.errors import ConfigError, StoreUnavailable
from auditor.evidence.newest_run import NewestRun, newest_run
from auditor.model.cluster import ClusterFacts, Naming, Registration
from auditor.model.identity import BookieId, LedgerId, is_bookie_id
from auditor.model.ledger import LedgerState
from auditor.report.layout import duration, moment, printable
from auditor.report.naming_text import NOT_AUDITED, naming_lines, naming_sentences
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store
from auditor.zookeeper.naming import ledgers_naming

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
    for sentence in naming_sentences(found, newest.as_json() if newest else None, _age(newest)):
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
