"""`auditor demo`: audit an embedded cluster with each kind of finding and a sound twin."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from shlex import quote
from textwrap import wrap

from auditor.after.finished_run import open_finished_run, read_all_findings
from auditor.clock import utc_now
from auditor.commands.endings import UNREACHABLE, end_without_verdict
from auditor.commands.run import run
from auditor.config import Settings
from auditor.context import EXIT_FINDINGS, EXIT_SOUND, EXIT_UNKNOWN, Context
from auditor.errors import AuditorError, SparkUnavailable
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import place
from auditor.model.evidence import Policy
from auditor.model.finding import Kind
from auditor.report.layout import duration
from auditor.sandbox.seeding import (
    NEEDS_A_LISTER,
    NEEDS_A_POLICY,
    Story,
    demo_cluster,
    pass_night,
    shown_kinds,
    topology_table,
)
from auditor.stop import Interrupted

WIDTH = 100
"""Columns of the introductions."""

POLL_S = 1.0
"""How often a cluster that is kept looks for a signal, in seconds; it is woken by one at once."""


def demo(context: Context, *, nights: int = 1, keeps: bool = False) -> int:
    """Audit a seeded cluster, clean up, and return the exit code of the last run. Raises
    Interrupted.

    Returns 5 if there is no Java, or the cluster does not start. The code is 1 under the default
    --fail-on, because the seeded ledgers have findings. With two `nights` the cluster is audited
    again after some changes. If it `keeps` the cluster, it runs until a signal comes, which is then
    the regular end.
    """
    try:
        with tempfile.TemporaryDirectory(
            prefix="auditor-demo-", ignore_cleanup_errors=True
        ) as workdir:
            return _audit_cluster(context, Path(workdir), nights, keeps=keeps)
    except (*UNREACHABLE, SparkUnavailable) as error:
        context.stop.check()  # as below
        return end_without_verdict(context, "demo", "UNREACHABLE", str(error))
    except Exception:
        # A signal to the process group also ends ZooKeeper: later failures are a consequence.
        context.stop.check()
        raise


def _audit_cluster(context: Context, workdir: Path, nights: int, *, keeps: bool) -> int:
    settings = without_credentials(context.settings)
    context.progress.stage("set up")
    with demo_cluster(workdir) as (cluster, stories):
        context.stop.check()
        table = workdir / "topology.txt"
        table.write_text(topology_table())
        uri, sources = cluster.metadata_service_uri, settings.topology or (f"file:{table}",)
        here = replace(
            context, settings=replace(settings, metadata_service_uri=uri, topology=sources)
        )
        code = _audit_once(here, _introduction(stories, settings))
        if nights > 1 and code in (EXIT_SOUND, EXIT_FINDINGS, EXIT_UNKNOWN):
            changes = pass_night(cluster, stories)
            later = "\n".join(wrap(f"A night later: {'; '.join(changes)}.", WIDTH))
            code = _audit_once(here, f"\n{later}\n\n")
        if nights > 1:
            with suppress(AuditorError, ValueError):  # no two runs are there: nothing to try
                context.note(_to_try_on_nights(settings))
        if keeps:
            context.note(_to_try_on_cluster(uri, table))
            _await_signal(context)
    return code


def _audit_once(context: Context, introduction: str) -> int:
    """Print the introduction, audit the cluster, and return the exit code. Both fill one screen."""
    if context.settings.format == "text":
        context.say(introduction)
    return run(context, lasting=False, lines_above=introduction.count("\n"))


def _await_signal(context: Context) -> None:
    """Return when a signal comes."""
    try:
        while True:
            context.stop.wait(POLL_S)
    except Interrupted:
        context.note("The cluster has ended.")


def _to_try_on_cluster(uri: str, table: Path) -> str:
    """Return the commands to try while the cluster runs."""
    return "\n".join(
        [
            "",
            f"The cluster runs until Ctrl-C, at {uri}",
            "Try in another terminal:",
            f"  auditor init --metadata-service-uri {uri} --topology {quote(str(table))}",
            "  auditor run --config auditor.toml --second-look-delay 2s",
            "  auditor ledger 100 --config auditor.toml",
            "  auditor topic public/default/story-270 --config auditor.toml",
        ]
    )


def _to_try_on_nights(settings: Settings) -> str:
    """Return the commands to try on two stored nights. Raises AuditorError if they cannot be
    read.
    """
    earlier, later = Output(place(settings.output)).runs()[-2:]
    worst, *_ = read_all_findings(*open_finished_run(later))
    output = f"--output {quote(settings.output)}"
    until = f"{utc_now().year + 1}-01-31"
    return "\n".join(
        [
            "",
            "Two nights are stored. Try:",
            f"  auditor diff {quote(earlier.address)} {quote(later.address)}",
            f"  auditor explain {worst.id} {output}",
            f"  auditor mute {worst.id} --until {until} --why 'a test' {output}",
            f"  auditor report --full {output}",
        ]
    )


def without_credentials(settings: Settings) -> Settings:
    """Return the settings without TLS and logins: those are for another cluster than the demo's."""
    return replace(
        settings,
        bookie_tls=False,
        bookie_sasl="none",
        zookeeper_tls=False,
        zookeeper_sasl="none",
        zookeeper_digest_file=None,
        zookeeper_digest_command=None,
        secrets_in_environment=frozenset(),
    )


def _introduction(stories: Sequence[Story], settings: Settings) -> str:
    """Return what was seeded, and how the demo differs from a real run; with --full in a table,
    else in three lines, the last one empty.
    """
    shown = shown_kinds(Policy(settings.placement_policy))
    delay = duration(settings.second_look_delay_ms / 1000)
    if not settings.full:
        return (
            f"An embedded cluster with {len(shown)} of the {len(Kind)} kinds of findings, each"
            " beside a sound twin.\n"
            f"Suspects are looked at again after {delay}, not 5 minutes. --full shows everything."
            "\n\n"
        )
    lines = [
        (
            "An embedded cluster was started: a real ZooKeeper, and bookies that speak the real"
            " protocol. It holds one case of"
        ),
        f"{len(shown)} kinds of findings, each beside a twin that differs in one fact:",
        "",
        *(
            f"  {story.kind.value:<30} {story.ledger_or_bookie!s:>6}  twin {story.twin!s:>6}  "
            f" {story.fact}"
            for story in stories
            if story.kind in shown
        ),
        "",
        f"{len(Kind) - len(shown)} kinds are not shown:",
        *(f"  {kind.value:<30} {_why_hidden(kind)}" for kind in Kind if kind not in shown),
        "",
        (
            f"Suspects are looked at again after {delay}; a real run waits 5 minutes"
            " (--second-look-delay). A bookie has"
        ),
        (
            f"{duration(settings.rpc_timeout_ms / 1000)} to answer, for one of them cannot list"
            " (--rpc-timeout). Ensembles are held to the policy"
        ),
        f"{settings.placement_policy} (--placement-policy).",
        "",
        "",
    ]
    return "\n".join(lines)


def _why_hidden(kind: Kind) -> str:
    """Return what a run of the demo lacks to show this kind."""
    if kind in NEEDS_A_POLICY:
        policy = min(NEEDS_A_POLICY[kind])
        return f"shown by: auditor demo --placement-policy {policy}"
    if kind in NEEDS_A_LISTER:
        return "needs a lister beside a real bookie"
    return "needs an earlier run with more ledgers"
