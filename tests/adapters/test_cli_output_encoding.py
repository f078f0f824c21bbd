"""Characters that stdout and stderr cannot encode are escaped, and a reader that closes the pipe is
not an error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import report_stories
from support.command_line import TIMEOUT_S, environment_of

from auditor.model.finding import Kind

PATHS = {"bmp": "日本", "latin-1": "Zürich", "astral": "x\U0001f600"}
UNDECODABLE = "x\udcff"
"""A name with a byte that is not UTF-8, as Python represents it."""
ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "ascii, strict": {"PYTHONIOENCODING": "ascii:strict"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "utf-8": {"PYTHONIOENCODING": "utf-8"},
    "C": {"LC_ALL": "C"},
}


def auditor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run `python -m auditor` in a process of its own; its output is bytes."""
    line = [sys.executable, "-m", "auditor", *arguments]
    env = environment_of(**environment)
    return subprocess.run(line, env=env, capture_output=True, timeout=TIMEOUT_S, check=False)


def in_shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash, in which `auditor` is the command; its last words are those of `echo`."""
    script = f'set -o pipefail; auditor() {{ "{sys.executable}" -m auditor "$@"; }}; {line}'
    env = environment_of(**environment)
    return subprocess.run(
        ["bash", "-c", script],
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run in a directory with a name that ASCII cannot encode; its finding is on
    a topic with such a name.
    """
    directory = tmp_path_factory.mktemp("監査") / "run-20260101T030000Z-000001"
    directory.mkdir()
    owner = {
        "application": "pulsar",
        "component": "managed-ledger",
        "name": "public/default/persistent/話題",
    }
    finding = report_stories.finding(Kind.ENTRY_WITHOUT_REPLICA, 7, owner=owner)
    summary = report_stories.summary(
        outcome="VIOLATED", exit_code=1, findings=report_stories.counted([finding])
    )
    (directory / "run.json").write_text("{}")
    (directory / "summary.json").write_text(json.dumps(summary.as_json()))
    (directory / "findings.jsonl").write_text(finding.line() + "\n")
    return directory


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_setting_is_shown_whatever_stdout_can_carry(encoding: str):
    """With every sort of character in one path: exit 0, in the requested encoding, and nothing on
    stderr.
    """
    done = auditor("config", "--output", "-".join(PATHS.values()), **ENCODINGS[encoding])
    assert (0, b"") == (done.returncode, done.stderr)
    text = done.stdout.decode(
        ENCODINGS[encoding].get("PYTHONIOENCODING", "utf-8").partition(":")[0]
    )
    assert ("日本" if encoding in ("utf-8", "C") else "\\u65e5\\u672c") in text
    assert ("ü" if encoding in ("utf-8", "C", "latin-1") else "\\xfc") in text


@pytest.mark.parametrize("path", PATHS)
def test_json_stays_json(path: str):
    """A backslash escape of Python is not valid JSON; JSON has its own escapes."""
    done = auditor("config", "--format", "json", "--output", PATHS[path], PYTHONIOENCODING="ascii")
    assert PATHS[path] == json.loads(done.stdout)["output"]["value"]


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_stored_run_is_rendered_whatever_stdout_can_carry(run_dir: Path, format: str):
    """Its directory and its topic have names that ASCII cannot encode."""
    done = auditor("report", str(run_dir), "--full", "--format", format, PYTHONIOENCODING="ascii")
    assert (1, b"") == (done.returncode, done.stderr)
    assert b"\\u8a71\\u984c" in done.stdout and done.stdout.isascii()


@pytest.mark.parametrize("encoding", ["ascii", pytest.param("C", marks=pytest.mark.long)])
@pytest.mark.parametrize("path", [*PATHS.values(), UNDECODABLE], ids=ascii)
def test_a_usage_error_names_what_was_written(path: str, encoding: str):
    """The auditor and click write one sentence on stderr: exit 2."""
    for arguments in (["report", path], ["config", "--bogus" + path], ["config", "--config", path]):
        done = auditor(*arguments, **ENCODINGS[encoding])
        assert (2, b"") == (done.returncode, done.stdout), done.stderr
        assert b"Traceback" not in done.stderr
        said = done.stderr.decode()
        assert path in said or ascii(path)[1:-1] in said
        assert done.stderr.isascii() or encoding != "ascii"


def test_a_directory_that_has_no_name_in_utf_8_is_a_usage_error():
    """Parquet and Spark name files in UTF-8, so it is refused before anything is contacted."""
    done = auditor("report", UNDECODABLE)
    assert (2, b"x\\udcff is not valid UTF-8") == (
        done.returncode,
        done.stderr.removeprefix(b"auditor: ")[:26],
    )
    done = auditor("run", "--metadata-service-uri", "zk://127.0.0.1:1/x", "--output", UNDECODABLE)
    assert 2 == done.returncode, done.stderr
    assert b"--output = 'x\\udcff'" in done.stderr


@pytest.mark.parametrize(
    "encoding",
    ["ascii", *(pytest.param(one, marks=pytest.mark.long) for one in ("latin-1", "C"))],
)
@pytest.mark.parametrize("log_format", ["console", "json"])
def test_the_log_is_escaped_too(log_format: str, encoding: str):
    """No server listens at a metadata service with a non-ASCII root: exit 5, with the root in the
    report and in the log.
    """
    uri = "zk+hierarchical://127.0.0.1:1/日本"
    flags = [
        "--metadata-service-uri",
        uri,
        "--log-format",
        log_format,
        "--verbose",
        "--zookeeper-connect-timeout",
        "1s",
    ]
    done = auditor("ledger", *flags, "7", **ENCODINGS[encoding])
    assert 5 == done.returncode, done.stderr
    assert b"Error" not in done.stderr and b"auditor: UNREACHABLE" in done.stdout
    assert encoding != "ascii" or (done.stdout + done.stderr).isascii()


@pytest.mark.parametrize(
    "arguments",
    ["--help", "config", "config --format json", "run --help"],
    ids=lambda text: text.replace(" ", "_"),
)
def test_a_reader_that_goes_away_changes_no_exit_code(arguments: str):
    """With `| head -1` the code is that of the command, and stderr stays empty."""
    done = in_shell(f'auditor {arguments} | true; echo "${{PIPESTATUS[0]}}"')
    assert ("0\n", "") == (done.stdout, done.stderr)


def test_an_error_that_nobody_reads_keeps_its_code():
    """stderr is closed at the other end: 2 stays 2, from the auditor and from click."""
    for arguments in ("report /nowhere", "config --bogus"):
        done = in_shell(f'(sleep 0.2; auditor {arguments}) 2>&1 | true; echo "${{PIPESTATUS[0]}}"')
        assert "2\n" == done.stdout


def test_closed_streams_are_no_fault(run_dir: Path):
    """`>&-`, as some schedulers start their jobs."""
    assert "1\n" == in_shell(f'auditor report "{run_dir}" >&- 2>&-; echo $?').stdout
