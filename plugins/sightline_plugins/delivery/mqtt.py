"""`mqtt`: deliver records to an MQTT broker."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from hashlib import sha256
from socket import gethostname
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from sightline.errors import MissingExtra
from sightline.graph import CheckContext, Problem, Site
from sightline.graph.transport import Transport
from sightline_plugins.delivery.home_assistant import HomeAssistant, identifier
from sightline_plugins.delivery.kinds import Kind
from sightline_plugins.delivery.tls import TlsDelivery

_NOT_IN_TEXT = "\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
"""What brokers take for a malformed packet in a text: control characters, halves of pairs, no characters."""
UNSAFE_TEXT = re.compile(f"[{_NOT_IN_TEXT}]")
_WORD = re.compile(r"\{[^{}]*\}")


def _as_version(value: object) -> object:
    return 5 if value == "5" else value


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class Mqtt(TlsDelivery):
    """Deliver records to an MQTT broker, as MQTT 5 or 3.1.1.

    With `qos` 1 or 2 a record counts as delivered when the broker has acknowledged it; after an outage some of those
    that were under way arrive twice. With `qos` 0 it counts when it is written to the connection, so an outage loses
    some. MQTT 5 carries `stream`, `epoch` and `seq` of each record as user properties beside the content type, and
    brokers say why they refuse a record. In MQTT 3.1.1 a broker can only drop a record that it does not allow, and
    acknowledge it, or close the connection.

    In a topic, `{stream}`, `{kind}` and `{pipeline}` stand for the names. `/`, `+`, `#`, control characters and a `$`
    at the start of a name become `_`. Counts and status are retained, so that whoever subscribes later sees the last
    of each topic. The availability of the pipeline is a retained `online` or `offline`; the broker publishes `offline`
    itself when this process or its network fails.

    `home_assistant` announces each stream as a device: a sensor for each number of lines, zones and labels, occupancy
    of zones, connection of the camera. Send `counts` and `status` for it.

    ```yaml
    - mqtt: {url: "mqtts://cam:${MQTT_PASSWORD}@broker.example", topic: "site/{stream}/{kind}", send: [events]}
    - mqtt: {url: "mqtt://homeassistant.local", send: [counts, status], home_assistant: true}
    ```
    """

    name: ClassVar[str] = "mqtt"
    schemes: ClassVar[tuple[str, ...]] = ("mqtt", "mqtts")
    tls_schemes: ClassVar[tuple[str, ...]] = ("mqtts",)
    address_key: ClassVar[str | None] = "topic"
    unsafe: ClassVar[re.Pattern[str]] = re.compile(rf"[/+#{_NOT_IN_TEXT}]+|^\$+")

    url: Annotated[str, Field(repr=False)]
    """The broker: `mqtt://HOST`, or `mqtts://HOST` for TLS, with `USER:PASSWORD@` before and `:PORT` behind the host
    where needed. Credentials belong into environment variables: `${NAME}`."""
    insecure: bool = False
    """Accept any certificate. Whoever is between us and the broker can then read the password, and read and change what
    is sent. Prefer `ca_file`."""
    topic: Annotated[str, StringConstraints(min_length=1)] = "sightline/{pipeline}/{stream}/{kind}"
    """Topic of each record; `{stream}`, `{kind}` and `{pipeline}` stand for the names."""
    version: Annotated[Literal["3.1.1", 5], BeforeValidator(_as_version)] | None = None
    """Version of the protocol, `3.1.1` or `5`. When not given: 5, and 3.1.1 with a broker that does not know 5."""
    qos: Literal[0, 1, 2] = 1
    """Quality of service: 0 unacknowledged, 1 acknowledged, 2 acknowledged with one more round trip."""
    retain: Annotated[tuple[Kind, ...], BeforeValidator(_as_tuple, json_schema_input_type=Kind | tuple[Kind, ...])] = (
        "counts",
        "status",
    )
    """Kinds of which the broker retains the last record of each topic."""
    client_id: Annotated[str, StringConstraints(min_length=1)] | None = None
    """Client id; made from the names of pipeline, step, host and output folder when not given. It should stay the same,
    so that the broker ends a dead connection when we come again. Another client with the same id throws us out."""
    will: Annotated[str, StringConstraints(min_length=1)] | None = "sightline/{pipeline}/availability"
    """Topic of the availability, `online` or `offline`, retained; nothing is published with `null`."""
    home_assistant: bool | HomeAssistant = False
    """Announce the streams to Home Assistant: `true`, or its options."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.insecure and self.ca_file is not None:
            raise ValueError("give ca_file or insecure, not both: insecure accepts any certificate")
        return self

    def transport(self, site: Site) -> Transport:
        """Make the transport. Raises MissingExtra without paho-mqtt, ConfigurationError when a certificate is wrong."""
        try:
            from sightline_plugins.delivery.mqtt_transport import MqttTransport
        except ModuleNotFoundError as error:
            raise MissingExtra("paho-mqtt", extra="mqtt", purpose="`mqtt`") from error
        self.tls_context()
        return MqttTransport(self, site)

    def availability_topic(self, pipeline: str) -> str | None:
        """Return the topic of the availability; None when it is not published."""
        return self.will and self.will.replace("{pipeline}", self.unsafe.sub("_", pipeline))

    def client_id_at(self, site: Site) -> str:
        """Return the client id. When none is set, it is the same in each run, and another one for each pipeline: two
        that have the same name do not run in the same output folder.
        """
        if self.client_id is not None:
            return self.client_id
        place = sha256(f"{gethostname()}:{site.outputs.root.absolute()}".encode()).hexdigest()[:8]
        return f"{identifier(f'sightline-{site.pipeline}-{site.element_id}')}-{place}"

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the URL, the topics, the certificates, and that Home Assistant gets what it shows."""
        yield from super().check(context)
        if re.search("[/?#].", self.url.partition("://")[2].rpartition("@")[2]):
            yield Problem("the address ends with the port: the topic belongs into `topic`", ("url",))
        for key, topic in (("topic", self.topic), ("will", self.will or "")):
            if re.search(rf"[+#{_NOT_IN_TEXT}]", topic):
                yield Problem("a topic that is published to holds no +, # and control characters", (key,))
        for word in _WORD.findall(self.will or ""):
            if word != "{pipeline}":
                yield Problem(f"{word} stands for nothing here; there is {{pipeline}}", ("will",))
        if self.home_assistant:
            yield from self._home_assistant_problems()

    def _home_assistant_problems(self) -> Iterator[Problem]:
        for word in ("{stream}", "{kind}"):
            if word not in self.topic:
                yield Problem(f"home_assistant needs a topic for each stream and kind: put {word} into it", ("topic",))
        if self.format != "json" or self.envelope != "none":
            yield Problem("home_assistant reads JSON: leave format and envelope as they are", ("home_assistant",))
        if not {"counts", "status"} & {*self.send}:
            yield Problem("home_assistant shows counts and status: put one or both into `send`", ("home_assistant",))

    def tls_context(self) -> ssl.SSLContext | None:
        """Make the context, as those of others; with `insecure` it checks nothing."""
        context = super().tls_context()
        if context is not None and self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _tls_options(self) -> tuple[str, ...]:
        return (*super()._tls_options(), "insecure")
