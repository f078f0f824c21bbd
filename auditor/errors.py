"""One small tree of operating errors; each carries its reason as a sentence for a person.

A finding about the cluster is a value (`auditor.model.finding`), never one of these. An error that means "we could not
look" is turned into a value (INDETERMINATE with its reason) at one named place; what is left reaches `cli` and becomes an
exit code (contract section 2).
"""

from __future__ import annotations


class AuditorError(Exception):
    """Anything the auditor raises on purpose. `str(error)` says what happened, to what, and what to do."""


class ConfigError(AuditorError):
    """A setting that is unknown, out of range or makes no sense. Exit 2; nothing was contacted."""


class WireError(AuditorError):
    """Bytes that do not say what they should."""


class MalformedMetadata(WireError):
    """Bytes from ZooKeeper that cannot be decoded. `offset` is the byte at which decoding failed."""

    def __init__(self, reason: str, offset: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


class UnknownMetadataFormat(WireError):
    """Metadata of a format version newer than ours: not a fault of the cluster, we cannot read it."""

    def __init__(self, version: int) -> None:
        super().__init__(f"metadata format version {version} is newer than this auditor reads (1 to 3): update the auditor")
        self.version = version


class MalformedAvailability(WireError):
    """A list of entries that breaks a rule of the encoding. Never evidence that anything is missing."""


class PeerProtocolError(WireError):
    """The bookie broke the protocol: their fault. The connection must be closed."""


class LocalProtocolError(WireError):
    """We broke the protocol: our fault."""


class MetadataStoreError(AuditorError):
    """The metadata service did not do what was asked."""


class StoreUnavailable(MetadataStoreError):
    """ZooKeeper or the cluster's layout could not be reached, read or understood. Exit 5."""


class BookieError(AuditorError):
    """A bookie could not be asked."""


class BookieUnreachable(BookieError):
    """No connection, or it was closed and could not be had again within the bound."""


class SparkUnavailable(AuditorError):
    """Spark or the Java it needs could not be started. Exit 5."""


class SparkJobFailed(AuditorError):
    """A Spark job failed for a reason nobody foresaw: our fault until shown otherwise. Exit 4. `detail` is all Spark said."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.detail = detail


class WorkerDied(SparkJobFailed):
    """Spark's Python workers died in a job, each time it was tried. What the job wrote does not count."""


class OutputError(AuditorError):
    """The output directory cannot be used: not writable, or another run holds its lock. Exit 2 before anything was contacted,
    5 where it gives out later."""


class AccountingError(AuditorError):
    """The ledgers do not add up: our fault. Exit 4, and no counts are published."""
