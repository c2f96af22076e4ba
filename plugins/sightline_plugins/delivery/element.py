"""The base of elements that deliver records to a destination outside: what is sent, how it is encoded, where to."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Element, Problem, Site
from sightline.graph.fields import checked_url
from sightline.graph.transport import Transport
from sightline.graph.wording import suggest
from sightline.media.time import Duration
from sightline.redaction import redact

Kind = Literal["frames", "objects", "tracks", "events", "counts", "status"]
PLACEHOLDERS = ("{stream}", "{kind}", "{pipeline}")
_WORD = re.compile(r"\{[^{}]*\}")


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
    send: tuple[Kind, ...] = ("frames",)
    """What is sent."""
    timeout: Annotated[Duration, Field(gt=0)] = 5_000_000_000
    """How long the destination may take to answer before the connection counts as lost."""

    @abstractmethod
    def transport(self, site: Site) -> Transport:
        """Make the transport, without connecting. Raises MissingExtra when its client is not installed."""

    def destination(self) -> str:
        """Return the address for messages, without credentials."""
        return redact(self.url)

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
