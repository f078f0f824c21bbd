"""A pass over entry logs: what is verified, and which entries are named."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.entry_logs import Entry, flip_bit, log_header, write_index, write_log
from support.location_index import LocationIndex

from auditor.lister import scrub_pass
from auditor.lister.indexed_places import PLACE_COST_BYTES, groups_of
from auditor.lister.scrub_pass import LogPass, Position, ScrubPace
from auditor.model.ledger import DigestType
from auditor.model.scrub import CANDIDATES_MAX, ScrubPass, Suspicion

NOW_MS = 10_000_000_000_000
ENTRIES = 50
LEDGERS = (7, 8, 300)


@dataclass
class Disk:
    """The directory of a bookie. Its logs are old: nobody writes them."""

    directory: Path
    links: Path
    is_db: bool = False

    @property
    def current(self) -> Path:
        return self.directory / "current"

    def log(self, number: int) -> Path:
        return self.current / f"{number:x}.log"

    def write(
        self,
        number: int,
        entries: Iterable[Entry],
        digest: DigestType = DigestType.CRC32C,
        *,
        is_closed: bool = True,
    ) -> dict[Entry, int]:
        return write_log(self.log(number), entries, digest, is_closed=is_closed)

    def scrub(self, position: Position | None = None) -> LogPass:
        """Return a finished pass."""
        groups = groups_of([self.directory], [self.directory], self.links, is_db=self.is_db)
        pace = ScrubPace(0, sleep=lambda _: None)
        one = LogPass(
            groups, pace, lambda: NOW_MS, lambda: None, ScrubPass(0), position or Position()
        )
        one.run()
        return one


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "ledgers", tmp_path / "links")


def entries_of(ledger: int, first: int = 0, last: int = ENTRIES - 1) -> list[Entry]:
    return [(ledger, entry) for entry in range(first, last + 1)]


def everything() -> list[Entry]:
    return [one for ledger in LEDGERS for one in entries_of(ledger)]


def named(one: LogPass) -> dict[Entry, Suspicion]:
    return {key: candidate.why for key, candidate in one.candidates.named.items()}


@pytest.mark.parametrize("digest", [DigestType.CRC32C, DigestType.CRC32])
@pytest.mark.parametrize("is_closed", [True, False])
def test_sound_logs_are_verified_whole(disk: Disk, digest: DigestType, is_closed: bool) -> None:
    """The map of ledgers at the end of a closed log is no entry."""
    for number in range(4):
        disk.write(number, everything(), digest, is_closed=is_closed)
    one = disk.scrub()
    count = 4 * len(LEDGERS) * ENTRIES
    assert (4, 0, count, count, 0, 0, 0) == (
        one.counts.logs, one.counts.damaged_logs, one.counts.entries, one.counts.verified,
        one.counts.unchecked, one.counts.failed, one.counts.suspected,
    )  # fmt: skip
    sizes = sum(disk.log(number).stat().st_size for number in range(4))
    assert (sizes, sizes - 4 * 1_024) == (one.counts.total_bytes, one.counts.read_bytes)
    assert ({}, []) == (named(one), one.problems)
    assert NOW_MS == one.counts.ended_at_ms


def test_a_flipped_bit_of_a_body_names_its_entry(disk: Disk) -> None:
    places = disk.write(0, everything())
    flip_bit(disk.log(0), places[8, 20] + 40)
    one = disk.scrub()
    assert Suspicion.DIGEST is named(one)[8, 20]
    assert (1, len(LEDGERS) * ENTRIES - 1) == (one.counts.failed, one.counts.verified)


def test_a_flipped_bit_before_its_ledgers_digest_is_known_names_its_entry(disk: Disk) -> None:
    """The first entry of a ledger fails before any other passed."""
    places = disk.write(0, everything())
    flip_bit(disk.log(0), places[8, 0] + 40)
    one = disk.scrub()
    assert Suspicion.DIGEST is named(one)[8, 0]
    assert (1, 0) == (one.counts.failed, one.counts.unchecked)


@pytest.mark.parametrize("at", [3, 7, 12], ids=["ledger", "ledger's end", "entry"])
def test_a_flipped_bit_of_the_ids_names_the_entry_that_is_missing(disk: Disk, at: int) -> None:
    """The record names another entry than it is: the one behind its predecessor is named."""
    places = disk.write(0, everything())
    flip_bit(disk.log(0), places[8, 20] + at)
    assert (8, 20) in named(disk.scrub())


@pytest.mark.parametrize("at", [-4, -3, -2, -1])
def test_behind_a_broken_size_reading_goes_on(disk: Disk, at: int) -> None:
    """The entries at the damage are named, and later damage is found."""
    places = disk.write(0, everything())
    flip_bit(disk.log(0), places[8, 20] + at)
    flip_bit(disk.log(0), places[300, 30] + 40)
    one = disk.scrub()
    assert {(8, 20), (300, 30)} <= named(one).keys()
    assert one.counts.verified >= len(LEDGERS) * ENTRIES - 3


def test_behind_a_zeroed_sector_reading_goes_on(disk: Disk) -> None:
    places = disk.write(0, everything())
    data = bytearray(disk.log(0).read_bytes())
    start, end = places[8, 10] - 4, places[8, 13] - 4
    data[start:end] = bytes(end - start)
    disk.log(0).write_bytes(data)
    one = disk.scrub()
    assert {(8, 10), (8, 11), (8, 12)} <= named(one).keys()
    assert (1, len(LEDGERS) * ENTRIES - 3) == (one.counts.damaged_logs, one.counts.verified)


def test_the_zeroes_of_reserved_space_are_no_damage(disk: Disk) -> None:
    disk.write(0, everything(), is_closed=False)
    with disk.log(0).open("ab") as file:
        file.write(bytes(3 * 2**20))
    one = disk.scrub()
    assert (0, {}) == (one.counts.damaged_logs, named(one))


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_cut_log_names_what_may_have_followed(disk: Disk, is_closed: bool) -> None:
    places = disk.write(0, everything(), is_closed=is_closed)
    for number in (1, 2):
        disk.write(number, entries_of(9))
    os.truncate(disk.log(0), places[8, 20] + 10)
    one = disk.scrub()
    assert {(8, 20), (8, 21)} <= named(one).keys()
    assert 1 == one.counts.damaged_logs


@pytest.mark.parametrize("newest", [0, 1])
def test_a_log_that_is_written_may_end_inside_a_record(disk: Disk, newest: int) -> None:
    """The newest one, or the one before it: a bookie creates its next log early."""
    places = disk.write(0, everything(), is_closed=False)
    os.truncate(disk.log(0), places[8, 20] + 10)
    if newest:
        disk.log(1).touch()
    one = disk.scrub()
    assert (0, {}) == (one.counts.damaged_logs, named(one))
    assert ENTRIES + 20 == one.counts.verified


def test_a_log_of_other_ledgers_names_what_the_index_places_in_it(disk: Disk) -> None:
    """Two logs were swapped. Each is sound in itself."""
    for number, ledger in enumerate((7, 8, 9, 10)):
        places = disk.write(number, entries_of(ledger))
        write_index(disk.current, ledger, {e: (number, at) for (_, e), at in places.items()})
    assert {} == named(disk.scrub())
    swap(disk.log(0), disk.log(1))
    found = named(disk.scrub())
    assert dict.fromkeys((7, 8), Suspicion.OTHER_RECORD) == {
        ledger: why for (ledger, _), why in found.items()
    }


def swap(one: Path, other: Path) -> None:
    kept = one.with_suffix(".kept")
    one.rename(kept)
    other.rename(one)
    kept.rename(other)


def test_a_missing_log_names_what_the_index_places_in_it(disk: Disk) -> None:
    for number, ledger in enumerate((7, 8)):
        places = disk.write(number, entries_of(ledger))
        write_index(disk.current, ledger, {e: (number, at) for (_, e), at in places.items()})
    disk.log(0).unlink()
    found = named(disk.scrub())
    assert {(7, 0): Suspicion.LOG_MISSING, (7, ENTRIES - 1): Suspicion.LOG_MISSING} == found


def test_a_place_that_the_index_gave_up_meanwhile_is_not_named(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction wrote the entries again and removed the log after the index was read."""
    places = disk.write(1, entries_of(7))
    write_index(disk.current, 7, {entry: (0, at) for (_, entry), at in places.items()})
    moved = {entry: (1, at) for (_, entry), at in places.items()}
    paths = scrub_pass.LogGroup.paths

    def move_first(group: scrub_pass.LogGroup) -> dict[int, Path]:
        write_index(disk.current, 7, moved)
        return paths(group)

    monkeypatch.setattr(scrub_pass.LogGroup, "paths", move_first)
    assert {} == named(disk.scrub())


def test_the_index_of_db_ledger_storage_is_compared_too(tmp_path: Path) -> None:
    """A log was swapped for one that the index does not name, and another is missing."""
    disk = Disk(tmp_path / "ledgers", tmp_path / "links", is_db=True)
    with LocationIndex(disk.directory) as index:
        for number, ledger in enumerate((7, 8, 9)):
            for (_, entry), at in disk.write(number, entries_of(ledger)).items():
                index.put_raw(
                    ledger.to_bytes(8) + entry.to_bytes(8), number.to_bytes(4) + at.to_bytes(4)
                )
        assert {} == named(disk.scrub())
        disk.write(0, entries_of(11))
        disk.log(2).unlink()
        found = named(disk.scrub())
    ends = (0, ENTRIES - 1)
    assert found == {
        **{(7, entry): Suspicion.OTHER_RECORD for entry in ends},
        **{(9, entry): Suspicion.LOG_MISSING for entry in ends},
    }


def test_a_file_that_is_no_entry_log_is_damaged_and_the_pass_goes_on(disk: Disk) -> None:
    disk.write(0, entries_of(7))
    for number in (1, 2, 3):
        disk.write(number, entries_of(8))
    disk.log(0).write_bytes(b"?" * 5_000)
    one = disk.scrub()
    assert (4, 1, 3 * ENTRIES) == (one.counts.logs, one.counts.damaged_logs, one.counts.verified)


def test_a_log_that_cannot_be_opened_is_damaged_and_the_pass_goes_on(disk: Disk) -> None:
    """A directory of that name cannot be read, and neither can a file of a failing disk."""
    disk.log(0).mkdir(parents=True)
    disk.write(1, entries_of(8))
    one = disk.scrub()
    assert (2, 1, ENTRIES) == (one.counts.logs, one.counts.damaged_logs, one.counts.verified)
    assert one.problems and str(disk.log(0)) in one.problems[0]


def test_a_directory_that_cannot_be_listed_is_counted(tmp_path: Path) -> None:
    (tmp_path / "ledgers").write_text("a file")
    one = Disk(tmp_path / "ledgers", tmp_path / "links").scrub()
    assert (1, 0) == (one.counts.unlisted, one.counts.logs)


@pytest.mark.parametrize("digest", [DigestType.HMAC, DigestType.DUMMY])
def test_what_cannot_be_checked_is_counted_and_few_of_it_are_named(
    disk: Disk, digest: DigestType
) -> None:
    disk.write(0, entries_of(7))
    disk.write(1, entries_of(8), digest)
    one = disk.scrub()
    assert (ENTRIES, ENTRIES, 0) == (one.counts.verified, one.counts.unchecked, one.counts.failed)
    assert {Suspicion.NO_DIGEST} == set(named(one).values())


def test_a_bookie_of_ledgers_that_cannot_be_checked_names_none_of_them(disk: Disk) -> None:
    for number in range(3):
        disk.write(number, entries_of(number, 0, 400), DigestType.HMAC)
    one = disk.scrub()
    assert (3 * 401, {}) == (one.counts.unchecked, named(one))


def test_the_candidates_of_one_log_do_not_hide_those_of_others(disk: Disk) -> None:
    """Few of a log are named, few in all, and all are counted."""
    for number in range(8):
        places = disk.write(number, entries_of(number, 0, 399))
        flip_bit(disk.log(number), *(at + 40 for (_, entry), at in places.items() if entry % 2))
    one = disk.scrub()
    assert CANDIDATES_MAX == len(named(one))
    assert {0, 1, 2, 3, 4} == {ledger for ledger, _ in named(one)}
    assert 8 * 200 == one.counts.failed <= one.counts.suspected


def test_a_pass_goes_on_where_it_stopped(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read twice, from any position."""
    monkeypatch.setattr(scrub_pass, "CHUNK_BYTES", 1_000)
    for number in range(3):
        disk.write(number, everything())
    groups = groups_of([disk.directory], [disk.directory], disk.links, is_db=False)
    pace = ScrubPace(0, sleep=lambda _: None)
    whole = disk.scrub().counts
    stops = 0
    while True:
        countdown = iter(range(stops, -1, -1))
        stop = partial(stop_at_zero, countdown)
        first = LogPass(groups, pace, lambda: NOW_MS, stop, ScrubPass(0))
        try:
            first.run()
        except StopIteration:
            second = LogPass(
                groups, pace, lambda: NOW_MS, lambda: None,
                first.counts, first.position, first.candidates,
            )  # fmt: skip
            second.run()
            assert whole == second.counts, stops
        else:
            break
        stops += 7
    assert stops > 20


def test_what_a_pass_noted_in_a_log_is_named_wherever_it_was_interrupted(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record with a wrong digest, and a place of the index at which there is none."""
    monkeypatch.setattr(scrub_pass, "CHUNK_BYTES", 1_000)
    places = disk.write(0, everything())
    flip_bit(disk.log(0), places[7, 20] + 40)
    write_index(disk.current, 9, {0: (0, places[7, 30] + 8)})
    whole = disk.scrub()
    assert {(7, 20): Suspicion.DIGEST, (9, 0): Suspicion.OTHER_RECORD}.items() <= named(
        whole
    ).items()
    groups = groups_of([disk.directory], [disk.directory], disk.links, is_db=False)
    pace = ScrubPace(0, sleep=lambda _: None)
    for stops in range(20):
        stop = partial(stop_at_zero, iter(range(stops, -1, -1)))
        first = LogPass(groups, pace, lambda: NOW_MS, stop, ScrubPass(0))
        with suppress(StopIteration):
            first.run()
        second = LogPass(
            groups, pace, lambda: NOW_MS, lambda: None,
            first.counts, first.position, first.candidates,
        )  # fmt: skip
        if first.counts.ended_at_ms is None:
            second.run()
        assert (whole.counts, named(whole)) == (second.counts, named(second)), stops


def test_an_index_that_cannot_be_listed_ends_no_pass(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs are read without it."""
    disk.write(0, everything())

    def failing(_: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "scandir", failing)
    one = disk.scrub()
    assert (1, len(everything())) == (one.counts.logs, one.counts.verified)
    assert ["the index files cannot be listed: [Errno 5] Input/output error"] == one.problems


def test_what_compaction_moves_before_its_turn_is_read_in_the_new_log(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bookie does not check digests when it moves entries."""
    for number in range(3):
        disk.write(number, entries_of(number))
    one = compacting(disk, monkeypatch, times=1)
    assert (3, 3 * ENTRIES - 1, 0) == (one.counts.logs, one.counts.verified, one.counts.unlisted)
    assert {(1, 20): Suspicion.DIGEST} == named(one)


def test_a_pass_that_logs_outrun_does_not_count_as_whole(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they had was not read."""
    for number in range(3):
        disk.write(number, entries_of(number))
    one = compacting(disk, monkeypatch, times=10)
    assert (1, ["the bookie removes logs faster than they are read"]) == (
        one.counts.unlisted,
        one.problems,
    )


def compacting(disk: Disk, monkeypatch: pytest.MonkeyPatch, times: int) -> LogPass:
    """Return a finished pass, in which the next log to be read is moved to a new log after others
    were listed, so many times. The entry 1/20 rots meanwhile.
    """
    paths, moved = scrub_pass.LogGroup.paths, list[int]()

    def move(group: scrub_pass.LogGroup) -> dict[int, Path]:
        found = paths(group)
        if len(moved) < times:
            disk.log(moved[-1] if moved else 1).unlink()
            moved.append(10 + len(moved))
            places = disk.write(moved[-1], entries_of(1))
            flip_bit(disk.log(moved[-1]), places[1, 20] + 40)
        return found

    monkeypatch.setattr(scrub_pass.LogGroup, "paths", move)
    return disk.scrub()


def stop_at_zero(countdown: Iterator[int]) -> None:
    if next(countdown, 1) == 0:
        raise StopIteration


def test_a_scrub_reads_no_faster_than_it_may_and_yields_to_a_busy_disk(tmp_path: Path) -> None:
    """It owes the bytes beyond the rate, and rests for four times as long as a read takes."""
    slept = list[float]()
    path = tmp_path / "log"
    path.write_bytes(bytes(4_000))
    for rate, read_s, rest_s in ((1_000.0, 0.0, 3.0), (0.0, 0.25, 1.0), (0.0, 50.0, 10.0)):
        clock = chain([0.0, 0.0], repeat(read_s))
        pace = ScrubPace(rate, partial(next, clock), slept.append)
        with path.open("rb") as file:
            assert 4_000 == len(pace.read(file.fileno(), 4_000, 0))
        assert rest_s == pytest.approx(slept[-1])


def test_every_byte_and_every_place_of_the_index_counts_in_the_limit(disk: Disk) -> None:
    """Whether the page cache has it or not."""
    places = disk.write(0, entries_of(7))
    write_index(disk.current, 7, {entry: (0, at) for (_, entry), at in places.items()})
    slept = list[float]()
    groups = groups_of([disk.directory], [disk.directory], disk.links, is_db=False)
    pace = ScrubPace(1_000, lambda: 0.0, slept.append)
    one = LogPass(groups, pace, lambda: NOW_MS, lambda: None, ScrubPass(0))
    one.run()
    read = disk.log(0).stat().st_size + 2 * PLACE_COST_BYTES
    assert ENTRIES == one.counts.verified
    assert (read - 1_000) / 1_000 == pytest.approx(slept[-1])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_damage_ends_a_pass_and_what_is_whole_behind_it_is_read(data: st.DataObject) -> None:
    """Any bytes are overwritten, removed or inserted anywhere, in a log and in an index file."""
    with tempfile.TemporaryDirectory() as root:
        disk = Disk(Path(root) / "ledgers", Path(root) / "links")
        places = disk.write(0, everything())
        write_index(disk.current, 7, {e: (0, at) for (i, e), at in places.items() if i == 7})
        disk.write(1, entries_of(9))
        damaged = data.draw(st.sampled_from([disk.log(0), *disk.current.glob("*/*/*.idx")]))
        content = damaged.read_bytes()
        at = data.draw(st.integers(0, len(content)))
        gone = data.draw(st.sampled_from([0, 1, 4, 8, 100, 3_000]))
        new = data.draw(st.sampled_from([b"", b"\0" * gone, b"\xff" * gone, None]))
        new = data.draw(st.binary(max_size=100)) if new is None else new
        damaged.write_bytes(content[:at] + new + content[at + gone :])
        one = disk.scrub()
        assert 2 == one.counts.logs and NOW_MS == one.counts.ended_at_ms
        assert one.counts.verified >= ENTRIES
        kept = one.counts
        assert kept.entries == kept.verified + kept.unchecked + kept.failed


def test_index_files_that_are_none_are_left_out(disk: Disk) -> None:
    """Empty, short, of no ledger, a directory, and one with a single entry far behind."""
    places = disk.write(0, entries_of(7))
    write_index(disk.current, 7, {40_000: (0, places[7, 3])})
    for name, content in {"8": b"", "9": b"BKLE", "a": bytes(1_024 + 7), "x": bytes(2_000)}.items():
        path = disk.current / "0" / "0" / f"{name}.idx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (disk.current / "0" / "1").mkdir()
    (disk.current / "0" / "1" / "1.idx").mkdir()
    assert {(7, 40_000): Suspicion.OTHER_RECORD} == named(disk.scrub())


def test_an_empty_header_of_a_new_log_is_no_damage(disk: Disk) -> None:
    disk.write(0, everything())
    disk.log(1).write_bytes(log_header()[:512])
    assert 0 == disk.scrub().counts.damaged_logs
