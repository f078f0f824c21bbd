"""`auditor init` looks at a cluster, and writes the settings of the first hour to a file."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from shlex import quote
from textwrap import wrap

from auditor.bookie.lane import LaneGate
from auditor.bookie.listers import open_lane
from auditor.bookie.questions import ListQuestion
from auditor.clock import now_ms
from auditor.commands.doctor import find_questions
from auditor.commands.endings import UNREACHABLE, end_without_verdict
from auditor.config import Layers, Settings, parse, shown_values
from auditor.context import EXIT_SOUND, Context
from auditor.errors import ConfigError
from auditor.evidence.local_files import restrict_new_files
from auditor.model.availability import VALID_ANSWERS, AnswerStatus, Greeting
from auditor.model.cluster import BookieRecord, ClusterFacts
from auditor.model.identity import BookieId
from auditor.report.layout import name_some, of, printable
from auditor.run.reference_looks import pulsar_of_run
from auditor.topology.locating import Topology, locate
from auditor.topology.sources import ZOOKEEPER, sources_of
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import MetadataStore, open_store

FILE = "auditor.toml"
"""The file that is written by default."""

BOOKIES_ASKED_MAX = 50
"""At most this many bookies are asked for a greeting and for a list."""

UNABLE = frozenset({AnswerStatus.UNSUPPORTED})
"""Answers of a bookie whose storage cannot list."""

SENTENCE_CHARS_MAX = 1_000
"""At most this many characters of a sentence are printed."""

WIDTH = 100
"""Columns of a comment."""

NAMED_MAX = 10
"""At most this many bookies are named in a comment."""

_FIRST_HOUR = (
    "metadata_service_uri",
    "output",
    "cluster",
    "metrics_textfile",
    "pushgateway",
    "placement_policy",
    "topology",
    "maintenance",
)
"""The settings that the file explains. All others are written only if they were given."""
_OF_ONE_CALL = frozenset(
    {"format", "full", "quiet", "verbose", "dry_run", "resume", "ledgers_from", "accept_population"}
)
"""Settings that belong to this call, and not to the runs that the file is for."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What was seen of a cluster. `listing` and `unable` are bookies that list a ledger, or cannot
    list any; of the others no closed ledger was found, or they gave no answer. `silent` has why a
    bookie did not greet. `pulsar` is a sentence, "" without topics.
    """

    facts: ClusterFacts
    bookies: Sequence[BookieRecord]
    listing: tuple[BookieId, ...]
    unable: tuple[BookieId, ...]
    silent: Mapping[BookieId, str]
    topology: Topology
    pulsar: str

    def sentences(self) -> Iterator[str]:
        """Yield what was seen, as printable sentences."""
        facts = self.facts
        yield (
            f"ZooKeeper {', '.join(facts.hosts)}, root {facts.root}, layout {facts.layout},"
            f" instance id {facts.instance_id or 'none'}"
        )
        registered = sum(bookie.is_registered for bookie in self.bookies)
        asked = f"of the first {BOOKIES_ASKED_MAX} " if registered > BOOKIES_ASKED_MAX else ""
        silent = f": {asked}no answer from {_named(sorted(self.silent))}" if self.silent else ""
        yield f"{of(registered, 'bookie')} registered{silent}"
        if self.unable:
            yield (
                f"cannot list (DbLedgerStorage, which Pulsar deploys): {_named(self.unable)}. A"
                " sample of the entries there is read, or use listers (docs/auditing-pulsar.md)"
            )
        if self.listing:
            yield f"list their entries: {_named(self.listing)}"
        if unknown := self._not_known():
            yield f"not known whether they list their entries: {_named(unknown)}"
        yield self.pulsar or "no Pulsar topics beside the ledgers"
        placed = [located for located in self.topology.located if located.location is not None]
        if placed:
            first = placed[0]
            yield (
                f"{len(placed)} of {of(len(self.topology.located), 'bookie')} have a location, such"
                f" as {first.bookie_id} in {first.location} ({first.source})"
            )
        else:
            yield "no locations of bookies: placement cannot be judged yet (docs/topology.md)"

    def _not_known(self) -> list[BookieId]:
        """Return the registered bookies that greeted, or were not asked, and did not show whether
        they list.
        """
        known = {*self.listing, *self.unable, *self.silent}
        return sorted(
            bookie.bookie_id
            for bookie in self.bookies
            if bookie.is_registered and bookie.bookie_id not in known
        )


def init(context: Context, file_name: str | None) -> int:
    """Look at the cluster, write the file, print what was seen, and return the exit code.

    Nothing is written to the cluster. Returns 5 if the cluster cannot be looked at. Raises
    ConfigError, before anything is contacted, if the file exists.
    """
    settings, path = context.settings, Path(file_name or FILE)
    if path.exists() or path.is_symlink():
        raise ConfigError(f"{path} exists already, and is not overwritten: name another file")
    uri = parse_uri(settings.metadata_service_uri or "")
    try:
        with open_store(uri, settings.zookeeper_limits(1)) as store:
            view = _look(context, store)
    except UNREACHABLE as error:
        return end_without_verdict(context, "init", "UNREACHABLE", str(error))
    context.stop.check()
    text = file_text(settings, view)
    parse(Layers(file=tomllib.loads(text), file_name=str(path)), command="run")
    _write(path, text, settings)
    _report(context, path, view)
    return EXIT_SOUND


def file_text(settings: Settings, view: ClusterView) -> str:
    """Return the file: the settings of the first hour with what was seen, then others that were
    given. A setting that nobody gave and nothing suggests is a comment.
    """
    given = _given(settings)
    lines = [
        "# Settings of the auditor, written by `auditor init`. docs/configuration.md has all, with",
        "# their reasons. No secret belongs here.",
        *_comment(view.sentences()),
        "",
        *_setting("metadata_service_uri", given["metadata_service_uri"]),
        "",
        "# Each run gets a directory in here. It holds a month of them (keep_runs).",
        *_setting("output", str(Path(settings.output).absolute()), is_uri="://" in settings.output),
        "",
        "# The label `cluster` of every metric. Without it: the instance id.",
        *_setting("cluster", given.get("cluster"), "prod"),
        "",
        "# Where an alert comes from: a file for node_exporter's textfile collector, or a",
        "# Pushgateway. The rules are in deploy/prometheus/rules.yml.",
        *_setting(
            "metrics_textfile",
            given.get("metrics_textfile"),
            "/var/lib/node_exporter/textfile/bookkeeper_auditor.prom",
        ),
        *_setting("pushgateway", given.get("pushgateway"), "http://pushgateway:9091"),
        "",
        "# The placement policy of the clients (ensemblePlacementPolicy): rack, region or zone. It",
        "# is not in the cluster's metadata. With `none`, placement is not judged.",
        *_setting("placement_policy", given.get("placement_policy"), "rack"),
        *_topology_setting(settings, view),
        "",
        "# Bookies known to be down: they are reported and never alert.",
        *_comment([f"No answer now: {_named(sorted(view.silent))}"] if view.silent else ()),
        *_setting("maintenance", given.get("maintenance"), "bookie-3:3181,/rack-1"),
    ]
    others = [key for key in given if key not in _FIRST_HOUR]
    if others:
        lines += ["", "# What else was given."]
        lines += [line for key in others for line in _setting(key, given[key])]
    return "\n".join(lines) + "\n"


def _given(settings: Settings) -> dict[str, str]:
    """Return the settings that differ from the defaults of a run, as a user would write them."""
    defaults = shown_values(parse())
    return {
        key: value
        for key, value in shown_values(settings).items()
        if value != defaults[key] and key not in _OF_ONE_CALL
    }


def _topology_setting(settings: Settings, view: ClusterView) -> list[str]:
    if settings.topology is not None:
        return _setting("topology", ",".join(map(_absolute, settings.topology)))
    if any(located.location is not None for located in view.topology.located):
        return _setting("topology", ZOOKEEPER)
    return _setting("topology", None, "/etc/bookkeeper-auditor/topology.txt")


def _absolute(source: str) -> str:
    """Return a source of locations that means the same in any directory."""
    kind, colon, rest = source.partition(":")
    is_said = bool(colon) and kind in ("file", "script")
    path = Path(rest if is_said else source).expanduser().absolute()
    return source if source == ZOOKEEPER else f"{kind}:{path}" if is_said else str(path)


def _setting(key: str, value: str | None, example: str = "", *, is_uri: bool = False) -> list[str]:
    """Return the line of a setting; a comment with an example if it has no value.

    A value with a masked password is not written: it belongs into the environment.
    """
    if value is None:
        return [f"# {key} = {_toml(example)}"]
    if "***" in value:
        return [f"# {key}: it has a password, which belongs into AUDITOR_{key.upper()}"]
    return [f"{key} = {_toml(value)}"]


def _toml(value: str) -> str:
    """Return a text as a string of TOML: JSON's escapes are among TOML's."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(sentences: Iterable[str]) -> list[str]:
    shown = (printable(sentence, SENTENCE_CHARS_MAX) for sentence in sentences)
    return [line for sentence in shown for line in _wrapped(sentence)]


def _wrapped(sentence: str) -> list[str]:
    """Return the lines of a comment. A word that is longer than a line stays whole."""
    return wrap(
        sentence, WIDTH, initial_indent="# ", subsequent_indent="#   ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _named(bookies: Sequence[BookieId]) -> str:
    return name_some(bookies, shown_max=NAMED_MAX)


def _write(path: Path, text: str, settings: Settings) -> None:
    try:
        with restrict_new_files(settings.output_umask), path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} exists already, and is not overwritten") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from None


def _report(context: Context, path: Path, view: ClusterView) -> None:
    sentences = [printable(sentence, SENTENCE_CHARS_MAX) for sentence in view.sentences()]
    if context.settings.format == "json":
        context.say(json.dumps({"file": str(path), "found": sentences}) + "\n")
        return
    config = f"--config {quote(str(path))}"
    lines = [
        *sentences,
        "",
        f"Written to {path}. Next:",
        f"  auditor doctor {config}",
        f"  auditor run {config} --dry-run",
        f"  auditor run {config}",
    ]
    context.say("\n".join(lines) + "\n")


def _look(context: Context, store: MetadataStore) -> ClusterView:
    """Return what ZooKeeper and the bookies say. Costs some znodes, and two requests a bookie."""
    settings, facts = context.settings, store.cluster_facts()
    bookies = store.bookies(1, now_ms)
    named = settings if settings.topology else replace(settings, topology=(ZOOKEEPER,))
    topology = locate(sources_of(named), bookies, store.root, store.raw)
    pulsar, where = pulsar_of_run(context, store), ""
    if pulsar is not None:
        where = pulsar.problem
        if pulsar.store is not None:
            with pulsar.store as topics:
                where = f"Pulsar's topics are read below {topics.prefix or '/'}"
    asked = {
        bookie.bookie_id: (bookie.host, bookie.port)
        for bookie in bookies
        if bookie.is_registered and bookie.host and bookie.port
    }
    asked = dict(islice(asked.items(), BOOKIES_ASKED_MAX))
    listing, unable, silent = asyncio.run(_ask_all(context, asked, find_questions(store, asked)))
    return ClusterView(facts, bookies, listing, unable, silent, topology, where)


async def _ask_all(
    context: Context,
    bookies: Mapping[BookieId, tuple[str, int]],
    questions: Mapping[BookieId, Sequence[ListQuestion]],
) -> tuple[tuple[BookieId, ...], tuple[BookieId, ...], dict[BookieId, str]]:
    """Return the bookies that list, those that cannot, and why others do not greet."""
    gate = LaneGate(len(bookies), has_listers=False)
    asked = (
        _ask(context, bookie, address, questions[bookie][:1], gate)
        for bookie, address in bookies.items()
    )
    answers = dict(zip(bookies, await asyncio.gather(*asked), strict=True))
    lists = {bookie for bookie, (_, status) in answers.items() if status in VALID_ANSWERS}
    unable = {bookie for bookie, (_, status) in answers.items() if status in UNABLE}
    return (
        tuple(sorted(lists)),
        tuple(sorted(unable)),
        {bookie: why for bookie, (why, _) in answers.items() if why},
    )


async def _ask(
    context: Context,
    bookie: BookieId,
    address: tuple[str, int],
    questions: Sequence[ListQuestion],
    gate: LaneGate,
) -> tuple[str, AnswerStatus | None]:
    """Return why the bookie does not greet, "" if it does, and how it answers a list request."""
    lane = open_lane(bookie, address, context.settings.bookie_limits(), 1, now_ms, None)
    async with gate.hold(lane):
        try:
            greeting, detail = await lane.greet()
            if greeting is not Greeting.ANSWERED:
                return detail or greeting.value, None
            answers = await lane.lists(questions) if questions else []
            return "", answers[0].status if answers else None
        finally:
            await lane.close()
