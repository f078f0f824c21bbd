"""Frames recorded from real bookies mean the same as the sandbox's answers to the same requests.
Needs no Java.

Record them again after a change of BookKeeper's version or of the requests: `.venv/bin/python
tests/cluster/record_frames.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from support import recorded_frames
from support.bookies_under_test import (
    STORAGES,
    SandboxBookieUnderTest,
    real_bookie,
    sandbox_bookies,
)
from support.real_cluster import RealCluster
from support.recorded_frames import Exchange

from auditor.config import BookieLimits
from auditor.model.availability import DiskSpace
from auditor.wire import entry_availability, frames
from auditor.wire.generated import bookkeeper_protocol_pb2 as pb

Decoded = dict[str, tuple[frames.Response, entry_availability.Decoded | None]]


@pytest.fixture(scope="module")
def seeded_sandbox() -> Iterator[dict[str, SandboxBookieUnderTest]]:
    """Yield sandbox bookies that hold what the recorded ones held."""
    with sandbox_bookies() as bookies:
        for bookie in bookies.values():
            recorded_frames.seed(bookie)
        yield bookies


def decoded(exchanges: Iterable[Exchange]) -> Decoded:
    """Return what the product makes of each answer: the frame, and the list if there is one.

    Of the sizes of disks, which depend on the machine, only whether they are known is compared.
    """
    answers = {one.name: frames.decode_response(one.answer) for one in exchanges}
    return {name: (_without_sizes(answer), _listed(answer)) for name, answer in answers.items()}


def _without_sizes(answer: frames.Response) -> frames.Response:
    if answer.disk is None:
        return answer
    known = (None if size is None else 1 for size in answer.disk)
    return answer._replace(disk=DiskSpace(*known))


def _listed(answer: frames.Response) -> entry_availability.Decoded | None:
    if (
        answer.operation != frames.Operation.GET_LIST_OF_ENTRIES_OF_LEDGER
        or answer.status != frames.Status.EOK
    ):
        return None
    return entry_availability.decode(answer.payload, BookieLimits().list_groups_max)


def fields(exchanges: Iterable[Exchange]) -> dict[str, pb.Response]:
    """Return each answer field by field, without values that depend on the machine: disk sizes, and
    maxLAC, which is not read here.

    The presence of these fields is compared.
    """
    messages = {one.name: pb.Response.FromString(one.answer) for one in exchanges}
    for message in messages.values():
        info, read = message.getBookieInfoResponse, message.readResponse
        if info.HasField("totalDiskCapacity"):
            info.totalDiskCapacity = 1
        if info.HasField("freeDiskSpace"):
            info.freeDiskSpace = 1
        if read.HasField("maxLAC"):
            read.maxLAC = 1
    return messages


@pytest.mark.parametrize("kind", STORAGES)
def test_recording_asks_what_the_code_asks(kind: str) -> None:
    """The recorded requests are today's, byte for byte: a changed one must be recorded again."""
    assert {
        one.name: one.request for one in recorded_frames.read(kind)
    } == recorded_frames.requests()


@pytest.mark.parametrize("kind", STORAGES)
def test_sandbox_answers_decode_as_recorded_ones(
    seeded_sandbox: dict[str, SandboxBookieUnderTest], kind: str
) -> None:
    """The product decodes the sandbox's answer and a real bookie's recorded answer to the same
    value.
    """
    said = recorded_frames.ask(seeded_sandbox[kind], recorded_frames.requests())
    assert decoded(recorded_frames.read(kind)) == decoded(said)


@pytest.mark.parametrize("kind", STORAGES)
def test_sandbox_answers_field_by_field_as_recorded_ones(
    seeded_sandbox: dict[str, SandboxBookieUnderTest], kind: str
) -> None:
    """Also in the fields that the product does not read, the sandbox says what the recorded bookie
    said.
    """
    said = recorded_frames.ask(seeded_sandbox[kind], recorded_frames.requests())
    assert fields(recorded_frames.read(kind)) == fields(said)


@pytest.mark.real
@pytest.mark.parametrize("kind", STORAGES)
def test_real_bookies_still_say_what_was_recorded(shared_cluster: RealCluster, kind: str) -> None:
    """A recording that no longer matches the pinned BookKeeper is noticed."""
    bookie = real_bookie(shared_cluster, kind)
    recorded_frames.seed(bookie)
    said = recorded_frames.ask(bookie, recorded_frames.requests())
    assert fields(recorded_frames.read(kind)) == fields(said)
    assert decoded(recorded_frames.read(kind)) == decoded(said)
