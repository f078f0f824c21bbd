"""Which secrets a command needs before it does anything."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs
from support.pki import Pki

from auditor.cli import cli
from auditor.commands.calling import (
    check_needed_credentials,
    default_output,
    screen_of,
    warn_of_certificates,
    warn_of_open_secrets,
)
from auditor.commands.demo import without_credentials
from auditor.config import Layers, Settings, parse
from auditor.config.access import BookieAccess, ZooKeeperAccess
from auditor.errors import ConfigError
from auditor.report.layout import Screen

LOCAL = (
    *(
        "status",
        "report",
        "diff",
        "explain",
        "mute",
        "margin",
        "replay",
        "bundle",
        "config",
        "demo",
    ),
)


def test_the_screen_is_as_high_as_the_terminal_without_its_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file is as a screen of unknown height, whatever the variables of the shell say."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("LINES", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Screen(120, color=True, height=39) == screen_of(is_terminal=True)
    assert Screen(120, height=25) == screen_of(is_terminal=False)
    monkeypatch.setenv("LINES", "3")
    assert 20 == screen_of(is_terminal=True).height


def test_commands_without_flags_look_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With settings that no command accepts, nothing is known of them."""
    monkeypatch.setenv("AUDITOR_OUTPUT", "/data/audits")
    assert "/data/audits" == default_output()
    monkeypatch.setenv("AUDITOR_LOG_FORMAT", "no such format")
    assert default_output() is None


def with_missing_secret(peer: str) -> Settings:
    login = {
        f"{peer}_sasl": "digest-md5",
        f"{peer}_sasl_username": "u",
        f"{peer}_sasl_password_file": "/no/such/file",
    }
    return parse(Layers(flags=login))


@pytest.mark.parametrize("peer", ["bookie", "zookeeper"])
@pytest.mark.parametrize("command", LOCAL)
def test_a_command_that_contacts_nothing_needs_no_secret(command: str, peer: str) -> None:
    """The report of last night can be read where there is no secret."""
    check_needed_credentials(command, with_missing_secret(peer))


def test_each_command_needs_the_secrets_of_whom_it_contacts() -> None:
    """A lister and `topology` need only the secrets for ZooKeeper."""
    for command in ("run", "ledger", "topic", "rehearse", "salvage", "topology", "lister"):
        with pytest.raises(ConfigError, match="cannot be read"):
            check_needed_credentials(command, with_missing_secret("zookeeper"))
    for command in ("run", "ledger", "topic", "rehearse", "salvage"):
        with pytest.raises(ConfigError, match="cannot be read"):
            check_needed_credentials(command, with_missing_secret("bookie"))
    for command in ("topology", "lister"):
        check_needed_credentials(command, with_missing_secret("bookie"))


def test_these_tests_know_every_command() -> None:
    """A new command must be put into one of the lists above. `doctor` checks each secret by
    itself, and `init` is called with what `run` needs.
    """
    assert set(cli.commands) == {
        *LOCAL,
        "run",
        "ledger",
        "topic",
        "rehearse",
        "salvage",
        "topology",
        "lister",
        "doctor",
        "init",
    }


def test_the_demo_speaks_with_its_own_cluster_in_clear() -> None:
    """Settings in the environment for the real cluster do not count."""
    flags = {
        "bookie_tls": "on",
        "bookie_tls_ca": "ca",
        "zookeeper_tls": "on",
        "zookeeper_digest_file": "d",
    }
    given = parse(Layers(flags=flags, environment={"AUDITOR_ZOOKEEPER_DIGEST": "u:p"}))
    plain = without_credentials(given)
    assert plain.bookie_limits().access == BookieAccess()
    assert plain.zookeeper_limits(1).access == ZooKeeperAccess()


def test_a_secret_that_all_may_read_is_a_warning_of_a_command_that_needs_it(tmp_path: Path) -> None:
    """It names the file, and never what is in it."""
    secret = tmp_path / "pw"
    secret.write_text("canary")
    secret.chmod(0o644)
    login = {
        "bookie_sasl": "digest-md5",
        "bookie_sasl_username": "u",
        "bookie_sasl_password_file": str(secret),
    }
    settings = parse(Layers(flags=login))
    with capture_logs() as logged:
        warn_of_open_secrets("run", settings, structlog.get_logger())
        warn_of_open_secrets("report", settings, structlog.get_logger())
    [one] = logged
    assert (one["event"], one["log_level"], one["file"]) == (
        "secret_open_to_all",
        "warning",
        str(secret),
    )
    assert "canary" not in str(one)


def test_a_certificate_that_has_expired_is_a_warning_of_a_command_that_needs_it(
    tmp_path: Path,
) -> None:
    """Bookies that ask for no certificate are audited all the same."""
    pki = Pki(tmp_path)
    old = pki.issue("old", is_expired=True)
    files = {
        "bookie_tls": "on",
        "bookie_tls_ca": str(pki.ca()),
        "bookie_tls_certificate": str(old.certificate),
        "bookie_tls_key": str(old.key),
    }
    settings = parse(Layers(flags=files))
    with capture_logs() as logged:
        warn_of_certificates("run", settings, structlog.get_logger())
        warn_of_certificates("report", settings, structlog.get_logger())
    [one] = logged
    assert (one["event"], one["log_level"]) == ("certificate_not_valid", "warning")
    assert "our certificate has expired" in one["reason"]
    assert str(old.certificate) in one["reason"]
