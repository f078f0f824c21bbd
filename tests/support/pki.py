"""Certificates for tests, made with openssl: one trusted CA, one untrusted CA, and what they sign.

    pki = Pki(tmp_path)
    server = pki.issue("bookie", san="IP:127.0.0.1,DNS:localhost")     # .certificate .key .pkcs12
    old = pki.issue("old", is_expired=True)
    stranger = pki.issue("stranger", by="other")                      # pki.ca("other") signed it

Keys are EC, so that each costs milliseconds. Key stores have the password `PASSWORD`.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

PASSWORD = "keystore-secret"
COMMAND_TIMEOUT_S = 30
LOOPBACK = "IP:127.0.0.1,DNS:localhost"
DAYS = 30
EXPIRED = ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z")
EARLY = ("-startdate", "20900101000000Z", "-enddate", "20900102000000Z")

_CONFIG = """\
[ca]
default_ca = here
[here]
dir = {folder}
database = {folder}/index.txt
new_certs_dir = {folder}
certificate = {folder}/{ca}.pem
private_key = {folder}/{ca}.key
default_md = sha256
policy = any
unique_subject = no
rand_serial = yes
x509_extensions = leaf
[any]
commonName = supplied
organizationalUnitName = optional
[leaf]
subjectAltName = {san}
"""


@dataclass(frozen=True)
class Issued:
    """A certificate and its key: PEM, and both with the CA in a PKCS12 key store."""

    certificate: Path
    key: Path
    folder: Path
    name: str

    @property
    def pkcs12(self) -> Path:
        """The key store. The first use makes it."""
        store = self.folder / f"{self.name}.p12"
        if not store.exists():
            export = (
                "-in",
                self.certificate,
                "-inkey",
                self.key,
                "-out",
                store,
                "-name",
                self.name,
            )
            openssl("pkcs12", "-export", *export, "-passout", f"pass:{PASSWORD}")
        return store

    def encrypted_key(self, password: str) -> Path:
        """Return the key encrypted with this password."""
        path = self.folder / f"{self.name}-encrypted.key"
        openssl("pkcs8", "-topk8", "-in", self.key, "-out", path, "-passout", f"pass:{password}")
        return path


class Pki:
    """Two CAs, `ca` and `other`, and what they sign, in one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        (folder / "index.txt").touch()
        for name in ("ca", "other"):
            _new_key(folder / f"{name}.key")
            request = (
                "req",
                "-x509",
                "-key",
                folder / f"{name}.key",
                "-subj",
                f"/CN={name}",
                "-days",
                DAYS,
            )
            openssl(*request, "-out", folder / f"{name}.pem")

    def ca(self, name: str = "ca") -> Path:
        """Return the certificate of a CA."""
        return self.folder / f"{name}.pem"

    def truststore(self, name: str = "ca") -> Path:
        """Return a PKCS12 key store with the certificate of a CA, as Java trusts it. keytool makes
        it: a second.
        """
        store = self.folder / f"trust-{name}.p12"
        if not store.exists():
            where = ["-keystore", str(store), "-storetype", "PKCS12", "-storepass", PASSWORD]
            _run(
                [
                    "keytool",
                    "-importcert",
                    "-noprompt",
                    "-alias",
                    name,
                    "-file",
                    str(self.ca(name)),
                    *where,
                ]
            )
        return store

    def issue(
        self,
        name: str,
        *,
        by: str = "ca",
        san: str = LOOPBACK,
        unit: str = "",
        is_expired: bool = False,
        is_early: bool = False,
    ) -> Issued:
        """Sign a certificate for these names. `unit` is its organizational unit; bookies read roles
        from it. One that `is_early` is valid from 2090 on.
        """
        key, request, certificate = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        _new_key(key)
        subject = f"/CN={name}" + (f"/OU={unit}" if unit else "")
        openssl("req", "-new", "-key", key, "-subj", subject, "-out", request)
        config = self.folder / f"{name}.conf"
        config.write_text(_CONFIG.format(folder=self.folder, ca=by, san=san))
        life = EXPIRED if is_expired else EARLY if is_early else ("-days", DAYS)
        openssl(
            "ca", "-batch", "-notext", "-config", config, "-in", request, "-out", certificate, *life
        )
        return Issued(certificate, key, self.folder, name)

    def password_file(self) -> Path:
        """Return a file with PASSWORD, without a line break: bookies do not strip one."""
        path = self.folder / "password"
        path.write_text(PASSWORD)
        return path


def openssl(*arguments: object) -> None:
    """Run openssl. The error it raises contains the output."""
    _run(["openssl", *map(str, arguments)])


def _new_key(path: Path) -> None:
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
