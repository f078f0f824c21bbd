"""The files for Kubernetes and the Spark Operator: they match their schemas, and their options,
paths and names agree.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeflow_spark_api.models import SparkV1beta2ScheduledSparkApplication
from support.deployed import DEPLOY, ROOT, unknown_flags

from auditor.config import Layers, parse

KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"
CRONJOB = KUBERNETES / "overlays/cronjob/cronjob.yaml"
SPARK = KUBERNETES / "overlays/scheduled-spark/scheduled-spark.yaml"
RIGHTS = KUBERNETES / "overlays/scheduled-spark/rights.yaml"
KUSTOMIZATIONS = sorted(KUBERNETES.rglob("kustomization.yaml"))
KINDS_OF_KUBERNETES = [BASE / "service-account.yaml", BASE / "output.yaml", CRONJOB, RIGHTS]
WAIT_S = 120


def program(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    words = [str(Path(sys.executable).parent / name), *arguments]
    return subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def test_kubernetes_takes_each_resource():
    """Fields are known and have the right types, by the schemas that come with
    kubernetes-validate.
    """
    done = program("kubernetes-validate", "--strict", "--quiet", *map(str, KINDS_OF_KUBERNETES))
    assert 0 == done.returncode, done.stdout + done.stderr


def test_kubernetes_would_refuse_a_misspelt_field(tmp_path: Path):
    """The check above can fail."""
    (tmp_path / "x.yaml").write_text(
        CRONJOB.read_text().replace("concurrencyPolicy", "concurencyPolicy")
    )
    assert (
        0
        != program(
            "kubernetes-validate", "--strict", "--quiet", str(tmp_path / "x.yaml")
        ).returncode
    )


def unknown_fields(given: Any, kept: Any, at: str = "") -> list[str]:
    """Return what a document has and its model dropped: the models silently accept unknown
    fields.
    """
    if isinstance(given, dict) and isinstance(kept, dict):
        lost = [f"{at}.{name}" for name in given if name not in kept]
        return lost + [
            one
            for name in given
            if name in kept
            for one in unknown_fields(given[name], kept[name], f"{at}.{name}")
        ]
    if isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        return [
            one for a, b in zip(given, kept, strict=True) for one in unknown_fields(a, b, f"{at}[]")
        ]
    return [] if given == kept else [at]


def understood(document: dict[str, Any]) -> list[str]:
    model = SparkV1beta2ScheduledSparkApplication.from_dict(document)
    assert model is not None
    return unknown_fields(document, model.to_dict())


def test_the_spark_operator_takes_the_schedule():
    """By the operator's own models it has the required fields, types, and no unknown field."""
    assert [] == understood(load(SPARK))


def test_the_spark_operator_would_refuse_a_misspelt_field():
    """The check above can fail."""
    document = load(SPARK)
    document["spec"]["template"]["driver"]["memmory"] = "4g"
    assert [".spec.template.driver.memmory"] == understood(document)


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=lambda path: path.parent.name)
def test_a_kustomization_names_files_that_are_there(path: Path):
    """They are resources, patches and files of the configuration; every file of the folder is
    named.
    """
    found = load(path)
    named = [
        *found.get("resources", ()),
        *(one["path"] for one in found.get("patches", ()) if "path" in one),
    ]
    named += [file for one in found.get("configMapGenerator", ()) for file in one["files"]]
    assert named and [] == [name for name in named if not (path.parent / name).exists()]
    beside = {file.name for file in path.parent.iterdir() if file.is_file()} - {
        "kustomization.yaml"
    }
    assert beside == {name for name in named if "/" not in name}


def test_yamllint_has_nothing_to_say():
    """It has no complaint about any of these files."""
    done = program("yamllint", "--strict", str(KUBERNETES), str(DEPLOY / "helm"))
    assert (0, "") == (done.returncode, done.stdout + done.stderr)


def test_the_configuration_is_accepted_whole():
    """Every key is a setting; the results go to the volume."""
    settings = parse(Layers(file=tomllib.loads((BASE / "auditor.toml").read_text())), command="run")
    assert ("/var/lib/bookkeeper-auditor", "json") == (settings.output, settings.log_format)


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = load(CRONJOB)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


def test_commands_paths_and_names_agree():
    """The options of `run`, mounts of the same volumes, the config map and the claim of the base,
    and the image of the recipe agree.
    """
    (container,), template = pod()["containers"], load(SPARK)["spec"]["template"]
    for arguments in (container["args"], template["arguments"]):
        assert "run" == arguments[0] and set() == unknown_flags(arguments[1:])
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert {**mounts} == {"scratch": "/tmp"} | {
        one["name"]: one["mountPath"] for one in template["driver"]["volumeMounts"]
    }
    assert template["driver"]["volumeMounts"] == template["executor"]["volumeMounts"]
    for volumes in (pod()["volumes"], template["volumes"]):
        assert (
            "bookkeeper-auditor"
            == volumes[0]["configMap"]["name"]
            == volumes[1]["persistentVolumeClaim"]["claimName"]
        )
    base = load(KUBERNETES / "base" / "kustomization.yaml")
    assert base["generatorOptions"]["disableNameSuffixHash"], (
        "kustomize writes no hash into kinds that it does not know"
    )
    recipe = (DEPLOY / "docker/auditor.Dockerfile").read_text()
    assert f"--tag {container['image']} ." in recipe
    assert (DEPLOY / "spark-submit" / Path(template["mainApplicationFile"]).name).is_file()
    assert (
        re.search(r'^ENTRYPOINT \["auditor"\]$', recipe, re.MULTILINE)
        and "command" not in container
    )


def test_only_an_exit_code_that_another_try_may_change_is_tried_again():
    """As deploy/README.md says: 1, 2 and 4 are not retried."""
    job = load(CRONJOB)["spec"]["jobTemplate"]["spec"]
    (codes,) = [
        rule["onExitCodes"]["values"]
        for rule in job["podFailurePolicy"]["rules"]
        if "onExitCodes" in rule
    ]
    assert ([1, 2, 4], 2, "Never") == (codes, job["backoffLimit"], pod()["restartPolicy"])
    assert (
        "Forbid"
        == load(CRONJOB)["spec"]["concurrencyPolicy"]
        == load(SPARK)["spec"]["concurrencyPolicy"]
    )


def test_the_pod_may_do_little():
    """It does not run as root, and has no token, no privilege, and nothing writable except its
    volumes; the user is the image's.
    """
    own, (container,) = pod()["securityContext"], pod()["containers"]
    assert own["runAsNonRoot"] and pod()["automountServiceAccountToken"] is False
    assert (
        f"USER {own['runAsUser']}:{own['runAsGroup']}\n"
        in (DEPLOY / "docker/auditor.Dockerfile").read_text()
    )
    expected = {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert expected == container["securityContext"]


def test_pods_of_the_auditor_get_no_variables_of_services():
    """A Service named `auditor` would put AUDITOR_PORT and others beside our settings."""
    driver = load(SPARK)["spec"]["template"]["driver"]["template"]["spec"]
    assert [False, False] == [one["enableServiceLinks"] for one in (pod(), driver)]
