"""Listers beside real bookies with TLS and PEM files: they read the bookies' own configuration, and
an audit asks them inside TLS.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.audits import accounted, audit, audit_ledgers
from support.listers import await_listed, listers_of
from support.pki import PASSWORD, Pki
from support.real_cluster import RealCluster

from auditor.config.access import TlsFiles
from auditor.credentials.tls import client_context
from auditor.model.finding import Kind

pytestmark = pytest.mark.real

SOUND, LOST = 471_000, 471_001
METADATA = "e3 w2 a2 0:[b1 b2 b3] closed 99"
MISSING = 50
"""An entry in the middle of a ledger, where the few reads of a probe do not look."""


@dataclass(frozen=True)
class Listed:
    """The cluster, the map of its listers, and the settings by which both accept an audit."""

    cluster: RealCluster
    map: Path
    tls: dict[str, str]


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listed]:
    """Yield three bookies that require client certificates, each with a lister."""
    folder = tmp_path_factory.mktemp("secured")
    pki = Pki(folder / "pki")
    bookie, auditor = pki.issue("bookie"), pki.issue("auditor")
    settings = {
        "tlsProvider": "JDK",
        "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": bookie.encrypted_key(PASSWORD),
        "tlsCertificatePath": bookie.certificate,
        "tlsKeyStorePasswordPath": pki.password_file(),
        "tlsClientAuthentication": "true",
        "tlsTrustStoreType": "PEM",
        "tlsTrustStore": pki.ca(),
    }
    files = TlsFiles("bookie", str(pki.ca()), str(auditor.certificate), str(auditor.key))
    tls = {
        "bookie_tls_ca": str(pki.ca()),
        "bookie_tls_certificate": str(auditor.certificate),
        "bookie_tls_key": str(auditor.key),
    }
    with RealCluster(
        folder / "cluster", bookies=3, storage="DbLedgerStorage", settings=settings
    ) as cluster:
        metadata = cluster.ledger(METADATA)
        cluster.place(LOST, metadata, dict.fromkeys(("b1", "b2", "b3"), str(MISSING)))
        cluster.place(SOUND, metadata)
        with listers_of(cluster, folder) as found:
            for line in found.read_text().splitlines():
                await_listed(line.split()[1], SOUND, client_context(files))
            yield Listed(cluster, found, tls)


def test_a_run_asks_bookies_and_listers_inside_tls(listed: Listed, tmp_path: Path) -> None:
    """The run finds the one entry that only lists show, and says that listers listed."""
    settings = {"bookie_tls": "on", "lister_tls": "on", "lister_map": str(listed.map)}
    outcome = accounted(audit(listed.cluster, tmp_path, **settings, **listed.tls))
    assert [(found["ledger_id"], found["kind"]) for found in outcome.findings] == [
        (LOST, Kind.ENTRY_WITHOUT_REPLICA)
    ]
    assert outcome.findings[0]["entries"] == [[MISSING, MISSING]]
    assert outcome.summary["listers"]["listed"] == 3
    assert outcome.summary["assurance"] | {"listed": 2, "probed": 0} == outcome.summary["assurance"]


def test_a_lister_that_is_asked_in_clear_lists_nothing(listed: Listed) -> None:
    """The bookies are probed as if they had none."""
    settings = {"bookie_tls": "on", "lister_map": str(listed.map)}
    outcome = audit_ledgers(listed.cluster, [SOUND], **settings, **listed.tls)
    assert outcome.standings(SOUND) == ["sound"]
    assert outcome.verdicts[SOUND].report["listed_by"] == {}
