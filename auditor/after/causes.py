"""Find what many ledgers with findings have in common: a bookie, a rack, stopped recovery, a time.

A bookie in a known state (gone, silent, without its content) causes what is lacking on it. Any
other bookie, a rack that crowds ensembles, and a creation period are causes if they are hit far
more often than the rest: evenly spread loss has no cause (docs/decisions/0052). A cause
explains findings of one family. Memory holds the ids of the ledgers that are hit.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import comb, exp, lgamma, log

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.evidence.ids import Ids, are_among, distinct_numbers, newest_rows
from auditor.evidence.rows import rows_of
from auditor.evidence.run_directory import Place
from auditor.evidence.schemas import LEDGERS
from auditor.evidence.table_scan import TableScan
from auditor.findings.bookies import IS_MARKED, nobody_answered
from auditor.findings.lost_content import Heard, by_word, lacking_by_bookie, unjudged_by_reason
from auditor.findings.renaming import Renamed
from auditor.model.availability import NOT_DIALLED, Greeting
from auditor.model.cluster import BookieLook, BookieRecord, ClusterFacts
from auditor.model.finding import (
    BESIDE_VERDICTS,
    CATALOGUE,
    CAUSE_LEDGERS_MIN,
    Family,
    Kind,
    Severity,
    Subject,
)
from auditor.model.finding_record import FindingRecord
from auditor.model.identity import BookieId
from auditor.model.summary import CauseRecord, MoreCauses
from auditor.summary.about import About
from auditor.witness.phrases import moment, percent

CAUSES_MAX = 10
"""At most this many causes are shown and get a file: a screenful. The rest is counted."""
CONTRAST_MIN = 3
"""Minimum ratio of a candidate's share of hits to the share of the rest."""
CHANCE_MAX = 0.001
"""Maximum probability of one false cause in a run."""
PERIOD_SHARE_MIN = 0.75
"""Minimum share of a period's ledgers that are hit. Neighbours in time often belong to one client
or topic, and are hit for another reason."""
PERIOD_EDGES_MAX = 512
"""A period may begin or end at most at this many creation times: 131,328 periods."""
SLUG_CHARS_MAX = 60
"""At most this many characters of a subject are in a file name."""
MEMBERS_NAMED_MAX = 5
"""A rack's sentence names at most this many bookies. The rest is counted."""
UNJUDGED = "unjudged"
"""The family of ledgers that were not judged because a bookie was silent. They have no finding."""

_FAMILIES = {
    kind.value: facts.family.value
    for kind, facts in CATALOGUE.items()
    if facts.subject is Subject.LEDGER
    and facts.severity > Severity.INFO
    and kind not in BESIDE_VERDICTS
}
"""Kinds whose ledgers may have a common cause, with their families."""
_NONE: Ids = np.empty(0, np.int64)


def _family_of(word: str) -> str:
    """Return the family of a kind of finding, or UNJUDGED for a reason to be unknown."""
    return _FAMILIES.get(word, UNJUDGED)


class CauseKind(StrEnum):
    """Kinds of causes. If two explain equally many ledgers, the earlier kind comes first."""

    RACK = "rack"
    BOOKIE = "bookie"
    AUTORECOVERY = "autorecovery"
    PERIOD = "period"


@dataclass(frozen=True, slots=True)
class Share:
    """How many ledgers of a set are hit, and how many there are. Shares can be added."""

    hit: int
    ledgers: int

    @property
    def ratio(self) -> float:
        return self.hit / self.ledgers if self.ledgers else 0.0

    def __add__(self, other: Share) -> Share:
        return Share(self.hit + other.hit, self.ledgers + other.ledgers)

    def exceeds(self, rest: Share) -> bool:
        """Return whether this share is at least CONTRAST_MIN times that of the rest."""
        return rest.ledgers > 0 and self.hit * rest.ledgers >= (
            CONTRAST_MIN * rest.hit * self.ledgers
        )

    def stands_out(self, rest: Share, candidates: int) -> bool:
        """Return whether this share exceeds the rest, and chance alone does not explain it.

        The probability of at least so many hits counts once for each candidate (Bonferroni).
        """
        return self.exceeds(rest) and chance_of(self, rest) * candidates <= CHANCE_MAX


@dataclass(frozen=True, slots=True)
class Cause:
    """A possible cause of `ledgers`, all of one family. `own`: those that no stronger cause
    explains.

    `touched`: the share of hits among the ledgers it touches; `others`: among those that it is
    compared with. `does` says what it does to its ledgers, without its shares.
    """

    kind: CauseKind
    subject: str
    family: str
    ledgers: Ids
    touched: Share
    others: Share
    does: str
    own: Ids = field(default_factory=lambda: _NONE)

    @property
    def says(self) -> str:
        """One sentence on the cause, with its shares."""
        above = len(self.ledgers) - len(self.own)
        belong = "belongs" if above == 1 else "belong"
        stronger = f" ({above:,} of them {belong} to a stronger cause)" if above else ""
        return f"{self.does} ({self._shares()}){stronger}"

    def _shares(self) -> str:
        mine, whole = percent(self.touched.ratio), self.touched.ledgers
        rest = percent(self.others.ratio)
        if self.kind is CauseKind.AUTORECOVERY:
            return f"{mine} of {_ledgers(whole).replace(' ', ' marked ')}"
        if self.kind is CauseKind.PERIOD:
            return f"{mine} of the {_ledgers(whole)} created then, {rest} of the rest"
        shares = f"{mine} of its {_ledgers(whole)}"
        return f"{shares}, {rest} on the rest" if self.others.ledgers else shares

    def record(self, number: int, hits: Hits, facts: ClusterFacts) -> CauseRecord:
        """Return the cause as an item of `causes` in the summary."""
        words = hits.of_family(self.family)
        kinds = {word: int(np.isin(ids, self.own).sum()) for word, ids in words.items()}
        by_number = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
        return CauseRecord(
            id=cause_id(self.kind, self.subject, self.family, facts),
            cause=self.kind.value,
            subject=self.subject,
            family=self.family,
            kinds={word: n for word, n in by_number if n},
            ledgers=len(self.own),
            share=_round(len(self.own) / len(hits.affected())),
            touched=self.touched.ledgers,
            touched_hit=self.touched.hit,
            share_touched=_round(self.touched.ratio),
            others=self.others.ledgers,
            others_hit=self.others.hit,
            share_others=_round(self.others.ratio) if self.others.ledgers else None,
            says=self.says,
            file=f"causes/{number:02d}-{self.kind.value}-{_slug(self.subject)}.txt",
        )


@dataclass(frozen=True, slots=True)
class Hits:
    """The ledgers that are hit. Arrays of ids are ascending.

    `by_kind`: the ledgers of each kind of finding, and of each reason why ledgers were not judged.
    `by_bookie`: for each family and bookie, the ledgers that are hit on the bookie. `crowds`: for
    each rack, the ledgers with a segment that fails placement and has two bookies of the rack.
    `marked`: how many ledgers have a mark.
    """

    by_kind: Mapping[str, Ids]
    by_bookie: Mapping[str, Mapping[BookieId, Ids]] = field(default_factory=dict)
    crowds: Mapping[str, Ids] = field(default_factory=dict)
    marked: int = 0

    def affected(self) -> Ids:
        return union(self.by_kind.values())

    def of_family(self, family: str) -> dict[str, Ids]:
        """Return the ledgers of each kind, or reason, of a family."""
        return {
            word: ids
            for word, ids in self.by_kind.items()
            if _FAMILIES.get(word, UNJUDGED) == family
        }

    def ids_of(self, family: str) -> Ids:
        return union(self.of_family(family).values())

    def families(self) -> list[str]:
        return sorted({_family_of(word) for word in self.by_kind})


@dataclass(frozen=True, slots=True)
class Touched:
    """How many ledgers name each bookie, and any bookie of each rack. `ledgers`: all of them.

    `named`: by bookie, the ledgers that are hit and name it.
    """

    ledgers: int = 0
    by_bookie: Mapping[BookieId, int] = field(default_factory=dict)
    by_rack: Mapping[str, int] = field(default_factory=dict)
    named: Mapping[BookieId, Ids] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Background:
    """What hits are compared with, and what is known of the bookies.

    `states`: what follows each bookie's name in a sentence. `known`: the bookies whose state is a
    reason by itself; `gone`: those that are not registered. `created_ids` and `created_ms` are
    parallel: when the ledgers that are hit were created. `count_created` takes ascending times, and
    returns how many of all ledgers were created before the first, from each to the next, and after
    the last.
    """

    touched: Touched
    racks: Mapping[BookieId, str] = field(default_factory=dict)
    states: Mapping[BookieId, str] = field(default_factory=dict)
    known: frozenset[BookieId] = frozenset()
    gone: frozenset[BookieId] = frozenset()
    created_ids: Ids = field(default_factory=lambda: _NONE)
    created_ms: Ids = field(default_factory=lambda: _NONE)
    count_created: Callable[[Ids], Ids] = lambda times: np.zeros(len(times) + 1, np.int64)
    is_recovery_disabled: bool = False

    def share_of_bookie(self, bookie: BookieId, hit: Ids) -> Share:
        """Return the share of the ledgers `hit` among those that name the bookie.

        A ledger that names it only at a later look counts too.
        """
        late = np.setdiff1d(hit, self.touched.named.get(bookie, _NONE))
        return Share(len(hit), self.touched.by_bookie.get(bookie, 0) + len(late))

    def share_of_rack(self, rack: str, bookies: Iterable[BookieId], hit: Ids) -> Share:
        """Return the share of the ledgers `hit` among those that name one of a rack's bookies."""
        named = union(self.touched.named.get(bookie, _NONE) for bookie in bookies)
        late = np.setdiff1d(hit, named)
        return Share(len(hit), self.touched.by_rack.get(rack, 0) + len(late))

    def times_of(self, ids: Ids) -> Ids:
        """Return the known creation times of these ledgers, ascending."""
        return np.sort(self.created_ms[np.isin(self.created_ids, ids)])

    def created_within(self, ids: Ids, first_ms: int, last_ms: int) -> Ids:
        """Return the given ledgers that were created in the period, both ends included."""
        inside = (self.created_ms >= first_ms) & (self.created_ms <= last_ms)
        return np.intersect1d(ids, self.created_ids[inside])


def choose(hits: Hits, around: Background) -> list[Cause]:
    """Return the causes, the one that explains most ledgers first.

    Costs a sort of the ledgers of each bookie and family, and a call of `count_created` a family.
    """
    chosen: list[Cause] = []
    for family in hits.families():
        ids = hits.ids_of(family)
        if len(ids) < CAUSE_LEDGERS_MIN:
            continue
        found = _unshared(
            ids, [*_on_bookies(hits, family, around), *_crowded(hits, family, around)]
        )
        chosen += found
        if family == Family.MARK and around.is_recovery_disabled:
            chosen.append(_stopped_recovery(ids, hits, around))
        elif family != UNJUDGED:
            left = np.setdiff1d(ids, union(cause.own for cause in found))
            chosen += _unshared(left, _periods(family, left, ids, around))
    order = list(CauseKind)
    return sorted(
        chosen, key=lambda cause: (-len(cause.own), order.index(cause.kind), cause.subject)
    )


def _unshared(ids: Ids, candidates: Iterable[Cause]) -> list[Cause]:
    """Return the causes that explain the ledgers `ids`, each with its own ledgers.

    Each time, the candidate that explains most of the remaining ledgers is taken. The number that a
    candidate explains only shrinks: it is counted again only at the candidate's turn.
    """
    order, left, chosen = list(CauseKind), ids, list[Cause]()
    waiting = [
        (-len(cause.ledgers), order.index(cause.kind), cause.subject, number, cause)
        for number, cause in enumerate(candidates)
    ]
    heapq.heapify(waiting)
    while waiting:
        believed, kind, subject, number, cause = heapq.heappop(waiting)
        own = np.intersect1d(cause.ledgers, left)
        if len(own) < CAUSE_LEDGERS_MIN:
            continue
        if len(own) < -believed:
            heapq.heappush(waiting, (-len(own), kind, subject, number, cause))
            continue
        left = np.setdiff1d(left, own)
        chosen.append(replace(cause, own=own))
    return chosen


def _on_bookies(hits: Hits, family: str, around: Background) -> Iterator[Cause]:
    """Yield the bookies that may be a cause, and the racks most of whose bookies may be.

    A bookie in a known state needs no comparison. Any other has to stand out from those that are in
    no known state and do not stand out themselves.
    """
    by_bookie = hits.by_bookie.get(family, {})
    shares = {
        bookie: around.share_of_bookie(bookie, by_bookie.get(bookie, _NONE))
        for bookie in sorted({*around.touched.by_bookie, *by_bookie})
    }
    plain = {bookie: share for bookie, share in shares.items() if bookie not in around.known}
    standing_out, rest = outliers(plain, len(shares) + len(around.touched.by_rack))
    found = {
        bookie: Cause(
            CauseKind.BOOKIE,
            bookie,
            family,
            ledgers,
            shares[bookie],
            rest,
            f"bookie {bookie}{around.states.get(bookie, ' answers')} and "
            + _does(family, ledgers, is_gone=bookie in around.gone),
        )
        for bookie, ledgers in sorted(by_bookie.items())
        if bookie in around.known or bookie in standing_out
    }
    yield from found.values()
    yield from _racks(found, shares, around)


def _racks(
    bookies: Mapping[BookieId, Cause], shares: Mapping[BookieId, Share], around: Background
) -> Iterator[Cause]:
    """Yield the racks of which at least two bookies, and more than half, may be a cause.

    The bookies of other racks must be hit far less.
    """
    members: dict[str, list[BookieId]] = defaultdict(list)
    for bookie in shares:
        if bookie in around.racks:
            members[around.racks[bookie]].append(bookie)
    for rack, here in members.items():
        hit = [bookie for bookie in here if bookie in bookies]
        if len(hit) < 2 or 2 * len(hit) <= len(here):
            continue
        ledgers = union(bookies[bookie].ledgers for bookie in hit)
        mine = around.share_of_rack(rack, here, ledgers)
        elsewhere = [share for bookie, share in shares.items() if bookie not in here]
        rest = sum(elsewhere, Share(0, 0))
        if mine.exceeds(rest):
            more = len(hit) - MEMBERS_NAMED_MAX
            named = ", ".join(hit[:MEMBERS_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
            family = bookies[hit[0]].family
            does = f"rack {rack}: its bookies {named} {_does(family, ledgers, are_several=True)}"
            yield Cause(CauseKind.RACK, rack, family, ledgers, mine, rest, does)


def _crowded(hits: Hits, family: str, around: Background) -> Iterator[Cause]:
    """Yield the racks that stand out by failing segments with two bookies of the rack."""
    members: dict[str, list[BookieId]] = defaultdict(list)
    for bookie, rack in around.racks.items():
        members[rack].append(bookie)
    shares = {
        rack: around.share_of_rack(rack, members[rack], hits.crowds.get(rack, _NONE))
        for rack in sorted(members)
    }
    standing_out, rest = outliers(shares, len(shares))
    for rack in standing_out:
        ledgers = hits.crowds[rack]
        does = (
            f"rack {rack} has two bookies or more in segments of {_ledgers(len(ledgers))} that fail"
            " placement"
        )
        yield Cause(CauseKind.RACK, rack, family, ledgers, shares[rack], rest, does)


def outliers(shares: Mapping[str, Share], candidates: int) -> tuple[list[str], Share]:
    """Return which shares stand out from the rest, the largest first, and the rest: all others.

    Shares are set aside from the largest down, and the last one that stands out from what is left
    counts (generalized ESD, Rosner 1983): otherwise two wiped bookies of three would hide each
    other. Those set aside that do not stand out go back to the rest.
    """
    order = sorted(
        (name for name in shares if shares[name].ledgers),
        key=lambda name: (-shares[name].ratio, name),
    )
    rests = [Share(0, 0)]
    for name in reversed(order):
        rests.append(rests[-1] + shares[name])
    rests.reverse()  # rests[n]: all except the first n
    steps = enumerate(order, start=1)
    last = max((n for n, name in steps if shares[name].stands_out(rests[n], candidates)), default=0)
    found, rest = order[:last], rests[last]
    while back := [name for name in found if not shares[name].stands_out(rest, candidates)]:
        found = [name for name in found if name not in back]
        rest = sum((shares[name] for name in back), rest)
    return found, rest


def _stopped_recovery(ids: Ids, hits: Hits, around: Background) -> Cause:
    """Return disabled auto-recovery as the cause of old marks: a fact, not a correlation."""
    marked = Share(len(ids), max(hits.marked, len(ids)))
    rest = Share(0, max(0, around.touched.ledgers - marked.ledgers))
    does = f"auto-recovery is disabled: the marks of {_ledgers(len(ids))} wait for it"
    return Cause(
        CauseKind.AUTORECOVERY, "disabled", Family.MARK.value, ids, marked, rest, does, own=ids
    )


def _periods(family: str, left: Ids, hit: Ids, around: Background) -> Iterator[Cause]:
    """Yield the creation period in which most of the ledgers `left` were created, if it stands out.

    At least PERIOD_SHARE_MIN of its ledgers are hit. `hit` has all ledgers that are hit: those that
    another cause explains count neither inside the period nor outside.
    """
    created = around.times_of(left)
    if len(created) < CAUSE_LEDGERS_MIN:
        return
    some = np.unique(np.linspace(0, len(created) - 1, PERIOD_EDGES_MAX).astype(np.int64))
    starts = np.unique(created[some])
    edges = np.unique(np.concatenate([starts, starts + 1]))
    explained = around.times_of(np.setdiff1d(hit, left))
    counts = np.cumsum(around.count_created(edges))
    before = counts[:-1] - np.searchsorted(explained, edges)
    hit_before = np.searchsorted(created, edges)
    first, behind = np.searchsorted(edges, starts), np.searchsorted(edges, starts + 1)
    mine = hit_before[behind][None, :] - hit_before[first][:, None]
    there = before[behind][None, :] - before[first][:, None]
    is_dense = (mine >= PERIOD_SHARE_MIN * there) & (mine >= CAUSE_LEDGERS_MIN)
    best = np.argmax(np.where(is_dense, mine, 0))
    begin, end = np.unravel_index(best, mine.shape)
    inside = Share(int(mine[begin, end]), int(there[begin, end]))
    everything = int(counts[-1]) - len(explained)
    outside = Share(len(created) - inside.hit, everything - inside.ledgers)
    tried = comb(len(starts) + 1, 2)
    if not is_dense[begin, end] or not inside.stands_out(outside, tried):
        return
    first_ms, last_ms = int(starts[begin]), int(starts[end])
    ledgers = around.created_within(left, first_ms, last_ms)
    subject = f"{moment(first_ms)}/{moment(last_ms)}"
    does = f"{_ledgers(len(ledgers))} created from {moment(first_ms)} to {moment(last_ms)} are hit"
    yield Cause(CauseKind.PERIOD, subject, family, ledgers, inside, outside, does)


def chance_of(share: Share, rest: Share) -> float:
    """Return the probability that chance alone puts at least so many of all hits into the share.

    It is the upper tail of the hypergeometric distribution (Fisher's exact test, one-sided), for a
    share above the mean; 1.0 for any other. Costs one multiplication a term: some tens if one share
    is three times the other.
    """
    hit, size, whole = share.hit, share.ledgers, share + rest
    if hit * whole.ledgers <= size * whole.hit:
        return 1.0
    term = tail = 1.0
    for x in range(hit, min(size, whole.hit)):
        gone = whole.ledgers - size - whole.hit + x + 1
        term *= (size - x) * (whole.hit - x) / ((x + 1) * gone)
        tail += term
        if term < 1e-17 * tail:  # it changes no digit of the sum
            break
    first = (
        _log_choose(whole.hit, hit)
        + _log_choose(whole.ledgers - whole.hit, size - hit)
        - _log_choose(whole.ledgers, size)
    )
    return min(1.0, exp(first + log(tail)))


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _does(family: str, ledgers: Ids, *, are_several: bool = False, is_gone: bool = False) -> str:
    """Return what one or several bookies do to these ledgers.

    Nobody knows what a bookie that is gone lacks.
    """
    if is_gone and family == Family.ENTRY:
        return f"should hold copies of {_ledgers(len(ledgers))}"
    one, several = {
        Family.ENTRY.value: ("lacks entries of {}", "lack entries of {}"),
        Family.MARK.value: (
            "is named missing by the marks of {}",
            "are named missing by the marks of {}",
        ),
        UNJUDGED: ("leaves copies of {} unknown", "leave copies of {} unknown"),
    }[family]
    return (several if are_several else one).format(_ledgers(len(ledgers)))


def _ledgers(number: int) -> str:
    return f"{number:,} ledger{'' if number == 1 else 's'}"


def cause_id(kind: CauseKind, subject: str, family: str, facts: ClusterFacts) -> str:
    """Return an id that is stable over runs: a hash of the cluster, kind, subject and family."""
    cluster = facts.instance_id or f"{facts.root} {' '.join(sorted(facts.hosts))}"
    named = "\n".join((cluster, "cause", kind.value, subject, family))
    return hashlib.sha256(named.encode()).hexdigest()[:16]


def _round(number: float) -> float:
    """Return `number` with 4 significant digits, so that a small share does not become 0."""
    return float(f"{number:.4g}")


def _slug(subject: str) -> str:
    """Return a subject as part of a file name: only letters, digits, dots, dashes, underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", subject).strip("-.")[:SLUG_CHARS_MAX] or "unnamed"


def union(parts: Iterable[Ids]) -> Ids:
    """Return the ledgers of all parts, each once, ascending."""
    return distinct_numbers(np.concatenate([_NONE, *parts]))


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes of a run, ready to be written.

    `rows` are items of `causes` in summary.json, at most CAUSES_MAX. `rest` counts the causes
    beyond that, and their ledgers. `unexplained` counts the ledgers without a cause,
    `unexplained_unjudged` those of them without a finding. `files` has, by file name, the ids of a
    cause's ledgers, ascending.
    """

    rows: tuple[CauseRecord, ...]
    rest: MoreCauses
    unexplained: int
    unexplained_unjudged: int
    files: dict[str, Ids]


def rows_and_files(chosen: Sequence[Cause], hits: Hits, facts: ClusterFacts) -> Causes:
    """Return the chosen causes, ready to be written."""
    shown, beyond = chosen[:CAUSES_MAX], chosen[CAUSES_MAX:]
    rows = tuple(cause.record(number, hits, facts) for number, cause in enumerate(shown, start=1))
    rest = MoreCauses(len(beyond), len(union(cause.own for cause in beyond)))
    unexplained = np.setdiff1d(hits.affected(), union(cause.own for cause in chosen))
    judged = [ids for word, ids in hits.by_kind.items() if word in _FAMILIES]
    silent = np.setdiff1d(unexplained, union(judged))
    files = {row.file: cause.own for row, cause in zip(rows, shown, strict=True)}
    return Causes(rows, rest, len(unexplained), len(silent), files)


@dataclass(slots=True)
class _Collected:
    """Ledger ids taken from the findings, and the bookies that have a finding."""

    racks: Mapping[BookieId, str]
    by_kind: dict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    lacking: dict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    crowds: dict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    accused: dict[BookieId, Kind] = field(default_factory=dict)

    def add(self, finding: FindingRecord) -> None:
        kind, ledger = finding.kind.value, finding.ledger_id
        if finding.bookie_id is not None:
            self.accused.setdefault(finding.bookie_id, finding.kind)
        if kind not in _FAMILIES or ledger is None:
            return
        self.by_kind[kind].append(ledger)
        for bookie in finding.missing_on:
            self.lacking[bookie].append(ledger)
        if finding.kind is Kind.PLACEMENT_FAILED and finding.segment:
            ensemble = set(finding.segment.ensemble)
            bookies_in = Counter(self.racks[bookie] for bookie in ensemble if bookie in self.racks)
            for rack, bookies in bookies_in.items():
                if bookies > 1:
                    self.crowds[rack].append(ledger)


@dataclass(frozen=True, slots=True)
class _Ledgers:
    """What the stored metadata says of all ledgers, and of those that are hit."""

    run: Place
    affected: Ids

    def touched(self, racks: Mapping[BookieId, str]) -> Touched:
        """Return how many ledgers name each bookie and rack at the first look. Costs one scan.

        Holds one batch, two numbers a bookie, and the bookies of the ledgers that are hit.
        """
        bookies, of_racks, ledgers = Counter[BookieId](), Counter[str](), 0
        hit: dict[BookieId, list[Ids]] = defaultdict(list)
        for batch in self._stream(["ledger_id", "look", "segments"], ["segments"]):
            rows = rows_of(batch, pc.equal(batch["look"], 1))
            ledgers += rows.num_rows
            ensembles = pc.struct_field(rows["segments"].flatten(), "ensemble")
            segments = pc.list_parent_indices(rows["segments"]).to_numpy()
            row = segments[pc.list_parent_indices(ensembles).to_numpy()]
            encoded = ensembles.flatten().dictionary_encode()
            names = encoded.dictionary.to_pylist()
            numbers = encoded.indices.to_numpy()
            row, numbers = _distinct(row, numbers)
            bookies.update(_counts(numbers, names))
            rack_names = sorted({racks[name] for name in names if name in racks})
            number_of = {rack: number for number, rack in enumerate(rack_names)}
            rack_of = np.array(
                [number_of[racks[name]] if name in racks else -1 for name in names], np.int64
            )
            in_racks = rack_of[numbers] if len(names) else numbers
            in_rack = in_racks >= 0
            of_racks.update(_counts(_distinct(row[in_rack], in_racks[in_rack])[1], rack_names))
            ids = rows["ledger_id"].to_numpy()[row]
            is_hit = are_among(ids, self.affected)
            for number in np.unique(numbers[is_hit]).tolist():
                hit[names[number]].append(ids[is_hit & (numbers == number)])
        by_bookie = {name: np.sort(np.concatenate(parts)) for name, parts in sorted(hit.items())}
        return Touched(ledgers, bookies, of_racks, by_bookie)

    def created(self) -> tuple[Ids, Ids]:
        """Return the ledgers that are hit and when each was created. Costs one scan."""
        ids, times = [_NONE], [_NONE]
        for batch in self._born():
            is_hit = are_among(batch["ledger_id"].to_numpy(), self.affected)
            kept = batch.filter(pa.array(is_hit))
            ids.append(kept["ledger_id"].to_numpy())
            times.append(kept["znode_ctime_ms"].to_numpy())
        return np.concatenate(ids), np.concatenate(times)

    def count_created(self, times: Ids) -> Ids:
        """Return how many of all ledgers were created between these times. Costs one scan.

        They are counted before the first time, from each to the next, and after the last.
        """
        counts = np.zeros(len(times) + 1, np.int64)
        for batch in self._born():
            bins = np.searchsorted(times, batch["znode_ctime_ms"].to_numpy(), side="right")
            counts += np.bincount(bins, minlength=len(counts))
        return counts

    def missing_by_marks(self, ids: Ids) -> dict[BookieId, Ids]:
        """Return, by bookie, which of these ledgers have a newest mark that names it as missing."""
        keep = pc.field("ledger_id").isin(pa.array(ids)) & IS_MARKED
        scan = self.run.scan("evidence/ledgers", LEDGERS).parts_with("mark")
        rows = scan.table(["ledger_id", "look", "mark"], keep)
        rows = newest_rows(rows)
        missing = pc.struct_field(rows["mark"], "missing_replicas").combine_chunks()
        owners = rows["ledger_id"].combine_chunks().take(pc.list_parent_indices(missing))
        return {name: distinct_numbers(ids) for name, ids in by_word(missing.flatten(), owners)}

    def count_marked(self) -> int:
        """Return how many ledgers were marked at any look."""
        scan = self.run.scan("evidence/ledgers", LEDGERS).parts_with("mark")
        rows = scan.table(["ledger_id"], IS_MARKED)
        return len(pc.unique(rows["ledger_id"]))

    def _born(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the first look that have a creation time: each ledger counts once."""
        for batch in self._stream(["ledger_id", "look", "znode_ctime_ms"]):
            yield batch.filter(
                pc.and_(pc.equal(batch["look"], 1), pc.is_valid(batch["znode_ctime_ms"]))
            )

    def _stream(self, columns: list[str], words: Sequence[str] = ()) -> Iterable[pa.RecordBatch]:
        if not len(self.affected):
            return ()
        return self.run.scan("evidence/ledgers", LEDGERS, words).batches(columns)


def _distinct(
    rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return each pair of a row and a number once, sorted."""
    size = int(numbers.max(initial=0)) + 1
    pairs = distinct_numbers(rows.astype(np.int64) * size + numbers)
    return pairs // size, pairs % size


def _counts(numbers: npt.NDArray[np.int64], names: Sequence[str]) -> dict[str, int]:
    """Return how often each name occurs, by its number."""
    counts = np.bincount(numbers, minlength=len(names)).tolist()
    return {name: count for name, count in zip(names, counts, strict=True) if count}


_SUFFERS = {
    Kind.BOOKIE_LOST_CONTENT: "lost content",
    Kind.ENTRY_LOG_LOST: "lost an entry log",
    Kind.BOOKIE_UNREADABLE_ENTRIES: "cannot send entries that it lists",
    Kind.BOOKIE_FAILING_REQUESTS: "fails requests",
}
_GREETED: Mapping[Greeting | None, str] = {
    Greeting.ANSWERED: "answers",
    Greeting.SILENT: "is registered and silent",
    Greeting.REFUSED: "refuses to answer",
    Greeting.UNSUPPORTED: "answers, though it gave no list of entries",
    Greeting.ADDRESS_UNKNOWN: "is registered without an address that can be read",
    Greeting.AUDITOR_LIMITED: "is registered, and this host has no way to it",
}
_HARMLESS = (Greeting.ANSWERED, Greeting.UNSUPPORTED)
"""Greetings of bookies that may be as good as any other."""


def _is_gone(record: BookieRecord | None) -> bool:
    return record is None or not record.is_registered


def _states(
    bookies: Mapping[BookieId, BookieRecord],
    named: Iterable[BookieId],
    accused: Mapping[BookieId, Kind],
    about: About,
    renamed: Mapping[BookieId, Renamed],
) -> tuple[dict[BookieId, str], frozenset[BookieId]]:
    """Return what follows each bookie's name, and the bookies whose state is a reason by itself."""
    states, known = {}, set()
    for bookie in {*named, *bookies}:
        record = bookies.get(bookie)
        if record is None or _is_gone(record):
            state, is_known = "is not registered", True
        elif record.greeting_detail.startswith(NOT_DIALLED):
            state, is_known = "is registered and was not dialled", False
        elif bookie in accused:
            state, is_known = _SUFFERS.get(accused[bookie]) or _GREETED[record.greeting], True
        else:
            state, is_known = (
                _GREETED.get(record.greeting, "is registered"),
                record.greeting not in _HARMLESS,
            )
        away = ", in planned maintenance," if bookie in about.terms.around.maintenance else ""
        name = f" (probably renamed to {renamed[bookie].renamed_to})" if bookie in renamed else ""
        states[bookie] = f"{name}{away} {state}"
        if is_known:
            known.add(bookie)
    return states, frozenset(known)


def causes(
    run: Place,
    about: About,
    verdicts: TableScan,
    looks: Sequence[BookieLook],
    findings: Iterable[FindingRecord],
    heard: Heard,
    renamed: Mapping[BookieId, Renamed],
) -> Causes:
    """Return the causes of what was found. `findings` are read one by one.

    Where something is hit, costs three scans of the ledgers. If no bookie answered, our network is
    at fault, and no bookie's silence is a cause.
    """
    racks = about.terms.around.locations
    found = _Collected(racks)
    for finding in findings:
        found.add(finding)
    by_kind = {kind: _ids(ids) for kind, ids in found.by_kind.items()}
    hits = Hits(by_kind | unjudged_by_reason(verdicts))
    ledgers = _Ledgers(run, hits.affected())
    touched = ledgers.touched(racks)
    bookies = {bookie: record for look in looks for bookie, record in look.items()}
    lacking = {bookie: _ids(ids) for bookie, ids in found.lacking.items()}
    named = {b: ids for b, ids in touched.named.items() if _is_gone(bookies.get(b))}
    marked = hits.ids_of(Family.MARK.value)
    hits = replace(
        hits,
        by_bookie={
            Family.ENTRY.value: _within(
                hits.ids_of(Family.ENTRY.value), lacking, lacking_by_bookie(heard.lacks), named
            ),
            Family.MARK.value: ledgers.missing_by_marks(marked) if len(marked) else {},
            UNJUDGED: {} if nobody_answered(looks) else heard.words.unheard,
        },
        crowds={rack: _ids(ids) for rack, ids in found.crowds.items()},
        marked=ledgers.count_marked() if len(marked) else 0,
    )
    states, known = _states(bookies, touched.by_bookie, found.accused, about, renamed)
    created_ids, created_ms = ledgers.created()
    around = Background(
        touched,
        racks,
        states,
        known,
        frozenset(named),
        created_ids,
        created_ms,
        ledgers.count_created,
        about.facts.replication_disabled,
    )
    return rows_and_files(choose(hits, around), hits, about.facts)


def _ids(ledgers: Iterable[int]) -> Ids:
    """Return the distinct ids, ascending."""
    return distinct_numbers(np.fromiter(ledgers, np.int64))


def _within(ids: Ids, *parts: Mapping[BookieId, Ids]) -> dict[BookieId, Ids]:
    """Return, by bookie, the ledgers of any part that are among `ids`.

    Bookies without such ledgers are left out.
    """
    found = {
        bookie: np.intersect1d(union(part[bookie] for part in parts if bookie in part), ids)
        for bookie in sorted(set().union(*parts))
    }
    return {bookie: mine for bookie, mine in found.items() if len(mine)}
