"""Lists made from a real RocksDB index that is being written: whole, or none at all."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.location_index import LocationIndex

from auditor.lister import index_view, ledger_lists
from auditor.lister.index_view import IndexInDoubt, IndexView, RunReader, Stamp, stamp_of
from auditor.lister.ledger_lists import AnswerTooLong, LedgerList, LedgerLists, ListLimits
from auditor.model.availability import MissingLog
from auditor.wire.entry_availability import decode, encode_runs, groups_of
from auditor.wire.lister_fields import MISSING_LOGS_MAX, RANGES_MAX

GROUPS_MAX = 10**6


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LocationIndex]:
    with LocationIndex(tmp_path / "bookie") as index:
        yield index


@pytest.fixture
def lists(index: LocationIndex, tmp_path: Path) -> Iterator[LedgerLists]:
    links = tmp_path / "links"
    links.mkdir()
    view = IndexView(index.locations, links)
    yield LedgerLists(view, index.logs, ListLimits(2**20, 0, 0))
    view.close()


def entries(listed: LedgerList) -> list[int]:
    """The entries in a list."""
    return [
        start + offset
        for first, last, size, period in groups_of(decode(listed.payload, GROUPS_MAX).groups)
        for start in range(first, last + 1, period or 1)
        for offset in range(size)
    ]


def test_a_list_has_the_entries_of_its_ledger_alone(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """Neighbouring ledgers, and the largest ids, are not mixed up."""
    held = {6: [0, 1], 7: [0, 3, 4, 9], 8: [5], 2**63 - 1: [0, 2**62]}
    for ledger_id, of_ledger in held.items():
        index.put(ledger_id, of_ledger)
    assert held == {ledger_id: entries(lists.list_ledger(ledger_id)) for ledger_id in held}


def test_lists_of_ascending_ledgers_are_made_from_what_was_read_with_the_first(
    index: LocationIndex, lists: LedgerLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the lists of each ledger alone. An index is sought twice: at its begin and end."""
    for ledger_id in range(300):
        index.put(ledger_id, range(ledger_id % 40))
    alone = [lists.list_ledger(ledger_id) for ledger_id in range(1, 300) if ledger_id % 40]
    sought: list[int] = []
    seek = RunReader._seek

    def counting(reader: RunReader, ledger_id: int) -> None:
        sought.append(ledger_id)
        seek(reader, ledger_id)

    monkeypatch.setattr(RunReader, "_seek", counting)
    lists.limits.view_age_max_s = 1e9
    lists.view.refresh()
    runs_of, one_by_one = lists.view.runs_of, list[int]()
    monkeypatch.setattr(
        lists.view, "runs_of", lambda one, pay: one_by_one.append(one) or runs_of(one, pay)
    )
    asked = [ledger_id for ledger_id in range(1, 300) if ledger_id % 40]
    assert alone == [lists.list_ledger(ledger_id) for ledger_id in asked]
    assert (1, 2) == (len(sought), len(one_by_one))


def test_an_entry_log_that_is_gone_is_missed_in_a_list_made_with_others(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """The list of its ledger is not made from what was read with the one before."""
    for ledger_id in range(5, 9):
        index.put(ledger_id, range(4), log=int(ledger_id == 7))
    (index.logs / "1.log").unlink()
    lists.limits.view_age_max_s = 1e9
    made = {ledger_id: lists.list_ledger(ledger_id) for ledger_id in range(5, 9)}
    assert [[0, 1, 2, 3]] * 3 == [entries(made[ledger_id]) for ledger_id in (5, 6, 8)]
    assert ([], [4]) == (entries(made[7]), [log.entries for log in made[7].missing_logs])


def test_a_ledger_without_an_entry_has_an_empty_list(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """Never "no such ledger": the index of ledgers is not opened."""
    index.put(7, [0])
    assert LedgerList(bytes(64)) == lists.list_ledger(5)


def test_a_view_follows_the_bookie(index: LocationIndex, lists: LedgerLists) -> None:
    """New entries, flushes, losses and a restart, which names a new manifest, show in the next
    list.
    """
    index.put(7, range(10))
    assert [*range(10)] == entries(lists.list_ledger(7))
    index.flush()
    index.put(7, range(10, 20))
    assert [*range(20)] == entries(lists.list_ledger(7))
    before = stamp_of(index.locations).manifest
    index.close()
    index.start()
    index.remove(7, [4])
    assert before != stamp_of(index.locations).manifest
    assert [*range(4), *range(5, 20)] == entries(lists.list_ledger(7))


def test_an_index_made_anew_is_not_read_from_the_old_view(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """A bookie that was formatted, or whose index was rebuilt or restored, may use the manifest's
    name again.
    """
    index.put(7, range(10))
    assert [*range(10)] == entries(lists.list_ledger(7))
    before = stamp_of(index.locations).manifest
    index.close()
    shutil.rmtree(index.locations)
    index.start()
    index.put(7, range(3))
    assert before == stamp_of(index.locations).manifest
    assert [*range(3)] == entries(lists.list_ledger(7))


def test_views_opened_again_and_again_fill_no_disk(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """RocksDB begins a log at each opening, and a secondary removes none of the earlier ones."""
    index.put(7, range(3))
    for _ in range(10):
        lists.list_ledger(7)
        lists.view.close()
    logs = [path.name for path in lists.view._links.rglob("LOG*")]
    assert 1 <= len(logs) <= 2, logs


def test_an_index_that_does_not_change_is_opened_once(
    index: LocationIndex, lists: LedgerLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catching up costs a millisecond or two, opening the whole write-ahead log."""
    real, opened = IndexView._open, []
    monkeypatch.setattr(IndexView, "_open", lambda view: (opened.append(view), real(view))[1])
    for entry in range(3):
        index.put(7, [entry])
        assert [*range(entry + 1)] == entries(lists.list_ledger(7))
    assert [lists.view] == opened


def test_no_list_has_a_hole_while_the_index_is_flushed(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """Entries are written in order: what a list holds is always a whole beginning, at least as long
    as before.
    """
    written = 0
    for _ in range(40):
        index.put(7, range(written, written + 500))
        written += 500
        assert [*range(written)] == entries(lists.list_ledger(7))


def test_nothing_is_written_below_the_bookie(index: LocationIndex, lists: LedgerLists) -> None:
    """Neither in the index nor beside it. The bookie is down: what it writes itself would show."""
    index.put(7, range(3000))
    index.close()

    def state() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in index.directory.rglob("*")
        }

    before = state()
    assert 3000 == len(entries(lists.list_ledger(7)))
    lists.view.close()
    assert before == state()


def test_a_stamp_that_changes_makes_no_list(
    index: LocationIndex, lists: LedgerLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that is flushed at each try is in doubt, and one that settles down is read."""
    index.put(7, range(5))
    flushes = iter(range(index_view.STAMP_TRIES_MAX))
    real = IndexView._catch_up

    def catch_up(view: IndexView, stamp: Stamp) -> None:
        real(view, stamp)
        if next(flushes, None) is not None:
            index.put(8, [0])
            index.flush()

    monkeypatch.setattr(IndexView, "_catch_up", catch_up)
    with pytest.raises(IndexInDoubt, match=r"no whole view .* flushed each time"):
        lists.list_ledger(7)
    assert [*range(5)] == entries(lists.list_ledger(7))


@pytest.mark.parametrize("harm", ["garbled", "gone"])
def test_a_table_that_cannot_be_read_makes_no_list(
    index: LocationIndex, lists: LedgerLists, harm: str
) -> None:
    """RocksDB then silently shows an older version, which lacks tables that are on the disk."""
    for number in range(3):
        index.put(7, range(1000 * number, 1000 * (number + 1)))
        index.flush()
    index.close()
    first, *others = sorted(index.locations.glob("*.sst"))
    first.write_bytes(bytes(first.stat().st_size)) if harm == "garbled" else first.unlink()
    for path in others:
        os.utime(path, (0, 0))
    with pytest.raises(IndexInDoubt):
        lists.list_ledger(7)


def test_a_table_in_the_making_is_no_doubt(index: LocationIndex, lists: LedgerLists) -> None:
    """A flush or a compaction writes tables that the manifest does not name yet."""
    index.put(7, range(3000))
    (index.locations / "999999.sst").write_bytes(b"half")
    assert [*range(3000)] == entries(lists.list_ledger(7))


def test_a_view_whose_tables_are_deleted_is_read_to_its_end(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """All files are kept open, however many: compaction takes none of them away."""
    index.close()
    index.start(compacts=False)
    for first in range(0, 3000, 100):
        index.put(7, range(first, first + 100))
        index.flush()
    assert 30 == len([*index.locations.glob("*.sst")])
    lists.view.refresh()
    lists.limits.view_age_max_s = 1e9
    index.close()
    for path in index.locations.glob("*.sst"):
        path.unlink()
    assert [*range(3000)] == entries(lists.list_ledger(7))


@pytest.mark.parametrize(("key_bytes", "value_bytes"), [(15, 8), (17, 8), (16, 7), (16, 0)])
def test_a_key_or_value_of_another_size_makes_no_list(
    index: LocationIndex, lists: LedgerLists, key_bytes: int, value_bytes: int
) -> None:
    """It is no index of locations, or one of a format that we do not know."""
    index.put_raw((bytes(7) + b"\x07\x01" + bytes(8))[:key_bytes], bytes(value_bytes))
    with pytest.raises(IndexInDoubt, match="not a location"):
        lists.list_ledger(7)


def test_an_index_that_is_not_there_makes_no_list(index: LocationIndex, lists: LedgerLists) -> None:
    """And it is not made."""
    index.close()
    shutil.rmtree(index.locations)
    with pytest.raises(IndexInDoubt):
        lists.list_ledger(7)
    assert not index.locations.exists()


def test_a_negative_ledger_id_makes_no_list(lists: LedgerLists) -> None:
    """No ledger has one."""
    with pytest.raises(IndexInDoubt, match="is not a ledger id"):
        lists.list_ledger(-1)


def test_entries_in_a_lost_entry_log_are_left_out(index: LocationIndex, lists: LedgerLists) -> None:
    """The confirming read then decides. The others stay, and what is left out is said by log."""
    index.put(7, range(10), log=0)
    index.put(7, range(10, 15), log=0x1F)
    index.put(7, range(15, 20), log=2)
    (index.logs / "1f.log").unlink()
    found = lists.list_ledger(7)
    assert [*range(10), *range(15, 20)] == entries(found)
    assert (MissingLog(str(index.logs / "1f.log"), 5, ((10, 14),)),) == found.missing_logs


def test_a_ledger_that_goes_on_in_another_log_is_one_run(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """The list does not depend on the bookie's files."""
    for first, log in ((0, 5), (10, 7), (20, 1), (30, 5)):
        index.put(7, range(first, first + 10), log=log)
    found = lists.list_ledger(7)
    assert encode_runs([(0, 40)]) == found.payload
    (index.logs / "5.log").unlink()
    found = lists.list_ledger(7)
    assert [*range(10, 30)] == entries(found)
    assert (MissingLog(str(index.logs / "5.log"), 20, ((0, 9), (30, 39))),) == found.missing_logs


def test_many_runs_are_encoded_some_at_a_time(
    index: LocationIndex, lists: LedgerLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number in memory is bounded, and the list is the same."""
    monkeypatch.setattr(ledger_lists, "PENDING_MAX", 2)
    index.put(7, [0, 5, 6, 20, 40, 41, 42, 60, 90])
    assert [0, 5, 6, 20, 40, 41, 42, 60, 90] == entries(lists.list_ledger(7))


def test_only_the_names_of_entry_logs_count(index: LocationIndex, lists: LedgerLists) -> None:
    """Other files beside them do not, whatever they are named."""
    index.put(7, [0], log=1)
    index.put(7, [1], log=0x1F)
    index.put(7, [2], log=0xA)
    (index.logs / "1.log").unlink()
    (index.logs / "a.log").rename(index.logs / "A.log")
    for name in (".log", "0X1.log", "notes.log", "1.log.compacted"):
        (index.logs / name).touch()
    found = lists.list_ledger(7)
    assert ([1, 2], ["1.log"]) == (
        entries(found),
        [Path(log.path).name for log in found.missing_logs],
    )


def test_what_is_said_of_lost_entry_logs_is_bounded(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """All entries are left out and counted; the first ranges of the first logs are named."""
    index.put(7, range(0, 100, 2), log=1)
    index.put(7, range(1, 100, 2), log=2)
    for log in range(3, 3 + MISSING_LOGS_MAX):
        index.put(7, [200 + log], log=log)
        (index.logs / f"{log:x}.log").unlink()
    (index.logs / "2.log").unlink()
    found = lists.list_ledger(7)
    assert [*range(0, 100, 2)] == entries(found)
    first, *others = found.missing_logs
    assert (
        MissingLog(
            str(index.logs / "2.log"), 50, tuple((n, n) for n in range(1, 2 * RANGES_MAX, 2))
        )
        == first
    )
    assert [(1, ((200 + log, 200 + log),)) for log in range(3, 2 + MISSING_LOGS_MAX)] == [
        (o.entries, o.ranges) for o in others
    ]


def test_an_entry_log_that_compaction_removed_loses_nothing(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """A view names a log that is gone; a fresh one names where its entries are now."""
    index.put(7, range(10), log=1)
    lists.list_ledger(7)
    lists.limits.view_age_max_s = 1e9
    index.put(7, range(10), log=2)
    (index.logs / "1.log").unlink()
    found = lists.list_ledger(7)
    assert ([*range(10)], ()) == (entries(found), found.missing_logs)


def test_one_fresh_view_is_not_enough_to_call_a_log_lost(
    index: LocationIndex, lists: LedgerLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log that the first fresh view lacks is there at the second."""
    index.put(7, range(10), log=1)
    views = iter([frozenset[int](), frozenset[int](), frozenset({1})])
    monkeypatch.setattr(LedgerLists, "_logs_on_disk", lambda _: next(views))
    found = lists.list_ledger(7)
    assert ([*range(10)], ()) == (entries(found), found.missing_logs)


def test_logs_that_are_lost_one_after_another_make_no_list(
    index: LocationIndex, lists: LedgerLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each view names another missing log: nothing is left out, and nothing is said."""
    scans = iter(frozenset({log}) for log in range(1 + ledger_lists.LOG_VIEWS_MAX))
    monkeypatch.setattr(LedgerLists, "_scan", lambda *_: (b"", next(scans)))
    index.put(7, [0])
    (index.logs / "0.log").unlink()
    with pytest.raises(IndexInDoubt, match="other entry logs"):
        lists.list_ledger(7)


def test_entry_logs_that_cannot_be_listed_make_no_list(
    index: LocationIndex, lists: LedgerLists, tmp_path: Path
) -> None:
    """Without the names of the logs no entry is known to be there."""
    index.put(7, [0])
    lists.logs = tmp_path / "nowhere"
    with pytest.raises(IndexInDoubt, match="cannot be listed"):
        lists.list_ledger(7)


def test_keys_are_read_at_the_rate(index: LocationIndex, lists: LedgerLists) -> None:
    """The reader sleeps for what it reads beyond the burst."""
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    limits = ListLimits(2**20, 10_000, 0)
    paced = LedgerLists(lists.view, index.logs, limits, lambda: now[0], sleep)
    index.put(7, range(30_000))
    paced.list_ledger(7)
    assert pytest.approx(2.0) == sum(slept)
    assert all(seconds > 0 for seconds in slept)
    paced.list_ledger(7)
    assert 60_000 == paced.keys_read


@pytest.mark.parametrize(("rate", "slept_s"), [(0, 0.0), (0.5, 8.0)])
def test_any_rate_holds_and_none_is_no_limit(
    index: LocationIndex, lists: LedgerLists, rate: float, slept_s: float
) -> None:
    """A slow disk may be asked for less than a key a second. One key is free at first."""
    slept: list[float] = []
    paced = LedgerLists(
        lists.view, index.logs, ListLimits(2**20, rate, 0), lambda: 0.0, slept.append
    )
    index.put(7, range(5))
    paced.list_ledger(7)
    assert slept_s == sum(slept)


def test_a_view_is_used_until_it_is_too_old(index: LocationIndex, lists: LedgerLists) -> None:
    """Its age is bounded: what was written before is then listed."""
    now = [5.0]
    view = IndexView(index.locations, lists.view._links, lambda: now[0])
    aged = LedgerLists(view, index.logs, ListLimits(2**20, 0, 1.0), lambda: now[0])
    assert [] == entries(aged.list_ledger(7))
    index.put(7, [0])
    now[0] = 6.0
    assert [] == entries(aged.list_ledger(7))
    now[0] = 6.1
    assert [0] == entries(aged.list_ledger(7))
    view.close()


def test_the_names_of_entry_logs_are_listed_as_often_as_a_view_is_renewed(
    index: LocationIndex, lists: LedgerLists, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bookie has thousands of them. A log that is missing then is looked for at once, in fresh
    views.
    """
    now, listed = [5.0], []
    view = IndexView(index.locations, lists.view._links, lambda: now[0])
    aged = LedgerLists(view, index.logs, ListLimits(2**20, 0, 1.0), lambda: now[0])
    real = LedgerLists._logs_on_disk
    monkeypatch.setattr(
        LedgerLists, "_logs_on_disk", lambda self: (listed.append(now[0]), real(self))[1]
    )
    index.put(7, range(5))
    for moment in (5.0, 5.5, 6.0):
        now[0] = moment
        assert [*range(5)] == entries(aged.list_ledger(7))
    assert [5.0, 6.0] == listed
    (index.logs / "0.log").unlink()
    now[0] = 7.0
    assert ([], 5) == (entries(found := aged.list_ledger(7)), found.missing_logs[0].entries)
    view.close()


def test_a_list_longer_than_an_answer_is_none(index: LocationIndex, lists: LedgerLists) -> None:
    """It is refused, never cut."""
    seed = 5
    print("seed", seed)
    lists.limits.answer_bytes_max = 10_000
    index.put(7, random.Random(seed).sample(range(10_000), 3_000))
    with pytest.raises(AnswerTooLong):
        lists.list_ledger(7)


def test_a_write_ahead_log_elsewhere_makes_no_list(
    index: LocationIndex, lists: LedgerLists, tmp_path: Path
) -> None:
    """Keys that are in it alone would be missing without an error."""
    index.put(7, [0])
    options = sorted(index.locations.glob("OPTIONS-*"))[-1]
    text = options.read_text()
    options.write_text(text.replace("[DBOptions]", f"[DBOptions]\n  wal_dir={tmp_path}"))
    with pytest.raises(IndexInDoubt, match="write-ahead log"):
        lists.list_ledger(7)
    options.write_text(text.replace("[DBOptions]", f"[DBOptions]\n  wal_dir={index.locations}"))
    assert [0] == entries(lists.list_ledger(7))


def test_links_are_removed_with_the_view(index: LocationIndex, lists: LedgerLists) -> None:
    """A new manifest gets a new link, and a closed view leaves none."""
    index.put(7, [0])
    lists.list_ledger(7)
    links = lists.view._links
    assert {"CURRENT", stamp_of(index.locations).manifest} == {
        path.name for path in links.iterdir() if path.is_symlink()
    }
    lists.view.close()
    assert [] == [path for path in links.iterdir() if path.is_symlink()]


def test_the_location_is_read_as_the_bookie_writes_it(
    index: LocationIndex, lists: LedgerLists
) -> None:
    """log id << 32 | position, big-endian; ids are those of the files' names, in hex."""
    (index.logs / "7fffffff.log").touch()
    index.put_raw(struct.pack(">qq", 7, 3), struct.pack(">q", 0x7FFFFFFF << 32 | 1028))
    found = lists.list_ledger(7)
    assert ([3], ()) == (entries(found), found.missing_logs)
