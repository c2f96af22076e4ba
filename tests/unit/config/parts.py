"""Small elements and sources with entry points, so that configuration is tested without anybody's plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sightline.graph import Capability, CheckContext, Element, InputPath, OutputPath, Problem, Registry, SourceElement
from sightline.graph.fields import Fraction, InputUri, is_url
from sightline.media.time import Duration


class Detect(Element):
    """Finds objects with a model.

    Slower and better with a larger model.

    ```yaml
    - detect: {model: street.onnx, confidence: 0.4}
    ```
    """

    name: ClassVar[str] = "detect"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})

    model: InputPath
    """The model file. ONNX is understood."""
    confidence: Fraction = 0.4
    """Objects below it are dropped."""
    every: Annotated[int, Field(ge=1)] = 1
    """Run on every n-th frame."""
    fit: Literal["letterbox", "stretch"] = "letterbox"
    """How the image is brought to the size of the network."""
    labels: InputPath | tuple[str, ...] | None = None
    """Names of the classes: a file, or a list."""
    mean: tuple[float, float, float] = (0, 0, 0)
    """Taken off each channel."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        del context
        if self.model.suffix not in ("", ".onnx"):
            yield Problem(f"{self.model.name} is no ONNX model", key=("model",))


class Track(Element):
    """Follows objects from frame to frame."""

    name: ClassVar[str] = "track"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.TRACKS})

    max_lost: Duration = 1_000_000_000
    """How long a lost object is remembered."""
    draw_trail: bool = False
    """Keep the way of each object."""


class Line(BaseModel):
    """One line."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)

    start: Annotated[tuple[Fraction, Fraction], Field(alias="from")]
    """One end."""
    to: tuple[Fraction, Fraction]
    """The other end."""
    classes: tuple[str, ...] = ()
    """Only these."""


class Lines(Element):
    """Counts what crosses lines."""

    name: ClassVar[str] = "lines"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TRACKS})
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.EVENTS})

    lines: Mapping[str, Line]
    """The lines by name."""

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, data: Any) -> Any:
        own = {"id", "streams", "lines"}
        named = {name: line for name, line in data.items() if name not in own}
        return {**{name: value for name, value in data.items() if name in own}, "lines": named} if named else data


class Jsonl(Element):
    """Writes one line of JSON for each frame."""

    name: ClassVar[str] = "jsonl"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"

    path: OutputPath
    """The file."""
    password: str | None = None
    """Of the receiver."""
    stall_timeout: Duration = 1_000_000_000
    """How long it may stand still."""


class Media(SourceElement):
    """A video file or URL."""

    name: ClassVar[str] = "media"

    uri: InputUri
    """What to read."""
    loop: bool = False
    """Start again at the end."""
    max_fps: Annotated[float, Field(gt=0)] | None = None
    """Leave frames out."""

    @classmethod
    def accepts(cls, uri: str) -> bool:
        return not is_url(uri) or uri.startswith(("http://", "rtsp://"))


class Pattern(SourceElement):
    """A test image."""

    name: ClassVar[str] = "pattern"

    pattern: Literal["bars", "noise"]
    """Which image."""
    size: tuple[int, int] = (64, 48)
    """Width and height."""
    frames: Annotated[int, Field(ge=1)] = 10
    """How many."""


class Nothing:
    """No element at all."""


ELEMENTS = (Detect, Jsonl, Lines, Track)
SOURCES = (Media, Pattern)


def entry(name: str, target: str, group: str = "sightline.elements") -> EntryPoint:
    return EntryPoint(name=name, value=target, group=group)


def registry(**more: str) -> Registry:
    """The registry of this module's parts; `more` adds entry points to elements by name."""
    elements = {element.name: entry(element.name, f"{__name__}:{element.__name__}") for element in ELEMENTS}
    elements |= {name: entry(name, target) for name, target in more.items()}
    return Registry(
        elements=elements,
        sources={
            source.name: entry(source.name, f"{__name__}:{source.__name__}", "sightline.sources") for source in SOURCES
        },
    )
