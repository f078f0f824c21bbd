"""A real bookie with relative directories, as Pulsar's default configuration has them, beside a
lister that is started elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import command
from support.listers import await_listed, lister_command
from support.real_cluster import RealCluster

pytestmark = pytest.mark.real

RELATIVE = "data/bookkeeper/ledgers"
LEDGER, ENTRIES = 480_000, 50
METADATA = f"e1 w1 a1 0:[b1] closed {ENTRIES - 1}"


@pytest.fixture(scope="module")
def pulsar_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory in which the bookie is started."""
    return tmp_path_factory.mktemp("pulsar")


@pytest.fixture(scope="module")
def cluster(pulsar_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Yield one bookie with one ledger, whose cookie records a relative directory."""
    settings = {
        "ledgerDirectories": RELATIVE,
        "indexDirectories": RELATIVE,
        "journalDirectories": "data/bookkeeper/journal",
        "flushInterval": 1_000,
    }
    workdir = tmp_path_factory.mktemp("relative")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(pulsar_home)
        with RealCluster(workdir, 1, "DbLedgerStorage", settings) as cluster:
            patch.undo()
            cluster.place(LEDGER, cluster.ledger(METADATA), None)
            assert RELATIVE in (pulsar_home / RELATIVE / "current" / "VERSION").read_text()
            yield cluster


@pytest.fixture
def conf(cluster: RealCluster) -> str:
    """Return the name of the bookie's configuration file."""
    return str(cluster.directory("b1") / "bookie.conf")


def test_a_lister_lists_below_the_directory_in_which_the_bookie_was_started(
    conf: str, pulsar_home: Path
) -> None:
    """Its directories are below that one, and it lists."""
    with lister_command("--bookkeeper-conf", conf, "--bookie-directory", str(pulsar_home)) as where:
        await_listed(where, LEDGER)


def test_absolute_directories_name_those_that_the_cookie_has_as_relative(
    conf: str, pulsar_home: Path
) -> None:
    """They end with what the cookie records."""
    flags = ("--bookkeeper-conf", conf, "--ledger-dirs", str(pulsar_home / RELATIVE))
    with lister_command(*flags) as where:
        await_listed(where, LEDGER)


def test_a_relative_directory_alone_is_refused(cluster: RealCluster, conf: str) -> None:
    """The error says which setting is missing."""
    done = command("lister", "--bookkeeper-conf", conf, "--listen", "127.0.0.1:0")
    assert 2 == done.returncode
    assert RELATIVE in done.stderr and "--bookie-directory" in done.stderr


def test_doctor_looks_at_a_list_of_each_lister(
    cluster: RealCluster, conf: str, pulsar_home: Path, tmp_path: Path
) -> None:
    """A lister that listens and can list nothing is a fault, whatever its greeting says."""
    current = pulsar_home / RELATIVE / "current" / "locations" / "CURRENT"
    with lister_command("--bookkeeper-conf", conf, "--bookie-directory", str(pulsar_home)) as where:
        await_listed(where, LEDGER)
        (tmp_path / "map").write_text(f"b1 {where}\n")
        flags = ("--metadata-service-uri", cluster.metadata_service_uri, "--lister-map")
        good = command("doctor", *flags, str(tmp_path / "map"))
        current.rename(current.with_name("CURRENT.away"))
        try:
            bad = command("doctor", *flags, str(tmp_path / "map"))
        finally:
            current.with_name("CURRENT.away").rename(current)
    expected = f"it lists {ENTRIES} of the {ENTRIES} entries that the bookie should hold"
    assert (0, True) == (good.returncode, expected in good.stdout), good.stdout
    assert (5, True) == (bad.returncode, f"ledger {LEDGER} was not listed" in bad.stdout), (
        bad.stdout
    )
