"""The unit and the sidecar of a lister: the files that an operator copies work, and have no more
rights than they need.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from adapters.test_deploy_schedulers import systemd_analyze
from support.deployed import DEPLOY, stub

from auditor.config import CONFIG_FILE, SETTINGS, Layers, parse

SERVICE = DEPLOY / "systemd/bookkeeper-lister.service"
SIDECAR = DEPLOY / "kubernetes/lister-sidecar.yaml"
VALUES = DEPLOY / "helm/pulsar-lister-values.yaml"
IMAGE = DEPLOY / "docker/lister.Dockerfile"
FLAGS = {
    setting.flag: setting.key
    for setting in (*SETTINGS, CONFIG_FILE)
    if "lister" in setting.commands
}


def settings_of(words: list[str]) -> Any:
    """Return the settings of `auditor lister` with these options; an unknown one fails."""
    flags: dict[str, object] = {}
    while words:
        flag, _, value = words.pop(0).partition("=")
        flags[FLAGS[flag]] = value or words.pop(0)
    return parse(Layers(flags=flags), command="lister")


def test_systemd_has_nothing_to_say_about_the_unit(tmp_path: Path) -> None:
    """Its sections, keys and values are known."""
    text = SERVICE.read_text().replace(
        "/opt/bookkeeper-auditor/bin/auditor", str(stub(tmp_path / "bin", 0))
    )
    (tmp_path / SERVICE.name).write_text(text)
    done = systemd_analyze("verify", "--man=no", str(tmp_path / SERVICE.name))
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_the_unit_calls_the_lister_as_it_can_be_called() -> None:
    """Its options exist. It is restarted until the bookie has a cookie, and may write nothing."""
    text = SERVICE.read_text()
    found = re.search(r"^ExecStart=\S+/auditor lister (.*)$", text, re.MULTILINE)
    assert found is not None
    settings = settings_of(shlex.split(found[1]))
    assert ("0.0.0.0:3182", "json") == (settings.listen, settings.log_format)
    assert "\nRestart=on-failure\n" in text and "RestartPreventExitStatus" not in text
    assert (
        "\nProtectSystem=strict\nPrivateTmp=yes\n" in text
        and "ReadWritePaths" not in text
        and "StateDirectory" not in text
    )


def test_the_sidecar_calls_the_lister_as_it_can_be_called() -> None:
    """Its options exist, and so do the directories that are mounted."""
    command = re.findall(
        r"^            - (\S+)$",
        SIDECAR.read_text().split("command:")[1].split("env:")[0],
        re.MULTILINE,
    )
    assert ["auditor", "lister"] == command[:2]
    settings = settings_of(command[2:])
    assert settings.ledger_dirs is not None
    mounted = re.findall(r"mountPath: (\S+)\n +readOnly: true", SIDECAR.read_text())
    assert list(settings.ledger_dirs) == mounted


def test_the_values_for_pulsars_chart_have_the_same_container() -> None:
    """It is an init container there, which Kubernetes runs beside the bookie if it is always
    restarted.
    """
    pod = yaml.safe_load(SIDECAR.read_text())["spec"]["template"]["spec"]
    values = yaml.safe_load(VALUES.read_text())
    assert {
        "bookkeeper": {
            "initContainers": [one | {"restartPolicy": "Always"} for one in pod["containers"]],
            "extraVolumes": pod["volumes"],
        }
    } == values


def test_the_image_is_the_one_that_the_sidecar_names() -> None:
    """The image has the extra, copies files that exist, and runs as the sidecar's user."""
    text = IMAGE.read_text()
    tag = re.search(r"--tag (\S+) \.$", text, re.MULTILINE)
    assert tag is not None and f"image: {tag[1]}\n" in SIDECAR.read_text()
    copied = [
        path for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for path in line.split()
    ]
    assert {"pyproject.toml", "auditor"} <= set(copied) and all(
        (DEPLOY.parent / path).exists() for path in copied
    )
    assert "--require-hashes --requirement /release/lister.txt " in text
    assert "deploy/release/lister.txt" in copied
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    extra = {re.split(r"[<>=]", one)[0] for one in project["optional-dependencies"]["lister"]}
    pinned = (DEPLOY / "release/lister.txt").read_text()
    assert extra and extra <= set(re.findall(r"^(\S+)==", pinned, re.MULTILINE))
    user = re.search(r"^USER (\d+)$", text, re.MULTILINE)
    assert user is not None and f"runAsUser: {user[1]}\n" in SIDECAR.read_text()
    assert 'CMD ["auditor", "lister"]' in text


@pytest.mark.parametrize(
    "line",
    [
        "runAsNonRoot: true",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
        "drop: [ALL]",
    ],
)
def test_the_sidecar_may_do_nothing_but_read(line: str) -> None:
    """It does not run as root, can write no volume of the bookie, and has no privilege."""
    assert line in SIDECAR.read_text()
    assert 1 == SIDECAR.read_text().count("readOnly: true")
