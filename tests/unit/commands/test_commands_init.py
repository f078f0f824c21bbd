"""The file that `auditor init` writes, whatever a cluster says."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_line import command_here

from auditor.commands.init import BOOKIES_ASKED_MAX, ClusterView, file_text
from auditor.config import Layers, parse
from auditor.model.cluster import BookieRecord, ClusterFacts, Registration
from auditor.topology.locating import Located, Topology

URI = "zk+hierarchical://zk1:2181/ledgers"
HOSTILE = 'b\n[evil]\nfail_on = "never" \x1b[2J'
FACTS = ClusterFacts(URI, ("zk1:2181",), "/ledgers", "hierarchical", "id-1", False, None)


def record(name: str) -> BookieRecord:
    return BookieRecord(name, 1, 0, Registration.WRITABLE, "h", 3181, True)


def view(*names: str) -> ClusterView:
    return ClusterView(FACTS, [record(name) for name in names], names, (), {}, Topology(), "")


def written(seen: ClusterView, **flags: str) -> str:
    settings = parse(Layers(flags={"metadata_service_uri": URI, **flags}), command="run")
    return file_text(settings, seen)


def test_only_what_is_known_is_set() -> None:
    """Each of the first settings is there, with a value or as a comment with an example."""
    text = written(view("b1"))
    assert {"metadata_service_uri", "output"} == set(tomllib.loads(text))
    for key in ("cluster", "metrics_textfile", "pushgateway", "placement_policy", "maintenance"):
        assert f"\n# {key} = " in text
    assert "no locations of bookies" in text and '\n# topology = "' in text
    assert tomllib.loads(text)["output"] == str(Path("audits").absolute())


def test_locations_in_zookeeper_are_proposed() -> None:
    """They cost nobody anything, and the policy is left to a person."""
    placed = Topology((Located("b1", "/rack-1", "zookeeper", "id"),))
    text = written(replace(view("b1"), topology=placed))
    assert tomllib.loads(text)["topology"] == "zookeeper"
    assert "such as b1 in /rack-1 (zookeeper)" in text and "\n# placement_policy = " in text


def test_what_was_given_is_kept_and_no_password() -> None:
    """The runs that the file is for need it. Settings of this call, and secrets, do not belong
    there.
    """
    text = written(
        view("b1"), bookie_inflight="16", cluster="prod", format="json", full="true", looks_max="5"
    )
    assert {"metadata_service_uri", "output", "cluster", "bookie_inflight"} == set(
        tomllib.loads(text)
    )
    environment = {"AUDITOR_PUSHGATEWAY": "http://joe:s3cr3t@gateway:9091"}
    flags = {"metadata_service_uri": URI}
    settings = parse(Layers(flags=flags, environment=environment), command="run")
    text = file_text(settings, view("b1"))
    assert "s3cr3t" not in text and "pushgateway" not in tomllib.loads(text)
    assert "AUDITOR_PUSHGATEWAY" in text


def test_no_name_of_a_bookie_writes_a_setting() -> None:
    """Anybody may register a bookie. Names are escaped, and only some are written."""
    names = [HOSTILE, *(f"b{number}" for number in range(BOOKIES_ASKED_MAX))]
    seen = view(*names)
    text = written(replace(seen, unable=(HOSTILE,), silent={HOSTILE: "x"}))
    assert {"metadata_service_uri", "output"} == set(tomllib.loads(text))
    said = " ".join(text.replace("\n#", " ").split())
    assert "\x1b" not in text and "and 41 more" in said
    assert f"of the first {BOOKIES_ASKED_MAX} no answer from b\\n[evil]" in said


def test_what_no_bookie_showed_is_said_to_be_unknown() -> None:
    """A bookie that greets and does not answer the list, or holds no closed ledger, shows nothing
    of its storage.
    """
    seen = view("b1", "b2", "b3", "b4")
    unknown = "not known whether they list their entries: "
    assert unknown not in "\n".join(seen.sentences())
    seen = replace(seen, listing=("b1",), unable=("b2",), silent={"b4": "x"})
    assert f"{unknown}b3" in seen.sentences()


@pytest.mark.parametrize("name", ["auditor.toml", "elsewhere.toml"])
def test_nothing_is_contacted_for_a_file_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A link that leads nowhere counts as a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).symlink_to("nowhere")
    given = [] if name == "auditor.toml" else [name]
    done = command_here("init", *given, "--metadata-service-uri", URI)
    assert 2 == done.returncode and "exists already" in done.stderr
    assert not (tmp_path / "nowhere").exists()


def test_no_file_is_written_of_a_cluster_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 5, as for every command that asks a cluster."""
    monkeypatch.chdir(tmp_path)
    nobody = "zk+hierarchical://127.0.0.1:1/ledgers"
    patience = ("--zookeeper-connect-timeout", "1s")
    done = command_here("init", "--metadata-service-uri", nobody, *patience)
    assert 5 == done.returncode and "UNREACHABLE" in done.stdout
    assert [] == list(tmp_path.iterdir())
