"""Who carries out a stage: Spark, or this process if there are few ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pyarrow as pa
import pytest

from auditor.config import BookieLimits, ZooKeeperLimits
from auditor.evidence.ids import EVERYTHING, Shard
from auditor.evidence.rows import table
from auditor.evidence.schemas import LEDGERS
from auditor.first_checker.circle import Starts
from auditor.first_checker.spot_reads import ListTests
from auditor.judging.clear_columns import ClearColumns
from auditor.judging.settle import Todo
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Terms
from auditor.model.topic import TopicName
from auditor.stages.asking import WANTED, Directory
from auditor.stages.local import LocalExecutor
from auditor.stages.selection import Ledgers, Suspects
from auditor.stages.stages import COSTS, Stages
from auditor.stages.steps import Unchanged
from auditor.zookeeper.ledgers import ListingPartition

NOBODY = Directory({}, frozenset())
LISTED, LEFT_BY_A_LOOK, LEFT_BY_A_JUDGING = 5, 3, 2
SHARD = Shard(7, 10, 19)
NONE_CLEAR = ClearColumns.of(LEDGERS.empty_table())


class Recorder:
    """An executor that records the tables that it is asked to write. It lists as many ledgers as
    there are, or too many.
    """

    address = SimpleNamespace(limits=ZooKeeperLimits())
    is_careful = True
    collected: ClassVar[pa.Table] = COSTS.empty_table()

    def __init__(self, name: str, done: list[str], listed: Sequence[int] | None = ()) -> None:
        self._name, self._done, self._listed = name, done, listed

    def write(self, _rows: object, table: str, name: str) -> None:
        self._done.append(f"{self._name} {table} {name}")

    def write_answers(self, _rows: object, name: str) -> None:
        self._done.append(f"{self._name} evidence/answers {name}")

    def collect(self, _rows: object) -> pa.Table:
        self._done.append(f"{self._name} collects")
        return self.collected

    def list_ids(self, portions: object, ids_max: int | None) -> Sequence[int] | None:
        self._done.append(f"{self._name} lists at most {ids_max}")
        return self._listed

    def __getattr__(self, step: str) -> Any:
        return lambda *_, **__: None


class Counted(Suspects):
    """Suspects of which only the number matters. It records which were counted."""

    def __init__(self) -> None:
        pass

    counted: list[Ledgers] = []

    def count_listed(self) -> int:
        return LISTED

    def clear(self, shard: Shard) -> tuple[ClearColumns, list[int]]:
        return NONE_CLEAR, []

    def asked_again(self, look: int, shard: Shard) -> Unchanged:
        return Unchanged(look, frozenset())

    def ledgers(self, which: Ledgers) -> list[int]:
        self.counted.append(which)
        return list(range(LEFT_BY_A_LOOK if which.left_by is None else LEFT_BY_A_JUDGING))


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Ledgers]:
    """Return the ledgers that were counted so far."""
    monkeypatch.setattr(Counted, "counted", [])
    return Counted.counted


def done_by(
    suspects_max: int, ledgers_max: int = 0, listed: Sequence[int] | None = ()
) -> tuple[Stages, list[str]]:
    """Return the stages, and a list of what each executor has done so far."""
    done: list[str] = []
    spark, here = Recorder("spark", done), Recorder("here", done, listed)
    stages = Stages(
        on_spark=lambda: spark,
        local=cast(LocalExecutor, here),
        suspects=Counted(),
        facts=cast(ClusterFacts, None),
        terms=Terms(1, 0, 16, 5),
        limits=BookieLimits(),
        suspects_max=suspects_max,
        ledgers_max=ledgers_max,
    )
    return stages, done


def ways(done: list[str]) -> list[str]:
    return [one.split()[0] for one in done]


SIZES = [
    (1_000, 0, "spark"),
    (1_000, LISTED - 1, "spark"),
    (1_000, LISTED, "here"),
    (0, LISTED, "spark"),
]
"""Bounds on suspects and on listed ledgers, and who takes the first look."""


@pytest.mark.parametrize(
    ("suspects_max", "tested", "reads", "done_in_order"),
    [
        (1, 2, 2, ["here collects", "here"]),
        (1, 2, 3, ["here collects", "spark"]),
        (1, 3, 2, ["spark"]),
        (0, 2, 2, ["spark"]),
    ],
)
def test_few_reads_that_test_lists_are_drawn_and_made_here(
    suspects_max: int,
    tested: int,
    reads: int,
    done_in_order: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task for each bookie would take longer than its reads. Nothing is drawn or read here if
    this process may not work, and nothing is drawn here of many ledgers.
    """
    monkeypatch.setattr("auditor.stages.stages.READS_IN_PROCESS_MAX", 2)
    monkeypatch.setattr(Counted, "tested", lambda *_: pa.table({"ledger_id": range(tested)}))
    drawn = table(WANTED, [tuple([None] * len(WANTED))] * reads)
    monkeypatch.setattr(Recorder, "collected", pa.Table.from_batches([drawn]))
    stages, done = done_by(suspects_max)
    for is_denser in (False, True):
        tests = ListTests(Starts(0), {}, of_lists=is_denser, is_denser=is_denser)
        stages.test_lists(NOBODY, SHARD, tests)
        what = "denser" if is_denser else "spots"
        *before, way = done_in_order
        assert [*before, f"{way} evidence/reads look-01-shard-0007-{what}"] == done
        done.clear()


@pytest.mark.parametrize(
    ("singly_max", "done_in_order"), [(LISTED, ["here"]), (LISTED - 1, ["here collects", "here"])]
)
def test_reads_that_test_the_lists_of_many_ledgers_are_drawn_in_columns_without_spark_too(
    singly_max: int, done_in_order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evidence of few is gathered."""
    monkeypatch.setattr("auditor.stages.stages.SINGLY_MAX", singly_max)
    monkeypatch.setattr(Counted, "tested", lambda *_: pa.table({"ledger_id": range(2)}))
    drawn = table(WANTED, [tuple([None] * len(WANTED))])
    monkeypatch.setattr(Recorder, "collected", pa.Table.from_batches([drawn]))
    stages, done = done_by(1_000, LISTED)
    stages.test_lists(NOBODY, SHARD, ListTests(Starts(0), {}))
    assert [*done_in_order[:-1], "here evidence/reads look-01-shard-0007-spots"] == done


@pytest.mark.parametrize(("suspects_max", "ledgers_max", "way"), SIZES)
def test_the_first_look_goes_by_the_ledgers_that_were_listed(
    suspects_max: int, ledgers_max: int, way: str, counted: list[Ledgers]
) -> None:
    """This process does it for at most `ledgers_max` ledgers, and never if either bound is 0. It
    always counts the answers.
    """
    stages, done = done_by(suspects_max, ledgers_max)
    stages.read_ledgers(1, SHARD)
    stages.plan()
    stages.ask_lists(1, NOBODY, SHARD)
    stages.judge(1, 0, SHARD)
    assert [
        f"{way} evidence/ledgers look-01-shard-0007",
        f"{way} collects",
        f"{way} evidence/answers look-01-shard-0007",
        "here steps/look-1-judging-0 suspects",
    ] == done
    assert [] == counted, "the ledgers of a first look are not gathered to be counted"


@pytest.mark.parametrize(("suspects_max", "ledgers_max", "way"), SIZES)
def test_spark_may_ask_ahead_where_it_takes_the_first_look_and_the_driver_may_judge(
    suspects_max: int, ledgers_max: int, way: str
) -> None:
    """In another thread nothing is judged here, and nothing is asked ahead."""
    stages, done = done_by(suspects_max, ledgers_max)
    may: list[bool] = [stages.may_ask_ahead()]
    thread = Thread(target=lambda: may.append(stages.may_ask_ahead()))
    thread.start()
    thread.join()
    assert [way == "spark" and suspects_max > 0, False] == may
    assert [] == done, "Spark is not started for the answer"


def test_a_run_of_one_ledger_may_be_the_only_one_without_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bound of 1 allows one ledger."""
    monkeypatch.setattr(Counted, "count_listed", lambda _: 1)
    stages, done = done_by(1, 1)
    stages.judge(1, 0)
    assert ["here"] == ways(done)


def test_a_run_of_few_ledgers_has_no_stage_on_spark_however_many_are_suspect() -> None:
    """A small damaged cluster does not start a JVM at its second look."""
    stages, done = done_by(1, LISTED)
    stages.read_entries(1, 0, NOBODY)
    stages.read_ledgers(2)
    stages.ask_lists(2, NOBODY, EVERYTHING, 0)
    stages.judge(2, 1, EVERYTHING, (0, Todo.LISTS))
    assert ["here"] * 4 == ways(done)


def portions(*parents: int) -> list[ListingPartition]:
    """Return portions of a listing, each with this many parents."""
    return [
        ListingPartition(tuple(f"/{portion}/{n}" for n in range(count)))
        for portion, count in enumerate(parents)
    ]


@pytest.mark.parametrize(
    ("parents", "suspects_max", "ledgers_max", "expected"),
    [
        ((9,), 0, 0, ["here"]),
        ((), 0, 0, ["here"]),
        ((2, 2), 1, 4, ["here"]),
        ((2, 2), 1, 3, ["spark"]),
        ((2, 2), 0, 4, ["spark"]),
        ((2, 2), 1, 0, ["spark"]),
    ],
)
def test_a_listing_goes_by_its_parents(
    parents: tuple[int, ...], suspects_max: int, ledgers_max: int, expected: list[str]
) -> None:
    """One portion is always listed here. Several are only if they have at most `ledgers_max`
    parents and neither bound is 0.
    """
    stages, done = done_by(suspects_max, ledgers_max)
    assert (expected == ["spark"]) == stages.list_ledgers(portions(*parents), "a table")
    assert [f"{way} a table listed" for way in expected] == done[-1:]


def test_a_listing_with_too_many_ledgers_is_repeated_on_spark() -> None:
    """This process stops above the bound and writes nothing."""
    stages, done = done_by(1, 4, listed=None)
    assert stages.list_ledgers(portions(2, 2))
    assert ["here lists at most 4", "spark evidence/listing listed"] == done


def test_one_portion_is_listed_here_however_many_ledgers_it_has() -> None:
    """It takes a moment, and the number of ledgers is not known before."""
    stages, done = done_by(1, 4)
    stages.list_ledgers(portions(2))
    assert ["here lists at most None", "here evidence/listing listed"] == done


@pytest.mark.parametrize("parents", [(9,), (2, 2), (3, 3)])
@pytest.mark.parametrize("bounds", [(1, 4), (0, 0)])
def test_a_listing_is_written_here_parent_by_parent(
    parents: tuple[int, ...], bounds: tuple[int, int]
) -> None:
    """However many ledgers there are: they are not counted, and none is held."""
    stages, done = done_by(*bounds)
    assert stages.list_ledgers(portions(*parents), is_here=True)
    assert ["here evidence/listing listed"] == done


def test_ledgers_that_are_named_are_written_here() -> None:
    """No ledger is counted and Spark is not needed."""
    stages, done = done_by(0)
    stages.take_listing([3, 1])
    assert ["here evidence/listing listed"] == done


def test_many_topics_are_read_by_spark() -> None:
    """The caller reads few topics itself."""
    stages, done = done_by(1_000, LISTED)
    topics: Any = SimpleNamespace(limits=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("auditor.stages.stages.replace", lambda address, **_: address)
        stages.read_topics(1, [TopicName("t", "n", "persistent", "x")], topics)
    assert ["spark evidence/references look-1"] == done


@pytest.mark.parametrize(
    ("suspects_max", "way"),
    [(0, "spark"), (LEFT_BY_A_LOOK - 1, "spark"), (LEFT_BY_A_LOOK, "here"), (1_000, "here")],
)
def test_a_later_look_goes_by_the_suspects_that_the_look_before_left(
    suspects_max: int, way: str
) -> None:
    """This process does it for at most `suspects_max` suspects, and never if that is 0."""
    stages, done = done_by(suspects_max)
    stages.read_ledgers(2)
    stages.judge(2, 0)
    assert [way, way] == ways(done)


@pytest.mark.parametrize(
    ("suspects_max", "sound_a_suspect", "ways_of_both"),
    [
        (0, LEFT_BY_A_LOOK, ["spark", "spark"]),
        (1, LEFT_BY_A_LOOK - 1, ["spark", "here"]),
        (1, LEFT_BY_A_LOOK, ["here", "here"]),
        (1, LEFT_BY_A_JUDGING - 1, ["spark", "spark"]),
        (LEFT_BY_A_LOOK, 1, ["here", "here"]),
    ],
)
def test_ledgers_that_are_mostly_sound_are_judged_by_their_number(
    suspects_max: int,
    sound_a_suspect: int,
    ways_of_both: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More of them than suspects: what was read once more of bookies in doubt, and the sample."""
    monkeypatch.setattr("auditor.stages.stages.SOUND_A_SUSPECT", sound_a_suspect)
    stages, done = done_by(suspects_max)
    stages.judge(1, 2, SHARD, retested=True)
    stages.judge(1, 1, SHARD, (0, Todo.EVIDENCE))
    assert ways_of_both == ways(done)


@pytest.mark.parametrize(
    ("suspects_max", "way"),
    [(0, "spark"), (LEFT_BY_A_JUDGING - 1, "spark"), (LEFT_BY_A_JUDGING, "here")],
)
def test_what_follows_a_judging_goes_by_what_it_left(suspects_max: int, way: str) -> None:
    """This holds at the first look too."""
    stages, done = done_by(suspects_max)
    stages.read_entries(1, 0, NOBODY)
    stages.judge(1, 1, EVERYTHING, (0, Todo.READS))
    stages.ask_lists(2, NOBODY, EVERYTHING, 0)
    assert [way] * 3 == ways(done)


def test_spark_does_the_stages_of_other_threads_than_the_main_one() -> None:
    """A child that is forked from another thread would end the main thread's connection to the
    JVM. Counting the answers of a first look needs no child.
    """
    stages, done = done_by(1_000, LISTED)
    for look in (1, 2):
        thread = Thread(target=stages.judge, args=(look, 0))
        thread.start()
        thread.join()
    assert ["here", "spark"] == ways(done)


@pytest.mark.parametrize(("suspects_max", "way"), [(0, "spark"), (1, "here")])
def test_without_suspects_bookies_are_greeted_here_unless_the_bound_is_0(
    suspects_max: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound of 0 means never, also for no suspects."""
    monkeypatch.setattr(Counted, "ledgers", lambda *_: [])
    stages, done = done_by(suspects_max)
    stages.ask_lists(2, NOBODY, EVERYTHING, 0)
    assert [way] == ways(done)


def test_a_later_stage_counts_its_own_suspects(counted: list[Ledgers]) -> None:
    """Only the ledgers that the stage will do something about are counted."""
    stages, done = done_by(1_000)
    stages.read_ledgers(3, SHARD)
    stages.ask_lists(3, NOBODY, SHARD)
    stages.ask_lists(3, NOBODY, SHARD, 1)
    stages.read_entries(3, 1, NOBODY)
    stages.judge(3, 0, SHARD, again_without={3: "differs"})
    stages.judge(3, 2, SHARD, (1, Todo.READS))
    assert ["here"] * 6 == ways(done)
    assert [
        Ledgers(3, SHARD),
        Ledgers(3, SHARD, None, Todo.LISTS),
        Ledgers(3, SHARD, 1, Todo.LISTS),
        Ledgers(3, EVERYTHING, 1, Todo.READS),
        Ledgers(3, SHARD),
        Ledgers(3, SHARD, 1, Todo.READS),
    ] == counted


@pytest.mark.parametrize(
    ("suspects_max", "by", "known"), [(LEFT_BY_A_LOOK, "here", 1), (1, "spark", 0), (0, "spark", 0)]
)
def test_spark_judges_every_suspect(
    suspects_max: int, by: str, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No task gets the ids of suspects whose lists are demanded without judging: they have no
    bound.
    """
    stages, done = done_by(suspects_max)
    looked_up: list[int] = []

    def asked_again(_: Counted, look: int, __: Shard) -> Unchanged:
        looked_up.append(look)
        return Unchanged(look, frozenset())

    monkeypatch.setattr(Counted, "asked_again", asked_again)
    stages.judge(2, 0)
    assert ([by], [2] * known) == (ways(done), looked_up)
