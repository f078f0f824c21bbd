"""The contract about what a bookie holds: lists, reads, adds."""

from __future__ import annotations

from support.bookie_contract import (
    BookieUnderTest,
    Observation,
    case,
    connect,
    groups,
    listing,
    reading,
    statuses,
)
from support.raw_bookie import (
    add_request,
    entry_body,
    fence_request,
    list_request,
    master_key,
    read_request,
    status_name,
)

# GET_LIST_OF_ENTRIES_OF_LEDGER


@case(("ENOLEDGER", "ENOLEDGER", True, None))
def list_of_an_unknown_ledger(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    return listing(bookie, ledger_id)


@case(("EOK", "EOK", True, []))
def list_of_a_known_ledger_without_entries(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.know_empty(ledger_id)
    return listing(bookie, ledger_id)


@case(("EOK", "EOK", True, [(0, 0, 10, 0)]))
def list_of_one_run(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.hold(ledger_id, (0, 9))
    return listing(bookie, ledger_id)


@case(("EOK", "EOK", True, [(0, 0, 2, 0), (3, 3, 2, 0), (6, 6, 2, 0), (9, 9, 1, 0)]))
def list_of_a_striped_ledger_is_one_group_a_run(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    bookie.hold(ledger_id, (0, 1), (3, 4), (6, 7), (9, 9))
    return listing(bookie, ledger_id)


@case(("EOK", "EOK", True, [(1200, 1200, 3, 0), (1205, 1205, 795, 0)]))
def list_of_a_later_segment_with_a_hole(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.hold(ledger_id, (1200, 1202), (1205, 1999))
    return listing(bookie, ledger_id)


@case(
    {
        "SortedLedgerStorage": ("EOK", "EOK", True, [(0, 0, 1, 0)]),
        "InterleavedLedgerStorage": ("EOK", "EOK", True, []),
    }
)
def list_of_a_single_entry(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.hold(ledger_id, (0, 0))
    return listing(bookie, ledger_id)


@case(
    {
        "SortedLedgerStorage": ("EOK", "EOK", True, [(0, 0, 1025, 0)]),
        "InterleavedLedgerStorage": ("EOK", "EOK", True, [(0, 0, 1024, 0)]),
    }
)
def list_whose_last_entry_begins_an_index_page(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    bookie.hold(ledger_id, (0, 1024))
    return listing(bookie, ledger_id)


@case(("EOK", "EOK", 0, 1024))
def the_entry_a_list_left_out_reads_back(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.hold(ledger_id, (0, 0))
    bookie.hold(ledger_id + 1, (0, 1024))
    single, page = reading(bookie, ledger_id, 0), reading(bookie, ledger_id + 1, 1024)
    return (single[0], page[0], single[3], page[3])


@case((50_000, (0, 0, 1, 0), (99_998, 99_998, 1, 0), 64 + 24 * 50_000))
def list_of_50_000_runs_comes_in_one_frame(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.hold(ledger_id, *((entry_id, entry_id) for entry_id in range(0, 100_000, 2)))
    with connect(bookie) as connection:
        response = connection.ask(list_request(ledger_id, 1))
    found = groups(response) or []
    return (
        len(found),
        found[0],
        found[-1],
        len(response.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger),
    )


@case(("EOK", "EOK", True, [(0, 0, 3, 0)]))
def list_of_the_largest_ledger_id(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.hold(2**63 - 1, (0, 2))
    return listing(bookie, 2**63 - 1)


@case(("ENOLEDGER", "ENOLEDGER", True, None))
def list_of_a_negative_ledger_id(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    return listing(bookie, -5)


# READ_ENTRY


@case(("EOK", "EOK", True, 4))
def read_of_an_entry_that_is_there(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.hold(ledger_id, (4, 5))
    return reading(bookie, ledger_id, 4)


@case(True)
def read_returns_the_entry_as_it_was_written(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    bookie.hold(ledger_id, (0, 3))
    with connect(bookie) as connection:
        return connection.ask(read_request(ledger_id, 3, 1)).readResponse.body == entry_body(
            ledger_id, 3
        )


@case(("ENOENTRY", "ENOENTRY", True, None))
def read_of_a_hole(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.hold(ledger_id, (0, 3), (5, 9))
    return reading(bookie, ledger_id, 4)


@case(("ENOENTRY", "ENOENTRY", True, None))
def read_past_the_last_entry(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.hold(ledger_id, (0, 3))
    return reading(bookie, ledger_id, 4_000)


@case(("ENOLEDGER", "ENOLEDGER", True, None))
def read_of_an_unknown_ledger(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    return reading(bookie, ledger_id, 0)


@case(("EOK", "EOK", True, 17))
def read_of_minus_one_is_the_highest_entry_under_its_true_id(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    bookie.hold(ledger_id, (0, 9), (17, 17))
    return reading(bookie, ledger_id, -1)


@case(("ENOENTRY", "ENOENTRY", True, None))
def read_of_minus_one_in_a_known_ledger_without_entries(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    bookie.know_empty(ledger_id)
    return reading(bookie, ledger_id, -1)


@case(("ENOLEDGER", "ENOLEDGER", True, None))
def read_of_minus_one_in_an_unknown_ledger(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    return reading(bookie, ledger_id, -1)


@case(("ENOLEDGER", "ENOLEDGER", True, None))
def read_of_a_negative_ledger_id(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    return reading(bookie, -5, 0)


@case(("EOK", False))
def read_ignores_a_wrong_master_key_and_echoes_no_priority(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    bookie.hold(ledger_id, (0, 0))
    message = read_request(ledger_id, 0, 1)
    message.readRequest.masterKey = b"x" * 20
    message.header.priority = 7
    with connect(bookie) as connection:
        response = connection.ask(message)
    return (status_name(response.status), response.header.HasField("priority"))


# ADD_ENTRY: only tests send it


@case(("EOK", "EOK", [(7, 7, 1, 0)]))
def an_added_entry_is_listed(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    with connect(bookie) as connection:
        response = connection.ask(
            add_request(ledger_id, 7, entry_body(ledger_id, 7), master_key(), 1)
        )
        listed = connection.ask(list_request(ledger_id, 2))
    return (*statuses(response, "addResponse"), groups(listed))


@case(
    [(0, "EBADREQ", "EBADREQ"), (23, "EBADREQ", "EBADREQ"), (24, "EOK", "EOK"), (31, "EOK", "EOK")]
)
def an_add_without_ids_and_lac_is_a_bad_request(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    observed = []
    with connect(bookie) as connection:
        for number, length in enumerate((0, 23, 24, 31)):
            body = entry_body(ledger_id + number, 0)[:length]
            response = connection.ask(
                add_request(ledger_id + number, 0, body, master_key(), number)
            )
            observed.append((length, *statuses(response, "addResponse")))
    return observed


@case([("EOK", "EOK"), ("EUA", "EUA"), ("EOK", "EOK")])
def an_add_with_another_master_key_is_not_authorised(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    observed = []
    with connect(bookie) as connection:
        for number, password in enumerate((b"one", b"two", b"one")):
            body = entry_body(ledger_id, number)
            response = connection.ask(
                add_request(ledger_id, number, body, master_key(password), number)
            )
            observed.append(statuses(response, "addResponse"))
    return observed


@case(
    (("EOK", "EOK"), ("EOK", "EOK", True, [(6, 6, 1, 0)]), ("ENOLEDGER", "ENOLEDGER", True, None))
)
def an_add_stores_the_ids_of_the_body_not_those_of_the_request(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    with connect(bookie) as connection:
        response = connection.ask(
            add_request(ledger_id, 5, entry_body(ledger_id + 1, 6), master_key(), 1)
        )
    return (
        statuses(response, "addResponse"),
        listing(bookie, ledger_id + 1),
        listing(bookie, ledger_id),
    )


@case(("EOK", "EOK", True))
def an_add_with_a_wrong_digest_is_stored_and_read_as_it_is(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    body = entry_body(ledger_id, 3)
    corrupt = body[:-1] + bytes((body[-1] ^ 1,))
    with connect(bookie) as connection:
        added = connection.ask(add_request(ledger_id, 3, corrupt, master_key(), 1))
        read = connection.ask(read_request(ledger_id, 3, 2))
    return (*statuses(added, "addResponse"), read.readResponse.body == corrupt)


# Fencing: only tests send it


@case(["EOK", "EUA", "EUA", "ENOENTRY", "EFENCED", "EOK"])
def fencing_needs_the_master_key_and_ends_the_adds(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    without_key = fence_request(ledger_id, b"", 2)
    without_key.readRequest.ClearField("masterKey")
    messages = (
        add_request(ledger_id, 5, entry_body(ledger_id, 5), master_key(), 1),
        without_key,
        fence_request(ledger_id, master_key(b"another"), 3),
        fence_request(ledger_id, master_key(), 4),
        add_request(ledger_id, 6, entry_body(ledger_id, 6), master_key(), 5),
        read_request(ledger_id, 5, 6),
    )
    with connect(bookie) as connection:
        return [status_name(connection.ask(message).status) for message in messages]
