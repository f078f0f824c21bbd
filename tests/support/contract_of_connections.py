"""The contract about connections: what a bookie says of itself, versions, frames, and which answer
belongs to which request.
"""

from __future__ import annotations

import struct
from collections import Counter

from support.bookie_contract import BookieUnderTest, Observation, case, closes, connect, statuses
from support.raw_bookie import frame, info_request, list_request, read_request, request, status_name

from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

TXN_ID_MAX = 2**64 - 1

# GET_BOOKIE_INFO


@case(
    [
        ("EOK", "EOK", False, False),
        ("EOK", "EOK", True, False),
        ("EOK", "EOK", False, True),
        ("EOK", "EOK", True, True),
    ]
)
def bookie_info_gives_the_fields_of_the_mask_and_no_others(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    observed = []
    with connect(bookie) as connection:
        for mask in (0, 1, 2, 3):
            response = connection.ask(info_request(mask, connection.next_txn_id()))
            info = response.getBookieInfoResponse
            present = (info.HasField("totalDiskCapacity"), info.HasField("freeDiskSpace"))
            observed.append((*statuses(response, "getBookieInfoResponse"), *present))
    return observed


@case(True)
def bookie_info_has_a_disk_that_is_not_overfull(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    with connect(bookie) as connection:
        info = connection.ask(info_request(3, 1)).getBookieInfoResponse
    return 0 < info.freeDiskSpace <= info.totalDiskCapacity


# AUTH and START_TLS on a bookie that has neither


@case([("EOK", "AuthDisabledPlugin", b""), ("EOK", "AuthDisabledPlugin", b"")])
def auth_of_any_plugin_is_answered_by_the_disabled_plugin(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    observed = []
    with connect(bookie) as connection:
        for plugin, payload in (("sasl", b""), ("nonsense", b"token")):
            message = request("AUTH", connection.next_txn_id())
            message.authRequest.authPluginName, message.authRequest.payload = plugin, payload
            answer = connection.ask(message)
            observed.append(
                (
                    status_name(answer.status),
                    answer.authResponse.authPluginName,
                    answer.authResponse.payload,
                )
            )
    return observed


@case(("EBADREQ", "EOK"))
def start_tls_is_a_bad_request_and_the_connection_stays_usable(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    message = request("START_TLS", 1)
    message.startTLSRequest.SetInParent()
    with connect(bookie) as connection:
        refused = connection.ask(message)
        return (status_name(refused.status), status_name(connection.ask(info_request(1, 2)).status))


# Versions, operations, frames


@case([("EBADVERSION", "EBADVERSION", "VERSION_THREE")] * 4)
def another_header_version_is_a_bad_version(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    observed = []
    with connect(bookie) as connection:
        for version in (pb.VERSION_ONE, pb.VERSION_TWO):
            for message, answer in (
                (
                    list_request(ledger_id, connection.next_txn_id()),
                    "getListOfEntriesOfLedgerResponse",
                ),
                (read_request(ledger_id, 0, connection.next_txn_id()), "readResponse"),
            ):
                message.header.version = version
                response = connection.ask(message)
                observed.append(
                    (*statuses(response, answer), pb.ProtocolVersion.Name(response.header.version))
                )
    return observed


@case("closed")
def an_unknown_operation_closes(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    return closes(bookie, bytes.fromhex("00000008" + "0a06" + "0803" + "1063" + "1802"))


@case("closed")
def garbage_in_a_frame_closes(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    return closes(bookie, struct.pack(">i", 16) + b"\xff" * 16)


@case("closed")
def an_empty_frame_closes(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    return closes(bookie, struct.pack(">i", 0))


@case("closed")
def a_frame_of_more_than_5_mib_closes_at_its_length(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    return closes(bookie, struct.pack(">i", 5 * 2**20 + 1))


@case("closed")
def a_negative_length_closes(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    return closes(bookie, struct.pack(">i", -1))


@case("EOK")
def a_frame_may_come_byte_by_byte(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    with connect(bookie) as connection:
        for byte in frame(info_request(3, 1)):
            connection.send_bytes(bytes([byte]))
        return status_name(connection.receive().status)


@case("EOK")
def other_connections_survive_one_that_sent_garbage(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    with connect(bookie) as connection:
        assert closes(bookie, b"\x00\x00\x00\x04\xff\xff\xff\xff") == "closed"
        return status_name(connection.ask(info_request(1, 1)).status)


# Correlation


@case([("ENOENTRY", 100), ("ENOLEDGER", 100), ("EOK", 200)])
def pipelined_requests_are_all_answered_by_txn_id(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    bookie.hold(ledger_id, (0, 9))
    messages = []
    for number in range(100):
        messages += [
            list_request(ledger_id, 4 * number),
            list_request(ledger_id + 1, 4 * number + 1),
            read_request(ledger_id, number % 10, 4 * number + 2),
            read_request(ledger_id, 10 + number, 4 * number + 3),
        ]
    with connect(bookie) as connection:
        answers = connection.ask_all(messages)
    assert sorted(answers) == list(range(400)), "a request without an answer"
    words = {txn_id: status_name(answer.status) for txn_id, answer in answers.items()}
    expected = ("EOK", "ENOLEDGER", "EOK", "ENOENTRY")
    assert all(word == expected[txn_id % 4] for txn_id, word in words.items()), (
        "an answer under another request's txnId"
    )
    return sorted(Counter(words.values()).items())


@case([(5, "ENOLEDGER"), (5, "EOK")])
def one_txn_id_used_twice_gets_two_answers(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    bookie.hold(ledger_id, (0, 9))
    with connect(bookie) as connection:
        connection.send(list_request(ledger_id, 5), list_request(ledger_id + 1, 5))
        answers = [connection.receive() for _ in range(2)]
    return sorted((answer.header.txnId, status_name(answer.status)) for answer in answers)


@case([0, 2**63, TXN_ID_MAX])
def txn_ids_of_64_bits_are_echoed(bookie: BookieUnderTest, ledger_id: int) -> Observation:
    with connect(bookie) as connection:
        return [
            connection.ask(info_request(1, txn_id)).header.txnId
            for txn_id in (0, 2**63, TXN_ID_MAX)
        ]


@case(["GET_LIST_OF_ENTRIES_OF_LEDGER", "READ_ENTRY", "GET_BOOKIE_INFO"])
def an_answer_names_the_operation_of_its_request(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    messages = (list_request(ledger_id, 1), read_request(ledger_id, 0, 2), info_request(1, 3))
    with connect(bookie) as connection:
        return [
            pb.OperationType.Name(connection.ask(message).header.operation) for message in messages
        ]


@case(["EBADREQ", "EBADREQ", "EBADREQ"])
def operations_that_version_3_lacks_are_bad_requests(
    bookie: BookieUnderTest, ledger_id: int
) -> Observation:
    operations = ("RANGE_READ_ENTRY", "RANGE_ADD_ENTRY", "BATCH_READ_ENTRY")
    with connect(bookie) as connection:
        return [
            status_name(connection.ask(request(name, connection.next_txn_id())).status)
            for name in operations
        ]
