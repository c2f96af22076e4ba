"""The transport of `mqtt`: publishes records several at a time, and waits for their acknowledgements in order."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit

from sightline.errors import ConfigurationError, DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline_plugins.delivery.home_assistant import Discovery, HomeAssistant
from sightline_plugins.delivery.mqtt import UNSAFE_TEXT, Mqtt
from sightline_plugins.delivery.mqtt_client import (
    FAILURE,
    OFFLINE,
    ONLINE,
    WINDOW,
    Broker,
    Connection,
    PublishProperties,
    Unanswered,
    VersionRefused,
)

_PORTS = {"mqtt": 1883, "mqtts": 8883}
_TOPIC_BYTES = 65_535
_HEAD_BYTES = 1_000
_BREAKS = 3
"""So often the connection may break at the same record before that is taken for the cause."""
_MOST_AHEAD = 10_000
_NOT_AUTHORIZED, _IDENTIFIER_IN_USE, _QUOTA_EXCEEDED = 0x87, 0x91, 0x97
_REASONS: Mapping[int, str] = {
    0x80: "unspecified error",
    0x83: "implementation specific error",
    _NOT_AUTHORIZED: "not authorized",
    0x90: "topic name invalid",
    _IDENTIFIER_IN_USE: "packet identifier in use",
    0x95: "packet too large",
    _QUOTA_EXCEEDED: "quota exceeded",
    0x99: "payload format invalid",
}
_Id = tuple[str, int, int]


class MqttTransport(Transport):
    """Publishes to one broker.

    Records that were acknowledged behind one that was not are remembered, and not sent again. When the connection
    breaks again at the same record, that is sent alone, and refused if it is the cause: brokers close the connection
    at a packet that is too large for them.
    """

    def __init__(self, element: Mqtt, site: Site) -> None:
        self._element = element
        self._site = site
        self._address = element.destination()
        self._versions = (5, 4) if element.version is None else (5 if element.version == 5 else 4,)
        self._window = WINDOW
        self._connection: Connection | None = None
        self._ahead: set[_Id] = set()
        self._accepted: set[str] = set()
        self._breaks: tuple[_Id | None, int] = None, 0
        self._discovery: Discovery | None = None
        self._birth_topic = ""
        self._availability_topic = element.availability_topic(site.pipeline)
        if element.home_assistant:
            options = HomeAssistant() if element.home_assistant is True else element.home_assistant
            self._birth_topic = options.birth
            self._discovery = Discovery(options, pipeline=site.pipeline, availability_topic=self._availability_topic)

    def connect(self) -> None:
        """Connect, and publish that we are online. Raises DestinationLost, DestinationRefused."""
        self.close()
        broker = self._broker()
        try:
            self._connection = connection = self._opened(broker, version=self._versions[0])
            self._versions = self._versions[:1]
        except (VersionRefused, Unanswered) as error:
            if len(self._versions) == 1:
                raise
            self._connection = connection = self._opened(broker, version=self._versions[1])
            if isinstance(error, VersionRefused):
                self._versions = self._versions[1:]
        if connection.receive_maximum < self._window:
            self._window = connection.receive_maximum
            connection.close()
            self._connection = connection = self._opened(broker, version=connection.version)
        self._check_abilities(connection)

    def deliver(self, records: Sequence[Record]) -> None:
        """Publish the records. Raises RecordRefused, DestinationLost, DestinationRefused."""
        if self._connection is None:
            self.connect()
        connection = self._connection
        assert connection is not None
        with connection.delivery():
            self._deliver(records, connection)

    def close(self) -> None:
        """Publish that we are offline, and close the connection; one in trouble is cut."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _opened(self, broker: Broker, *, version: int) -> Connection:
        announce, received = self._announce, self._received
        connection = Connection(broker, version=version, window=self._window, on_up=announce, on_message=received)
        connection.open()
        return connection

    def _deliver(self, records: Sequence[Record], connection: Connection) -> None:
        if records and _id(records[0]) == self._breaks[0]:
            self._deliver_together(records[:1], connection, before=0)
            self._deliver_together(records[1:], connection, before=1)
        else:
            self._deliver_together(records, connection, before=0)

    def _deliver_together(self, records: Sequence[Record], connection: Connection, *, before: int) -> None:
        """Deliver records that come behind `before` others."""
        sent: list[int | None] = []
        obstacle = ""
        for record in records:
            if _id(record) in self._ahead:
                sent.append(None)
            elif obstacle := self._obstacle(record, connection):
                break
            else:
                sent.append(self._publish(record, connection))
        trouble = connection.settle([mid for mid in sent if mid is not None])
        reasons = [0 if mid is None else connection.reason(mid) for mid in sent]
        accepted = [reason is not None and reason < FAILURE for reason in reasons]
        delivered = accepted.index(False) if False in accepted else len(sent)
        self._remember(records, accepted, delivered)
        if delivered == len(sent):
            if obstacle:
                raise RecordRefused(
                    f"a record cannot be sent to {self._address}: {obstacle}", delivered=before + delivered
                )
            return
        record, reason = records[delivered], reasons[delivered]
        if reason is not None:
            raise self._refusal(record, reason, before + delivered)
        assert trouble is not None
        trouble.delivered = before + delivered
        self._suspect(record, trouble, is_broken=connection.is_broken, was_alone=len(records) == 1)
        raise trouble

    def _publish(self, record: Record, connection: Connection) -> int:
        discovery = self._discovery
        if discovery is not None:
            was_full = discovery.is_full
            for topic, payload in discovery.learn(record).items():
                connection.announce(topic, payload)
            if discovery.is_full and not was_full:
                self._site.warn("there are too many lines, zones and labels: Home Assistant is not shown all of them")
        return connection.publish(
            record.to,
            record.body,
            qos=self._element.qos,
            retain=record.kind in self._element.retain,
            properties=_properties(record) if connection.version == 5 else None,
        )

    def _obstacle(self, record: Record, connection: Connection) -> str:
        """Why a record cannot be sent; empty when it can."""
        try:
            topic_bytes = len(record.to.encode())
        except UnicodeEncodeError:
            topic_bytes = 0
        if not 0 < topic_bytes <= _TOPIC_BYTES or any(letter in record.to for letter in "+#\0"):
            return f"{record.to[:100]!r} is no topic that can be published to"
        size = topic_bytes + len(record.body)
        if size + _HEAD_BYTES + 4 * len(record.stream) > connection.largest_packet:
            size += 4 if self._element.qos else 2
            size += len(_properties(record).pack()) if connection.version == 5 else 0
            size += 1 + max(1, -(-size.bit_length() // 7))
            if size > connection.largest_packet:
                return f"its packet has {size} bytes, and the broker takes {connection.largest_packet} at most"
        return ""

    def _remember(self, records: Sequence[Record], accepted: Sequence[bool], delivered: int) -> None:
        """Note what was accepted behind the first `delivered` records, so that it is not sent again."""
        if len(self._ahead) > _MOST_AHEAD:  # of records that never came again, because the outbox dropped them
            self._ahead.clear()
        for index, (record, is_accepted) in enumerate(zip(records, accepted, strict=False)):
            if is_accepted:
                self._accepted.add(record.to)
                if index > delivered:
                    self._ahead.add(_id(record))
                elif self._ahead:
                    self._ahead.discard(_id(record))

    def _suspect(self, record: Record, trouble: DestinationLost, *, is_broken: bool, was_alone: bool) -> None:
        """Count breaks at this record. Raises RecordRefused when it was sent alone, and broke too many connections."""
        if not is_broken:
            return
        known, breaks = self._breaks
        breaks = breaks + 1 if known == _id(record) else 1
        self._breaks = _id(record), breaks
        if was_alone and breaks >= _BREAKS:
            self.close()
            raise RecordRefused(
                f"{self._address} closes the connection whenever it gets a record of {len(record.body)} bytes for the "
                f"topic {record.to}: it may be too large, or not allowed"
            ) from trouble

    def _refusal(self, record: Record, reason: int, index: int) -> DestinationLost | RecordRefused:
        words = _REASONS.get(reason, "for an unknown reason")
        text = f"{self._address} refuses a record for the topic {record.to}: {words} (0x{reason:02x})"
        if reason == _IDENTIFIER_IN_USE:
            return DestinationLost(text, delivered=index)
        is_the_topic = bool(self._accepted) and record.to not in self._accepted
        if reason == _QUOTA_EXCEEDED or (reason == _NOT_AUTHORIZED and not is_the_topic):
            return DestinationRefused(text, delivered=index)
        return RecordRefused(text, delivered=index)

    def _announce(self, connection: Connection) -> None:
        if self._availability_topic is not None:
            connection.subscribe_to_others(self._availability_topic)
            connection.announce(self._availability_topic, ONLINE)
        if self._discovery is not None:
            connection.subscribe(self._birth_topic)
            self._announce_entities(connection)

    def _received(self, connection: Connection, topic: str, payload: bytes) -> None:
        if topic == self._availability_topic and payload == OFFLINE:
            connection.announce(topic, ONLINE)  # the last will of an earlier connection of ours
        if topic == self._birth_topic and payload == ONLINE:
            self._announce_entities(connection)

    def _announce_entities(self, connection: Connection) -> None:
        if self._discovery is not None:
            for topic, payload in self._discovery.all().items():
                connection.announce(topic, payload)

    def _check_abilities(self, connection: Connection) -> None:
        element = self._element
        if element.qos > connection.highest_qos:
            highest = connection.highest_qos
            raise DestinationRefused(f"{self._address} takes QoS {highest} at most: set `qos: {highest}`")
        if not connection.retains and {*element.retain} & {*element.send}:
            raise DestinationRefused(f"{self._address} retains no messages: set `retain: []`")

    def _broker(self) -> Broker:
        element = self._element
        try:
            parts = urlsplit(element.url)
            port, host = parts.port, parts.hostname
        except ValueError as error:
            raise DestinationLost(f"{self._address} is no address: {error}") from error
        return Broker(
            address=self._address,
            host=host or "",
            port=port or _PORTS.get(parts.scheme, 1883),
            client_id=element.client_id_at(self._site),
            qos=element.qos,
            timeout_seconds=element.timeout / 1e9,
            username=None if parts.username is None else unquote(parts.username),
            password=None if parts.password is None else unquote(parts.password),
            tls=self._tls,
            lacks_certificate=element.is_tls() and element.cert_file is None,
            availability_topic=self._availability_topic,
        )

    def _tls(self) -> ssl.SSLContext | None:
        try:
            return self._element.tls_context()
        except ConfigurationError as error:  # a file that has changed since it was checked
            raise DestinationRefused(str(error)) from error


def _id(record: Record) -> _Id:
    return record.stream, record.epoch, record.seq


def _properties(record: Record) -> PublishProperties:
    identity = {
        "stream": UNSAFE_TEXT.sub("_", record.stream),
        "epoch": str(record.epoch),
        "seq": str(record.seq),
    }
    return PublishProperties(record.content_type, identity)
