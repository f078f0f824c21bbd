"""Mutation: a test must notice every small change of the modules on trial, or the change must be
explained by name.

    make mutation                                            # all; continues an ended trial
    make mutation ALL=1                                      # all, whatever was tried before
    make mutation ONLY=auditor/first_checker/schedule.py     # some: files, directories
    make mutation ONLY=... AGAIN=1                           # those that were not killed last time

The mutants are mutmut's (the extra `mutation`), without those that `small_changes.py` leaves out.
They are tried in a copy of the tree, in memory, each in a child of one pytest (`trial.py`), package
by package. Exits 1 if a mutant survives that `survivors.toml` does not explain, or if an explained
one is killed now or no longer exists.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from records import is_fresh, read_record

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
SURVIVORS = HERE / "survivors.toml"
"""The explanations of survivors."""
CACHE = Path(os.environ.get("MUTATION_CACHE", PROJECT / ".cache" / "mutation"))
"""What is kept between two runs."""
COPIED = ("auditor", "tests", "proto", "pyproject.toml")
ON_TRIAL = (
    "auditor/pace.py",
    "auditor/model/verdict.py",
    "auditor/wire",
    "auditor/witness",
    "auditor/stages",
    "auditor/evidence",
    "auditor/first_checker",
    "auditor/second_checker",
    "auditor/pulsar",
    "auditor/judging",
    "auditor/summary",
    "auditor/findings",
    *(
        f"auditor/after/{name}.py"
        for name in (
            "causes",
            "compared_finding",
            "confirmed_copies",
            "copy_patterns",
            "differences",
            "history",
            "margin",
            "mutes",
            "promised_copies",
            "pseudonyms",
            "rechecks",
            "stored_copies",
        )
    ),
    "auditor/bookie",
    "auditor/lister",
    "auditor/zookeeper",
)
"""Modules and packages, in the order in which they are tried."""
STORIES = (
    "tests/unit/judging/test_judging_settle.py",
    "tests/unit/judging/test_judging_newest_state.py",
    "tests/mutation/stories_on_trial.py",
)
IN_MEMORY = tuple(
    f"tests/adapters/test_zookeeper_{name}.py"
    for name in (
        "bookies",
        "cluster",
        "election",
        "ledgers",
        "listing",
        "marks",
        "reading",
        "topics",
    )
)
"""Tests that a ZooKeeper in memory passes like a real one; TOO_SLOW leaves out the real one."""
TESTS = {
    "auditor/findings/lost_logs.py": (
        "tests/unit/findings/test_findings_lost_logs.py",
        "tests/unit/findings/test_findings_logs_of_listers.py",
    ),
    "auditor/findings/references.py": (
        "tests/unit/findings/test_findings_topic_uses.py",
        "tests/unit/findings/test_findings_reference_rules.py",
        "tests/unit/findings/test_findings_orphans.py",
        "tests/unit/findings/test_findings_reference_losses.py",
    ),
    "auditor/model/verdict.py": (
        "tests/unit/model/test_model_verdict.py",
        "tests/unit/model/test_model_copy_counts.py",
    ),
    "auditor/first_checker": ("tests/unit/first_checker", *STORIES),
    "auditor/second_checker": ("tests/unit/second_checker", *STORIES),
    "auditor/witness": ("tests/unit/witness",),
    "auditor/wire": ("tests/unit/wire",),
    **{
        f"auditor/judging/{name}.py": ("tests/unit/judging/test_judging_outcomes.py", *STORIES)
        for name in ("settle", "newest_state")
    },
    "auditor/findings/reference_findings.py": (
        "tests/unit/findings/test_findings_reference_findings.py",
        "tests/unit/findings/test_findings_reference_words.py",
    ),
    "auditor/summary/doubted_lists.py": (
        "tests/unit/summary/test_summary_spoiled_lists.py",
        "tests/unit/summary/test_summary_unindexed_entries.py",
        "tests/unit/summary/test_summary_odd_lists.py",
        "tests/unit/summary/test_summary_spoiled_verdicts.py",
        "tests/unit/summary/test_summary_unindexed_by_ledger.py",
    ),
    "auditor/findings/reference_tables.py": (
        "tests/unit/findings/test_findings_reference_tables.py",
        "tests/unit/findings/test_findings_reference_findings.py",
    ),
    **{
        f"auditor/after/{name}.py": (f"tests/unit/after/test_after_{tests}.py",)
        for name, tests in (
            ("differences", "differences"),
            ("confirmed_copies", "margin"),
            ("copy_patterns", "margin"),
            ("margin", "margin"),
            ("promised_copies", "margin"),
            ("stored_copies", "margin"),
            ("pseudonyms", "pseudonyms"),
        )
    },
    "auditor/after": ("tests/unit/after",),
    "auditor/findings": ("tests/unit/findings",),
    "auditor/pulsar/topic_store.py": ("tests/unit/pulsar", *IN_MEMORY),
    "auditor/pulsar": ("tests/unit/pulsar",),
    "auditor/summary/due_copies.py": ("tests/unit/summary/test_summary_due_copies.py",),
    "auditor/summary/sweeps.py": ("tests/unit/summary/test_summary_sweeps.py",),
    "auditor/summary": ("tests/unit/summary",),
    **{
        f"auditor/evidence/{name}.py": tuple(
            f"tests/unit/evidence/test_evidence_{one}.py" for one in own
        )
        for name, own in (
            ("file_systems", ("file_systems", "s3_objects")),
            ("hdfs_files", ("hdfs_files",)),
            ("local_files", ("local_files", "file_modes", "run_directory")),
            ("output_directory", ("output_directory",)),
            ("output_lock", ("output_lock", "output_directory", "hdfs_lock", "s3_lease")),
            ("rows", ("round_trip",)),
            ("run_directory", ("run_directory", "text_file", "memory_directory")),
            ("schemas", ("schemas",)),
            ("table_scan", ("table_scan", "local_files", "newest_run")),
        )
    },
    "auditor/evidence": ("tests/unit/evidence",),
    "auditor/judging": ("tests/unit/judging",),
    "auditor/stages": ("tests/unit/stages",),
    **{
        f"auditor/bookie/{name}.py": tuple(f"tests/unit/bookie/test_bookie_{one}.py" for one in own)
        for name, own in (
            ("dialling", ("dialling", "kerberos_login")),
            ("exchange", ("exchange", "throttle", "conversation", "lister_conversation")),
            ("listers", ("listers", "lister_conversation", "lane_with_lister_answers")),
        )
    },
    "auditor/bookie": ("tests/unit/bookie",),
    "auditor/zookeeper": ("tests/unit/zookeeper", *IN_MEMORY),
    "auditor/lister/bookie_configuration.py": (
        "tests/unit/lister/test_lister_configuration.py",
        "tests/unit/lister/test_lister_tls_configuration.py",
    ),
    "auditor/lister/directory_reader.py": ("tests/unit/lister/test_lister_directory_reader.py",),
    "auditor/lister/server.py": (
        "tests/unit/lister/test_lister_connection.py",
        "tests/unit/lister/test_lister_server_answers.py",
    ),
    "auditor/lister/index_view.py": (
        "tests/unit/lister/test_lister_index_view.py",
        "tests/unit/lister/test_lister_ledger_lists.py",
        "tests/unit/lister/test_lister_location_runs.py",
    ),
    "auditor/lister": ("tests/unit/lister",),
    "auditor/pace.py": ("tests/unit/test_pace.py",),
}
"""The tests of a module or a package: its own, and the laws of the judgement."""
TOO_SLOW = (
    "test_generating_again_changes_nothing",
    "test_settle_never_raises_and_always_knows_what_next",
    "test_a_ledger_of_any_size_comes_to_an_end",
    "test_whom_to_ask_is_known_without_judging",
    "test_reads_on_one_bookie_are_bounded",
    "test_lister_flush_storm",
    "real_zookeeper",
)
"""Tests that take seconds each and find nothing that `stories_on_trial.py` or a quick test does
not.
"""
WITH_THREADS = (
    "tests/unit/bookie/test_bookie_lane_with_lister.py",
    "tests/unit/lister/test_lister_ledger_lists.py",
    "tests/unit/lister/test_lister_location_runs.py",
    "tests/unit/lister/test_lister_reader_process.py",
    "tests/unit/lister/test_lister_server.py",
    "tests/unit/lister/test_lister_tls.py",
)
"""Tests on RocksDB, whose threads a fork does not copy. They are watched in a child, so that each
child starts its own threads.
"""
OPTIONS = ("-q", "-p", "trial", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "timeout=0")
SURVIVED = ("survived", "unreached", "unplanted")

Identity = tuple[str, str, str, str]


class Explained(NamedTuple):
    """One entry of survivors.toml: why a mutant need not be killed; `times`: how many of a function
    look the same.
    """

    identity: Identity
    why: str
    times: int = 1


def explained(text: str) -> list[Explained]:
    """Return the entries, in their order. Raises ValueError if one has no reason, or occurs
    twice.
    """
    entries = []
    for one in tomllib.loads(text).get("survivor", []):
        identity = (one["file"], one["function"], one["before"], one["after"])
        if not one.get("why", "").strip():
            raise ValueError(f"no reason is given for {identity}")
        entries.append(Explained(identity, one["why"], one.get("times", 1)))
    twice = [
        identity
        for identity, count in Counter(one.identity for one in entries).items()
        if count > 1
    ]
    if twice:
        raise ValueError(f"explained twice: {twice}")
    return entries


def compared(
    tried: Iterable[tuple[Identity, str]], known: Iterable[Explained], files: Iterable[str]
) -> list[str]:
    """Return what is wrong, as sentences: unexplained survivors, and explanations that are no
    longer needed.

    `tried`: each mutant of `files` and how it ended; explanations for other files do not count.
    """
    survived = Counter(identity for identity, how in tried if how in SURVIVED)
    on_trial = set(files)
    wanted = {one.identity: one.times for one in known if one.identity[0] in on_trial}
    found = []
    for identity in sorted(survived.keys() | wanted.keys()):
        here, there = survived[identity], wanted.get(identity, 0)
        if here > there:
            found.append(
                f"{_shown(identity)}\n    survives ({here}), and {there or 'none'} explained"
            )
        elif here < there:
            found.append(
                f"{_shown(identity)}\n    is explained ({there}), and {here or 'none'} survives:"
                " take the entry out"
            )
    return found


def _shown(identity: Identity) -> str:
    file, function, before, after = identity
    lines = [
        f"{file} {function}",
        *(f"  - {one}" for one in before.splitlines()),
        *(f"  + {one}" for one in after.splitlines()),
    ]
    return "\n".join(lines)


def files_of(words: Sequence[str], root: Path) -> list[str]:
    """Return the modules on trial, relative to the root. Raises ValueError if a word names none."""
    from small_changes import is_wording

    found = []
    for word in words:
        place = root / word
        paths = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        chosen = [
            path
            for path in paths
            if path.exists()
            and path.name != "__init__.py"
            and "generated" not in path.parts
            and not is_wording(path)
        ]
        if not chosen:
            raise ValueError(f"no module on trial is named {word}")
        found += [str(path.relative_to(root)) for path in chosen]
    return found


def by_package(files: Iterable[str]) -> dict[str, list[str]]:
    """Return the modules of each package, in their order."""
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault("/".join(Path(file).parent.parts[:2]), []).append(file)
    return found


def trial(files: Sequence[str], again: bool, known: Iterable[Explained]) -> bool:
    """Try the mutants of the files in a copy; the results are in their records. Those that are
    `known` to survive are tried with fewer tests.

    Return whether the tests passed without any mutant. If they did not, no mutant was tried.
    """
    with tempfile.TemporaryDirectory() as workdir:
        copy = Path(workdir) / "copy"
        for name in COPIED:
            source, target = PROJECT / name, copy / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        elsewhere = filter(None, [os.environ.get("PYTHONPATH")])
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(
                [str(copy), str(copy / "tests" / "mutation"), *elsewhere]
            ),
            "PYTHONHASHSEED": "0",
            "PYTHONUNBUFFERED": "1",
            "MUTATION_TESTS": json.dumps({file: selection_of(file) for file in files}),
            "MUTATION_TERMS": json.dumps({file: terms_of(file) for file in files}),
            "MUTATION_EXPLAINED": json.dumps([json.dumps(one.identity) for one in known]),
            "MUTATION_CACHE": str(CACHE),
            "MUTATION_AGAIN": "yes" if again else "",
            "MUTATION_WITH_THREADS": " ".join(WITH_THREADS),
        }
        tests = dict.fromkeys(test for file in files for test in selection_of(file))
        left_out = " and ".join(f"not {one}" for one in TOO_SLOW)
        paths = [str(path.relative_to(copy)) for test in tests for path in _paths(copy, test)]
        command = [sys.executable, "-m", "pytest", *OPTIONS, "-k", left_out, *paths]
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode == 0


def selection_of(file: str) -> tuple[str, ...]:
    """Return the tests that a module is tried with: its own, else those of its package."""
    return next(
        TESTS[str(place)] for place in (Path(file), *Path(file).parents) if str(place) in TESTS
    )


def _paths(root: Path, test: str) -> list[Path]:
    """Return the file or directory of that name, else the modules whose names begin with it."""
    return [root / test] if (root / test).exists() else sorted(root.glob(f"{test}*.py"))


def terms_of(file: str) -> str:
    """Return a digest of how a module is tried, apart from the contents of the files on which it
    rests: with which tests, libraries and Python.
    """
    paths = [path for test in selection_of(file) for path in _paths(PROJECT, test)]
    paths += PROJECT.glob("tests/**/conftest.py")
    tests = {one for path in paths for one in (path.rglob("*.py") if path.is_dir() else [path])}
    libraries = (PROJECT / "constraints.txt").read_text()
    names = sorted(str(one.relative_to(PROJECT)) for one in tests)
    said = [names, TOO_SLOW, WITH_THREADS, OPTIONS, libraries, sys.version]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def main(words: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description="Every mutant is killed, or explained by name.")
    parser.add_argument("only", nargs="*", help="files and directories; all, if none is given")
    parser.add_argument(
        "--again", action="store_true", help="only those that were not killed last time"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="what nothing has changed for since it was tried, too; the explained with every test",
    )
    given = parser.parse_args(words)
    CACHE.mkdir(parents=True, exist_ok=True)
    known = explained(SURVIVORS.read_text())
    packages = by_package(files_of(given.only or ON_TRIAL, PROJECT))
    problems: list[str] = []
    table = ["| package | modules | mutants | killed | explained |", "|---|---|---|---|---|"]
    for number, (package, files) in enumerate(packages.items(), start=1):
        began = time.monotonic()
        new = files if given.all or given.again else [file for file in files if not _is_fresh(file)]
        print(
            f"[{number} of {len(packages)}] {package}: {len(new)} modules to try,"
            f" {len(files) - len(new)} unchanged since they were tried",
            flush=True,
        )
        if new and not trial(new, given.again, () if given.all else known):
            problems.append(f"{package}: its tests fail without any mutant")
            continue
        tried = [((a, b, c, d), how) for a, b, c, d, how, _ in _tried(files)]
        found = compared(tried, known, files)
        problems += found
        left = sum(how in SURVIVED for _, how in tried)
        row = f"{len(files)} | {len(tried):,} | {len(tried) - left:,} | {left:,}"
        table.append(f"| `{package}/` | {row} |")
        print("\n".join([*found, f"{package}: {time.monotonic() - began:.0f} s\n"]), flush=True)
    print("\n".join(table))
    print(f"{len(problems)} to kill, to explain, or to take out")
    return 1 if problems else 0


def _is_fresh(file: str) -> bool:
    return is_fresh(read_record(CACHE, file), terms_of(file), PROJECT)


def _tried(files: Iterable[str]) -> Iterable[Sequence[str]]:
    return (one for file in files for one in read_record(CACHE, file).tried)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
