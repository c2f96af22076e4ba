"""What the routes of the API work on: a pipeline, what its clients may do, and who asks."""

from __future__ import annotations

import gzip
import ipaddress
import json
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Header, Query
from starlette.requests import HTTPConnection

from sightline.config.schema import json_schema
from sightline.graph.registry import Registry
from sightline.server.api.turns import Turns
from sightline.server.audit import Actor, AuditLog
from sightline.server.credentials import Role
from sightline.server.disks import DiskSurvey
from sightline.server.event_images import EventImages
from sightline.server.feed import EventFeed
from sightline.server.guard import Refused, check_role, identity_of
from sightline.server.history import History
from sightline.server.images import Images
from sightline.server.journal import Journal
from sightline.server.live import LiveVideo
from sightline.server.logs import LogRing
from sightline.server.policy import Policy
from sightline.server.recordings import Recordings
from sightline.server.resources import CpuMeter
from sightline.server.source_tests import SourceTests
from sightline.server.track_search import TrackSearches

if TYPE_CHECKING:
    from typing import Self

    from sightline.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class SchemaText:
    """The JSON Schema of a configuration as it is sent (gzip), and its tag."""

    compressed: bytes
    tag: str

    @classmethod
    def of(cls, registry: Registry) -> Self:
        """Make it of everything that is installed; that takes a second, and happens once."""
        content = json.dumps(json_schema(registry), separators=(",", ":")).encode()
        return cls(gzip.compress(content, mtime=0), blake2b(content, digest_size=12).hexdigest())


PIPELINE = "/api/v1/pipelines/{pipeline}"
"""Where the routes about one pipeline begin."""


@dataclass(eq=False)
class Served:
    """A pipeline that is served."""

    pipeline: Pipeline
    journal: Journal
    policy: Policy
    audit: AuditLog
    feed: EventFeed
    history: History
    images: Images | None
    snapshots: Images | None
    live: LiveVideo | None
    event_images: EventImages | None
    recordings: Recordings
    tracks: TrackSearches
    logs: LogRing
    disks: DiskSurvey
    questions: Turns = field(default_factory=Turns)
    cpu: CpuMeter = field(default_factory=CpuMeter)
    registry: Registry = field(default_factory=Registry)
    tests: SourceTests = field(default_factory=SourceTests)
    turn: Lock = field(default_factory=Lock)
    """Held while a change is made, so that changes by the API take turns."""

    def start(self) -> None:
        """Take down what happens from now on: lines of the log, samples of the history, images of events."""
        self.logs.start()
        self.history.start()
        if self.event_images is not None:
            self.event_images.start()

    def close(self) -> None:
        """Take down nothing more; harmless when called again."""
        if self.event_images is not None:
            self.event_images.close()
        self.tracks.close()
        self.history.close()
        self.logs.close()

    @property
    def name(self) -> str:
        """The name of the pipeline."""
        return self.pipeline.description.name

    def stop(self) -> None:
        """End feeds, live video and tests of sources. In the event loop, before the server stops."""
        self.feed.close()
        self.tests.close()
        if self.live is not None:
            self.live.close()

    @cached_property
    def schema(self) -> SchemaText:
        """What a configuration may hold."""
        return SchemaText.of(self.registry)

    def known(self, pipeline: str) -> None:
        """Dependency of routes about the pipeline. Raises Refused when it has another name."""
        if pipeline != self.name:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no pipeline {pipeline!r}; there is {self.name}")


def actor_of(connection: HTTPConnection) -> Actor:
    """Who asks for a change."""
    identity = identity_of(connection.scope)
    address = "" if connection.client is None else _address(connection.client.host)
    return Actor("", "", address) if identity is None else Actor(identity.name, str(identity.role), address)


@dataclass(frozen=True, slots=True)
class AskedBy:
    """The dependency of a route that is for a role only; its value is who asks."""

    role: Role

    def __call__(self, connection: HTTPConnection) -> Actor:
        """Return who asks. Raises Refused when the role does not suffice."""
        check_role(identity_of(connection.scope), self.role)
        return actor_of(connection)


Operator = Annotated[Actor, Depends(AskedBy(Role.OPERATOR))]
Admin = Annotated[Actor, Depends(AskedBy(Role.ADMIN))]
IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="The tag of the configuration that the change was made from (`ETag`); another one is refused, 412.",
        max_length=64,
    ),
]
Prove = Annotated[
    float | None,
    Query(
        ge=0,
        le=300,
        description="Seconds for which the change is on probation: when the pipeline is not well meanwhile, it is"
        " reverted. The answer waits for the verdict. By default it comes when the change is applied, and a change"
        " that fails within 5 s is reverted all the same, with an event.",
    ),
]


def tag_in(header: str | None) -> str | None:
    """Return the tag in a header `If-Match`; None when any will do."""
    text = (header or "").strip().removeprefix("W/").strip('"')
    return None if text in ("", "*") else text


def _address(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ""
