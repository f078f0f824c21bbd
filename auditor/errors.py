"""The tree of operating errors. Each has its reason as a sentence for a person.

A finding about the cluster is a value (`auditor.model.finding`), never an exception. An error that
means "we could not look" becomes a value (INDETERMINATE with its reason) at one named place. All
other errors become an exit code (docs/names.md, "Exit codes").
"""

from __future__ import annotations


class AuditorError(Exception):
    """Base of what the auditor raises on purpose. `str` says what happened, to what, what to do."""


class ConfigError(AuditorError):
    """An unknown, invalid or contradictory setting. Exit 2; nothing was contacted."""


class WireError(AuditorError):
    """Bytes that break their format or protocol."""


class MalformedMetadata(WireError):
    """Bytes from ZooKeeper that cannot be decoded. `offset` is the byte at which decoding
    failed.
    """

    def __init__(self, reason: str, offset: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


class UnknownMetadataFormat(WireError):
    """Metadata in a newer format version, which we cannot read. The cluster is not at fault."""

    def __init__(self, version: int) -> None:
        super().__init__(
            f"metadata format version {version} is newer than this auditor reads (1 to 3): update"
            " the auditor"
        )
        self.version = version


class MalformedAvailability(WireError):
    """A list of entries that breaks a rule of the encoding. It is never evidence of absence."""


class PeerProtocolError(WireError):
    """The peer broke the protocol. The connection must be closed."""


class LocalProtocolError(WireError):
    """We broke the protocol."""


class MetadataStoreError(AuditorError):
    """The metadata service failed a request."""


class LocalFault(AuditorError):
    """The auditor's own host kept us from looking. Exit 5.

    It has no descriptor, memory, thread or disk left, or its clock is wrong. This says nothing
    about the cluster.
    """


class StoreUnavailable(MetadataStoreError):
    """ZooKeeper or the cluster's layout could not be reached, read or understood. Exit 5."""


class BookieError(AuditorError):
    """A bookie could not be asked."""


class BookieUnreachable(BookieError):
    """A bookie accepts no connection, or closed it and accepts no other within the limit."""


class BookieBarred(BookieUnreachable):
    """Our own host has no way to a bookie. The attempt ended here and says nothing about the
    bookie.
    """


class BookieRefused(BookieError):
    """A bookie and we do not accept each other's TLS or credentials. Trying again does not help."""


class KdcUnreachable(AuditorError):
    """No KDC gave or refused us a Kerberos ticket: trying again may help."""


class SparkUnavailable(AuditorError):
    """Spark or the Java it needs could not be started. Exit 5."""


class SparkStalled(SparkUnavailable):
    """A Spark job made no progress for `--spark-stall-max` and was given up. Exit 5."""


class SparkJobFailed(AuditorError):
    """A Spark job failed for an unexpected reason, which counts as our fault. Exit 4.

    `detail` is the whole message of Spark.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.detail = detail


class WorkerDied(SparkUnavailable):
    """The processes that did Spark's work ended in every attempt at a job. Exit 5.

    What the job wrote does not count. Something outside of a process ends it, unless a library
    crashes. `said` is Spark's reason, `detail` its whole message.
    """

    def __init__(self, said: str, detail: str) -> None:
        super().__init__(
            f"the processes that do Spark's work ended in every attempt at a job ({said}): they"
            " were killed, as a kernel out of memory does, or crashed. See the kernel's log on the"
            " hosts of the workers, and leave them more memory or start fewer at once"
            " (--spark-master)"
        )
        self.said = said
        self.detail = detail


class OutputError(AuditorError):
    """The output directory is not writable, damaged, or locked by another run.

    Exit 2 before anything was contacted, 5 if it fails later."""


class AccountingError(AuditorError):
    """Ledgers are not all accounted for exactly once: our fault. Exit 4, no counts published."""


def text_of(error: BaseException) -> str:
    """Return the text of an exception, or its type if the text cannot be had any more.

    An exception from Spark asks the JVM for its text, and raises again once the JVM has ended.
    """
    try:
        return str(error)
    except Exception:
        return f"{type(error).__name__}, whose text cannot be had any more"
