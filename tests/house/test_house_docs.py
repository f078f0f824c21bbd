"""The documents say what the program does: links, names, commands, figures, and nothing that is not
there.
"""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.commands_of_findings import OWNERS, commands_of
from support.findings_by_kind import finding_of

from auditor import context
from auditor.cli import cli
from auditor.config import CONFIG_FILE, SETTINGS, Layers, parse
from auditor.config.secured_settings import SECRET_VARIABLES
from auditor.evidence.schemas import VERDICTS
from auditor.evidence.table_scan import scan_rows
from auditor.model.cluster import ClusterFacts
from auditor.model.evidence import Look, Terms
from auditor.model.finding import CATALOGUE, Family, Kind, Subject
from auditor.model.finding_record import FIELDS, HISTORY_FIELDS
from auditor.model.ledger import LedgerRecord, RecordStatus
from auditor.model.summary import BlockedOpen, BookieSpace, MuteCounts, RackSpace, Space, Summary
from auditor.model.verdict import Exempt, Standing, Unknown
from auditor.report.outcome_text import OUTCOMES
from auditor.sandbox import seeding
from auditor.summary.about import About
from auditor.summary.costs import Costs
from auditor.summary.previous_run import NO_PREVIOUS
from auditor.summary.run_summary import RunFacts, summarise
from auditor.telemetry import metrics
from auditor.witness import next_commands
from auditor.witness.finding_lines import ledger_testimony, runbook

PROJECT = Path(__file__).resolve().parents[2]
DOCS = sorted(
    path
    for path in (
        *PROJECT.glob("*.md"),
        *(
            p
            for d in ("docs", "deploy", "proto", "benchmarks")
            for p in (PROJECT / d).rglob("*.md")
        ),
    )
    if "node_modules" not in path.parts
)
NAMES = PROJECT / "docs" / "names.md"
DECISIONS = PROJECT / "docs" / "decisions"
LINE_CHARS_MAX = 128
"""Maximum width of prose; tables and code may be wider, and so may the page that is generated from
the settings.
"""
MADE = {"docs/configuration.md"}
README_LINES_MAX = 120

FLAGS = (
    {s.flag for s in (*SETTINGS, CONFIG_FILE)}
    | {s.off_flag for s in SETTINGS if s.off_flag}
    | {"--help", "--version"}
)
FLAGS |= {
    flag
    for command in cli.commands.values()
    for one in command.params
    for flag in one.opts
    if flag.startswith("--")
}
FOREIGN_FLAGS = {
    "--master",
    "--py-files",
    "--conf",
    "--deploy-mode",
    "--archives",
    "--files",
    "--name",
    "--num-executors",
}
"""Flags of spark-submit."""
KIND_NAME = re.compile(
    r"\b(?:ENTRY|PLACEMENT|ENSEMBLE|UNDERREPLICATED|BOOKIE|METADATA|LEDGER)_[A-Z]+(?:_[A-Z]+)*\b"
)
WALKED_KIND = "METADATA_FORMAT_OLD"
"""The kind that CONTRIBUTING.md adds as an example."""


def name(path: Path) -> str:
    return str(path.relative_to(PROJECT))


class Line(NamedTuple):
    """A line of a document: `fence` is the language of its code block, None outside of any."""

    number: int
    text: str
    fence: str | None


def lines(path: Path) -> Iterator[Line]:
    fence: str | None = None
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if text.lstrip().startswith("```"):
            fence = None if fence is not None else text.strip().removeprefix("```")
        else:
            yield Line(number, text, fence)


def prose(path: Path) -> str:
    """Return the document without its code blocks."""
    return "\n".join(line.text for line in lines(path) if line.fence is None)


def spans(path: Path) -> list[str]:
    """Return what is in backticks outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", prose(path))


def anchors(path: Path) -> set[str]:
    """Return the fragments of headings in rendered Markdown."""
    found = set()
    for line in lines(path):
        if line.fence is None and line.text.startswith("#"):
            words = re.sub(r"[^\w\- ]", "", line.text.lstrip("#").strip().lower())
            found.add(words.replace(" ", "-"))
    return found


def table(path: Path, heading: str) -> list[dict[str, str]]:
    """Return the first table below a heading: each row by the column's name."""
    rows: list[list[str]] = []
    inside = False
    for line in lines(path):
        if line.text.startswith("#"):
            if rows:
                break
            inside = line.text.lstrip("# ").strip() == heading
        elif inside and line.text.startswith("|"):
            rows.append(
                [
                    cell.strip().replace("\\|", "|")
                    for cell in re.split(r"(?<!\\)\|", line.text)[1:-1]
                ]
            )
        elif rows:
            break
    assert len(rows) > 2, f"{name(path)} has no table under {heading!r}"
    head, _, *body = rows
    return [dict(zip(head, row, strict=True)) for row in body]


def words(cells: Iterator[str]) -> list[str]:
    """Return everything in backticks in these cells."""
    return [word for cell in cells for word in re.findall(r"`([^`]+)`", cell)]


def column(heading: str, column_name: str) -> list[str]:
    """Return the words in one column of a table of names.md."""
    return words(row[column_name] for row in table(NAMES, heading))


# Links, structure


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_links_lead_somewhere(path: Path):
    """Each relative link is a file or a folder of the project, and each fragment a heading in
    it.
    """
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        file_part, _, fragment = target.partition("#")
        linked = (path.parent / file_part).resolve() if file_part else path
        if not linked.exists() or (fragment and fragment not in anchors(linked)):
            broken.append(target)
    assert [] == broken


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_a_reader_sees_one_title_and_no_broken_block(path: Path):
    """There is one title, first; no heading level is left out; code blocks are closed and named;
    rows are as wide as their table; lines are short.
    """
    all_lines = list(lines(path))
    heads = [line for line in all_lines if line.fence is None and re.match(r"#+ ", line.text)]
    levels = [len(line.text.split(" ")[0]) for line in heads]
    assert levels and levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    fences = [text for text in path.read_text().splitlines() if text.lstrip().startswith("```")]
    assert len(fences) % 2 == 0
    width = 0
    for line in all_lines:
        if line.fence is None and line.text.startswith("|"):
            cells = len(re.split(r"(?<!\\)\|", line.text))
            assert width in (
                0,
                cells,
            ), f"{name(path)}:{line.number}: {cells - 2} cells, the table has {width - 2}"
            width = cells
        else:
            width = 0
            fits = line.fence is not None or len(line.text) <= LINE_CHARS_MAX or name(path) in MADE
            assert fits, f"{name(path)}:{line.number} has {len(line.text)} characters"


def test_every_page_is_reached_from_the_readme():
    """Each document of docs/ is linked from the README or from a page that is."""
    reached: set[Path] = set()
    open_pages = [PROJECT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        targets = re.findall(r"\]\(([^)\s#]+)", prose(page))
        open_pages += [
            (page.parent / target).resolve()
            for target in targets
            if not re.match(r"[a-z]+:", target)
        ]
    assert [] == [
        name(path) for path in DOCS if path.is_relative_to(PROJECT / "docs") and path not in reached
    ]


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_named_files_and_tests_exist(path: Path):
    """A path of the project in backticks exists; so does a test or function that is named after
    it.
    """
    places = ("auditor/", "tests/", "docs/", "deploy/", "benchmarks/", "proto/", ".ci/")
    missing = [
        span for span in spans(path) if span.startswith(places) and not re.search(r"[\s<*{]", span)
    ]
    assert [] == [
        span
        for span in missing
        if not (PROJECT / span).exists() and not (path.parent / span).exists()
    ]
    tests = "\n".join(test.read_text() for test in (PROJECT / "tests").rglob("*.py"))
    assert [] == [
        span
        for span in spans(path)
        if re.fullmatch(r"test_\w+", span) and f"def {span}(" not in tests
    ]


# Names used in any document are names of the program


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_flags_and_variables_are_settings(path: Path):
    """A flag in backticks, alone or after `auditor`, is one of the program; a variable AUDITOR_...
    sets something.
    """
    ours = [span for span in spans(path) if span.startswith(("-", "auditor "))]
    flags = {word for span in ours for word in re.findall(r"(?<![\w-])--[a-z][a-z-]+", span)}
    assert set() == flags - FLAGS - FOREIGN_FLAGS
    variables = set(re.findall(r"\bAUDITOR_[A-Z_]+\b", path.read_text())) - set(OUTCOMES)
    assert set() == variables - {
        s.variable for s in (*SETTINGS, CONFIG_FILE)
    } - SECRET_VARIABLES - {"AUDITOR_"}


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_kinds_and_metrics_are_real(path: Path):
    """Every named kind is in the catalogue; every metric is published."""
    text = path.read_text()
    foreign = {
        "BOOKIE_GET_LIST_OF_ENTRIES_OF_LEDGER",
        "BOOKIE_READ_ENTRY",
    }  # BookKeeper's own metrics
    known = {kind.value for kind in Kind} | foreign
    known |= {WALKED_KIND} if path.name == "CONTRIBUTING.md" else set()
    assert (
        set()
        == {word for word in KIND_NAME.findall(text) if not word.startswith("METADATA_SERVICE")}
        - known
    )
    series = {word.rstrip("_") for word in re.findall(r"\bbookkeeper_auditor_[a-z_]+", text)}
    assert set() == series - published_metrics().keys() - {"bookkeeper_auditor"}


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_reasons_are_real(path: Path):
    """INDETERMINATE(reason) and EXEMPT(reason) name a reason of that standing."""
    text = path.read_text()
    unknown = re.findall(r"`?INDETERMINATE`? ?\(`?([a-z_]+)`?\)", text)
    exempt = re.findall(r"`?EXEMPT`? ?\(`?([a-z_]+)`?\)", text)
    assert set() == set(unknown) - {reason.value for reason in Unknown}
    assert set() == set(exempt) - {reason.value for reason in Exempt}


# Commands in code blocks


class Call(NamedTuple):
    where: str
    arguments: list[str]


def calls() -> list[Call]:
    """Return every command line of a code block that begins with `auditor`, with continued lines
    joined.
    """
    found = []
    for path in DOCS:
        pending = ""
        for line in lines(path):
            text = pending + line.text.strip()
            pending = ""
            if line.fence is not None and text.endswith("\\"):
                pending = text[:-1] + " "
                continue
            text = re.sub(r"^(\S*bin/)(?=auditor )", "", text)
            if line.fence in ("sh", "bash", "console") and text.startswith("auditor "):
                found.append(
                    Call(f"{name(path)}:{line.number}", shlex.split(text, comments=True)[1:])
                )
    return found


def test_some_commands_are_shown():
    """Otherwise the next test would hold for no commands."""
    assert {"run", "ledger", "doctor", "replay", "report"} <= {
        call.arguments[0] for call in calls()
    }


@pytest.mark.parametrize("call", calls(), ids=lambda call: f"{call.where} {call.arguments[0]}")
def test_commands_can_be_typed(call: Call):
    """click knows the command, its flags and its arguments, and the settings are within their
    ranges. With --config the file may have what a command requires.
    """
    command = cli.commands[call.arguments[0]]
    with command.make_context(call.arguments[0], list(call.arguments[1:])) as made:
        flags = {
            key: value for key, value in made.params.items() if key in {s.key for s in SETTINGS}
        }
        has_file = made.params.get(CONFIG_FILE.key) is not None
    needs_nothing = has_file or call.arguments[0] == "doctor"
    parse(Layers(flags), command="config" if needs_nothing else call.arguments[0])


def flags_of(command: click.Command) -> set[str]:
    """Return every spelling of every flag of a command."""
    own = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
    return own | {"--help"}


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_commands_in_a_sentence_take_their_flags(path: Path):
    """`auditor COMMAND --flag` in backticks is a command of the program, and a flag of it."""
    for span in spans(path):
        words = span.split()
        if words[0] != "auditor" or len(words) < 2 or not words[1].islower():
            continue
        if words[1].startswith("--"):
            continue
        assert words[1] in cli.commands, span
        flags = {word for word in words[2:] if re.match(r"--[a-z]", word)}
        assert set() == flags - flags_of(cli.commands[words[1]]), span


def test_an_unknown_flag_is_noticed():
    """The test above can fail."""
    with pytest.raises(click.NoSuchOption):
        cli.commands["run"].make_context("run", ["--second-look-delays", "5m"])


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_shown_settings_files_are_read(path: Path):
    """A TOML block of the documents is accepted as a configuration file."""
    text = path.read_text()
    for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
        parse(Layers(file=tomllib.loads(block)), command="run")


def calls_in(block: str) -> tuple[set[str], set[str]]:
    """Return the functions that an example calls by their bare names, and those it defines."""
    try:
        tree = ast.parse(textwrap.dedent(block))
    except SyntaxError:  # the last lines of a function, or a row of a table
        tree = ast.parse(f"{{{block}}}" if "return" not in block else f"def _():\n{block}")
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return called, {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)}


def test_examples_call_what_their_modules_have():
    """A function that an example of CONTRIBUTING.md calls is in a module that its step links to."""
    steps = re.split(r"^(?:## |\*\*\d+\.)", (PROJECT / "CONTRIBUTING.md").read_text(), flags=re.M)
    made: set[str] = set()
    called: dict[str, set[str]] = {}
    for step in steps:
        modules = re.findall(r"\]\((auditor/[\w/]+)\.py\)", step)
        here = {name for m in modules for name in vars(import_module(m.replace("/", ".")))}
        for block in re.findall(r"```python\n(.*?)```", step, re.DOTALL):
            calls, defined = calls_in(block)
            made |= defined
            called[block] = calls - here
    assert len(called) >= 5
    assert set() == {name for calls in called.values() for name in calls} - made


def test_make_targets_exist():
    """Every `make TARGET` of the documents is one of the Makefile."""
    makefile = (PROJECT / "Makefile").read_text()
    named = {
        target
        for path in DOCS
        for target in re.findall(r"\bmake ([a-z]+)\b(?=`|\n)", path.read_text())
    }
    assert {"demo", "test", "setup", "check"} <= named
    assert set() == {
        target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)
    }


def test_the_readme_is_read_in_a_minute():
    """It has fewer than README_LINES_MAX lines. Longer text has a page in docs/."""
    assert len((PROJECT / "README.md").read_text().splitlines()) < README_LINES_MAX


def test_the_readme_names_the_test_command():
    """`make test` is it."""
    assert re.search(
        r"```sh\nmake test\n```\n\nis the test command", (PROJECT / "README.md").read_text()
    )


# names.md and the code, both ways


def published_metrics() -> dict[str, tuple[str, set[str]]]:
    """Return name, type and labels (without `cluster`) of every series of a finished run."""
    found = {}
    for family in text_string_to_metric_families(
        metrics.exposition(empty_summary(), cluster="c", spark_version="4")
    ):
        for sample in family.samples:
            found[sample.name] = (family.type, set(sample.labels) - {"cluster"})
    return found


def empty_summary() -> Summary:
    """Return the summary of a run over no ledger."""
    facts = ClusterFacts(
        "zk://h/ledgers", ("h:2181",), "/ledgers", "hierarchical", "id", False, None
    )
    moment = "2026-01-01T00:00:00.000Z"
    flags = {"nobody_answered": False, "not_there": 0, "withheld": ()}
    terms = Terms(judged_at_ms=0, underreplication_grace_ms=0, confirming_reads_max=16, looks_max=5)
    about = About("r", moment, facts, terms, "warning", allow_empty=True)
    run = RunFacts(about, moment, {}, **flags)
    nothing, no_costs = scan_rows(VERDICTS.empty_table()), Costs(0, 0, 0, 0, 0, 0, 0, 0)
    counted = summarise(run, nothing, [], no_costs, [], NO_PREVIOUS, 0.0)
    space = Space(fullest=(BookieSpace("b1", "/r", 2, 1),), racks=(RackSpace("/r", 1, 2, 1),))
    later = replace(counted, open_recovery_blocked=BlockedOpen(0), mutes=MuteCounts(), space=space)
    return later.with_also("changes", "mutes", "stored")


def test_commands_of_names():
    """The commands are those of the command line."""
    assert list(cli.commands) == column("Commands", "command")


def test_exit_codes_of_names():
    """The codes are those of the program, and the page for beginners has the same."""
    codes = [int(row["code"]) for row in table(NAMES, "Exit codes")]
    signals = [context.SIGNAL_EXIT_BASE + number for number in (2, 15)]
    numbers = (context.EXIT_SOUND, context.EXIT_FINDINGS, context.EXIT_USAGE, context.EXIT_UNKNOWN)
    assert [*numbers, context.EXIT_FAULT, context.EXIT_UNREACHABLE, *signals] == codes
    documented = [
        row["code"] for row in table(PROJECT / "docs" / "getting-started.md", "Exit codes")
    ]
    assert [*map(str, codes[:6]), "130, 143"] == documented


def test_words_of_names():
    """Outcomes, standings and reasons, in the order of the code."""
    assert list(OUTCOMES) == column("Outcome words", "word")
    assert [standing.word for standing in Standing] == column("Standings", "standing")
    assert [reason.value for reason in Exempt] == column("Reasons to exempt", "reason")
    assert [reason.value for reason in Unknown] == column("Reasons to be unknown", "reason")


def test_soundness_explains_every_reason():
    """docs/soundness.md has a row for each reason, in the same order."""
    page = PROJECT / "docs" / "soundness.md"
    assert [r.value for r in Exempt] == words(
        row["reason"] for row in table(page, "Reasons to exempt")
    )
    explained = words(row["reason"] for row in table(page, "Reasons to be unknown"))
    assert sorted(r.value for r in Unknown) == sorted(explained)


def test_kinds_of_names():
    """The catalogue, word for word."""
    documented = [
        tuple(row[c].strip("`") for c in ("kind", "severity", "family", "on", "says"))
        for row in table(NAMES, "Kinds")
    ]
    code = [
        (k.value, f.severity.word, f.family.value, f.subject.value, f.says)
        for k, f in CATALOGUE.items()
    ]
    assert code == documented
    assert {family.value for family in Family} == {row[2] for row in documented}


@pytest.mark.parametrize("page", ["docs/operating.md", "CHANGELOG.md"])
def test_every_kind_is_documented(page: str):
    """docs say what to do about each kind, and since when it is found."""
    text = (PROJECT / page).read_text()
    assert [] == [kind.value for kind in Kind if f"`{kind.value}`" not in text]


def test_every_kind_has_commands_and_a_story():
    """A kind without a row in `_NEXT` or without a story would end a run, or the demo."""
    assert set(Kind) == set(CATALOGUE)
    assert set(CATALOGUE) == set(next_commands._NEXT)
    assert (
        set(seeding.story_kinds())
        == set(seeding.STORY_WRITERS)
        == set(Kind) - seeding.TAKES_TWO_RUNS - seeding.NEEDS_A_LISTER
    )


def test_fields_of_names():
    """The fields of a finding are in the order in which they are written, and so are those of
    summary.json.
    """
    assert [*FIELDS, *HISTORY_FIELDS] == column("Fields of a finding", "field")
    assert {*empty_summary().as_json()} == set(column("summary.json", "field"))
    facts = ClusterFacts("u", (), "/l", "flat", "i", False, None)
    seen = [Look(LedgerRecord(1, 1, 0, RecordStatus.FOUND))]
    written = ledger_testimony(finding_of(Kind.METADATA_MALFORMED), seen, facts).as_json()
    assert [*FIELDS] == list(written)


@pytest.mark.parametrize(
    "field",
    [
        *(
            "cluster",
            "duration_s",
            "ledgers",
            "bookies",
            "maintenance",
            "placement",
            "assurance",
            "causes_rest",
            "requests",
        ),
        *("copies", "marks", "marks_by_age", "population", "mutes", "open_recovery_blocked"),
        "odd_lists",
    ],
)
def test_inner_fields_of_the_summary(field: str):
    """The fields that names.md gives an object of summary.json are those of the product."""
    documented = next(
        row["holds"] for row in table(NAMES, "summary.json") if row["field"] == f"`{field}`"
    )
    inner = empty_summary().as_json()[field]
    assert isinstance(inner, dict)
    flat = re.sub(r": \[[^\]]*\]", "", documented)
    assert list(inner) == re.findall(r"\w+", re.findall(r"\{([^}]*)\}", flat)[0])


def test_files_of_names():
    """Each file of a run is written somewhere in the product."""
    product = "\n".join(path.read_text() for path in (PROJECT / "auditor").rglob("*.py"))
    files = column("Files of a run", "file")
    assert {
        "summary.json",
        "findings.jsonl",
        "report.txt",
        "metrics.prom",
        "run.json",
        "verdicts",
    } <= set(files)
    assert [] == [file for file in files if f'"{file}"' not in product]


def test_metrics_of_names():
    """Names, types and labels agree, both ways; and docs/operating.md says what each metric
    means.
    """
    documented = {
        row["metric"].strip("`"): (row["type"], set(re.findall(r"`(\w+)`", row["labels"])))
        for row in table(NAMES, "Metrics")
    }
    assert published_metrics() == documented
    page = PROJECT / "docs" / "operating.md"
    assert set(documented) == set(words(row["metric"] for row in table(page, "Metrics")))


def test_alerts_are_documented():
    """docs/operating.md has every alert about the audit itself; those on kinds have the names of
    their kinds.
    """
    rules = (PROJECT / "deploy" / "prometheus" / "rules.yml").read_text()
    named = re.findall(r"^ +- alert: (\w+)$", rules, re.MULTILINE)
    of_kinds = {"BookKeeper" + kind.value.title().replace("_", "") for kind in Kind}
    documented = words(row["alert"] for row in table(PROJECT / "docs" / "operating.md", "Alerts"))
    assert [alert for alert in named if alert not in of_kinds] == documented


# The pages of the kinds

FINDINGS = PROJECT / "docs" / "findings"
PARTS = ["Meaning", "Impact", "Diagnosis", "Mitigation", "When it may be wrong", "Alert", "Demo"]
"""The sections of each page, in this order; others may be between them."""
CHANGE = "# CHANGES THE CLUSTER"
CHANGING = re.compile(
    r"bookkeeper shell (autorecovery|triggeraudit|deleteledger|decommissionbookie"
    r"|updateBookieInLedger|recover(?! -(dr|q) )|.*-restorefromfile)"
    r"|bookkeeper shell readledger .* -r$"
    r"|pulsar-admin (topics|schemas) |curl -X PUT|zkCli.sh .* (delete|deleteall|set|create) "
    r"|^(gcWaitTime|gcOverreplicatedLedgerWaitTime)="
)
"""Lines of a page that change something."""


def block(path: Path, heading: str) -> list[Line]:
    """Return the lines of a page below a heading, up to the next one of its level."""
    found: list[Line] = []
    inside = False
    for line in lines(path):
        if line.fence is None and line.text.startswith("## "):
            inside = line.text == f"## {heading}"
        elif inside:
            found.append(line)
    return found


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.value)
def test_mitigation_begins_with_what_must_not_be_done_before(kind: Kind):
    """A person at night reads the first line: what would destroy that which is left."""
    first = next(line.text for line in block(PROJECT / runbook(kind), "Mitigation") if line.text)
    assert first.startswith("**Do not** ")


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.value)
def test_a_page_whose_commands_change_something_says_what_to_save(kind: Kind):
    """It names the command that saves, or the place that has it."""
    page = "\n".join(line.text for line in lines(PROJECT / runbook(kind)))
    saves = ("-dumptofile", "#what-to-save-first", "version-2", "zkCli.sh get", "zkCli.sh -server")
    assert CHANGE not in page or any(word in page for word in saves)


def test_each_look_of_a_page_has_the_form_of_a_command_that_findings_print():
    """`tests/cluster` runs these on real servers, and compares znodes and ledgers before and after.
    All others stand behind CHANGES THE CLUSTER.
    """
    steps = [
        next_commands.sort_steps(commands_of(kind, owner, disabled))
        for kind in Kind
        for owner in OWNERS
        for disabled in (False, True)
    ]
    tried = {form_of(line) for one in steps for line in (*one.save, *one.look)}
    looks = [look for page in sorted(FINDINGS.glob("*.md")) for look in looks_of(page)]
    assert [] == [look for look in looks if form_of(look[1]) not in tried]
    assert len(looks) > len(Kind), "a page has more than one look"


def looks_of(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page that stand behind no CHANGES THE CLUSTER."""
    found, changes = [], False
    for line in lines(page):
        command = line.text.strip()
        if line.fence != "sh":
            changes = False
        elif command.startswith(CHANGE):
            changes = True
        elif command and not command.startswith("#") and not changes:
            found.append((page.name, command))
    return found


def form_of(command: str) -> str:
    """Return a command without what stands for names and numbers, and without the address of the
    cluster, which the auditor takes from its settings.
    """
    words = shlex.split(re.sub(r" --(metadata-service-uri|topology) \S+", "", command))
    kept = 2 if words[0] == "auditor" else 1 if words[0] in ("cp", "ls") else 5
    named = [
        word
        if at == 0 or word.startswith("-") or (at < kept and re.fullmatch("[a-z]+", word))
        else "*"
        for at, word in enumerate(words)
    ]
    return re.sub(r"( \*)+", " *", " ".join(named))


def test_every_kind_has_its_page_and_no_page_is_without_a_kind():
    """It is the page that a finding's field `runbook` names. The index lists all of them, in the
    catalogue's order and severity.
    """
    pages = [runbook(kind) for kind in Kind]
    assert sorted(pages) == sorted(
        name(page) for page in FINDINGS.glob("*.md") if page.name != "README.md"
    )
    rows = table(FINDINGS / "README.md", "Findings")
    linked = [re.findall(r"\[`(\w+)`\]\((\w+\.md)\)", row["kind"])[0] for row in rows]
    assert [(kind.value, Path(page).name) for kind, page in zip(Kind, pages, strict=True)] == linked
    assert [facts.severity.word for facts in CATALOGUE.values()] == [
        row["severity"] for row in rows
    ]


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.value)
def test_the_page_of_a_kind_says_what_is_needed_at_night(kind: Kind):
    """It has the kind's name and facts, every section with some text, the alert that fires, and the
    demo's ledger, or that it takes two runs.
    """
    page, facts = PROJECT / runbook(kind), CATALOGUE[kind]
    heads = [
        line.text.lstrip("# ")
        for line in lines(page)
        if line.fence is None and line.text.startswith("#")
    ]
    assert kind.value == heads[0] and PARTS == [head for head in heads if head in PARTS]
    on = {"ledger": "on a ledger", "bookie": "on a bookie", "cluster": "on the cluster"}[
        facts.subject.value
    ]
    assert f"{facts.severity.word.capitalize()}, {on}, family {facts.family.value}" in prose(page)
    assert [] == [
        part for part in PARTS if not any(line.text.strip() for line in block(page, part))
    ]
    alert = "BookKeeper" + kind.value.title().replace("_", "")
    assert f"`{alert}`, {facts.severity.word}" in "\n".join(
        line.text for line in block(page, "Alert")
    )
    assert f"- alert: {alert}\n" in (PROJECT / "deploy" / "prometheus" / "rules.yml").read_text()
    demo = "\n".join(line.text for line in block(page, "Demo"))
    if kind in seeding.TAKES_TWO_RUNS:
        assert re.search("--nights 2|two runs|as long as the period", demo)
    elif facts.subject is Subject.LEDGER:
        number = seeding.STORY_LEDGER_FIRST + 10 * seeding.story_kinds().index(kind)
        assert re.search(rf"\bledger {number}\b", demo, re.IGNORECASE)


@pytest.mark.parametrize("path", sorted(FINDINGS.glob("*.md")), ids=name)
def test_what_changes_the_cluster_is_marked_so(path: Path):
    """In every code block a line that changes something is below the mark, and no diagnosis has
    such a line.
    """
    marked, fence = False, None
    for line in lines(path):
        if line.fence is None or line.fence != fence:
            marked, fence = False, line.fence
        if line.fence is not None:
            marked = marked or line.text.strip() == CHANGE
            assert marked or not CHANGING.search(line.text.strip()), f"{name(path)}:{line.number}"
    if path.name != "README.md":
        assert CHANGE not in {line.text.strip() for line in block(path, "Diagnosis")}


def test_some_changes_are_shown():
    """Otherwise the test above would hold for pages that change nothing."""
    text = "\n".join(page.read_text() for page in FINDINGS.glob("*.md"))
    found = {
        match[0].split("-")[0].strip() for match in map(CHANGING.search, text.splitlines()) if match
    }
    assert len(found) >= 8, found


# Figures


def test_the_table_of_run_times_is_its_formula():
    """Minutes are ledgers x 3 / bookies / rate / 60, at the default rates."""
    defaults = parse()
    rows = table(PROJECT / "docs" / "operating.md", "How long a run takes")
    bookies = [head for head in rows[0] if head.endswith(" bookies")]
    assert len(bookies) >= 5
    for row in rows:
        ledgers = int(row["ledgers"].replace(",", ""))
        for head in bookies:
            minutes = ledgers * 3 / int(head.split()[0]) / defaults.bookie_requests_per_second / 60
            assert f"{minutes:.1f}" == row[head], (row["ledgers"], head)
        assert (
            f"{ledgers / defaults.zookeeper_reads_per_second / 60:.1f}" == row["reading ZooKeeper"]
        )


def test_the_defaults_of_the_costs_are_the_defaults():
    """The page on the costs of a run has the defaults of the settings."""
    by_flag = {setting.flag: setting for setting in SETTINGS}
    compared = 0
    for path_line in lines(PROJECT / "docs" / "cost.md"):
        match = re.fullmatch(r"\| [^|]+ \| (\S+) \| `(--[a-z-]+)` \|", path_line.text)
        if match:
            assert by_flag[match[2]].default == match[1], match[2]
            compared += 1
    assert 13 == compared


def test_decided_defaults_are_the_defaults():
    """Decision 0001 names settings by their keys, with their present values."""
    by_key = {setting.key: setting.default for setting in SETTINGS}
    rows = table(DECISIONS / "0001-defaults.md", "Decision")
    assert {
        row["setting"].strip("`"): row["default"].strip("`") for row in rows
    }.items() <= by_key.items()
    assert len(rows) >= 12


# Decisions, changelog


def test_decisions_have_their_three_parts():
    """Each has a number of its own and is listed on their page; each has context, decision,
    consequences. A number is missing if what it was given to was not built.
    """
    pages = sorted(DECISIONS.glob("0*.md"))
    assert len(pages) == len({page.name[:4] for page in pages})
    listed = re.findall(
        r"^\| \[(\d{4})\]\(([^)]+)\)", (DECISIONS / "README.md").read_text(), re.MULTILINE
    )
    assert [(page.name[:4], page.name) for page in pages] == listed
    for page in pages:
        heads = [line.text for line in lines(page) if line.text.startswith("#")]
        assert heads[0].startswith(f"# {page.name[:4]}: "), page.name
        assert ["## Context", "## Decision", "## Consequences"] == heads[1:], page.name


def test_the_changelog_keeps_its_form():
    """Unreleased is first, with *Verdicts* before anything else in it; only sections of the form
    occur.
    """
    heads = [line.text for line in lines(PROJECT / "CHANGELOG.md") if line.text.startswith("#")]
    assert ["# Changelog", "## [Unreleased]", "### Verdicts"] == heads[:3]
    allowed = {
        "Verdicts",
        "Names",
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
    }
    assert set() == {head[4:] for head in heads if head.startswith("### ")} - allowed


def test_the_licence_is_whole():
    """It is the text of Apache-2.0, with every section."""
    text = (PROJECT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in text and "END OF TERMS AND CONDITIONS" in text
    assert [str(number) for number in range(1, 10)] == re.findall(
        r"^   (\d)\. [A-Z]", text, re.MULTILINE
    )
