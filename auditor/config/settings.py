"""All settings of one command, frozen, picklable, hashable, and the limits made of them.

The limits are for conversations with bookies, for judging and for reading ZooKeeper.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from auditor.config.access import (
    IN_CLEAR,
    IN_CLEAR_TO_ZOOKEEPER,
    BookieAccess,
    KerberosLogin,
    SaslLogin,
    SecretSource,
    TlsFiles,
    ZooKeeperAccess,
)
from auditor.config.secured_settings import SECRET_OF
from auditor.daily_window import DailyWindow, parse_window
from auditor.model.placement import PlacementRule, Policy


@dataclass(frozen=True, slots=True)
class BookieLimits:
    """Limits for the conversation with one bookie, over the whole job.

    Times are in ms, sizes in bytes.
    """

    requests_per_second: float = 2_000.0
    """Frames sent a second; 0: no limit. An idle bookie answers 50,000 lists a second."""
    inflight_max: int = 64
    """Most requests outstanding. `Throttle` lowers this and the rate while the bookie shows
    strain."""
    inflight_bytes_max: int = 64 * 2**20
    """Most bytes of expected answers outstanding: a striped ledger costs 24 bytes a stripe."""
    rpc_timeout_ms: int = 10_000
    """How long one request may wait for its response."""
    connect_timeout_ms: int = 5_000
    """How long one connection attempt may take."""
    connect_attempts_max: int = 3
    """After this many attempts to connect without a response, the bookie counts as silent."""
    retries_max: int = 3
    """A request is repeated at most this often after a reset or ETOOMANYREQUESTS."""
    deadline_ms: int = 30 * 60_000
    """How long the whole conversation may take. Requests without a response by then are silent."""
    frame_bytes_max: int = 256 * 2**20
    """Largest response accepted, never under 64 MiB. BookKeeper sets no limit on responses."""
    groups_max: int = 10_000_000
    """Sequence groups accepted in one list."""
    access: BookieAccess = IN_CLEAR
    """How the conversation is secured. It is here because it is needed wherever the limits are."""


@dataclass(frozen=True, slots=True)
class JudgingLimits:
    """Limits for judging one ledger. A ledger that exceeds them is set aside (`poison`)."""

    ledger_time_max_ms: int = 5 * 60_000
    """How long judging may take."""
    ledger_memory_max: int = 2 * 2**30
    """Address space that judging may add to what the process has, in bytes."""


@dataclass(frozen=True, slots=True)
class ZooKeeperLimits:
    """Limits for one reader of the metadata service. Times in ms."""

    reads_per_second: float = 20_000.0
    """Znodes read a second by this reader; 0: no limit."""
    batch_paths: int = 200
    """Paths in one multiRead request."""
    inflight_max: int = 4
    """Most multiRead requests outstanding; with single reads (the fallback), times
    `batch_paths`."""
    session_timeout_ms: int = 10_000
    """ZooKeeper session time-out to request (BookKeeper's zkTimeout default)."""
    connect_timeout_ms: int = 15_000
    """How long the first connection may take before the metadata service counts as unreachable."""
    retries_max: int = 3
    """A read is repeated at most this often after a lost connection or session."""
    retry_wait_ms: int = 1_000
    """Pause before each repeat: the ensemble can elect a leader meanwhile."""
    access: ZooKeeperAccess = IN_CLEAR_TO_ZOOKEEPER
    """How the sessions are secured. It is here because it is needed wherever the limits are."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that `parse` returns. `SETTINGS` explains each field under its key.

    Times are in ms, sizes in bytes, rates a second (0: no limit); None: not set. `pushgateway` may
    have credentials: `repr` omits it. Nothing else is secret: secrets of logins are read where they
    are used.
    """

    metadata_service_uri: str | None
    pulsar_metadata_uri: str | None
    pulsar: str
    ledgers_from: str | None
    resume: str | None
    resume_age_max_ms: int
    shard_ledgers: int
    dry_run: bool
    allow_empty: bool
    window: str | None
    underreplication_grace_ms: int
    second_look_delay_ms: int
    looks_max: int
    lost_bookie_wait_max_ms: int
    stuck_after_ms: int
    orphan_age_ms: int
    population_drop: int
    accept_population: bool
    sound_sample: int
    """Percent."""
    maintenance: tuple[str, ...] | None
    ledger_time_max_ms: int
    ledger_memory_max: int
    fail_on: str
    placement_policy: str
    placement_compat: str
    min_num_racks_per_write_quorum: int
    enforce_min_num_racks_per_write_quorum: bool
    min_num_zones_per_write_quorum: int
    desired_num_zones_per_write_quorum: int
    repp_minimum_regions_for_durability: int
    topology: tuple[str, ...] | None
    topology_script_args_max: int
    topology_script_timeout_ms: int
    output: str
    output_umask: int
    evidence_age_max_ms: int
    keep_runs: int
    format: str
    full: bool
    mutes: str | None
    quiet: bool
    verbose: bool
    log_format: str
    metrics_textfile: str | None
    pushgateway: str | None = field(repr=False)
    cluster: str | None
    spark_master: str | None
    spark_stall_max_ms: int
    tasks: int
    ledgers_in_process_max: int
    suspects_in_process_max: int
    bookie_requests_per_second: float
    bookie_inflight: int
    bookie_inflight_bytes: int
    rpc_timeout_ms: int
    bookie_connect_timeout_ms: int
    bookie_connect_attempts: int
    bookie_retries: int
    bookie_deadline_ms: int
    frame_bytes_max: int
    list_groups_max: int
    confirming_reads_max: int
    probe_entries: int
    probe_budget: int
    spot_reads: int
    doubt_reads: int
    stranded_entries_max: int
    search_reads_max: int
    zookeeper_reads_per_second: float
    zookeeper_batch_paths: int
    zookeeper_inflight: int
    zookeeper_session_timeout_ms: int
    zookeeper_connect_timeout_ms: int
    zookeeper_retries: int
    zookeeper_retry_wait_ms: int
    lister_port: int
    lister_map: str | None
    lister_tls: bool
    bookkeeper_conf: str | None
    ledger_dirs: tuple[str, ...] | None
    index_dirs: tuple[str, ...] | None
    bookie_id: str | None
    bookie_directory: str | None
    bookie_address: str | None
    listen: str | None
    listen_tls: bool | None
    listen_tls_certificate: str | None
    listen_tls_key: str | None
    listen_tls_key_password_file: str | None
    listen_tls_key_password_command: str | None
    listen_tls_ca: str | None
    metrics_listen: str | None
    lister_connections: int
    lister_ledgers_in_work: int
    lister_answer_bytes_max: int
    lister_keys_per_second: float
    lister_view_age_max_ms: int
    bookkeeper_client_conf: str | None
    bookie_tls: bool
    bookie_tls_ca: str | None
    bookie_tls_certificate: str | None
    bookie_tls_key: str | None
    bookie_tls_key_password_file: str | None
    bookie_tls_key_password_command: str | None
    bookie_tls_hostname_verification: bool
    bookie_sasl: str
    bookie_sasl_username: str | None
    bookie_sasl_password_file: str | None
    bookie_sasl_password_command: str | None
    bookie_sasl_keytab: str | None
    bookie_sasl_principal: str | None
    bookie_sasl_ticket_cache: str | None
    bookie_sasl_service: str
    bookie_jaas_file: str | None
    bookie_jaas_section: str
    zookeeper_tls: bool
    zookeeper_tls_ca: str | None
    zookeeper_tls_certificate: str | None
    zookeeper_tls_key: str | None
    zookeeper_tls_key_password_file: str | None
    zookeeper_tls_key_password_command: str | None
    zookeeper_tls_hostname_verification: bool
    zookeeper_sasl: str
    zookeeper_sasl_username: str | None
    zookeeper_sasl_password_file: str | None
    zookeeper_sasl_password_command: str | None
    zookeeper_sasl_keytab: str | None
    zookeeper_sasl_principal: str | None
    zookeeper_sasl_ticket_cache: str | None
    zookeeper_sasl_service: str
    zookeeper_digest_file: str | None
    zookeeper_digest_command: str | None
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
        return BookieLimits(
            requests_per_second=self.bookie_requests_per_second,
            inflight_max=self.bookie_inflight,
            inflight_bytes_max=self.bookie_inflight_bytes,
            rpc_timeout_ms=self.rpc_timeout_ms,
            connect_timeout_ms=self.bookie_connect_timeout_ms,
            connect_attempts_max=self.bookie_connect_attempts,
            retries_max=self.bookie_retries,
            deadline_ms=self.bookie_deadline_ms,
            frame_bytes_max=self.frame_bytes_max,
            groups_max=self.list_groups_max,
            access=bookie_access(self),
        )

    def daily_window(self) -> DailyWindow | None:
        """Return the hours in which a run works; None: all hours."""
        return parse_window(self.window) if self.window else None

    def judging_limits(self) -> JudgingLimits:
        """Return the limits for judging one ledger."""
        return JudgingLimits(
            ledger_time_max_ms=self.ledger_time_max_ms, ledger_memory_max=self.ledger_memory_max
        )

    def zookeeper_limits(self, readers: int) -> ZooKeeperLimits:
        """Return the limits for one of `readers` parallel readers. They share the rate equally."""
        assert readers >= 1, readers
        return ZooKeeperLimits(
            reads_per_second=self.zookeeper_reads_per_second / readers,
            batch_paths=self.zookeeper_batch_paths,
            inflight_max=self.zookeeper_inflight,
            session_timeout_ms=self.zookeeper_session_timeout_ms,
            connect_timeout_ms=self.zookeeper_connect_timeout_ms,
            retries_max=self.zookeeper_retries,
            retry_wait_ms=self.zookeeper_retry_wait_ms,
            access=zookeeper_access(self),
        )


def bookie_access(settings: Settings) -> BookieAccess:
    """Return how connections to bookies and their listers are secured."""
    lister_tls = _tls_files(settings, "bookie") if settings.lister_tls else None
    return BookieAccess(_tls(settings, "bookie"), _sasl(settings, "bookie"), lister_tls)


def zookeeper_access(settings: Settings) -> ZooKeeperAccess:
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
