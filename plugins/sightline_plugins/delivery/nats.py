"""`nats`: deliver records to NATS, into a JetStream stream."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from sightline.errors import ConfigurationError, DestinationLost, MissingExtra
from sightline.graph import CheckContext, InputPath, Problem, Site
from sightline.graph.described import Described
from sightline.graph.fields import Shape, Size
from sightline.graph.transport import Record, Transport
from sightline.media.time import Duration
from sightline.runtime.threads import LoopThread
from sightline_plugins.delivery.tls import TlsDelivery

if TYPE_CHECKING:
    from sightline_plugins.delivery.nats_session import Loop, Session


class JetStream(Described):
    """The stream of JetStream that keeps the records for its consumers."""

    stream: Annotated[str, Shape(r"[^\s.*>/\\]+", "must be without spaces and . * > / \\"), Field(max_length=255)] = (
        "SIGHTLINE"
    )
    """Name of the stream."""
    create: bool = True
    """Create the stream when it does not exist, for all subjects that `subject` can be. One that exists is not changed:
    its limits stay as they are."""
    max_age: Annotated[Duration, Field(gt=0)] | None = None
    """How long a created stream keeps a record; without limit when not given."""
    max_size: Annotated[Size, Field(gt=0)] | None = None
    """How much a created stream keeps, removing the oldest; without limit when not given."""
    replicas: Annotated[int, Field(ge=1, le=5)] = 1
    """On how many servers of a cluster a created stream is kept."""


class Nats(TlsDelivery):
    """Deliver records to NATS, by default into a stream of JetStream that keeps them for its consumers.

    Each record is a message with the headers `Sightline-Stream`, `Sightline-Epoch`, `Sightline-Seq`, `Sightline-Kind`
    and `Content-Type`. JetStream acknowledges each message, and its `Nats-Msg-Id` lets the server drop what it gets
    twice within its `duplicate_window` (2 minutes by default).

    With `jetstream: false` records go to those who listen at that moment (core NATS): nothing is kept for the others,
    and after a broken connection up to 64 records may come twice.

    In the subject, `{stream}`, `{kind}` and `{pipeline}` are filled in; what a part of a subject may not hold (dots,
    blanks, `*`, `>`) becomes `_`. A record larger than the server's `max_payload` or the stream's limit is refused and
    set aside.

    `tls://` requires TLS; with `nats://` the server decides. User and password, or a token alone, belong into the URL;
    a `.creds` file is named by `credentials_file`. The user may publish to the subjects and to `$JS.API.STREAM.INFO.*`
    (and `.CREATE.*` for `create`), and subscribe to `_INBOX.>`.

    ```yaml
    - nats:
        url: "tls://site:${NATS_PASSWORD}@nats:4222"
        subject: "site.{stream}.{kind}"
        jetstream: {stream: SITE, max_age: 7d, max_size: 20GB}
        send: [events, tracks]
    ```
    """

    name: ClassVar[str] = "nats"
    schemes: ClassVar[tuple[str, ...]] = ("nats", "tls")
    tls_schemes: ClassVar[tuple[str, ...]] = ("tls", "nats")
    address_key: ClassVar[str | None] = "subject"
    unsafe: ClassVar[re.Pattern[str]] = re.compile(r"[\s.*>\x00-\x1f\x7f]+")

    credentials_file: InputPath | None = None
    """File with the user's JWT and key (`.creds`), instead of a user in the URL."""
    subject: Annotated[str, Field(min_length=1)] = "sightline.{pipeline}.{stream}.{kind}"
    """Subject of a record, with `{stream}`, `{kind}`, `{pipeline}`."""
    jetstream: JetStream | bool = True
    """The stream that keeps the records; `true` for one of the name SIGHTLINE, `false` for core NATS, which keeps
    nothing."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.credentials_file is not None and "@" in urlsplit(self.url).netloc:
            raise ValueError("give credentials_file or a user in the URL, not both")
        return self

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the URL, the subject, the certificates, and that the client is installed."""
        yield from super().check(context)
        if re.search(r"[\s*>]|^\.|\.\.|\.$", self.subject):
            yield Problem(
                f"{self.subject!r} is no subject: its parts, between dots, are not empty and hold no blank, * or >",
                ("subject",),
            )

    def transport(self, site: Site) -> NatsTransport:
        """Make the transport. Raises MissingExtra without nats-py (with `credentials_file` also nkeys),
        ConfigurationError for unusable certificates.
        """
        return NatsTransport(self, source=f"{site.pipeline}/{site.element_id}")

    def stream_options(self) -> JetStream | None:
        """Return the options of the stream; None for core NATS."""
        if isinstance(self.jetstream, bool):
            return JetStream() if self.jetstream else None
        return self.jetstream


class NatsTransport(Transport):
    """Publishes records and collects their acknowledgements.

    The client is asynchronous. Its loop runs in a thread of its own while it is connected: the server asks every two
    minutes whether an idle client is there, and cuts it off when nothing answers.
    """

    def __init__(self, element: Nats, *, source: str) -> None:
        """`source` tells this destination from all others that publish to the server. Raises MissingExtra,
        ConfigurationError.
        """
        try:
            import nats.js  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingExtra("nats-py", extra="nats", purpose="`nats`") from error
        from sightline_plugins.delivery.nats_session import read_credentials

        if element.credentials_file is not None:
            if find_spec("nkeys") is None:
                raise MissingExtra("nkeys", extra="nats", purpose="`nats` with `credentials_file`")
            try:
                read_credentials(element.credentials_file)
            except (OSError, ValueError) as error:
                raise ConfigurationError(f"credentials_file: {error}") from error
        self._element = element
        self._source = source
        self._address = element.destination()
        self._tls = element.tls_context()
        self._thread: LoopThread | None = None
        self._loop: Loop | None = None
        self._session: Session | None = None

    def connect(self) -> None:
        """Connect, log in, and find or create the stream. Raises DestinationLost, DestinationRefused."""
        from sightline_plugins.delivery.nats_session import Loop, Session

        self.close()
        loop = Loop()
        self._loop, self._thread = loop, LoopThread("nats", loop_factory=lambda: loop)
        self._thread.start()
        session = Session(self._element, source=self._source, loop=loop, tls=self._tls)
        try:
            self._thread.call(session.open(), timeout_seconds=threading.TIMEOUT_MAX)
        except BaseException:
            self.close()
            raise
        self._session = session

    def deliver(self, records: Sequence[Record]) -> None:
        """Publish the records. Raises RecordRefused, DestinationLost, DestinationRefused."""
        if self._session is None or self._thread is None:
            raise DestinationLost(f"{self._address}: not connected")
        self._thread.call(self._session.deliver(records), timeout_seconds=threading.TIMEOUT_MAX)

    def close(self) -> None:
        """Cut the connection."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = self._session = None
        if loop is not None and thread is not None:
            thread.post(loop.cut)
            thread.stop()
