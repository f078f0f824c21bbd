"""TLS contexts from PEM files, and the errors for other files."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
from support.pki import PASSWORD, Pki

from auditor.config.access import SecretSource, TlsFiles
from auditor.credentials import tls
from auditor.credentials.tls import CONTEXTS_KEPT_MAX, client_context, shared_context
from auditor.errors import ConfigError


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def password(folder: Path, text: str) -> SecretSource:
    (folder / "password-of-key").write_text(text + "\n")
    return SecretSource(
        "the password of the key", "AUDITOR_X", file=str(folder / "password-of-key")
    )


def test_the_chain_is_always_checked_and_the_name_unless_switched_off(pki: Pki) -> None:
    """TLS 1.2 is the oldest version. The strict checks of Python 3.13 are off, because CAs made by
    keytool fail them.
    """
    for is_verified in (True, False):
        context = client_context(
            TlsFiles("bookie", ca=str(pki.ca()), is_hostname_verified=is_verified)
        )
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, is_verified)
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        assert not context.verify_flags & ssl.VERIFY_X509_STRICT


def test_conversations_share_a_context_until_a_file_changes(pki: Pki, tmp_path: Path) -> None:
    """The CAs are read once for hundreds of bookies. A renewed file is noticed."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(pki.ca().read_bytes())
    files = TlsFiles("bookie", ca=str(ca))
    first = shared_context(files)
    assert shared_context(TlsFiles("bookie", ca=str(ca))) is first
    assert shared_context(TlsFiles("bookie", ca=str(ca), is_hostname_verified=False)) is not first
    os.utime(ca, ns=(1, 1))
    assert shared_context(files) is not first
    ca.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        shared_context(files)


def test_few_contexts_are_kept(pki: Pki, tmp_path: Path) -> None:
    """A process whose files are renewed for months does not keep them all."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(pki.ca().read_bytes())
    files = TlsFiles("bookie", ca=str(ca))
    for at in range(CONTEXTS_KEPT_MAX + 2):
        os.utime(ca, ns=(at, at))
        shared_context(files)
    assert len(tls._contexts) <= CONTEXTS_KEPT_MAX


def test_only_the_cas_of_the_file_are_trusted(pki: Pki) -> None:
    """Without a file the chain is checked too, against the CAs of the system."""
    context = client_context(TlsFiles("bookie", ca=str(pki.ca())))
    assert [dict(part[0] for part in one["subject"]) for one in context.get_ca_certs()] == [
        {"commonName": "ca"}
    ]
    assert client_context(TlsFiles("bookie")).verify_mode == ssl.CERT_REQUIRED


def test_a_certificate_is_loaded_with_its_key_encrypted_or_not(pki: Pki, tmp_path: Path) -> None:
    """Both may be in one file. The line break after the password is not part of it."""
    ours = pki.issue("ours")
    both = tmp_path / "both.pem"
    both.write_text(ours.certificate.read_text() + ours.key.read_text())
    secret = password(tmp_path, "key secret")
    client_context(TlsFiles("bookie", certificate=str(ours.certificate), key=str(ours.key)))
    client_context(TlsFiles("bookie", certificate=str(both)))
    encrypted = str(ours.encrypted_key("key secret"))
    client_context(
        TlsFiles("bookie", certificate=str(ours.certificate), key=encrypted, key_password=secret)
    )


def test_a_key_that_does_not_open_is_distinguished_from_one_that_has_no_password(
    pki: Pki, tmp_path: Path
) -> None:
    """OpenSSL says only "PEM lib"; it never asks on the terminal."""
    ours = pki.issue("sealed")
    files = {"certificate": str(ours.certificate), "key": str(ours.encrypted_key("right"))}
    with pytest.raises(
        ConfigError, match=r"no password is given for the key in .*sealed-encrypted\.key"
    ):
        client_context(TlsFiles("bookie", **files))
    with pytest.raises(ConfigError, match="the password given is not that of the key") as raised:
        client_context(TlsFiles("bookie", **files, key_password=password(tmp_path, "wrong-secret")))
    assert "wrong-secret" not in str(raised.value)
    assert "--bookie-tls-key-password-file" in str(raised.value)


def test_the_key_of_another_certificate_is_reported(pki: Pki) -> None:
    """Two files were mixed up."""
    one, other = pki.issue("one"), pki.issue("two")
    with pytest.raises(ConfigError, match=r"the key in .*two\.key is that of another certificate"):
        client_context(TlsFiles("zookeeper", certificate=str(one.certificate), key=str(other.key)))


def test_key_stores_of_java_are_refused_with_the_lines_that_convert_them(
    pki: Pki, tmp_path: Path
) -> None:
    """There are lines for JKS and for PKCS12, and for a CA and a key."""
    jks = tmp_path / "keys.jks"
    jks.write_bytes(bytes.fromhex("feedfeed00000002") + b"\0" * 50)
    store = pki.issue("store").pkcs12
    with pytest.raises(
        ConfigError, match=r"keys\.jks is a JKS key store.*keytool -exportcert -rfc .*keys\.jks"
    ):
        client_context(TlsFiles("bookie", ca=str(jks)))
    with pytest.raises(
        ConfigError,
        match=r"-importkeystore -srckeystore .*keys\.jks.*; openssl pkcs12 -in keys\.p12",
    ):
        client_context(TlsFiles("bookie", certificate=str(jks)))
    with pytest.raises(
        ConfigError, match=r"is a PKCS12 key store.*: openssl pkcs12 -in .*store\.p12 -nodes"
    ):
        client_context(TlsFiles("bookie", certificate=str(store)))
    assert PASSWORD not in str(store)


def test_other_files_are_reported_with_the_setting_that_names_them(
    tmp_path: Path, pki: Pki
) -> None:
    """The file is missing, is empty, or has a certificate without its key."""
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with pytest.raises(ConfigError, match=r"--zookeeper-tls-ca .*none\.pem cannot be read"):
        client_context(TlsFiles("zookeeper", ca=str(tmp_path / "none.pem")))
    with pytest.raises(
        ConfigError, match=r"--bookie-tls-ca .*empty\.pem has no certificate in PEM form"
    ):
        client_context(TlsFiles("bookie", ca=str(empty)))
    with pytest.raises(
        ConfigError,
        match=r"--bookie-tls-certificate .*ca\.pem cannot be used: .*must have a certificate",
    ):
        client_context(TlsFiles("bookie", certificate=str(pki.ca())))
