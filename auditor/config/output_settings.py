"""The settings that say where the results go, and how Spark runs."""

from __future__ import annotations

from auditor.config.setting import EVERY_COMMAND, ONLY_RUN, WHOLE_RUNS, Setting
from auditor.config.units import (
    COUNT,
    DIRECTORY,
    DURATION,
    FILE,
    HTTP_URL,
    SWITCH,
    TEXT,
    UMASK,
    one_of,
)

_OUT = "Results"
_ENGINE = "Spark"
_HOUR = 3_600_000

OUTPUT_SETTINGS = (
    Setting(
        "output", _OUT, DIRECTORY, "./audits",
        "Directory in which each run gets a directory of its own: a local path, or a URI that "
        "Spark can write to.",
        "A place beside the caller needs no permission for a first run. `ledger`, `topic` and "
        "`explain` write nothing there; they read what the newest run of the cluster knows.",
        commands=WHOLE_RUNS | {"ledger", "topic", "explain", "mute"},
    ),
    Setting(
        "output_umask", _OUT, UMASK, "027",
        "Permissions that files and directories of a run do not get, in octal. Bits of the "
        "process's own umask are "
        "removed as well.",
        "Evidence names ledgers, owners and addresses. With 027 the owner writes it, the group "
        "reads it, and nobody else.",
        commands=WHOLE_RUNS,
    ),
    Setting(
        "evidence_age_max", _OUT, DURATION, "24h",
        "Maximum age of a run whose evidence answers `auditor margin`. Older evidence: exit 3.",
        "Since then bookies may have failed and ledgers may have moved. One day is the pace of "
        "nightly runs.",
        low=1_000, high=366 * 24 * _HOUR, commands=frozenset({"margin", "config"}),
    ),
    Setting(
        "keep_runs", _OUT, COUNT, "30",
        "Finished runs to keep in the output directory. Older ones are removed after a run. 0: "
        "keep all.",
        "A month of nightly runs shows since when a finding stands.",
        low=0, high=100_000, commands=ONLY_RUN,
    ),
    Setting(
        "format", _OUT, one_of("text", "json"), "text",
        "Form of the result on stdout: the report for people, or summary and findings as JSON.",
        "The first reader is a person.",
        commands=EVERY_COMMAND - {"lister"},
    ),
    Setting(
        "full", _OUT, SWITCH, "false",
        "Print the whole report instead of its first screen: every kind with the witness of its "
        "worst "
        "finding. It is the text of report.txt.",
        "Off: at most 25 lines on what was found, what changed and what to do next. The rest is "
        "in the "
        "run's directory.",
        commands=frozenset({"run", "demo", "replay", "report", "config"}),
    ),
    Setting(
        "mutes", _OUT, TEXT, None,
        "File with the findings that `auditor mute` accepts until a day: a local path or a URI.",
        "Not set: mutes.jsonl in the output directory. Give a path in a repository to have each "
        "mute reviewed.",
        commands=frozenset({"run", "demo", "mute", "config"}),
    ),
    Setting(
        "quiet", _OUT, SWITCH, "false",
        "Log only warnings and errors, and show no progress. The report stays.",
        "Off: stderr is the log.",
    ),
    Setting(
        "verbose", _OUT, SWITCH, "false",
        "Log every step, and what the ZooKeeper client and Spark say.",
        "Off: a run logs a few lines.",
    ),
    Setting(
        "log_format", _OUT, one_of("console", "json"), "console",
        "Form of the log on stderr. json writes one object a line.",
        "The first reader is a person; log collectors set json.",
    ),
    Setting(
        "metrics_textfile", _OUT, FILE, None,
        "Also write the metrics to this file, for node_exporter's textfile collector, which "
        "reads names that end in .prom.",
        "Not set: the metrics.prom in the run's directory is always written.",
        commands=ONLY_RUN,
    ),
    Setting(
        "pushgateway", _OUT, HTTP_URL, None,
        "Push the metrics to this Pushgateway, in the group of this cluster. user:password@ is "
        "accepted from the environment and the file, never as a flag.",
        "Not set: the auditor contacts nothing that was not named. A failed push is logged and "
        "changes no exit code.",
        commands=ONLY_RUN,
    ),
    Setting(
        "cluster", _OUT, TEXT, None,
        "Value of the label `cluster` of every metric.",
        "Not set: the cluster's instance ID, which no two clusters share.",
        commands=frozenset({"run", "demo", "replay", "config"}),
    ),
)  # fmt: skip

ENGINE_SETTINGS = (
    Setting(
        "spark_master", _ENGINE, TEXT, None,
        "Spark master to use, such as local[8] or yarn.",
        "Not set: the one that spark-submit names, else this machine with one slot for each bookie "
        "(tasks wait for the network, not for a core).",
        commands=WHOLE_RUNS,
    ),
    Setting(
        "spark_stall_max", _ENGINE, DURATION, "1h",
        "Longest time in which no task of a Spark job finishes. Then the job is cancelled: exit "
        "code 5.",
        "A stopped worker or a hung executor must not hold a nightly run for ever. Above "
        "bookie_deadline, because the task of one bookie may take that long.",
        low=1_000, high=7 * 24 * _HOUR, commands=WHOLE_RUNS,
    ),
    Setting(
        "tasks", _ENGINE, COUNT, "0",
        "Tasks that read ledgers from ZooKeeper and judge them. 0: one for each core of Spark.",
        "Each bookie has one task whatever this says: more connections would break its limits.",
        low=0, high=10_000, commands=WHOLE_RUNS,
    ),
    Setting(
        "ledgers_in_process_max", _ENGINE, COUNT, "20000",
        "Maximum number of ledgers of a cluster that the driver audits without Spark. 0: Spark "
        "takes the first look.",
        "The driver takes 0.35 ms for a healthy ledger, and Spark five seconds or more to start.",
        low=0, high=1_000_000, commands=WHOLE_RUNS,
    ),
    Setting(
        "suspects_in_process_max", _ENGINE, COUNT, "1000",
        "Maximum number of suspect ledgers of a shard that the driver looks at again in a larger "
        "cluster. 0: Spark does all.",
        "A Spark job costs half a second or more. Up to a thousand suspects the driver is done "
        "first.",
        low=0, high=1_000_000, commands=WHOLE_RUNS,
    ),
)  # fmt: skip
