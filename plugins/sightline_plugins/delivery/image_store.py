"""Object stores that speak S3: images that are too large for their records are kept there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field

from sightline.errors import DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import Problem, Site
from sightline.graph.described import Described
from sightline.graph.transport import Delivers, Record, Transport
from sightline.graph.wording import suggest
from sightline.media.time import Duration
from sightline_plugins.delivery.hosts import hosts_of, is_known
from sightline_plugins.delivery.refusals import excerpt
from sightline_plugins.delivery.urls import readable_url
from sightline_plugins.object_store import (
    bucket_of,
    has_credentials,
    message_of,
    open_bucket,
    require_client,
    url_problem,
)

if TYPE_CHECKING:
    from obstore.store import S3Store

STREAM, EPOCH, KIND, FRAME, TRACK = "{stream}", "{epoch}", "{kind}", "{frame}", "{track}"
PLACEHOLDERS = (STREAM, EPOCH, KIND, FRAME, TRACK)
_WORD = re.compile(r"\{[^{}]*\}")
_STATUS = re.compile(r"status code: (\d{3})")
_TOO_LARGE = 413


class ImageStore(Described):
    """A bucket of an object store that speaks S3: AWS, MinIO, Ceph, Garage, ...

    Credentials come from `access_key` and `secret_key`, else from the environment: `AWS_ACCESS_KEY_ID` and
    `AWS_SECRET_ACCESS_KEY`, or what AWS lends to its machines and containers.
    """

    url: str
    """The bucket, and the beginning of all keys: `s3://BUCKET/PREFIX`."""
    key: Annotated[str, Field(min_length=1)] = "{stream}/{epoch}/{kind}-{frame}-{track}.jpg"
    """The key of each image, with `{epoch}` (which differs between runs) and `{frame}`, and for crops `{track}`."""
    endpoint: Annotated[str, AfterValidator(readable_url)] | None = None
    """The address of the store, such as `https://minio.example.com:9000`; else `AWS_ENDPOINT_URL`, else AWS."""
    region: str | None = None
    """The region of the bucket; else `AWS_REGION`, else us-east-1."""
    access_key: Annotated[Annotated[str, Field(min_length=1)] | None, Field(repr=False)] = None
    """The id of the key."""
    secret_key: Annotated[Annotated[str, Field(min_length=1)] | None, Field(repr=False)] = None
    """The secret of the key."""
    timeout: Annotated[Duration, Field(gt=0)] = 10_000_000_000
    """How long the store may take to answer before it counts as lost."""

    def destination(self) -> str:
        """Return the address for messages."""
        return self.url.rstrip("/")

    def address(self, stream: str, kind: str, *, pipeline: str) -> str:
        """Return the keys of images of this stream, whose name is percent-encoded; what each image has of its own is
        still a placeholder.
        """
        del pipeline
        return self.key.replace(STREAM, quote(stream, safe="")).replace(KIND, kind)

    def key_of(self, stream: str, kind: str, *, epoch: int, frame: int, track: int | None) -> str:
        """Return the key of an image, without the prefix."""
        key = self.address(stream, kind, pipeline="").replace(EPOCH, str(epoch)).replace(FRAME, f"{frame:06d}")
        return key.replace(TRACK, "none" if track is None else str(track))

    def url_of(self, key: str) -> str:
        """Return the address of an image as tools of S3 write it."""
        return f"{self.destination()}/{key}"

    def others(self) -> Mapping[str, Delivers]:
        """Return no destination beside it."""
        return {}

    def transport(self, site: Site) -> Transport:
        """Make the transport. Raises MissingExtra when its client is not installed."""
        del site
        require_client(purpose="`image_store`")
        return ImageStoreTransport(self)

    def problems(self, *, is_crop: bool) -> Iterator[Problem]:
        """Check the URL, the endpoint, the template of keys, and that there are credentials."""
        yield from self._url_problems()
        for word in dict.fromkeys(_WORD.findall(self.key)):
            if word not in PLACEHOLDERS:
                near = suggest(word, PLACEHOLDERS) or f"; there is {', '.join(PLACEHOLDERS)}"
                yield Problem(f"{word} stands for nothing here{near}", ("key",))
        if PurePosixPath(self.key).suffix.lower() not in (".jpg", ".jpeg"):
            yield Problem(f"{self.key!r} must end in .jpg", ("key",))
        if not {".", "..", ""}.isdisjoint(self.key.split("/")):
            yield Problem("a key has no parts that are empty, `.` or `..`", ("key",))
        wanted = (EPOCH, FRAME, TRACK) if is_crop else (EPOCH, FRAME)
        if lacking := [word for word in wanted if word not in self.key]:
            yield Problem(f"images would have one key: put {' and '.join(lacking)} into it", ("key",))
        yield from self._credential_problems()

    def _url_problems(self) -> Iterator[Problem]:
        wrong = url_problem(self.url, credentials="access_key and secret_key")
        if wrong is not None:
            yield Problem(wrong, ("url",))
        if self.endpoint is None:
            return
        if urlsplit(self.endpoint).scheme not in ("http", "https"):
            yield Problem("the endpoint is an address such as https://HOST:PORT", ("endpoint",))
        elif unknown := [host for host in hosts_of(self.endpoint) if not is_known(host)]:
            yield Problem(f"there is no host {', '.join(unknown)} (no address is known for it)", ("endpoint",))

    def _credential_problems(self) -> Iterator[Problem]:
        if (self.access_key is None) != (self.secret_key is None):
            yield Problem("access_key and secret_key go together", ("access_key",))
        elif self.access_key is None and self.endpoint is not None and not has_credentials():
            text = "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give access_key"
            yield Problem(text, ("access_key",))


class ImageStoreTransport(Transport):
    """Puts one image after the other. A key that is there already is written again."""

    def __init__(self, store: ImageStore) -> None:
        self._described = store
        self._store: S3Store | None = None

    def connect(self) -> None:
        """Make the client; each request has its own connection, or one that is still open."""
        from obstore.exceptions import BaseError

        one = self._described
        try:
            self._store = open_bucket(
                one.url,
                endpoint=one.endpoint,
                region=one.region,
                access_key=one.access_key,
                secret_key=one.secret_key,
                timeout_seconds=one.timeout / 1e9,
            )
        except BaseError as error:
            raise DestinationRefused(f"{one.destination()}: {self._first_line(error)}") from None

    def deliver(self, records: Sequence[Record]) -> None:
        """Put the images."""
        import obstore
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        assert self._store is not None
        where = self._described.destination()
        for delivered, record in enumerate(records):
            try:
                obstore.put(self._store, record.to, record.body, attributes={"Content-Type": record.content_type})
            except (PermissionDeniedError, UnauthenticatedError) as error:
                text = f"{where} does not take our credentials: {self._first_line(error)}"
                raise DestinationRefused(text, delivered=delivered) from None
            except FileNotFoundError:
                text = f"{where}: there is no bucket {bucket_of(self._described.url)}"
                raise DestinationRefused(text, delivered=delivered) from None
            except BaseError as error:
                text = self._first_line(error)
                status = _STATUS.search(text)
                if status is not None and int(status[1]) == _TOO_LARGE:
                    raise RecordRefused(f"{where}: {text}", delivered=delivered) from None
                raise DestinationLost(f"{where}: {text}", delivered=delivered) from None

    def close(self) -> None:
        """Forget the client."""
        self._store = None

    def _first_line(self, error: Exception) -> str:
        """The message of the client, without secrets."""
        secrets = filter(None, (self._described.access_key, self._described.secret_key))
        return excerpt(message_of(error), secrets=secrets)
