"""`auditor salvage` finds ledgers that bookies hold and no metadata names."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from auditor.bookie.listers import read_listers
from auditor.clock import now_ms
from auditor.commands.endings import UNREACHABLE, end_without_verdict
from auditor.config.operator_files import create_empty_directory, read_small_file
from auditor.context import EXIT_FINDINGS, EXIT_SOUND, EXIT_UNKNOWN, Context
from auditor.errors import ConfigError
from auditor.evidence.ids import Ids, distinct_numbers
from auditor.evidence.newest_run import newest_run
from auditor.evidence.run_directory import place
from auditor.host_limits import require_host_limits
from auditor.model.ledger import RecordStatus
from auditor.recovery.restored_metadata import listed_ids
from auditor.recovery.salvage_text import Salvage, salvage_json, salvage_text, stray_json
from auditor.recovery.stray_ledgers import (
    Examination,
    Indexes,
    StrayLedger,
    ledgers_of_run,
    metadata_of_run,
    read_indexes,
)
from auditor.run.surroundings import check_admission
from auditor.wire import ledger_metadata
from auditor.wire.service_uri import parse as parse_uri
from auditor.zookeeper.metadata_store import MetadataStore, open_store

PASSWORD_BYTES_MAX = 4_096
"""Longest password that is read from a file."""


def salvage(context: Context, most: int, into: str | None, password_file: str | None) -> int:
    """Find ledgers without metadata, write proposals, print the result, return the exit code.

    0: none is known, and the index of each bookie was read. 1: there are some. 3: none is known,
    and some indexes are not. 5: ZooKeeper, or every bookie, is unreachable. Raises ConfigError.
    """
    require_host_limits(None)
    password = _password(password_file)
    directory = _new_directory(into)
    settings = context.settings
    try:
        with open_store(
            parse_uri(settings.metadata_service_uri or ""), settings.zookeeper_limits(1)
        ) as store:
            found = _salvage(context, store, most, password, directory)
    except UNREACHABLE as error:
        return end_without_verdict(context, "salvage", "UNREACHABLE", str(error))
    code = EXIT_UNKNOWN if found.unknown or found.unheard else EXIT_SOUND
    code = EXIT_FINDINGS if found.strays else code
    if settings.format == "json":
        context.say(json.dumps(salvage_json(found, code)) + "\n")
    else:
        context.say(salvage_text(found, code, context.screen))
    return code


def _salvage(
    context: Context, store: MetadataStore, most: int, password: bytes, directory: Path | None
) -> Salvage:
    settings = context.settings
    facts = store.cluster_facts()
    listers = read_listers(settings.lister_port, settings.lister_map, facts.instance_id)
    newest = newest_run(settings.output, facts)
    if listers is None and newest is None:
        raise ConfigError(
            "nothing names the ledgers on bookies: give --lister-port or --lister-map, or --output"
            " with a finished run of this cluster"
        )
    known_bookies = store.bookies(1, now_ms)
    bookies = [b for b in known_bookies if b.is_registered]
    away = [b.bookie_id for b in known_bookies if not b.is_registered]
    check_admission(settings, bookies)
    context.progress.stage("read indexes")
    limits = settings.bookie_limits()
    indexes = (
        asyncio.run(read_indexes(bookies, listers, limits))
        if listers is not None
        else Indexes({}, {b.bookie_id: "no lister is named" for b in bookies})
    )
    context.stop.check()
    # The metadata is listed after the indexes: a ledger created meanwhile is not called stray.
    store.sync()
    living = listed_ids(store)
    of_run = None if newest is None else place(newest.path)
    read_before = np.empty(0, np.int64) if of_run is None else ledgers_of_run(of_run, living)
    strays = _without_metadata(store, _gone(indexes, living, read_before))
    examined = strays[::-1][:most].tolist()
    known = {} if of_run is None else metadata_of_run(of_run, examined)
    context.progress.stage("ask bookies")
    examination = Examination(bookies, limits, listers, now_ms, password, away)
    found, unheard = asyncio.run(examination.examine(examined, indexes, known))
    if directory is not None:
        _write(directory, found, password)
    return Salvage(
        found,
        len(strays) - len(examined),
        len(examined) - len(found) - unheard,
        unheard,
        {**indexes.unknown, **dict.fromkeys(away, "it is not registered")},
        newest.run_id if newest is not None else "",
        str(directory) if directory is not None else "",
    )


def _gone(indexes: Indexes, living: Ids, read_before: Ids) -> Ids:
    """Return the ledgers of the indexes and of the run that are not listed, ascending."""
    held = [np.setdiff1d(ids, living) for ids in indexes.ledgers.values()]
    return distinct_numbers(np.concatenate([read_before, *held]))


def _without_metadata(store: MetadataStore, ids: Ids) -> Ids:
    """Return the ledgers of which no znode exists. Costs a read each."""
    records = store.read_ledgers(ids.tolist(), 1, now_ms, with_marks=False)
    gone = (record.ledger_id for record in records if record.status is RecordStatus.GONE)
    return np.fromiter(gone, np.int64)


def _password(name: str | None) -> bytes:
    if name is None:
        return b""
    content = read_small_file(Path(name), PASSWORD_BYTES_MAX, "the password of ledgers")
    return content.removesuffix(b"\n")


def _new_directory(name: str | None) -> Path | None:
    if name is None:
        return None
    directory = Path(name)
    create_empty_directory(directory, "--into", 0o700)
    return directory


def _write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read: it holds a password. The directory may be one that
    others can read, because it was there before.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _write(directory: Path, strays: Sequence[StrayLedger], password: bytes) -> None:
    """Write each proposal as the shell reads it, and salvage.jsonl. Raises ConfigError."""
    try:
        with (directory / "salvage.jsonl").open("w", encoding="ascii") as lines:
            for stray in strays:
                lines.write(json.dumps(stray_json(stray)) + "\n")
                if stray.proposal is not None:
                    has_digest = stray.proposal.digest_type is not None
                    data = ledger_metadata.encode(
                        stray.proposal, password=password if has_digest else b""
                    )
                    _write_private(directory / f"{stray.ledger_id}.metadata", data)
    except OSError as error:
        raise ConfigError(f"--into: {directory} cannot be written: {error.strerror}") from None
