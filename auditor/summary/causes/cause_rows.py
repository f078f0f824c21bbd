"""Renders causes: rows of `causes` in summary.json with one sentence, and files of ledger ids."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from auditor.evidence.ids import Ids
from auditor.model.availability import NOT_DIALLED, Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.model.finding import Family
from auditor.model.identity import BookieId
from auditor.summary.causes.candidates import Candidate, CauseKind, Chosen
from auditor.summary.causes.choosing import CAUSES_MAX
from auditor.summary.causes.contrast import Contrast, percent
from auditor.summary.causes.hits import UNJUDGED, VIAS, Hits, Via, family_of, union

SLUG_CHARS_MAX = 60
"""Maximum number of characters of a subject in a file name."""
MEMBERS_NAMED_MAX = 5
"""Maximum number of a rack's bookies named in its sentence; the rest is only counted."""

_GREETED: Mapping[Greeting | None, str] = {
    Greeting.ANSWERED: "answers",
    Greeting.SILENT: "is registered and silent",
    Greeting.REFUSED: "refuses to answer",
    Greeting.UNSUPPORTED: "answers, though it gave no list of entries",
    Greeting.ADDRESS_UNKNOWN: "is registered without an address that can be read",
    Greeting.AUDITOR_LIMITED: "is registered, and this host has no way to it",
}
_DOES = {
    Via.LACKING: ("lacks entries of {}", "lack entries of {}"),
    Via.UNHEARD: ("leaves copies of {} unknown", "leave copies of {} unknown"),
    Via.MARKED: ("is named missing by the marks of {}", "are named missing by the marks of {}"),
    Via.MISPLACED: (
        "is in segments of {} that fail placement",
        "are in segments of {} that fail placement",
    ),
}


@dataclass(frozen=True, slots=True)
class Backdrop:
    """What the sentence on a cause needs beside the ledgers: the cluster and its bookies."""

    facts: ClusterFacts
    bookies: Mapping[BookieId, BookieRecord]
    maintenance: frozenset[BookieId]
    renamed_to: Mapping[BookieId, BookieId] = field(default_factory=dict)
    """The probable new name of each gone bookie that has one."""


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes of a run, ready to be written.

    `rows` are objects for summary.json (docs/names.md), most ledgers first, at most CAUSES_MAX.
    `rest` counts the causes beyond that, and their ledgers. `unexplained` counts the ledgers
    without a cause, `unexplained_unjudged` those of them without a finding. `files` has, by file
    name, the ids of a cause's ledgers, ascending.
    """

    rows: list[dict[str, Any]]
    rest: dict[str, int]
    unexplained: int
    unexplained_unjudged: int
    files: dict[str, Ids]

    def as_json(self) -> dict[str, Any]:
        """Return the fields of summary.json."""
        return {
            "causes": self.rows,
            "causes_rest": self.rest,
            "ledgers_without_cause": self.unexplained,
            "unjudged_without_cause": self.unexplained_unjudged,
        }


def causes_json(chosen: Sequence[Chosen], hits: Hits, backdrop: Backdrop) -> Causes:
    """Return the chosen causes, ready to be written."""
    affected = hits.affected_ledgers()
    shown, beyond = chosen[:CAUSES_MAX], chosen[CAUSES_MAX:]
    rows = [
        _row(number, one, len(affected), hits, backdrop)
        for number, one in enumerate(shown, start=1)
    ]
    rest = {"causes": len(beyond), "ledgers": len(_ledgers_of(beyond))}
    unexplained = np.setdiff1d(affected, _ledgers_of(chosen))
    judged = [ids for word, ids in hits.by_kind.items() if family_of(word) != UNJUDGED]
    silent = np.setdiff1d(unexplained, union(judged))
    files = {row["file"]: one.own for row, one in zip(rows, shown, strict=True)}
    return Causes(rows, rest, len(unexplained), len(silent), files)


def _ledgers_of(chosen: Sequence[Chosen]) -> Ids:
    """Return the ledgers that belong to any of these causes, ascending, each once.

    A ledger that is hit in two families may belong to two causes.
    """
    return union(one.own for one in chosen)


def _row(number: int, one: Chosen, affected: int, hits: Hits, backdrop: Backdrop) -> dict[str, Any]:
    candidate = one.candidate
    words = {word: ids for word, ids in hits.by_kind.items() if family_of(word) == candidate.family}
    kinds = {word: int(np.isin(ids, one.own).sum()) for word, ids in words.items()}
    return {
        "id": cause_id(candidate.kind, candidate.subject, candidate.family, backdrop.facts),
        "cause": candidate.kind.value,
        "subject": candidate.subject,
        "family": candidate.family,
        "kinds": {
            word: n for word, n in sorted(kinds.items(), key=lambda item: (-item[1], item[0])) if n
        },
        "ledgers": len(one.own),
        "share": _round(len(one.own) / affected),
        **_contrast_fields(candidate.contrast),
        "says": _says(one, hits, backdrop),
        "file": f"causes/{number:02d}-{candidate.kind.value}-{_slug(candidate.subject)}.txt",
    }


def _contrast_fields(contrast: Contrast) -> dict[str, Any]:
    return {
        "touched": contrast.touched,
        "touched_hit": contrast.touched_hit,
        "share_touched": _round(contrast.share_touched),
        "others": contrast.others,
        "others_hit": contrast.others_hit,
        "share_others": None if contrast.share_others is None else _round(contrast.share_others),
        "p_value": None if contrast.p_value is None else _round(contrast.p_value),
    }


def _round(number: float) -> float:
    """Return `number` with 4 significant digits, so that a small share does not become 0."""
    return float(f"{number:.4g}")


def cause_id(kind: CauseKind, subject: str, family: str, facts: ClusterFacts) -> str:
    """Return an id that is stable over runs: a hash of the cluster, kind, subject and family."""
    cluster = facts.instance_id or f"{facts.root} {' '.join(sorted(facts.hosts))}"
    return hashlib.sha256(
        "\n".join((cluster, "cause", kind.value, subject, family)).encode()
    ).hexdigest()[:16]


def _slug(subject: str) -> str:
    """Return a subject as part of a file name: only letters, digits, dots, dashes, underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", subject).strip("-.")[:SLUG_CHARS_MAX] or "unnamed"


def _says(one: Chosen, hits: Hits, backdrop: Backdrop) -> str:
    candidate = one.candidate
    kind, subject, count = candidate.kind, candidate.subject, len(candidate.ledgers)
    if kind is CauseKind.BOOKIE:
        said = _bookie(candidate, hits, backdrop)
    elif kind is CauseKind.RACK:
        said = _rack(candidate, hits)
    elif kind is CauseKind.AUTORECOVERY:
        marked = _ledgers(candidate.contrast.touched).replace(" ", " marked ")
        said = (
            f"auto-recovery is disabled: the marks of {_ledgers(count)} wait for it"
            f" ({_touched_words(candidate)} of {marked})"
        )
    elif kind is CauseKind.WORKER:
        locked = (
            f"{_touched_words(candidate)} of the {_ledgers(candidate.contrast.touched)} that it"
            " locks"
        )
        said = (
            f"replication worker {subject} holds the locks of {_ledgers(count)} whose marks are too"
            f" old ({locked})"
        )
    else:
        said = _period(candidate)
    above = count - len(one.own)
    return said + (
        f" ({above:,} of them {'belongs' if above == 1 else 'belong'} to a stronger cause)"
        if above
        else ""
    )


def _bookie(candidate: Candidate, hits: Hits, backdrop: Backdrop) -> str:
    bookie = candidate.subject
    record = backdrop.bookies.get(bookie)
    if record is None or record.registration is Registration.NONE:
        state: str | None = "is not registered"
    elif record.greeting_detail.startswith(NOT_DIALLED):
        state = "is registered and was not dialled"
    else:
        state = _GREETED.get(record.greeting)
    away = ", in planned maintenance," if bookie in backdrop.maintenance else ""
    does = " and ".join(filter(None, (state, *_does(candidate, [bookie], hits))))
    renamed = (
        f" (probably renamed to {backdrop.renamed_to[bookie]})"
        if bookie in backdrop.renamed_to
        else ""
    )
    return f"bookie {bookie}{renamed}{away} {does} ({_shares(candidate)})"


def _does(candidate: Candidate, bookies: Sequence[BookieId], hits: Hits) -> Iterator[str]:
    """Yield what these bookies do to the candidate's ledgers, a phrase for each `Via` that occurs.

    Each ledger counts once, for the first `Via` that fits.
    """
    open_ledgers = candidate.ledgers
    for via in VIAS[candidate.family]:
        parts = [ids for bookie, ids in hits.via.get(via, {}).items() if bookie in bookies]
        mine = np.intersect1d(open_ledgers, union(parts))
        if len(mine):
            yield _DOES[via][len(bookies) > 1].format(_ledgers(len(mine)))
        open_ledgers = np.setdiff1d(open_ledgers, mine)


def _shares(candidate: Candidate) -> str:
    """Return both shares: "97 % of its 412 ledgers, 0.31 % on the rest".

    The rest are the bookies or racks that do not stand out.
    """
    share = candidate.contrast.share_others
    assert share is not None, "without others nothing stands out"
    others = "on the rest"
    if candidate.kind is CauseKind.BOOKIE and candidate.family == Family.PLACEMENT:
        others = "of the ledgers without it"
    return (
        f"{_touched_words(candidate)} of its {_ledgers(candidate.contrast.touched)},"
        f" {percent(share)} {others}"
    )


def _touched_words(candidate: Candidate) -> str:
    return percent(candidate.contrast.share_touched)


def _rack(candidate: Candidate, hits: Hits) -> str:
    members, shares = candidate.members, _shares(candidate)
    if not members:
        count = _ledgers(len(candidate.ledgers))
        return (
            f"rack {candidate.subject} has two bookies or more in segments of {count} that fail"
            f" placement ({shares})"
        )
    named = ", ".join(members[:MEMBERS_NAMED_MAX])
    more = (
        f" and {len(members) - MEMBERS_NAMED_MAX} more" if len(members) > MEMBERS_NAMED_MAX else ""
    )
    return (
        f"rack {candidate.subject}: its bookies {named}{more}"
        f" {' and '.join(_does(candidate, members, hits))} ({shares})"
    )


def _period(candidate: Candidate) -> str:
    one, (first, last) = candidate.contrast, candidate.subject.split("/")
    assert one.share_others is not None and candidate.period is not None, (
        "a period without other times does not stand out"
    )
    beside = ", ledgers with another cause not counted" if candidate.period.explained else ""
    return (
        f"ledgers created from {first} to {last}: {one.touched_hit:,} of {one.touched:,} are hit"
        f" ({_touched_words(candidate)}), and {one.others_hit:,} of the {one.others:,} created at"
        f" other times ({percent(one.share_others)}){beside}"
    )


def _ledgers(number: int) -> str:
    return f"{number:,} ledger{'' if number == 1 else 's'}"
