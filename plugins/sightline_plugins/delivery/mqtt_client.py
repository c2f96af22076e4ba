"""One connection to an MQTT broker through paho-mqtt: opened within a time limit, acknowledgements by packet id.

paho reads and writes in a thread of its own, so that the connection is kept alive between deliveries. It connects
again by itself only while nothing is under way; what was under way when the connection broke is the caller's to send
again. Only `sightline_plugins.delivery.mqtt` imports this module, when a transport is made.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, LogLevel, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from sightline.errors import DestinationLost, DestinationRefused
from sightline.redaction import redact

ONLINE, OFFLINE = b"online", b"offline"
FAILURE = 0x80
"""Reasons from here on are refusals."""
_UNSUPPORTED_VERSION, _BAD_CREDENTIALS, _NOT_AUTHORIZED, _TAKEN_OVER = 0x84, 0x86, 0x87, 0x8E
_PASSING = frozenset({0x80, 0x88, 0x89, 0x8B, 0x8D, 0x93, 0x96, 0x9F, 0xA0})
"""Reasons of CONNACK and DISCONNECT that a later attempt may not meet: busy, shutting down, too fast."""
_KEEP_ALIVE_SECONDS = 30
_FAREWELL_SECONDS = 0.5
WINDOW = 20
"""Messages under way at most, as Mosquitto takes them. So many may arrive twice when a connection breaks."""
_LARGEST_PACKET = 268_435_460
_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)
"""Linux waits up to 40 ms with the TCP acknowledgement of what it received, and Mosquitto sends nothing meanwhile: the
last acknowledgements of a batch would come that late."""


class VersionRefused(DestinationRefused):
    """The broker does not know this version of the protocol."""


class Unanswered(DestinationLost):
    """The broker closed the connection instead of answering; some do so when they do not know the version."""


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a connection goes, and as whom; `address` is for messages. `tls` makes a context with
    the certificates of now, None without TLS; `lacks_certificate` says that it has no certificate of ours.
    """

    address: str
    host: str
    port: int
    client_id: str
    qos: int
    timeout_seconds: float
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Callable[[], ssl.SSLContext | None] = lambda: None
    lacks_certificate: bool = False
    availability_topic: str | None = None


class _Client(Client):
    """paho's client, with the reasons for which a broker refuses a message.

    paho answers a PUBREC that refuses as if it accepted, so a refused message with QoS 2 would count as delivered, and
    drops the connection at a PUBACK whose reason is not in its table (Mosquitto sends 0x95, packet too large).
    """

    def __init__(self, *, client_id: str, version: MQTTProtocolVersion) -> None:
        super().__init__(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=version)
        self.refusals: dict[int, int] = {}

    def _packet_handle(self) -> MQTTErrorCode:
        received = self._in_packet
        command, body = received["command"] & 0xF0, received["packet"]
        if command in (PacketTypes.PUBACK << 4, PacketTypes.PUBREC << 4) and len(body) > 2 and body[2] >= FAILURE:
            self.refusals[int.from_bytes(body[:2], "big")] = body[2]
            received["command"], received["packet"] = PacketTypes.PUBACK << 4, body[:2]
            received["remaining_length"] = 2
        return super()._packet_handle()


class PublishProperties:
    """The properties of a message: content type and user properties, encoded. They stand for paho's `Properties`, which
    takes twice the time of all else that a message needs.
    """

    __slots__ = ("_packed",)

    def __init__(self, content_type: str, user_properties: Mapping[str, str]) -> None:
        body = b"\x03" + _text(content_type)
        body += b"".join([b"\x26" + _text(name) + _text(value) for name, value in user_properties.items()])
        self._packed = _variable_length(len(body)) + body

    def pack(self) -> bytes:
        """Return them as they stand in a packet."""
        return self._packed


class _TlsSocket(ssl.SSLSocket):
    """A socket that is closed when its handshake fails, which paho leaves open."""

    def do_handshake(self, block: bool = False) -> None:
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


class Connection:
    """A connection to a broker. `version` is the level of the protocol: 5, or 4 for 3.1.1. `window` is how many
    messages may be under way; others wait in memory.

    `on_up` is called in paho's thread whenever the connection stands, before anything else is sent.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        version: int,
        window: int,
        on_up: Callable[[Connection], None],
        on_message: Callable[[Connection, str, bytes], None],
    ) -> None:
        self.version = version
        self.receive_maximum = 65_535
        self.largest_packet = _LARGEST_PACKET
        self.highest_qos = 2
        self.retains = True
        self._broker = broker
        self._on_up = on_up
        self._on_message = on_message
        self._changed = threading.Condition()
        self._reasons: dict[int, int] = {}
        self._heard_at = 0.0
        self._awaited: int | None = None
        self._trouble: DestinationLost | None = DestinationLost(f"{broker.address} is not connected")
        self._answered = False
        self._delivering = False
        self._over = False
        self._log = ""
        level = MQTTProtocolVersion.MQTTv5 if version == 5 else MQTTProtocolVersion.MQTTv311
        self._client = self._prepared(level, window=window)

    def open(self) -> None:
        """Connect. Raises DestinationLost, DestinationRefused, and of these kinds Unanswered and VersionRefused."""
        broker, client = self._broker, self._client
        try:
            if (context := broker.tls()) is not None:
                context.sslsocket_class = _TlsSocket
                client.tls_set_context(context)
                client.tls_insecure_set(not context.check_hostname)
            if self.version == 5:
                client.connect(broker.host, broker.port, keepalive=_KEEP_ALIVE_SECONDS, clean_start=True)
            else:
                client.connect(broker.host, broker.port, keepalive=_KEEP_ALIVE_SECONDS)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise DestinationLost(f"{broker.address} broke off while TLS was agreed upon") from error
        except ssl.SSLError as error:
            raise DestinationRefused(f"TLS to {broker.address} failed: {_ssl_reason(error)}") from error
        except (OSError, ValueError) as error:
            raise DestinationLost(redact(f"{broker.address} cannot be reached: {error}")) from error
        client.loop_start()
        with self._changed:
            if not self._changed.wait_for(lambda: self._answered, broker.timeout_seconds):
                self._over = True
                self._trouble = DestinationLost(
                    f"{broker.address} did not answer within {broker.timeout_seconds:g} s: is an MQTT broker there?"
                )
            trouble = self._trouble
        if trouble is not None:
            self.close()
            raise trouble

    @contextmanager
    def delivery(self) -> Iterator[None]:
        """Mark that messages are under way: a connection that breaks meanwhile is over. Raises DestinationLost."""
        with self._changed:
            if self._trouble is not None or self._over:
                raise self._fresh()
            self._delivering = True
            self._reasons.clear()
            self._client.refusals.clear()
        try:
            yield
        finally:
            with self._changed:
                self._delivering = False

    def publish(
        self, topic: str, payload: bytes, *, qos: int, retain: bool, properties: PublishProperties | None
    ) -> int:
        """Send a message, and return its packet id. A lost connection shows at `settle`."""
        encoded = cast("Properties | None", properties)
        return self._client.publish(topic, payload, qos=qos, retain=retain, properties=encoded).mid

    def announce(self, topic: str, payload: bytes) -> None:
        """Send a retained message whose acknowledgement nobody waits for."""
        self._client.publish(topic, payload, retain=True)

    def subscribe(self, topic: str) -> None:
        """Receive messages of a topic."""
        self._client.subscribe(topic)

    def subscribe_to_others(self, topic: str) -> None:
        """Receive new messages of a topic that are not our own. MQTT 3.1.1 cannot tell them apart: nothing is done."""
        if self.version == 5:
            options = SubscribeOptions(noLocal=True, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)
            self._client.subscribe(topic, options=options)

    def settle(self, mids: Sequence[int]) -> DestinationLost | None:
        """Wait until these messages are acknowledged (with QoS 0, until they are written).

        Returns what happened instead: the connection broke, or none was acknowledged for the time limit.
        """
        limit = self._broker.timeout_seconds
        with self._changed:
            begun = time.monotonic()
            while missing := [mid for mid in mids if mid not in self._reasons]:
                if self._trouble is not None:
                    return self._fresh()
                remaining = max(begun, self._heard_at) + limit - time.monotonic()
                if remaining <= 0:
                    self._over = True
                    self._trouble = DestinationLost(f"{self._broker.address} has acknowledged nothing for {limit:g} s")
                    return self._fresh()
                self._awaited = missing[-1]  # acknowledgements come in order
                self._changed.wait(remaining)
        return None

    def reason(self, mid: int) -> int | None:
        """Return the reason of the acknowledgement of a message; None without one."""
        with self._changed:
            return self._reasons.get(mid)

    @property
    def is_broken(self) -> bool:
        """Whether the other side, or the network, ended the connection."""
        with self._changed:
            return self._trouble is not None and not self._over

    def close(self) -> None:
        """Say that we go offline, unless the connection is in trouble; then cut it."""
        with self._changed:
            stands = self._trouble is None and not self._over
            self._over = True
        if stands:
            self._say_offline()
        if stands or self._client.socket() is None:
            self._client.disconnect()
        if stands:
            with self._changed:
                self._changed.wait_for(lambda: self._trouble is not None, _FAREWELL_SECONDS)
        self._cut()

    def _say_offline(self) -> None:
        """Publish it, and wait a moment until the broker has it: if something of the broker's were still unread when
        the connection is closed, the broker could lose our last packets.
        """
        if self._broker.availability_topic is not None:
            qos = min(self.highest_qos, 1)
            mid = self._client.publish(self._broker.availability_topic, OFFLINE, qos=qos, retain=True).mid
            with self._changed:
                self._awaited = mid
                self._changed.wait_for(lambda: mid in self._reasons or self._trouble is not None, _FAREWELL_SECONDS)

    def _prepared(self, version: MQTTProtocolVersion, *, window: int) -> _Client:
        broker = self._broker
        client = _Client(client_id=broker.client_id, version=version)
        client.connect_timeout = broker.timeout_seconds
        client.max_inflight_messages = window
        client.reconnect_delay_set(1, 30)
        if broker.username is not None:
            client.username_pw_set(broker.username, broker.password)
        if broker.availability_topic is not None:
            client.will_set(broker.availability_topic, OFFLINE, qos=min(broker.qos, 1), retain=True)
        client.on_connect = self._connected
        client.on_connect_fail = self._connect_failed
        client.on_disconnect = self._disconnected
        client.on_publish = self._published
        client.on_message = self._received
        client.on_log = self._logged
        return client

    def _connected(
        self, client: Client, userdata: object, flags: ConnectFlags, reason: ReasonCode, properties: Properties | None
    ) -> None:
        del userdata, flags
        trouble = self._refusal(reason) if reason.is_failure else None
        if trouble is None:
            client.on_log = None  # it formats each message
            self.receive_maximum = getattr(properties, "ReceiveMaximum", self.receive_maximum)
            self.largest_packet = min(_LARGEST_PACKET, getattr(properties, "MaximumPacketSize", _LARGEST_PACKET))
            self.highest_qos = getattr(properties, "MaximumQoS", 2)
            self.retains = bool(getattr(properties, "RetainAvailable", 1))
            if not self._over:
                self._on_up(self)
        with self._changed:
            self._trouble = trouble
            self._over = self._over or (trouble is not None and not self._answered)
            self._answered = True
            over = self._over
            self._changed.notify_all()
        if over:
            client.loop_stop()
            client.disconnect()

    def _connect_failed(self, client: Client, userdata: object) -> None:
        del userdata
        if self._over:
            client.loop_stop()

    def _disconnected(
        self,
        client: Client,
        userdata: object,
        flags: DisconnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        del userdata, properties
        with self._changed:
            if self._trouble is None or not self._answered:
                self._trouble = self._loss(reason if flags.is_disconnect_packet_from_server else None)
            taken_over = flags.is_disconnect_packet_from_server and reason.value == _TAKEN_OVER
            stop = self._over or self._delivering or not self._answered or taken_over
            self._answered = True
            self._changed.notify_all()
        if stop:
            client.loop_stop()

    def _published(
        self, client: Client, userdata: object, mid: int, reason: ReasonCode, properties: Properties
    ) -> None:
        del userdata, properties
        if _QUICK_ACK is not None and isinstance(connected := client.socket(), socket.socket):
            with suppress(OSError):  # it was closed just now
                connected.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)  # not kept: the kernel goes back by itself
        with self._changed:
            self._reasons[mid] = self._client.refusals.pop(mid, reason.value)
            self._heard_at = time.monotonic()
            if mid == self._awaited:
                self._changed.notify_all()

    def _received(self, client: Client, userdata: object, message: MQTTMessage) -> None:
        del client, userdata
        if not self._over:
            self._on_message(self, message.topic, bytes(message.payload))

    def _logged(self, client: Client, userdata: object, level: int, text: str) -> None:
        del client, userdata
        if level == LogLevel.MQTT_LOG_ERR:
            self._log = redact(text)

    def _refusal(self, reason: ReasonCode) -> DestinationLost:
        address, code = self._broker.address, reason.value
        if code == _UNSUPPORTED_VERSION:
            version = "5" if self.version == 5 else "3.1.1"
            return VersionRefused(f"{address} does not know MQTT {version}: set another `version`")
        if code in (_BAD_CREDENTIALS, _NOT_AUTHORIZED):
            return DestinationRefused(f"{address} does not accept the credentials ({_words(reason)})")
        kind = DestinationLost if code in _PASSING else DestinationRefused
        return kind(f"{address} refuses the connection: {_words(reason)}")

    def _loss(self, reason: ReasonCode | None) -> DestinationLost:
        address = self._broker.address
        if reason is not None and reason.value == _TAKEN_OVER:
            return DestinationRefused(
                f"another client took over {self._broker.client_id!r} at {address}: give each a `client_id` of its own"
            )
        if reason is not None:
            kind = DestinationLost if reason.value in _PASSING or not reason.is_failure else DestinationRefused
            return kind(f"{address} closed the connection: {_words(reason)}")
        if not self._answered:
            kind = DestinationRefused if "ALERT" in self._log else Unanswered
            cause = f": {self._log}" if self._log else ""
            hint = "; it may ask for a client certificate: set `cert_file`" if self._broker.lacks_certificate else ""
            return kind(f"{address} broke off before it answered{cause}{hint}")
        return DestinationLost(f"the connection to {address} broke off")

    def _fresh(self) -> DestinationLost:
        trouble = self._trouble or DestinationLost(f"{self._broker.address} is not connected")
        return type(trouble)(str(trouble))

    def _cut(self) -> None:
        connected = self._client.socket()
        if isinstance(connected, socket.socket):
            try:
                connected.shutdown(socket.SHUT_RDWR)  # paho's thread sees the end, closes it and ends
            except OSError:
                return  # it was closed just now


def _text(text: str) -> bytes:
    encoded = text.encode()
    return len(encoded).to_bytes(2, "big") + encoded


def _variable_length(length: int) -> bytes:
    packed = bytearray()
    while length >= 0x80:
        packed.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes((*packed, length))


def _words(reason: ReasonCode) -> str:
    return f"{str(reason).lower()}, 0x{reason.value:02x}"


def _ssl_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted, {error.verify_message}"
    return str(error.reason or error)
