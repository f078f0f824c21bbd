"""The Helm chart: Helm's own code lints and renders it, and what it renders matches Kubernetes'
schemas, the auditor's settings and the CronJob in deploy/kubernetes.

Helm comes as a library in a wheel. With CI=true it must be installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.deployed import DEPLOY, unknown_flags

from auditor.config import Layers, parse

try:
    from helm_python.chart import Chart, lint
    from helm_python.errors import HelmValuesError
except ImportError:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip("helm-python-sdk is not installed: make setup", allow_module_level=True)

CHART = DEPLOY / "helm" / "bookkeeper-auditor"
PLAIN = DEPLOY / "kubernetes"
URI = "zk+hierarchical://zookeeper:2181/ledgers"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
WAIT_S = 120
VALUES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "listers": {"listers": {"port": 3182}},
    "digest": {"image": {"repository": "registry/auditor", "digest": DIGEST}},
    "claim": {"persistence": {"existingClaim": "audits"}},
    "object store": {
        "settings": {"output": "s3a://bucket/audits"},
        "persistence": {"enabled": False},
        "env": [{"name": "AWS_REGION", "value": "eu-1"}],
        "serviceAccount": {"annotations": {"role": "auditor"}},
    },
    "all": {
        "settings": {"topology": ["zookeeper", "/etc/racks"], "bookie_requests_per_second": 2000},
        "timeZone": "Etc/UTC",
        "suspend": True,
        "imagePullSecrets": [{"name": "registry"}],
        "extraArgs": ["--fail-on=new"],
        "persistence": {"storageClass": "fast", "size": "50Gi"},
        "serviceAccount": {"create": False, "name": "auditors"},
        "podAnnotations": {"team": "storage"},
        "podLabels": {"team": "storage"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "batch", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "extraVolumes": [{"name": "tls", "secret": {"secretName": "tls"}}],
        "extraVolumeMounts": [{"name": "tls", "mountPath": "/etc/tls", "readOnly": True}],
    },
}


def with_uri(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"settings": {"metadata_service_uri": URI} | values.get("settings", {})}


def rendered(values: dict[str, Any], release: str = "bookkeeper-auditor") -> dict[str, Any]:
    """Return the resources that the chart makes, by kind."""
    with Chart.load(CHART) as chart:
        texts = chart.render(with_uri(values), name=release, namespace="audits")
    found = [yaml.safe_load(text) for name, text in texts.items() if name.endswith(".yaml")]
    return {one["kind"]: one for one in found if one}


def pod_of(cronjob: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = cronjob["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_helm_has_nothing_to_say_and_kubernetes_takes_each_resource(
    tmp_path: Path, values: dict[str, Any]
):
    """By Helm's linter, and by the schemas that come with kubernetes-validate."""
    found = lint(CHART, with_uri(values), strict=True, kube_version="v1.30.0")
    assert [] == found["errors"]
    file = tmp_path / "resources.yaml"
    file.write_text(yaml.safe_dump_all(rendered(values).values()))
    program = Path(sys.executable).with_name("kubernetes-validate")
    done = subprocess.run(
        [program, "--strict", "--quiet", str(file)],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"settings": {"metadata_service_uri": ""}}, "metadata_service_uri"),
        ({"schedul": "0 3 * * *"}, "schedul"),
        ({"image": {"repository": "x", "digest": "latest"}}, "digest"),
        ({"settings": {"output": {"path": "/x"}}}, "output"),
        ({"listers": {"port": -1}}, "port"),
    ],
)
def test_values_that_mean_nothing_are_refused(values: dict[str, Any], says: str):
    """Before anything is installed, with the name of the value."""
    with Chart.load(CHART) as chart, pytest.raises(HelmValuesError, match=says):
        chart.validate_schema(with_uri(values))


def test_the_cronjob_is_that_of_the_plain_files():
    """Apart from names and labels, and what the chart adds of its own."""
    made = rendered({})["CronJob"]
    plain = yaml.safe_load((PLAIN / "overlays/cronjob/cronjob.yaml").read_text())
    template = made["spec"]["jobTemplate"]["spec"]["template"]
    labels = template.pop("metadata")["labels"]
    assert labels == made["metadata"]["labels"]
    assert plain["spec"] == made["spec"] and plain["metadata"]["name"] == made["metadata"]["name"]


def test_the_other_resources_are_those_of_the_plain_files():
    """The account without a token, and the claim, which outlives the release."""
    made = rendered({})
    account = yaml.safe_load((PLAIN / "base/service-account.yaml").read_text())
    claim = yaml.safe_load((PLAIN / "base/output.yaml").read_text())
    assert account["automountServiceAccountToken"] is False
    assert made["ServiceAccount"]["automountServiceAccountToken"] is False
    assert claim["spec"] == made["PersistentVolumeClaim"]["spec"]
    kept = made["PersistentVolumeClaim"]["metadata"]["annotations"]
    assert {"helm.sh/resource-policy": "keep"} == kept


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_configuration_is_one_of_the_auditor(values: dict[str, Any]):
    """Each key is a setting with a value that it takes, and each argument an option of `run`."""
    made = rendered(values)
    settings = parse(
        Layers(file=tomllib.loads(made["ConfigMap"]["data"]["auditor.toml"])), command="run"
    )
    assert URI == settings.metadata_service_uri
    assert values.get("listers", {}).get("port", 0) == settings.lister_port
    (container,) = pod_of(made["CronJob"])["containers"]
    assert "run" == container["args"][0] and set() == unknown_flags(container["args"][1:])
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    if "output" in mounts:
        assert settings.output == mounts["output"]
    else:
        assert settings.output.startswith("s3a://") and "PersistentVolumeClaim" not in made


def test_an_image_is_named_by_its_digest_where_one_is_given():
    """A tag may be moved; the digest is the image that was tried."""
    images = [
        pod_of(rendered(VALUES[name])["CronJob"])["containers"][0]
        for name in ("as it is", "digest")
    ]
    assert ["bookkeeper-cluster-auditor:latest", f"registry/auditor@{DIGEST}"] == [
        one["image"] for one in images
    ]
    assert {"IfNotPresent"} == {one["imagePullPolicy"] for one in images}


def test_two_releases_do_not_share_names():
    """A cluster may be audited in the namespace of another one."""
    names = {
        resource["metadata"]["name"]
        for release in ("east", "west")
        for resource in rendered({}, release).values()
    }
    assert {"east-bookkeeper-auditor", "west-bookkeeper-auditor"} == names


def test_an_account_and_a_claim_may_be_those_that_are_there():
    """Then the chart makes none."""
    account = pod_of(rendered(VALUES["all"])["CronJob"])["serviceAccountName"]
    claim = rendered(VALUES["claim"])
    volumes = {one["name"]: one for one in pod_of(claim["CronJob"])["volumes"]}
    assert ("auditors", "audits") == (
        account,
        volumes["output"]["persistentVolumeClaim"]["claimName"],
    )
    assert "ServiceAccount" not in rendered(VALUES["all"]) and "PersistentVolumeClaim" not in claim
