"""Conditional requests to S3: what botocore is asked, and what its answers mean.

botocore's own Stubber holds each request against the parameters that are expected of it. The same
laws hold on a real server in `tests/outputs/test_outputs_s3_lease.py`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from botocore.stub import Stubber

from auditor.errors import OutputError
from auditor.evidence.file_systems import LOCK_BYTES_MAX, ConditionUnsupportedError, S3Objects

URI = "s3a://bucket/deep/audits"
OF_LOCK = {"Bucket": "bucket", "Key": "deep/audits/.lock"}
OLD, NEW = '"old"', '"new"'


@pytest.fixture(autouse=True, scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The variables and files of an SDK that knows credentials and a region."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            patch.setenv(name, str(tmp_path_factory.mktemp("sdk") / "none"))
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-west-2")
        yield


@pytest.fixture(scope="module")
def objects(sdk: None) -> S3Objects:
    """One for all tests: to make a client takes a second."""
    return S3Objects("bucket/deep/audits", URI, "eu-north-1")


@pytest.fixture
def stub(objects: S3Objects) -> Iterator[Stubber]:
    with Stubber(objects._client) as found:
        yield found
        found.assert_no_pending_responses()


def test_an_object_that_does_not_exist_is_written(objects: S3Objects, stub: Stubber):
    """The store is asked to write it in this case only, and its ETag comes back."""
    expected = {**OF_LOCK, "Body": b"text", "IfNoneMatch": "*"}
    stub.add_response("put_object", {"ETag": NEW}, expected)
    assert NEW == objects.put(".lock", b"text", None)


def test_an_object_that_is_known_is_replaced(objects: S3Objects, stub: Stubber):
    """Where it has the ETag that the caller knows, and not elsewhere."""
    expected = {**OF_LOCK, "Body": b"text", "IfMatch": OLD}
    stub.add_response("put_object", {"ETag": NEW}, expected)
    assert NEW == objects.put(".lock", b"text", OLD)


def test_the_etag_of_an_object_is_that_of_the_store(objects: S3Objects, stub: Stubber):
    """Its content is not asked for."""
    stub.add_response("head_object", {"ETag": OLD}, OF_LOCK)
    assert OLD == objects.etag(".lock")


def test_an_object_is_read_with_its_etag_up_to_a_bound(objects: S3Objects, stub: Stubber):
    """Somebody else may have put anything there."""
    content = b"a" * LOCK_BYTES_MAX + b"and more"
    body = StreamingBody(io.BytesIO(content), len(content))
    stub.add_response("get_object", {"ETag": OLD, "Body": body}, OF_LOCK)
    assert (b"a" * LOCK_BYTES_MAX, OLD) == objects.read(".lock")


def test_an_object_is_removed_by_its_name(objects: S3Objects, stub: Stubber):
    """Whatever its content is."""
    stub.add_response("delete_object", {}, OF_LOCK)
    objects.delete(".lock")


def test_an_output_may_be_a_whole_bucket():
    """Then nothing stands before the name of an object."""
    objects = S3Objects("bucket", "s3a://bucket", "eu-north-1")
    with Stubber(objects._client) as of_bucket:
        of_bucket.add_response("delete_object", {}, {"Bucket": "bucket", "Key": ".lock"})
        objects.delete(".lock")
        of_bucket.assert_no_pending_responses()


USES = {
    "put_object": ("write", lambda objects: objects.put(".lock", b"text", OLD)),
    "get_object": ("read", lambda objects: objects.read(".lock")),
    "head_object": ("read", lambda objects: objects.etag(".lock")),
    "delete_object": ("remove", lambda objects: objects.delete(".lock")),
}
"""Each request, the word for it in an error, and how it comes to be."""
CONDITIONAL = sorted(USES.keys() - {"delete_object"})


@pytest.mark.parametrize("request_name", CONDITIONAL)
@pytest.mark.parametrize("status", [404, 409, 412])
def test_an_object_that_is_not_as_expected_is_none(
    objects: S3Objects, stub: Stubber, request_name: str, status: int
):
    """It is not there, it is being written, or it has another ETag."""
    stub.add_client_error(request_name, "NoSuchKey", http_status_code=status)
    assert USES[request_name][1](objects) is None


@pytest.mark.parametrize("request_name", CONDITIONAL)
def test_a_store_without_conditions_says_so(objects: S3Objects, stub: Stubber, request_name: str):
    """501 is an answer of the store, and not a failed request."""
    stub.add_client_error(request_name, "NotImplemented", http_status_code=501)
    with pytest.raises(ConditionUnsupportedError, match="NotImplemented"):
        USES[request_name][1](objects)


@pytest.mark.parametrize(("request_name", "use"), USES.items())
@pytest.mark.parametrize(("code", "status"), [("NoSuchBucket", 404), ("AccessDenied", 403)])
def test_a_request_that_failed_is_a_sentence(
    objects: S3Objects,
    stub: Stubber,
    request_name: str,
    use: tuple[str, Callable[[S3Objects], object]],
    code: str,
    status: int,
):
    """It says what could not be done, to which object, and what the store said. A missing bucket
    is a failure, and not a missing object.
    """
    stub.add_client_error(request_name, code, "as the store says", http_status_code=status)
    with pytest.raises(OutputError) as raised:
        use[1](objects)
    said = str(raised.value)
    assert said.startswith(f"cannot {use[0]} {URI}/.lock: ")
    assert code in said and said.endswith("as the store says")


@pytest.mark.parametrize("response", [{}, {"ResponseMetadata": {}}, {"Error": {}}])
def test_an_error_that_says_nothing_is_an_error(
    objects: S3Objects, monkeypatch: pytest.MonkeyPatch, response: dict[str, Any]
):
    """A proxy may answer without a body and a status that botocore knows."""

    def fail(**_: object) -> None:
        raise ClientError(response, "PutObject")

    monkeypatch.setattr(objects._client, "put_object", fail)
    with pytest.raises(OutputError, match=r"cannot write s3a://bucket/deep/audits/\.lock"):
        objects.put(".lock", b"text", None)


def test_an_object_that_is_not_there_need_not_have_a_code(
    objects: S3Objects, monkeypatch: pytest.MonkeyPatch
):
    """The answer to HEAD has no body. The code of an error would be in it."""

    def fail(**_: object) -> None:
        raise ClientError({"ResponseMetadata": {"HTTPStatusCode": 404}}, "HeadObject")

    monkeypatch.setattr(objects._client, "head_object", fail)
    assert objects.etag(".lock") is None


def opened(region: str = "eu-north-1") -> S3Objects:
    """Return objects with a client of their own."""
    return S3Objects("bucket/deep/audits", URI, region)


def addressed(objects: S3Objects) -> str:
    """Return the URL to which a request for the lock goes."""
    return str(objects._client.generate_presigned_url("get_object", OF_LOCK)).partition("?")[0]


def test_the_place_is_that_of_the_files():
    """As pyarrow names it, and as Spark does in sentences."""
    found = opened()
    assert ("bucket", "deep/audits", URI) == (found.bucket, found.prefix, found.uri)


@pytest.mark.parametrize(("region", "used"), [("eu-north-1", "eu-north-1"), ("", "us-west-2")])
def test_the_region_is_that_of_the_files(region: str, used: str):
    """Where they have none it is what the SDK knows."""
    assert used == opened(region)._client.meta.region_name


def test_requests_end_soon_and_are_repeated_once():
    """A lease lapses meanwhile."""
    config = opened()._client.meta.config
    assert (5.0, 10.0) == (config.connect_timeout, config.read_timeout)
    assert {"mode": "standard", "total_max_attempts": 2} == config.retries


CONFIGURED = """[default]
endpoint_url = http://127.0.0.1:9
region = eu-central-1
s3 =
  addressing_style = virtual
"""


def test_the_lock_is_on_the_server_of_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Files take the server from variables only, so an AWS configuration file does not count. A
    bucket is a host at Amazon, and a path at another server.
    """
    (tmp_path / "config").write_text(CONFIGURED)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    of_amazon = opened()
    assert "https://s3.eu-north-1.amazonaws.com" == of_amazon.endpoint
    assert addressed(of_amazon).startswith("https://bucket.s3.")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://minio.example:9000")
    of_store = opened()
    assert "https://minio.example:9000" == of_store.endpoint
    assert "https://minio.example:9000/bucket/deep/audits/.lock" == addressed(of_store)
