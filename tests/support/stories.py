"""Stories of one ledger: what was promised, what the bookies really hold, what they say of it, and
what changes.

A `Story` has the truth: lists and reads are answered from it. `drive` can therefore take the whole
loop of questions, confirming reads and second looks through a cluster that exists only in memory.
`tell` makes a story from a seed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from support.entry_by_entry import (
    ABSENT,
    ANSWER_REASON,
    HELD,
    UNKNOWN,
    Judged,
    entries_of,
    expected_on,
    heard,
    judged,
    write_set,
)
from support.entry_by_probe import probes_due

from auditor.first_checker.beyond_end import END_READS_MAX
from auditor.judging.settle import Step, Todo, settle
from auditor.model.availability import (
    ABSENT_READS,
    HIGHEST_STORED,
    NO_COOKIE,
    Answer,
    AnswerStatus,
    EntryRead,
    ReadStatus,
    SequenceGroup,
)
from auditor.model.evidence import LedgerEvidence, Look, Sweep, Terms
from auditor.model.facts import CorruptFacts, EntryFacts, UnavailableFacts
from auditor.model.finding import Family, Finding, Kind
from auditor.model.identity import ENTRY_ID_MAX
from auditor.model.ledger import (
    LedgerMetadata,
    LedgerRecord,
    LedgerState,
    Malformed,
    Mark,
    RecordStatus,
    Segment,
    ZnodeStamp,
)
from auditor.wire.entry_availability import canonical

LEDGER = 7
NOW_MS = 1_800_000_000_000
GRACE_MS = 3_600_000
STEPS_MAX = 400
"""Steps after which a story counts as endless."""
MISHAPS_MAX = 3
PROBED_WHOLE = 100
"""Probes for each bookie in stories without sampling: no story has as many entries."""


@dataclass(frozen=True)
class Bookie:
    """The truth about one bookie, for the entries from the story's base on. It holds and lists
    everything below.
    """

    holds: frozenset[int] = frozenset()
    unlisted: frozenset[int] = frozenset()
    """Readable entries that its list leaves out."""
    corrupt: frozenset[int] = frozenset()
    """Entries that it holds, and returns with a digest that does not match."""
    phantom: frozenset[int] = frozenset()
    """Entries that its list names and that it does not have when they are read."""
    failing: frozenset[int] = frozenset()
    """Entries that its list names and whose read ends in EIO."""
    denies_with: ReadStatus = ReadStatus.NO_ENTRY
    """What a read of a phantom is answered."""
    knows_ledger: bool = True
    answer: AnswerStatus | None = None
    """The outcome of asking for the list, if that is no true answer."""
    read: ReadStatus | None = None
    """The outcome of each read, if that is no true answer."""

    @property
    def cannot_list(self) -> bool:
        """Whether it cannot list and is probed instead, if the terms say so."""
        return self.answer is AnswerStatus.UNSUPPORTED

    is_forgotten: bool = False
    """Whether it has no registration and no cookie."""
    groups: bytes | None = None
    """Its list, if it holds too much for a set of entries."""


@dataclass(frozen=True)
class State:
    """The cluster at one look, as far as it concerns the ledger. Equal `version` means equal
    metadata.
    """

    metadata: LedgerMetadata | None
    bookies: Mapping[str, Bookie] = field(default_factory=dict)
    status: RecordStatus = RecordStatus.FOUND
    version: int = 0
    mark: Mark | None = None
    ctime_ms: int = 0
    mtime_ms: int = 0

    def record(self, look: int) -> LedgerRecord:
        """Return what ZooKeeper says at this look."""
        readable = self.status in (RecordStatus.FOUND, RecordStatus.MALFORMED)
        return LedgerRecord(
            ledger_id=LEDGER,
            look=look,
            read_at_ms=NOW_MS + look,
            status=self.status,
            stamp=ZnodeStamp(1, self.version, self.ctime_ms, self.mtime_ms) if readable else None,
            metadata=self.metadata if self.status is RecordStatus.FOUND else None,
            malformed=(
                Malformed("nonsense", 3, 9, "0" * 64)
                if self.status is RecordStatus.MALFORMED
                else None
            ),
            mark=None if self.status is RecordStatus.GONE else self.mark,
        )


@dataclass(frozen=True)
class Story:
    """`states[n]` is the state at look n; later looks see the last one. Entries below `base` are
    sound and not enumerated.
    """

    name: str
    states: tuple[State, ...]
    base: int = 0
    reads_max: int = 16
    looks_max: int = 5
    more_terms: Mapping[str, Any] = field(default_factory=dict)
    """Terms, by name, that are off unless a story is about them."""
    spots: int = 0
    """Entries of each bookie that lists which are read at the first look before judging."""

    @property
    def terms(self) -> Terms:
        return Terms(NOW_MS, GRACE_MS, self.reads_max, self.looks_max, **self.more_terms)

    def at(self, look: int) -> State:
        return self.states[min(look, len(self.states) - 1)]

    def reads_allowed(self, look: int, bookie: str) -> int:
        """Return the maximum number of entries read on one bookie at one look: confirming reads,
        reads above the end, and the probes of one that cannot list.
        """
        state, reads_max = self.at(look), self.reads_max + END_READS_MAX + 1
        if (
            state.metadata is None
            or not self.terms.probe_entries
            or not state.bookies.get(bookie, Bookie()).cannot_list
        ):
            return reads_max
        wanted = expected_on(state.metadata, self.base)[bookie]
        return reads_max + len(probes_due(state.metadata, bookie, wanted, LEDGER, self.terms))

    @property
    def is_sampled(self) -> bool:
        """Whether some bookie is probed for less than all it should hold. Then not every loss can
        be found.
        """
        for state in self.states:
            wants = expected_on(state.metadata, self.base) if state.metadata else {}
            probed = [
                name
                for name, bookie in state.bookies.items()
                if bookie.cannot_list and self.terms.probe_entries
            ]
            if any(len(wants.get(name, ())) > self.terms.probe_entries for name in probed):
                return True
        return False

    @property
    def is_constant(self) -> bool:
        """Whether nothing changes between the looks."""
        return len(self.states) == 1

    @property
    def is_honest(self) -> bool:
        """Whether no list omits more than the known tail defect, and every read is answered
        truly.
        """
        for state in self.states:
            wants = expected_on(state.metadata, self.base) if state.metadata else {}
            for name, bookie in state.bookies.items():
                tail = max(wants.get(name, ()), default=-1)
                if bookie.holds and not bookie.knows_ledger:
                    return False
                if (
                    bookie.read is not None
                    or bookie.corrupt
                    or bookie.phantom
                    or bookie.failing
                    or bookie.unlisted - ({tail} if tail % 1024 == 0 else set())
                ):
                    return False
        return True


def groups(entries: Iterable[int], whole: Iterable[SequenceGroup] = ()) -> bytes:
    """Return the canonical list of single entries, and of groups that do not affect their order."""
    return canonical([*whole, *(SequenceGroup(e, e, 1, 0) for e in entries)])


def quiet_groups(metadata: LedgerMetadata, bookie: str, base: int) -> list[SequenceGroup]:
    """Return what a bookie should hold of a first segment that ends at `base`: the ends one by one,
    the middle as one stripe.
    """
    segment, e, w = metadata.segments[0], metadata.ensemble_size, metadata.write_quorum
    found = []
    for position in (k for k, name in enumerate(segment.ensemble) if name == bookie):
        first, stop = segment.first_entry_id, base
        if first >= stop:
            continue
        if w == e:
            found += (
                [
                    SequenceGroup(a, a, min(2**31 - 1, stop - a), 0)
                    for a in range(first, stop, 2**31 - 1)
                ]
                if stop < 2**40
                else []
            )
            if stop >= 2**40:
                pieces = (stop - first) // (2**31 - 1)
                found.append(
                    SequenceGroup(first, first + (pieces - 1) * (2**31 - 1), 2**31 - 1, 2**31 - 1)
                )
                found.append(SequenceGroup(at := first + pieces * (2**31 - 1), at, stop - at, 0))
            continue
        mine = [x for x in range(first, min(first + 3 * e, stop)) if (position - x) % e < w]
        begin = next((x for x in mine if (position - x) % e == w - 1 and x >= first + e), stop)
        count = max(0, (stop - begin) // e - 2)
        found += [SequenceGroup(x, x, 1, 0) for x in mine if x < begin]
        if count:
            found.append(SequenceGroup(begin, begin + (count - 1) * e, w, e if count > 1 else 0))
        found += [
            SequenceGroup(x, x, 1, 0)
            for x in range(begin + count * e, stop)
            if (position - x) % e < w
        ]
    return [group for group in found if group.size > 0]


def list_answer(story: Story, state: State, bookie: str, look: int) -> Answer:
    """Return the bookie's answer to a request for its list."""
    truth = state.bookies.get(bookie, Bookie())
    status = truth.answer or (
        AnswerStatus.HELD if truth.knows_ledger else AnswerStatus.NO_SUCH_LEDGER
    )
    said = b""
    if status is AnswerStatus.HELD:
        assert state.metadata is not None
        whole = quiet_groups(state.metadata, bookie, story.base) if story.base else []
        listed = (truth.holds | truth.phantom | truth.failing) - truth.unlisted
        said = groups(listed, whole) if truth.groups is None else truth.groups
    why = NO_COOKIE if truth.is_forgotten else ""
    return Answer(bookie, LEDGER, look, NOW_MS, status, said, why, requests=1)


def read_answer(state: State, bookie: str, entry: int, look: int) -> EntryRead:
    """Return the bookie's answer to a request for one entry, or for the highest one.

    The headers of entries above the end have digests that hold, and name the entry before.
    """
    truth = state.bookies.get(bookie, Bookie())
    status = ReadStatus.NO_ENTRY if truth.knows_ledger else ReadStatus.NO_LEDGER
    sent = max(truth.holds, default=-1) if entry == HIGHEST_STORED else entry
    if sent in truth.holds:
        status = ReadStatus.CORRUPT if sent in truth.corrupt else ReadStatus.PRESENT
    elif entry in truth.failing:
        status = ReadStatus.FAILED
    elif entry in truth.phantom:
        status = truth.denies_with
    status = truth.read or status
    end = None if state.metadata is None else state.metadata.last_entry_id
    is_proven = status is ReadStatus.PRESENT and end is not None and sent > end
    return EntryRead(
        bookie,
        LEDGER,
        entry,
        look,
        NOW_MS,
        status,
        requests=1,
        stored_entry_id=sent if entry == HIGHEST_STORED and sent in truth.holds else None,
        last_confirmed=sent - 1 if is_proven else None,
        length_bytes=8 * (sent + 1) if is_proven else None,
    )


@dataclass(frozen=True)
class Driven:
    """A story taken to its end: every step with its evidence; the last one is final."""

    story: Story
    steps: tuple[tuple[LedgerEvidence, Step], ...]

    @property
    def evidence(self) -> LedgerEvidence:
        return self.steps[-1][0]

    @property
    def step(self) -> Step:
        return self.steps[-1][1]


def drive(story: Story) -> Driven:
    """Ask, read and look again as `settle` demands, until nothing is left to do.

    Raises AssertionError if it never ends, asks for what was asked already, or reads more than
    allowed.
    """
    terms = story.terms
    looks = [Look(story.at(0).record(0))]
    steps: list[tuple[LedgerEvidence, Step]] = []
    for _ in range(STEPS_MAX):
        evidence = LedgerEvidence(LEDGER, tuple(looks))
        step = settle(evidence, terms)
        steps.append((evidence, step))
        if step.todo is Todo.NOTHING:
            return Driven(story, tuple(steps))
        newest, state = looks[-1], story.at(len(looks) - 1)
        if step.todo is Todo.LOOK:
            looks.append(Look(story.at(len(looks)).record(len(looks))))
        elif step.todo is Todo.LISTS:
            assert step.questions and not newest.answers, (
                f"{story.name}: nothing to ask, or asked again"
            )
            said = {
                q.bookie_id: list_answer(story, state, q.bookie_id, newest.record.look)
                for q in step.questions
            }
            assert len(said) == len(step.questions), f"{story.name}: a bookie is asked twice"
            spots = _spot_reads(story, state, said) if len(looks) == 1 else {}
            looks[-1] = replace(newest, answers=said, reads=spots)
        else:
            assert step.reads and not set(step.reads) & set(newest.reads), (
                f"{story.name}: nothing to read, or read again"
            )
            look = len(looks) - 1
            reads = {
                **newest.reads,
                **{(b, e): read_answer(state, b, e, newest.record.look) for b, e in step.reads},
            }
            made = Counter(bookie for (bookie, _), read in reads.items() if not read.is_spot)
            assert all(
                count <= story.reads_allowed(look, bookie) for bookie, count in made.items()
            ), f"{story.name}: reads"
            looks[-1] = replace(newest, reads=reads)
    raise AssertionError(f"{story.name}: not settled after {STEPS_MAX} steps")


def _spot_reads(
    story: Story, state: State, said: Mapping[str, Answer]
) -> dict[tuple[str, int], EntryRead]:
    """Return the reads that test the lists of the first look."""
    if not story.spots or state.metadata is None:
        return {}
    draw = random.Random(f"spots {story.name}")
    wants = expected_on(state.metadata, story.base)
    chosen = [
        (bookie, entry)
        for bookie, answer in said.items()
        if answer.status is AnswerStatus.HELD
        for entry in draw.sample(sorted(wants[bookie]), min(story.spots, len(wants[bookie])))
    ]
    return {
        (bookie, entry): replace(read_answer(state, bookie, entry, 0), is_spot=True)
        for bookie, entry in chosen
    }


# Verdicts from the truth


def judged_from_truth(driven: Driven) -> Judged:
    """Return the verdict on the last state of an honest story, from the bookies' disks.

    A bookie that is probed for all it should hold counts like one that lists.
    """
    story, evidence = driven.story, driven.evidence
    state = story.at(len(evidence.looks) - 1)
    metadata = state.metadata
    assert metadata is not None

    read = {copy for look in evidence.looks for copy in look.reads}

    def say(bookie: str, entry: int) -> str:
        truth = state.bookies[bookie]
        if truth.is_forgotten:
            return ABSENT
        is_read = truth.answer is AnswerStatus.FAILED and (bookie, entry) in read
        if truth.answer is not None and not is_probed(bookie) and not is_read:
            return UNKNOWN
        return HELD if entry in truth.holds else ABSENT

    def is_probed(bookie: str) -> bool:
        return story.terms.probe_entries > 0 and state.bookies[bookie].cannot_list

    def reasons(bookie: str) -> set[str]:
        status = state.bookies[bookie].answer
        if state.mark is not None and status is AnswerStatus.UNREGISTERED:
            return set()
        return {ANSWER_REASON[status.value]} if status and not is_probed(bookie) else set()

    wants = expected_on(metadata, story.base)
    left_out = sum(
        len(b.unlisted & wants.get(n, set()))
        for n, b in state.bookies.items()
        if b.knows_ledger and not b.answer
    )
    asked = any(look.answers for look in evidence.looks)
    said = heard(evidence, story.terms)  # what lies above the end is known from what was said alone
    record = evidence.looks[-1].record

    def served(bookie: str, entry: int) -> bool:
        return state.bookies[bookie].answer is not AnswerStatus.UNREGISTERED

    return judged(
        record,
        say,
        reasons,
        left_out,
        story.terms,
        story.base,
        asked=asked,
        said=said,
        served=served,
    )


def falsely_accused(driven: Driven) -> list[str]:
    """Return the entries that are reported missing on bookies that have them."""
    last = len(driven.evidence.looks) - 1
    held = {
        name: bookie.holds
        for name, bookie in driven.story.at(last).bookies.items()
        if not bookie.is_forgotten
    }
    lacking = (
        (name, ranges)
        for finding in driven.step.verdict.findings
        for name, ranges in finding.missing_on
    )
    return [
        f"{name} has {entry}"
        for name, ranges in lacking
        for entry in sorted(held.get(name, ()))
        if any(first <= entry <= end for first, end in ranges)
    ]


def unconfirmed(driven: Driven) -> list[str]:
    """Return the bookies on which the worst entry counts as absent although no read of it was tried
    there.
    """
    found = [
        f
        for f in driven.step.verdict.findings
        if f.family is Family.ENTRY and f.kind is not Kind.LEDGER_CLOSED_SHORT
    ]  # a marked ledger may count bookies as gone
    metadata = driven.evidence.looks[-1].record.metadata
    if not found or metadata is None:
        return []
    worst = _worst_entry(found[0])
    gone_on = [
        bookie
        for bookie, ranges in found[0].missing_on
        if any(first <= worst <= last for first, last in ranges)
    ]
    state = driven.story.at(len(driven.evidence.looks) - 1)
    gone_on = [
        bookie for bookie in gone_on if not state.bookies[bookie].is_forgotten
    ]  # it cannot be read at all
    reads = {
        (b, e)
        for look in driven.evidence.looks
        for (b, e), read in look.reads.items()
        if read.status in ABSENT_READS
    }
    return [f"{bookie} entry {worst}" for bookie in gone_on if (bookie, worst) not in reads]


def _worst_entry(finding: Finding) -> int:
    facts = finding.facts
    assert isinstance(facts, EntryFacts | UnavailableFacts | CorruptFacts), finding
    return facts.worst_entry


def unprobed(driven: Driven) -> list[str]:
    """Return the bookies of the worst entry's write set that cannot list and were never asked for
    it.
    """
    story, found = (
        driven.story,
        [
            f
            for f in driven.step.verdict.findings
            if f.family is Family.ENTRY and f.kind is not Kind.LEDGER_CLOSED_SHORT
        ],
    )
    said = heard(driven.evidence, story.terms)
    if not found or said.record.metadata is None or not story.terms.probe_entries:
        return []
    worst = _worst_entry(found[0])
    segment = next(
        segment for entry, segment in entries_of(said.record.metadata, story.base) if entry == worst
    )
    statuses = {
        b: said.answers[b].status
        for b in write_set(said.record.metadata, segment, worst)
        if b in said.answers
    }
    mute = [bookie for bookie, status in statuses.items() if status is AnswerStatus.UNSUPPORTED]
    return [f"{bookie} entry {worst}" for bookie in mute if (bookie, worst) not in said.reads]


# Stories from a seed


def tell(seed: int) -> Story:
    """Return the story of this seed: a ledger, up to three mishaps, and sometimes a change between
    the looks.
    """
    draw = random.Random(seed)
    metadata, base = _metadata(draw)
    wants = expected_on(metadata, base)
    bookies = {name: Bookie(frozenset(entries)) for name, entries in wants.items()}
    for _ in range(draw.choice((0, 1, 1, 1, 2, 2, MISHAPS_MAX))):
        draw.choice(MISHAPS)(draw, metadata, base, bookies)
    first = State(metadata, bookies)
    if draw.random() < 0.12:
        first = replace(first, mark=_mark(draw))
    states = [first, *_changes(draw, first, base)]
    reads_max, looks_max = draw.choice((2, 3, 5, 16)), draw.choice((2, 3, 5))
    probing = {
        "probe_entries": draw.choice((0, 1, 1, 3, PROBED_WHOLE)),
        "probe_seed": seed,
        "sweep": some_sweep(seed),
    }
    return Story(f"seed {seed}", tuple(states), base, reads_max, looks_max, probing)


def some_sweep(seed: int) -> Sweep:
    """Return a sweep of this seed, independent of the story; half of all runs have none."""
    draw = random.Random(f"sweep {seed}")
    step = draw.choice((0, 0, 0, 0, 1, 2, 4, 64))
    return Sweep(seed, draw.randrange(100), 10_000, step)


def tails_in_a_crowd() -> Story:
    """Return a story in which the order of the reads decides the verdict.

    Every segment lost entries on all bookies, no list has the last entry, which begins an index
    page, and each bookie allows two reads. No seed is likely to draw it.
    """
    ensembles = (("b1", "b2", "b3"), ("b1", "b2", "b4"))
    segments = tuple(Segment(100 * n, ensembles[n % 2]) for n in range(11))
    metadata = LedgerMetadata(3, LedgerState.CLOSED, 3, 3, 2, 1024, 8, segments)
    lost = {100 * n + 5 for n in range(11)}
    wants = expected_on(metadata)
    bookies = {
        name: Bookie(frozenset(held - lost), frozenset({1024} & held))
        for name, held in wants.items()
    }
    return Story("tails in a crowd", (State(metadata, bookies),), reads_max=2)


def stories(count: int, first_seed: int = 0) -> Iterator[Story]:
    """Return a seeded strategy of stories."""
    return (tell(seed) for seed in range(first_seed, first_seed + count))


def with_lying_lists(story: Story) -> Story:
    """Return the same story, in which lists are tested by reads, and some bookies list entries that
    they deny or cannot send: drawn anew for each look.
    """
    draw = random.Random(f"lies {story.name}")
    states = []
    for state in story.states:
        bookies = dict(state.bookies)
        for name, one in bookies.items():
            if draw.random() < 0.5 or not one.holds or one.answer is not None:
                continue
            count = draw.choice((draw.randrange(1, len(one.holds) + 1), len(one.holds)))
            some = frozenset(draw.sample(sorted(one.holds), count))
            failing = some if draw.random() < 0.3 else frozenset()
            bookies[name] = replace(
                one,
                holds=one.holds - some,
                failing=failing,
                phantom=some - failing,
                denies_with=(ReadStatus.NO_LEDGER if some == one.holds else ReadStatus.NO_ENTRY),
            )
        states.append(replace(state, bookies=bookies))
    return replace(story, states=tuple(states), spots=draw.choice((1, 3, 1_000)))


def with_doubts(story: Story) -> Story:
    """Return the same story, in which some bookies omit an entry from the list, have it with a
    wrong digest, or cannot be read: drawn anew for each look.
    """
    draw = random.Random(story.name)
    states = [story.at(look) for look in range(max(3, len(story.states)))]
    doubted = {
        name: draw.choice(sorted(b.holds))
        for name, b in states[0].bookies.items()
        if b.holds and draw.random() < 0.4
    }
    changed = []
    for state in states:
        bookies = dict(state.bookies)
        for name in sorted(doubted.keys() & bookies.keys()):
            entry = frozenset({doubted[name]}) & bookies[name].holds
            bookies[name] = replace(
                bookies[name],
                unlisted=entry if draw.random() < 0.6 else frozenset(),
                corrupt=entry if draw.random() < 0.7 else frozenset(),
                read=ReadStatus.TIMED_OUT if draw.random() < 0.3 else None,
            )
        changed.append(replace(state, bookies=bookies))
    return replace(story, states=tuple(changed))


def _metadata(draw: random.Random) -> tuple[LedgerMetadata, int]:
    size = draw.randint(1, 6)
    write = draw.choice((size, max(1, size - 1), draw.randint(1, size)))
    ack = draw.randint(1, write)
    length = draw.choice((1, draw.randint(1, size), draw.randint(2, 12), draw.randint(10, 60)))
    base = draw.choice(
        (
            0,
            0,
            0,
            2**31 - 7,
            2**53 - 9,
            *[1024 * draw.randint(1, 3) + 1 - length] * 2,
            ENTRY_ID_MAX - length + 1,
        )
    )
    base = max(0, base)
    last = base + length - 1
    pool = [f"b{n}" for n in range(1, size + 4)]
    ensemble = draw.sample(pool, size)
    if draw.random() < 0.08 and size > 1:
        ensemble[draw.randrange(size)] = ensemble[draw.randrange(size)]
    segments = [Segment(0, tuple(f"q{n}" for n in range(size)))] if base else []
    segments.append(Segment(base, tuple(ensemble)))
    # last + 1 is where an empty last segment begins
    for at in sorted(
        set(
            draw.choices(
                range(base + 1, min(last + 2, ENTRY_ID_MAX + 1)) or [base],
                k=draw.choice((0, 1, 2, 4, 15)),
            )
        )
    ):
        if at == base:
            continue
        for _ in range(draw.choice((1, 1, 2))):
            fresh = [name for name in pool if name not in ensemble]
            ensemble[draw.randrange(size)] = draw.choice(fresh)
        if draw.random() < 0.2:
            draw.shuffle(ensemble)
        segments.append(Segment(at, tuple(ensemble)))
    known = None if base == 0 and draw.random() < 0.06 else last
    if base and draw.random() < 0.1:
        segments = segments[1:]  # unknown where the first segment begins
    state = (
        draw.choice((LedgerState.OPEN, LedgerState.IN_RECOVERY))
        if draw.random() < 0.03
        else LedgerState.CLOSED
    )
    if draw.random() < 0.02:
        segments, base, known = [Segment(0, segments[-1].ensemble)], 0, -1
    length = 0 if known == -1 else 8
    return LedgerMetadata(3, state, size, write, ack, known, length, tuple(segments)), base


def _mark(draw: random.Random) -> Mark:
    """Draw a mark within grace, at its edge, just beyond it, or beyond it only by the older of its
    two times.
    """
    age = draw.choice((0, GRACE_MS, GRACE_MS + 1, 50 * GRACE_MS))
    return Mark(NOW_MS - age, draw.choice((None, NOW_MS, NOW_MS - GRACE_MS - 1)))


def _changes(draw: random.Random, first: State, base: int) -> list[State]:
    """Draw what the later looks find."""
    if draw.random() < 0.6:
        return []
    kind = draw.choice(
        (
            *(
                "mark",
                "gone",
                "heal",
                "worse",
                "version",
                "versions",
                "unreadable",
                "malformed",
                "back",
            ),
            *("new ensemble", "mute", "unlisted", "wiped"),
        )
    )
    wants = expected_on(first.metadata, base) if first.metadata else {}
    sound = {name: Bookie(frozenset(entries)) for name, entries in wants.items()}
    healed = replace(first, bookies={**sound}, version=first.version + draw.randint(0, 1))
    worse = dict(first.bookies)
    if worse:
        name = _someone(draw, worse)
        worse[name] = draw.choice(
            (Bookie(knows_ledger=False), replace(worse[name], answer=AnswerStatus.SILENT))
        )
    name = _someone(draw, dict(first.bookies)) if first.bookies else ""
    unlisted = (
        {
            **first.bookies,
            name: replace(first.bookies[name], answer=AnswerStatus.UNSUPPORTED, is_forgotten=False),
        }
        if name
        else {}
    )
    wiped = {
        n: replace(b, holds=frozenset(), knows_ledger=False) if b.cannot_list else b
        for n, b in first.bookies.items()
    }
    later = {
        "unlisted": [replace(first, bookies=unlisted)],
        "wiped": [replace(first, bookies=wiped)],
        "mark": [replace(first, mark=_mark(draw))],
        "gone": [replace(first, status=RecordStatus.GONE)],
        "heal": [healed],
        "worse": [replace(first, bookies=worse)],
        "version": [replace(first, version=1)],
        "versions": [replace(first, version=n) for n in range(1, draw.randint(2, 12))],
        "unreadable": [
            replace(
                first, status=draw.choice((RecordStatus.UNREADABLE, RecordStatus.NOT_AUTHORISED))
            )
        ],
        "malformed": [replace(first, status=RecordStatus.MALFORMED, version=9)],
        "back": [replace(first, status=RecordStatus.GONE), first],
        "new ensemble": [_rewritten(draw, first, base)],
        "mute": [
            replace(
                first,
                bookies={
                    name: replace(b, read=ReadStatus.TIMED_OUT) for name, b in first.bookies.items()
                },
            )
        ],
    }[kind]
    return [first, *later] if draw.random() < 0.2 else later


def _rewritten(draw: random.Random, first: State, base: int) -> State:
    """Replace a bookie in every segment by a new one that holds what it should."""
    metadata = first.metadata
    assert metadata is not None
    old = draw.choice(
        sorted(
            {
                name
                for segment in metadata.segments
                for name in segment.ensemble
                if name.startswith("b")
            }
        )
    )
    segments = tuple(
        replace(
            segment, ensemble=tuple("new" if name == old else name for name in segment.ensemble)
        )
        for segment in metadata.segments
    )
    after = replace(metadata, segments=segments)
    bookies = {**first.bookies, "new": Bookie(frozenset(expected_on(after, base)["new"]))}
    return replace(first, metadata=after, bookies=bookies, version=first.version + 1)


# Mishaps: each changes what some bookies hold or say


def _someone(draw: random.Random, bookies: dict[str, Bookie]) -> str:
    return draw.choice(sorted(name for name in bookies if name.startswith("b")))


def _drop(bookies: dict[str, Bookie], name: str, entries: Iterable[int]) -> None:
    gone = frozenset(entries)
    bookies[name] = replace(
        bookies[name], holds=bookies[name].holds - gone, unlisted=bookies[name].unlisted - gone
    )


def _loses_an_entry(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Lose one entry on some or all of its write set."""
    wants = expected_on(metadata, base)
    if entries := sorted(set().union(*wants.values())):
        entry = draw.choice((entries[0], entries[-1], draw.choice(entries)))
        holders = [name for name in bookies if entry in wants.get(name, ())]
        for name in draw.sample(holders, draw.randint(1, len(holders))):
            _drop(bookies, name, [entry])


def _loses_a_run(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Lose a range of entries on one or two bookies."""
    for _ in range(draw.choice((1, 1, 2))):
        name = _someone(draw, bookies)
        if holds := sorted(bookies[name].holds):
            at = draw.randrange(len(holds))
            _drop(bookies, name, holds[at : at + draw.randint(2, 30)])


def _loses_here_and_there(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Lose entries all over the ledger, on several bookies."""
    for name in sorted({_someone(draw, bookies) for _ in range(draw.randint(1, 4))}):
        _drop(bookies, name, [e for e in sorted(bookies[name].holds) if draw.random() < 0.3])


def _each_run_lacks_its_last(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    name = _someone(draw, bookies)
    holds = bookies[name].holds
    _drop(bookies, name, [e for e in holds if e + 1 not in holds])


def _another_position(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Give a bookie the stripe of the next position: the right number of entries, with wrong
    ids.
    """
    name, shift = _someone(draw, bookies), draw.choice((-1, 1))
    moved = frozenset(e + shift for e in bookies[name].holds if base <= e + shift <= ENTRY_ID_MAX)
    bookies[name] = replace(bookies[name], holds=moved, unlisted=frozenset())


def _relative_ids(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Give a bookie what it would hold if striping started anew with its segment."""
    name = _someone(draw, bookies)
    size, write = metadata.ensemble_size, metadata.write_quorum
    wrong = set()
    for at, segment in enumerate(metadata.segments):
        ends = [
            *(s.first_entry_id for s in metadata.segments[1:]),
            max(bookies[name].holds, default=base - 1) + 1,
        ]
        for position in (k for k, one in enumerate(segment.ensemble) if one == name):
            whole = range(max(base, segment.first_entry_id), ends[at])
            wrong |= {e for e in whole if (position - (e - segment.first_entry_id)) % size < write}
    bookies[name] = replace(bookies[name], holds=frozenset(wrong), unlisted=frozenset())


def _loses_a_segment(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    name = _someone(draw, bookies)
    segment = draw.choice(metadata.segments)
    later = [
        s.first_entry_id for s in metadata.segments if s.first_entry_id > segment.first_entry_id
    ]
    end = min(later, default=ENTRY_ID_MAX + 1)
    _drop(bookies, name, [e for e in bookies[name].holds if segment.first_entry_id <= e < end])


def _swapped(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Swap the shares of two bookies."""
    one, other = _someone(draw, bookies), _someone(draw, bookies)
    bookies[one], bookies[other] = bookies[other], bookies[one]


def _wiped(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    for _ in range(draw.choice((1, 1, metadata.write_quorum))):
        bookies[_someone(draw, bookies)] = Bookie(knows_ledger=draw.random() < 0.3)


def _no_valid_answer(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    statuses = [
        status
        for status in AnswerStatus
        if status not in (AnswerStatus.HELD, AnswerStatus.NO_SUCH_LEDGER)
    ]
    for _ in range(draw.choice((1, 1, 2, metadata.ensemble_size))):
        name = _someone(draw, bookies)
        status = draw.choice((*statuses, AnswerStatus.UNREGISTERED))
        forgotten = status is AnswerStatus.UNREGISTERED and draw.random() < 0.5
        bookies[name] = replace(bookies[name], answer=status, is_forgotten=forgotten)


def _cannot_list(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Make one bookie, some, or all of them unable to list; some of these lost everything."""
    names = sorted(name for name in bookies if name.startswith("b"))
    for name in draw.sample(names, draw.choice((1, len(names), draw.randint(1, len(names))))):
        mute = Bookie(knows_ledger=False) if draw.random() < 0.2 else bookies[name]
        bookies[name] = replace(mute, answer=AnswerStatus.UNSUPPORTED, is_forgotten=False)


def _corrupt_copies(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Damage the digests of some copies. They are read where a list omits them, or where there is
    no list.
    """
    name = _someone(draw, bookies)
    if holds := sorted(bookies[name].holds):
        bad = frozenset((holds[0], *draw.sample(holds, draw.randint(1, len(holds)))))
        bookies[name] = replace(
            bookies[name], corrupt=bad, unlisted=bookies[name].unlisted | {draw.choice(sorted(bad))}
        )


def _holds_more(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Add entries of other bookies, and some that were never acknowledged."""
    name = _someone(draw, bookies)
    everything = set().union(*expected_on(metadata, base).values())
    beyond = {
        e
        for e in range(max(everything, default=base - 1) + 1, max(everything, default=base - 1) + 4)
        if e <= ENTRY_ID_MAX
    }
    extra = {e for e in everything if draw.random() < 0.5} | beyond
    bookies[name] = replace(bookies[name], holds=bookies[name].holds | extra)


def _tail_defect(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Omit from every list a last entry that begins an index page. It can still be read."""
    for name, wanted in expected_on(metadata, base).items():
        tail = max(wanted, default=-1)
        if tail % 1024 == 0 and name in bookies and tail in bookies[name].holds:
            bookies[name] = replace(bookies[name], unlisted=bookies[name].unlisted | {tail})


def _tail_defect_among_losses(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    _loses_here_and_there(draw, metadata, base, bookies)
    _tail_defect(draw, metadata, base, bookies)


def _unlisted_last_among_losses(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Imitate the tail defect at an entry that does not begin an index page: it is not that defect,
    and the list cannot be trusted.
    """
    _loses_here_and_there(draw, metadata, base, bookies)
    for name, wanted in expected_on(metadata, base).items():
        if wanted & bookies[name].holds:
            bookies[name] = replace(
                bookies[name], unlisted=frozenset({max(wanted & bookies[name].holds)})
            )


def _lying_list(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Omit readable entries from a list."""
    name = _someone(draw, bookies)
    if holds := sorted(bookies[name].holds):
        left_out = frozenset(draw.sample(holds, draw.randint(1, len(holds))))
        bookies[name] = replace(bookies[name], unlisted=bookies[name].unlisted | left_out)


def _failing_reads(
    draw: random.Random, metadata: LedgerMetadata, base: int, bookies: dict[str, Bookie]
) -> None:
    """Answer lists but no reads; something is missing, so that reads are wanted."""
    failures = [
        s
        for s in ReadStatus
        if s not in (ReadStatus.PRESENT, ReadStatus.NO_ENTRY, ReadStatus.NO_LEDGER)
    ]
    name = _someone(draw, bookies)
    if holds := sorted(bookies[name].holds):
        _drop(bookies, name, [draw.choice(holds)])
    bookies[name] = replace(bookies[name], read=draw.choice(failures))


MISHAPS = (
    _loses_an_entry,
    _loses_an_entry,
    _loses_a_run,
    _loses_here_and_there,
    _each_run_lacks_its_last,
    _another_position,
    _relative_ids,
    _loses_a_segment,
    _swapped,
    _wiped,
    _no_valid_answer,
    _cannot_list,
    _cannot_list,
    _corrupt_copies,
    _holds_more,
    _tail_defect,
    _tail_defect_among_losses,
    _tail_defect_among_losses,
    _unlisted_last_among_losses,
    _lying_list,
    _failing_reads,
)
