"""Files with secrets that more people can read than should."""

from __future__ import annotations

from pathlib import Path

from auditor.config.access import BookieAccess, SaslLogin, SecretSource, TlsFiles, ZooKeeperAccess
from auditor.credentials.checking import secrets_open_to_all


def test_every_file_with_a_secret_that_all_may_read_is_named(tmp_path: Path) -> None:
    """Passwords, private keys and ZooKeeper's digest are secret. CAs are public, and so are
    certificates in a file without a key.
    """
    paths = {
        name: str(tmp_path / name)
        for name in ("ca", "cert", "key", "key_pw", "pw", "both", "digest")
    }
    for path in paths.values():
        Path(path).touch()

    def source(name: str) -> SecretSource:
        return SecretSource("it", "AUDITOR_X", file=paths[name])

    bookie = BookieAccess(
        TlsFiles("bookie", paths["ca"], paths["cert"], paths["key"], source("key_pw")),
        SaslLogin("u", source("pw")),
    )
    zookeeper = ZooKeeperAccess(
        TlsFiles("zookeeper", paths["ca"], paths["both"]), digest=source("digest")
    )
    for mode, found in (
        (0o644, ["both", "digest", "key", "key_pw", "pw"]),
        (0o640, []),
        (0o600, []),
    ):
        for path in paths.values():
            Path(path).chmod(mode)
        assert secrets_open_to_all(bookie, zookeeper) == [paths[name] for name in found]
    assert (
        secrets_open_to_all(
            BookieAccess(sasl=SaslLogin("u", SecretSource("it", "V", command="c"))),
            ZooKeeperAccess(),
        )
        == []
    )
    Path(paths["digest"]).unlink()
    assert secrets_open_to_all(bookie, zookeeper) == []
