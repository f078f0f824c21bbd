"""Metrics are written or pushed whole, and a failure is a sentence for the log."""

import os
import re
import stat

import pytest
from support import report_stories as stories

from auditor.telemetry import metrics


def test_the_textfile_is_replaced_whole_and_readable(tmp_path):
    """Its mode is 0644 whatever the umask, and no temporary file is left."""
    path = tmp_path / "auditor.prom"
    path.write_text("old")
    umask = os.umask(0o077)
    try:
        assert metrics.write_textfile(path, "new\n") is None
    finally:
        os.umask(umask)
    assert path.read_text() == "new\n" and stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [path] == list(tmp_path.iterdir())


def test_a_textfile_that_cannot_be_written_is_a_sentence(tmp_path):
    """It is never an exception, because metrics change no exit code. No temporary file is left."""
    missing = metrics.write_textfile(tmp_path / "none" / "a.prom", "x")
    assert missing is not None and re.search(
        r"could not be written to .*a\.prom: No such file", missing
    )
    (tmp_path / "dir.prom").mkdir()
    assert metrics.write_textfile(tmp_path / "dir.prom", "x") is not None
    assert [tmp_path / "dir.prom"] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "url",
    [
        "http://joe:s3cr3t@127.0.0.1:1",
        "http://joe:s3cr3t@[::1",
        "http://joe:s3cr3t@127.0.0.1:99999",
    ],
)
def test_a_push_that_fails_is_a_sentence_without_password(url, monkeypatch):
    """The gateway may not listen, or the URL may be invalid. Neither raises."""
    monkeypatch.setenv("no_proxy", "*")
    said = metrics.push(
        url, metrics.exposition(stories.summary(), cluster="prod"), "prod", timeout_s=5
    )
    assert said is not None and "could not be pushed" in said and "s3cr3t" not in said
