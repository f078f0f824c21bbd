"""`auditor demo`: an embedded cluster with a ledger of every kind beside a sound twin, audited for real."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from auditor.commands.context import Context
from auditor.commands.run import run
from auditor.model.finding import CATALOGUE
from auditor.report.layout import span
from auditor.sandbox.seeding import Story, demo_cluster


def demo(context: Context) -> int:
    """Set up, seed, audit, report, clean up. Exit 1, as the findings it seeds demand. Raises Interrupted."""
    try:
        with tempfile.TemporaryDirectory(prefix="auditor-demo-") as workdir:
            return _audited(context, Path(workdir))
    except Exception:
        context.stop.check()  # a signal to the whole group ends ZooKeeper too: what fails after it is no failure of its own
        raise


def _audited(context: Context, workdir: Path) -> int:
    settings = context.settings
    context.progress.stage("set up")
    with demo_cluster(workdir) as (cluster, stories):
        context.stop.check()
        assert {story.kind for story in stories} == set(CATALOGUE), "the demo tells every kind of the catalogue"
        context.say(_introduction(stories, settings.second_look_delay_ms / 1000))
        return run(replace(context, settings=replace(settings, metadata_service_uri=cluster.metadata_service_uri)))


def _introduction(stories: list[Story], delay_s: float) -> str:
    """What was seeded, and what is different from a real run."""
    lines = [
        "An embedded cluster was started: a real ZooKeeper, and bookies that speak the real protocol. It holds one case of",
        "every kind of finding, each beside a sound twin that differs in one fact:",
        "",
        *(
            f"  {story.kind.value:<30} {story.ledger_or_bookie!s:>6}  twin {story.twin!s:>6}   {story.told}"
            for story in stories
        ),
        "",
        f"Suspects are looked at again after {span(delay_s)}; a real run waits 5 minutes (--second-look-delay).",
        "",
        "",
    ]
    return "\n".join(lines)
