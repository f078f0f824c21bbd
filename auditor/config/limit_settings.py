"""The settings that limit the load of an audit on the cluster, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.config.access import (
    IN_CLEAR,
    IN_CLEAR_TO_ZOOKEEPER,
    BookieAccess,
    ZooKeeperAccess,
)
from auditor.config.setting import AUDITING, READING, WHOLE_RUNS, setting
from auditor.config.units import COUNT, DURATION, RATE, SIZE

_SECOND = 1_000
_MINUTE = 60_000
_HOUR = 3_600_000

# fmt: off

@dataclass(frozen=True, kw_only=True)
class BookieLoad:
    """How much one conversation may ask of a bookie."""

    bookie_requests_per_second: float = setting(
        RATE, "2000",
        "Requests sent to one bookie a second. 0: no limit.",
        "An idle bookie answers tens of thousands of lists a second, so this leaves a busy one "
        "room. It sets the length of a run: ledgers x ensemble size / bookies / this rate, so "
        "1,000,000 ledgers of 3 on 10 bookies take about 2.5 minutes.",
        low=0, high=1_000_000, commands=AUDITING,
    )
    bookie_inflight: int = setting(
        COUNT, "64",
        "Requests outstanding at one bookie.",
        "Pipelining decides the speed, and a bookie closes a connection whose read queue is "
        "full. This and the rate are halved on a reset and on ETOOMANYREQUESTS, lose a quarter "
        "when the median answer takes twice as long as the quietest, and grow back.",
        low=1, high=4096, commands=AUDITING,
    )
    bookie_inflight_bytes: int = setting(
        SIZE, "64MiB",
        "Expected bytes of outstanding answers at one bookie.",
        "A list costs 24 bytes a contiguous run: a striped ledger of 800,000 entries is 6 MB "
        "from each bookie. Without this bound 64 such answers at once would be 400 MB.",
        low=2**20, high=2**32, commands=AUDITING,
    )
    rpc_timeout_ms: int = setting(
        DURATION, "10s",
        "Longest wait for the answer to one request. A time-out never counts as absence.",
        "Twice BookKeeper's readEntryTimeoutSec (5 s): a list walks an index, which a busy disk "
        "delays. `demo`, one of whose bookies cannot list, waits 3 s.",
        low=10, high=10 * _MINUTE, commands=AUDITING, elsewhere={"demo": "3s"},
    )
    bookie_connect_timeout_ms: int = setting(
        DURATION, "5s",
        "Longest wait for one connection to a bookie, authentication included.",
        "A host that drops packets must not hold its lane for the kernel's two minutes.",
        low=10, high=10 * _MINUTE, commands=AUDITING,
    )
    bookie_connect_attempts: int = setting(
        COUNT, "3",
        "Connections tried in a row without an answer before a bookie counts as silent.",
        "One attempt would call a restarting bookie silent; the second look asks again anyway.",
        low=1, high=100, commands=AUDITING,
    )
    bookie_retries: int = setting(
        COUNT, "3",
        "Times that one question is asked again after a reset or ETOOMANYREQUESTS.",
        "A reset with a full window is our own doing: the last retry goes out alone.",
        low=0, high=100, commands=AUDITING,
    )
    bookie_deadline_ms: int = setting(
        DURATION, "30m",
        "Longest conversation with one bookie at one look. Questions unanswered by then are "
        "unknown.",
        "Enough for 3,600,000 requests at the default rate. A bookie that answers each request "
        "just before its time-out must not hold the run.",
        low=100, high=24 * _HOUR, commands=AUDITING,
    )
    frame_bytes_max: int = setting(
        SIZE, "256MiB",
        "Largest answer accepted from a bookie. A larger one makes its ledger "
        "INDETERMINATE(answer_too_large).",
        "BookKeeper bounds what a bookie receives, not what it sends. 5 MiB, its client's "
        "default, cuts off ledgers of about 200,000 stripes. 256 MiB is 11 million runs. Never "
        "under 64 MiB.",
        low=64 * 2**20, high=2**31 - 1, commands=AUDITING,
    )
    list_groups_max: int = setting(
        COUNT, "10000000",
        "Contiguous runs (sequence groups) accepted in one list.",
        "Bounds the memory for decoding one hostile or enormous list.",
        low=100_000, high=(2**31 - 1) // 24, commands=AUDITING,
    )


@dataclass(frozen=True, kw_only=True)
class EntryReads:
    """How many entries are read on one bookie, and to what end."""

    confirming_reads_max: int = setting(
        COUNT, "16",
        "Entries read on one bookie for one ledger to confirm that entries missing from its list "
        "are absent.",
        "Both ends and a sample of each missing run. A wiped bookie of 40,000 ledgers then costs "
        "at most 640,000 small reads: about five minutes at the default rate. Below 4 the worst "
        "entry of a ledger could stay unread.",
        low=4, high=10_000, commands=AUDITING,
    )
    probe_entries: int = setting(
        COUNT, "3",
        "Entries read for one ledger on a bookie that cannot list, drawn at random beside the "
        "ends of each segment. 0: none is read, and such ledgers are "
        "INDETERMINATE(bookie_unsupported).",
        "With the ends, a closed ledger of one segment costs five small reads a bookie. That "
        "surely finds a lost ledger, and over many ledgers a share of lost entries; the report "
        "says how large a share it could miss.",
        low=0, high=10_000, commands=AUDITING,
    )
    probe_budget: int = setting(
        COUNT, "10000",
        "Entries read at one look of a run on a bookie that cannot list, spread evenly over all "
        "its "
        "ledgers, beside the ends of segments and --probe-entries. Each run reads other ones. 0: "
        "none.",
        "Five seconds of reads at the default rate, and 100 MB of entries of 10 kB. Of 33,000,000 "
        "entries on a bookie it reads every 4,096th: a run of 1,000 lost ones is found with 24 % "
        "in one night, and with 97 % in four. The report says how sure a loss is found.",
        low=0, high=10_000_000, commands=WHOLE_RUNS,
    )
    spot_reads: int = setting(
        COUNT, "500",
        "Entries read on one bookie in a run to test its lists, spread evenly over all its "
        "ledgers. Each run reads other ones. 0: lists are not tested, and no copy is read for "
        "--verify-within.",
        "A list comes from a bookie's index or memory, and may name entries that cannot be read. "
        "500 small reads take a quarter of a second at the default rate. They find a loss of 2 % "
        "of a bookie's entries with 97 % or more, and read all that a small bookie holds.",
        low=0, high=10_000_000, commands=AUDITING,
    )
    verify_within_ms: int = setting(
        DURATION, "720h",
        "Period within which every copy on a bookie that lists is to be read once, with its "
        "digest, by the runs together. What was not read by then is reported as overdue. 0: no "
        "copy is read for this, and none is overdue.",
        "30 days. Runs may be a quarter of it apart. How much a run may read is limited by "
        "--verify-bytes-per-second.",
        low=0, high=10 * 365 * 24 * _HOUR, commands=WHOLE_RUNS,
    )
    verify_bytes_per_second: int = setting(
        SIZE, "128KiB",
        "Bytes that a run may read on one bookie for --verify-within, for each second that the "
        "lists of this bookie take at --bookie-requests-per-second (at least ten seconds). A read "
        "counts 4 KiB beside its entry. 0: only the spot reads are made.",
        "At most 32 reads beside 2,000 lists: a run takes no longer that can be measured. It is "
        "far too little for a large bookie: let a lister scrub there, or raise it and accept "
        "longer runs. VERIFICATION_OVERDUE says what is needed.",
        low=0, high=2**40, commands=WHOLE_RUNS,
    )
    doubt_reads: int = setting(
        COUNT, "2000",
        "Further entries read in a run on a bookie in doubt: one that failed to send an entry "
        "which it lists, denied it, or lacks an entry. The ends of segments and others of its "
        "ledgers are read. 0, or no spot reads: none.",
        "One second of reads at the default rate, on bookies that showed a fault and on no "
        "other. They test both ends of 500 ledgers and 1,000 other entries: a bookie that lost "
        "one of its disks has hundreds of failures among them.",
        low=0, high=10_000_000, commands=AUDITING,
    )
    stranded_entries_max: int = setting(
        COUNT, "16",
        "Entries of one ledger without a copy for which all other registered bookies are asked. "
        "0: none.",
        "Both ends and a sample of the lost entries: enough to say where the ledger went. It "
        "costs this many small reads a bookie for a ledger with a loss, and nothing for others.",
        low=0, high=10_000, commands=AUDITING,
    )
    search_reads_max: int = setting(
        COUNT, "20000",
        "Reads on one bookie in a run that search for entries which belong elsewhere and have no "
        "copy there.",
        "A lost ledger costs each other bookie one small read a look. At the default rate this "
        "is 10 s of reads on a bookie, enough for 10,000 lost ledgers. Findings beyond it say "
        "that the bookie was not asked.",
        low=0, high=10_000_000, commands=AUDITING,
    )

@dataclass(frozen=True, kw_only=True)
class ZooKeeperLoad:
    """How much all readers of an audit together may ask of ZooKeeper."""

    zookeeper_reads_per_second: float = setting(
        RATE, "20000",
        "Znodes read a second over the whole job, however many tasks read. 0: no limit.",
        "What BookKeeper's own auditor reaches, and a tenth of what ZooKeeper serves in batches. "
        "Sessions of brokers and bookies are not starved.",
        low=0, high=10_000_000, commands=READING,
    )
    zookeeper_batch_paths: int = setting(
        COUNT, "200",
        "Paths in one multiRead request (ZooKeeper 3.6 and later).",
        "200 znodes of some 500 bytes keep an answer at a tenth of jute.maxbuffer (1 MiB).",
        low=1, high=1_000, commands=READING,
    )
    zookeeper_inflight: int = setting(
        COUNT, "4",
        "multiRead requests outstanding for each reader.",
        "More gains nothing measurable and lengthens the queue for other sessions.",
        low=1, high=64, commands=READING,
    )
    zookeeper_session_timeout_ms: int = setting(
        DURATION, "10s",
        "ZooKeeper session time-out to ask for.",
        "BookKeeper's zkTimeout default.",
        low=_SECOND, high=5 * _MINUTE, commands=READING,
    )
    zookeeper_connect_timeout_ms: int = setting(
        DURATION, "15s",
        "Longest wait for the first connection before the metadata service counts as unreachable "
        "(exit 5).",
        "Long enough to try each of three servers and to sit out an election.",
        low=100, high=10 * _MINUTE, commands=READING,
    )
    zookeeper_retries: int = setting(
        COUNT, "3",
        "Times that a read is repeated after a lost connection or session.",
        "With the pause between them they span an election of the ensemble; more would hide an "
        "outage.",
        low=0, high=100, commands=READING,
    )
    zookeeper_retry_wait_ms: int = setting(
        DURATION, "1s",
        "Pause before each repeated read.",
        "An election takes a few hundred milliseconds to a few seconds.",
        low=0, high=5 * _MINUTE, commands=READING,
    )

# fmt: on


@dataclass(frozen=True, kw_only=True)
class BookieLimits(BookieLoad):
    """Limits for the conversation with one bookie, over the whole job, and how it is secured."""

    access: BookieAccess = IN_CLEAR


@dataclass(frozen=True, kw_only=True)
class ZooKeeperLimits(ZooKeeperLoad):
    """Limits for one reader of the metadata service, and how its sessions are secured."""

    access: ZooKeeperAccess = IN_CLEAR_TO_ZOOKEEPER
