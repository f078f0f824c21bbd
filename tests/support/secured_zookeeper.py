"""Settings of a ZooKeeper server with a TLS port, SASL logins and the digest scheme."""

from __future__ import annotations

from pathlib import Path

from support.pki import Issued, Pki

LOGIN_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"


def secured_zookeeper(pki: Pki, issued: Issued, tls_port: int) -> dict[str, object]:
    """Return settings of a second port with TLS, which requires a client certificate of the CA, and
    of logins on both.
    """
    return {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": tls_port,
        "secureClientPortAddress": "127.0.0.1",
        "ssl.keyStore.location": issued.pkcs12,
        "ssl.keyStore.passwordPath": pki.password_file(),
        "ssl.trustStore.location": pki.truststore(),
        "ssl.trustStore.passwordPath": pki.password_file(),
        "ssl.clientAuth": "need",
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }


def jaas_of_zookeeper(folder: Path, user: str, password: str) -> str:
    """Return the JVM flag of a server that knows this user."""
    path = folder / "zookeeper.jaas"
    path.write_text(
        f'Server {{ {LOGIN_MODULE} required user_{user}="{password}"; }};\n', encoding="utf-8"
    )
    return f"-Djava.security.auth.login.config={path}"
