"""Sentences for people on reads that returned no data."""

from __future__ import annotations

from typing import Final

from auditor.errors import StoreUnavailable
from auditor.zookeeper.multi_read import (
    AUTH_FAILED,
    CONNECTION_LOSS,
    MARSHALLING,
    NO_AUTH,
    NO_NODE,
    OK,
    SASL_REQUIRED,
)

_SAYS: Final = {
    CONNECTION_LOSS: (
        "was not answered: the connection to ZooKeeper was lost and not restored in time"
    ),
    MARSHALLING: "was answered with something that cannot be decoded",
    NO_NODE: "does not exist",
    NO_AUTH: (
        "may not be read by this session: give it read permission in the znode's ACL, or log in as"
        " the bookies do (--zookeeper-sasl, --zookeeper-digest-file)"
    ),
    AUTH_FAILED: (
        "was not answered: ZooKeeper refused our login (--zookeeper-sasl, --zookeeper-digest-file)"
    ),
    SASL_REQUIRED: (
        "was not answered: ZooKeeper serves sessions with a SASL login only (--zookeeper-sasl"
        " digest-md5)"
    ),
}


def refusal_sentence(path: str, error: int) -> str:
    """Return a sentence on why `path` has no data. `error` is a KeeperException code."""
    assert error != OK, path
    return f"znode {path} {_SAYS.get(error, f'could not be read: ZooKeeper error {error}')}"


def unavailable_error(path: str, error: int) -> StoreUnavailable:
    """Return the exception for a znode without which nothing can be said about the cluster."""
    return StoreUnavailable(
        f"the cluster's metadata could not be read: {refusal_sentence(path, error)}"
    )
