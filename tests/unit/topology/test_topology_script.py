"""A topology script: how it is called, and what is refused."""

import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from auditor.errors import ConfigError
from auditor.topology import sources as script_module
from auditor.topology.sources import Script, ScriptFailure

HANGS_S = 600
"""In seconds, longer than any test waits: the script does not end by itself."""
GONE_WITHIN_S = 10.0
"""How long a killed process may take to end, in seconds."""


def script(directory: Path, body: str, *, timeout_s: float = 30.0, args_max: int = 100) -> Script:
    path = directory / "topology.py"
    path.write_text(f"#!{sys.executable}\nimport sys, os, time\n{body}\n")
    path.chmod(0o755)
    return Script(path, args_max, timeout_s)


def failure(one: Script) -> str:
    with pytest.raises(ScriptFailure) as caught:
        one.locations(["10.0.0.1", "10.0.0.2"])
    return str(caught.value)


def test_addresses_are_arguments_and_the_output_is_split_at_white_space(tmp_path):
    """There is one location for each argument, in order, however the script breaks its lines."""
    one = script(
        tmp_path, "print(*('/rack-' + a.split('.')[-1] for a in sys.argv[1:]), sep='\\n\\t ')"
    )
    assert ["/rack-1", "/rack-2"] == one.locations(["10.0.0.1", "10.0.0.2"])
    assert "" == one.check()


def test_no_shell_reads_the_arguments(tmp_path):
    """Characters with a meaning to a shell arrive unchanged."""
    assert ["/$(id);*"] == script(tmp_path, "print('/' + sys.argv[1])").locations(["$(id);*"])


def test_settings_of_the_auditor_are_not_in_its_environment(tmp_path, monkeypatch):
    """They may hold a password. The rest of the environment is there."""
    monkeypatch.setenv("AUDITOR_PUSHGATEWAY", "http://joe:s3cr3t@host")
    monkeypatch.setenv("SITE", "south")
    one = script(
        tmp_path,
        "print('/' + os.environ['SITE'] + str(sum(k.startswith('AUDITOR_') for k in os.environ)))",
    )
    assert ["/south0"] == one.locations(["10.0.0.1"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print('/r1')", "answered 1 locations to 2 addresses"),
        ("print('/r1 /r2 /r3')", "answered 3 locations to 2 addresses"),
        ("pass", "answered 0 locations"),
        ("print('/r1 /r2'); sys.exit('no\\nsuch host')", "exit code 1 and said 'no such host'"),
        ("print('/r1 /r2'); os.kill(os.getpid(), 9)", "exit code -9"),
        ("os.write(1, b'/\\xff /r2')", "text that is not UTF-8"),
        ("print('/r1 ' * 10**6)", "wrote more than"),
        ("sys.stderr.write('x' * 10**7)", "wrote more than"),
    ],
)
def test_an_invalid_answer_is_a_failure_in_words(tmp_path, body, words):
    """The number of locations, the exit code, the encoding and the size are checked."""
    assert words in failure(script(tmp_path, body))


@pytest.mark.parametrize(
    "body",
    [
        f"time.sleep({HANGS_S})",
        f"os.fork() or time.sleep({HANGS_S})\nprint('/r1 /r2')",
        "while True: print('/r', end='', flush=True); time.sleep(0.05)",
    ],
    ids=["sleeps", "its child holds the output", "drips"],
)
def test_a_script_that_does_not_end_is_ended(tmp_path, body):
    """All processes of its group are killed with it."""
    pid_file = tmp_path / "pid"
    one = script(
        tmp_path, f"open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n{body}", timeout_s=6.0
    )
    assert "did not end within 6 s (topology_script_timeout)" in failure(one)
    group, deadline = int(pid_file.read_text()), time.monotonic() + GONE_WITHIN_S
    while alive(group) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [] == alive(group)


def alive(group: int) -> list[int]:
    """Return the processes of a group that have not ended."""
    found = []
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            state, _, its_group = (
                (path / "stat").read_text().rpartition(")")[2].split()[:3]
                if path.name.isdigit()
                else "Z.0"
            )
            if int(its_group) == group and state not in "ZX":
                found.append(int(path.name))
    return found


def test_a_script_that_closes_its_output_and_stays_is_ended(tmp_path, monkeypatch):
    """Its output is complete, but there is no exit code."""
    monkeypatch.setattr(script_module, "END_WITHIN_S", 0.5)
    body = f"print('/r1 /r2', flush=True)\nfor n in (0, 1, 2): os.close(n)\ntime.sleep({HANGS_S})"
    assert "did not end" in failure(script(tmp_path, body))


def test_a_file_that_is_not_a_program_is_a_usage_error(tmp_path):
    """It is found before anything is contacted, and the error says what to do."""
    path = tmp_path / "topology"
    for content in ("#!/no/such/interpreter\n", "\x7fELF no program"):
        path.write_text(content)
        path.chmod(0o755)
        with pytest.raises(ConfigError, match=r"topology cannot be started: .*interpreter"):
            Script(path, 100, 30.0).check()


def test_a_script_that_bookkeeper_would_not_take_is_reported(tmp_path):
    """BookKeeper first calls a script without arguments and refuses a script that fails. The
    auditor uses it nevertheless.
    """
    one = script(tmp_path, "if len(sys.argv) < 2: sys.exit(3)\nprint('/r1')")
    assert (
        "called without arguments, ended with exit code 3: BookKeeper would not take it"
        in one.check()
    )
    assert ["/r1"] == one.locations(["10.0.0.1"])
