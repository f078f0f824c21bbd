"""Files elsewhere than on a local disk: faults are sentences, and paths are those of the URI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec import AbstractFileSystem
from pyarrow import fs

from auditor.commands.page import has_page
from auditor.errors import OutputError
from auditor.evidence import file_systems
from auditor.evidence.file_systems import is_hdfs, is_object_store, refuse_secrets
from auditor.evidence.hdfs_files import HdfsFiles
from auditor.evidence.local_files import own_umask
from auditor.evidence.run_directory import Place, place


class OutOfOrder(AbstractFileSystem):
    """A file system that fails as hdfs-native does."""

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        raise RuntimeError("StandbyException: not in state standby\n\tat java.base/x.Y(Y.java:1)")


def test_a_name_node_that_fails_is_a_sentence():
    """This includes a check whether a file exists."""
    run = Place(fs.PyFileSystem(fs.FSSpecHandler(OutOfOrder())), "/audits", "hdfs://nn/audits")
    for ask in (lambda: run.has_table("evidence/marks"), lambda: has_page(run)):
        with pytest.raises(OutputError) as raised:
            ask()
        assert str(raised.value).startswith("cannot read hdfs://nn/audits/")
        assert str(raised.value).endswith(": StandbyException: not in state standby")


@pytest.mark.parametrize("port", ["x", "70000"])
def test_the_port_of_a_name_node_is_a_number(port: str):
    """Exit 2, not a fault of ours."""
    with pytest.raises(OutputError, match="the port of a name node is a number"):
        place(f"hdfs://nn:{port}/p")


@pytest.mark.parametrize(
    ("uri", "named"),
    [
        ("s3a://bucket/audits?secret=k", "s3a://bucket/audits"),
        ("s3a://key:a*b@bucket/audits", "s3a://bucket/audits"),
        ("gs://bucket/audits?secret=k", "gs://bucket/audits"),
        ("abfs://fs:secret@account/audits", "abfs://account/audits"),
        ("s3a://key:se/cret@bucket/audits", "s3a://..."),
        ("s3a://key:se?cret@bucket/audits", "s3a://..."),
        ("s3a://key@bucket/audits", "s3a://bucket/audits"),
        ("s3://key@bucket/audits", "s3://bucket/audits"),
        ("hdfs://user@nn/audits", "hdfs://nn/audits"),
        ("s3a://key:secret@bucket/audits://x", "s3a://bucket/audits://x"),
        ("s3a://bucket/audits?a=k?b=k#c", "s3a://bucket/audits"),
    ],
)
def test_no_message_repeats_secrets_of_a_uri(uri: str, named: str):
    """Nor one about another fault of the URI."""
    with pytest.raises(OutputError, match="without credentials") as refused:
        place(uri)
    assert str(refused.value).startswith(f"{named}: ")


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("hdfs://127.0.0.1:1//b///prod/", "/b/prod"),
        ("hdfs://127.0.0.1:1/b/prod", "/b/prod"),
        ("hdfs://127.0.0.1:1/", ""),
    ],
)
def test_slashes_in_a_row_are_one(uri: str, path: str):
    """As in Hadoop. A path with two at its beginning was taken for a host and a path."""
    assert path == place(uri).path


@pytest.mark.parametrize("path", ["//b/prod", "/b/a;c", "/b/a:c"])
def test_a_path_in_hdfs_is_not_taken_for_a_url(path: str):
    """pyarrow gives plain paths."""
    assert path == HdfsFiles._strip_protocol(path)
    assert "/" == HdfsFiles._strip_protocol("")


@pytest.mark.parametrize(
    "uri",
    [
        "abfs://container@account.example/audits",
        "s3a://bucket/audits@home",
        "hdfs://nn:8020/audits",
        "hdfs://a,b:8020/audits",
        "gs://bucket",
    ],
)
def test_a_uri_without_secrets_is_let_through(uri: str):
    """A container of Azure, an @ in a path, and a name service that Hadoop resolves."""
    refuse_secrets(uri)


VARIABLES = (
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_CA_BUNDLE",
)
FIXED = {"connect_timeout": 10.0, "request_timeout": 60.0, "allow_delayed_open": True}
"""How every S3 is opened, beside its place and how often requests are repeated."""


class S3:
    """What pyarrow is asked to open, and Amazon which region a bucket is in."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.opened: list[dict[str, Any]] = []
        self.buckets: list[str] = []

    def open(self, **options: Any) -> fs.FileSystem:
        assert 5 == options.pop("retry_strategy").max_attempts
        self.opened.append(options)
        return fs.LocalFileSystem()

    def region_of(self, bucket: str) -> str:
        self.buckets.append(bucket)
        return "ap-south-1"

    def place(self, uri: str, **variables: str) -> Place:
        """Open a URI with these variables."""
        file_systems._s3_file_system.cache_clear()
        for name in VARIABLES:
            self.patch.delenv(name, raising=False)
        for name, value in variables.items():
            self.patch.setenv(name, value)
        return place(uri)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    found = S3(monkeypatch)
    monkeypatch.setattr("pyarrow.fs.S3FileSystem", found.open)
    monkeypatch.setattr("pyarrow.fs.resolve_s3_region", found.region_of)
    yield found
    file_systems._s3_file_system.cache_clear()


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({"AWS_ENDPOINT_URL": "http://a"}, "http://a"),
        ({"AWS_ENDPOINT_URL_S3": "http://b"}, "http://b"),
        ({"AWS_ENDPOINT_URL": "http://a", "AWS_ENDPOINT_URL_S3": "http://b"}, "http://b"),
        ({"AWS_ENDPOINT_URL_S3": "", "AWS_ENDPOINT_URL": ""}, None),
    ],
)
def test_the_server_is_that_of_the_variables(
    s3: S3, variables: dict[str, str], endpoint: str | None
):
    """The one for S3 goes before the one for all services."""
    s3.place("s3a://bucket/audits", AWS_REGION="eu-north-1", **variables)
    assert [{"region": "eu-north-1", "endpoint_override": endpoint, **FIXED}] == s3.opened


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({"AWS_REGION": "a"}, "a"),
        ({"AWS_DEFAULT_REGION": "b"}, "b"),
        ({"AWS_REGION": "a", "AWS_DEFAULT_REGION": "b"}, "a"),
    ],
)
def test_the_region_is_that_of_the_variables(s3: S3, variables: dict[str, str], region: str):
    """Amazon is not asked for what is known."""
    s3.place("s3a://bucket/audits", **variables)
    assert [{"region": region, "endpoint_override": None, **FIXED}] == s3.opened
    assert [] == s3.buckets


def test_amazon_is_asked_once_for_a_region_that_nobody_names(s3: S3):
    """Only Amazon knows it."""
    s3.place("s3a://bucket/audits")
    place("s3a://bucket/other")
    assert [{"region": "ap-south-1", "endpoint_override": None, **FIXED}] == s3.opened
    assert ["bucket"] == s3.buckets


def test_amazon_is_not_asked_for_the_region_of_another_store(s3: S3):
    """It knows nothing of its buckets."""
    s3.place("s3a://bucket/audits", AWS_ENDPOINT_URL="http://a")
    assert [{"region": None, "endpoint_override": "http://a", **FIXED}] == s3.opened
    assert [] == s3.buckets


def test_the_certificates_are_those_of_the_variables(s3: S3):
    """As the SDK takes them."""
    s3.place("s3a://bucket/audits", AWS_REGION="a", AWS_CA_BUNDLE="/etc/ca.pem")
    expected = {"region": "a", "endpoint_override": None, "tls_ca_file_path": "/etc/ca.pem"}
    assert [{**expected, **FIXED}] == s3.opened


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize(
    ("rest", "path"),
    [("bucket/auditsX/", "bucket/auditsX"), ("bucket/a//b//", "bucket/a//b"), ("bucket", "bucket")],
)
def test_a_path_in_s3_begins_with_its_bucket(s3: S3, scheme: str, rest: str, path: str):
    """Slashes at its end are not a part of it."""
    found = s3.place(f"{scheme}://{rest}", AWS_REGION="a")
    assert (path, f"{scheme}://{rest}".rstrip("/")) == (found.path, found.uri)


@pytest.mark.parametrize("uri", ["s3a:///audits", "s3a://"])
def test_a_uri_without_a_bucket_is_refused(s3: S3, uri: str):
    """pyarrow would take the first directory for it."""
    with pytest.raises(OutputError, match="names no bucket"):
        s3.place(uri)
    assert [] == s3.opened


def test_a_name_node_is_opened_once():
    """By the address in the URI. Each holds connections."""
    first, again = place("hdfs://127.0.0.1:7/a/"), place("hdfs://127.0.0.1:7/bX/")
    files = first.files.handler.fs
    assert ("127.0.0.1", 7) == (files.host, files.port)
    assert files is again.files.handler.fs
    assert "/bX" == again.path


def test_another_file_system_is_pyarrows(tmp_path: Path):
    """Its path has no slash at its end."""
    found = place(f"file://{tmp_path}/auditsX/")
    assert isinstance(found.files, fs.LocalFileSystem)
    assert f"{tmp_path}/auditsX" == found.path
    assert "audits/ofX" == place("mock:///audits/ofX//").path


def test_a_file_appears_whole_in_an_object_store_only():
    """Elsewhere it is there while it is written."""
    s3 = fs.S3FileSystem(anonymous=True, region="eu-north-1")
    hdfs = place("hdfs://127.0.0.1:7/a").files
    assert [True, False, False] == [*map(is_object_store, (s3, hdfs, fs.LocalFileSystem()))]
    assert [False, True, False] == [*map(is_hdfs, (s3, hdfs, fs.LocalFileSystem()))]


@pytest.mark.parametrize("mask", [0o027, 0o077, 0])
def test_the_umask_is_read_and_not_changed(mask: int):
    """It belongs to the whole process."""
    before = os.umask(mask)
    try:
        assert mask == own_umask()
    finally:
        assert mask == os.umask(before)


def test_what_another_thread_makes_while_the_umask_is_read_is_private(
    monkeypatch: pytest.MonkeyPatch,
):
    """It can only be read by setting it. Files of a run may name hosts."""
    masks: list[int] = [0o022]

    def swap(mask: int) -> int:
        masks.append(mask)
        return masks[-2]

    monkeypatch.setattr(os, "umask", swap)
    assert 0o022 == own_umask()
    assert [0o022, 0o077, 0o022] == masks
