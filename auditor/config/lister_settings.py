"""The settings of `auditor lister`, and those by which an audit finds listers."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.config.secured_settings import secret_command, secret_file
from auditor.config.setting import setting
from auditor.config.units import COUNT, DIRECTORY, DURATION, FILE, LIST, ON_OFF, RATE, SIZE, TEXT

_USING = frozenset({"run", "ledger", "topic", "rehearse", "salvage", "config"})
_SERVING = frozenset({"lister", "config"})

# fmt: off

@dataclass(frozen=True, kw_only=True)
class ListersSettings:
    """Where an audit finds listers."""

    lister_port: int = setting(
        COUNT, "0",
        "Port of a lister on the host of each bookie. A bookie that has one is listed by it, and "
        "is not asked "
        "for lists itself.",
        "0: none is asked. A host without a lister costs one refused connection.",
        low=0, high=65_535, commands=_USING,
    )
    lister_map: str | None = setting(
        FILE, None,
        "File with the addresses of listers: a line each, with the id of a bookie and HOST:PORT; # "
        "begins a comment. It overrides --lister-port for the bookies it names.",
        "Not set: listers are looked for with --lister-port only.",
        commands=_USING,
    )
    lister_tls: bool = setting(
        ON_OFF, "off",
        "Speak TLS with listers, with the files of --bookie-tls-ca, --bookie-tls-certificate and "
        "--bookie-tls-key. A lister that offers none is not used.",
        "Off: a lister without TLS needs no settings.",
        commands=_USING,
    )


@dataclass(frozen=True, kw_only=True)
class ListerSettings:
    """What a lister serves, for whom, and at which pace."""

    bookkeeper_conf: str | None = setting(
        FILE, None,
        "Configuration file of the bookie beside which the lister runs. Directories, id and port "
        "come from it.",
        "Not set: give --ledger-dirs and --bookie-id.",
        commands=_SERVING,
    )
    ledger_dirs: tuple[str, ...] | None = setting(
        LIST, None,
        "Ledger directories of the bookie, in the order of its ledgerDirectories.",
        "Not set: those of --bookkeeper-conf. The order decides where a ledger lives; the cookie "
        "is compared.",
        commands=_SERVING,
    )
    index_dirs: tuple[str, ...] | None = setting(
        LIST, None,
        "Index directories of the bookie, in the order of its indexDirectories.",
        "Not set: those of --bookkeeper-conf, else the ledger directories, as for the bookie.",
        commands=_SERVING,
    )
    bookie_directory: str | None = setting(
        FILE, None,
        "Directory in which the bookie was started. Relative directories, as in Pulsar's own "
        "configuration, are below it.",
        "Not set: a relative directory is refused. It means another place here than in the bookie.",
        commands=_SERVING,
    )
    bookie_id: str | None = setting(
        TEXT, None,
        "ID of the bookie. The lister does not start if the cookie in the directories names "
        "another.",
        "Not set: the id that --bookkeeper-conf has, else the one in the cookie.",
        commands=_SERVING,
    )
    bookie_address: str | None = setting(
        TEXT, None,
        "HOST:PORT at which the bookie itself answers. The lister answers only while it does.",
        "Not set: advertisedAddress and bookiePort of --bookkeeper-conf, else the bookie id if "
        "that is an address.",
        commands=_SERVING,
    )
    listen: str | None = setting(
        TEXT, None,
        "HOST:PORT to listen on; port 0: any free port, which is printed.",
        "No default: without TLS the lister answers every client, in clear text, so its "
        "address is chosen on purpose.",
        commands=_SERVING, required=frozenset({"lister"}),
    )
    listen_tls: bool | None = setting(
        ON_OFF, None,
        "Speak TLS with clients, and answer nothing that is asked in clear.",
        "Not set: on if the bookie speaks TLS (tlsProviderFactoryClass in --bookkeeper-conf), with "
        "its certificate.",
        commands=_SERVING,
    )
    listen_tls_certificate: str | None = setting(
        FILE, None,
        "PEM file with the lister's certificate, and those between it and its CA.",
        "Not set: the certificate and key of the bookie are used.",
        commands=_SERVING,
    )
    listen_tls_key: str | None = setting(
        FILE, None,
        "PEM file with the private key of --listen-tls-certificate. It may be encrypted.",
        "Not set: the key is in the file of the certificate.",
        commands=_SERVING,
    )
    listen_tls_key_password_file: str | None = secret_file(
        "listen_tls_key_password", "the password of --listen-tls-key", _SERVING
    )
    listen_tls_key_password_command: str | None = secret_command(
        "the password of --listen-tls-key", _SERVING
    )
    listen_tls_ca: str | None = setting(
        FILE, None,
        "PEM file with the CAs of clients. A client without a certificate of one of them is "
        "refused.",
        "Not set: the bookie's tlsTrustStore if it wants client certificates "
        "(tlsClientAuthentication=true), else none is asked for.",
        commands=_SERVING,
    )
    metrics_listen: str | None = setting(
        TEXT, None,
        "HOST:PORT on which /metrics is served for Prometheus over HTTP; port 0: any free port, "
        "which "
        "is logged.",
        "Not set: no metrics are served.",
        commands=_SERVING,
    )
    lister_connections: int = setting(
        COUNT, "16",
        "Most connections at once. A further one is closed.",
        "An audit has one connection a bookie. The bound limits what slow clients can hold in "
        "memory.",
        low=1, high=1_000, commands=_SERVING,
    )
    lister_ledgers_in_work: int = setting(
        COUNT, "64",
        "Most lists in work for one connection. Further requests wait unread.",
        "What an audit has outstanding at one bookie (--bookie-inflight).",
        low=1, high=4_096, commands=_SERVING,
    )
    lister_answer_bytes_max: int = setting(
        SIZE, "64MiB",
        "Longest list. A longer one is answered with EIO.",
        "2.7 million groups: more than a striped ledger of any length has, since long lists are "
        "sent as periodic groups.",
        low=2**20, high=2**30, commands=_SERVING,
    )
    lister_keys_per_second: float = setting(
        RATE, "500000",
        "Keys read a second in each index directory. 0: no limit.",
        "A fifth of what one core reads, so that the bookie keeps the rest of it.",
        low=0, high=100_000_000, commands=_SERVING,
    )
    scrub: str | None = setting(
        DIRECTORY, None,
        "Read the bookie's entry logs in their order, check every digest that can be checked "
        "without metadata, and keep in this directory what was found and how far it came. A "
        "bookie that lists itself may have a lister for this alone.",
        "Not set: no entry log is read.",
        commands=_SERVING,
    )
    scrub_bytes_per_second: int = setting(
        SIZE, "8MiB",
        "Bytes that a scrub reads a second, at most, at idle priority. 0: no limit. A scrub also "
        "rests four times as long as each read of a disk took.",
        "20 TB in 30 days, and a twentieth of what one disk reads.",
        low=0, high=2**40, commands=_SERVING,
    )
    scrub_every_ms: int = setting(
        DURATION, "7d",
        "At most one pass over the entry logs begins in this time. A pass that takes longer is "
        "followed by the next one at once.",
        "Within a month every bookie is read whole, even if a pass is interrupted.",
        low=0, high=365 * 86_400_000, commands=_SERVING,
    )
    lister_view_age_max_ms: int = setting(
        DURATION, "1s",
        "Age at which a view of the index is renewed before a list is made from it.",
        "Renewing costs 1-2 ms. What the bookie has not flushed is missing from any view, for "
        "some 10 s by default.",
        low=0, high=60_000, commands=_SERVING,
    )
