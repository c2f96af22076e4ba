"""The client of object stores that speak S3 (AWS, MinIO, Ceph, Garage, ...): how a bucket is named and opened.

A bucket and the beginning of all keys in it are written `s3://BUCKET/PREFIX`.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from sightline.errors import MissingExtra

if TYPE_CHECKING:
    from obstore.store import S3Config, S3Store

SCHEME = "s3"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_OF_ENVIRONMENT = ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE")
_LENT = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_WEB_IDENTITY_TOKEN_FILE")
"""Variables with which AWS lends credentials to a container."""
_BEHIND_THE_MESSAGE = "\n\nDebug source"


def bucket_of(url: str) -> str:
    """Return the name of the bucket."""
    return urlsplit(url).netloc


def prefix_of(url: str) -> str:
    """Return the beginning of all keys, without a slash at its ends; empty when there is none."""
    return urlsplit(url).path.strip("/")


def url_problem(url: str, *, credentials: str) -> str | None:
    """Return what is wrong with the address of a bucket; None where nothing is. `credentials` says where they go."""
    parts, prefix = urlsplit(url), prefix_of(url)
    if parts.scheme != SCHEME:
        return "the store is written s3://BUCKET/PREFIX"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return f"the URL holds bucket and prefix only: credentials are {credentials}"
    if not _BUCKET.fullmatch(parts.netloc):
        return "a bucket has 3 to 63 lower-case letters, digits, dots and hyphens"
    if not {".", "..", ""}.isdisjoint(prefix.split("/") if prefix else ()) or "{" in url:
        return "a prefix has no placeholders, and no parts that are empty, `.` or `..`"
    return None


def has_credentials() -> bool:
    """Whether the environment has credentials, or AWS lends some to this container."""
    return any(map(os.environ.get, (*_OF_ENVIRONMENT, *_LENT)))


def require_client(*, purpose: str) -> None:
    """Raise MissingExtra when the client is not installed."""
    try:
        import obstore  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra("obstore", extra="s3", purpose=purpose) from error


def open_bucket(
    url: str,
    *,
    endpoint: str | None = None,
    region: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
    timeout_seconds: float,
    retries: int = 0,
) -> S3Store:
    """Return the client of a bucket, whose keys begin behind the prefix.

    What is not given comes from the environment (`AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`, ...) or from
    AWS. Each request may take `timeout_seconds`; it makes its own connection, or takes one that is still open. Nothing
    is asked yet. Raises obstore's BaseError for settings that it refuses.
    """
    from obstore.store import S3Store

    given = {"endpoint": endpoint, "region": region, "access_key_id": access_key, "secret_access_key": secret_key}
    timeout = timedelta(seconds=timeout_seconds)
    return S3Store(
        bucket_of(url),
        prefix=prefix_of(url) or None,
        config=cast("S3Config", {name: value for name, value in given.items() if value is not None}),
        client_options={"timeout": timeout, "connect_timeout": timeout, "allow_http": True},
        retry_config={"max_retries": retries, "retry_timeout": timeout},
    )


def message_of(error: Exception) -> str:
    """Return the message of the client's error, without its own data structures, which are behind it."""
    return str(error).partition(_BEHIND_THE_MESSAGE)[0]
