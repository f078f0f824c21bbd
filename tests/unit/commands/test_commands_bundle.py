"""`auditor bundle`: the evidence of some ledgers, bounded, without names, and still evidence."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.stored_run import store_run

from auditor.after import bundle as module
from auditor.commands.bundle import bundle
from auditor.commands.replay import replay
from auditor.config import Layers, parse
from auditor.context import Context
from auditor.errors import ConfigError
from auditor.evidence.run_directory import place
from auditor.evidence.run_tables import SEEN_TABLES
from auditor.evidence.schemas import BOOKIES, LISTING, VERDICTS
from auditor.stop import StopRequest
from auditor.telemetry import log
from auditor.telemetry.progress import Silent

ALL = (("evidence/listing", LISTING), ("evidence/bookies", BOOKIES), *SEEN_TABLES)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run of three ledgers. Bookie b2 lacks an entry of ledger 8."""
    return store_run(tmp_path)


def context(**flags: str) -> Context:
    settings = parse(Layers(flags=flags), command="bundle")
    return Context(
        settings, io.StringIO(), log.setup(stream=io.StringIO()), Silent(), StopRequest()
    )


def packed(run: Path, *names: str, plain: bool = False) -> tuple[Path, str]:
    """Return the directory that the bundle unpacks to, and what the command printed."""
    file, ours = run.parent / f"{len(list(run.parent.iterdir()))}.tar.gz", context()
    assert 0 == bundle(ours, str(run), names, str(file), plain=plain)
    with tarfile.open(file) as archive:
        for member in archive:
            target, content = file.with_suffix("") / member.name, archive.extractfile(member)
            assert content is not None, member
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
    (home,) = file.with_suffix("").iterdir()
    assert isinstance(ours.out, io.StringIO)
    return home, ours.out.getvalue()


def rows(home: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place(str(home)).read_table(name, dict(ALL)[name]).to_pylist()
    return found


def everything(home: Path) -> str:
    """Return all text in a bundle, of tables and files."""
    tables = [repr(rows(home, name)) for name, _ in ALL]
    return "".join([*tables, *(one.read_text() for one in home.rglob("*.json*"))])


def test_a_bundle_holds_the_ledgers_with_findings_and_judges_them_alike(run: Path):
    """Sound ledgers are left out. The recipient runs `auditor replay`, which gives the finding
    again.
    """
    home, said = packed(run)
    assert [8] == [row["ledger_id"] for row in rows(home, "evidence/listing")]
    assert {8} == {row["ledger_id"] for row in rows(home, "evidence/reads")}
    assert "1 ledger, 1 finding" in said and "another verdict" not in said
    ours = context()
    assert 1 == replay(ours, str(home))
    assert isinstance(ours.out, io.StringIO) and "ENTRY_BELOW" in ours.out.getvalue()


def test_a_bundle_has_no_name_of_the_cluster(run: Path):
    """The names of bookies, of ZooKeeper's hosts and of the instance are replaced."""
    home, said = packed(run)
    text = everything(home)
    assert not any(
        f"{quote}{name}" in text for name in ("b1", "b2", "b3", "h:1") for quote in "\"' "
    )
    assert 'inst"' not in text and "bookie-0002" in text and "replaced" in said
    notes = json.loads((home / "bundle.json").read_text())
    assert (False, [8], []) == (
        notes["is_plain"], notes["ledgers"], notes["ledgers_judged_otherwise"]
    )  # fmt: skip


def test_a_plain_bundle_keeps_the_names(run: Path):
    """It also has the findings and the summary whole."""
    home, said = packed(run, plain=True)
    assert '"b2"' in everything(home) and "as they are" in said
    stored, in_bundle = (
        json.loads((where / "findings.jsonl").read_text()) for where in (run, home / "told")
    )
    assert in_bundle == in_bundle | stored
    assert json.loads((run / "summary.json").read_text()) == json.loads(
        (home / "told" / "summary.json").read_text()
    )


def test_a_ledger_without_a_finding_can_be_named(run: Path):
    """A loss that was missed has no finding."""
    home, _ = packed(run, "9")
    assert [9] == [row["ledger_id"] for row in rows(home, "evidence/listing")]


def test_a_finding_is_named_by_its_id(run: Path):
    """The report shows the id. The witness is in the bundle, without names."""
    (line,) = (run / "findings.jsonl").read_text().splitlines()
    home, _ = packed(run, json.loads(line)["id"])
    (packed_line,) = (home / "told" / "findings.jsonl").read_text().splitlines()
    finding = json.loads(packed_line)
    assert 8 == finding["ledger_id"] and "bookie-0002" in finding["witness"]
    assert {"owner", "facts", "next", "looks"}.isdisjoint(finding)


def test_what_the_run_does_not_have_is_refused(run: Path, tmp_path: Path):
    """The error says what to give instead."""
    file = str(tmp_path / "b.tar.gz")
    with pytest.raises(ConfigError, match="has no 4711: give the id"):
        bundle(context(), str(run), ["4711"], file, plain=False)
    for wrong in (str(2**63), "9" * 5_000, "None", "b1", "²"):
        with pytest.raises(ConfigError, match=f"has no {wrong}: give the id"):
            bundle(context(), str(run), [wrong], file, plain=False)
    with pytest.raises(ConfigError, match=r"no run\.json"):
        bundle(context(), str(tmp_path), [], file, plain=False)
    Path(file).write_text("mine")
    with pytest.raises(ConfigError, match="is there already"):
        bundle(context(), str(run), [], file, plain=False)
    assert "mine" == Path(file).read_text()


def test_the_ledgers_of_a_run_without_findings_must_be_named(run: Path, tmp_path: Path):
    """Unless ledgers are named, a bundle holds those with findings."""
    (run / "findings.jsonl").write_text("")
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"findings": {}}))
    with pytest.raises(ConfigError, match="name the ledgers"):
        bundle(context(), str(run), [], str(tmp_path / "b"), plain=False)


def test_a_bundle_is_bounded(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ledgers are left out until the bundle fits, and counted. A single ledger that does not fit is
    refused.
    """
    monkeypatch.setattr(module, "LEDGERS_MAX", 2)
    home, said = packed(run, "7", "8", "9")
    assert [7, 8] == [row["ledger_id"] for row in rows(home, "evidence/listing")]
    assert "left out: 1 ledger, 0 findings" in said
    sizes = iter([3, 1])
    monkeypatch.setattr(module, "BYTES_MAX", 2)
    monkeypatch.setattr(module, "_archive", lambda *_: b"x" * next(sizes))
    ours = context(format="json")
    assert 0 == bundle(ours, str(run), ["7", "8", "9"], str(tmp_path / "half"), plain=False)
    assert isinstance(ours.out, io.StringIO)
    notes = json.loads(ours.out.getvalue())
    assert ([7], 2, 1) == (notes["ledgers"], notes["ledgers_left_out"], notes["bytes"])
    monkeypatch.setattr(module, "_archive", lambda *_: b"xxx")
    with pytest.raises(ConfigError, match="by another way"):
        bundle(context(), str(run), ["7"], str(tmp_path / "none"), plain=False)


def test_a_verdict_that_the_bundle_does_not_give_is_named(run: Path):
    """The recipient must know that the bundle does not show the verdict of the run."""
    where = place(str(run))
    verdicts = where.read_table("verdicts", VERDICTS).to_pylist()
    changed = [row | {"standing": "violated" if row["ledger_id"] == 7 else row["standing"]}
               for row in verdicts]  # fmt: skip
    where.remove("verdicts")
    where.write_table("verdicts", pa.Table.from_pylist(changed, schema=VERDICTS), "all")
    home, said = packed(run, "7", "8")
    assert "have another verdict: 7\n" in said
    assert [7] == json.loads((home / "bundle.json").read_text())["ledgers_judged_otherwise"]


def test_equal_runs_give_equal_bundles(run: Path, tmp_path: Path):
    """The files are equal to the byte, and two bundles can be compared."""
    files = [tmp_path / "one.tar.gz", tmp_path / "two.tar.gz"]
    for file in files:
        bundle(context(), str(run), [], str(file), plain=False)
    assert files[0].read_bytes() == files[1].read_bytes()
