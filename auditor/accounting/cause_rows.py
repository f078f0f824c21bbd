"""A cause in its outside form: an object of summary.json's `causes` with a sentence for a person, and its file of ids."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from auditor.accounting.causes import CAUSES_MAX, CauseKind, Chosen, Hits, Via
from auditor.accounting.last_words import Ids
from auditor.model.availability import Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.identity import BookieId

SLUG_CHARS_MAX = 60
"""Characters of a subject in a file's name."""
MEMBERS_NAMED_MAX = 5
"""Bookies of a rack named in its sentence; the rest is counted."""

_GREETED = {
    Greeting.ANSWERED: "answers",
    Greeting.SILENT: "is registered and silent",
    Greeting.REFUSED: "refuses to answer",
    Greeting.UNSUPPORTED: "answers, though it cannot list entries",
    Greeting.ADDRESS_UNKNOWN: "is registered without an address that can be read",
}
_DOES = {
    Via.LACKING: ("lacks entries of {}", "lack entries of {}"),
    Via.UNHEARD: ("leaves {} unjudged", "leave {} unjudged"),
    Via.MARKED: ("is named missing by the marks of {}", "are named missing by the marks of {}"),
    Via.MISPLACED: ("is in every segment that fails placement, in {}", "are in every segment that fails placement, in {}"),
}


@dataclass(frozen=True, slots=True)
class Backdrop:
    """What a sentence on a cause needs beside the ledgers: the bookies as last seen."""

    facts: ClusterFacts
    bookies: Mapping[BookieId, BookieRecord]
    asked: Mapping[BookieId, int]
    """Ledgers each bookie answered for."""
    maintenance: frozenset[BookieId]
    renamed_to: Mapping[BookieId, BookieId] = field(default_factory=dict)
    """Gone bookies that are probably there under another name."""


@dataclass(frozen=True, slots=True)
class Causes:
    """`rows` for summary.json: [{id, cause, subject, kinds {kind or reason: ledgers}, ledgers, share, says, file}], those with
    most ledgers first, at most CAUSES_MAX; `rest` {causes, ledgers} of those beyond; `unexplained` ledgers without a cause;
    `files`: name -> the ledger ids that belong to a cause, ascending.
    """

    rows: list[dict[str, Any]]
    rest: dict[str, int]
    unexplained: int
    files: dict[str, Ids]

    def as_json(self) -> dict[str, Any]:
        """The fields of summary.json."""
        return {"causes": self.rows, "causes_rest": self.rest, "ledgers_without_cause": self.unexplained}


def told(chosen: Sequence[Chosen], hits: Hits, backdrop: Backdrop) -> Causes:
    """The chosen causes in their outside form."""
    affected = len(hits.affected())
    shown, beyond = chosen[:CAUSES_MAX], chosen[CAUSES_MAX:]
    rows = [_row(number, one, affected, hits, backdrop) for number, one in enumerate(shown, start=1)]
    rest = {"causes": len(beyond), "ledgers": sum(len(one.own) for one in beyond)}
    unexplained = affected - sum(len(one.own) for one in chosen)
    return Causes(rows, rest, unexplained, {row["file"]: one.own for row, one in zip(rows, shown, strict=True)})


def _row(number: int, one: Chosen, affected: int, hits: Hits, backdrop: Backdrop) -> dict[str, Any]:
    kind, subject = one.candidate.kind, one.candidate.subject
    kinds = {word: int(np.isin(ids, one.own, assume_unique=True).sum()) for word, ids in hits.by_kind.items()}
    return {
        "id": cause_id(kind, subject, backdrop.facts),
        "cause": kind.value,
        "subject": subject,
        "kinds": {word: n for word, n in sorted(kinds.items(), key=lambda item: (-item[1], item[0])) if n},
        "ledgers": len(one.own),
        "share": round(len(one.own) / affected, 4),
        "says": _says(one, hits, backdrop),
        "file": f"causes/{number:02d}-{kind.value}-{_slug(subject)}.txt",
    }


def cause_id(kind: CauseKind, subject: str, facts: ClusterFacts) -> str:
    """Stable over runs: the cluster, what the cause is, and which."""
    cluster = facts.instance_id or f"{facts.root} {' '.join(sorted(facts.hosts))}"
    return hashlib.sha256("\n".join((cluster, "cause", kind.value, subject)).encode()).hexdigest()[:16]


def _slug(subject: str) -> str:
    """A file name of what somebody else named: letters, digits, dots, dashes, underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", subject).strip("-.")[:SLUG_CHARS_MAX] or "unnamed"


def _says(one: Chosen, hits: Hits, backdrop: Backdrop) -> str:
    kind, subject, count = one.candidate.kind, one.candidate.subject, len(one.candidate.ledgers)
    if kind is CauseKind.BOOKIE:
        said = _bookie(subject, hits, backdrop)
    elif kind is CauseKind.RACK:
        said = _rack(one, hits)
    elif kind is CauseKind.AUTORECOVERY:
        said = f"auto-recovery is disabled: the marks of {_ledgers(count)} wait for it"
    elif kind is CauseKind.WORKER:
        said = f"replication worker {subject} holds the locks of {_ledgers(count)} whose marks are too old"
    else:
        said = _period(one)
    above = count - len(one.own)
    return said + (f" ({above:,} of them {'belongs' if above == 1 else 'belong'} to a stronger cause)" if above else "")


def _bookie(bookie: BookieId, hits: Hits, backdrop: Backdrop) -> str:
    record = backdrop.bookies.get(bookie)
    state = "is not registered" if record is None or record.registration is Registration.NONE else _greeted(record)
    away = ", in planned maintenance," if bookie in backdrop.maintenance else ""
    parts = []
    for via, by_bookie in hits.via.items():
        if bookie in by_bookie:
            number = len(by_bookie[bookie])
            of_asked = _of_asked(number, backdrop.asked.get(bookie, 0)) if via is Via.LACKING else ""
            parts.append(_DOES[via][0].format(_ledgers(number)) + of_asked)
    renamed = f" (probably renamed to {backdrop.renamed_to[bookie]})" if bookie in backdrop.renamed_to else ""
    return f"bookie {bookie}{renamed}{away} " + " and ".join(filter(None, (state, *parts)))


def _greeted(record: BookieRecord) -> str:
    return _GREETED.get(record.greeting, "") if record.greeting else ""


def _of_asked(number: int, asked: int) -> str:
    """Of the ledgers it answered for: rounded down, so that it is never told as all where it is not; nothing below 1 %."""
    percent = min(100, number * 100 // asked) if asked else 0
    return f" ({percent} % of its ledgers)" if percent else ""


def _rack(one: Chosen, hits: Hits) -> str:
    members = one.candidate.members
    if not members:
        count = _ledgers(len(one.candidate.ledgers))
        return f"rack {one.candidate.subject} has two bookies or more in every segment that fails placement, in {count}"
    named = ", ".join(members[:MEMBERS_NAMED_MAX])
    more = f" and {len(members) - MEMBERS_NAMED_MAX} more" if len(members) > MEMBERS_NAMED_MAX else ""
    parts = []
    for via, by_bookie in hits.via.items():
        mine = [by_bookie[bookie] for bookie in members if bookie in by_bookie]
        if mine:
            parts.append(_DOES[via][1].format(_ledgers(len(np.unique(np.concatenate(mine))))))
    return f"rack {one.candidate.subject}: its bookies {named}{more} {' and '.join(parts)}"


def _period(one: Chosen) -> str:
    when = one.candidate.period
    assert when is not None, one.candidate.subject
    first, last = one.candidate.subject.split("/")
    return (
        f"ledgers created from {first} to {last}: {when.hit:,} of {when.created:,} are hit, and {when.others_hit:,} of the "
        f"{when.others:,} created at other times"
    )


def _ledgers(number: int) -> str:
    return f"{number:,} ledger{'' if number == 1 else 's'}"
