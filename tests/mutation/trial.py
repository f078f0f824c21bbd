"""The trial of mutants, as a pytest plugin: it watches every test once, then runs one child for
each mutant, with the tests that reach it.

`try_mutants.py` runs it, and names the files on trial in the environment. The results go to their
records (`records.py`).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import json
import os
import resource
import select
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings

sys.path.insert(0, str(Path(__file__).parent))

from patience import Patience, adopt_orphans, end_orphans, first_of
from planting import Mutant, planted
from records import Record, digests, files_used, killers_of, read_record, write_record, write_whole
from small_changes import mutants_of

CHILDREN = int(os.environ.get("MUTATION_CHILDREN", "2"))
FREE_CPU_S = 2.0
"""CPU seconds that a test may take beyond SLOWER times its watched time; after that it counts as
endless.
"""
SLOWER = 5
WALL_S = 1800
"""Wall seconds without a message from a child, after which it is ended, whatever it does.
`Patience` ends one that waits.
"""
WITH_THREADS = tuple(os.environ.get("MUTATION_WITH_THREADS", "").split())
"""Test files that start threads, which a fork does not copy: none of their tests runs in this
process.
"""
TIMED = ("auditor/bookie/", "auditor/zookeeper/", "auditor/judging/", "auditor/lister/")
"""Modules whose tests have time-outs, which may run out on a busy machine: there a test must fail
twice.
"""
QUIET_S = 30.0
"""Seconds after which a module is mentioned before it is done."""
MEMORY_BYTES = 2 * 2**30
"""Memory that a mutant may take beyond what is in use at the fork, in bytes."""

Reached = tuple[str, str]
"""A file and a function."""
Tried = Sequence[Sequence[str]]
"""As in `Record`."""


class Outcome(NamedTuple):
    """`how`: killed, endless, survived, unreached (no test calls it) or unplanted; `by`: the test
    that killed it.
    """

    how: str
    by: str = ""


class Outcomes:
    """The results by module: a module is recorded and reported after its last mutant.

    `known`: the mutants of each module that are not tried, from its record.
    """

    def __init__(self, mutants: Mapping[str, list[Mutant]], known: Mapping[str, Tried]) -> None:
        self.tried = {file: [*known[file]] for file in mutants}
        self.left = {file: len(ones) for file, ones in mutants.items()}
        self.count = 0
        self.began = self.said = time.monotonic()

    def add(self, mutant: Mutant, outcome: Outcome) -> bool:
        """Return whether it was the last one of its module."""
        self.tried[mutant.file].append([*mutant.identity, *outcome])
        self.left[mutant.file] -= 1
        self.count += 1
        if self.left[mutant.file] and time.monotonic() - self.said > QUIET_S:
            self._say(f"{mutant.file} ... {self.left[mutant.file]} to try", mutant.file)
        return not self.left[mutant.file]

    def report(self, file: str) -> None:
        """Report how a whole module ended, and how long it took."""
        now = time.monotonic()
        self._say(f"{file} {now - self.began:.0f} s", file)
        self.began = now

    def _say(self, what: str, file: str) -> None:
        hows = Counter(how for *_, how, _ in self.tried[file])
        killed = hows["killed"] + hows["endless"]
        print(f"{what}: {hows.total()} mutants, {killed} killed", flush=True)
        self.said = time.monotonic()


class Watch:
    """Which functions on trial each test calls, and its CPU seconds."""

    def __init__(self, root: Path, files: list[str]) -> None:
        self.root = f"{root}/"
        self.on_trial = b"".join((root / file).read_bytes() for file in files)
        self.called: set[Any] = set()
        self.reached: dict[Reached, list[pytest.Item]] = defaultdict(list)
        self.cost_s: dict[str, float] = {}
        self.seen: dict[str, Any] = {}

    def run_all(self, items: list[pytest.Item]) -> None:
        for item, following in zip(
            items, [*items[1:], None][: len(items)], strict=True
        ):  # all may be known already
            self._run(item, following)

    def _run(self, item: pytest.Item, following: pytest.Item | None) -> None:
        self.called.clear()
        began = time.process_time()
        threading.settrace(self._saw)
        sys.settrace(self._saw)
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]  # as documented
        called = {(code.co_filename, code.co_qualname) for code in list(self.called)}
        reached = sorted(
            [file.removeprefix(self.root), name]
            for file, name in called
            if file.startswith(self.root)
        )
        self.seen[item.nodeid] = {
            "text": self._text_of(item),
            "cost_s": time.process_time() - began,
            "reached": reached,
        }
        self._know(item)

    def recall(self, item: pytest.Item, seen: dict[str, Any]) -> bool:
        """Return whether the earlier result for this test still holds: neither the test nor the
        modules on trial, whose functions it calls by name, have changed since.
        """
        if item.nodeid not in seen or seen[item.nodeid]["text"] != self._text_of(item):
            return False
        self.seen[item.nodeid] = seen[item.nodeid]
        self._know(item)
        return True

    def learn(self, items: list[pytest.Item], seen: dict[str, Any]) -> None:
        """Take over what another process recorded of these tests."""
        for item in items:
            if item.nodeid in seen:
                self.seen[item.nodeid] = seen[item.nodeid]
                self._know(item)

    def reaching(self, file: str, function: str) -> list[pytest.Item]:
        """Return the tests that call the function; if none was recorded, those that call anything
        of its module.

        What a test does in another process is not recorded.
        """
        found = self.reached.get((file, function))
        others = [
            one for (where, _), items in self.reached.items() if where == file for one in items
        ]
        return found or list(dict.fromkeys(others))

    def _text_of(self, item: pytest.Item) -> str:
        """Return a digest of the text of a test's file and of the modules on trial."""
        return hashlib.sha256(item.path.read_bytes() + self.on_trial).hexdigest()

    def _know(self, item: pytest.Item) -> None:
        seen = self.seen[item.nodeid]
        self.cost_s[item.nodeid] = seen["cost_s"]
        for file, name in seen["reached"]:
            self.reached[file, name].append(item)

    def _saw(self, frame: Any, _event: str, _: Any) -> None:
        """Record a call. Only calls are reported, so nothing within them is slowed down."""
        self.called.add(frame.f_code)


class Trial:
    """The plugin."""

    def __init__(
        self,
        tests: Mapping[str, Sequence[str]],
        terms: Mapping[str, str],
        explained: Collection[str],
        cache: Path,
        again: bool,
    ) -> None:
        self.files, self.terms, self.explained = list(tests), terms, frozenset(explained)
        self.cache, self.again, self.seen = cache, again, cache / "seen.json"
        self.tests = {file: tuple(places) for file, places in tests.items()}
        self.before = {file: read_record(cache, file) for file in self.files}
        self.killers = {
            name: by for record in self.before.values() for name, by in killers_of(record).items()
        }
        self.used: set[Path] = set()
        self.failed: list[str] = []
        self.ends_at_failure: int | None = None
        self.child: int | None = None
        self.failures, self.failures_max = 0, 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            if self.ends_at_failure is not None:
                if (
                    os.getpid() != self.child
                ):  # a process of the test's own, which escapes from the test because of a mutant
                    os._exit(3)
                self.failures += 1
                if self.failures < self.failures_max:
                    return
                os.write(self.ends_at_failure, json.dumps(["killed", report.nodeid]).encode())
                os._exit(0)
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        root = Path(session.config.rootpath)
        watch = Watch(root, self.files)
        seen = json.loads(self.seen.read_text()) if self.again and self.seen.exists() else {}
        new = [item for item in session.items if not watch.recall(item, seen)]
        self._watch_in_child(
            session, watch, [item for item in new if item.nodeid.startswith(WITH_THREADS)]
        )
        watch.run_all([item for item in new if not item.nodeid.startswith(WITH_THREADS)])
        if self.failed:
            pytest.exit(f"without any mutant these fail: {' '.join(self.failed)}", 1)
        write_whole(self.seen, json.dumps({**seen, **watch.seen}))
        self.used |= files_used(root) | {item.path for item in session.items}
        mutants = {file: mutants_of(file, (root / file).read_text()) for file in self.files}
        known: dict[str, Tried] = dict.fromkeys(self.files, ())
        if self.again:
            known = {
                file: [[*one.identity, "killed", by] for one in ones if (by := self._killer(one))]
                for file, ones in mutants.items()
            }
            mutants = {
                file: [one for one in ones if not self._killer(one)]
                for file, ones in mutants.items()
            }
        print(
            f"\n{len(session.items)} tests, {sum(watch.cost_s.values()):.0f} CPU seconds;"
            f" {sum(map(len, mutants.values()))} mutants",
            flush=True,
        )
        _forget()
        gc.freeze()
        adopt_orphans()
        self.failures_max = 2 if any(file.startswith(TIMED) for file in self.files) else 1
        fd, pid = self._fork(lambda: None, session.items, watch)
        if (outcome := _end(fd, pid, _has_reported(fd, pid))).how != "survived":
            pytest.exit(f"a child without any mutant: {outcome}", 1)
        self._all(mutants, Outcomes(mutants, known), watch, root)
        return True

    def _killer(self, mutant: Mutant) -> str:
        """Return the test that killed it last time; "" if none did."""
        return self.killers.get(key(mutant), "")

    def _record(self, file: str, outcomes: Outcomes, root: Path) -> None:
        """Write the record of a module. One that takes some kills from an earlier trial does not
        name the files on which it rests.
        """
        rests_on = {} if self.again else digests(root, self.used)
        write_record(self.cache, file, Record(self.terms[file], rests_on, outcomes.tried[file]))
        outcomes.report(file)

    def _watch_in_child(
        self, session: pytest.Session, watch: Watch, items: list[pytest.Item]
    ) -> None:
        """Watch tests that start threads in a child, so that this process has no threads that the
        other children would lack.
        """
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # made once, for all children
        sys.stdout.flush()
        reading, tell = os.pipe()
        pid = os.fork() if items else 0
        if pid:
            os.close(tell)
            with os.fdopen(reading) as answers:
                found = json.loads(
                    answers.read()
                    or '{"seen": {}, "used": [], "failed": ["the process that watches the tests"]}'
                )
            os.waitpid(pid, 0)
            watch.learn(items, found["seen"])
            self.used |= {Path(one) for one in found["used"]}
            self.failed += found["failed"]
        elif items:
            try:
                watch.run_all(items)
                session.config.pluginmanager.get_plugin("terminalreporter").summary_failures()  # type: ignore[union-attr]
                sys.stdout.flush()
                used = [str(path) for path in files_used(session.config.rootpath)]
                with os.fdopen(tell, "w") as answer:
                    json.dump({"seen": watch.seen, "used": used, "failed": self.failed}, answer)
            finally:
                os._exit(0)

    def _all(
        self,
        mutants: Mapping[str, list[Mutant]],
        outcomes: Outcomes,
        watch: Watch,
        root: Path,
    ) -> None:
        """Try all mutants, CHILDREN at a time; record each module as soon as all of its mutants are
        tried.
        """

        def add(mutant: Mutant, outcome: Outcome) -> None:
            if outcomes.add(mutant, outcome):
                self._record(mutant.file, outcomes, root)

        running: dict[int, tuple[Mutant, int, float, Patience]] = {}
        waiting = iter([one for ones in mutants.values() for one in ones])
        for file in [file for file, ones in mutants.items() if not ones]:
            self._record(file, outcomes, root)
        while outcomes.count < sum(map(len, mutants.values())):
            while len(running) < CHILDREN and (mutant := next(waiting, None)):
                reaching = self._reaching(mutant, watch)
                plant = planted(mutant) if reaching else None
                if plant is None:
                    add(mutant, Outcome("unplanted" if reaching else "unreached"))
                else:
                    self.failures_max = 2 if mutant.file.startswith(TIMED) else 1
                    fd, pid = self._fork(plant, self._in_order(mutant, reaching, watch), watch)
                    running[fd] = mutant, pid, time.monotonic(), Patience(pid)
            ready, _, _ = select.select(list(running), [], [], 1.0) if running else ([], [], [])
            for fd, (mutant, pid, since, patience) in list(running.items()):
                if fd in ready or time.monotonic() - since > WALL_S or patience.has_run_out():
                    add(mutant, _end(fd, pid, fd in ready))
                    del running[fd]
                    end_orphans([one[1] for one in running.values()])

    def _reaching(self, mutant: Mutant, watch: Watch) -> list[pytest.Item]:
        """Return the tests of the mutant's module that reach its function."""
        reaching = watch.reaching(mutant.file, mutant.function)
        return [one for one in reaching if one.nodeid.startswith(self.tests[mutant.file])]

    def _in_order(
        self, mutant: Mutant, reaching: list[pytest.Item], watch: Watch
    ) -> list[pytest.Item]:
        """Order the tests: what killed it last time, the tests of its own module, then the cheapest
        first.
        """
        own = "_".join(["test", *Path(mutant.file).with_suffix("").parts[1:]])
        last = self._killer(mutant)
        ordered = sorted(
            reaching,
            key=lambda one: (one.nodeid != last, own not in one.nodeid, watch.cost_s[one.nodeid]),
        )
        if key(mutant) not in self.explained:
            return ordered
        return first_of(ordered, [watch.cost_s[one.nodeid] for one in ordered])

    def _fork(self, plant: Any, items: list[pytest.Item], watch: Watch) -> tuple[int, int]:
        reading, tell = os.pipe()
        pid = os.fork()
        if pid:
            os.close(tell)
            return reading, pid
        try:
            self._child(plant, items, watch, tell)
        finally:
            os._exit(3)

    def _child(self, plant: Any, items: list[pytest.Item], watch: Watch, tell: int) -> None:
        os.setsid()  # a mutant that confuses itself with its own child ends the whole process group
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY_BYTES, used + MEMORY_BYTES))
        self.ends_at_failure, self.child = tell, os.getpid()
        items[0].config.pluginmanager.unregister(name="terminalreporter")
        plant()
        for item, following in zip(items, [*items[1:], None], strict=True):
            self.failures = 0
            limit = FREE_CPU_S + SLOWER * watch.cost_s[item.nodeid]
            for tries_left in reversed(range(self.failures_max)):
                signal.setitimer(signal.ITIMER_PROF, limit)
                following_or_again = item.parent if tries_left else following
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following_or_again)
                if not self.failures:
                    break
                item._initrequest()  # type: ignore[attr-defined]  # fixtures made anew, as pytest itself makes them
            item.session._setupstate.teardown_exact(following)
        if os.getpid() == self.child:
            os.write(tell, json.dumps(["survived", ""]).encode())
        os._exit(0)


def key(mutant: Mutant) -> str:
    return json.dumps(mutant.identity)


def _has_reported(fd: int, pid: int) -> bool:
    """Wait until a child reports how it ended. Return False if it only waits."""
    patience = Patience(pid)
    while not patience.has_run_out():
        if select.select([fd], [], [], 1.0)[0]:
            return True
    return False


def _end(fd: int, pid: int, has_reported: bool) -> Outcome:
    """Return what a child reported; without a report it was ended by its limits, or by what the
    mutant did to it.
    """
    message = os.read(fd, 65536) if has_reported else b""
    if not message:
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(
            pid, signal.SIGKILL
        )  # what the tests left behind; until the child is reaped no other process has its id
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    if message:
        return Outcome(*json.loads(message))
    return Outcome("endless" if os.WIFSIGNALED(status) else "killed", "itself")


def _forget() -> None:
    """Empty every cache: results computed without the mutant must not answer for it."""
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper):
            one.cache_clear()


def pytest_configure(config: pytest.Config) -> None:
    phases = (Phase.explicit, Phase.generate)  # a failure is enough: it need not be shrunk
    checks = list(HealthCheck)
    settings.register_profile(
        "trial",
        deadline=None,
        derandomize=True,
        suppress_health_check=checks,
        database=None,
        phases=phases,
    )
    settings.load_profile("trial")
    trial = Trial(
        json.loads(os.environ["MUTATION_TESTS"]),
        json.loads(os.environ["MUTATION_TERMS"]),
        json.loads(os.environ["MUTATION_EXPLAINED"]),
        Path(os.environ["MUTATION_CACHE"]),
        bool(os.environ["MUTATION_AGAIN"]),
    )
    config.pluginmanager.register(trial, "the trial itself")
