"""Which errors are those of the auditor's own host, and which are the peer's."""

from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from auditor.errors import LocalFault, OutputError, text_of
from auditor.local_faults import (
    BARRED,
    EXHAUSTED,
    FILES,
    RESOLVER,
    bar,
    exhaustion,
    local_fault,
    local_fault_in,
    start_fault,
)

PEERS = (
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.ETIMEDOUT,
    errno.EPIPE,
    errno.ECONNABORTED,
)
"""What a peer, its host or its network says."""


@contextmanager
def descriptors_at_most(count: int) -> Iterator[None]:
    """Limit the descriptors of this process meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("number", EXHAUSTED)
def test_something_used_up_is_this_hosts_fault_whatever_was_tried(number: int) -> None:
    """Both for a connection and for our own work; never a bar to one peer."""
    error = OSError(number, os.strerror(number))
    for fault in (exhaustion(error), local_fault(error)):
        assert f"{EXHAUSTED[number]} ([Errno {number}] {os.strerror(number)})" == str(fault)
    assert bar(error) is None


@pytest.mark.parametrize("number", FILES)
def test_a_disk_that_fails_is_this_hosts_fault_where_a_file_is_written(number: int) -> None:
    """A connection is no file: there the errno says nothing of a disk."""
    error = OSError(number, os.strerror(number))
    assert str(local_fault(error)).startswith(FILES[number])
    assert exhaustion(error) is None


@pytest.mark.parametrize("number", PEERS)
def test_what_the_peer_says_is_no_fault_of_this_host(number: int) -> None:
    """A bookie that refuses, resets or is down is evidence about it."""
    error = OSError(number, os.strerror(number))
    assert (None, None, None) == (exhaustion(error), local_fault(error), bar(error))


@pytest.mark.parametrize("number", BARRED)
def test_the_way_to_one_peer_may_be_barred_on_this_host(number: int) -> None:
    """That ends no command: other peers may be reached."""
    error = OSError(number, os.strerror(number))
    assert BARRED[number] == bar(error)
    assert exhaustion(error) is None


@pytest.mark.parametrize(
    ("code", "is_ours"),
    [*((code, True) for code in RESOLVER), (socket.EAI_NONAME, False)],
)
def test_a_resolver_that_fails_is_distinguished_from_a_name_that_does_not_exist(
    code: int, is_ours: bool
) -> None:
    """EAI_NONAME is an answer about the name."""
    assert is_ours == (bar(socket.gaierror(code, "x")) is not None)


def test_what_a_process_without_descriptors_raises_is_recognised() -> None:
    """A socket, a file and a list of a directory."""

    def tries() -> Iterator[BaseException]:
        for work in (
            socket.socket,
            lambda: Path("/dev/null").read_bytes(),
            lambda: os.listdir("/"),
        ):
            with pytest.raises(OSError) as raised, descriptors_at_most(0):
                work()
            yield raised.value

    assert all(exhaustion(error) is not None for error in tries())


def test_a_full_disk_is_recognised_through_what_arrow_raises() -> None:
    """Arrow keeps the errno; the error tree keeps it as the cause."""
    with pytest.raises(OSError) as raised, Path("/dev/full").open("w") as file:
        file.write("x")
    try:
        raise OutputError("cannot write") from raised.value
    except OutputError as error:
        assert "is full" in str(local_fault(error))


@pytest.mark.parametrize(
    ("error", "has"),
    [
        (MemoryError(), "no more memory"),
        (pa.ArrowMemoryError("malloc of size 64 failed"), "no more memory"),
        (RuntimeError("can't start new thread"), "no more threads"),
        (ImportError("libarrow.so: failed to map segment from shared object"), "no more memory"),
        (OSError("Too many open files"), "no file descriptor"),
        (ExceptionGroup("two", [ValueError(), MemoryError()]), "no more memory"),
    ],
)
def test_a_library_that_keeps_only_the_words_is_understood(error: Exception, has: str) -> None:
    """The type of the exception or its text says it."""
    assert has in str(local_fault(error))


def test_a_lack_that_another_error_hides_is_found() -> None:
    """Both as its cause and as what was handled when it was raised."""
    try:
        try:
            raise OSError(errno.EMFILE, "Too many open files")
        except OSError:
            raise KeyError("x") from None
    except KeyError as error:
        assert local_fault(error) is not None


def test_a_fault_that_has_its_sentence_keeps_it() -> None:
    """Nothing is wrapped twice."""
    fault = LocalFault("the clock is wrong")
    assert fault is local_fault(fault)


@pytest.mark.parametrize(
    "error", [ValueError("x"), RuntimeError("no"), AssertionError(), OSError()]
)
def test_a_fault_of_our_logic_is_not_blamed_on_the_host(error: Exception) -> None:
    """Exit code 4 stays for these."""
    assert local_fault(error) is None


def test_errors_of_several_addresses_in_one_text_are_distinguished() -> None:
    """asyncio joins them where they differ, without an errno."""
    refused, full = "[Errno 111] Connection refused", "[Errno 24] Too many open files"
    assert exhaustion(OSError(f"Multiple exceptions: {refused}, {full}")) is not None
    assert exhaustion(OSError(f"Multiple exceptions: {refused}, {refused}")) is None


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("OSError: [Errno 24] Too many open files\n\tat org.apache", "no file descriptor"),
        ("java.lang.OutOfMemoryError: unable to create native thread", "no more threads"),
        ("java.lang.OutOfMemoryError: Java heap space", "no more memory"),
        ("OSError: [Errno 28] x", "is full"),
        ("ExceptionInInitializerError: Cannot unpack libzstd: File too large", "largest size"),
        ("java.io.IOException: Read-only file system", "read-only"),
        ("ValueError: nothing of the kind", None),
    ],
)
def test_the_text_of_a_task_is_read_like_an_error(text: str, has: str | None) -> None:
    """No exception is left of what a Spark task raised."""
    fault = local_fault_in(text)
    assert (has is None and fault is None) or (has is not None and has in str(fault))


def test_no_more_processes_is_this_hosts_fault_and_a_missing_program_is_not() -> None:
    """fork says EAGAIN for a limit on processes."""
    assert "no more threads or processes" in str(start_fault(BlockingIOError(errno.EAGAIN, "x")))
    with pytest.raises(OSError) as raised:
        subprocess.run(["/does/not/exist"], check=False)
    assert start_fault(raised.value) is None


def test_an_exception_that_can_say_nothing_any_more_does_not_raise_again() -> None:
    """Spark's do so once the JVM has ended."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise AssertionError("no JVM")

    assert "Mute, whose text cannot be had any more" == text_of(Mute())
    assert local_fault(Mute()) is None


def test_a_thread_that_cannot_be_started_is_recognised() -> None:
    """With the real limit on the address space, in a process of its own."""
    code = (
        "import resource, threading, time\n"
        "from auditor.local_faults import local_fault\n"
        "resource.setrlimit(resource.RLIMIT_AS, (300 * 2**20, 300 * 2**20))\n"
        "try:\n"
        "    for _ in range(200):\n"
        "        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()\n"
        "except (RuntimeError, MemoryError) as error:\n"
        "    print(local_fault(error), flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "no more" in done.stdout, done
