"""The base of elements that deliver records to a destination outside: what is sent, how it is encoded, where to."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from sightline.errors import ConfigurationError
from sightline.graph import Capability, CheckContext, Element, Problem, Site
from sightline.graph.fields import checked_url
from sightline.graph.references import Named
from sightline.graph.transport import Transport
from sightline.graph.wording import suggest
from sightline.media.time import Duration
from sightline.redaction import redact
from sightline_plugins.delivery.kinds import Kind
from sightline_plugins.rules.names import RuleName

if TYPE_CHECKING:
    from sightline_plugins.delivery.operator import DeliveryOperator

PLACEHOLDERS = ("{stream}", "{kind}", "{pipeline}")
_WORD = re.compile(r"\{[^{}]*\}")
_NEEDS: Mapping[Kind, frozenset[Capability]] = {
    "objects": frozenset({Capability.OBJECTS}),
    "tracks": frozenset({Capability.TRACKS}),
    "events": frozenset({Capability.EVENTS}),
}
"""What must be found before a step that sends a kind."""


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class Delivery(Element):
    """Base of elements that deliver records: a subclass adds the options of its transport, and makes it.

    `schemes` are those that its `url` may have. `address_key` is the option that holds the topic, subject, key or
    path, a template; `unsafe` matches what a stream's name may hold and an address may not (`_` takes its place).
    """

    sink: ClassVar[bool] = True
    delivers: ClassVar[bool] = True
    schemes: ClassVar[tuple[str, ...]]
    address_key: ClassVar[str | None] = None
    unsafe: ClassVar[re.Pattern[str]] = re.compile(r"[^A-Za-z0-9._-]+")

    url: Annotated[str, Field(repr=False)]
    """Where the records go. Credentials belong into environment variables: `${NAME}`."""
    send: Annotated[tuple[Kind, ...], BeforeValidator(_as_tuple), Field(min_length=1)] = ("frames",)
    """What is sent, one word or several: `frames` (one record a frame, as `jsonl` writes it), `objects` (one each),
    `tracks` (one when a track ends), `events` (one each), `counts` (at intervals), `status` (states of streams)."""
    labels: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)] | None = None
    """Labels of the objects that are sent or counted; all when not given."""
    rules: Annotated[tuple[RuleName, ...], BeforeValidator(_as_tuple), Field(min_length=1)] | None = None
    """Rules whose events are sent (`lines.gate_in`, `lines.gate_in.in`); all when not given."""
    empty: bool = True
    """Send frames without objects and events too, so that a receiver sees that there is nothing."""
    max_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Most records a second of `frames` and of `objects`, for each stream and by its own time. Objects of a
    frame are sent together or not at all: after n of them the next frame is n / `max_rate` seconds later."""
    interval: Annotated[Duration, Field(gt=0)] = 10_000_000_000
    """Time of the stream between two records of `counts`."""
    timeout: Annotated[Duration, Field(gt=0)] = 5_000_000_000
    """How long the destination may take to answer before the connection counts as lost."""

    @abstractmethod
    def transport(self, site: Site) -> Transport:
        """Make the transport, without connecting. Raises MissingExtra when its client is not installed."""

    def destination(self) -> str:
        """Return the address for messages, without credentials."""
        return redact(self.url)

    def required(self) -> frozenset[Capability]:
        """Return what the kinds and filters need: objects, tracks, events."""
        needs = self.needs.union(*(_NEEDS.get(kind, frozenset()) for kind in self.send))
        if self.labels is not None:
            needs |= {Capability.OBJECTS}
        return needs | {Capability.EVENTS} if self.rules is not None else needs

    def wanted_labels(self) -> Named:
        """Return the labels that `labels` names."""
        return [(("labels", number), label) for number, label in enumerate(self.labels or ())]

    def wanted_rules(self) -> Named:
        """Return the rules that `rules` names."""
        return [(("rules", number), name) for number, name in enumerate(self.rules or ())]

    def address(self, stream: str, kind: str, *, pipeline: str) -> str:
        """Return where a record of this stream and kind goes."""
        template = "" if self.address_key is None else str(getattr(self, self.address_key))
        values = {"{stream}": stream, "{kind}": kind, "{pipeline}": pipeline}
        return _WORD.sub(lambda word: self.unsafe.sub("_", values[word[0]]) or "_", template)

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the URL, the template of the address, and that the client is installed."""
        try:
            checked_url(self.url)
            scheme = urlsplit(self.url).scheme
        except ValueError as error:
            yield Problem(str(error), ("url",))
        else:
            if scheme not in self.schemes:
                allowed = ", ".join(f"{name}://" for name in self.schemes)
                yield Problem(f"`{self.name}` takes a URL that begins with {allowed}, not {scheme}://", ("url",))
        if self.address_key is not None:
            for word in dict.fromkeys(_WORD.findall(str(getattr(self, self.address_key)))):
                if word not in PLACEHOLDERS:
                    near = suggest(word, PLACEHOLDERS) or f"; there is {', '.join(PLACEHOLDERS)}"
                    yield Problem(f"{word} stands for nothing here{near}", (self.address_key,))
        try:
            self.transport(Site(context.device)).close()
        except ConfigurationError as error:
            yield Problem(str(error))

    def build(self, site: Site) -> DeliveryOperator:
        """Make the operator, which opens its mailbox."""
        from sightline_plugins.delivery.operator import DeliveryOperator

        return DeliveryOperator(self, site)
