"""The base of elements that deliver records to a destination outside: what is sent, how it is encoded, where to."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from sightline.errors import ConfigurationError
from sightline.graph import Capability, CheckContext, Element, OutputPath, Problem, Site
from sightline.graph.fields import PathRole, Size, is_there, is_url, paths_of
from sightline.graph.references import Named
from sightline.graph.transport import Delivers, Transport
from sightline.graph.wording import suggest
from sightline.media.time import Duration
from sightline.redaction import redact
from sightline_plugins.delivery import images
from sightline_plugins.delivery.formats import Envelope, Format, not_expressed
from sightline_plugins.delivery.hosts import hosts_of, is_known
from sightline_plugins.delivery.image_store import ImageStore
from sightline_plugins.delivery.kinds import Kind
from sightline_plugins.delivery.sensors import SensorData
from sightline_plugins.delivery.urls import readable_url
from sightline_plugins.rules.names import RuleName
from sightline_plugins.rules.shapes import Anchor
from sightline_plugins.sinks.files import path_problems
from sightline_plugins.sinks.retention import Keep

if TYPE_CHECKING:
    from sightline_plugins.delivery.operator import DeliveryOperator

_STORE = BeforeValidator(
    lambda value: {"url": value} if isinstance(value, str) else value, json_schema_input_type=str | ImageStore
)
PLACEHOLDERS = ("{stream}", "{kind}", "{pipeline}")
_WORD = re.compile(r"\{[^{}]*\}")
_NEEDS: Mapping[Kind, frozenset[Capability]] = {
    "objects": frozenset({Capability.OBJECTS}),
    "tracks": frozenset({Capability.TRACKS}),
    "events": frozenset({Capability.EVENTS}),
}
"""What must be found before a step that sends a kind."""


def _one_or_several(word: Any) -> BeforeValidator:
    """Let a word stand for a list of that word alone."""
    return BeforeValidator(
        lambda value: (value,) if isinstance(value, str) else value, json_schema_input_type=word | tuple[word, ...]
    )


class Delivery(Element):
    """Base of elements that deliver records: a subclass adds the options of its transport, and makes it.

    `schemes` are those that its `url` may have. `address_key` is the option that holds the topic, subject, key or
    path, a template; `unsafe` matches what a stream's name may hold and an address may not (`_` takes its place).
    """

    sink: ClassVar[bool] = True
    results_only: ClassVar[bool] = True
    delivers: ClassVar[bool] = True
    schemes: ClassVar[tuple[str, ...]]
    address_key: ClassVar[str | None] = None
    unsafe: ClassVar[re.Pattern[str]] = re.compile(r"[^A-Za-z0-9._-]+")

    url: Annotated[str, Field(repr=False)]
    """Where the records go. Credentials belong into environment variables: `${NAME}`."""
    send: Annotated[tuple[Kind, ...], _one_or_several(Kind), Field(min_length=1)] = ("frames",)
    """What is sent, one word or several: `frames` (one record a frame, as `jsonl` writes it), `objects` (one each),
    `tracks` (one when a track ends), `events` (one each), `counts` (at intervals), `status` (states of streams)."""
    labels: Annotated[tuple[str, ...], _one_or_several(str), Field(min_length=1)] | None = None
    """Labels of the objects that are sent or counted, and of those that events are about; all when not given."""
    rules: Annotated[tuple[RuleName, ...], _one_or_several(RuleName), Field(min_length=1)] | None = None
    """Rules whose events are sent (`lines.gate_in`, `lines.gate_in.in`); all when not given."""
    empty: bool = True
    """Send frames without objects and events too, so that a receiver sees that there is nothing."""
    max_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Most records a second of `frames` and of `objects`, for each stream and by its own time. Objects of a
    frame are sent together or not at all: after n of them the next frame is n / `max_rate` seconds later."""
    interval: Annotated[Duration, Field(gt=0)] = 10_000_000_000
    """Time of the stream between two records of `counts`."""
    track_timeout: Annotated[Duration, Field(gt=0)] = 2_000_000_000
    """A track has ended when it was not seen for longer than this time of the stream."""
    path_anchor: Anchor = "bottom"
    """The point of the box that makes the path of a track."""
    path_tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.0
    """How far in pixels a path may be from the points that are left out of it, if `path_points` are enough for that."""
    path_points: Annotated[int, Field(ge=2, le=500)] = 100
    """Most points of a path; one with more is simplified further."""
    image: Literal["crop", "frame"] | None = None
    """Add a JPEG to `events` and `tracks`: the object alone (where there is one on the frame), or the whole frame."""
    image_size: Annotated[int, Field(ge=16, le=8192)] = 640
    """The longer side of an image at most, in pixels."""
    image_quality: Annotated[int, Field(ge=1, le=100)] = 80
    """Quality of JPEG."""
    inline_below: Size = 64_000
    """Images smaller than this are in the record itself; larger ones are made smaller if they have no other place."""
    image_path: OutputPath | None = None
    """File of each larger image, `.jpg`, with `{frame}` and for crops `{track}`; also with `{stream}` and `{kind}`."""
    image_store: Annotated[ImageStore, _STORE] | None = None
    """An object store that takes the larger images instead: `s3://BUCKET/PREFIX`, or a mapping. They go through the
    outbox like records, so that outages lose none."""
    image_url: str | None = None
    """The address under which others find the images; the record then holds it with the path or key behind it."""
    image_keep: Keep | None = None
    """Limits on the image files that are kept; all when not given."""
    format: Format = "json"
    """How records are encoded: `json`, `msgpack`, `protobuf` (`sightline.proto`), or the message schemas of DeepStream:
    `deepstream` (for objects and events) and `deepstream_minimal` (for frames)."""
    sensors: Mapping[str, SensorData] = {}
    """With the schemas of DeepStream: what messages say of cameras and places, by stream (names or globs):
    {gate: {id: CAM_1, location: [45.29, -75.83, 48.1], place: {name: Yard}}}."""
    envelope: Envelope = "none"
    """What is put around each record: `cloudevents` makes it an event of CloudEvents 1.0, in structured JSON mode."""
    timeout: Annotated[Duration, Field(gt=0)] = 5_000_000_000
    """How long the destination may take to answer before the connection counts as lost."""

    def reason_against_processes(self) -> str | None:
        """Images are refused: they stay in the workers that read the streams."""
        return None if self.image is None else "`image` needs images of all streams in one process"

    @model_validator(mode="after")
    def _agrees_about_images(self) -> Self:
        if self.image is not None and not {"events", "tracks"} & {*self.send}:
            raise ValueError("image adds images to events and tracks: send one of them")
        if self.image is None and self.image_path is not None:
            raise ValueError("image_path is the file of images: give image: crop or image: frame too")
        if self.image is None and self.image_store is not None:
            raise ValueError("image_store keeps images: give image: crop or image: frame too")
        if self.image_path is not None and self.image_store is not None:
            raise ValueError("images go to files or to a store: give image_path or image_store")
        has_place = self.image_path is not None or self.image_store is not None
        if self.image is not None and not has_place and not self.inline_below:
            raise ValueError("images have no place: give image_path, image_store, or an inline_below above 0")
        if self.image_url is not None and not has_place:
            raise ValueError("image_url says where others find images: give image_path or image_store too")
        if self.image_keep is not None and self.image_path is None:
            raise ValueError("image_keep is about files of images: give image_path too")
        return self

    @abstractmethod
    def transport(self, site: Site) -> Transport:
        """Make the transport, without connecting. Raises MissingExtra when its client is not installed."""

    def destination(self) -> str:
        """Return the address for messages, without credentials."""
        return redact(self.url)

    def others(self) -> Mapping[str, Delivers]:
        """Return the store of images, if there is one."""
        return {} if self.image_store is None else {images.IMAGES: self.image_store}

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

    def urls(self) -> Sequence[str]:
        """Return a URL for each server that `url` names; none where it names a socket in the file system."""
        return (self.url,)

    def template(self) -> str:
        """Return the text with placeholders that says where records go; no credentials are in it."""
        return "" if self.address_key is None else str(getattr(self, self.address_key))

    def address(self, stream: str, kind: str, *, pipeline: str) -> str:
        """Return where a record of this stream and kind goes."""
        values = {"{stream}": stream, "{kind}": kind, "{pipeline}": pipeline}
        return _WORD.sub(lambda word: self.unsafe.sub("_", values[word[0]]) or "_", self.template())

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the URL, the template of the address, and that the client is installed."""
        wrong = list(self._url_problems())
        yield from wrong
        if self.address_key is not None:
            for word in dict.fromkeys(_WORD.findall(self.template())):
                if word not in PLACEHOLDERS:
                    near = suggest(word, PLACEHOLDERS) or f"; there is {', '.join(PLACEHOLDERS)}"
                    yield Problem(f"{word} stands for nothing here{near}", (self.address_key,))
        if problem := not_expressed(self.format, self.send):
            yield Problem(problem, ("format",))
        elif self.sensors and not self.format.startswith("deepstream"):
            yield Problem("sensors are part of the formats deepstream and deepstream_minimal", ("sensors",))
        elif self.image is not None and self.format.startswith("deepstream"):
            yield Problem(f"the format {self.format} has no place for images: leave image out", ("image",))
        if self.image_path is not None:
            yield from self._image_path_problems(self.image_path, context)
        if self.image_url is not None and not is_url(self.image_url):
            yield Problem("image_url is an address such as https://HOST/PATH", ("image_url",))
        if self.image_store is not None:
            for found in self.image_store.problems(is_crop=self.image == "crop"):
                yield replace(found, key=("image_store", *found.key))
        if not wrong:
            yield from self._transport_problems(context)

    def _url_problems(self) -> Iterator[Problem]:
        scheme = self.url.partition("://")[0].lower()
        if is_url(self.url) and scheme not in self.schemes:
            allowed = ", ".join(f"{name}://" for name in self.schemes)
            yield Problem(f"`{self.name}` takes a URL that begins with {allowed}, not {scheme}://", ("url",))
            return
        for url in self.urls() if is_url(self.url) else (self.url,):
            try:
                unknown = [host for host in hosts_of(readable_url(url)) if not is_known(host)]
            except ValueError as error:
                yield Problem(str(error), ("url",))
            else:
                if unknown:
                    yield Problem(f"there is no host {', '.join(unknown)} (no address is known for it)", ("url",))

    def _transport_problems(self, context: CheckContext) -> Iterator[Problem]:
        if not self._files_are_there():
            return  # which is an error already
        for one in (self, *self.others().values()):
            try:
                one.transport(Site(context.device)).close()
            except ConfigurationError as error:
                yield Problem(str(error))

    def _files_are_there(self) -> bool:
        """Whether all files that options name can be found, such as certificates."""
        return all(is_there(Path(path)) for _, role, path in paths_of(self) if role is PathRole.INPUT)

    def _image_path_problems(self, path: str, context: CheckContext) -> Iterator[Problem]:
        if PurePath(path).suffix.lower() not in (".jpg", ".jpeg"):
            yield Problem(f"{path!r} must end in .jpg", ("image_path",))
        lacking = [
            word for word in (images.FRAME, images.TRACK)[: 2 if self.image == "crop" else 1] if word not in path
        ]
        if lacking:
            yield Problem(f"images would have one name: put {' and '.join(lacking)} into the path", ("image_path",))
        known = images.PLACEHOLDERS
        yield from path_problems(self, path, context=context, shareable=False, known=known, key="image_path")

    def build(self, site: Site) -> DeliveryOperator:
        """Make the operator, which opens its mailbox."""
        from sightline_plugins.delivery.operator import DeliveryOperator

        return DeliveryOperator(self, site)
