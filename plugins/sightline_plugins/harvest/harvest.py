"""`harvest`: keep the frames that are worth labelling, with what was found on them as pre-labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sightline.errors import OutputError
from sightline.graph import Capability, CheckContext, Element, OutputPath, Problem, Site, Threading
from sightline.graph.fields import Fraction
from sightline.graph.references import Named
from sightline.media.time import Duration
from sightline_plugins.infer.trial_options import Share
from sightline_plugins.rules.names import RuleName

if TYPE_CHECKING:
    from sightline_plugins.harvest.harvester import Harvester

Reason = Literal["low_margin", "disagreement", "flicker", "label_change", "appearance", "event", "novelty"]
Format = Literal["coco", "yolo", "label_studio", "cvat"]
OF_TRACKS: frozenset[Reason] = frozenset(("flicker", "label_change", "appearance"))
"""Reasons that only frames with tracks have."""
MANIFEST = "frames.jsonl"


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _without_slash(path: str) -> str:
    return path.rstrip("/") or path


class Harvest(Element):
    """Keep the frames that are worth labelling: those that the model finds hard, each once, within a quota.

    Of each period of `per`, the best `quota` frames of all streams are kept, shared evenly by streams and reasons as
    far as these have candidates. A frame is a candidate for these reasons, each with a score from 0 to 1:

    - `low_margin`: a box whose confidence is within `margin` of `threshold`, two boxes in one place with different
      labels and nearly the same confidence, or a classifier that is as unsure.
    - `disagreement`: two detectors (`between`) find different objects.
    - `flicker`, `label_change`: a track that was lost and is back, or has another label than before.
    - `appearance`: a track that begins, or is lost, away from the border of the image and from other objects.
    - `event`: a rule named in `on` reports something, for instance what cannot be.
    - `novelty`: an embedding (`embed`) that is far from those of all frames that are kept.

    The share `random` of the quota is chosen at random, so that the data does not hold odd frames only. Of frames that
    show the same (perceptual hash of the luma, and objects at the same places), one is kept, and of each stream never
    more than one in `apart`.

    The image is the frame at this step: behind `privacy` it is redacted, and behind `draw` it would show boxes, so put
    it before. On frames that no detector ran on (`every`), only events count. Objects are exported as pre-labels in the
    `format`, every minute and at the end; `frames.jsonl` has the reasons and scores of each frame, and all that `jsonl`
    writes. Better frames replace others until their period is over. A run that is started again goes on
    with the folder and keeps no frame twice. When the disk is full, the step reports `sink_degraded` and continues when
    there is room.

    ```yaml
    - harvest: {path: out/harvest, quota: 500, per: 1d, threshold: 0.4, format: yolo}
    ```
    """

    name: ClassVar[str] = "harvest"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "path"
    threading: ClassVar[Threading] = Threading.OWN

    path: Annotated[OutputPath, AfterValidator(_without_slash)]
    """The folder, for all streams; it is made. One that an earlier run has filled is continued."""
    format: Format = "coco"
    """What the pre-labels are written as: `coco` (`annotations.json`), `yolo` (`labels/` and `data.yaml`),
    `label_studio` (`tasks.json` with predictions) or `cvat` (`annotations.xml`, CVAT for images 1.1)."""
    quota: Annotated[int, Field(ge=1, le=100_000)] = 200
    """How many frames are kept of each period, of all streams together."""
    per: Annotated[Duration, Field(gt=0)] = 86_400_000_000_000
    """The period of the quota, by the time of day in UTC; of files, by their own time."""
    apart: Duration = 2_000_000_000
    """Frames of a stream that are kept are at least so far from each other."""
    random: Share = 0.1
    """Which share of the quota is chosen at random."""
    limit: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """How many frames the folder may hold; then no more are kept, with one warning."""
    reasons: Annotated[tuple[Reason, ...], Field(min_length=1)] | None = None
    """The reasons that count; all when not given."""
    classes: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)] | None = None
    """Labels of the objects that count, and that become pre-labels, in the order of their numbers; all when not
    given."""
    threshold: Fraction = 0.25
    """The confidence from which an object counts for you: usually that of the detector (`confidence`)."""
    margin: Annotated[float, Field(gt=0, le=1)] = 0.15
    """How near to `threshold` a confidence is a `low_margin`."""
    between: tuple[str, str] | None = None
    """The ids of two steps before that detect the same kinds of objects. Those of the first become pre-labels."""
    on: Annotated[tuple[RuleName, ...], BeforeValidator(_as_tuple), Field(min_length=1)] | None = None
    """Rules whose events are a reason: `lines.gate`, or with a direction, state or kind `lines.gate.out`."""
    novelty: Annotated[float, Field(gt=0, le=2)] = 0.3
    """From which cosine distance to all that is kept an embedding is new."""
    duplicate_distance: Annotated[int, Field(ge=0, le=32)] = 8
    """In how many of 64 bits the perceptual hashes of two frames of the same content may differ."""
    quality: Annotated[int, Field(ge=1, le=100)] = 95
    """Quality of the JPEG images."""
    image_url: Annotated[str, Field(min_length=1)] | None = None
    """What stands before the names of images in the tasks of `label_studio`. Default: `/data/local-files/?d=images/`,
    for its local storage with this folder as document root."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        for reason, key in (("disagreement", "between"), ("event", "on")):
            is_named = self.reasons is not None and reason in self.reasons
            if is_named and getattr(self, key) is None:
                raise ValueError(f"the reason {reason} needs the option {key}")
            if self.reasons is not None and not is_named and getattr(self, key) is not None:
                raise ValueError(f"{key} has a meaning with the reason {reason} only")
        if self.between is not None and self.between[0] == self.between[1]:
            raise ValueError("between names two different steps")
        if self.image_url is not None and self.format != "label_studio":
            raise ValueError("image_url has a meaning with format: label_studio only")
        return self

    @property
    def active_reasons(self) -> frozenset[Reason]:
        """The reasons that count."""
        found = frozenset[Reason](get_args(Reason) if self.reasons is None else self.reasons)
        lacking = {"disagreement"} if self.between is None else set[str]()
        return found - lacking - ({"event"} if self.on is None else set())

    def required(self) -> frozenset[Capability]:
        """Objects, and what the reasons that are named in `reasons` need."""
        named = frozenset[Reason]() if self.reasons is None else frozenset(self.reasons)
        wants = {Capability.OBJECTS}
        wants |= {Capability.TRACKS} if named & OF_TRACKS else set()
        wants |= {Capability.EMBEDDINGS} if "novelty" in named else set()
        wants |= {Capability.EVENTS} if self.on is not None else set()
        return frozenset(wants)

    def wanted_labels(self) -> Named:
        """The labels in `classes`."""
        return [(("classes", number), label) for number, label in enumerate(self.classes or ())]

    def wanted_rules(self) -> Named:
        """The rules in `on`."""
        return [(("on", number), rule) for number, rule in enumerate(self.on or ())]

    def named_steps(self) -> Named:
        """The steps in `between`."""
        return [(("between", number), step) for number, step in enumerate(self.between or ())]

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that the folder can be written."""
        if "{" in self.path:
            yield Problem("the path is one folder for all streams: leave placeholders out", ("path",))
            return
        if self.path == "-":
            yield Problem("harvest writes a folder of images: standard output cannot take them", ("path",))
            return
        try:
            path = context.outputs.path(f"{self.path}/{MANIFEST}")
        except OutputError:
            return
        if obstacle := context.outputs.obstacle(path):
            yield Problem(obstacle, ("path",))

    def reason_against_processes(self) -> str | None:
        """The folder, and what it may hold, are those of all streams."""
        return "`quota` and `limit` count the frames of all its streams"

    def build(self, site: Site) -> Harvester:
        """Make the operator; the folder is opened at the first frame."""
        from sightline_plugins.harvest.harvester import Harvester

        return Harvester(self, site)
