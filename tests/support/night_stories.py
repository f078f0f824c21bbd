"""Seeded stories of runs as they are written: what bookies did, look by look, for the findings on
bookies and on the cluster.

night(7).concluded()

Nothing in it needs to be likely, only possible: what bookies say and what ledgers lose is drawn
independently. Tables are in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import pyarrow as pa
from support.night_references import ORPHAN_AGE_MS, Referenced
from support.tables_in_memory import Tables

from auditor.evidence.rows import answer_row, ledger_row, read_row, table
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import (
    ANSWERS,
    LEDGERS,
    LISTING,
    LISTINGS,
    MARKS,
    READS,
    RENAMES,
    VERDICTS,
)
from auditor.evidence.table_scan import TableScan, scan_rows
from auditor.model.availability import (
    Answer,
    AnswerStatus,
    EntryRead,
    Greeting,
    ReadStatus,
    SequenceGroup,
)
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration, Surroundings
from auditor.model.evidence import LastPopulation, Terms
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Mark,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.run.conclusion import Conclusion, conclude
from auditor.summary.about import About
from auditor.summary.previous_run import NO_PREVIOUS
from auditor.wire.entry_availability import canonical

NOW_MS, GRACE_MS = 1_000_000, 100_000
NAMES = ("b1", "b2", "b3", "b4", "b5")
LEDGERS_MAX = 14
ENTRIES = 10
GOOD, SILENT, GONE, LEFT, FAILING, WIPED, UNABLE, FLAPPING = range(8)
"""The states of a bookie: one that LEFT has a cookie, and one that is GONE has none."""


@dataclass
class Night:
    """A run that has done everything but its end."""

    name: int
    run: Tables
    about: About
    records: list[BookieRecord]
    verdicts: TableScan

    def concluded(self) -> Conclusion:
        """Return the findings of the run's end."""
        return conclude(
            cast(Place, self.run), self.about, self.records, NO_PREVIOUS,
            verdicts=self.verdicts, finished_at="2026-01-01T03:01:00Z", duration_s={},
        )  # fmt: skip


def night(seed: int) -> Night:
    """Return the night of this seed."""
    return _Teller(seed, Random(f"night {seed}")).tell()


@dataclass
class _Teller:
    seed: int
    draw: Random
    rows: dict[str, list[Any]] = field(default_factory=dict)

    def tell(self) -> Night:
        draw = self.draw
        self.looks = draw.choice((1, 2, 2, 2, 3))
        self.step_ms = draw.choice((1_000, 9_999, 10_000, 25_000))
        self.modes = {name: draw.choice((GOOD, GOOD, *range(8))) for name in NAMES}
        self.count = draw.randrange(LEDGERS_MAX)
        referenced = Referenced(self.seed, NOW_MS)
        metadata = {
            ledger: referenced.owned(ledger, self._metadata())
            for ledger in range(1, self.count + 1)
        }
        records = [self._record(name, look) for look in range(1, self.looks + 1) for name in NAMES]
        draw.shuffle(records)
        ledgers = [row for ledger, one in metadata.items() for row in self._states(ledger, one)]
        asked = [
            (ledger, one, look)
            for ledger, one in metadata.items()
            for look in range(1, self.looks + 1)
        ]
        answers = [row for ledger, one, look in asked for row in self._answers(ledger, one, look)]
        reads = [row for ledger, one, look in asked for row in self._reads(ledger, one, look)]
        written = {
            "ledgers": (LEDGERS, ledgers),
            "answers": (ANSWERS, answers),
            "reads": (READS, reads),
        }
        written |= {
            "marks": (MARKS, list(self._marks())),
            "renames": (RENAMES, list(self._renames(metadata))),
        }
        about = self._about()
        written |= {
            "listing": (LISTING, [(ledger,) for ledger in metadata]),
            **self._listings(about),
        }
        for _, rows in written.values():
            draw.shuffle(rows)
        tables = {
            f"evidence/{name}": pa.Table.from_batches([table(schema, rows)])
            for name, (schema, rows) in written.items()
        }
        verdicts = pa.Table.from_pylist(
            [self._verdict(ledger, one) for ledger, one in metadata.items()], schema=VERDICTS
        )
        tables |= dict(referenced.tables(metadata))
        return Night(self.seed, Tables(tables), about, records, scan_rows(verdicts))

    def _about(self) -> About:
        draw = self.draw
        disabled, delay_s = draw.random() < 0.2, draw.choice((None, None, 0, 10))
        facts = ClusterFacts(
            "zk://h:1/ledgers", ("h:1",), "/ledgers", "hierarchical", "inst", disabled, delay_s
        )
        away = frozenset(name for name in NAMES if draw.random() < 0.05)
        terms = Terms(
            NOW_MS,
            GRACE_MS,
            16,
            5,
            around=Surroundings(maintenance=away),
            orphan_age_ms=ORPHAN_AGE_MS,
        )
        last = LastPopulation(
            "earlier",
            "2025-12-31T03:01:00Z",
            draw.choice((99, 100, 110)),
            draw.choice((0, 50, 88)),
            (),
            1,
        )
        return About(
            "20260101T030000Z-000001", "2026-01-01T03:00:00Z", facts, terms, "warning", True,
            partial=(partial := draw.random() < 0.1),
            previous_population=None if partial or draw.random() < 0.3 else last,
            unregistered_since_ms={name: draw.randrange(20_000) for name in NAMES if draw.random(
                ) < 0.3},
        )  # fmt: skip

    def _record(self, name: str, look: int) -> BookieRecord:
        mode = self.modes[name]
        if mode == FLAPPING:
            mode = self.draw.choice((GOOD, SILENT, LEFT, FAILING))
        at_ms = look * self.step_ms + self.draw.randrange(3)
        if mode in (GONE, LEFT):
            return BookieRecord(
                name,
                look,
                at_ms,
                Registration.NONE,
                has_cookie=mode == LEFT,
                greeting=Greeting.UNREGISTERED,
            )
        where = self.draw.choice((Registration.WRITABLE, Registration.READONLY))
        greetings = {SILENT: Greeting.SILENT, UNABLE: Greeting.UNSUPPORTED}
        greeting = (
            self.draw.choice((Greeting.ANSWERED, Greeting.REFUSED))
            if mode == FAILING
            else Greeting.ANSWERED
        )
        greeting = greetings.get(mode, greeting)
        return BookieRecord(
            name, look, at_ms, where, "h", 3181, True, "", greeting, f"said at {at_ms}"
        )

    def _metadata(self) -> LedgerMetadata:
        ensemble = tuple(self.draw.sample(NAMES, 3))
        state = self.draw.choice((*[LedgerState.CLOSED] * 9, LedgerState.OPEN))
        last = ENTRIES - 1 if state is LedgerState.CLOSED else -1
        return LedgerMetadata(3, state, 3, 2, 2, last, 99, (Segment(0, ensemble),))

    def _states(self, ledger: int, metadata: LedgerMetadata) -> Iterator[Any]:
        draw, version = self.draw, 0
        marked_from = draw.choice((1, 2, 9, 9, 9, 9))
        for look in range(1, self.looks + 2):
            version += draw.random() < 0.05
            mark = (
                Mark(draw.randrange(NOW_MS))
                if look >= marked_from and draw.random() < 0.9
                else None
            )
            record = LedgerRecord(
                ledger,
                look,
                look * 100,
                RecordStatus.FOUND,
                ZnodeStamp(7, version, 0),
                metadata,
                mark=mark,
            )
            if draw.random() < 0.03:
                status = draw.choice((RecordStatus.GONE, RecordStatus.NOT_AUTHORISED))
                record = LedgerRecord(ledger, look, look * 100, status, mark=mark)
            yield ledger_row(record)

    def _answers(self, ledger: int, metadata: LedgerMetadata, look: int) -> Iterator[Any]:
        if metadata.state is not LedgerState.CLOSED or self.draw.random() < 0.1:
            return
        for name in metadata.segments[0].ensemble:
            status = self._answer(name)
            detail = "EIO: x" if self.draw.random() < 0.6 else "EUA"
            yield answer_row(Answer(name, ledger, look, look * 100, status, detail=detail))

    def _answer(self, name: str) -> AnswerStatus:
        usual = {
            GOOD: AnswerStatus.HELD, SILENT: AnswerStatus.SILENT, GONE: AnswerStatus.UNREGISTERED,
            LEFT: AnswerStatus.UNREGISTERED, FAILING: AnswerStatus.FAILED,
            WIPED: AnswerStatus.NO_SUCH_LEDGER,
            UNABLE: AnswerStatus.UNSUPPORTED,
        }  # fmt: skip
        strange = (AnswerStatus.HELD, AnswerStatus.TIMED_OUT, AnswerStatus.REFUSED)
        mode = self.modes[name]
        return (
            self.draw.choice(strange)
            if mode == FLAPPING or self.draw.random() < 0.01
            else usual[mode]
        )

    def _reads(self, ledger: int, metadata: LedgerMetadata, look: int) -> Iterator[Any]:
        for name in NAMES:
            is_due = name in metadata.segments[0].ensemble
            if self.modes[name] in (UNABLE, FAILING, WIPED) and self.draw.random() < (
                0.5 if is_due else 0.1
            ):
                usual = {
                    UNABLE: ReadStatus.PRESENT,
                    FAILING: ReadStatus.FAILED,
                    WIPED: ReadStatus.NO_LEDGER,
                }[self.modes[name]]
                status = self.draw.choice(list(ReadStatus)) if self.draw.random() < 0.02 else usual
                entry = self.draw.randrange(ENTRIES)
                yield read_row(
                    EntryRead(
                        name,
                        ledger,
                        entry,
                        look,
                        look * 100,
                        status,
                        "EIO: y",
                        is_search=not is_due or None,
                    )
                )

    def _verdict(self, ledger: int, metadata: LedgerMetadata) -> dict[str, Any]:
        lacks = [
            {"bookie_id": name, "expected": 10, "absent": self.draw.choice((5, 6, 10, 10))}
            for name in metadata.segments[0].ensemble
            if self.modes[name] in (WIPED, UNABLE) and self.draw.random() < 0.8
        ]
        standing = "violated" if lacks else "sound"
        return {
            "ledger_id": ledger,
            "standing": standing,
            "unknowns": [],
            "findings": [],
            "lacks": lacks,
        }

    def _marks(self) -> Iterator[Any]:
        for ledger in range(50, 50 + self.draw.choice((0, 0, 3, 30))):
            created = self.draw.randrange(NOW_MS)
            changed = self.draw.choice((None, self.draw.randrange(NOW_MS)))
            for look in self.draw.choice(((1, 2), (1, 2), (1,), (0,), (0, 1, 2))):
                times = (None, None) if self.draw.random() < 0.05 else (created, changed)
                yield (
                    ledger,
                    look,
                    look * 1_000 + ledger,
                    *times,
                    self.draw.choice((False, False, False, True, None)),
                    "",
                    None,
                )
        if self.draw.random() < 0.1:
            yield None, 0, 5, None, None, None, "some marks may not be read", None

    def _renames(self, metadata: dict[int, LedgerMetadata]) -> Iterator[Any]:
        closed = [
            (ledger, one) for ledger, one in metadata.items() if one.state is LedgerState.CLOSED
        ]
        for ledger, one in closed[:3]:
            ensemble = one.segments[0].ensemble
            gone = [name for name in ensemble if self.modes[name] == GONE]
            for name in ("new", *sorted({*NAMES} - {*ensemble})) if gone else ():
                held = [
                    entry
                    for entry in range(ENTRIES)
                    if self.draw.random() < (0.97 if name == "new" else 0.5)
                ]
                can_list = self.draw.random() < 0.8
                status = AnswerStatus.HELD if can_list else AnswerStatus.UNSUPPORTED
                groups = (
                    canonical([SequenceGroup(entry, entry, 1, 0) for entry in held])
                    if can_list
                    else b""
                )
                yield gone, name, ledger, None, 0, status.value, groups, "", 1, 0, 9
                for entry in range(ENTRIES):
                    if not can_list or entry not in held:
                        read = (
                            ReadStatus.PRESENT if self.draw.random() < 0.9 else ReadStatus.NO_ENTRY
                        )
                        yield gone, name, ledger, entry, 0, read.value, None, "", 1, 0, 9

    def _listings(self, about: About) -> dict[str, Any]:
        if about.previous_population is None:
            return {}
        gone = sorted(self.draw.sample(range(self.count + 1, 100), self.draw.choice((0, 3, 12))))
        first = [(1, 60_000, gone)]
        if self.draw.random() < 0.3:
            return {"listings": (LISTINGS, first)}
        again = self.draw.choice((self.count, self.count, 60))
        ids = [(ledger,) for ledger in range(1, again + 1)]
        gone = [ledger for ledger in gone if ledger > again][:10]
        return {
            "listings": (LISTINGS, [*first, (2, 90_000, gone)]),
            "listing_again": (LISTING, ids),
        }
