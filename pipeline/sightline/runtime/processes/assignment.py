"""What a worker is given to run, and how its letters tell what goes wrong there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import PrivateAttr

from sightline import errors
from sightline.errors import ConfigurationError, OperatorError, SightlineError
from sightline.graph import Element, PipelineDescription, Sink, Site, SourceElement
from sightline.media import Batch, Stream
from sightline.redaction import redact
from sightline.runtime.processes.results import Forward, Results, Send
from sightline.runtime.sources.supervisor import Limits
from sightline.runtime.stats.counters import StreamStats
from sightline.runtime.tracing import MakeTelemetry


@dataclass(frozen=True, slots=True)
class Assignment:
    """A share of a run. `former` are the counts of streams that a worker before has begun, and `claimed` the files that
    it has written: streams go on behind both.
    """

    description: PipelineDescription
    outputs_root: Path | None
    limits: Limits
    fresh: bool
    hang_seconds: float
    """After how long without a sign of life the main process kills the worker."""
    forwarded: Mapping[str, int]
    """Steps of which the main process runs the operators, and their versions."""
    former: tuple[StreamStats, ...] = ()
    claimed: tuple[Path, ...] = ()
    wants_events: bool = False
    wants_batches: bool = False
    is_on_probation: bool = False
    """Whether a change is on probation when the worker begins."""
    traces: MakeTelemetry | None = None
    """What makes the telemetry that traces the frames of the worker."""


def forwarding(description: PipelineDescription, forwarded: Mapping[str, int], send: Send) -> PipelineDescription:
    """The description with steps that forward what they get, instead of those that the main process runs."""
    for element_id, element in tuple(description.elements()):
        if element_id in forwarded:
            made = forwarder(element_id, element, send, version=forwarded[element_id])
            description = description.with_element(element_id, made)
        else:
            description = description.with_element(element_id, named(element_id, element))
    return description


def named(element_id: str, element: Element) -> Element:
    """The element with its id: ids count the elements of a kind, some of which are replaced in a worker."""
    return element if element.id is not None else element.model_copy(update={"id": element_id})


def share_of(
    description: PipelineDescription,
    sources: Mapping[str, SourceElement],
    *,
    number: int,
    device: str,
) -> PipelineDescription:
    """The description of the worker with that number, from 1, that reads some of the streams."""
    state = description.state
    if state is not False:
        path = Path(state)
        state = str(path.with_stem(f"{path.stem}-{number}"))
    return description.model_copy(
        update={
            "sources": dict(sources),
            "sources_file": None,
            "keep_running": description.stays,
            "device": device,
            "state": state,
        }
    )


class Forwarder(Element):
    """Stands in a worker for a step whose operator the main process runs."""

    name: ClassVar[str] = "forward"
    sink: ClassVar[bool] = True

    version: int
    """That of the operator in the main process."""
    _send: Send = PrivateAttr()

    def build(self, site: Site) -> Forwarding:
        """Make what sends."""
        return Forwarding((site.element_id, self.version), self._send)


def forwarder(element_id: str, element: Element, send: Send, *, version: int) -> Forwarder:
    """The element that stands for another one, on the same streams."""
    made = Forwarder(id=element_id, streams=element.streams, version=version)
    object.__setattr__(made, "__pydantic_private__", {"_send": send})
    return made


class Forwarding(Sink):
    """Sends each batch, without its pixels, and the ends of streams. Raises ChannelClosed without a main process."""

    def __init__(self, to: Forward, send: Send) -> None:
        self._to = to
        self._send = send

    def consume(self, batch: Batch) -> None:
        """Send what was found on the frames."""
        self._send("results", (self._to, Results.of(batch)))

    def pause_stream(self, stream: Stream) -> None:
        """Tell that a stream is paused."""
        self._send("stream paused", (self._to, stream.name, stream.live))

    def end_stream(self, stream: Stream) -> None:
        """Tell that a stream has ended."""
        self._send("stream ended", (self._to, stream.name, stream.live))


@dataclass(frozen=True, slots=True)
class ToldError:
    """An error as it travels: some errors cannot be pickled, and none with what caused it."""

    kind: str
    text: str
    options: Mapping[str, Any]

    @classmethod
    def of(cls, error: BaseException) -> ToldError:
        """What another process gets of an error."""
        if not isinstance(error, SightlineError):
            return cls("SightlineError", redact(f"{type(error).__name__}: {error}"), {})
        options: dict[str, Any] = {}
        if isinstance(error, OperatorError):
            options = {"element": error.element, "stream": error.stream, "frame": error.frame}
        return cls(_kind_of(error), str(error), options)

    def error(self) -> SightlineError:
        """The error again."""
        made: SightlineError = getattr(errors, self.kind)(self.text, **self.options)
        return made


def _kind_of(error: SightlineError) -> str:
    """The most special kind that is made of a text alone; or, of an operator's error, with where it happened."""
    plain: Collection[type[SightlineError]] = (
        OperatorError,
        errors.DeviceUnavailable,
        ConfigurationError,
        errors.ModelError,
        errors.KernelError,
        errors.GpuOutOfMemory,
        errors.CudaFailed,
        errors.CudaError,
        errors.OutputError,
        errors.StreamError,
    )
    return next((kind.__name__ for kind in plain if isinstance(error, kind)), "SightlineError")
