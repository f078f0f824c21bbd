"""What a lister answers as bookies do, and what it answers otherwise; and listers beside real
bookies, on which the same holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from support import contract_of_connections, contract_of_ledgers
from support.bookie_contract import CASES, BookieUnderTest
from support.bookies_under_test import fence_unknown
from support.listers import await_listed
from support.raw_bookie import RawBookie
from support.real_bookkeeper import list_with_client
from support.real_jars import bookkeeper_jars

CASE_MODULES = (contract_of_connections, contract_of_ledgers)  # importing them enters their cases
EMPTY, REFUSED = ("EOK", "EOK", True, []), ("EIO", "EIO", True, None)
DIFFERENT = {"list_of_an_unknown_ledger": EMPTY, "list_of_a_negative_ledger_id": REFUSED}
"""What a lister answers otherwise than a bookie: it cannot know that a ledger is not there."""
SAME = (
    "list_of_a_known_ledger_without_entries",
    "list_of_one_run",
    "list_of_a_striped_ledger_is_one_group_a_run",
    "list_of_a_later_segment_with_a_hole",
    "list_of_a_single_entry",
    "list_whose_last_entry_begins_an_index_page",
    "list_of_50_000_runs_comes_in_one_frame",
    "list_of_the_largest_ledger_id",
    "bookie_info_gives_the_fields_of_the_mask_and_no_others",
    "bookie_info_has_a_disk_that_is_not_overfull",
    "auth_of_any_plugin_is_answered_by_the_disabled_plugin",
    "start_tls_is_a_bad_request_and_the_connection_stays_usable",
    "another_header_version_is_a_bad_version",
    "an_unknown_operation_closes",
    "garbage_in_a_frame_closes",
    "an_empty_frame_closes",
    "a_frame_of_more_than_5_mib_closes_at_its_length",
    "a_negative_length_closes",
    "a_frame_may_come_byte_by_byte",
    "other_connections_survive_one_that_sent_garbage",
    "txn_ids_of_64_bits_are_echoed",
)
"""The cases of the bookies' contract that are about what a lister answers."""
CASES_OF_LISTERS = (*SAME, *DIFFERENT)
FIRST_ID = 480_000
RUNS = {
    FIRST_ID: [(0, 9)],
    FIRST_ID + 1: [(0, 1), (3, 4), (6, 7), (9, 9)],
    FIRST_ID + 2: [(1200, 1202), (1205, 1999)],
    FIRST_ID + 3: [(entry, entry) for entry in range(0, 2000, 2)],
}
"""Ledgers that BookKeeper's own client lists, and the entries they have."""


@dataclass(frozen=True)
class RealListerUnderTest:
    """A lister beside a real bookie, which `hold` writes to; the lister's address is `host` and
    `port`.
    """

    implementation: str
    storage: str
    host: str
    port: int
    bookie: tuple[str, int]
    written_last: Iterator[int] = field(default_factory=lambda: count(900_000_000))
    """Ids of ledgers that nothing else uses."""

    def hold(self, ledger_id: int, *runs: tuple[int, int]) -> None:
        """Return once the bookie has flushed what it was given and the lister has seen it.

        A bookie flushes all ledgers at once: when it has flushed what was written last, it has
        flushed all.
        """
        with RawBookie(*self.bookie) as connection:
            connection.add(ledger_id, runs)
            last = next(self.written_last)
            connection.add(last, [(0, 0)])
        await_listed(f"{self.host}:{self.port}", last)

    def know_empty(self, ledger_id: int) -> None:
        fence_unknown(*self.bookie, ledger_id)


def check_lister(name: str, lister: BookieUnderTest) -> None:
    """Observe the case of that name on a lister."""
    (case,) = (one for one in CASES if one.name == name)
    expected = DIFFERENT.get(name, case.expected_of("SortedLedgerStorage"))
    observed = case.observe(lister, case.ledger_id)
    assert expected == observed, f"{name}: expected {expected}, observed {observed}"


def lists_of_java_client(bookie: BookieUnderTest) -> list[str]:
    """Write RUNS to it, and return the lines in which BookKeeper's own client prints their lists
    and the bookie's GET_BOOKIE_INFO.
    """
    for ledger_id, runs in RUNS.items():
        bookie.hold(ledger_id, *runs)
    return list_with_client(bookkeeper_jars(), f"{bookie.host}:{bookie.port}", *RUNS).splitlines()
