"""`auditor demo`: audit an embedded cluster with each kind of finding and a sound twin."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from auditor.commands.run import run
from auditor.config import Settings
from auditor.context import Context
from auditor.model.evidence import Policy
from auditor.report.layout import duration
from auditor.sandbox.seeding import Story, demo_cluster, shown_kinds, topology_table


def demo(context: Context) -> int:
    """Audit a seeded cluster, clean up, and return the exit code of that run. Raises Interrupted.

    The code is 1 under the default --fail-on, because the seeded ledgers have findings.
    """
    try:
        with tempfile.TemporaryDirectory(
            prefix="auditor-demo-", ignore_cleanup_errors=True
        ) as workdir:
            return _audit_cluster(context, Path(workdir))
    except Exception:
        # A signal to the process group also ends ZooKeeper: later failures are a consequence.
        context.stop.check()
        raise


def _audit_cluster(context: Context, workdir: Path) -> int:
    settings = without_credentials(context.settings)
    context.progress.stage("set up")
    with demo_cluster(workdir) as (cluster, stories):
        context.stop.check()
        introduction = (
            _introduction(stories, settings) if settings.full else _brief_introduction(settings)
        )
        if settings.format == "text":
            context.say(introduction)
        table = workdir / "topology.txt"
        table.write_text(topology_table())
        uri, sources = cluster.metadata_service_uri, settings.topology or (f"file:{table}",)
        here = replace(
            context, settings=replace(settings, metadata_service_uri=uri, topology=sources)
        )
        return run(here, lasting=False, lines_above=introduction.count("\n"))


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


def _brief_introduction(settings: Settings) -> str:
    """Return the introduction in three lines, the last one empty."""
    kinds = len(shown_kinds(Policy(settings.placement_policy)))
    delay = duration(settings.second_look_delay_ms / 1000)
    return (
        f"An embedded cluster with {kinds} kinds of findings, each beside a sound twin.\n"
        f"Suspects are looked at again after {delay}, not 5 minutes. --full shows everything.\n\n"
    )


def _introduction(stories: list[Story], settings: Settings) -> str:
    """Return the introduction: what was seeded, and how the demo differs from a real run."""
    shown = shown_kinds(Policy(settings.placement_policy))
    hidden = [story.kind.value for story in stories if story.kind not in shown]
    others = f"; another policy would show {', '.join(hidden)}" if hidden else ""
    delay, timeout = (
        duration(settings.second_look_delay_ms / 1000),
        duration(settings.rpc_timeout_ms / 1000),
    )
    lines = [
        (
            "An embedded cluster was started: a real ZooKeeper, and bookies that speak the real"
            " protocol. It holds one case of"
        ),
        "every kind of finding that one run can show, each beside a twin that differs in one fact:",
        "",
        *(
            f"  {story.kind.value:<30} {story.ledger_or_bookie!s:>6}  twin {story.twin!s:>6}  "
            f" {story.fact}"
            for story in stories
        ),
        "",
        (
            f"Suspects are looked at again after {delay}; a real run waits 5 minutes"
            " (--second-look-delay). A bookie has"
        ),
        (
            f"{timeout} to answer, for one of them cannot list (--rpc-timeout). Ensembles are held"
            " to the policy"
        ),
        (
            f"{settings.placement_policy} (--placement-policy). LEDGER_POPULATION_DROPPED takes two"
            " runs, and ENTRY_LOG_LOST a lister: they"
        ),
        f"are not shown{others}. This run shows {len(shown)} kinds.",
        "",
        "",
    ]
    return "\n".join(lines)
