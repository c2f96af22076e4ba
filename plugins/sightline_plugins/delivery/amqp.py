"""`amqp`: deliver records to RabbitMQ."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from pydantic import Field

from sightline.errors import (
    DeliveryError,
    DestinationLost,
    DestinationRefused,
    MissingExtra,
    RecordRefused,
)
from sightline.graph import CheckContext, Problem, Site
from sightline.graph.fields import matching
from sightline.graph.transport import Record, Transport
from sightline.redaction import redact
from sightline_plugins.delivery.acknowledged import Acknowledged
from sightline_plugins.delivery.element import PLACEHOLDERS
from sightline_plugins.delivery.tls import TlsDelivery

if TYPE_CHECKING:
    from pika import BasicProperties, ConnectionParameters, SelectConnection
    from pika.channel import Channel

WINDOW = 200
"""Records sent and not yet acknowledged, at most: those that may come twice when the broker is lost."""
LARGE_BYTES = 256_000
"""A record of this size or more is sent alone, so that a broker that refuses it has acknowledged those before it."""
_LONGEST_KEY = 255
_CUT = 100
_ACCESS_REFUSED, _NOT_FOUND, _PRECONDITION_FAILED, _NOT_ALLOWED = 403, 404, 406, 530
_TEMPLATE_WORD = re.compile(r"\{[^{}]*\}")
_LIMIT = re.compile(r"message size \d+ is larger than.*?(\d+)")
_FAREWELL_SECONDS = 0.5


class Amqp(TlsDelivery):
    """Deliver records to RabbitMQ (AMQP 0-9-1).

    Records are published to a topic exchange as persistent messages, and count as delivered when the broker confirms
    them. Bind a durable queue to the exchange (`#` for all, `*.gate.events` for the events of one stream): RabbitMQ
    confirms a message that no queue takes, and drops it. With `mandatory: true` such a record is refused instead, and
    set aside after several attempts.

    In the routing key, `{pipeline}`, `{stream}` and `{kind}` are filled in; a dot in a name becomes `_`, since dots
    separate the words of the key, and long names are cut where it would exceed 255 bytes. The message id is
    `stream/epoch/seq`; the headers `stream`, `epoch`, `seq` and `kind` hold the same apart. After an outage some
    messages may come twice, with the same id.

    The virtual host is the path of the URL: `amqp://host/site`; `amqp://host` means `/`. Without a user, RabbitMQ's
    `guest` is used, which it accepts on the same machine only. The connection has no heartbeats, since nothing is sent
    between two deliveries; the system keeps it (TCP keep-alive), and a delivery that finds it dead connects again.

    ```yaml
    - amqp: {url: "amqp://site:${AMQP_PASSWORD:-secret}@broker/site", exchange: sightline, send: [events, tracks]}
    ```
    """

    name: ClassVar[str] = "amqp"
    schemes: ClassVar[tuple[str, ...]] = ("amqp", "amqps")
    tls_schemes: ClassVar[tuple[str, ...]] = ("amqps",)
    address_key: ClassVar[str | None] = "routing_key"
    unsafe: ClassVar[re.Pattern[str]] = re.compile(r"[^A-Za-z0-9_-]+")

    exchange: str = Field(default="sightline", max_length=_LONGEST_KEY)
    """Exchange that records are published to."""
    routing_key: str = "{pipeline}.{stream}.{kind}"
    """Routing key of a record, with `{stream}`, `{kind}`, `{pipeline}`."""
    declare: bool = True
    """Declare the exchange, durable and of type `topic`; otherwise it must exist."""
    mandatory: bool = False
    """Whether a record that no queue takes is refused instead of dropped by the broker."""

    def address(self, stream: str, kind: str, *, pipeline: str) -> str:
        """Return the routing key; long names are cut where it would be longer than AMQP allows."""
        key = super().address(stream, kind, pipeline=pipeline)
        if len(key) <= _LONGEST_KEY:
            return key
        return super().address(stream[:_CUT], kind, pipeline=pipeline[:_CUT])

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the address, TLS, and the routing keys."""
        yield from super().check(context)
        if set("*#") & set(self.routing_key):
            yield Problem("`*` and `#` are for binding queues; a record has a full routing key", ("routing_key",))
        if not set(_TEMPLATE_WORD.findall(self.routing_key)) <= set(PLACEHOLDERS):
            return
        for stream in matching(self.streams, context.streams):
            if len(self.address(stream, max(self.send, key=len), pipeline="").encode()) > _LONGEST_KEY:
                yield Problem(f"the routing key of {stream!r} is longer than {_LONGEST_KEY} bytes", ("routing_key",))

    def transport(self, site: Site) -> Transport:
        """Make the transport. Raises MissingExtra, or ConfigurationError when a certificate cannot be read."""
        try:
            import pika  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingExtra("pika", extra="amqp", purpose="`amqp`") from error
        del site
        logger = logging.getLogger("pika")
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)  # it logs each loss in several lines; the error raised has the cause
        return AmqpTransport(self, self._parameters())

    def _parameters(self) -> ConnectionParameters:
        from pika import ConnectionParameters, PlainCredentials, SSLOptions

        url = urlsplit(self.url)
        seconds = self.timeout / 1e9
        tls = self.tls_context()
        user, password = unquote(url.username or "guest"), unquote(url.password or "guest")
        return ConnectionParameters(
            host=url.hostname or "localhost",
            port=url.port or (5672 if tls is None else 5671),
            virtual_host=unquote(url.path[1:]) or "/",
            credentials=PlainCredentials(user, password),
            ssl_options=None if tls is None else SSLOptions(tls, url.hostname),
            heartbeat=0,
            socket_timeout=seconds,
            stack_timeout=seconds,
            connection_attempts=1,
            tcp_options={"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3},
            client_properties={"connection_name": "sightline"},
        )


class AmqpTransport(Transport):
    """Publishes records and counts the broker's confirms. pika runs in the calling thread, only during a call."""

    def __init__(self, element: Amqp, parameters: ConnectionParameters) -> None:
        """Keep the options; nothing is connected yet."""
        self._element = element
        self._where = element.destination()
        self._parameters = parameters
        self._timeout_seconds = element.timeout / 1e9
        self._acknowledged = Acknowledged()
        self._limit_bytes: int | None = None
        self._was_blocked = False
        self._session: _Session | None = None

    def connect(self) -> None:
        """Connect, log in and declare the exchange."""
        self.close()
        session = self._session = _Session(self._parameters)
        # pika gives each address of the host the time limit, and cannot be stopped while it logs in.
        session.wait(lambda: session.is_open, time.monotonic() + 3 * self._timeout_seconds)
        end = time.monotonic() + self._timeout_seconds
        if session.is_open:
            self._open_channel(session, end)
            if self._was_blocked and not session.failure:
                self._probe(session, end)
        if session.failure is not None or not session.is_ready:
            error = self._failure(session)
            self.close()
            raise error

    def deliver(self, records: Sequence[Record]) -> None:
        """Publish the records, and wait for their confirms as long as some come within the time limit."""
        session = self._session
        if session is None or not session.is_ready:
            raise DestinationLost(f"{self._where} is not connected")
        waiting: dict[int, DeliveryError | None] = dict.fromkeys(self._acknowledged.missing(records))
        self._publish(session, records, waiting)
        if session.is_open and (limit := _limit_bytes(session.failure)) and limit != self._limit_bytes:
            self._limit_bytes = limit
            self._open_channel(session, time.monotonic() + self._timeout_seconds)
            if session.is_ready:
                self._publish(session, records, waiting)
        delivered = self._acknowledged.count(records, waiting)
        if delivered < len(records):
            error = (session.is_ready and waiting[delivered]) or self._failure(session)
            error.delivered = delivered
            raise error

    def close(self) -> None:
        """Close the connection; a broker that answered until now gets a moment to say goodbye."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _open_channel(self, session: _Session, end: float) -> None:
        exchange = self._element.exchange
        is_declared = self._element.declare and exchange and not exchange.startswith("amq.")
        session.open_channel(exchange if is_declared else None)
        session.wait(lambda: session.is_ready, end)

    def _probe(self, session: _Session, end: float) -> None:
        """Ask a broker that had an alarm whether it still has, with an empty message that no queue takes.

        It keeps what it does not read now, and delivers it after the alarm: a record sent with each attempt would come
        as often. A broker that forbids the probe has read it.
        """
        session.publish(0, "", f"sightline.probe.{uuid.uuid4()}", b"", None, mandatory=False)
        session.wait(lambda: not session.unconfirmed, end)
        session.answers.clear()
        if session.failure is not None and session.is_open:
            self._open_channel(session, end)
        elif session.unconfirmed or session.is_blocked:
            session.is_ready = False
        self._was_blocked = not session.is_ready

    def _publish(self, session: _Session, records: Sequence[Record], waiting: dict[int, DeliveryError | None]) -> None:
        """Publish the records that wait without an error: the broker's confirm takes them out, or they get an error."""
        todo = deque(index for index, error in waiting.items() if error is None)
        end = time.monotonic() + self._timeout_seconds
        session.poll(0)
        while (todo or session.unconfirmed) and session.failure is None:
            while todo and session.may_send(len(records[todo[0]].body)):
                index = todo.popleft()
                waiting[index] = self._refusal(records[index])
                if waiting[index] is None:
                    self._send(session, index, records[index])
            if todo or session.unconfirmed:
                session.poll(end)
            if self._settle(session, records, waiting):
                end = time.monotonic() + self._timeout_seconds
            elif time.monotonic() >= end:
                self._was_blocked = session.is_blocked
                session.is_ready = False
                return

    def _send(self, session: _Session, index: int, record: Record) -> None:
        from pika import BasicProperties

        message_id = f"{record.stream}/{record.epoch}/{record.seq}"
        properties = BasicProperties(
            content_type=record.content_type,
            delivery_mode=2,
            message_id=message_id if len(message_id.encode()) <= _LONGEST_KEY else None,
            timestamp=record.time_ns // 1_000_000_000,
            type=record.kind,
            app_id="sightline",
            headers={"stream": record.stream, "epoch": record.epoch, "seq": record.seq, "kind": record.kind},
        )
        element = self._element
        session.publish(index, element.exchange, record.to, record.body, properties, mandatory=element.mandatory)

    def _refusal(self, record: Record) -> DeliveryError | None:
        """The error of a record that is known to be refused, without sending it."""
        if self._limit_bytes is not None and len(record.body) > self._limit_bytes:
            size = f"a record of {len(record.body)} bytes; it takes {self._limit_bytes} at most"
            return RecordRefused(f"{self._where} refuses {size}")
        if len(record.to.encode()) > _LONGEST_KEY:
            return RecordRefused(f"the routing key {record.to!r} is longer than {_LONGEST_KEY} bytes")
        return None

    def _settle(self, session: _Session, records: Sequence[Record], waiting: dict[int, DeliveryError | None]) -> bool:
        """Take the broker's answers; returns whether there were any."""
        answers, session.answers = session.answers, []
        if session.returned:
            indices = {(record.stream, record.epoch, record.seq): index for index, record in enumerate(records)}
            for index in (indices[identity] for identity in session.returned):
                to = f"{self._element.exchange!r} with the routing key {records[index].to!r}"
                waiting[index] = RecordRefused(f"{self._where}: no queue takes what is published to {to}")
            session.returned.clear()
        for index, is_stored in answers:
            if not is_stored:
                waiting[index] = DestinationLost(f"{self._where} did not store a record: a queue is full or failed")
            elif waiting[index] is None:
                del waiting[index]
        return bool(answers)

    def _failure(self, session: _Session) -> DeliveryError:
        """The error to raise for a connection or channel that failed, or a broker that did not answer."""
        from pika import exceptions
        from pika.adapters.utils.connection_workflow import AMQPConnectorStackTimeout

        where, error = self._where, session.failure
        silence = (TimeoutError, exceptions.ConnectionOpenAborted, AMQPConnectorStackTimeout)
        if error is None or isinstance(error, silence):
            if session.is_blocked:
                return DestinationLost(f"{where} takes no records for now: it is short of memory or disk space")
            return DestinationLost(f"{where} did not answer within {self._timeout_seconds:g} s")
        code = getattr(error, "reply_code", None)
        text = redact(getattr(error, "reply_text", "") or str(error) or type(error).__name__)
        if code == _NOT_FOUND:
            advice = "create it, or set `declare: true`"
            return DestinationRefused(f"{where} has no exchange {self._element.exchange!r}: {advice}")
        refused = (
            exceptions.ProbableAuthenticationError,
            exceptions.ProbableAccessDeniedError,
            exceptions.AuthenticationError,
        )
        if code in (_ACCESS_REFUSED, _NOT_ALLOWED, _PRECONDITION_FAILED) or isinstance(error, refused):
            return DestinationRefused(f"{where} refuses: {text}")
        return DestinationLost(f"{where}: {text}")


class _Session:
    """A connection of pika with one channel in confirm mode. It works only while `poll` or `wait` runs."""

    def __init__(self, parameters: ConnectionParameters) -> None:
        """Begin to connect."""
        from pika import SelectConnection
        from pika.adapters.select_connection import IOLoop

        self.failure: BaseException | None = None
        self.is_ready = False
        """Whether the channel takes records, and the broker answers."""
        self.is_blocked = False
        self.unconfirmed: dict[int, tuple[int, int]] = {}
        """By delivery tag: index and size of each record that the broker has not answered."""
        self.answers: list[tuple[int, bool]] = []
        """Index of a record, and whether the broker stored it (or dropped it as it should)."""
        self.returned: list[tuple[str, int, int]] = []
        """Stream, epoch and seq of records that no queue takes; each gets a good answer as well, afterwards."""
        self._sent = 0
        self._connection: SelectConnection | None = None
        self._loop = IOLoop()
        self._loop.activate_poller()
        self._attempt = SelectConnection.create_connection([parameters], self._connected, custom_ioloop=self._loop)
        self._is_connecting = True

    @property
    def is_open(self) -> bool:
        """Whether the broker has let us in."""
        return self._connection is not None and bool(self._connection.is_open)

    def poll(self, end: float) -> None:
        """Do what is to be done, after waiting for it until a time of the monotonic clock at most."""
        alarm = self._loop.call_later(max(0.0, end - time.monotonic()), lambda: None)
        self._loop.poll()
        self._loop.process_timeouts()
        self._loop.remove_timeout(alarm)

    def wait(self, condition: Callable[[], bool], end: float) -> None:
        """Return when the condition is true, when the connection or channel failed, or at a time."""
        self._poll_while(lambda: not condition() and self.failure is None, end)

    def open_channel(self, exchange: str | None) -> None:
        """Open a channel instead of the one that the broker has closed, and declare an exchange."""
        self.failure, self.is_ready, self._sent = None, False, 0
        self.unconfirmed.clear()

        def prepare(channel: Channel) -> None:
            channel.add_on_close_callback(self._lost)
            channel.add_on_return_callback(self._returned)
            channel.confirm_delivery(self._confirmed, callback=done if exchange is None else None)
            if exchange is not None:
                channel.exchange_declare(exchange, "topic", durable=True, callback=done)

        def done(_frame: object) -> None:
            self.is_ready = True

        assert self._connection is not None
        self._channel = self._connection.channel(on_open_callback=prepare)

    def may_send(self, size_bytes: int) -> bool:
        """Whether a record of a size may be published now."""
        if self.is_blocked or self.failure is not None:
            return False
        _, sent_bytes = next(iter(self.unconfirmed.values()), (0, 0))
        return len(self.unconfirmed) < (1 if max(size_bytes, sent_bytes) >= LARGE_BYTES else WINDOW)

    def publish(
        self, index: int, exchange: str, key: str, body: bytes, properties: BasicProperties | None, *, mandatory: bool
    ) -> None:
        """Send a message; the answer to it comes with the index."""
        self._sent += 1
        self.unconfirmed[self._sent] = index, len(body)
        self._channel.basic_publish(exchange, key, body, properties, mandatory=mandatory)

    def close(self) -> None:
        """Close the connection: in order if the broker answered until now, else at once."""
        end = time.monotonic() + _FAREWELL_SECONDS
        if self._is_connecting:
            with suppress(AssertionError):  # of pika, while it logs in
                self._attempt.abort()
            self._poll_while(lambda: self._is_connecting, end)
        if (connection := self._connection) is not None:
            if connection.is_open and (self.is_ready or self.failure is not None):
                connection.close()
                self._poll_while(lambda: not connection.is_closed, end)
            if not connection.is_closed:
                # pika has no public way to close without an answer.
                connection._terminate_stream(ConnectionAbortedError("the broker did not answer"))  # noqa: SLF001
                self._poll_while(lambda: not connection.is_closed, end)
        self._loop.deactivate_poller()
        self._loop.close()

    def _poll_while(self, condition: Callable[[], bool], end: float) -> None:
        while condition() and time.monotonic() < end:
            self.poll(end)

    def _connected(self, connection: SelectConnection | BaseException | type[BaseException]) -> None:
        from pika import SelectConnection

        self._is_connecting = False
        if not isinstance(connection, SelectConnection):
            # An attempt that was aborted is reported with the class of the error.
            self._lost(self, connection if isinstance(connection, BaseException) else connection())
            return
        self._connection = connection
        connection.add_on_close_callback(self._lost)
        connection.add_on_connection_blocked_callback(self._blocked)
        connection.add_on_connection_unblocked_callback(self._unblocked)

    def _blocked(self, _connection: object, _frame: object) -> None:
        self.is_blocked = True

    def _unblocked(self, _connection: object, _frame: object) -> None:
        self.is_blocked = False

    def _lost(self, _subject: object, error: BaseException) -> None:
        """Keep the first cause of a connection or channel that is lost or could not be opened."""
        while (cause := _cause(error)) is not None:
            error = cause
        self.failure = self.failure or error
        self.is_ready = False

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        last = method.delivery_tag
        tags = [tag for tag in self.unconfirmed if tag <= last] if method.multiple else [last]
        is_stored = method.NAME == "Basic.Ack"
        self.answers += [(self.unconfirmed.pop(tag)[0], is_stored) for tag in tags if tag in self.unconfirmed]

    def _returned(self, _channel: object, _method: object, properties: BasicProperties, _body: object) -> None:
        headers = properties.headers or {}
        self.returned.append((headers["stream"], headers["epoch"], headers["seq"]))


def _cause(error: BaseException) -> BaseException | None:
    """What an error of pika wraps: the last of several attempts, the error of a phase, or its argument."""
    attempts = getattr(error, "exceptions", None) or [getattr(error, "exception", None), *error.args[:1]]
    return next((cause for cause in reversed(attempts) if isinstance(cause, BaseException)), None)


def _limit_bytes(error: BaseException | None) -> int | None:
    """The largest message that a broker takes, from its refusal of one."""
    found = _LIMIT.search(str(getattr(error, "reply_text", "")))
    return None if found is None else int(found[1])
