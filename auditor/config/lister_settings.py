"""The settings of `auditor lister`, and those by which an audit finds listers."""

from __future__ import annotations

from auditor.config.secured_settings import secret_settings
from auditor.config.setting import Setting
from auditor.config.units import COUNT, DURATION, FILE, LIST, ON_OFF, RATE, SIZE, TEXT

_LISTERS = "Listers"
_LISTER = "The lister"
_USING = frozenset({"run", "ledger", "topic", "config"})
_SERVING = frozenset({"lister", "config"})

_LISTEN_TLS_SETTINGS = (
    Setting(
        "listen_tls", _LISTER, ON_OFF, None,
        "Speak TLS with clients, and answer nothing that is asked in clear.",
        "Not set: on if the bookie speaks TLS (tlsProviderFactoryClass in --bookkeeper-conf), with "
        "its certificate.",
        commands=_SERVING,
    ),
    Setting(
        "listen_tls_certificate", _LISTER, FILE, None,
        "PEM file with the lister's certificate, and those between it and its CA.",
        "Not set: the certificate and key of the bookie are used.",
        commands=_SERVING,
    ),
    Setting(
        "listen_tls_key", _LISTER, FILE, None,
        "PEM file with the private key of --listen-tls-certificate. It may be encrypted.",
        "Not set: the key is in the file of the certificate.",
        commands=_SERVING,
    ),
    *secret_settings(
        "listen_tls_key_password", _LISTER, "the password of --listen-tls-key", _SERVING
    ),
    Setting(
        "listen_tls_ca", _LISTER, FILE, None,
        "PEM file with the CAs of clients. A client without a certificate of one of them is "
        "refused.",
        "Not set: the bookie's tlsTrustStore if it wants client certificates "
        "(tlsClientAuthentication=true), else none is asked for.",
        commands=_SERVING,
    ),
)  # fmt: skip

LISTER_SETTINGS = (
    Setting(
        "lister_port", _LISTERS, COUNT, "0",
        "Port of a lister on the host of each bookie. A bookie that has one is listed by it, and "
        "is not asked "
        "for lists itself.",
        "0: none is asked. A host without a lister costs one refused connection.",
        low=0, high=65_535, commands=_USING,
    ),
    Setting(
        "lister_map", _LISTERS, FILE, None,
        "File with the addresses of listers: a line each, with the id of a bookie and HOST:PORT; # "
        "begins a comment. It overrides --lister-port for the bookies it names.",
        "Not set: listers are looked for with --lister-port only.",
        commands=_USING,
    ),
    Setting(
        "lister_tls", _LISTERS, ON_OFF, "off",
        "Speak TLS with listers, with the files of --bookie-tls-ca, --bookie-tls-certificate and "
        "--bookie-tls-key. A lister that offers none is not used.",
        "Off: a lister without TLS needs no settings.",
        commands=_USING,
    ),
    Setting(
        "bookkeeper_conf", _LISTER, FILE, None,
        "Configuration file of the bookie beside which the lister runs. Directories, id and port "
        "come from it.",
        "Not set: give --ledger-dirs and --bookie-id.",
        commands=_SERVING,
    ),
    Setting(
        "ledger_dirs", _LISTER, LIST, None,
        "Ledger directories of the bookie, in the order of its ledgerDirectories.",
        "Not set: those of --bookkeeper-conf. The order decides where a ledger lives; the cookie "
        "is compared.",
        commands=_SERVING,
    ),
    Setting(
        "index_dirs", _LISTER, LIST, None,
        "Index directories of the bookie, in the order of its indexDirectories.",
        "Not set: those of --bookkeeper-conf, else the ledger directories, as for the bookie.",
        commands=_SERVING,
    ),
    Setting(
        "bookie_directory", _LISTER, FILE, None,
        "Directory in which the bookie was started. Relative directories, as in Pulsar's own "
        "configuration, are below it.",
        "Not set: a relative directory is refused. It means another place here than in the bookie.",
        commands=_SERVING,
    ),
    Setting(
        "bookie_id", _LISTER, TEXT, None,
        "ID of the bookie. The lister does not start if the cookie in the directories names "
        "another.",
        "Not set: the id that --bookkeeper-conf has, else the one in the cookie.",
        commands=_SERVING,
    ),
    Setting(
        "bookie_address", _LISTER, TEXT, None,
        "HOST:PORT at which the bookie itself answers. The lister answers only while it does.",
        "Not set: advertisedAddress and bookiePort of --bookkeeper-conf, else the bookie id if "
        "that is an address.",
        commands=_SERVING,
    ),
    Setting(
        "listen", _LISTER, TEXT, None,
        "HOST:PORT to listen on; port 0: any free port, which is printed.",
        "No default: without TLS the lister answers every client, in clear text, so its "
        "address is chosen on purpose.",
        commands=_SERVING, required=frozenset({"lister"}),
    ),
    *_LISTEN_TLS_SETTINGS,
    Setting(
        "metrics_listen", _LISTER, TEXT, None,
        "HOST:PORT on which /metrics is served for Prometheus over HTTP; port 0: any free port, "
        "which "
        "is logged.",
        "Not set: no metrics are served.",
        commands=_SERVING,
    ),
    Setting(
        "lister_connections", _LISTER, COUNT, "16",
        "Most connections at once. A further one is closed.",
        "An audit has one connection a bookie. The bound limits what slow clients can hold in "
        "memory.",
        low=1, high=1_000, commands=_SERVING,
    ),
    Setting(
        "lister_ledgers_in_work", _LISTER, COUNT, "64",
        "Most lists in work for one connection. Further requests wait unread.",
        "What an audit has outstanding at one bookie (--bookie-inflight).",
        low=1, high=4_096, commands=_SERVING,
    ),
    Setting(
        "lister_answer_bytes_max", _LISTER, SIZE, "64MiB",
        "Longest list. A longer one is answered with EIO.",
        "2.7 million groups: more than a striped ledger of any length has, since long lists are "
        "sent as periodic groups.",
        low=2**20, high=2**30, commands=_SERVING,
    ),
    Setting(
        "lister_keys_per_second", _LISTER, RATE, "500000",
        "Keys read a second in each index directory. 0: no limit.",
        "A fifth of what one core reads, so that the bookie keeps the rest of it.",
        low=0, high=100_000_000, commands=_SERVING,
    ),
    Setting(
        "lister_view_age_max", _LISTER, DURATION, "1s",
        "Age at which a view of the index is renewed before a list is made from it.",
        "Renewing costs 1-2 ms. What the bookie has not flushed is missing from any view, for "
        "some 10 s by default.",
        low=0, high=60_000, commands=_SERVING,
    ),
)  # fmt: skip
