"""Cron, systemd and the sample configuration: the files that an operator copies work."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from support.deployed import DEPLOY, stub, unknown_flags
from support.requirements import lack

from auditor.config import Layers, parse
from auditor.wire.service_uri import parse as parse_uri

CRONTAB = DEPLOY / "cron/bookkeeper-auditor.crontab"
SERVICE = DEPLOY / "systemd/bookkeeper-auditor.service"
TIMER = DEPLOY / "systemd/bookkeeper-auditor.timer"
WAIT_S = 60
FIELD = r"(\*|\d+)"


def test_the_sample_configuration_is_accepted_whole():
    """Every key is a setting, every value is in range, and the cluster's URI is valid."""
    settings = parse(
        Layers(file=tomllib.loads((DEPLOY / "auditor.toml").read_text())), command="run"
    )
    assert ("zk1:2181", "zk2:2181", "zk3:2181") == parse_uri(
        settings.metadata_service_uri or ""
    ).hosts
    assert settings.metrics_textfile is not None and settings.metrics_textfile.endswith(".prom")


def cron_line() -> re.Match[str]:
    """Return the only entry of the crontab, in the form of /etc/cron.d: five fields, a user, a
    command.
    """
    lines = [
        line
        for line in CRONTAB.read_text().splitlines()
        if line and not re.match(r"#|[A-Z]+=", line)
    ]
    assert len(lines) == 1, lines
    found = re.fullmatch(
        rf"{FIELD} {FIELD} {FIELD} {FIELD} {FIELD} +(?P<user>[a-z-]+)  (?P<command>.*)", lines[0]
    )
    assert found is not None, lines[0]
    return found


def test_the_crontab_is_one_cron_can_read():
    """Minute and hour are in range; there is no % in the command, which cron takes for a line
    break; a line break is at the end.
    """
    found = cron_line()
    assert 0 <= int(found[1]) <= 59 and 0 <= int(found[2]) <= 23
    assert "%" not in found["command"] and CRONTAB.read_text().endswith("\n")
    assert set() == unknown_flags(re.search(r"auditor (run [^)]*?) 2>&1", found["command"])[1])  # type: ignore[index]


@pytest.mark.parametrize(
    ("code", "mailed"), [(0, ""), (1, "the report\nauditor run ended with exit code 1\n")]
)
def test_cron_mails_only_what_needs_somebody(tmp_path, code, mailed):
    """Cron mails what is printed: nothing for a sound cluster, else the report and the exit
    code.
    """
    stub(tmp_path, code)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", "-c", cron_line()["command"]],
        env=environment,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (mailed, "") == (done.stdout, done.stderr)
    assert (
        "run --config /etc/bookkeeper-auditor/auditor.toml --quiet\n"
        == (tmp_path / "called").read_text()
    )


def systemd_analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze. Without systemd the test is skipped, with a message; in CI it fails."""
    found = shutil.which("systemd-analyze")
    if found is None:
        lack("systemd-analyze is not installed (Debian: systemd)")
    return subprocess.run(
        [found, *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False
    )


@pytest.fixture
def units(tmp_path: Path) -> list[str]:
    """Return both units, with a program that exists: systemd looks for it."""
    text = SERVICE.read_text()
    (tmp_path / SERVICE.name).write_text(
        text.replace("/opt/bookkeeper-auditor/bin/auditor", str(stub(tmp_path / "bin", 0)))
    )
    shutil.copy(TIMER, tmp_path)
    return [str(tmp_path / SERVICE.name), str(tmp_path / TIMER.name)]


def test_systemd_has_nothing_to_say_about_the_units(units):
    """Sections, keys and values are known; the timer finds its service."""
    done = systemd_analyze("verify", "--man=no", *units)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_systemd_would_say_it(units):
    """The check above can fail: systemd names a misspelt key."""
    path = Path(units[0])
    path.write_text(path.read_text().replace("PrivateTmp=", "PrivatTmp="))
    assert "PrivatTmp" in systemd_analyze("verify", "--man=no", *units).stderr


def test_the_timer_elapses_once_a_night():
    """systemd reads the calendar as written."""
    calendar = re.search(r"^OnCalendar=(.*)$", TIMER.read_text(), re.MULTILINE)
    assert calendar is not None
    done = systemd_analyze("calendar", "--iterations=2", calendar[1])
    assert done.returncode == 0 and f"Normalized form: {calendar[1]}" in done.stdout, done.stdout
    assert ["03:17:00", "03:17:00"] == re.findall(
        r"(?:Next elapse|Iter. #2|Iteration #2): .*? (\d\d:\d\d:\d\d)", done.stdout
    )


def test_the_service_calls_the_auditor_as_it_can_be_called():
    """Its options exist. Only an exit code that another attempt may change is retried."""
    text = SERVICE.read_text()
    command = re.search(r"^ExecStart=\S+/auditor (.*)$", text, re.MULTILINE)
    assert (
        command is not None and command[1].startswith("run ") and set() == unknown_flags(command[1])
    )
    assert "\nRestart=on-failure\nRestartPreventExitStatus=1 2 3 4\n" in text


def test_paths_agree():
    """Configuration, output and metrics are in the same places in the units, the crontab and the
    sample.
    """
    sample = tomllib.loads((DEPLOY / "auditor.toml").read_text())
    service = SERVICE.read_text()
    assert f"StateDirectory={Path(sample['output']).name}\n" in service and Path(
        sample["output"]
    ).parent == Path("/var/lib")
    assert f"ReadWritePaths=-{Path(sample['metrics_textfile']).parent}\n" in service
    for path in (SERVICE, CRONTAB, DEPLOY / "airflow/bookkeeper_auditor_dag.py"):
        assert "/etc/bookkeeper-auditor/auditor.toml" in path.read_text(), path


def test_the_readme_names_every_file_and_alert():
    """What is in the folder is in its README; an alert named there exists."""
    text = (DEPLOY / "README.md").read_text()
    folders = {path.name for path in DEPLOY.iterdir() if path.is_dir()}
    assert folders == set(re.findall(r"^\| \[(\w[\w-]*)/\]\(\1\) \|", text, re.MULTILINE))
    rules = (DEPLOY / "prometheus/rules.yml").read_text()
    named = set(re.findall(r"`(BookKeeper\w+)`", text))
    assert named and named <= set(re.findall(r"alert: (\w+)", rules))
    itself = rules.split("name: bookkeeper-auditor-itself")[1]
    assert set(re.findall(r"alert: (\w+)", itself)) <= named
