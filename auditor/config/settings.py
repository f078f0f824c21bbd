"""All settings of one command, frozen, picklable, hashable, and the limits made of them.

The limits are for conversations with bookies, for judging and for reading ZooKeeper.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from auditor.config.access import (
    BookieAccess,
    KerberosLogin,
    SaslLogin,
    SecretSource,
    TlsFiles,
    ZooKeeperAccess,
)
from auditor.config.limit_settings import (
    BookieLimits,
    BookieLoad,
    EntryReads,
    ZooKeeperLimits,
    ZooKeeperLoad,
)
from auditor.config.lister_settings import ListerSettings, ListersSettings
from auditor.config.run_settings import (
    AlertSettings,
    ClusterSettings,
    EngineSettings,
    JudgementSettings,
    JudgingLimits,
    OutputSettings,
    PlacementSettings,
    PulsarSettings,
)
from auditor.config.secured_settings import SECRET_OF, BookieSecurity, ZooKeeperSecurity
from auditor.config.setting import Setting, rows_of
from auditor.config.units import DailyWindow, parse_window
from auditor.model.evidence import PlacementRule, Policy

Limits = TypeVar("Limits", BookieLimits, JudgingLimits, ZooKeeperLimits)

_BOOKIES = "Load on bookies (each limit is per bookie, over the whole job)"
SETTINGS: tuple[Setting, ...] = (
    *rows_of(ClusterSettings, "What is audited"),
    *rows_of(JudgementSettings, "How it is judged"),
    *rows_of(JudgingLimits, "How it is judged"),
    *rows_of(AlertSettings, "How it is judged"),
    *rows_of(PulsarSettings, "Pulsar's topics"),
    *rows_of(PlacementSettings, "Placement and topology"),
    *rows_of(OutputSettings, "Results"),
    *rows_of(EngineSettings, "Spark"),
    *rows_of(BookieLoad, _BOOKIES),
    *rows_of(EntryReads, _BOOKIES),
    *rows_of(ZooKeeperLoad, "Load on ZooKeeper"),
    *rows_of(BookieSecurity, "Secured bookies"),
    *rows_of(ZooKeeperSecurity, "Secured ZooKeeper"),
    *rows_of(ListersSettings, "Listers"),
    *rows_of(ListerSettings, "The lister"),
)
"""Every setting, in the order of docs/configuration.md."""


@dataclass(frozen=True, kw_only=True)
class Settings(
    ClusterSettings,
    JudgementSettings,
    JudgingLimits,
    AlertSettings,
    PulsarSettings,
    PlacementSettings,
    OutputSettings,
    EngineSettings,
    BookieLoad,
    EntryReads,
    ZooKeeperLoad,
    BookieSecurity,
    ZooKeeperSecurity,
    ListersSettings,
    ListerSettings,
):
    """The settings that `parse` returns, and without arguments the defaults of `run`.

    Times are in ms, sizes in bytes, rates a second (0: no limit); None: not set. `pushgateway` may
    have credentials: `repr` omits it. Nothing else is secret: secrets of logins are read where they
    are used.
    """

    secrets_in_environment: frozenset[str] = frozenset()
    """Keys of `SECRETS` whose environment variable is set. The secrets themselves are not here."""
    secrets_in_jaas: frozenset[str] = frozenset()
    """Keys of `SECRETS` that are in the section of --bookie-jaas-file."""

    def placement_rule(self) -> PlacementRule:
        """Return the placement policy and its parameters."""
        return PlacementRule(
            policy=Policy(self.placement_policy),
            java_compatible=self.placement_compat == "java",
            min_num_racks_per_write_quorum=self.min_num_racks_per_write_quorum,
            enforce_min_num_racks_per_write_quorum=self.enforce_min_num_racks_per_write_quorum,
            min_num_zones_per_write_quorum=self.min_num_zones_per_write_quorum,
            desired_num_zones_per_write_quorum=self.desired_num_zones_per_write_quorum,
            repp_minimum_regions_for_durability=self.repp_minimum_regions_for_durability,
        )

    def bookie_limits(self) -> BookieLimits:
        """Return the limits for one bookie, which has one conversation over the whole job."""
        return self._part(BookieLimits, access=_bookie_access(self))

    def daily_window(self) -> DailyWindow | None:
        """Return the hours in which a run works; None: all hours."""
        return parse_window(self.window) if self.window else None

    def judging_limits(self) -> JudgingLimits:
        """Return the limits for judging one ledger."""
        return self._part(JudgingLimits)

    def zookeeper_limits(self, readers: int) -> ZooKeeperLimits:
        """Return the limits for one of `readers` parallel readers. They share the rate equally."""
        assert readers >= 1, readers
        rate = self.zookeeper_reads_per_second / readers
        access = _zookeeper_access(self)
        return self._part(ZooKeeperLimits, zookeeper_reads_per_second=rate, access=access)

    def _part(self, kind: type[Limits], **changes: Any) -> Limits:
        """Return limits whose fields have the values of these settings, but for `changes`."""
        names = (field.name for field in fields(kind) if field.name not in changes)
        return kind(**{name: getattr(self, name) for name in names}, **changes)


def _bookie_access(settings: Settings) -> BookieAccess:
    """Return how connections to bookies and their listers are secured."""
    lister_tls = _tls_files(settings, "bookie") if settings.lister_tls else None
    return BookieAccess(_tls(settings, "bookie"), _sasl(settings, "bookie"), lister_tls)


def _zookeeper_access(settings: Settings) -> ZooKeeperAccess:
    """Return how connections to ZooKeeper are secured."""
    digest = secret_source(settings, "zookeeper_digest")
    return ZooKeeperAccess(_tls(settings, "zookeeper"), _sasl(settings, "zookeeper"), digest)


def _tls(settings: Settings, peer: str) -> TlsFiles | None:
    return _tls_files(settings, peer) if getattr(settings, f"{peer}_tls") else None


def _tls_files(settings: Settings, peer: str) -> TlsFiles:
    return TlsFiles(
        what=peer,
        ca=getattr(settings, f"{peer}_tls_ca"),
        certificate=getattr(settings, f"{peer}_tls_certificate"),
        key=getattr(settings, f"{peer}_tls_key"),
        key_password=secret_source(settings, f"{peer}_tls_key_password"),
        is_hostname_verified=getattr(settings, f"{peer}_tls_hostname_verification"),
    )


def _sasl(settings: Settings, peer: str) -> SaslLogin | KerberosLogin | None:
    mechanism = getattr(settings, f"{peer}_sasl")
    if mechanism == "gssapi":
        return KerberosLogin(
            what=peer,
            service=getattr(settings, f"{peer}_sasl_service"),
            keytab=getattr(settings, f"{peer}_sasl_keytab"),
            principal=getattr(settings, f"{peer}_sasl_principal"),
            ticket_cache=getattr(settings, f"{peer}_sasl_ticket_cache"),
        )
    username = getattr(settings, f"{peer}_sasl_username")
    password = secret_source(settings, f"{peer}_sasl_password")
    if mechanism == "none" or username is None or password is None:
        return None
    return SaslLogin(username, password)


def secret_source(settings: Settings, key: str) -> SecretSource | None:
    """Return where a secret of `SECRETS` is, None if it is not given."""
    secret = SECRET_OF[key]
    file, command = getattr(settings, f"{key}_file"), getattr(settings, f"{key}_command")
    if file is None and command is None and key not in settings.secrets_in_environment:
        if key not in settings.secrets_in_jaas:
            return None
        jaas = settings.bookie_jaas_file, settings.bookie_jaas_section
        return SecretSource(secret.what, secret.variable, None, None, *jaas)
    return SecretSource(secret.what, secret.variable, file, command)
