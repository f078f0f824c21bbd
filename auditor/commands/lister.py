"""`auditor lister`: serve a bookie's lists of entries from its index, until SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from auditor import __version__
from auditor.config import Settings
from auditor.context import EXIT_SOUND, EXIT_UNREACHABLE, Context
from auditor.credentials.checking import OPEN_TO_ALL_ADVICE, open_to_all, secrets_of_server
from auditor.credentials.tls import RenewedContext
from auditor.errors import ConfigError, StoreUnavailable
from auditor.lister.bookie_configuration import (
    DEFAULT_BOOKIE_PORT,
    INDEX_DIRECTORIES,
    LEDGER_DIRECTORIES,
    BookieConfiguration,
    read_configuration,
    read_properties,
    tls_configuration,
    with_directories,
)
from auditor.lister.directory_reader import DirectoryReader
from auditor.lister.index_view import IndexInDoubt, stamp_of
from auditor.lister.ledger_lists import ListLimits
from auditor.lister.scrub import Scrub, ScrubTerms, check_directory
from auditor.lister.server import ListerServer, ServerLimits, report_to
from auditor.lister.serving import ServingCheck, check_cookie
from auditor.local_faults import local_fault
from auditor.model.identity import split_host_port
from auditor.telemetry.lister_metrics import ListerMetrics
from auditor.wire.cookie import Cookie
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import open_store

ROCKSDICT = "0.3.29"
"""The only version of rocksdict that was shown to read a running bookie's index without missing
keys."""


def lister(context: Context) -> int:
    """Serve until SIGTERM or SIGINT. Returns 0, or 5 if an address cannot be listened on.

    Raises ConfigError if the directories are not those of the bookie that is configured.
    """
    settings = context.settings
    configured = configuration(settings)
    tls = _tls(context)
    cookie = check_cookie(configured)
    lists = settings.scrub is None or _has_indexes(configured)
    if lists:
        _require_rocksdict()
        _require_indexes(configured)
    if settings.scrub is not None:
        check_directory(Path(settings.scrub), configured)
    address = bookie_address(settings, configured, cookie)
    where = _host_port("listen", settings.listen or "", is_listening=True)
    scraped = settings.metrics_listen and _host_port(
        "metrics_listen", settings.metrics_listen, is_listening=True
    )
    try:
        _check_instance(settings, cookie)
    except StoreUnavailable as error:
        context.note(f"auditor: {error}")
        return EXIT_UNREACHABLE
    metrics = ListerMetrics(cookie.bookie_id, __version__)
    with tempfile.TemporaryDirectory(prefix="auditor-lister-") as scratch:
        server = _server(
            context, configured, cookie, address, Path(scratch), metrics, tls, lists=lists
        )
        with _metrics_served(context, metrics, scraped or None) as is_served:
            return asyncio.run(_serve(context, server, *where)) if is_served else EXIT_UNREACHABLE


@contextmanager
def _metrics_served(
    context: Context, metrics: ListerMetrics, where: tuple[str, int] | None
) -> Iterator[bool]:
    """Serve metrics at this address, if there is one. Yields False if it cannot be listened on."""
    if where is None:
        yield True
        return
    try:
        port, stop = metrics.serve(*where)
    except OSError as error:
        context.note(f"auditor: cannot serve metrics on {where[0]}:{where[1]}: {error.strerror}")
        yield False
        return
    context.logger.info("lister_metrics_served", host=where[0], port=port)
    try:
        yield True
    finally:
        stop()


def configuration(settings: Settings) -> BookieConfiguration:
    """Return the bookie's configuration file, overridden by flags. Raises ConfigError."""
    if settings.bookkeeper_conf is None and (
        settings.ledger_dirs is None or settings.bookie_id is None
    ):
        raise ConfigError(
            "a lister needs --bookkeeper-conf FILE, or --ledger-dirs DIR[,DIR…] and --bookie-id ID"
        )
    named = settings.bookie_directory
    started_in = Path(named).absolute() if named is not None else None
    conf, without = settings.bookkeeper_conf, _overridden(settings)
    read: BookieConfiguration | None = None
    if conf is not None:
        any_storage = settings.scrub is not None
        read = read_configuration(Path(conf), started_in, without, any_storage=any_storage)
    ledgers = tuple(map(Path, settings.ledger_dirs or ())) or (
        read.ledger_directories if read else ()
    )
    indexes = tuple(map(Path, settings.index_dirs or ()))
    if not indexes and read is not None and settings.ledger_dirs is None:
        indexes = read.index_directories
    return with_directories(
        ledgers,
        indexes,
        settings.bookie_id or (read.bookie_id if read else None),
        read.host if read else None,
        read.port if read else DEFAULT_BOOKIE_PORT,
        settings.bookkeeper_conf or "ledger_dirs",
        started_in,
    )


def _overridden(settings: Settings) -> list[str]:
    """Return the keys of the bookie's file whose directories flags override."""
    if settings.ledger_dirs is not None:
        return [LEDGER_DIRECTORIES, INDEX_DIRECTORIES]
    return [INDEX_DIRECTORIES] if settings.index_dirs is not None else []


def _tls(context: Context) -> RenewedContext | None:
    """Return the lister's TLS, None without TLS. Raises ConfigError if its files cannot be used."""
    conf = context.settings.bookkeeper_conf
    properties = read_properties(Path(conf)) if conf else {}
    files = tls_configuration(context.settings, properties, conf or "the bookie's configuration")
    if files is None:
        return None
    tls = RenewedContext(files)
    for path in open_to_all(secrets_of_server(files)):
        context.logger.warning("secret_open_to_all", file=path, advice=OPEN_TO_ALL_ADVICE)
    return tls


def bookie_address(
    settings: Settings, configured: BookieConfiguration, cookie: Cookie
) -> tuple[str, int]:
    """Return the bookie's own address. Raises ConfigError if neither file nor flags have it."""
    if settings.bookie_address is not None:
        return _host_port("bookie_address", settings.bookie_address)
    if configured.host is not None:
        return configured.host, configured.port
    named = split_host_port(cookie.bookie_id)
    if named is not None and named[1] is not None:
        return named[0], named[1]
    raise ConfigError(
        f"the id {cookie.bookie_id} is not an address: give --bookie-address HOST:PORT of the"
        " bookie"
    )


def _host_port(key: str, text: str, *, is_listening: bool = False) -> tuple[str, int]:
    if is_listening and text.endswith(":0"):
        host = split_host_port(text.removesuffix(":0"))
        if host is not None:
            return host[0], 0
    named = split_host_port(text)
    if named is None or named[1] is None:
        raise ConfigError(f"{key} is {text!r}: HOST:PORT is expected")
    return named[0], named[1]


def _check_instance(settings: Settings, cookie: Cookie) -> None:
    """Compare the cookie with the cluster, if one is named. Raises ConfigError or
    StoreUnavailable.
    """
    if settings.metadata_service_uri is None:
        return
    with open_store(
        parse_uri(settings.metadata_service_uri), settings.zookeeper_limits(1)
    ) as store:
        instance_id = store.cluster_facts().instance_id
    if instance_id != cookie.instance_id:
        raise ConfigError(
            f"the cookie is of cluster {cookie.instance_id}, the metadata service has cluster"
            f" {instance_id}"
        )


def _has_indexes(configured: BookieConfiguration) -> bool:
    """Return whether the bookie has DbLedgerStorage, by what is in its index directories."""
    return any(
        (directory / "current" / "locations").is_dir() for directory in configured.index_directories
    )


def _require_indexes(configured: BookieConfiguration) -> None:
    """Raise ConfigError for a bookie of another storage, which can list by itself."""
    for directory in configured.index_directories:
        try:
            stamp_of(directory / "current" / "locations")
        except IndexInDoubt as error:
            raise ConfigError(f"{directory} has no index of DbLedgerStorage: {error}") from None


def _require_rocksdict() -> None:
    try:
        found = version("rocksdict")
    except PackageNotFoundError:
        found = "none"
    if found != ROCKSDICT:
        raise ConfigError(
            f"a lister needs rocksdict {ROCKSDICT}, found {found}: pip install"
            " 'bookkeeper-cluster-auditor[lister]'"
        )


def _server(
    context: Context,
    configured: BookieConfiguration,
    cookie: Cookie,
    address: tuple[str, int],
    scratch: Path,
    metrics: ListerMetrics,
    tls: RenewedContext | None,
    *,
    lists: bool,
) -> ListerServer:
    settings = context.settings
    limits = ListLimits(
        settings.lister_answer_bytes_max,
        settings.lister_keys_per_second,
        settings.lister_view_age_max_ms / 1000,
    )
    readers = [
        DirectoryReader(
            index / "current" / "locations",
            ledger / "current",
            scratch / f"links-{number}",
            limits,
            report_to(context.logger, metrics, str(ledger)),
        )
        for number, (ledger, index) in enumerate(
            zip(configured.ledger_directories, configured.index_directories, strict=True)
        )
        if lists
    ]
    scrub = None
    if settings.scrub is not None:
        terms = ScrubTerms(
            cookie.bookie_id,
            configured,
            lists,
            Path(settings.scrub).absolute(),
            scratch / "scrub",
            settings.scrub_bytes_per_second,
            settings.scrub_every_ms / 1000,
        )
        scrub = Scrub(terms, context.logger)
        metrics.follow_scrub(scrub.report)
    bounds = ServerLimits(settings.lister_connections, settings.lister_ledgers_in_work)
    serving = ServingCheck(address, configured, cookie)
    return ListerServer(
        configured, cookie, readers, serving, bounds, context.logger, metrics, tls, scrub
    )


def _on_loop_error(context: Context) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Return the loop's handler of errors that no caller gets, such as one of accept()."""

    def on_error(loop: asyncio.AbstractEventLoop, said: dict[str, Any]) -> None:
        error = said.get("exception")
        fault = None if error is None else local_fault(error)
        if fault is None:
            loop.default_exception_handler(said)
        else:
            context.logger.error("lister_host_limited", reason=str(fault))

    return on_error


async def _serve(context: Context, server: ListerServer, host: str, port: int) -> int:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.set_exception_handler(_on_loop_error(context))
    try:
        try:
            port = await server.start(host, port)
        except OSError as error:
            context.note(f"auditor: cannot listen on {host}:{port}: {error.strerror}")
            return EXIT_UNREACHABLE
        context.say(f"listening on {f'[{host}]' if ':' in host else host}:{port}\n")
        context.logger.info("lister_started", port=port)
        await ended.wait()
        context.logger.info("lister_stopped")
        return EXIT_SOUND
    finally:
        await server.stop()
