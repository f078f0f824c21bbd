"""The sources of locations: a table file, Pulsar's rack map in ZooKeeper, or a script.

A script is called like BookKeeper's ScriptBasedMapping: its arguments are IP addresses, and it
prints as many locations, separated by white space. Nothing else in `auditor.topology` starts a
program.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from auditor.config import ENVIRONMENT_PREFIX, Settings
from auditor.errors import ConfigError
from auditor.local_faults import start_fault
from auditor.model.identity import Address, Areas, BookieId
from auditor.topology.location_table import Match, Member, Places, read_table
from auditor.wire import locations
from auditor.wire.locations import normalize_location

OUTPUT_BYTES_MAX = 2**20
"""Most bytes read from one call. A thousand locations of the greatest length fill a quarter of
it."""
ERROR_CHARS_MAX = 200
"""Characters shown of a script's standard error."""
_READ_BYTES = 64 * 2**10
END_WITHIN_S = 5.0
"""How long a script may take to end once it has closed its output, in seconds."""


class ScriptFailure(Exception):
    """One call gave no locations. `str` is half a sentence that follows the script's name."""


class CannotStart(ScriptFailure):
    """The file is not a program, or its interpreter is missing."""


@dataclass(frozen=True, slots=True)
class Script:
    """An executable file. A call may take `timeout_s`, and has at most `args_max` addresses."""

    path: Path
    args_max: int
    timeout_s: float

    def check(self) -> str:
        """Call the script without arguments, as BookKeeper does before it accepts a script.

        Return why BookKeeper would refuse it, or "". Raises ConfigError if it cannot be started.
        """
        try:
            self._output(())
        except CannotStart as failure:
            raise ConfigError(
                f"the topology script {self.path} {failure}. Its first line must name an "
                "interpreter that is there, as in #!/bin/sh"
            ) from None
        except ScriptFailure as failure:
            return (
                f"the topology script {self.path}, called without arguments, {failure}: BookKeeper"
                " would not take it"
            )
        return ""

    def locations(self, addresses: Sequence[str]) -> list[str]:
        """Return what the script says of each address, in order. Raises ScriptFailure."""
        assert 0 < len(addresses) <= self.args_max, len(addresses)
        words = self._output(addresses).split()
        if len(words) != len(addresses):
            raise ScriptFailure(f"answered {len(words)} locations to {len(addresses)} addresses")
        return words

    def _output(self, addresses: Sequence[str]) -> str:
        # Its own process group ends its children with it. Its environment has no secrets of ours.
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(ENVIRONMENT_PREFIX)
        }
        try:
            process = subprocess.Popen(  # noqa: S603 - the operator named this file; addresses are no options and no shell reads them
                [str(self.path), *addresses],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            if (fault := start_fault(error)) is not None:
                raise fault from error
            raise CannotStart(f"cannot be started: {error.strerror or error}") from None
        with process:
            try:
                out, err = _read_both(process, self.timeout_s)
                code = process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                _end(process)
                raise ScriptFailure("closed its output and did not end") from None
            except BaseException:
                _end(process)
                raise
        if code != 0:
            raise ScriptFailure(f"ended with exit code {code}{_complaint(err)}")
        try:
            return out.decode("utf-8")
        except UnicodeDecodeError:
            raise ScriptFailure("answered with text that is not UTF-8") from None


def _read_both(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[bytes, bytes]:
    """Read standard output and error until both close. Raises ScriptFailure beyond a limit."""
    assert process.stdout is not None and process.stderr is not None
    said: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for stream in said:
            selector.register(stream, selectors.EVENT_READ, stream)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise ScriptFailure(f"did not end within {timeout_s:g} s (topology_script_timeout)")
            for key, _ in ready:
                chunk = os.read(key.fd, _READ_BYTES)
                said[key.data] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
                elif len(said[key.data]) > OUTPUT_BYTES_MAX:
                    raise ScriptFailure(f"wrote more than {OUTPUT_BYTES_MAX} bytes")
    return bytes(said[process.stdout]), bytes(said[process.stderr])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children. Nobody has waited for it: its group id is not reused
    yet.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _complaint(err: bytes) -> str:
    text = " ".join(err.decode("utf-8", "replace").split())
    return f" and said {text[:ERROR_CHARS_MAX]!a}" if text else ""


ZOOKEEPER = "zookeeper"
RACK_MAP = "/bookies"
"""Pulsar's rack map, beside ROOT or at the top."""
Raw = Callable[[str], bytes | None]
"""Returns the bytes of the znode at an absolute path; None if there is none."""
Resolve = Callable[[Sequence[str]], Mapping[str, tuple[Address, ...]]]
"""Returns the addresses of host names. A name that was not resolved is missing or has none."""


class Source(Protocol):
    """One source of locations. `problems` are sentences on what it could not tell when asked."""

    name: str
    problems: list[str]

    def load(self, raw: Raw, rack_map_paths: Sequence[str]) -> None:
        """Read what the source needs from ZooKeeper."""

    def find(self, members: Sequence[Member], resolve: Resolve) -> dict[BookieId, Match]:
        """Return the matches of the members that the source knows."""

    def known_bookies(self) -> Mapping[BookieId, Match]:
        """Return all bookies that the source knows by id, requested or not."""

    def areas(self) -> Areas | None:
        """Return the hosts and networks it knows, or None if it must be asked for each bookie."""


class PlacesSource:
    """Locations that are known before any bookie is asked for: a table file, or Pulsar's rack map.

    Without `places` it is the rack map, which `load` reads.
    """

    def __init__(self, name: str, places: Places | None = None) -> None:
        self.name = name
        self.problems: list[str] = []
        self._from_zookeeper = places is None
        self._places = places or Places()

    def load(self, raw: Raw, rack_map_paths: Sequence[str]) -> None:
        if not self._from_zookeeper:
            return
        self._places = Places()
        for path in rack_map_paths:
            data = raw(path)
            if data is not None:
                self.name = f"{ZOOKEEPER} {path}"
                found = locations.decode_rack_map(data)
                self.problems.extend(f"znode {path}: {problem}" for problem in found.problems)
                for key, location in found.locations.items():
                    self._places.add(key, location, any_port=True)
                return
        self.problems.append(
            f"there is no rack map in ZooKeeper: no znode {' and no '.join(rack_map_paths)} that"
            " can be read"
        )

    def find(self, members: Sequence[Member], resolve: Resolve) -> dict[BookieId, Match]:
        found = {
            member.bookie_id: match
            for member in members
            if (match := self._places.find(member)) is not None
        }
        if not self._places.needs_addresses():
            return found
        rest = [
            m
            for m in members
            if m.bookie_id not in found and m.host is not None and m.address is None
        ]
        addresses = resolve([member.host for member in rest if member.host])
        for member in rest:
            match = self._places.find(member, addresses.get(member.host or "", ()))
            if match is not None:
                found[member.bookie_id] = match
        return found

    def known_bookies(self) -> Mapping[BookieId, Match]:
        return self._places.by_id

    def areas(self) -> Areas | None:
        return self._places.areas()


class ScriptSource:
    """A script that gets the addresses of the bookies that no earlier source knew."""

    def __init__(self, script: Script) -> None:
        self.name = str(script.path)
        self.problems: list[str] = []
        self._script = script

    def load(self, raw: Raw, rack_map_paths: Sequence[str]) -> None:
        """Do nothing: `find` calls the script."""

    def find(self, members: Sequence[Member], resolve: Resolve) -> dict[BookieId, Match]:
        names = [member.host for member in members if member.host and member.address is None]
        resolved = resolve(names) if names else {}
        addresses: dict[BookieId, str] = {}
        for member in members:
            address = member.address or next(iter(resolved.get(member.host or "", ())), None)
            if address is not None:
                addresses[member.bookie_id] = str(address)
        known: dict[str, str] = {}
        wanted, size = sorted(set(addresses.values())), self._script.args_max
        for start in range(0, len(wanted), size):
            known |= self._ask_script(wanted[start : start + size])
        return {
            bookie_id: Match(known[address], f"address {address}")
            for bookie_id, address in addresses.items()
            if address in known
        }

    def known_bookies(self) -> Mapping[BookieId, Match]:
        return {}

    def areas(self) -> Areas | None:
        return None

    def _ask_script(self, addresses: Sequence[str]) -> dict[str, str]:
        """Call the script once. Return the addresses that have a location, with it."""
        try:
            words = self._script.locations(addresses)
        except ScriptFailure as failure:
            more = f" and {len(addresses) - 1} more" if len(addresses) > 1 else ""
            self.problems.append(
                f"the topology script {self.name}, asked for {addresses[0]}{more}, {failure}"
            )
            return {}
        known = {}
        for address, word in zip(addresses, words, strict=True):
            try:
                location = normalize_location(word)
            except ValueError as error:
                self.problems.append(
                    f"the topology script {self.name} has {word[:100]!a} for {address}, which"
                    f" {error}"
                )
                continue
            if location is not None:
                known[address] = location
        return known


def sources_of(settings: Settings) -> list[Source]:
    """Return the sources of `--topology`, in order. Reads tables and tries scripts, nothing else.

    Raises ConfigError for a missing file, for a table with bad lines, and for a script that cannot
    be started.
    """
    return [_source(item, settings) for item in settings.topology or ()]


def _source(item: str, settings: Settings) -> Source:
    if item == ZOOKEEPER:
        return PlacesSource(ZOOKEEPER)
    kind, colon, rest = item.partition(":")
    said = kind if colon and kind in ("file", "script") else ""
    path = Path(rest if said else item).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"--topology {item}: there is no file {path}. Write a table file, an executable script,"
            f" or {ZOOKEEPER} for Pulsar's rack map, with commas between several"
        )
    executable = os.access(path, os.X_OK)
    if said == "file" or (not said and not executable):
        return PlacesSource(str(path), read_table(path))
    if not executable:
        raise ConfigError(f"--topology {item}: {path} is not executable: chmod +x {path}")
    script = Script(
        path.absolute(),
        settings.topology_script_args_max,
        settings.topology_script_timeout_ms / 1000,
    )
    source = ScriptSource(script)
    refused = script.check()
    if refused:
        source.problems.append(refused)
    return source
