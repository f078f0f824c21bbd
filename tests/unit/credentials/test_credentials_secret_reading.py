"""Secrets from files, commands and variables, and errors that never show one."""

from __future__ import annotations

import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from auditor.config.access import SecretSource
from auditor.credentials import secret_reading
from auditor.credentials.secret_reading import SECRET_BYTES_MAX, read_digest, read_secret
from auditor.errors import ConfigError

WHAT, VARIABLE = "the password of X", "AUDITOR_X"


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_reading, "_printed", {})
    monkeypatch.setattr(secret_reading, "_failed", {})


def in_file(tmp_path: Path, content: bytes) -> SecretSource:
    (tmp_path / "secret").write_bytes(content)
    return SecretSource(WHAT, VARIABLE, file=str(tmp_path / "secret"))


def printed_by(program: str) -> SecretSource:
    return SecretSource(WHAT, VARIABLE, command=shlex.join([sys.executable, "-c", program]))


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_the_line_break_at_the_end_of_a_file_is_no_part_of_the_secret(
    tmp_path: Path, end: bytes
) -> None:
    """Editors add one. Spaces belong to the secret."""
    assert read_secret(in_file(tmp_path, " pä ss ".encode() + end)) == " pä ss "


@pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines", b"nul\0", b"\xff\xfe"])
def test_what_is_not_a_secret_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    """A secret is one line of text."""
    with pytest.raises(ConfigError, match=WHAT) as raised:
        read_secret(in_file(tmp_path, content))
    assert "two" not in str(raised.value)


def test_a_file_that_is_missing_or_too_long_is_named(tmp_path: Path) -> None:
    """The error says which secret the file should have."""
    with pytest.raises(ConfigError, match=f"the file with {WHAT} .*secret is larger than"):
        read_secret(in_file(tmp_path, b"x" * (SECRET_BYTES_MAX + 1)))
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_secret(SecretSource(WHAT, VARIABLE, file=str(tmp_path / "none")))


def test_a_variable_is_read_when_the_secret_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read before. If it is not set then, the error says so."""
    source = SecretSource(WHAT, VARIABLE)
    with pytest.raises(ConfigError, match=f"{VARIABLE} is not set here"):
        read_secret(source)
    monkeypatch.setenv(VARIABLE, "secret")
    assert read_secret(source) == "secret"


def test_a_file_goes_before_a_command_and_that_before_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag overrides the environment, as everywhere."""
    monkeypatch.setenv(VARIABLE, "of the variable")
    command = printed_by("print('of the command')").command
    file = in_file(tmp_path, b"of the file").file
    assert read_secret(SecretSource(WHAT, VARIABLE, command=command)) == "of the command"
    assert read_secret(SecretSource(WHAT, VARIABLE, file=file, command=command)) == "of the file"


def test_a_command_runs_once_until_its_secret_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many bookies cost one request to a vault. A password that changed is noticed."""
    count = tmp_path / "count"
    source = printed_by(f"open({str(count)!r}, 'a').write('x'); print('s')")
    now = 1_000.0
    monkeypatch.setattr(secret_reading.time, "monotonic", lambda: now)
    assert [read_secret(source), read_secret(source)] == ["s", "s"]
    assert count.read_text() == "x"
    now += secret_reading.COMMAND_KEPT_S
    read_secret(source)
    assert count.read_text() == "xx"


def test_a_command_that_failed_is_not_run_again_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand bookies must not ask a vault that is down a thousand times, each for as long as a
    command may take.
    """
    count = tmp_path / "count"
    source = printed_by(f"open({str(count)!r}, 'a').write('x'); raise SystemExit(3)")
    now = 1_000.0
    monkeypatch.setattr(secret_reading.time, "monotonic", lambda: now)
    for _ in range(2):
        with pytest.raises(ConfigError, match=f"{WHAT} exited with 3"):
            read_secret(source)
    assert count.read_text() == "x"
    now += secret_reading.FAILURE_KEPT_S
    with pytest.raises(ConfigError):
        read_secret(source)
    assert count.read_text() == "xx"


def test_many_threads_run_a_command_once(tmp_path: Path) -> None:
    """The others wait for it."""
    count = tmp_path / "count"
    source = printed_by(
        f"import time; open({str(count)!r}, 'a').write('x'); time.sleep(0.2); print('s')"
    )
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(read_secret, [source] * 8)) == ["s"] * 8
    assert count.read_text() == "x"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_command_that_prints_without_end_is_ended(stream: str) -> None:
    """What it prints is read up to the longest secret, and no byte more is kept."""
    program = f"import sys\nwhile True: sys.{stream}.write('canary' * 1000)"
    if stream == "stderr":  # stderr is thrown away; the command ends by itself.
        program = "import sys\nfor _ in range(1000): sys.stderr.write('canary' * 1000)\nprint('s')"
        assert read_secret(printed_by(program)) == "s"
        return
    with pytest.raises(ConfigError, match="printed more than"):
        read_secret(printed_by(program))


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; print('canary'); sys.exit(3)", "exited with 3"),
        ("print('canary' * 10_000)", "printed more than"),
        ("import sys; print('canary', file=sys.stderr)", "is empty"),
    ],
)
def test_a_command_that_fails_is_reported_without_what_it_printed(program: str, why: str) -> None:
    """What it printed may be the secret."""
    with pytest.raises(ConfigError, match=why) as raised:
        read_secret(printed_by(program))
    assert "canary" not in str(raised.value)


@pytest.mark.parametrize("command", ["no-such-program-anywhere", "'unbalanced", " "])
def test_a_command_that_cannot_run_is_reported(command: str) -> None:
    """It is split as a shell would, and run without one."""
    with pytest.raises(ConfigError, match="cannot be run"):
        read_secret(SecretSource(WHAT, VARIABLE, command=command))


def test_a_command_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that hangs is ended."""
    monkeypatch.setattr(secret_reading, "COMMAND_TIMEOUT_S", 0.2)
    with pytest.raises(ConfigError, match=r"took longer than 0\.2 s"):
        read_secret(printed_by("import time; time.sleep(60)"))


@pytest.mark.parametrize("digest", [b"user", b":password", b"user:", b":"])
def test_a_digest_has_a_user_and_a_password(tmp_path: Path, digest: bytes) -> None:
    """A password may have colons."""
    with pytest.raises(ConfigError, match="user:password"):
        read_digest(in_file(tmp_path, digest))
    assert read_digest(in_file(tmp_path, b"user:pass:word\n")) == "user:pass:word"
