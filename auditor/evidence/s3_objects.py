"""Conditional requests to single S3 objects, which pyarrow does not offer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from auditor.errors import OutputError
from auditor.evidence.file_systems import s3_endpoint

CONNECT_TIMEOUT_S = 5.0
"""How long a connection may take: less than for files, since a lease lapses meanwhile."""
READ_TIMEOUT_S = 10.0
"""How long an object of some hundred bytes may go without an answer."""
ATTEMPTS_MAX = 2
"""How often one request is sent. A renewal that fails takes half of a lease at most, and is tried
again.
"""
LOCK_BYTES_MAX = 4_096
"""How much is read of a lock: ours has some hundred bytes."""

_CHANGED = (404, 409, 412)
"""Status codes of a conditional request whose condition does not hold, or not at this moment."""
_NOT_FOUND = 404
_UNSUPPORTED = 501


class ConditionUnsupportedError(Exception):
    """The store refuses conditional requests."""


class S3Objects:
    """Objects of one bucket below a prefix. ETags are those that the store gave.

    Each method raises OutputError for a request that failed.
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
        """Write an object, and return its ETag; None where its ETag is not `replaced` any more.

        `replaced` of None writes only an object that does not exist. Raises
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
        """Return the content and the ETag of an object, or None where there is none."""
        with self._errors("read", name), _none_if_changed():
            found = self._client.get_object(Bucket=self.bucket, Key=self._key(name))
            return found["Body"].read(LOCK_BYTES_MAX), str(found["ETag"])
        return None

    def etag(self, name: str) -> str | None:
        """Return the ETag of an object, or None where there is none."""
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
    """Yield a list for the answer, which stays empty where a condition does not hold."""
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
