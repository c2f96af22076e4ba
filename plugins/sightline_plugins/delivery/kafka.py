"""`kafka`: deliver records to Apache Kafka."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import unquote

from pydantic import Field

from sightline.errors import (
    ConfigurationError,
    DeliveryError,
    DestinationLost,
    DestinationRefused,
    MissingExtra,
    RecordRefused,
)
from sightline.graph import CheckContext, Problem, Site
from sightline.graph.fields import Reach, matching
from sightline.graph.transport import Record, Transport
from sightline.redaction import redact
from sightline_plugins.delivery.acknowledged import Acknowledged
from sightline_plugins.delivery.element import PLACEHOLDERS
from sightline_plugins.delivery.tls import TlsDelivery

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

Settings = dict[str, Any]
Headers = list[tuple[str, str | bytes | None]]
Report = Callable[["KafkaError | None", object], None]
"""What librdkafka calls with the error of a record, or None, and with its message."""
RESERVED = {
    "bootstrap.servers": "url",
    "metadata.broker.list": "url",
    "security.protocol": "url",
    "sasl.username": "url",
    "sasl.password": "url",
    "sasl.mechanism": "sasl",
    "sasl.mechanisms": "sasl",
    "ssl.ca.location": "ca_file",
    "ssl.certificate.location": "cert_file",
    "ssl.key.location": "key_file",
    "acks": "acks",
    "request.required.acks": "acks",
    "enable.idempotence": "acks",
    "compression.codec": "compression",
    "compression.type": "compression",
    "message.timeout.ms": "timeout",
    "delivery.timeout.ms": "timeout",
}
"""Settings of librdkafka that another option stands for."""
FORBIDDEN = {"error_cb", "dr_cb", "dr_msg_cb", "on_delivery", "stats_cb", "throttle_cb", "oauth_cb", "transactional.id"}
REFUSED = {
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
}
RECORD_REFUSED = {
    "MSG_SIZE_TOO_LARGE",
    "RECORD_LIST_TOO_LARGE",
    "INVALID_MSG_SIZE",
    "INVALID_RECORD",
    "INVALID_TIMESTAMP",
}
UNKNOWN_TOPIC = {"_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART"}
PURGED = {"_PURGE_QUEUE", "_PURGE_INFLIGHT"}
"""Names of errors in librdkafka; those that begin with `_` are its own."""
_TEMPLATE_WORD = re.compile(r"\{[^{}]*\}")
_LONGEST_TOPIC = 249
_CUT = 100
_SLICE_SECONDS = 0.2


class Kafka(TlsDelivery):
    """Deliver records to Apache Kafka, or to a broker that speaks its protocol (Redpanda).

    The URL names one or more brokers of the cluster: `kafka://one:9092,two:9092`, or `kafkas://` for TLS. A user and
    password in the URL log in with SASL.

    The key of a message is the stream's name, so that a stream stays in order within one partition; with `key: none`
    messages are spread over all partitions, and only their `seq` tells the order. The headers `stream`, `epoch`, `seq`,
    `kind` and `content-type` tell what a message holds. The producer is idempotent with `acks: all`, so that its own
    retries deliver nothing twice; after an outage some messages may come twice, with the same `epoch` and `seq`.

    In the topic, `{stream}`, `{kind}` and `{pipeline}` are filled in; what a topic may not hold becomes `_`, and long
    names are cut where it would exceed 249 characters. A topic that does not exist is created by the cluster if it is
    configured so; otherwise create it first.

    A message larger than `message.max.bytes` (1 MB) is refused and set aside. If a topic accepts less, set
    `message.max.bytes` in `options` to its limit, so that a large message does not hold up those sent with it.

    ```yaml
    - kafka: {url: "kafka://broker1:9092,broker2:9092", topic: "sightline.{kind}", send: [events, tracks]}
    - kafka:
        url: "kafkas://site:${KAFKA_PASSWORD:-secret}@broker:9093"
        sasl: scram-sha-512
        options: {linger.ms: 20}
    ```
    """

    name: ClassVar[str] = "kafka"
    schemes: ClassVar[tuple[str, ...]] = ("kafka", "kafkas")
    tls_schemes: ClassVar[tuple[str, ...]] = ("kafkas",)
    address_key: ClassVar[str | None] = "topic"

    topic: Annotated[str, Field(min_length=1)] = "sightline.{kind}"
    """Topic of a record: letters, digits, `.`, `_` and `-`, with `{stream}`, `{kind}`, `{pipeline}`."""
    key: Literal["stream", "none"] = "stream"
    """Key of a message: the stream's name, which keeps a stream in one partition, or none."""
    acks: Literal["all", 1, 0] = "all"
    """Who acknowledges: all replicas in sync, the partition's leader alone, or nobody (records may be lost)."""
    compression: Literal["none", "gzip", "lz4", "zstd", "snappy"] = "none"
    """How messages are compressed."""
    sasl: Literal["plain", "scram-sha-256", "scram-sha-512"] | None = None
    """How user and password are sent; `plain` when the URL has them."""
    options: Annotated[dict[str, str | int | float | bool], Reach.CODE, Field(repr=False)] = Field(default_factory=dict)
    """Other settings of the producer, by their names in librdkafka (`linger.ms`, `client.id`)."""

    def address(self, stream: str, kind: str, *, pipeline: str) -> str:
        """Return the topic; long names are cut where it would be longer than Kafka allows."""
        topic = super().address(stream, kind, pipeline=pipeline)
        if len(topic) <= _LONGEST_TOPIC:
            return topic
        return super().address(stream[:_CUT], kind, pipeline=pipeline[:_CUT])

    def urls(self) -> list[str]:
        """Return a URL for each broker."""
        return [f"{self._scheme()}://{broker}" for broker in self.brokers()]

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the address of each broker, the topics, TLS and SASL, and that librdkafka accepts the settings."""
        yield from super().check(context)
        yield from self._topic_problems(context)
        user, password = self.credentials()
        if self.sasl is not None and not (user and password):
            yield Problem(f"{self.sasl} needs user and password: {self._scheme()}://USER:PASSWORD@HOST:PORT", ("sasl",))
        for key in self.options:
            if key in RESERVED:
                yield Problem(f"{key} is set by `{RESERVED[key]}`", ("options", key))
            elif key in FORBIDDEN:
                yield Problem(f"{key} cannot be set here", ("options", key))

    def transport(self, site: Site) -> Transport:
        """Make the transport. Raises MissingExtra, or ConfigurationError when librdkafka refuses a setting, or a
        certificate cannot be used.
        """
        try:
            from confluent_kafka import KafkaException, Producer
        except ModuleNotFoundError as error:
            raise MissingExtra("confluent-kafka", extra="kafka", purpose="`kafka`") from error
        if "ssl.key.password" not in self.options:
            self.tls_context()  # librdkafka reads the files itself, and says less about what is wrong with them
        settings = self.settings(site.pipeline)
        try:
            Producer({key: value for key, value in settings.items() if key != "bootstrap.servers"})
        except (KafkaException, TypeError, ValueError) as error:
            text = error.args[0].str() if isinstance(error, KafkaException) else error
            raise ConfigurationError(f"librdkafka does not accept the settings: {redact(text)}") from error
        return KafkaTransport(self, settings)

    def brokers(self) -> tuple[str, ...]:
        """Return `host:port` of each broker that the URL names."""
        hosts = re.split(r"[/?#]", self.url.partition("://")[2].rpartition("@")[2], maxsplit=1)[0]
        return tuple(host.strip() for host in hosts.split(","))

    def credentials(self) -> tuple[str, str]:
        """Return user and password of the URL, empty where it has none."""
        user, _, password = self.url.partition("://")[2].rpartition("@")[0].partition(":")
        return unquote(user), unquote(password)

    def settings(self, client: str) -> Settings:
        """Return the settings of librdkafka."""
        user, password = self.credentials()
        milliseconds = max(1, self.timeout // 1_000_000)
        settings: Settings = {
            "client.id": f"sightline-{self.unsafe.sub('_', client)}",
            "log_level": 0,
            "topic.metadata.propagation.max.ms": milliseconds // 2,
            "socket.connection.setup.timeout.ms": max(1000, milliseconds),
            "max.in.flight.requests.per.connection": 5 if self.acks == "all" else 1,
            **self.options,
            "bootstrap.servers": ",".join(self.brokers()),
            "security.protocol": ("sasl_" if user else "") + ("ssl" if self.is_tls() else "plaintext"),
            "acks": str(self.acks),
            "enable.idempotence": self.acks == "all",
            "compression.type": self.compression,
            "message.timeout.ms": 0,
        }
        if user:
            mechanism = (self.sasl or "plain").upper()
            settings |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
        files = {"ca": self.ca_file, "certificate": self.cert_file, "key": self.key_file or self.cert_file}
        return settings | {f"ssl.{name}.location": str(path) for name, path in files.items() if path is not None}

    def _scheme(self) -> str:
        return self.url.partition("://")[0].lower()

    def _topic_problems(self, context: CheckContext) -> Iterator[Problem]:
        wrong = self.unsafe.search(_TEMPLATE_WORD.sub("", self.topic))
        if wrong is not None:
            yield Problem(f"a topic holds letters, digits, '.', '_' and '-', not {wrong[0]!r}", ("topic",))
        if not set(_TEMPLATE_WORD.findall(self.topic)) <= set(PLACEHOLDERS):
            return
        for stream in matching(self.streams, context.streams) or ("",):
            topic = self.address(stream, max(self.send, key=len), pipeline="")
            if topic in (".", "..") or len(topic) > _LONGEST_TOPIC:
                limits = f"at most {_LONGEST_TOPIC} characters, not '.' or '..'"
                yield Problem(f"{topic!r} is no topic: {limits}", ("topic",))
                return


class KafkaTransport(Transport):
    """Produces records and waits for the report of each. A producer that failed is not used again."""

    def __init__(self, element: Kafka, settings: Settings) -> None:
        """Keep the settings; nothing is connected yet."""
        self._where = element.destination()
        self._has_keys = element.key == "stream"
        self._timeout_seconds = element.timeout / 1e9
        self._settings = settings
        self._producer: Producer | None = None
        self._trouble: KafkaError | None = None
        self._acknowledged = Acknowledged()

    def connect(self) -> None:
        """Connect to a broker, and ask for the cluster's topics."""
        from confluent_kafka import KafkaException, Producer

        self.close()
        self._trouble = None
        producer = self._producer = Producer({**self._settings, "error_cb": self._keep_trouble})
        end = time.monotonic() + self._timeout_seconds
        while True:
            try:
                producer.list_topics(timeout=max(0.001, min(_SLICE_SECONDS, end - time.monotonic())))
            except KafkaException as error:
                producer.poll(0)
                if time.monotonic() >= end or _is_one_of(REFUSED, self._trouble):
                    self.close()
                    raise self._failure(self._trouble) from error
            else:
                return

    def deliver(self, records: Sequence[Record]) -> None:
        """Produce the records, and wait for their reports as long as some come within the time limit."""
        producer = self._producer
        if producer is None:
            raise DestinationLost(f"{self._where} is not connected")
        self._trouble = None
        waiting: dict[int, KafkaError | None] = dict.fromkeys(self._acknowledged.missing(records))
        is_alone = len(waiting) <= 1
        self._produce(producer, records, list(waiting), waiting)
        # One record that is refused fails all those that share its request, so each of them is tried alone.
        for index in [index for index, error in waiting.items() if _is_one_of(RECORD_REFUSED, error) and not is_alone]:
            if self._producer is None:
                break
            waiting[index] = None
            self._produce(producer, records, [index], waiting)
            if index in waiting:
                break
        delivered = self._acknowledged.count(records, waiting)
        if delivered < len(records):
            raise self._failure(waiting[delivered] or self._trouble, records[delivered], delivered=delivered)

    def close(self) -> None:
        """Drop the producer, and what it may still hold."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.poll(0)

    def _produce(
        self, producer: Producer, records: Sequence[Record], indices: list[int], waiting: dict[int, KafkaError | None]
    ) -> None:
        """Produce some of the records: those acknowledged leave `waiting`, those refused get their error there.

        A record without an error there got no answer in time, and the producer is closed; or it was not sent, because
        one before it was refused at once.
        """
        from confluent_kafka import KafkaException

        queued, end = set(indices), time.monotonic() + self._timeout_seconds

        def report(index: int, error: KafkaError | None, _message: object) -> None:
            nonlocal end
            queued.discard(index)
            if error is None:
                del waiting[index]
                end = time.monotonic() + self._timeout_seconds
            elif error.name() not in PURGED:
                waiting[index] = error

        def may_wait() -> bool:
            return time.monotonic() < end and not _is_one_of(REFUSED, self._trouble)

        for place, index in enumerate(indices):
            try:
                while not self._has_queued(producer, records[index], partial(report, index)) and may_wait():
                    producer.poll(_SLICE_SECONDS)
            except KafkaException as error:
                waiting[index] = error.args[0]
                queued.difference_update(indices[place:])
                break
        while queued and may_wait():  # `flush` does not wait for more records, as `poll` does
            producer.flush(max(0.0, min(_SLICE_SECONDS, end - time.monotonic())))
        if queued:
            self.close()

    def _has_queued(
        self, producer: Producer, record: Record, report: Callable[[KafkaError | None, object], None]
    ) -> bool:
        """Queue a record; returns False when the queue is full."""
        try:
            producer.produce(
                record.to,
                record.body,
                key=record.stream.encode() if self._has_keys else None,
                headers=_headers(record),
                timestamp=record.time_ns // 1_000_000,
                on_delivery=report,
            )
        except BufferError:
            return False
        return True

    def _keep_trouble(self, error: KafkaError) -> None:
        """Keep the first cause: "all brokers are down" comes after it."""
        if self._trouble is None or self._trouble.name() == "_ALL_BROKERS_DOWN" or _is_one_of(REFUSED, error):
            self._trouble = error

    def _failure(self, error: KafkaError | None, record: Record | None = None, *, delivered: int = 0) -> DeliveryError:
        """The error to raise: for the record that comes after those delivered, or for the connection."""
        where = self._where
        if error is None:
            return DestinationLost(f"{where} did not answer within {self._timeout_seconds:g} s", delivered=delivered)
        text = redact(error.str())
        if _is_one_of(REFUSED, error):
            return DestinationRefused(f"{where} refuses: {text}", delivered=delivered)
        if record is not None and error.name() in UNKNOWN_TOPIC:
            created = "the cluster does not create topics: create it"
            return DestinationRefused(f"{where} has no topic {record.to!r}, and {created}", delivered=delivered)
        if record is not None and (_is_one_of(RECORD_REFUSED, error) or error.name() == "TOPIC_EXCEPTION"):
            size = f"{len(record.body)} bytes for {record.to!r}"
            return RecordRefused(f"{where} refuses a record of {size}: {text}", delivered=delivered)
        return DestinationLost(f"{where}: {text}", delivered=delivered)


def _is_one_of(names: set[str], error: KafkaError | None) -> bool:
    return error is not None and error.name() in names


def _headers(record: Record) -> Headers:
    stream, epoch, kind, content_type = _same_headers(record.stream, record.epoch, record.kind, record.content_type)
    return [stream, epoch, ("seq", b"%d" % record.seq), kind, content_type]


@lru_cache(maxsize=1024)
def _same_headers(stream: str, epoch: int, kind: str, content_type: str) -> Headers:
    """Return the headers that most records of a stream share."""
    return [
        ("stream", stream.encode()),
        ("epoch", b"%d" % epoch),
        ("kind", kind.encode()),
        ("content-type", content_type.encode()),
    ]
