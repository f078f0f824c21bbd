"""Open the file system that a URI names: S3, HDFS, or another one that pyarrow knows.

Addresses and credentials of a store come from the environment and the files of its own SDK
(AWS_ENDPOINT_URL, AWS_PROFILE, HADOOP_CONF_DIR ...), never from the URI: every user of a host can
read its command lines.

`S3Objects` makes conditional requests to single objects, which pyarrow does not offer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from auditor.errors import OutputError

S3_CONNECT_TIMEOUT_S = 10.0
"""How long a connection to an S3 endpoint may take. In a data centre it takes milliseconds."""
S3_REQUEST_TIMEOUT_S = 60.0
"""How long one S3 request may go without an answer. A part of an upload has 10 MB."""
S3_ATTEMPTS_MAX = 5
"""An S3 request is sent at most this often before it fails. S3 asks its clients to repeat requests
that it throttles."""

_S3_SCHEMES = ("s3", "s3a")
_OPTIONS = re.compile("[?#]")
_SLASHES = re.compile("/+")
_HOST = re.compile(r"[^:]*(:\d*)?")
"""A host, with or without a port."""
_OBJECT_STORES = ("s3", "gcs", "abfs")
"""Arrow's names of file systems in which a file appears only when its stream is closed."""


def open_file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a URI, and the path in it without a slash at its end.

    Pass a URI that `refuse_secrets` let through. Raises OutputError for a port that is not a number
    and for a library that is missing. Raises OSError or ArrowException for a file system that
    pyarrow does not know.
    """
    parts = urlsplit(uri)
    if parts.scheme in _S3_SCHEMES:
        if not parts.netloc:
            raise OutputError(f"{uri} names no bucket: write s3a://BUCKET/PATH")
        return _s3_file_system(parts.netloc), f"{parts.netloc}{parts.path}".rstrip("/")
    if parts.scheme == "hdfs":
        _refuse_other_port(uri)
        return _hdfs(parts.netloc), _SLASHES.sub("/", parts.path).rstrip("/")
    files, path = fs.FileSystem.from_uri(uri)
    return files, path.rstrip("/")


def is_object_store(files: fs.FileSystem) -> bool:
    """Return whether a file appears only when it is complete, and replaces the old one in one
    step.
    """
    return files.type_name in _OBJECT_STORES


def is_hdfs(files: fs.FileSystem) -> bool:
    """Return whether this is an HDFS that `open_file_system` opened."""
    return isinstance(files, fs.PyFileSystem)


def s3_endpoint() -> str | None:
    """Return the URL of an S3 server that is not Amazon's, from the variables of the AWS SDK."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def s3_region() -> str | None:
    """Return the region of S3 that the variables of the AWS SDK name."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None


def refuse_secrets(uri: str) -> None:
    """Raise OutputError for a URI with options, or with what may be a user's password or key.

    The message does not repeat them. A container of Azure is written before an @ and is not
    refused.
    """
    scheme, _, rest = uri.partition("://")
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    is_of_store = scheme in (*_S3_SCHEMES, "hdfs")
    has_key = ":" in user or bool(user and is_of_store)
    # A key may contain a slash, which ends the authority.
    is_cut = bool(_OPTIONS.search(authority)) or (scheme != "hdfs" and not _HOST.fullmatch(host))
    if not (has_key or is_cut or _OPTIONS.search(path)):
        return
    shown = "..." if is_cut else f"{host}{slash}{_OPTIONS.split(path, maxsplit=1)[0]}"
    raise OutputError(
        f"{scheme}://{shown}: write this URI without credentials and options; they are read from"
        " the environment (docs/output.md)"
    )


def _refuse_other_port(uri: str) -> None:
    try:
        _ = urlsplit(uri).port
    except ValueError:
        raise OutputError(f"{uri}: the port of a name node is a number of at most 65535") from None


@cache
def _s3_file_system(bucket: str) -> fs.S3FileSystem:
    """Return the file system of a bucket.

    Asks Amazon for the bucket's region if neither a region nor an endpoint is set.
    """
    endpoint = s3_endpoint()
    region = s3_region()
    if not region and not endpoint:
        region = fs.resolve_s3_region(bucket)
    bundle = os.environ.get("AWS_CA_BUNDLE")
    return fs.S3FileSystem(
        region=region,
        endpoint_override=endpoint,
        connect_timeout=S3_CONNECT_TIMEOUT_S,
        request_timeout=S3_REQUEST_TIMEOUT_S,
        allow_delayed_open=True,  # one request for a small file, not three
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=S3_ATTEMPTS_MAX),
        **({"tls_ca_file_path": bundle} if bundle else {}),
    )


@cache
def _hdfs(authority: str) -> fs.PyFileSystem:
    """Return the HDFS of a name service, or of a name node as `host:port`; "" is Hadoop's default.

    Reads core-site.xml and hdfs-site.xml in HADOOP_CONF_DIR, and the ticket cache of Kerberos.
    """
    try:
        from auditor.evidence.hdfs_files import HdfsFiles
    except ModuleNotFoundError:
        raise OutputError(
            "an output in HDFS needs the package hdfs-native: pip install"
            " 'bookkeeper-cluster-auditor[hdfs]'"
        ) from None
    return fs.PyFileSystem(fs.FSSpecHandler(HdfsFiles(authority)))


CONNECT_TIMEOUT_S = 5.0
"""How long a connection may take: less than for files, because a lease lapses meanwhile."""
READ_TIMEOUT_S = 10.0
"""How long an object of some hundred bytes may go without an answer."""
ATTEMPTS_MAX = 2
"""A request is sent at most this often. A renewal that fails takes at most half of a lease, and is
tried again."""
LOCK_BYTES_MAX = 4_096
"""At most this many bytes of a lock are read: ours has some hundred."""

_CHANGED = (404, 409, 412)
"""Status codes of a request whose condition is false, or cannot be checked at this moment."""
_UNSUPPORTED = 501


class ConditionUnsupportedError(Exception):
    """The store refuses conditional requests."""


class S3Objects:
    """The objects of one bucket below a prefix. ETags are the store's own.

    Each method raises OutputError if a request fails.
    """

    def __init__(self, path: str, uri: str, region: str) -> None:
        """Take the place as pyarrow and as Spark name it. Raises OutputError without botocore."""
        self.bucket, _, self.prefix = path.partition("/")
        self.uri = uri
        self._client = _make_client(region)

    @property
    def endpoint(self) -> str:
        """The URL of the server that is asked."""
        return str(self._client.meta.endpoint_url)

    def put(self, name: str, body: bytes, replaced: str | None) -> str | None:
        """Write an object, and return its ETag; None if its ETag is no longer `replaced`.

        If `replaced` is None, the object is written only if it does not exist. Raises
        ConditionUnsupportedError.
        """
        condition = {"IfNoneMatch": "*"} if replaced is None else {"IfMatch": replaced}
        with self._errors("write", name), _none_if_changed() as answer:
            written = self._client.put_object(
                Bucket=self.bucket, Key=self._key(name), Body=body, **condition
            )
            answer.append(str(written["ETag"]))
        return answer[0] if answer else None

    def read(self, name: str) -> tuple[bytes, str] | None:
        """Return the content and the ETag of an object, or None if it does not exist."""
        with self._errors("read", name), _none_if_changed():
            found = self._client.get_object(Bucket=self.bucket, Key=self._key(name))
            return found["Body"].read(LOCK_BYTES_MAX), str(found["ETag"])
        return None

    def etag(self, name: str) -> str | None:
        """Return the ETag of an object, or None if it does not exist."""
        with self._errors("read", name), _none_if_changed() as answer:
            found = self._client.head_object(Bucket=self.bucket, Key=self._key(name))
            answer.append(str(found["ETag"]))
        return answer[0] if answer else None

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        with self._errors("remove", name):
            self._client.delete_object(Bucket=self.bucket, Key=self._key(name))

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    @contextmanager
    def _errors(self, what: str, name: str) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError) as error:
            raise OutputError(f"cannot {what} {self.uri}/{name}: {error}") from error


@contextmanager
def _none_if_changed() -> Iterator[list[str]]:
    """Yield a list to which the caller adds the answer: it stays empty if a condition is false."""
    from botocore.exceptions import ClientError

    try:
        yield []
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if status == _UNSUPPORTED:
            raise ConditionUnsupportedError(str(error)) from error
        if status not in _CHANGED or _is_of_bucket(error):
            raise


def _is_of_bucket(error: Any) -> bool:
    return bool(error.response.get("Error", {}).get("Code") == "NoSuchBucket")


def _make_client(region: str) -> Any:
    try:
        from botocore.config import Config
        from botocore.session import Session
    except ModuleNotFoundError:
        raise OutputError(
            "a run into S3 needs the package botocore for its lock: pip install"
            " 'bookkeeper-cluster-auditor[s3]'"
        ) from None
    return Session().create_client(
        "s3",
        region_name=region or None,
        endpoint_url=s3_endpoint(),
        config=Config(
            ignore_configured_endpoint_urls=True,  # pyarrow and Spark do not read them
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS_MAX},
            s3={"addressing_style": "path"} if s3_endpoint() else {},
        ),
    )
