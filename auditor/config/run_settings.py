"""The settings of a run: what is audited, how it is judged, where results go, how Spark runs.

Also the placement policy that ensembles must satisfy, where bookies are, and what Pulsar's topics
reference.
"""

from __future__ import annotations

from dataclasses import dataclass

from auditor.config.setting import (
    AUDITING,
    EVERY_COMMAND,
    JUDGING,
    ONLY_RUN,
    PLACING,
    READ_OUTPUT,
    WHOLE_RUNS,
    Setting,
    setting,
)
from auditor.config.units import (
    COUNT,
    DIRECTORY,
    DURATION,
    FILE,
    HTTP_URL,
    LIST,
    PERCENT,
    SITE_URL,
    SIZE,
    SWITCH,
    TEXT,
    UMASK,
    URI,
    WINDOW,
    one_of,
)

_MINUTE = 60_000
_HOUR = 3_600_000

# fmt: off

@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """What is audited."""

    metadata_service_uri: str | None = setting(
        URI, None,
        "Address of the cluster in BookKeeper's own form: "
        "zk+hierarchical://host:2181,host2:2181/ledgers.",
        "No default: auditing the wrong cluster by accident would look like an answer.",
        commands=frozenset(
            {
                "run", "ledger", "topic", "rehearse", "salvage", "topology", "lister", "margin",
                "config",
            }
        ),
        required=frozenset({"run", "ledger", "topic", "rehearse", "salvage", "topology"}),
    )
    ledgers_from: str | None = setting(
        FILE, None,
        "Audit only the ledger IDs in this file, one ID a line. - reads standard input.",
        "Not set: every ledger of the cluster is listed and accounted for.",
        commands=ONLY_RUN,
    )
    within_ms: int = setting(
        DURATION, "0",
        "Ask only about ledgers that are new, changed or not sound, and about a rotating share of "
        "the others, so that each is listed within this period. The other verdicts are carried "
        "over from earlier runs. 0: ask about every ledger.",
        "Each run then stands alone. With 24h and a run every hour, a run asks about 5 % of the "
        "unchanged ledgers; with 168h about 0.7 %.",
        low=0, high=366 * 24 * _HOUR, commands=ONLY_RUN,
    )
    resume: str | None = setting(
        TEXT, None,
        "Resume this run, which was killed or stopped: its ID, name or path, "
        "or latest for the newest one. Finished stages are not repeated.",
        "Not set: a new run starts. A resumed run keeps the settings it started with; give the "
        "same ones again.",
        commands=ONLY_RUN,
    )
    resume_age_max_ms: int = setting(
        DURATION, "24h",
        "Maximum age of a run that can be resumed.",
        "A resumed run reports its oldest evidence as the state of the cluster. One day is the "
        "pace of nightly runs. A run that takes several nights (--window) needs a day more "
        "than it has nights.",
        low=1_000, high=31 * 24 * _HOUR, commands=ONLY_RUN,
    )
    shard_ledgers: int = setting(
        COUNT, "250000",
        "Ledgers that go through the stages together. A killed run repeats at most one shard.",
        "About two minutes of requests to ten bookies at the default rate. Each further shard "
        "costs some seconds of Spark.",
        low=1, high=100_000_000, commands=WHOLE_RUNS,
    )
    window: str | None = setting(
        WINDOW, None,
        "Hours of the day in which the run works, as 01:00-05:00 Europe/Berlin; UTC without a "
        "zone. Outside them it pauses between shards, and continues the next day.",
        "Not set: the limits keep a run light at all hours. A shard that has begun is finished: "
        "--shard-ledgers bounds how long a run works on. The pause keeps OUTPUT locked. A run that "
        "takes several days can be resumed within --resume-age-max of its start: raise that to a "
        "day more than the nights it needs.",
        commands=ONLY_RUN,
    )
    dry_run: bool = setting(
        SWITCH, "false",
        "Print how many requests, bytes and minutes the run would take at these limits. No "
        "bookie is asked.",
        "Off: the command is there to audit.",
        commands=ONLY_RUN,
    )
    allow_empty: bool = setting(
        SWITCH, "false",
        "Accept a listing without any ledger (exit 0 instead of 3).",
        "A wrong root lists no ledger either, and must not pass for a sound cluster.",
        commands=frozenset({"run", "replay", "config"}),
    )

@dataclass(frozen=True, kw_only=True)
class JudgementSettings:
    """How it is judged."""

    underreplication_grace_ms: int = setting(
        DURATION, "72h",
        "Time for which an under-replication mark excuses its ledger. Older marks are findings. "
        "0: no grace.",
        "BookKeeper's own underreplicatedLedgerRecoveryGracePeriod is 0, which turns the check "
        "off and leaves its gauge empty. Replicating a full bookie takes hours. Three days cover "
        "a weekend.",
        low=0, high=366 * 24 * _HOUR, commands=AUDITING,
    )
    second_look_delay_ms: int = setting(
        DURATION, "5m",
        "Pause before suspects are looked at again. Nothing is reported on one look.",
        "Longer than the restart of a bookie and than the replication of one ledger. `ledger` and "
        "`topic` wait 1 s and `demo` 2 s, so that an answer comes at once; `ledger` and `topic` "
        "therefore report nothing on bookies.",
        low=0, high=24 * _HOUR, commands=AUDITING,
        elsewhere={"ledger": "1s", "topic": "1s", "demo": "2s"},
    )
    looks_max: int = setting(
        COUNT, "5",
        "Looks at one ledger whose metadata keeps changing. After that it is "
        "INDETERMINATE(unsettled).",
        "A closed ledger changes when a replica is replaced. More than three such changes in one "
        "run mean that the cluster is being rebuilt.",
        low=2, high=20, commands=AUDITING,
    )
    lost_bookie_wait_max_ms: int = setting(
        DURATION, "30m",
        "Longest wait before the second look at an unregistered bookie that has a cookie. The "
        "wait should cover the cluster's lostBookieRecoveryDelay and a session time-out. Where "
        "those are longer than this, nothing is said about the bookie.",
        "A slow restart must not page anybody, and a run must end.",
        low=0, high=24 * _HOUR, commands=WHOLE_RUNS,
    )
    stuck_after_ms: int = setting(
        DURATION, "720h",
        "Time for which a ledger may be open or in recovery before it is reported as stuck "
        "(info). 0: never reported.",
        "Pulsar rolls a ledger within hours, and recovery takes seconds. A ledger that is open "
        "for 30 days has lost its writer.",
        low=0, high=10 * 366 * 24 * _HOUR, commands=AUDITING,
    )
    population_drop: int = setting(
        PERCENT, "50%",
        "Share of ledgers by which a run may list fewer than an earlier run. A larger drop is a "
        "finding on the cluster, until three whole runs agree on the new number. 0: not checked.",
        "Retention moves the number by a few percent a day. Half of all ledgers gone at once "
        "means a wrong root or lost metadata, and bookies collect what metadata does not name.",
        low=0, high=100, commands=WHOLE_RUNS,
    )
    accept_population: bool = setting(
        SWITCH, "false",
        "Accept the number of ledgers that this run lists. The next run is compared with it. Use "
        "it for one run, after many ledgers were deleted on purpose.",
        "Off: a drop is reported by each run until three whole runs agree on the new number, so "
        "that nobody misses it.",
        commands=ONLY_RUN,
    )
    sound_sample: int = setting(
        PERCENT, "1%",
        "Share of sound ledgers that the second checker judges again, drawn anew for each run. "
        "It judges all other ledgers in any case.",
        "The check asks no further questions and takes some 3 µs a ledger. A fault that "
        "overlooks one ledger in a thousand almost surely shows in a run of a million ledgers.",
        low=0, high=100, commands=AUDITING,
    )
    maintenance: tuple[str, ...] | None = setting(
        LIST, None,
        "Bookies known to be down: IDs, or a location such as /rack-1 for all bookies below it. "
        "They are reported but never alert.",
        "Not set: every bookie that is down is reported.",
        commands=AUDITING,
    )


@dataclass(frozen=True, kw_only=True)
class JudgingLimits:
    """Limits for judging one ledger. A ledger that exceeds them is set aside (`poison`)."""

    ledger_time_max_ms: int = setting(
        DURATION, "5m",
        "Longest time that judging one ledger may take. A ledger that takes longer is "
        "INDETERMINATE(poison); all others are judged.",
        "Judging takes a tenth of a millisecond. A ledger that lacks most of 300,000 runs takes "
        "some tens of seconds, and a busy machine must not set it aside.",
        low=100, high=24 * _HOUR, commands=JUDGING,
    )
    ledger_memory_max: int = setting(
        SIZE, "2GiB",
        "Memory that judging one ledger may add to its process. A ledger that takes more is "
        "INDETERMINATE(poison). Enforced on Linux only.",
        "Lists of 300,000 runs each take half a GiB. Without a bound the kernel ends a process, "
        "and not always the right one.",
        low=64 * 2**20, high=2**40, commands=JUDGING,
    )


@dataclass(frozen=True, kw_only=True)
class AlertSettings:
    """What makes the exit code 1."""

    fail_on: str = setting(
        one_of("critical", "warning", "new", "never"), "warning",
        "Least severity that makes the exit code 1. new: of warning or above, and new or worse "
        "since the run before; `ledger` and `topic`, which compare with no run, take new as "
        "warning.",
        "A warning is a real fault with copies left: the time to act. With new a night is told "
        "once: whoever misses it sees no second one. The outcome word ignores this setting.",
        commands=JUDGING,
    )
    notify: str | None = setting(
        TEXT, None,
        "Command that gets the new and worse findings of a finished run as one JSON document on "
        "stdin, if there are any of warning or above that are not muted. It runs without a shell, "
        "after the run is published, for at most a minute.",
        "Not set: the auditor starts nothing that was not named. A command that fails is logged "
        "and changes no exit code of its run; the next run sends its news again. It gets no "
        "AUDITOR_ variable, for these may hold passwords.",
        commands=ONLY_RUN,
    )


@dataclass(frozen=True, kw_only=True)
class PlacementSettings:
    """The placement policy that ensembles must satisfy, and where bookies are."""

    placement_policy: str = setting(
        one_of("none", "rack", "region", "zone"), "none",
        "Placement policy that ensembles must satisfy: the class of the cluster's "
        "ensemblePlacementPolicy. Every policy but none needs topology, unless placement_compat "
        "is java.",
        "The policy of a cluster stands in the settings of its clients, not in its metadata: it "
        "cannot be guessed. A bookie that stands twice in an ensemble is found under none, too. "
        "`demo` brings its own topology and judges racks.",
        commands=AUDITING, elsewhere={"demo": "rack"},
    )
    placement_compat: str = setting(
        one_of("assigned", "java"), "assigned",
        "assigned: judge bookies by their assigned location, also while they are read-only or "
        "down; region has a real rule; a missing location is topology_unknown. java: judge as "
        "BookKeeper's own classes do, with their defects.",
        "The Java check knows writable bookies only, so that a rolling restart turns good "
        "ensembles into bad ones.",
        commands=AUDITING,
    )
    min_num_racks_per_write_quorum: int = setting(
        COUNT, "2",
        "Racks that each write quorum must span under the policy rack, at most as many as it has "
        "members (minNumRacksPerWriteQuorum).",
        "BookKeeper's default.",
        low=1, high=100, commands=AUDITING,
    )
    enforce_min_num_racks_per_write_quorum: bool = setting(
        SWITCH, "false",
        "Under the policy rack, reject a write quorum with a bookie in /default-rack "
        "(enforceMinNumRacksPerWriteQuorum).",
        "BookKeeper's default.",
        commands=AUDITING,
    )
    min_num_zones_per_write_quorum: int = setting(
        COUNT, "2",
        "Zones that each write quorum must span under the policy zone "
        "(minNumZonesPerWriteQuorum).",
        "BookKeeper's default.",
        low=1, high=100, commands=AUDITING,
    )
    desired_num_zones_per_write_quorum: int = setting(
        COUNT, "3",
        "Zones that each write quorum should span under the policy zone. Fewer, but enough, "
        "adhere softly (desiredNumZonesPerWriteQuorum). Never below "
        "min_num_zones_per_write_quorum.",
        "BookKeeper's default.",
        low=1, high=100, commands=AUDITING,
    )
    repp_minimum_regions_for_durability: int = setting(
        COUNT, "2",
        "Regions that an acknowledgement needs under the policy region: any fewer regions hold "
        "less than an ack quorum of each write quorum (reppMinimumRegionsForDurability). 1: no "
        "rule.",
        "BookKeeper's default.",
        low=1, high=100, commands=AUDITING,
    )
    topology: tuple[str, ...] | None = setting(
        LIST, None,
        "Sources of bookie locations; the first source that knows a bookie wins. A source is a "
        "table file, zookeeper (Pulsar's /bookies) or an executable script; file:PATH and "
        "script:PATH say which it is. See docs/topology.md.",
        "Not set: a location that nobody gave would be a guess.",
        commands=PLACING, required=frozenset({"topology"}),
    )
    topology_script_args_max: int = setting(
        COUNT, "100",
        "IP addresses in one call of the script (networkTopologyScriptNumberArgs).",
        "BookKeeper's default.",
        low=1, high=1_000, commands=PLACING,
    )
    topology_script_timeout_ms: int = setting(
        DURATION, "30s",
        "Longest time that one call of the script may take. After that, the bookies of that call "
        "get no location from it.",
        "A script that reads a table takes milliseconds, one that asks an inventory some "
        "seconds; a run must end.",
        low=100, high=10 * _MINUTE, commands=PLACING,
    )


@dataclass(frozen=True, kw_only=True)
class PulsarSettings:
    """What of Pulsar's topics is read and judged."""

    pulsar_metadata_uri: str | None = setting(
        URI, None,
        "Address of Pulsar's own metadata, as metadataStoreUrl in broker.conf: "
        "zk:host:2181,host2:2181/chroot.",
        "Not set: topics are looked for beside the ledgers, in the same ZooKeeper.",
        commands=frozenset({"run", "topic", "config"}),
    )
    pulsar: str = setting(
        one_of("auto", "off"), "auto",
        "Whether a run reads what Pulsar's topics reference. auto: where topics are found, or "
        "--pulsar-metadata-uri is set. off: never.",
        "A ledger that a topic needs and that has no metadata is not listed, so nothing else "
        "finds it. Reading the references costs some reads of znodes a topic.",
        commands=WHOLE_RUNS,
    )
    orphan_age_ms: int = setting(
        DURATION, "168h",
        "Age of a ledger of Pulsar above which it is an orphan if no topic references it (info).",
        "A broker creates a ledger and references it at once, so seconds would do. A week "
        "leaves time to see what was restored or copied by hand.",
        low=3_600_000, high=10 * 366 * 24 * _HOUR, commands=WHOLE_RUNS,
    )


@dataclass(frozen=True, kw_only=True)
class OutputSettings:
    """Where results go, and their form."""

    output: str = setting(
        DIRECTORY, "./audits",
        "Directory in which each run gets a directory of its own: a local path, or a URI that "
        "Spark can write to.",
        "A place beside the caller needs no permission for a first run. Only `run`, `demo` and "
        "`mute` write there. `ledger` and `topic` read what the newest run of the cluster knows, "
        "and commands that take a RUN look for it there.",
        commands=READ_OUTPUT,
        elsewhere={"demo": "./audits/demo"},
    )
    output_umask: int = setting(
        UMASK, "027",
        "Permissions that files and directories of a run do not get, in octal. Bits of the "
        "process's own umask are "
        "removed as well.",
        "Evidence names ledgers, owners and addresses. With 027 the owner writes it, the group "
        "reads it, and nobody else.",
        commands=WHOLE_RUNS,
    )
    evidence_age_max_ms: int = setting(
        DURATION, "24h",
        "Maximum age of a run whose evidence answers `auditor margin`. Older evidence: exit 3.",
        "Since then bookies may have failed and ledgers may have moved. One day is the pace of "
        "nightly runs.",
        low=1_000, high=366 * 24 * _HOUR, commands=frozenset({"margin", "config"}),
    )
    keep_runs: int = setting(
        COUNT, "30",
        "Finished runs to keep in the output directory. Older ones are removed after a run. 0: "
        "keep all.",
        "A month of nightly runs shows since when a finding stands.",
        low=0, high=100_000, commands=ONLY_RUN,
    )
    format: str = setting(
        one_of("text", "json"), "text",
        "Form of the result on stdout: the report for people, or summary and findings as JSON.",
        "The first reader is a person.",
        commands=EVERY_COMMAND - {"lister"},
    )
    full: bool = setting(
        SWITCH, "false",
        "Print the whole report instead of its first screen: every kind with the witness of its "
        "worst "
        "finding. It is the text of report.txt.",
        "Off: one screen on what was found, what changed and what to do next. The rest is "
        "in the "
        "run's directory.",
        commands=frozenset({"run", "demo", "replay", "report", "config"}),
    )
    mutes: str | None = setting(
        TEXT, None,
        "File with the findings that `auditor mute` accepts until a day: a local path or a URI.",
        "Not set: mutes.jsonl in the output directory. Give a path in a repository to have each "
        "mute reviewed.",
        commands=frozenset({"run", "demo", "mute", "config"}),
    )
    quiet: bool = setting(
        SWITCH, "false",
        "Log only warnings and errors, and show no progress. The report stays.",
        "Off: stderr has progress and what the report does not say; `run.log` in the run's "
        "directory has every event.",
    )
    verbose: bool = setting(
        SWITCH, "false",
        "Log every step on stderr, each finding, and what the ZooKeeper client and Spark say.",
        "Off: the report says what was found, and `run.log` has the rest.",
    )
    log_format: str = setting(
        one_of("console", "json"), "console",
        "Form of the log on stderr. json writes one object a line.",
        "The first reader is a person; log collectors set json.",
    )
    metrics_textfile: str | None = setting(
        FILE, None,
        "Also write the metrics to this file, for node_exporter's textfile collector, which "
        "reads names that end in .prom.",
        "Not set: the metrics.prom in the run's directory is always written.",
        commands=ONLY_RUN,
    )
    pushgateway: str | None = setting(
        HTTP_URL, None,
        "Push the metrics to this Pushgateway, in the group of this cluster. user:password@ is "
        "accepted from the environment and the file, never as a flag.",
        "Not set: the auditor contacts nothing that was not named. A failed push is logged and "
        "changes no exit code.",
        commands=ONLY_RUN, is_shown=False,
    )
    cluster: str | None = setting(
        TEXT, None,
        "Value of the label `cluster` of every metric.",
        "Not set: the cluster's instance ID, which no two clusters share.",
        commands=frozenset({"run", "demo", "replay", "config"}),
    )
    runbooks: str | None = setting(
        SITE_URL, None,
        "Address of the documents as a site (make docs): report.html links to the page on each "
        "kind there, such as ADDRESS/findings/entry_corrupt.html.",
        "Not set: report.html names the page's path in the documents, which may be anywhere.",
        commands=frozenset({"run", "demo", "report", "config"}),
    )

@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """When and how Spark runs."""

    spark_master: str | None = setting(
        TEXT, None,
        "Spark master to use, such as local[8] or yarn.",
        "Not set: the one that spark-submit names, else this machine with one slot for each bookie "
        "(tasks wait for the network, not for a core).",
        commands=WHOLE_RUNS,
    )
    spark_stall_max_ms: int = setting(
        DURATION, "1h",
        "Longest time in which no task of a Spark job finishes. Then the job is cancelled: exit "
        "code 5.",
        "A stopped worker or a hung executor must not hold a nightly run for ever. Above "
        "bookie_deadline, because the task of one bookie may take that long.",
        low=1_000, high=7 * 24 * _HOUR, commands=WHOLE_RUNS,
    )
    tasks: int = setting(
        COUNT, "0",
        "Tasks that read ledgers from ZooKeeper and judge them. 0: one for each core of Spark.",
        "Each bookie has one task whatever this says: more connections would break its limits.",
        low=0, high=10_000, commands=WHOLE_RUNS,
    )
    ledgers_in_process_max: int = setting(
        COUNT, "20000",
        "Maximum number of ledgers of a cluster that the driver audits without Spark. 0: Spark "
        "takes the first look.",
        "The driver takes 0.35 ms for a healthy ledger, and Spark five seconds or more to start.",
        low=0, high=1_000_000, commands=WHOLE_RUNS,
    )
    suspects_in_process_max: int = setting(
        COUNT, "1000",
        "Maximum number of suspect ledgers that the driver looks at again together in a larger "
        "cluster: those of a shard, or of neighbouring shards with few of them. It judges four "
        "times as many of a shard that are mostly sound, such as the sample for both checkers. 0: "
        "Spark does all, but the driver counts answers.",
        "A Spark job costs half a second or more. Up to a thousand suspects the driver is done "
        "first.",
        low=0, high=1_000_000, commands=WHOLE_RUNS,
    )


CONFIG_FILE = Setting(
    FILE, None,
    "Read settings from this TOML file.",
    "Not set: no file is read, whatever directory the command runs in.",
    field="config", section="The file",
)
"""Names the file, so it has a flag and a variable but no key in the file."""
