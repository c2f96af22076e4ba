"""Elements: the steps of a pipeline as they are described. Immutable, typed, comparable, serializable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from sightline.devices import Device
from sightline.graph.described import Described
from sightline.graph.live_options import changes_live, differ_live_only
from sightline.graph.operator import Operator
from sightline.graph.outputs import Outputs
from sightline.graph.site import Site

CHANGES_LIVE_KEY = "x-changes-live"
"""The key in the JSON Schema of an element that marks options which change live."""


class Capability(StrEnum):
    """What a step can need from the steps before it, and give to those after it."""

    OBJECTS = "objects"
    TRACKS = "tracks"
    EVENTS = "events"
    EMBEDDINGS = "embeddings"


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
    """What an element can use when it checks itself before anything runs."""

    device: Device
    streams: tuple[str, ...]
    outputs: Outputs
    streams_may_come: bool = False
    """Whether streams may be added while the pipeline runs, so that an unknown name is no mistake."""


class Element(Described):
    """A step of a pipeline, as it is described. The fields of a subclass are exactly its YAML keys.

    A subclass sets `name` (its YAML key and entry point), declares what it needs and gives, and builds its operator.
    One whose options name labels, rules or other steps implements the protocols of `sightline.graph.references`. Its
    docstring explains purpose and trade-offs and holds one fenced YAML example, which a test loads. Its module
    imports nothing heavy: engines, codecs and OpenCV are imported where the operator is built.
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[Capability]] = frozenset()
    gives: ClassVar[frozenset[Capability]] = frozenset()
    threading: ClassVar[Threading] = Threading.INLINE
    sink: ClassVar[bool] = False
    changes_images: ClassVar[bool] = False
    """Whether it writes into (copies of) images; what a branch of a parallel writes is lost where they rejoin."""
    draws_only: ClassVar[bool] = False
    """Whether what it writes into images is only a view of what the batch tells (boxes, zones), and hides nothing."""
    redacts: ClassVar[bool] = False
    """Whether images behind it lack what must not be seen."""
    moves_pixels: ClassVar[bool] = False
    """Whether what its images show is at other places than before, perhaps in another size, so that boxes found before
    do not fit."""
    delivers: ClassVar[bool] = False
    """Whether it puts records into the outbox of the run."""
    takes_packets: ClassVar[bool] = False
    """Whether it takes the encoded images of streams (`sightline.graph.Packets`), to record or publish them."""
    results_only: ClassVar[bool] = False
    """Whether it uses nothing of images but their sizes. In a run in several processes it then works in the main
    process, on the results of all streams."""
    scalar: ClassVar[str | None] = None
    """The field that a bare value stands for: `jsonl: out.jsonl` is `jsonl: {path: out.jsonl}`."""
    others_change_live: ClassVar[bool] = False
    """Whether its options of any name, such as the zones of `zones`, change live (`sightline.graph.live_options`)."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    """Name of this step in reports, messages and `from:`; `detect-1` and so on when not given."""
    streams: tuple[str, ...] | None = None
    """Streams this step works on, as names or globs (`gate*`); all when not given. Frames of others pass it by."""
    on_error: Literal["stop", "skip"] = "stop"
    """What happens when this step fails: `stop` ends the pipeline with its outputs closed; `skip` lets the frames go on
    without this step, counted and told, and gives a stream up after 50 failures in a row. With `skip` the step gets the
    frames of each stream apart, and its results are waited for."""

    @model_validator(mode="after")
    def _reject_skipping_changed_images(self) -> Element:
        if self.on_error == "skip" and self.changes_images:
            raise ValueError("a step that changes images cannot be skipped: what it is to hide would be seen")
        return self

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Return every mistake that can be found before anything runs: files, models, values that contradict each
        other.
        """
        del context
        return ()

    def changes_live_into(self, other: Element) -> bool:
        """Whether the operator of this element can become that of the other without being built anew."""
        return differ_live_only(self, other, others_change_live=self.others_change_live)

    def provided(self) -> frozenset[Capability]:
        """Return what this step gives as it is configured: `gives`, and what its options add."""
        return self.gives

    def required(self) -> frozenset[Capability]:
        """Return what this step needs as it is configured: `needs`, and what its options add."""
        return self.needs

    def serves_all_gpus(self) -> bool:
        """Whether a run on several GPUs has one operator of this step for all of them, instead of one for each.

        Sinks have one: they write files of several streams, hold a port, count the output of all streams. The operator
        then gets the streams of all GPUs, from several threads but one at a time, and has no `site.gpu`. Its state
        survives the loss of a GPU, so a step that keeps state and does not touch images should return True.
        """
        return self.sink

    def reason_against_processes(self) -> str | None:
        """Return why this step cannot be part of a run in several processes, in words after "because"; None when it
        can.

        A step that is no sink has an operator in each process, which gets all frames of some streams. Sinks that use
        results alone (`results_only`) work in the main process. Others may write one file, hold a port or count a limit
        for all streams, and are refused unless they say here that they do not.
        """
        if self.sink and not self.results_only:
            return "it uses images, and may have one file, port or limit for all streams"
        return None

    def files_beside(self) -> Mapping[str, Path]:
        """Return the files that this step reads though no option names them, by what they are: `the card of model`.
        No output replaces them.
        """
        return {}

    @property
    def fills_standard_output(self) -> bool:
        """Whether it writes to standard output what nothing else may stand between: video, and not lines."""
        return False

    def build(self, site: Site) -> Operator:
        """Build the operator for this site. Raises SightlineError when a part is missing."""
        raise NotImplementedError

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """Return the schema with `x-changes-live` at each option that changes live."""
        made = super().__get_pydantic_json_schema__(schema, handler)
        resolved = handler.resolve_ref_schema(made)
        properties = resolved.get("properties", {})
        for name, field in cls.model_fields.items():
            for key in {name, field.alias} & properties.keys() if changes_live(field) else ():
                properties[key][CHANGES_LIVE_KEY] = True
        if cls.others_change_live and isinstance(resolved.get("additionalProperties"), dict):
            resolved["additionalProperties"][CHANGES_LIVE_KEY] = True
        return made
