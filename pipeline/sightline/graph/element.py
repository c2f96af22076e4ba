"""Elements: nodes as they are described. Immutable, typed, comparable, serialisable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sightline.devices import Device
from sightline.graph.operator import Operator
from sightline.graph.outputs import Outputs
from sightline.graph.site import Site


class Capability(StrEnum):
    """What a step can need from the steps before it, and give to those after it."""

    OBJECTS = "objects"
    TRACKS = "tracks"
    EVENTS = "events"


class Threading(StrEnum):
    """Where the runtime runs an element's operator.

    `inline`  cheap work: in the thread of the step before it
    `own`     heavy work: in a thread of its own, so that it overlaps with the other steps
    `pending` `process` returns a `Pending`: the steps after it run in another thread, which collects the results
    """

    INLINE = "inline"
    OWN = "own"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake found by a check: `key` is the path below the element, `message` what is wrong and what to do."""

    message: str
    key: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What an element may look at when it checks itself before anything runs."""

    device: Device
    streams: tuple[str, ...]
    outputs: Outputs
    streams_may_come: bool = False
    """Whether others may join while the pipeline runs, so that a name that none has now is no mistake."""


class Element(BaseModel):
    """A step of a pipeline, as it is described. The fields of a subclass are exactly its YAML keys.

    A subclass sets `name` (its YAML key and entry point), says what it needs and gives, and builds its operator. Its
    docstring explains purpose and trade-offs and holds one fenced YAML example, which a test loads. Its module
    imports nothing heavy: engines, codecs and OpenCV are imported where the operator is built.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
        populate_by_name=True,
    )

    name: ClassVar[str]
    needs: ClassVar[frozenset[Capability]] = frozenset()
    gives: ClassVar[frozenset[Capability]] = frozenset()
    threading: ClassVar[Threading] = Threading.INLINE
    sink: ClassVar[bool] = False
    changes_images: ClassVar[bool] = False
    """Whether it writes into (copies of) images; what a branch of a parallel writes is lost where they rejoin."""
    scalar: ClassVar[str | None] = None
    """The field that a bare value stands for: `jsonl: out.jsonl` is `jsonl: {path: out.jsonl}`."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    """Name of this step in reports, messages and `from:`; `detect-1` and so on when not given."""
    streams: tuple[str, ...] | None = None
    """Streams this step works on, as names or globs (`gate*`); all when not given. Frames of others pass it by."""
    on_error: Literal["stop", "skip"] = "stop"
    """What happens when this step fails: `stop` ends the pipeline with its outputs closed; `skip` lets the frames go on
    without this step, counted and told, and gives a stream up after 50 failures in a row. With `skip` the step gets the
    frames of each stream apart, and its results are waited for."""

    @model_validator(mode="after")
    def _what_hides_is_not_skipped(self) -> Element:
        if self.on_error == "skip" and self.changes_images:
            raise ValueError("a step that changes images cannot be skipped: what it is to hide would be seen")
        return self

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Return every mistake that can be found before anything runs: files, models, values that contradict each
        other.
        """
        del context
        return ()

    def provided(self) -> frozenset[Capability]:
        """What this step gives as it is configured: `gives`, and what an option of it adds."""
        return self.gives

    def required(self) -> frozenset[Capability]:
        """What this step needs as it is configured: `needs`, and what an option of it adds."""
        return self.needs

    def found_labels(self) -> frozenset[str] | None:
        """Labels of the objects that this step can add or rename; None when nobody can tell before it runs.

        Cheap, and never raises: None where files cannot be read. A step that gives objects and does not say is None.
        """
        return None if Capability.OBJECTS in self.provided() else frozenset()

    def wanted_labels(self) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """Labels that options of this step name, each with its path below the element.

        A label that no step before it finds is a mistake, told before anything runs.
        """
        return ()

    def found_rules(self) -> frozenset[str] | None:
        """Names of the rules whose events this step adds; None when nobody can tell before it runs."""
        return None if Capability.EVENTS in self.provided() else frozenset()

    def wanted_rules(self) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """Rules that options of this step name, each with its path below the element: `step.rule`, where the step is
        an id, or the name of its element, and `step.rule.direction`.

        A rule of no step before it is a mistake, told before anything runs.
        """
        return ()

    def searches(self) -> bool:
        """Whether this step looks for objects in whole images, and marks the frames it searched (`with_search`)."""
        return False

    def named_steps(self) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """Ids of steps before it that options of this step name, each with its path below the element.

        An id of no step before it is a mistake, told before anything runs.
        """
        return ()

    def relied_on(self) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """Those of the named steps that have to search whole images, because this step must not overlook anything."""
        return ()

    def serves_all_gpus(self) -> bool:
        """Whether a run on several GPUs has one operator of this step for all of them, instead of one for each.

        Sinks are so: they write files of several streams, hold a port, count what all of them wrote. Then streams of
        all GPUs come to the operator, from several threads but one at a time, and it has no `site.gpu`. What such a
        step knows of a stream stays when a GPU is lost: a step that does not touch images does well to say so.
        """
        return self.sink

    def build(self, site: Site) -> Operator:
        """Make the operator for this site. Raises a SightlineError when a part is missing."""
        raise NotImplementedError
