"""Findings for which as many commands as possible are proposed, and those commands."""

from dataclasses import replace

from support.findings_by_kind import EXAMPLES, facts_types, finding_of
from support.findings_by_kind import MARK as MARKED

from auditor.model.facts import (
    CorruptFacts,
    EntryFacts,
    MarkFacts,
    Search,
    UnavailableFacts,
    UnrecoverableFacts,
)
from auditor.model.finding_record import Owner
from auditor.witness.next_commands import next_commands

COMMANDS_MAX = 16


TOPIC = "persistent://public/default/orders"


OWNERS = {
    "nobody": None,
    "messages": Owner("pulsar", "managed-ledger", "public/default/persistent/orders"),
    "cursor": Owner("pulsar", "managed-ledger", "public/default/persistent/orders cursor bill"),
    "schema": Owner("pulsar", "schema", "public/default/orders"),
    "compacted": Owner("pulsar", "compacted-ledger", TOPIC),
    "somebody else": Owner("flink"),
}


HOLDERS = ("h1", "h2", "h3", "h4")


SEARCH = Search(1, 1, 1, 0, found_on=HOLDERS, found_unnamed=HOLDERS, found_first=(42,) * 4)


ENTRY = EntryFacts(42, ("b1", "b2"), search=SEARCH)


MARK = replace(MARKED, missing_replicas=("b1", "b2"))


def finding(kind, bookies=3, **changes):
    """Return a finding for which as many commands as possible are proposed; `changes` replace some
    of its facts.
    """
    of_kind = {
        CorruptFacts: CorruptFacts(
            40, ("b1", "b2"), tuple((f"c{n}", (40 + n, 99)) for n in range(bookies))
        ),
        EntryFacts: ENTRY,
        MarkFacts: MARK,
        UnavailableFacts: UnavailableFacts(
            42, ("b1", "b2"), (), tuple(f"b{n}" for n in range(bookies))
        ),
        UnrecoverableFacts: UnrecoverableFacts(ENTRY, MARK),
    }
    facts_type = facts_types(kind)[-1]
    facts = of_kind.get(facts_type, EXAMPLES[facts_type])
    missing_on = tuple((f"b{n}", ((42, 42),)) for n in range(bookies))
    return finding_of(kind, replace(facts, **changes), missing_on=missing_on)


def commands_of(kind, owner=None, disabled=False, **changes):
    return next_commands(
        finding(kind, **changes), replication_disabled=disabled, owner=OWNERS.get(owner, owner)
    )
