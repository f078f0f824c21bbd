"""The settings that say what is audited and how it is judged."""

from __future__ import annotations

from auditor.config.setting import AUDITING, EVERY_COMMAND, JUDGING, ONLY_RUN, WHOLE_RUNS, Setting
from auditor.config.units import (
    COUNT,
    DURATION,
    FILE,
    LIST,
    PERCENT,
    SIZE,
    SWITCH,
    TEXT,
    URI,
    WINDOW,
    one_of,
)

_WHAT = "What is audited"
_HOW = "How it is judged"
_HOUR = 3_600_000

CLUSTER_SETTINGS = (
    Setting(
        "metadata_service_uri", _WHAT, URI, None,
        "Address of the cluster in BookKeeper's own form: "
        "zk+hierarchical://host:2181,host2:2181/ledgers.",
        "No default: auditing the wrong cluster by accident would look like an answer.",
        commands=frozenset({"run", "ledger", "topic", "topology", "lister", "config"}),
        required=frozenset({"run", "ledger", "topic", "topology"}),
    ),
    Setting(
        "ledgers_from", _WHAT, FILE, None,
        "Audit only the ledger IDs in this file, one ID a line. - reads standard input.",
        "Not set: every ledger of the cluster is listed and accounted for.",
        commands=ONLY_RUN,
    ),
    Setting(
        "resume", _WHAT, TEXT, None,
        "Resume this run, which was killed or stopped: its ID, name or path. Finished stages are "
        "not repeated.",
        "Not set: a new run starts. A resumed run keeps the settings it started with; give the "
        "same ones again.",
        commands=ONLY_RUN,
    ),
    Setting(
        "resume_age_max", _WHAT, DURATION, "24h",
        "Maximum age of a run that can be resumed.",
        "A resumed run reports its oldest evidence as the state of the cluster. One day is the "
        "pace of nightly runs. A run that takes several nights (--window) needs a day more "
        "than it has nights.",
        low=1_000, high=31 * 24 * _HOUR, commands=ONLY_RUN,
    ),
    Setting(
        "shard_ledgers", _WHAT, COUNT, "250000",
        "Ledgers that go through the stages together. A killed run repeats at most one shard.",
        "About two minutes of requests to ten bookies at the default rate. Each further shard "
        "costs some seconds of Spark.",
        low=1, high=100_000_000, commands=WHOLE_RUNS,
    ),
    Setting(
        "window", _WHAT, WINDOW, None,
        "Hours of the day in which the run works, as 01:00-05:00 Europe/Berlin; UTC without a "
        "zone. Outside them it pauses between shards, and continues the next day.",
        "Not set: the limits keep a run light at all hours. A shard that has begun is finished: "
        "--shard-ledgers bounds how long a run works on. The pause keeps OUTPUT locked. A run that "
        "takes several days can be resumed within --resume-age-max of its start: raise that to a "
        "day more than the nights it needs.",
        commands=ONLY_RUN,
    ),
    Setting(
        "dry_run", _WHAT, SWITCH, "false",
        "Print how many requests, bytes and minutes the run would take at these limits. No "
        "bookie is asked.",
        "Off: the command is there to audit.",
        commands=ONLY_RUN,
    ),
    Setting(
        "allow_empty", _WHAT, SWITCH, "false",
        "Accept a listing without any ledger (exit 0 instead of 3).",
        "A wrong root lists no ledger either, and must not pass for a sound cluster.",
        commands=frozenset({"run", "replay", "config"}),
    ),
)  # fmt: skip

JUDGEMENT_SETTINGS = (
    Setting(
        "underreplication_grace", _HOW, DURATION, "72h",
        "Time for which an under-replication mark excuses its ledger. Older marks are findings. "
        "0: no grace.",
        "BookKeeper's own underreplicatedLedgerRecoveryGracePeriod is 0, which turns the check "
        "off and leaves its gauge empty. Replicating a full bookie takes hours. Three days cover "
        "a weekend.",
        low=0, high=366 * 24 * _HOUR, commands=AUDITING,
    ),
    Setting(
        "second_look_delay", _HOW, DURATION, "5m",
        "Pause before suspects are looked at again. Nothing is reported on one look.",
        "Longer than the restart of a bookie and than the replication of one ledger. `ledger` and "
        "`topic` wait 1 s and `demo` 2 s, so that an answer comes at once; `ledger` and `topic` "
        "therefore report nothing on bookies.",
        low=0, high=24 * _HOUR, commands=AUDITING,
        elsewhere={"ledger": "1s", "topic": "1s", "demo": "2s"},
    ),
    Setting(
        "looks_max", _HOW, COUNT, "5",
        "Looks at one ledger whose metadata keeps changing. After that it is "
        "INDETERMINATE(unsettled).",
        "A closed ledger changes when a replica is replaced. More than three such changes in one "
        "run mean that the cluster is being rebuilt.",
        low=2, high=20, commands=AUDITING,
    ),
    Setting(
        "lost_bookie_wait_max", _HOW, DURATION, "30m",
        "Longest wait before the second look at an unregistered bookie that has a cookie. The "
        "wait should cover the cluster's lostBookieRecoveryDelay and a session time-out. Where "
        "those are longer than this, nothing is said about the bookie.",
        "A slow restart must not page anybody, and a run must end.",
        low=0, high=24 * _HOUR, commands=WHOLE_RUNS,
    ),
    Setting(
        "stuck_after", _HOW, DURATION, "720h",
        "Time for which a ledger may be open or in recovery before it is reported as stuck "
        "(info). 0: never reported.",
        "Pulsar rolls a ledger within hours, and recovery takes seconds. A ledger that is open "
        "for 30 days has lost its writer.",
        low=0, high=10 * 366 * 24 * _HOUR, commands=AUDITING,
    ),
    Setting(
        "population_drop", _HOW, PERCENT, "50%",
        "Share of ledgers by which a run may list fewer than an earlier run. A larger drop is a "
        "finding on the cluster, until three whole runs agree on the new number. 0: not checked.",
        "Retention moves the number by a few percent a day. Half of all ledgers gone at once "
        "means a wrong root or lost metadata, and bookies collect what metadata does not name.",
        low=0, high=100, commands=WHOLE_RUNS,
    ),
    Setting(
        "accept_population", _HOW, SWITCH, "false",
        "Accept the number of ledgers that this run lists. The next run is compared with it. Use "
        "it for one run, after many ledgers were deleted on purpose.",
        "Off: a drop is reported by each run until three whole runs agree on the new number, so "
        "that nobody misses it.",
        commands=ONLY_RUN,
    ),
    Setting(
        "sound_sample", _HOW, PERCENT, "1%",
        "Share of sound ledgers that the second checker judges again, drawn anew for each run. "
        "It judges all other ledgers in any case.",
        "The check asks no further questions and takes some 3 µs a ledger. A fault that "
        "overlooks one ledger in a thousand almost surely shows in a run of a million ledgers.",
        low=0, high=100, commands=AUDITING,
    ),
    Setting(
        "maintenance", _HOW, LIST, None,
        "Bookies known to be down: IDs, or a location such as /rack-1 for all bookies below it. "
        "They are reported but never alert.",
        "Not set: every bookie that is down is reported.",
        commands=AUDITING,
    ),
    Setting(
        "ledger_time_max", _HOW, DURATION, "5m",
        "Longest time that judging one ledger may take. A ledger that takes longer is "
        "INDETERMINATE(poison); all others are judged.",
        "Judging takes a tenth of a millisecond. A ledger that lacks most of 300,000 runs takes "
        "some tens of seconds, and a busy machine must not set it aside.",
        low=100, high=24 * _HOUR, commands=JUDGING,
    ),
    Setting(
        "ledger_memory_max", _HOW, SIZE, "2GiB",
        "Memory that judging one ledger may add to its process. A ledger that takes more is "
        "INDETERMINATE(poison). Enforced on Linux only.",
        "Lists of 300,000 runs each take half a GiB. Without a bound the kernel ends a process, "
        "and not always the right one.",
        low=64 * 2**20, high=2**40, commands=JUDGING,
    ),
    Setting(
        "fail_on", _HOW, one_of("critical", "warning", "never"), "warning",
        "Least severity that makes the exit code 1.",
        "A warning is a real fault with copies left: the time to act. The outcome word ignores "
        "this setting.",
        commands=JUDGING,
    ),
)  # fmt: skip

CONFIG_FILE = Setting(
    "config", "The file", FILE, None,
        "Read settings from this TOML file.",
        "Not set: no file is read, whatever directory the command runs in.",
    commands=EVERY_COMMAND,
)  # fmt: skip
"""Names the file, so it has a flag and a variable but no key in the file."""
