"""Whole audits into S3, without Spark, and every command that reads a stored run there."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pyarrow import fs
from support.command_line import LOST, Done, at, cluster_with_a_loss, command_here
from support.s3_server import S3Server

from auditor.errors import OutputError
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place
from auditor.run import run as run_module
from auditor.sandbox.cluster import SandboxCluster

NIGHTS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxCluster]:
    with cluster_with_a_loss(tmp_path_factory.mktemp("sandbox")) as cluster:
        yield cluster


def run_into(output: str, cluster: SandboxCluster, *options: str) -> Done:
    return command_here("run", "--output", output, *at(cluster), *options)


def newest(output: str) -> Place:
    found = Output(place(output)).latest()
    assert found is not None
    return found


def test_an_audit_into_s3_leaves_what_it_leaves_on_a_disk(
    cluster: SandboxCluster, server: S3Server, bucket: str, tmp_path
):
    """The same files in the run's directory, the same findings, no lock and no journal."""
    output = f"s3a://{bucket}/prod/audits"
    done = run_into(output, cluster)
    assert 1 == done.returncode, done.stdout + done.stderr
    assert newest(output).uri in done.stdout
    assert 1 == run_into(str(tmp_path / "audits"), cluster).returncode
    on_disk, in_s3 = newest(str(tmp_path / "audits")), newest(output)
    assert names_of(on_disk) == names_of(in_s3)
    assert findings(on_disk) == findings(in_s3)
    beside = {key for key in server.keys(bucket) if "/run-" not in key and not key.endswith("/")}
    assert {"prod/audits/latest.json"} == beside
    assert 1 == command_here("replay", in_s3.uri).returncode
    listed = command_here("status", output, "--format", "json")
    assert (1, [in_s3.uri]) == (
        listed.returncode,
        [run["directory"] for run in json.loads(listed.stdout)["runs"]],
    )
    explained = command_here("explain", str(LOST), in_s3.uri)
    assert (0, True) == (explained.returncode, "ENTRY_BELOW_WRITE_QUORUM" in explained.stdout)


@pytest.mark.long
def test_every_command_on_a_stored_run_reads_it_from_s3(
    cluster: SandboxCluster, bucket: str, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    """Like from a disk: report and its page, explain, replay, diff, margin, mute and bundle."""
    monkeypatch.chdir(tmp_path)
    output = f"s3a://{bucket}/audits"
    runs = []
    for _ in range(2):
        assert 1 == run_into(output, cluster).returncode
        runs.append(newest(output).uri)
    assert 1 == command_here("report", runs[1], "--html", "page.html").returncode
    assert "<html" in (tmp_path / "page.html").read_text()
    assert 0 == command_here("explain", str(LOST), "--output", output).returncode
    assert 1 == command_here("replay", runs[1]).returncode
    compared = command_here("diff", *runs, "--format", "json")
    assert (0, "still") == (compared.returncode, changes_of(compared)), compared.stdout
    assert 0 == command_here("margin", runs[1]).returncode
    muted = command_here(
        "mute", str(LOST), "--until", "2099-01-01", "--why", "known", "--output", output
    )
    assert 0 == muted.returncode, muted.stderr
    assert 0 == run_into(output, cluster).returncode
    packed = command_here("bundle", runs[1], "--file", "bundle.tar.gz")
    assert 0 == packed.returncode and (tmp_path / "bundle.tar.gz").is_file()


@pytest.mark.long
def test_runs_in_s3_are_compared_and_pruned(cluster: SandboxCluster, server: S3Server, bucket: str):
    """A finding is counted over the runs that saw it, and two of all runs are kept."""
    output = f"s3a://{bucket}/audits"
    for _ in range(NIGHTS):
        assert 1 == run_into(output, cluster, "--keep-runs", "2").returncode
    kept = {key.split("/")[1] for key in server.keys(bucket) if "/run-" in key}
    assert 2 == len(kept)
    assert [NIGHTS] == [found["runs_seen"] for found in findings(newest(output))]


@pytest.mark.long
def test_a_run_into_s3_that_died_is_resumed(
    cluster: SandboxCluster, bucket: str, monkeypatch: pytest.MonkeyPatch
):
    """Its journal says which stages are complete; the files of the incomplete one are removed."""
    output = f"s3a://{bucket}/audits"
    with monkeypatch.context() as patch:

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("of the test")

        patch.setattr(run_module, "conclude", fail)
        died = run_into(output, cluster)
    assert 4 == died.returncode
    assert Output(place(output)).latest() is None
    run_id = died.stdout.split("auditor run --resume ")[1].split()[0]
    left = place(output) / f"run-{run_id}"
    (left / "evidence").write_text("of-the-stage-that-died.parquet", "")
    resumed = run_into(output, cluster, "--resume", run_id)
    assert 1 == resumed.returncode, resumed.stdout + resumed.stderr
    assert left == newest(output)
    assert "evidence/of-the-stage-that-died.parquet" not in left.files_in("evidence")


@pytest.mark.parametrize(
    ("uri", "named"),
    [
        ("s3a://key:secret@bucket/audits", "s3a://bucket/audits"),
        ("s3a://bucket/audits?secret=k", "s3a://bucket/audits"),
        ("s3://bucket/audits#access_key=k", "s3://bucket/audits"),
        ("hdfs://user@name/audits#x", "hdfs://name/audits"),
    ],
)
def test_credentials_in_the_uri_are_refused(uri: str, named: str):
    """The message does not repeat them."""
    with pytest.raises(OutputError, match="without credentials") as refused:
        place(uri)
    assert str(refused.value).startswith(f"{named}: ")


def test_a_failing_store_ends_the_run_before_anybody_is_asked(server: S3Server, bucket: str):
    """Exit 2, with what could not be written."""
    server.is_out_of_order = True
    done = command_here(
        "run", "--output", f"s3a://{bucket}/audits", "--metadata-service-uri", "zk://127.0.0.1:1/l"
    )
    assert 2 == done.returncode
    assert f"s3a://{bucket}/audits" in done.stderr


def names_of(run: Place) -> set[str]:
    """Return the files of a run, those of its tables by their directory."""
    infos = run.files.get_file_info(fs.FileSelector(run.path, recursive=True))
    names = (i.path.removeprefix(f"{run.path}/") for i in infos if i.type is fs.FileType.File)
    return {name.rpartition("/")[0] or name for name in names}


def findings(run: Place) -> list[dict[str, object]]:
    """Return the findings, without what differs from run to run."""
    lines = (run.read_text("findings.jsonl") or "").splitlines()
    return [
        {
            name: value
            for name, value in json.loads(line).items()
            if name in ("id", "kind", "ledger_id", "entries", "runs_seen")
        }
        for line in lines
    ]


def changes_of(compared: Done) -> str:
    """Return the only word that the comparison has for all findings."""
    said = json.loads(compared.stdout)
    (word,) = {one["change"] for one in said["differences"]}
    return word
