"""Render a rehearsal as one screen of text, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor.recovery.restored_metadata import CHANGES, Amount, Comparison, Fate, largest
from auditor.report.layout import Screen, count, of, printable, size, table
from auditor.witness.phrases import clock

OWNERS_SHOWN_MAX = 3
"""Owners that are shown for each fate, those with the most bytes first. The JSON form has more."""
OWNERS_IN_JSON_MAX = 1_000
BOOKIES_SHOWN_MAX = 8
"""Bookies that are shown, those that would delete the most first. The JSON form has all."""
PROBLEMS_SHOWN_MAX = 5
MEANINGS: Mapping[Fate, str] = {
    Fate.GONE: "gone: only the living metadata has them",
    Fate.CUT_SHORT: "cut short: closed at a lower entry",
    Fate.OPEN_AGAIN: "open again: closed now, open or in recovery when restored",
    Fate.BACK: "back: deleted since, the restored metadata has them",
    Fate.MOVED: "moved: it names other bookies than now",
    Fate.DIFFERENT: "different in another way",
    Fate.UNREAD: "not compared: metadata not readable",
}


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The result of a rehearsal.

    `standings` has, for each audited fate, how many ledgers have which standing when the restored
    metadata is audited against the living bookies. `unaudited` counts those that were not audited.
    `notes` say what the restored state is, `problems` what could not be read. `ids_directory` is
    where the ids were written, or "".
    """

    living: str
    restored: str
    comparison: Comparison
    standings: Mapping[Fate, Mapping[str, int]] = field(default_factory=dict)
    unaudited: Mapping[Fate, int] = field(default_factory=dict)
    violated: Sequence[int] = ()
    notes: Sequence[str] = ()
    problems: Sequence[str] = ()
    ids_directory: str = ""


def rehearsal_json(found: Rehearsal, exit_code: int) -> dict[str, Any]:
    """Return the JSON form."""
    comparison = found.comparison
    return {
        "living": found.living,
        "restored": found.restored,
        "ledgers_living": comparison.living,
        "ledgers_restored": comparison.restored,
        "newest_restored_ms": comparison.newest_restored_ms,
        "fates": {fate.value: _amount_json(comparison.amount(fate)) for fate in Fate},
        "owners": {
            fate.value: {
                name: _amount_json(amount)
                for name, amount in list(largest(owners.items()))[:OWNERS_IN_JSON_MAX]
            }
            for fate, owners in comparison.owners.items()
        },
        "bookies": {
            bookie: {
                "next_collection": _amount_json(deletions.next_collection),
                "over_replicated": _amount_json(deletions.over_replicated),
            }
            for bookie, deletions in sorted(comparison.deletions.items())
        },
        "ids_given_again": comparison.gone_above,
        "audited": {fate.value: dict(counts) for fate, counts in found.standings.items()},
        "not_audited": {fate.value: number for fate, number in found.unaudited.items()},
        "violated": list(found.violated),
        "notes": list(found.notes),
        "problems": list(found.problems),
        "ids_directory": found.ids_directory or None,
        "exit_code": exit_code,
    }


def _amount_json(amount: Amount) -> dict[str, int]:
    return {
        "ledgers": amount.ledgers,
        "bytes": amount.size_bytes,
        "without_length": amount.unsized,
    }


def rehearsal_text(found: Rehearsal, exit_code: int, screen: Screen) -> str:
    """Return the text form. Its last line is for machines."""
    lines: list[str] = []
    for paragraph in (
        _headline(found),
        _fates(found),
        _audited(found),
        _deletions(found.comparison),
        _ids_again(found.comparison),
        (*found.notes, *map(printable, found.problems[:PROBLEMS_SHOWN_MAX]), *_files(found)),
    ):
        part = list(paragraph)
        if part:
            wrapped = (screen.wrap(line) if not line.startswith("  ") else [line] for line in part)
            lines += [line for one in wrapped for line in one]
            lines.append("")
    numbers = " ".join(
        f"{fate.value}={found.comparison.amount(fate).ledgers}" for fate in (*CHANGES, Fate.UNREAD)
    )
    return "\n".join((*lines, f"auditor: REHEARSAL exit={exit_code} {numbers}", ""))


def _headline(found: Rehearsal) -> Iterator[str]:
    comparison = found.comparison
    same = comparison.amount(Fate.SAME).ledgers
    changed = comparison.changed
    if changed:
        ledgers = of(changed, "ledger")
        yield f"A restore would change {ledgers}; {count(same)} would stay as they are."
    else:
        yield f"A restore would change no ledger: {of(same, 'ledger')} compared."
    newest = comparison.newest_restored_ms
    written = "" if newest is None else f", the newest written {clock(newest)} UTC"
    yield (
        f"Living: {of(comparison.living, 'ledger')} at {printable(found.living)}. Restored:"
        f" {count(comparison.restored)}{written}."
    )


def _fates(found: Rehearsal) -> Iterator[str]:
    rows = []
    for fate in (*CHANGES, Fate.UNREAD):
        amount = found.comparison.amount(fate)
        if not amount.ledgers:
            continue
        rows.append([count(amount.ledgers), _size_words(amount), MEANINGS[fate]])
        owners = found.comparison.owners.get(fate, {})
        shown = list(largest(owners.items()))[:OWNERS_SHOWN_MAX]
        rows += [["", f"{count(one.ledgers)}:", printable(name)] for name, one in shown]
        if len(owners) > len(shown):
            rows.append(["", "", f"and {of(len(owners) - len(shown), 'more owner')}"])
    yield from table(rows, "  ")
    if found.comparison.unread_example:
        yield f"Not compared: {printable(found.comparison.unread_example, 500)}."


def _size_words(amount: Amount) -> str:
    if amount.unsized == amount.ledgers:
        return "size not known"
    return f"{size(amount.size_bytes)}{' and more' if amount.unsized else ''}"


def _audited(found: Rehearsal) -> Iterator[str]:
    """Yield what the audit of restored ledgers against the living bookies found."""
    for fate, standings in found.standings.items():
        said = ", ".join(
            f"{count(number)} {word.replace('_', ' ')}"
            for word, number in sorted(standings.items())
        )
        rest = found.unaudited.get(fate, 0)
        left = f"; {count(rest)} older ones were not asked about" if rest else ""
        yield f"Bookies asked for the restored ledgers that are {fate.value}: {said}{left}."
    if found.violated:
        ids = ", ".join(map(str, found.violated[:5]))
        more = " ..." if len(found.violated) > 5 else ""
        yield f"Restored, but without the promised copies on the bookies: ledgers {ids}{more}"


def _deletions(comparison: Comparison) -> Iterator[str]:
    rows = sorted(
        comparison.deletions.items(),
        key=lambda item: (
            -item[1].next_collection.size_bytes,
            -item[1].next_collection.ledgers,
            -item[1].over_replicated.size_bytes,
            item[0],
        ),
    )
    if not rows:
        return
    yield (
        "Bookies would delete, as the living metadata names them: at the next collection"
        " (gcWaitTime) what is gone; later (gcOverreplicatedLedgerWaitTime, a day by default)"
        " closed ledgers whose restored ensembles do not name the bookie."
    )
    head = ["bookie", "next collection", "", "over-replicated", ""]
    shown = [
        [
            printable(bookie),
            of(one.next_collection.ledgers, "ledger"),
            _about(one.next_collection),
            of(one.over_replicated.ledgers, "ledger"),
            _about(one.over_replicated),
        ]
        for bookie, one in rows[:BOOKIES_SHOWN_MAX]
    ]
    yield from table([head, *shown], "  ")
    if len(rows) > len(shown):
        yield f"  and {of(len(rows) - len(shown), 'more bookie')}"
    if any(one.next_collection.ledgers for _, one in rows):
        yield (
            "What a bookie has deleted is lost. Before bookies see restored metadata, stop them or"
            " switch their collection off."
        )


def _about(amount: Amount) -> str:
    if not amount.ledgers:
        return ""
    words = _size_words(amount)
    return words if amount.unsized == amount.ledgers else f"about {words}"


def _ids_again(comparison: Comparison) -> Iterator[str]:
    if comparison.gone_above:
        last = comparison.highest_restored
        above = f"above {last}" if last is not None else "from the first on"
        yield (
            f"{of(comparison.gone_above, 'gone ledger')} have ids {above}. BookKeeper's counter of"
            " ids is restored too, and may give these ids to new ledgers, while bookies still hold"
            " entries of the old ones."
        )


def _files(found: Rehearsal) -> Iterator[str]:
    if found.ids_directory:
        yield f"The ids by fate are in {printable(found.ids_directory, 500)}."
