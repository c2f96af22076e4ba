"""The tree of a pipeline: sources, an ordered list of steps, two structures that nest, and runtime options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, Field, SerializeAsAny

from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph.cluster import ClusterSettings
from sightline.graph.described import Described
from sightline.graph.element import Element
from sightline.graph.fields import OutputPath, Size
from sightline.graph.outputs import Outputs
from sightline.graph.source import SourceElement
from sightline.graph.telemetry import TelemetryOptions
from sightline.media.time import Duration


class _Branches(Described):
    name: ClassVar[str]

    branches: Mapping[str, tuple[Step, ...]]
    """The branches by name, each a list of steps."""


class Tee(_Branches):
    """Branches that end: each gets every batch, and the steps after the tee see nothing of what a branch did."""

    name: ClassVar[str] = "tee"


class Parallel(_Branches):
    """Branches that rejoin: each gets every batch, and what they found is merged frame by frame, exactly."""

    name: ClassVar[str] = "parallel"


Step = SerializeAsAny[Element] | Tee | Parallel
Tee.model_rebuild()
Parallel.model_rebuild()


_MOST_PROCESSES = 64
_CORES_OF_A_PROCESS = 4
_STREAMS_OF_A_PROCESS = 2


class BatchOptions(Described):
    """How frames of all streams are gathered into batches."""

    size: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Frames in a batch at most. When not given: the number of streams, up to 16, and at least 4 where all are files
    that are read as fast as possible. Results do not depend on it."""
    timeout: Duration = 40_000_000
    """A batch leaves when it is full, or when its oldest frame has waited this long."""


class OutboxOptions(Described):
    """Where records wait for destinations outside until they are delivered, and how many."""

    path: OutputPath = "out/{pipeline}.outbox"
    """The file, made when a step delivers records; `{pipeline}` stands for the pipeline's name."""
    size: Annotated[Size, Field(ge=100_000)] = 1_000_000_000
    """Bytes of records that wait at most; the oldest are dropped, counted and reported."""
    age: Annotated[Duration, Field(gt=0)] = 86_400_000_000_000
    """Records that have waited longer are dropped, counted and reported."""
    linger: Duration = 10_000_000_000
    """How long the end of the pipeline waits for records to be delivered; what is left then is delivered by the next
    run. A pipeline that is stopped waits for one second at most."""


def _count(value: object) -> object:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_PROCESSES):
        return value
    raise ValueError(f"must be auto, or a number from 1 to {_MOST_PROCESSES}")


class ProcessOptions(Described):
    """In how many processes a pipeline runs, and when one of them has failed. `processes: 4` is
    `processes: {count: 4}`.
    """

    count: Annotated[int | Literal["auto"], BeforeValidator(_count)] = 1
    """How many workers share the streams; `auto` is one for every four cores, as long as each has two streams, and 1
    where a step cannot run in several. With 1 the pipeline runs in the process that was started."""
    hang_timeout: Annotated[Duration, Field(ge=1_000_000_000)] = 30_000_000_000
    """A worker that gives no sign of life for so long is killed and started again."""
    memory_limit: Annotated[Size, Field(ge=50_000_000)] | None = None
    """A worker that holds more memory is killed and started again; not watched when not given."""


def _path_or_false(value: object) -> object:
    if value is False or (isinstance(value, str) and value):
        return value
    raise ValueError("must be a path, or false for no file")


class SourcesFile(Described):
    """A YAML file of streams by name that is looked at again and again while the pipeline runs."""

    path: Path
    """Where it is."""
    streams: tuple[str, ...] = ()
    """The streams that it held when it was read; they stand among the sources."""


class PipelineDescription(Described):
    """Everything that a pipeline is, as a value: what a YAML file holds and what Python code can make."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "pipeline"
    """Name of the pipeline in reports and logs."""
    device: str = "auto"
    """Where it runs: `auto`, `cpu`, `cuda` (all GPUs) or `cuda:N`."""
    sources: Mapping[str, SerializeAsAny[SourceElement]]
    """Streams by name."""
    batch: BatchOptions = BatchOptions()
    """How frames are gathered."""
    steps: tuple[Step, ...] = ()
    """What is done with each batch, in order."""
    outbox: OutboxOptions = OutboxOptions()
    """Where records wait until they are delivered."""
    state: Annotated[Literal[False] | OutputPath, BeforeValidator(_path_or_false)] = "out/{pipeline}.state"
    """The file that keeps what steps have counted of live streams over a restart, or `false` for none; `{pipeline}`
    stands for the pipeline's name."""
    processes: ProcessOptions = ProcessOptions()
    """In how many processes it runs."""
    telemetry: TelemetryOptions | None = None
    """Where traces and metrics go; nowhere when not given."""
    cluster: ClusterSettings | None = None
    """How `sightline cluster run` spreads its streams over machines; `sightline run` leaves it out of account."""
    keep_running: bool = False
    """Go on when no stream is left, and wait for others; else the pipeline ends with its last stream."""
    overwrite: bool = False
    """Let outputs replace files that Sightline did not write."""
    sources_file: SourcesFile | None = None
    """A file with more streams, which come and go as it changes. It keeps the pipeline running."""

    @property
    def outbox_path(self) -> str:
        """The file of the outbox."""
        return self.outbox.path.replace("{pipeline}", self.name)

    @property
    def state_path(self) -> str | None:
        """The file of the state; None when none is kept."""
        return None if self.state is False else self.state.replace("{pipeline}", self.name)

    @property
    def stays(self) -> bool:
        """Whether the pipeline goes on when no stream is left."""
        return self.keep_running or self.sources_file is not None

    @property
    def process_count(self) -> int:
        """How many workers share its streams; 1 when it runs in one process. No more than there are streams, unless
        others may come.
        """
        wanted = self.processes.count
        if wanted == "auto":
            if any(True for _ in self.against_processes()):
                return 1
            return max(1, min(Device().cores // _CORES_OF_A_PROCESS, len(self.sources) // _STREAMS_OF_A_PROCESS))
        return wanted if self.stays else max(1, min(wanted, len(self.sources)))

    def against_processes(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """What cannot be part of a pipeline in several processes, and why: `("pipeline", ID)` of a step and
        `("sources", NAME)`.
        """
        for element_id, element in self.elements():
            if (reason := element.reason_against_processes()) is not None:
                yield ("pipeline", element_id), reason
        for name, source in self.sources.items():
            if (reason := source.reason_against_processes()) is not None:
                yield ("sources", name), reason

    def elements(self) -> Iterator[tuple[str, Element]]:
        """Every element of the tree with its id, in the order of the description."""
        yield from identify(self.steps)

    def element(self, element_id: str) -> Element:
        """Return the step with an id, given or counted (`lines-1`), at any depth. Raises ConfigurationError."""
        found = dict(self.elements())
        if element_id not in found:
            raise ConfigurationError(f"no step has the id {element_id!r}; the ids are {', '.join(found) or 'none'}")
        return found[element_id]

    def with_element(self, element_id: str, element: Element) -> PipelineDescription:
        """Return a description in which this element is the step with that id. Raises ConfigurationError."""
        self.element(element_id)
        return self._with_instead(element_id, (element,))

    def with_steps(self, steps: Sequence[Step], *, after: str | None) -> PipelineDescription:
        """Return a description with more steps, behind the step with that id and in its branch; None: before all.
        Raises ConfigurationError.
        """
        if after is None:
            return self.model_copy(update={"steps": (*steps, *self.steps)})
        element = self.element(after)
        return self._with_instead(after, (element, *steps))

    def without_element(self, element_id: str) -> PipelineDescription:
        """Return a description without the step with that id. Raises ConfigurationError."""
        self.element(element_id)
        return self._with_instead(element_id, ())

    def _with_instead(self, element_id: str, steps: Sequence[Step]) -> PipelineDescription:
        ids = iter([one for one, _ in self.elements()])
        return self.model_copy(update={"steps": _replaced(self.steps, element_id, steps, ids)})

    def limit(self, outputs: Outputs) -> None:
        """Let no output be written over a file that is read (clips, models, cards, the file with more streams), and
        over somebody else's only with `overwrite`.
        """
        outputs.may_overwrite = self.overwrite
        for name, source in self.sources.items():
            outputs.protect_inputs(source, of=f"the source {name!r}")
        for element_id, element in self.elements():
            outputs.protect_inputs(element, of=element_id)
            for what, path in element.files_beside().items():
                outputs.protect(path, f"{what} of {element_id}")
        if self.sources_file is not None:
            outputs.protect(self.sources_file.path, "the file with the sources")

    def to_plain(self) -> dict[str, Any]:
        """The description as plain data, in the form of the YAML file; loading it gives an equal description."""
        file = self.sources_file
        named = {} if file is None else {"sources_file": str(file.path)}
        kept = {name: True for name in ("keep_running", "overwrite") if getattr(self, name)}
        own = [name for name in self.sources if file is None or name not in file.streams]
        return {
            "name": self.name,
            "device": self.device,
            "sources": {name: _plain_source(self.sources[name]) for name in own},
            **named,
            **kept,
            "batch": self.batch.model_dump(mode="json", exclude_none=True),
            **({} if self.outbox == OutboxOptions() else {"outbox": _plain(self.outbox)}),
            **({} if self.state == type(self).model_fields["state"].default else {"state": self.state}),
            **({} if self.processes == ProcessOptions() else {"processes": _plain(self.processes)}),
            **({} if self.telemetry is None else {"telemetry": _plain(self.telemetry)}),
            **({} if self.cluster is None else {"cluster": _plain(self.cluster)}),
            "pipeline": _plain_steps(self.steps),
        }


def identify(steps: tuple[Step, ...]) -> Iterator[tuple[str, Element]]:
    """Each element below these steps with its id: the one given, else its name and a number."""
    seen: dict[str, int] = {}
    for element in _walk(steps):
        seen[element.name] = seen.get(element.name, 0) + 1
        yield element.id or f"{element.name}-{seen[element.name]}", element


def same_layout(one: tuple[Step, ...], other: tuple[Step, ...]) -> bool:
    """Whether two lists of steps differ in nothing but the options of their elements."""
    return len(one) == len(other) and all(map(_same_layout, one, other))


def _same_layout(one: Step, other: Step) -> bool:
    if isinstance(one, Element) or isinstance(other, Element) or type(one) is not type(other):
        return type(one) is type(other)
    return list(one.branches) == list(other.branches) and all(
        map(same_layout, one.branches.values(), other.branches.values())
    )


def _walk(steps: tuple[Step, ...]) -> Iterator[Element]:
    for step in steps:
        if isinstance(step, Element):
            yield step
        else:
            for branch in step.branches.values():
                yield from _walk(branch)


def _replaced(steps: tuple[Step, ...], wanted: str, instead: Sequence[Step], ids: Iterator[str]) -> tuple[Step, ...]:
    replaced: list[Step] = []
    for step in steps:
        if isinstance(step, Element):
            replaced += instead if next(ids) == wanted else (step,)
        else:
            branches = {name: _replaced(branch, wanted, instead, ids) for name, branch in step.branches.items()}
            replaced.append(step.model_copy(update={"branches": branches}))
    return tuple(replaced)


def _plain(described: BaseModel) -> dict[str, Any]:
    return described.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _plain_source(source: SourceElement) -> dict[str, Any]:
    """A source as it stands below its name: an option that tells its kind is there also where it was left out."""
    plain, kind = _plain(source), source.name
    if kind in plain or kind not in type(source).model_fields:
        return plain
    return source.model_dump(mode="json", include={kind}) | plain


def _plain_steps(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    return [
        {step.name: _plain(step)}
        if isinstance(step, Element)
        else {step.name: {name: _plain_steps(branch) for name, branch in step.branches.items()}}
        for step in steps
    ]
