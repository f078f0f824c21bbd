"""An S3-compatible server on the loopback interface: moto's, with the buckets and the conditional
writes of S3.

    with s3_server() as server:
        server.environment            # what a client needs: AWS_ENDPOINT_URL and credentials
        server.keeps_conditions = False   # as an old server: If-None-Match and If-Match are ignored
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.session import Session
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

CONDITIONS = ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH")


@dataclass
class S3Server:
    """A server at `endpoint`. `requests` are those it received, such as `PUT /bucket/key`."""

    endpoint: str
    keeps_conditions: bool = True
    is_out_of_order: bool = False
    """Answer each request with status 503."""
    requests: list[str] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "auditor",
            "AWS_SECRET_ACCESS_KEY": "of-the-test",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self) -> Any:
        """Return a client for the test itself."""
        return Session().create_client(
            "s3",
            region_name="eu-central-1",
            endpoint_url=self.endpoint,
            aws_access_key_id="auditor",
            aws_secret_access_key="of-the-test",
        )

    def make_bucket(self, name: str) -> None:
        self.client().create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )

    def keys(self, bucket: str) -> list[str]:
        """Return the keys of a bucket, sorted."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return sorted(one["Key"] for page in pages for one in page.get("Contents", ()))


class _Silent(WSGIRequestHandler):
    def log_request(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Yield a server that is removed at the end, with everything it holds."""
    server = S3Server("")
    one_at_a_time = threading.Lock()  # moto checks a condition and writes in two steps
    moto = DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        server.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        if server.is_out_of_order:
            start("503 Service Unavailable", [("Content-Length", "0")])
            return []
        if not server.keeps_conditions:
            for name in CONDITIONS:
                environ.pop(name, None)
        with one_at_a_time:
            return list(moto(environ, start))

    listening = make_server("127.0.0.1", 0, application, threaded=True, request_handler=_Silent)
    server.endpoint = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
