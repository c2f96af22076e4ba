"""`mqtt`: deliver records to an MQTT broker."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from hashlib import sha256
from socket import gethostname
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from sightline.errors import ConfigurationError, MissingExtra
from sightline.graph import CheckContext, InputPath, Problem, Site
from sightline.graph.fields import is_there
from sightline.graph.transport import Transport
from sightline_plugins.delivery.element import Delivery
from sightline_plugins.delivery.home_assistant import HomeAssistant, identifier
from sightline_plugins.delivery.kinds import Kind

_NOT_IN_TEXT = "\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
"""What brokers take for a malformed packet in a text: control characters, halves of pairs, no characters."""
UNSAFE_TEXT = re.compile(f"[{_NOT_IN_TEXT}]")
_WORD = re.compile(r"\{[^{}]*\}")


def _as_version(value: object) -> object:
    return 5 if value == "5" else value


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class Mqtt(Delivery):
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
    address_key: ClassVar[str | None] = "topic"
    unsafe: ClassVar[re.Pattern[str]] = re.compile(rf"[/+#{_NOT_IN_TEXT}]+|^\$+")

    url: Annotated[str, Field(repr=False)]
    """The broker: `mqtt://HOST`, or `mqtts://HOST` for TLS, with `USER:PASSWORD@` before and `:PORT` behind the host
    where needed. Credentials belong into environment variables: `${NAME}`."""
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
    ca_file: InputPath | None = None
    """Certificates (PEM) of the authorities that the broker's certificate must come from; those of the system when not
    given. A self-signed certificate of a broker can stand here itself."""
    cert_file: InputPath | None = None
    """Our certificate (PEM), for brokers that ask for one."""
    key_file: InputPath | None = None
    """Its private key (PEM, without a password), when it is not in `cert_file`."""
    insecure: bool = False
    """Accept any certificate. Whoever is between us and the broker can then read the password, and read and change what
    is sent. Prefer `ca_file`."""
    home_assistant: bool | HomeAssistant = False
    """Announce the streams to Home Assistant: `true`, or its options."""

    @model_validator(mode="after")
    def _agrees(self) -> Mqtt:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file needs cert_file")
        if self.insecure and self.ca_file is not None:
            raise ValueError("give ca_file or insecure, not both: insecure accepts any certificate")
        return self

    def transport(self, site: Site) -> Transport:
        """Make the transport. Raises MissingExtra without paho-mqtt, ConfigurationError when a certificate is wrong."""
        try:
            from sightline_plugins.delivery.mqtt_transport import MqttTransport
        except ModuleNotFoundError as error:
            raise MissingExtra("paho-mqtt", extra="mqtt", purpose="`mqtt`") from error
        files = [path for path in (self.ca_file, self.cert_file, self.key_file) if path is not None]
        if self.url.startswith("mqtts:") and all(is_there(path) for path in files):
            self.tls()
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
        scheme, _, rest = self.url.partition("://")
        if re.search("[/?#].", rest.rpartition("@")[2]):
            yield Problem("the address ends with the port: the topic belongs into `topic`", ("url",))
        for key, topic in (("topic", self.topic), ("will", self.will or "")):
            if re.search(rf"[+#{_NOT_IN_TEXT}]", topic):
                yield Problem("a topic that is published to holds no +, # and control characters", (key,))
        for word in _WORD.findall(self.will or ""):
            if word != "{pipeline}":
                yield Problem(f"{word} stands for nothing here; there is {{pipeline}}", ("will",))
        if self.home_assistant:
            yield from self._home_assistant_problems()
        if scheme == "mqtt":
            for key in ("ca_file", "cert_file", "insecure"):
                if key in self.model_fields_set and getattr(self, key):
                    yield Problem(f"{key} is for TLS: write mqtts:// for the scheme of `url`", (key,))

    def _home_assistant_problems(self) -> Iterator[Problem]:
        for word in ("{stream}", "{kind}"):
            if word not in self.topic:
                yield Problem(f"home_assistant needs a topic for each stream and kind: put {word} into it", ("topic",))
        if self.format != "json" or self.envelope != "none":
            yield Problem("home_assistant reads JSON: leave format and envelope as they are", ("home_assistant",))
        if not {"counts", "status"} & {*self.send}:
            yield Problem("home_assistant shows counts and status: put one or both into `send`", ("home_assistant",))

    def tls(self) -> ssl.SSLContext:
        """Make the TLS context, with the certificates as they are now. Raises ConfigurationError."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"ca_file {self.ca_file} holds no certificates: {error}") from error
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert_file is not None:
            try:
                context.load_cert_chain(self.cert_file, self.key_file, password="")
            except (OSError, ssl.SSLError) as error:
                raise ConfigurationError(
                    f"cert_file {self.cert_file} and its key cannot be used: {error}; the key must belong to the "
                    "certificate, and have no password"
                ) from error
        return context
