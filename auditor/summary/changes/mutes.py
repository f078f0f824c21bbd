"""Mutes: findings that an operator knows and accepts until a day, in a file for people and for git.

The file has one JSON object a line. Each records the state of its finding when it was muted. A mute
does not apply to a finding of another kind, or to one that became worse or is about something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from auditor.model.finding import Kind
from auditor.model.finding_record import FindingRecord, Muted
from auditor.summary.changes.mute_state import State, why_outgrown

Json = dict[str, Any]

MUTES_FILE = "mutes.jsonl"
"""The file's name in OUTPUT."""
MUTES_MAX = 10_000
"""One file has at most this many mutes. To mute more, use --fail-on."""
WHY_CHARS_MAX = 500


class BadMutes(Exception):
    """`mute` did not write this file. `str` says which line is wrong, and why."""


@dataclass(frozen=True, slots=True)
class Mute:
    """One muted finding. It is muted to the end of the day `until`, in UTC.

    `on` names the subject of the finding for people. `state`: how bad the finding was in the run
    `run_id`.
    """

    id: str
    until: date
    why: str
    kind: Kind
    on: str
    run_id: str
    state: State

    def line(self) -> str:
        """Return the mute as a line of the file, which `parse_mutes` reads."""
        return json.dumps(
            {
                "id": self.id,
                "until": self.until.isoformat(),
                "why": self.why,
                "kind": self.kind.value,
                "on": self.on,
                "run_id": self.run_id,
                "state": self.state.as_json(),
            }
        )


@dataclass(frozen=True, slots=True)
class Applied:
    """Which findings are muted. `muted` has their mutes by id and kind.

    `outgrown`: mutes that do not apply, each with the reason; `expired`: mutes whose day is over,
    of findings that still exist.
    """

    muted: Mapping[tuple[str, Kind], Mute]
    outgrown: Sequence[tuple[Mute, str]] = ()
    expired: Sequence[Mute] = ()

    def of(self, finding: FindingRecord) -> Muted | None:
        """Return until when a finding is muted, and why; None if it is not."""
        mute = self.muted.get((finding.id, finding.kind))
        return None if mute is None else Muted(mute.until.isoformat(), mute.why)


def parse_mutes(text: str) -> list[Mute]:
    """Return the mutes of a file, in its order. Blank lines are skipped.

    Raises BadMutes. A file with a bad line mutes nothing, because its intent is unknown.
    """
    mutes: dict[str, Mute] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        mute = _parse(line, number)
        if mute.id in mutes:
            raise BadMutes(
                f"line {number} mutes {mute.id} for the second time: keep one of the two lines"
            )
        mutes[mute.id] = mute
        if len(mutes) > MUTES_MAX:
            raise BadMutes(f"there are more than {MUTES_MAX} lines: use --fail-on instead")
    return list(mutes.values())


def _parse(line: str, number: int) -> Mute:
    try:
        fields = json.loads(line)
        texts = [fields[name] for name in ("id", "why", "on", "run_id")]
        if (
            not all(isinstance(one, str) for one in texts)
            or not fields["id"]
            or not fields["why"].strip()
        ):
            raise ValueError("id, why, on and run_id must be texts, and id and why not empty")
        state = State.from_json(fields["state"])
        return Mute(
            fields["id"],
            date.fromisoformat(fields["until"]),
            fields["why"],
            Kind(fields["kind"]),
            fields["on"],
            fields["run_id"],
            state,
        )
    except KeyError as error:
        raise BadMutes(f"line {number} lacks {error}: write it with `auditor mute`") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadMutes(
            f"line {number} is not a mute ({error}): write it with `auditor mute`"
        ) from None


def apply_mutes(mutes: Iterable[Mute], findings: Iterable[FindingRecord], today: date) -> Applied:
    """Return which of these findings are muted today (UTC). Pure."""
    by_id: dict[str, list[FindingRecord]] = {}
    for finding in findings:
        by_id.setdefault(finding.id, []).append(finding)
    muted: dict[tuple[str, Kind], Mute] = {}
    outgrown, expired = [], []
    for mute in mutes:
        for finding in by_id.get(mute.id, ()):
            if mute.until < today:
                expired.append(mute)
            elif why := why_outgrown(mute.kind, mute.state, finding):
                outgrown.append((mute, why))
            else:
                muted[mute.id, finding.kind] = mute
    return Applied(muted, outgrown, list({one.id: one for one in expired}.values()))


def mutes_json(applied: Applied, findings: Iterable[FindingRecord], problem: str | None) -> Json:
    """Return the field `mutes` of the summary.

    `by_kind` counts, for each kind, the ledgers or bookies (1 for the cluster) all of whose
    findings of that kind are muted. It is subtracted from the number that have the kind.
    """
    subjects: dict[str, dict[Any, bool]] = {}
    count = 0
    for finding in findings:
        kind, is_muted = finding.kind.value, applied.of(finding) is not None
        count += is_muted
        subject = (finding.ledger_id, finding.bookie_id)
        known = subjects.setdefault(kind, {})
        known[subject] = known.get(subject, True) and is_muted
    by_kind = {kind: sum(known.values()) for kind, known in subjects.items()}
    return {
        "problem": problem,
        "findings": count,
        "by_kind": {kind: number for kind, number in sorted(by_kind.items()) if number},
        "outgrown": [{"id": mute.id, "on": mute.on, "why": why} for mute, why in applied.outgrown],
        "expired": [
            {"id": mute.id, "on": mute.on, "until": mute.until.isoformat()}
            for mute in applied.expired
        ],
    }
