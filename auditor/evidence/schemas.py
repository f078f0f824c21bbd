"""The evidence as columns: the Arrow schema of each table that is written.

Each table has a name, a key, and a unit for each column: `*_ms` counts from 1970 UTC, ids and
counts are plain numbers. `run`, `ledger` and `replay` use the same schemas, without Spark. No
column holds a secret: no password, no raw metadata bytes.
"""

from __future__ import annotations

import pyarrow as pa

LISTING = pa.schema([("ledger_id", pa.int64())])
"""A ledger id of the listing. Key: ledger_id."""

LISTINGS = pa.schema(
    [("listing", pa.int32()), ("began_at_ms", pa.int64()), ("gone", pa.list_(pa.int64()))]
)
"""A listing of all ledgers: when it began, and some ids (`gone`) that the last run's listing had
and this one lacks. Key: listing (1: the listing that is audited, 2: the second listing at the end).
"""

READ_COUNTS = pa.schema([("zookeeper_reads", pa.int64()), ("zookeeper_reads_failed", pa.int64())])
"""How many znodes were requested, and how many requests were not answered.

In evidence/zookeeper_reads each driver process of the run records its own reads. LISTING, LEDGERS
and READS have these as extra columns. They are null except in one row of each task that reads
ZooKeeper, which has the task's counts."""


def with_read_counts(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the columns of READ_COUNTS after its own."""
    return pa.schema([*schema, *READ_COUNTS])


PACE = pa.field(
    "pace",
    pa.struct(
        [
            ("inflight", pa.int32()),
            ("requests_per_second", pa.float64()),
            ("is_low", pa.bool_()),
            ("lowest_inflight", pa.int32()),
            ("lowest_requests_per_second", pa.float64()),
            ("was_low", pa.bool_()),
        ]
    ),
)
"""A `LanePace` and its `lowest`: an extra column of ANSWERS and READS.

It is null except in greetings, and in the last of the reads that were requested of a bookie
together."""


def with_pace(schema: pa.Schema) -> pa.Schema:
    """Return the schema with PACE after its own columns."""
    return pa.schema([*schema, PACE])


DISK = pa.field("disk", pa.struct([("total_bytes", pa.int64()), ("free_bytes", pa.int64())]))
"""A `DiskSpace`: an extra column of ANSWERS behind PACE. It is null except in greetings."""


SEGMENT = pa.struct([("first_entry_id", pa.int64()), ("ensemble", pa.list_(pa.string()))])
MALFORMED = pa.struct(
    [
        ("reason", pa.string()),
        ("offset_bytes", pa.int64()),
        ("length_bytes", pa.int64()),
        ("sha256", pa.string()),
    ]
)
LOCK = pa.struct([("holder", pa.string()), ("since_ms", pa.int64())])
MARK = pa.struct(
    [
        ("created_ms", pa.int64()),
        ("changed_ms", pa.int64()),
        ("missing_replicas", pa.list_(pa.string())),
        ("problem", pa.string()),
        ("lock", LOCK),
    ]
)
"""An under-replication mark. `lock` is null if no worker replicates the ledger."""
DATA_COLUMNS = (
    ("ledger_id", pa.int64()),
    ("entries", pa.int64()),
    ("size_bytes", pa.int64()),
    ("closed_ms", pa.int64()),
    ("offloaded", pa.bool_()),
    ("bookkeeper_deleted", pa.bool_()),
)
"""A topic's own record of a data ledger."""
TOPICS = pa.schema(
    [
        ("topic", pa.string()),
        ("read_at_ms", pa.int64()),
        ("role", pa.string()),
        ("name", pa.string()),
        *DATA_COLUMNS,
        ("problem", pa.string()),
    ]
)
"""A ledger that a Pulsar topic references, or something of the topic that could not be read.

`role` is "data", "cursor", "schema", "compacted" or "delayed". With a problem it is null, and only
`topic` and `read_at_ms` are set besides. `name` is the subscription, for a cursor, compaction and
delayed delivery. Only data ledgers have the columns from `entries` to `bookkeeper_deleted`."""
POSITION = pa.struct([("ledger_id", pa.int64()), ("entry_id", pa.int64())])
ACKNOWLEDGED = pa.struct([("lower", POSITION), ("upper", POSITION)])
"""A range of acknowledged entries; the lower end is exclusive."""
REFERENCES = pa.schema(
    [
        ("namespace", pa.string()),
        ("topic", pa.string()),
        ("look", pa.int32()),
        ("read_at_ms", pa.int64()),
        ("row", pa.string()),
        ("status", pa.string()),
        ("name", pa.string()),
        *DATA_COLUMNS,
        ("position", POSITION),
        ("acknowledged", pa.list_(ACKNOWLEDGED)),
        ("problem", pa.string()),
    ]
)
"""What Pulsar's metadata said of a topic at one look, row by row. Key: none; look 1 or 2.

`row` is the kind of the row:

- "topic": one for each topic and look, with `status` and the terminated position. For a shadow
  topic, `name` is the znode of its source, with the problem "source_missing" if there is none.
- "data": a data ledger; for a shadow topic, one of its source.
- "cursor": `position` is the mark-delete position; `ledger_id` is null if that is the newest one.
- "compacted": a ledger of compacted messages.
- "delayed": a ledger with the times of delayed messages.
- "schema": `entries` is the version.
- "unread": `entries` items of the kind `name` are not read.
- "namespace": one that exists.
- "partition": one that has no znode; without a topic, why some in the namespace may be missed.
- "problem": what could not be read. Without a topic, topics were missed."""
MARKS = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("look", pa.int32()),
        ("read_at_ms", pa.int64()),
        ("created_ms", pa.int64()),
        ("changed_ms", pa.int64()),
        ("has_metadata", pa.bool_()),
        ("problem", pa.string()),
        ("malformed_path", pa.string()),
    ]
)
"""A mark of a ledger that the listing did not have, and whether the ledger has metadata.

Key: (ledger_id, look). At look 0 the mark was only listed. `created_ms` is null if the mark was
gone, `has_metadata` if that is unknown. In a row without ledger_id, `problem` says why not all
marks could be listed, or `malformed_path` is a znode among the marks that marks no ledger."""
CUSTOM = pa.struct([("key", pa.string()), ("value", pa.binary())])

LEDGERS = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("look", pa.int32()),
        ("read_at_ms", pa.int64()),
        ("status", pa.string()),
        ("detail", pa.string()),
        ("czxid", pa.int64()),
        ("znode_version", pa.int32()),
        ("znode_ctime_ms", pa.int64()),
        ("znode_mtime_ms", pa.int64()),
        ("format_version", pa.int32()),
        ("state", pa.string()),
        ("ensemble_size", pa.int32()),
        ("write_quorum", pa.int32()),
        ("ack_quorum", pa.int32()),
        ("last_entry_id", pa.int64()),
        ("length_bytes", pa.int64()),
        ("digest_type", pa.int32()),
        ("metadata_ctime_ms", pa.int64()),
        ("segments", pa.list_(SEGMENT)),
        ("custom_metadata", pa.list_(CUSTOM)),
        ("malformed", MALFORMED),
        ("mark", MARK),
    ]
)
"""A ledger as ZooKeeper had it at one look. Key: (ledger_id, look)."""

CHANGED_LEDGERS = pa.schema([*LEDGERS, ("run_id", pa.string())])
"""A closed ledger whose metadata an earlier run stored otherwise. Key: (ledger_id, look).

At look 0 it is as the run `run_id` stored it. At look 2 this run read it again, and `run_id` is
null."""
COMPARISONS = pa.schema(
    [
        ("run_id", pa.string()),
        ("problem", pa.string()),
        ("compared", pa.int64()),
        ("changed", pa.int64()),
        ("went_back", pa.list_(pa.int64())),
        ("went_back_total", pa.int64()),
        ("returned", pa.list_(pa.int64())),
        ("returned_total", pa.int64()),
        ("not_kept", pa.int64()),
    ]
)
"""The comparison of the metadata with what the newest earlier run stored. One row.

`compared` counts the ledgers that were closed then and that both runs read, `changed` those that
differ. `went_back` has the first ledgers whose znode has a lower version than then, `returned` the
first that were not listed then although they are dated before it. `not_kept` counts the ledgers
that differed and of which neither this run nor an earlier one kept the other row. `problem` says
why nothing was compared: then the counts are null. Without an earlier run, `run_id` is null too."""
GONE_LEDGERS = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("namespace", pa.string()),
        ("topic", pa.string()),
        ("why", pa.string()),
    ]
)
"""A ledger that the newest earlier run listed and this run did not. Key: ledger_id.

`why` is a value of `Gone`. `namespace` and `topic` are of a topic that referenced it then."""
DROPPED_LEDGERS = pa.schema(
    [
        ("namespace", pa.string()),
        ("topic", pa.string()),
        ("ledger_id", pa.int64()),
        ("read_at_ms", pa.int64()),
        *DATA_COLUMNS[1:],
        ("before", pa.int64()),
        ("after", pa.int64()),
        ("run_id", pa.string()),
    ]
)
"""A data ledger that is gone from behind others of a topic's list. Key: (topic, ledger_id).

Run `run_id` read it in the list at `read_at_ms`. `before` and `after` are the nearest ledgers that
are still in the list."""

CARRIED_TABLE, DUE_TABLE = "evidence/carried", "evidence/due"
CARRIED = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("run_id", pa.string()),
        ("listed_at_ms", pa.int64()),
    ]
)
"""A ledger whose verdict this run took over from an earlier run. Key: ledger_id.

Run `run_id` asked for its lists. It began at `listed_at_ms`: no list of the ledger is older. This
run saw its znode with the same czxid and version, and no mark of it."""
DUE = pa.schema([("why", pa.string()), ("ledgers", pa.int64())])
"""How many of the listed ledgers a run with a period asked about, by the first reason (`DueFor`).
Key: why."""

MISSING_LOG = pa.struct(
    [("path", pa.string()), ("entries", pa.int64()), ("ranges", pa.list_(pa.list_(pa.int64())))]
)
"""An entry log that a lister's list leaves out. `entries` of the ledger are indexed in it, and
`ranges` has the first of them."""
ANSWERS = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("ledger_id", pa.int64()),
        ("look", pa.int32()),
        ("asked_at_ms", pa.int64()),
        ("status", pa.string()),
        ("groups", pa.binary()),
        ("detail", pa.string()),
        ("requests", pa.int32()),
        ("retries", pa.int32()),
        ("received_bytes", pa.int64()),
        ("non_canonical", pa.bool_()),
        ("missing_logs", pa.list_(MISSING_LOG)),
        ("read_unlisted", pa.list_(pa.int64())),
        ("is_as_expected", pa.bool_()),
    ]
)
"""A bookie's answer about a ledger. `groups` is canonical. Key: (bookie_id, ledger_id, look).

`is_as_expected`: the list was compared when it came, and equals what the ledger's metadata of the
same look places on the bookie. `groups` is then null, and `auditor.evidence.gathered` restores it,
except for the sample of ledgers whose answers are stored in full.

`missing_logs` and `read_unlisted` are null except in some answers of listers (`Answer` says which).
A row without ledger_id is the bookie's greeting, and its `status` is a value of `Greeting`."""

READS = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("look", pa.int32()),
        ("asked_at_ms", pa.int64()),
        ("status", pa.string()),
        ("detail", pa.string()),
        ("requests", pa.int32()),
        ("retries", pa.int32()),
        ("received_bytes", pa.int64()),
        ("is_search", pa.bool_()),
        ("stored_entry_id", pa.int64()),
        ("last_confirmed", pa.int64()),
        ("length_bytes", pa.int64()),
        ("is_spot", pa.bool_()),
        ("is_denser", pa.bool_()),
        ("is_named", pa.bool_()),
    ]
)
"""One entry read: to confirm that the entry is missing, as a probe, to see what lies above the end
of the ledger, (`is_search`) to look for it on other bookies, or (`is_spot`) to test the bookie's
list; `is_denser` where the bookie was in doubt, `is_named` where the scrub of its lister named the
entry. Key: (bookie_id, ledger_id, entry_id, look).

`entry_id` -1 asks for the highest stored entry, and `stored_entry_id` is the one that came.
`last_confirmed` (an entry id) and `length_bytes` are from the entry's header, null unless a digest
proves them."""

BOOKIES = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("look", pa.int32()),
        ("read_at_ms", pa.int64()),
        ("registration", pa.string()),
        ("host", pa.string()),
        ("port", pa.int32()),
        ("has_cookie", pa.bool_()),
        ("problem", pa.string()),
        ("greeting", pa.string()),
        ("greeting_detail", pa.string()),
        ("total_bytes", pa.int64()),
        ("free_bytes", pa.int64()),
        ("cookie_czxid", pa.int64()),
        ("cookie_created_ms", pa.int64()),
        ("cookie_instance_id", pa.string()),
        ("cookie_directories", pa.list_(pa.string())),
    ]
)
"""A bookie as ZooKeeper had it, and its greeting. Key: (bookie_id, look).

`total_bytes` and `free_bytes` are what the bookie said of its ledger directories' disks, null where
it did not. The columns of the cookie are null without one, and where it could not be read."""

SCRUB_PASS = pa.struct(
    [
        ("began_at_ms", pa.int64()),
        ("ended_at_ms", pa.int64()),
        ("logs", pa.int64()),
        ("damaged_logs", pa.int64()),
        ("unlisted", pa.int64()),
        ("read_bytes", pa.int64()),
        ("total_bytes", pa.int64()),
        ("entries", pa.int64()),
        ("verified", pa.int64()),
        ("unchecked", pa.int64()),
        ("failed", pa.int64()),
        ("suspected", pa.int64()),
    ]
)
"""A `ScrubPass` over a bookie's entry logs. `ended_at_ms` is null while it lasts."""
SCRUBS_TABLE = "evidence/scrubs"
SCRUBS = pa.schema(
    [
        ("bookie_id", pa.string()),
        ("asked_at_ms", pa.int64()),
        ("written_at_ms", pa.int64()),
        ("finished", SCRUB_PASS),
        ("current", SCRUB_PASS),
        (
            "candidates",
            pa.list_(
                pa.struct(
                    [("ledger_id", pa.int64()), ("entry_id", pa.int64()), ("why", pa.string())]
                )
            ),
        ),
    ]
)
"""What the scrub of a bookie's lister reported (`ScrubReport`). Key: bookie_id.

`finished` and `current` are null without such a pass. A candidate is an entry that the run reads on
the bookie if the bookie should hold it."""

RENAMES = pa.schema(
    [
        ("gone", pa.list_(pa.string())),
        ("bookie_id", pa.string()),
        ("ledger_id", pa.int64()),
        ("entry_id", pa.int64()),
        ("asked_at_ms", pa.int64()),
        ("status", pa.string()),
        ("groups", pa.binary()),
        ("detail", pa.string()),
        ("requests", pa.int32()),
        ("retries", pa.int32()),
        ("received_bytes", pa.int64()),
    ]
)
"""What a registered bookie said of a ledger that names gone bookies (`gone`) but not this bookie.

A row with a null entry_id is a list, with canonical `groups`; any other is an entry read. Key:
(bookie_id, ledger_id, entry_id). A row without ledger_id is the bookie's greeting."""

LACK = pa.struct([("bookie_id", pa.string()), ("expected", pa.int64()), ("absent", pa.int64())])
VERDICTS = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("standing", pa.string()),
        ("exempt", pa.string()),
        ("unknowns", pa.list_(pa.string())),
        ("findings", pa.list_(pa.string())),
        ("listing_false_negatives", pa.int32()),
        ("mark_age_ms", pa.int64()),
        ("looks", pa.int32()),
        ("todo", pa.string()),
        ("detail", pa.string()),
        ("assurance", pa.string()),
        ("probes", pa.int32()),
        ("random_probes", pa.int32()),
        ("lacks", pa.list_(LACK)),
        ("only_maintenance", pa.bool_()),
        ("copies_expected", pa.int64()),
        ("copies_listed", pa.int64()),
        ("copies_read", pa.int64()),
        ("copies_assumed", pa.int64()),
        ("is_mark_stale", pa.bool_()),
    ]
)
"""A ledger's standing, reasons and findings. Each finding is one JSON object. Key: ledger_id.

If `todo` is not "nothing", the verdict is not final. `detail` says why judging failed, if it did.
`assurance` is "listed" if the verdict rests on lists, "probed" if it rests on entry reads: `probes`
in all, `random_probes` of them drawn at random. `lacks` has one item for each bookie that surely
lacks entries; `expected` and `absent` count entries. `copies_*` count promised copies by what they
rest on, and are null if no bookie had to be asked."""

SEEN = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("records", pa.list_(pa.struct(LEDGERS))),
        ("answers", pa.list_(pa.struct(ANSWERS))),
        ("reads", pa.list_(pa.struct(READS))),
    ]
)
"""Everything seen of one ledger. Key: ledger_id. `answers` and `reads` may be null or empty."""

CLEAR_COLUMNS = (
    *("look", "status", "format_version", "state", "ensemble_size", "write_quorum", "ack_quorum"),
    *("last_entry_id", "segments", "malformed", "mark"),
)
"""The columns of LEDGERS that say whether a ledger is clear (`auditor.judging.healthy_ledgers`)."""
