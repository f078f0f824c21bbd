"""The settings that say what is audited, how it is judged and where the results go."""

from __future__ import annotations

from auditor.config.setting import AUDITING, EVERY_COMMAND, JUDGING, ONLY_RUN, WHOLE_RUNS, Setting
from auditor.config.units import COUNT, DIRECTORY, DURATION, FILE, HTTP_URL, LIST, PERCENT, SIZE, SWITCH, TEXT, URI, one_of

_WHAT = "What is audited"
_HOW = "How it is judged"
_OUT = "Results"
_ENGINE = "Spark"
_HOUR = 3_600_000

CLUSTER_SETTINGS = (
    Setting(
        "metadata_service_uri", _WHAT, URI, None,
        "The cluster, in BookKeeper's own form: zk+hierarchical://host:2181,host2:2181/ledgers.",
        "No default: auditing the wrong cluster by accident would look like an answer.",
        commands=frozenset({"run", "ledger", "topology", "config"}), required=frozenset({"run", "ledger", "topology"}),
    ),
    Setting(
        "ledgers_from", _WHAT, FILE, None,
        "Audit only the ledger ids in this file, one a line; - reads them from standard input.",
        "Not set: every ledger of the cluster is listed and accounted for.",
        commands=ONLY_RUN,
    ),
    Setting(
        "resume", _WHAT, TEXT, None,
        "Go on with the run of this id, which was killed or stopped: what it has written whole is not done again.",
        "Not set: a new run. The run goes on under the settings it was begun with, which must be given again.",
        commands=ONLY_RUN,
    ),
    Setting(
        "resume_age_max", _WHAT, DURATION, "24h",
        "How long ago a run may have begun to be gone on with.",
        "What it heard first is told as the state of the cluster when it ends; a day is the pace of nightly runs.",
        low=1_000, high=31 * 24 * _HOUR, commands=ONLY_RUN,
    ),
    Setting(
        "shard_ledgers", _WHAT, COUNT, "250000",
        "Ledgers that go through together. When a run is killed, at most the shard it was at is done again.",
        "Two minutes of asking ten bookies at the default rate; each further shard costs some seconds of Spark.",
        low=1, high=100_000_000, commands=WHOLE_RUNS,
    ),
    Setting(
        "dry_run", _WHAT, SWITCH, "false",
        "Only say how many requests, bytes and minutes the run would take at these limits; no bookie is asked.",
        "Off: a run is what the command is for.",
        commands=ONLY_RUN,
    ),
    Setting(
        "allow_empty", _WHAT, SWITCH, "false",
        "Accept that no ledger was listed at all (exit 0 instead of 3).",
        "A wrong root lists no ledger either, and must not pass for a sound cluster.",
        commands=frozenset({"run", "replay", "config"}),
    ),
)  # fmt: skip

JUDGEMENT_SETTINGS = (
    Setting(
        "underreplication_grace", _HOW, DURATION, "72h",
        "How long an under-replication mark excuses its ledger; 0: not at all. Older marks are findings.",
        "BookKeeper's own underreplicatedLedgerRecoveryGracePeriod is 0, which there means off and leaves its "
        "gauge empty. Replicating a full bookie takes hours; three days also span a weekend, and no longer.",
        low=0, high=366 * 24 * _HOUR, commands=AUDITING,
    ),
    Setting(
        "second_look_delay", _HOW, DURATION, "5m",
        "Pause before suspects are looked at again; nothing is reported on one look.",
        "Longer than a bookie's restart and than replication of a single ledger. `ledger` waits 1 s and `demo` "
        "2 s, so that an answer comes at once; `ledger` therefore reports nothing on bookies.",
        low=0, high=24 * _HOUR, commands=AUDITING, elsewhere={"ledger": "1s", "demo": "2s"},
    ),
    Setting(
        "looks_max", _HOW, COUNT, "5",
        "Looks at one ledger whose metadata keeps changing before it is INDETERMINATE(unsettled).",
        "A closed ledger changes when a replica is replaced: more than three such changes in one run is a "
        "cluster being rebuilt.",
        low=2, high=20, commands=AUDITING,
    ),
    Setting(
        "lost_bookie_wait_max", _HOW, DURATION, "30m",
        "Longest wait for the second look at an unregistered bookie that still has a cookie. It should wait for the cluster's "
        "lostBookieRecoveryDelay and a session time-out; where that is longer than this, nothing is said about the bookie.",
        "A slow restart must be no page, and a run must end.",
        low=0, high=24 * _HOUR, commands=WHOLE_RUNS,
    ),
    Setting(
        "stuck_after", _HOW, DURATION, "720h",
        "How long a ledger may be open or in recovery before it is said to be stuck (info); 0: for ever.",
        "Pulsar rolls a ledger within hours, and recovery takes seconds; what is not closed after 30 days was left by a writer "
        "that is gone.",
        low=0, high=10 * 366 * 24 * _HOUR, commands=AUDITING,
    ),
    Setting(
        "population_drop", _HOW, PERCENT, "50%",
        "The share of ledgers by which a run may list fewer than the last; more is a finding on the cluster, until three whole "
        "runs agree about the new number. 0: not looked at.",
        "Retention moves the number by a few percent a day. Half of all ledgers gone at once is a wrong root or lost metadata, "
        "and bookies collect what metadata does not name.",
        low=0, high=100, commands=WHOLE_RUNS,
    ),
    Setting(
        "accept_population", _HOW, SWITCH, "false",
        "Accept the number of ledgers that this run lists, however few: it is what the next run is held against. For one run, "
        "after many ledgers were deleted on purpose.",
        "Off: a drop is found again until three whole runs agree about the new number, so that nobody misses it.",
        commands=ONLY_RUN,
    ),
    Setting(
        "sound_sample", _HOW, PERCENT, "1%",
        "The share of sound ledgers that the second checker judges again from the same evidence, drawn anew for each run; all "
        "others it judges in any case.",
        "No new questions, only time: judging sound ledgers takes twice as long, some 20 µs a ledger more. A fault that "
        "overlooks one ledger in a thousand shows in a run of a million almost surely.",
        low=0, high=100, commands=AUDITING,
    ),
    Setting(
        "maintenance", _HOW, LIST, None,
        "Bookies that are known to be down: ids, or a location such as /rack-1 for all bookies in it and below. They are in "
        "the report and are no page.",
        "Not set: whatever is down is told.",
        commands=AUDITING,
    ),
    Setting(
        "ledger_time_max", _HOW, DURATION, "5m",
        "How long judging one ledger may take; one that takes longer is INDETERMINATE(poison), and all others go on.",
        "Judging takes a tenth of a millisecond. A ledger that lacks most of 300,000 runs takes some tens of seconds, and must "
        "not be set aside because the machine is busy.",
        low=100, high=24 * _HOUR, commands=JUDGING,
    ),
    Setting(
        "ledger_memory_max", _HOW, SIZE, "2GiB",
        "Memory that judging one ledger may take on top of what its process has; one that takes more is INDETERMINATE(poison). "
        "Kept on Linux only.",
        "Lists of 300,000 runs each take half a GiB. Without a bound the kernel ends a process for it, and not always the "
        "right one.",
        low=64 * 2**20, high=2**40, commands=JUDGING,
    ),
    Setting(
        "fail_on", _HOW, one_of("critical", "warning", "never"), "warning",
        "The least severity that makes the exit code 1.",
        "A warning is a real fault with copies left: the time to act. The outcome word ignores this setting.",
        commands=JUDGING,
    ),
)  # fmt: skip

OUTPUT_SETTINGS = (
    Setting(
        "output", _OUT, DIRECTORY, "./audits",
        "Where the directory of each run goes: a local path, or anything Spark can write to.",
        "Beside the caller, so that a first run needs no permission. `ledger` writes nothing there: it reads what the newest "
        "run of the cluster knows.",
        commands=WHOLE_RUNS | {"ledger"},
    ),
    Setting(
        "keep_runs", _OUT, COUNT, "30",
        "Finished runs kept in the output directory; older ones are removed after a run. 0 keeps all.",
        "A month of nightly runs: enough to say since when.",
        low=0, high=100_000, commands=ONLY_RUN,
    ),
    Setting(
        "format", _OUT, one_of("text", "json"), "text",
        "What stdout carries: the report for people, or summary and findings as JSON.",
        "The first reader is a person.",
    ),
    Setting(
        "quiet", _OUT, SWITCH, "false",
        "Only warnings and errors in the log, no progress; the report stays.",
        "Off: stderr is the log.",
    ),
    Setting(
        "verbose", _OUT, SWITCH, "false",
        "Also log what the ZooKeeper client and Spark say, and every step.",
        "Off: a run logs a few lines.",
    ),
    Setting(
        "log_format", _OUT, one_of("console", "json"), "console",
        "How the log on stderr is written; json is one object a line.",
        "The first reader is a person; log collectors set json.",
    ),
    Setting(
        "metrics_textfile", _OUT, FILE, None,
        "Write the metrics to this file too, for node_exporter's textfile collector (its name must end in .prom there).",
        "Not set: the run's own metrics.prom is always written.",
        commands=ONLY_RUN,
    ),
    Setting(
        "pushgateway", _OUT, HTTP_URL, None,
        "Push the metrics to this Pushgateway, in the group of the cluster alone. user:password@ is accepted from the "
        "environment and the file, never as a flag.",
        "Not set: nothing is contacted that was not named. A push that fails is logged and changes no exit code.",
        commands=ONLY_RUN,
    ),
    Setting(
        "cluster", _OUT, TEXT, None,
        "The label `cluster` of every metric.",
        "Not set: the cluster's instance id, which no two clusters share.",
        commands=frozenset({"run", "demo", "replay", "config"}),
    ),
)  # fmt: skip

ENGINE_SETTINGS = (
    Setting(
        "spark_master", _ENGINE, TEXT, None,
        "Spark master to use, such as local[8] or yarn.",
        "Not set: what spark-submit says, else this machine with one slot for each bookie (tasks wait for "
        "the network, not for a core).",
        commands=WHOLE_RUNS,
    ),
    Setting(
        "tasks", _ENGINE, COUNT, "0",
        "Tasks that read ledgers from ZooKeeper and judge them; 0: one for each core Spark offers.",
        "Bookies have one task each whatever this says: more connections would break their limits.",
        low=0, high=10_000, commands=WHOLE_RUNS,
    ),
)  # fmt: skip

CONFIG_FILE = Setting(
    "config", "The file", FILE, None,
    "Read settings from this TOML file.",
    "Not set: no file is read, whatever directory the command runs in.",
    commands=EVERY_COMMAND,
)  # fmt: skip
"""Where the file is cannot stand in the file: a flag and a variable, no key."""
