"""A store in a bucket that speaks S3, with the layout of a folder: PREFIX/NAME/VERSION/ with files and `model.json`.

`model.json` is written last, and only where there is none: a version is there from then on, whole. Before its files
are written, `.pushing` is, which holds what they are: of two machines that push other files under one number the second
one is refused, and a push that broke off is continued by the next one of the same files. Both need conditional writes
(`If-None-Match`), which AWS, MinIO, Ceph and others have.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sightline.errors import ConfigurationError, ModelError
from sightline.graph.outputs import output_error
from sightline.redaction import redact
from sightline_plugins.object_store import (
    bucket_of,
    has_credentials,
    message_of,
    open_bucket,
    require_client,
    url_problem,
)
from sightline_plugins.store.folder import Stored
from sightline_plugins.store.places import Progress, TransferError
from sightline_plugins.store.record import (
    RECORD_FILE,
    FileRecord,
    Record,
    Reference,
    decoded,
    encoded,
    is_name,
    is_version,
)

if TYPE_CHECKING:
    from obstore.store import S3Store

_CLAIM = ".pushing"
_BLOCK = 1 << 21
"""Bytes that one request reads, and so what has to arrive within the time-out."""
_NO_BUCKET = "NoSuchBucket"
_MOST_CHARACTERS = 300
_LARGEST_RECORD = 10_000_000
_RETRIES = 3
_UPLOADS = 2
"""Parts of a large file (5 MiB each) that are sent at a time."""
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
_CREDENTIALS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"


class BucketPlace:
    """A store at `s3://BUCKET/PREFIX`. Endpoint, region and credentials are those of the environment (`AWS_...`).

    `timeout_seconds` is how long one request may take, which moves 5 MiB at most. Nothing is asked yet. Raises
    ConfigurationError for a wrong address and without credentials, and MissingExtra without the client.
    """

    def __init__(self, url: str, *, timeout_seconds: float) -> None:
        wrong = url_problem(url, credentials=_CREDENTIALS)
        if wrong is not None:
            raise ConfigurationError(f"{redact(url)}: {wrong}")
        if any(map(os.environ.get, _ENDPOINTS)) and not has_credentials():
            raise ConfigurationError(f"{url}: there are no credentials: set {_CREDENTIALS}")
        require_client(purpose=f"the store {url}")
        self._url = url.rstrip("/")
        with self._asking():
            self._bucket: S3Store = open_bucket(url, timeout_seconds=timeout_seconds, retries=_RETRIES)

    @property
    def address(self) -> str:
        """The URL."""
        return self._url

    def names(self) -> tuple[str, ...]:
        """Return the names below the prefix."""
        import obstore

        with self._asking():
            found = obstore.list_with_delimiter(self._bucket)["common_prefixes"]
        names = sorted(path.rpartition("/")[2] for path in found)
        return tuple(name for name in names if is_name(name))

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the versions that have their record."""
        import obstore

        with self._asking():
            paths = [entry["path"] for chunk in obstore.list(self._bucket, prefix=name) for entry in chunk]
        found = (path.removeprefix(f"{name}/").split("/") for path in paths)
        return tuple(
            parts[0] for parts in found if len(parts) == 2 and parts[1] == RECORD_FILE and is_version(parts[0])
        )

    def record(self, name: str, version: str) -> Record:
        """Return the record of a version."""
        key = f"{name}/{version}/{RECORD_FILE}"
        return decoded(self._read(key), Reference(name, version), where=f"{self._url}/{key}")

    def fetch(self, record: Record, file: str, part: Path, *, progress: Progress) -> None:
        """Download what is missing of a file."""
        size = record.files[file].bytes
        try:
            with part.open("ab") as target:
                if target.tell() > size:
                    target.seek(0)
                    target.truncate()
                progress(target.tell())
                for block in self._blocks(f"{_folder(record)}/{file}", first=target.tell(), size=size):
                    target.write(block)
                    progress(len(block))
        except OSError as error:
            raise output_error(part, error, doing="write") from error

    def put(self, stored: Stored, *, progress: Progress) -> None:
        """Upload a version, its record last."""
        import obstore

        record, folder = stored.record, _folder(stored.record)
        self._claim(record)
        for file, expected in record.files.items():
            key = f"{folder}/{file}"
            if not self._has(key, expected):
                with self._asking():
                    obstore.put(self._bucket, key, stored.folder / file, max_concurrency=_UPLOADS)
                if not self._has(key, expected):
                    raise TransferError(
                        f"{self._url} does not keep what is sent to it: {key} has another SHA-256 there; "
                        f"{record.reference} was not added"
                    )
            progress(expected.bytes)
        if not self._create(f"{folder}/{RECORD_FILE}", encoded(record)):
            self._must_be_same(record)
        self._release(record)

    def _claim(self, record: Record) -> None:
        """Take the number of a version for these files. Raises ConfigurationError when others have it."""
        key = f"{_folder(record)}/{_CLAIM}"
        content = msgspec.json.encode(dict(record.files), order="deterministic")
        if not self._create(key, content) and self._read(key) != content:
            raise ConfigurationError(
                f"{record.reference} with other files is being pushed to {self._url}, or was till that broke off: push "
                f"yours under another version, or remove {self._url}/{key} if nobody will go on there"
            )
        if record.version in self.versions(record.name):
            try:
                self._must_be_same(record)
            except ConfigurationError:
                self._release(record)
                raise

    def _release(self, record: Record) -> None:
        """Give the number back, whether the version came to be or not; who may not delete leaves the claim there."""
        import obstore

        with suppress(TransferError), self._asking():
            obstore.delete(self._bucket, f"{_folder(record)}/{_CLAIM}")

    def _must_be_same(self, record: Record) -> None:
        """Raise ConfigurationError when the version that came in between has other files."""
        if dict(self.record(record.name, record.version).files) != dict(record.files):
            raise ConfigurationError(
                f"{record.reference} was pushed to {self._url} with other files meanwhile: push yours under another "
                "version"
            )

    def _create(self, key: str, content: bytes) -> bool:
        """Write an object unless it is there; return whether it was written."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        with self._asking():
            try:
                obstore.put(self._bucket, key, content, mode="create")
            except AlreadyExistsError:
                return False
        return True

    def _read(self, key: str) -> bytes:
        """Return a small object. Raises ModelError where it is missing or large."""
        import obstore

        with self._asking():
            try:
                found = obstore.get(self._bucket, key)
                size = found.meta["size"]
                content = bytes(found.bytes()) if size <= _LARGEST_RECORD else b""
            except FileNotFoundError:
                raise ModelError(f"{self._url}/{key} is missing") from None
        if size > _LARGEST_RECORD:
            raise ModelError(f"{self._url}/{key} has {size:,} bytes: it is no record of a model")
        return content

    def _has(self, key: str, expected: FileRecord) -> bool:
        """Whether an object is there with this content, all of which is read."""
        import obstore

        with self._asking():
            try:
                size = obstore.head(self._bucket, key)["size"]
            except FileNotFoundError:
                return False
        if size != expected.bytes:
            return False
        digest = hashlib.sha256()
        for block in self._blocks(key, first=0, size=size):
            digest.update(block)
        return digest.hexdigest() == expected.sha256

    def _blocks(self, key: str, *, first: int, size: int) -> Iterator[memoryview]:
        """Yield the content of an object from a byte on."""
        import obstore

        while first < size:
            with self._asking():
                try:
                    block = obstore.get_range(self._bucket, key, start=first, end=min(first + _BLOCK, size))
                except FileNotFoundError:
                    raise TransferError(f"{self._url}/{key} is missing") from None
            if not len(block):
                raise TransferError(f"{self._url}/{key} is shorter than the {size:,} bytes of its record")
            yield memoryview(block)
            first += len(block)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn what the client raises into one line with what to do."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise TransferError(
                f"{self._url} does not take the credentials of the environment ({_CREDENTIALS}): {_line(error)}"
            ) from None
        except (FileNotFoundError, BaseError) as error:
            if isinstance(error, FileNotFoundError) or _NO_BUCKET in str(error):
                raise TransferError(f"{self._url}: there is no bucket {bucket_of(self._url)}") from None
            raise TransferError(
                f"{self._url} does not answer as it should: {_line(error)}. Nothing is half there, and the same "
                "command goes on where this one ended (AWS_ENDPOINT_URL names another server)"
            ) from None


def _folder(record: Record) -> str:
    return f"{record.name}/{record.version}"


def _line(error: Exception) -> str:
    return redact(" ".join(message_of(error).split()))[:_MOST_CHARACTERS]
