"""Store runs and what each command says of them, and check that the product still says the same.

    .venv/bin/python tests/support/replay_net.py store NET TREE…    # runs below TREE, in minutes
    .venv/bin/python tests/support/replay_net.py check NET          # under a minute, no cluster
    .venv/bin/python tests/support/replay_net.py check NET --accept # keep what is said today
    .venv/bin/python tests/support/replay_net.py live NET [--spark] # audits the demo's cluster

A change that moves code and not behaviour leaves every output as it was, byte for byte. `store`
chooses, of all finished runs below the trees, as few as show everything that any of them shows:
each kind and reason, each status of the evidence, each field of summary.json, runs of Spark and of
this process. `pytest -o tmp_path_retention_policy=all --basetemp=TREE` leaves such trees.

`check` judges each stored run again and compares the verdicts, and what `replay`, `report`,
`explain`, `margin` and `diff` print, and the page. `live` audits a new cluster of the demo's
stories with each executor, and asks `ledger` and `topic` of the same cluster. It compares what was
written and printed, without times, ports and ids.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests")]

import pyarrow.parquet as pq  # noqa: E402

RUN_BYTES_MAX = 20_000_000
"""Larger runs are not stored: they show nothing that small ones do not, and take long to judge."""
SIBLINGS_MAX = 2
"""Earlier runs of the same output directory that are stored beside a run, for its history."""
EXPLAINED_MAX = 12
"""Findings and ledgers of a run that are explained: the first of each kind and reason."""
DIFFERENCE_LINES_MAX = 40
"""Lines shown of what differs in one output."""

Files = Mapping[str, str]
"""Outputs by name, such as `003/report.txt`."""


@dataclass(frozen=True)
class StoredRun:
    """A finished run on disk, and everything that it shows."""

    directory: Path
    bytes: int
    features: frozenset[str]


def finished_runs(trees: Iterable[Path]) -> Iterator[StoredRun]:
    """Yield each readable finished run below the trees of at most RUN_BYTES_MAX bytes."""
    for tree in trees:
        for summary in sorted(tree.rglob("summary.json")):
            directory = summary.parent
            size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
            if not (directory / "run.json").is_file() or size > RUN_BYTES_MAX:
                continue
            with suppress(OSError, ValueError):  # a test damaged it
                yield StoredRun(directory, size, frozenset(features_of(directory)))


def features_of(run: Path) -> Iterator[str]:
    """Yield everything that a run shows: its settings, what its evidence says and what its summary
    says.

    A field counts by its path where it has a value, and with the value where that is a word.
    """
    for name in ("run.json", "summary.json"):
        yield from _paths(name, json.loads((run / name).read_text()))
    for line in (run / "findings.jsonl").read_text().splitlines():
        finding = json.loads(line)
        yield from _paths(f"finding {finding['kind']}", finding)
    for table in sorted(run.rglob("*.parquet")):
        place = table.parent.relative_to(run).as_posix()
        yield f"{place} by {'Spark' if table.name.startswith('part-') else 'this process'}"
        for column in pq.ParquetFile(table).schema_arrow.names:
            if column in ("status", "registration", "greeting", "standing", "assurance", "exempt"):
                values = pq.read_table(table, columns=[column])[column].unique().to_pylist()
                yield from (f"{place} {column} {value}" for value in values)


def _paths(path: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            name = key if re.fullmatch(r"[A-Za-z_]{1,40}", str(key)) else "*"
            yield from _paths(f"{path}.{name}", inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _paths(f"{path}[]", inner)
    elif value not in (None, 0, "", False):
        is_word = isinstance(value, str) and re.fullmatch(r"[a-z_]{1,30}|[A-Z_]{1,30}", value)
        yield f"{path}={value}" if is_word or value is True else path


def choose(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return as few runs as greed finds that together show everything that all show.

    Of two runs that show as much that is new, the smaller is chosen.
    """
    missing = frozenset[str]().union(*(run.features for run in runs))
    chosen = []
    while missing:
        best = max(runs, key=lambda run: (len(run.features & missing), -run.bytes))
        chosen.append(best)
        missing -= best.features
    return chosen


def store(net: Path, trees: Sequence[Path]) -> None:
    """Copy the chosen runs below `net` with a few of their siblings, and keep what is said of
    them.
    """
    shutil.rmtree(net / "runs", ignore_errors=True)
    runs = list(finished_runs(trees))
    chosen = choose(runs)
    print(f"{len(chosen)} of {len(runs)} runs show everything")
    for number, run in enumerate(chosen):
        home, target = run.directory.parent, net / "runs" / f"{number:03}"
        earlier = sorted(
            one.parent
            for one in home.glob("*/summary.json")
            if one.parent.name < run.directory.name
        )
        for directory in (*earlier[-SIBLINGS_MAX:], run.directory):
            shutil.copytree(directory, target / directory.name)
        for name in ("mutes.jsonl", "latest.json"):
            if (home / name).is_file():
                shutil.copy(home / name, target / name)
    _write(net / "said", outputs_of_runs(net))


def outputs_of_runs(net: Path) -> Files:
    """Return what each command says of the stored runs today."""
    said: dict[str, str] = {}
    for output in sorted((net / "runs").iterdir()):
        runs = sorted(one.parent for one in output.glob("*/summary.json"))
        for name, text in _outputs_of_run(runs[-1], runs[:-1]):
            said[f"{output.name}/{name}"] = text.replace(str(net), "NET")
    return said


def _outputs_of_run(run: Path, earlier: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield the outputs of each command on one run, by name."""
    yield "verdicts.jsonl", _verdicts(run)
    for form in ("text", "json"):
        for command in ("replay", "report", "margin"):
            more = ["--full"] if command != "margin" else ["--evidence-age-max", "876000h"]
            yield f"{command}.{form}", _said(command, str(run), "--format", form, *more)
        for name in _explained(run):
            place = f"explain-{name.replace('/', '_').replace(':', '_')}.{form}"
            yield place, _said("explain", name, str(run), "--format", form)
        for before in earlier[-1:]:
            yield f"diff.{form}", _said("diff", str(before), str(run), "--format", form)
    yield "report-brief.text", _said("report", str(run))
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "report.html"
        _said("report", str(run), "--html", str(page))
        yield "report.html", page.read_text() if page.is_file() else "no page\n"


def _explained(run: Path) -> Sequence[str]:
    """Return the first finding of each kind, and the first ledger of each reason."""
    findings = [json.loads(line) for line in (run / "findings.jsonl").read_text().splitlines()]
    chosen = {finding["kind"]: finding["id"] for finding in reversed(findings)}
    verdicts = run / "verdicts"
    if verdicts.exists():
        rows = pq.read_table(verdicts, columns=["ledger_id", "exempt", "unknowns"]).to_pylist()
        for row in sorted(rows, key=lambda row: -row["ledger_id"]):
            for reason in (row["exempt"], *(row["unknowns"] or ())):
                if reason:
                    chosen[reason] = str(row["ledger_id"])
    return list(dict.fromkeys(list(chosen.values())[-EXPLAINED_MAX:]))


def _verdicts(run: Path) -> str:
    """Return the verdicts that the stored evidence gives today, one a line."""
    from auditor.evidence.run_directory import place
    from auditor.run.replay import judge_again
    from auditor.summary.about import About

    try:
        about = About.from_json(json.loads((run / "run.json").read_text()))
        table = judge_again(place(str(run)), about)
    except Exception as error:  # a run that a test damaged is refused in the same words
        return f"{type(error).__name__}: {error}\n"
    return _lines(
        {
            name: row[name]
            for name in (
                "ledger_id",
                "standing",
                "exempt",
                "unknowns",
                "assurance",
                "looks",
                "listing_false_negatives",
            )
        }
        for row in table.to_pylist()
    )


def _said(*arguments: str) -> str:
    """Return the exit code of a command and what it prints, without its log."""
    from support.command_line import command_here

    done = command_here(*arguments, AUDITOR_QUIET="true")
    printed = f"{done.stdout}{_without_log(done.stderr)}"
    flowing = " ".join(printed.split())
    if AGE.search(flowing):  # lines wrap elsewhere when the age has other digits
        printed = AGE.sub("AGE", flowing).replace(". ", ".\n") + "\n"
    return f"exit {done.returncode}\n{printed}"


AGE = re.compile(r"(?<=, )[0-9.]+ [0-9a-z ]+(?= old\b)|(?<=\"age_s\": )[0-9.]+")
"""How long ago a stored run started: the only thing that a later day changes."""


def _without_log(text: str) -> str:
    return "".join(line for line in text.splitlines(True) if line.startswith("auditor: "))


def live_outputs(with_spark: bool) -> Files:
    """Audit a new cluster of the demo's stories with each executor, its ledgers one by one and its
    topics; return what was written and printed as JSON, without times, ports and ids.
    """
    from support.audits import FIRST_LOOK_ON_SPARK, ON_SPARK, audit, audit_ledgers, audit_topics

    from auditor.sandbox.seeding import demo_cluster, topology_table

    engines: dict[str, Mapping[str, str]] = {"in-process": {}}
    if with_spark:
        engines |= {"first-look-on-spark": FIRST_LOOK_ON_SPARK, "on-spark": ON_SPARK}
    said: dict[str, Any] = {}
    with ExitStack() as stack:
        workdir = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(patch("auditor.context.probe_seed", lambda _: PROBE_SEED))
        cluster, _ = stack.enter_context(demo_cluster(workdir))
        table = workdir / "topology.txt"
        table.write_text(topology_table())
        terms = {"topology": f"file:{table}", "placement_policy": "rack", "rpc_timeout": "3s"}
        if with_spark:
            from auditor.spark.session import spark_session
            from auditor.stop import StopRequest

            stack.enter_context(spark_session(2, "local[2]", StopRequest()))
        for engine, settings in engines.items():
            done = audit(cluster, workdir / engine, **{**terms, **settings})
            verdicts = {key: vars(one) for key, one in sorted(done.verdicts.items())}
            said |= {
                f"{engine}/verdicts.json": verdicts,
                f"{engine}/findings.json": done.findings,
                f"{engine}/summary.json": [done.exit_code, done.summary],
            }
        ledgers = audit_ledgers(cluster, sorted(done.verdicts), **terms)
        said["ledgers.json"] = [ledgers.exit_code, json.loads(ledgers.stdout)]
        names = re.findall(r"persistent://[A-Za-z0-9/_-]+", json.dumps(done.findings))
        topics = audit_topics(cluster, *sorted(set(names)), **terms)
        said["topics.json"] = [topics.exit_code, json.loads(topics.stdout)]
        return {name: normalised(value, workdir) for name, value in said.items()}


PROBE_SEED = 1
"""Chooses the entries that are read as samples: the same ones in each audit."""


def _lines(rows: Iterable[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


UNSTEADY = ("requests", "paces", "duration_s")
"""Fields that the load of the machine changes."""
CHANGING: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
        (r"\d{8}T\d{6}Z-[0-9a-f]{6}", "RUN"),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00| UTC)?", "TIME"),
        (r"\b\d\d:\d\d:\d\d\b", "CLOCK"),
        (r"127\.0\.0\.1(', |:)\d+", "ADDRESS"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "INSTANCE"),
        (r'("\w*(?:_ms|_s|seed|bytes)": )-?[0-9.]+', r"\1N"),
        (r'("id": )"[0-9a-f]{16}"', r"\1ID"),
        (r"\b([0-9]+ min )?[0-9.,]+ (ms|s)\b|\b[0-9]+ min\b", "SPAN"),
    )
)
"""What differs from one audit of the same cluster to the next."""


def normalised(value: object, workdir: Path) -> str:
    """Return an output as JSON text, without what differs from one audit to the next."""
    text = json.dumps(_without_unsteady(value), indent=1, default=str)
    text = text.replace(str(workdir), "WORK")
    for pattern, word in CHANGING:
        text = pattern.sub(word, text)
    return text + "\n"


def _without_unsteady(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_unsteady(one) for key, one in value.items() if key not in UNSTEADY}
    return [_without_unsteady(one) for one in value] if isinstance(value, list) else value


def differences(before: Path, today: Files) -> list[str]:
    """Return what differs from the stored outputs, as lines of a unified diff for each output."""
    stored = {
        path.relative_to(before).as_posix(): path.read_text()
        for path in before.rglob("*")
        if path.is_file()
    }
    found = []
    for name in sorted(stored.keys() | today.keys()):
        if stored.get(name) != today.get(name):
            lines = difflib.unified_diff(
                _short(stored.get(name, "")),
                _short(today.get(name, "")),
                name,
                name,
                n=0,
                lineterm="",
            )
            shown = list(lines)
            found.append("\n".join(shown[:DIFFERENCE_LINES_MAX]))
            if len(shown) > DIFFERENCE_LINES_MAX:
                found[-1] += f"\n… {len(shown) - DIFFERENCE_LINES_MAX} more lines"
    return found


def _short(text: str) -> list[str]:
    return [line[:2_000] for line in text.splitlines()]


def _write(home: Path, said: Files) -> None:
    shutil.rmtree(home, ignore_errors=True)
    for name, text in said.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _compare(home: Path, said: Files, *, accept: bool) -> int:
    """Print what differs, and return 1 if something does, unless today's outputs are accepted."""
    found = differences(home, said) if home.exists() else []
    print(*found, sep="\n")
    if accept or not home.exists():
        _write(home, said)
        print(f"{len(said)} outputs kept in {home}")
        return 0
    print(f"{len(found)} of {len(said)} outputs differ")
    return 1 if found else 0


def main() -> int:
    """Store, check or audit as the command line says, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=("store", "check", "live"))
    parser.add_argument("net", type=Path, help="the directory of the stored runs")
    parser.add_argument("trees", type=Path, nargs="*", help="store: where finished runs are")
    parser.add_argument("--spark", action="store_true", help="live: audit with Spark too")
    parser.add_argument("--accept", action="store_true", help="keep what is said today")
    arguments = parser.parse_args()
    net, began = arguments.net.absolute(), time.monotonic()
    code = 0
    if arguments.what == "store":
        store(net, arguments.trees)
    elif arguments.what == "check":
        code = _compare(net / "said", outputs_of_runs(net), accept=arguments.accept)
    else:
        home = net / ("live-spark" if arguments.spark else "live")
        code = _compare(home, live_outputs(arguments.spark), accept=arguments.accept)
    print(f"{time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
