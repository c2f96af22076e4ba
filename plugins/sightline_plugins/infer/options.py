"""Options of the elements that run a model.

`ModelElement` holds the options that all of them share, `DetectionElement` adds those of models that find boxes, and
`AttributeElement` those of models that describe what they see.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from sightline.devices import DeviceKind
from sightline.errors import ConfigurationError, MissingExtra, ModelError
from sightline.graph.chosen import ChosenValue
from sightline.graph.described import Described
from sightline.graph.element import Capability, CheckContext, Element, Problem, Threading
from sightline.graph.fields import Fraction, InputPath, matching
from sightline.graph.live_options import ChangesLive
from sightline.graph.operator import Operator
from sightline.graph.references import Named
from sightline.graph.site import Site
from sightline.media.time import Duration
from sightline_plugins.engines.address import ModelSource
from sightline_plugins.engines.kinds import EngineName
from sightline_plugins.infer.fields import (
    Align,
    ChannelOrder,
    Convert,
    Crop,
    Fit,
    FrameCount,
    Levels,
    Means,
    Multiple,
    NmsFields,
    PixelCount,
    Resize,
    Scales,
)
from sightline_plugins.infer.trial_options import CanaryOptions, ShadowOptions, TrialLimits

if TYPE_CHECKING:
    from sightline_plugins.infer.operator import ModelOperator
    from sightline_plugins.infer.plan import ModelPlan
    from sightline_plugins.infer.postprocessing import Postprocessor

Precision = Literal["auto", "fp32", "bf16", "fp16", "int8"]
PRECISION_VARIABLE = "SIGHTLINE_PRECISION"
Planned = tuple["ModelPlan | None", list[Problem]]
"""The plan of a model, None where it cannot be used, and every problem that was found."""


def _ordered(region: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    left, top, right, bottom = region
    if left >= right or top >= bottom:
        raise ValueError("a region is [left, top, right, bottom] in fractions, with left < right and top < bottom")
    return region


def _as_labels(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _short_form(key: str, *types: type) -> BeforeValidator:
    """Return a validator that reads a value of these types as the mapping `{key: value}`."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, types) else value)


Region = Annotated[tuple[Fraction, Fraction, Fraction, Fraction], AfterValidator(_ordered)]
"""Left, top, right, bottom as fractions of the frame."""
Regions = Annotated[tuple[Region, ...], Field(min_length=1, max_length=64)]
Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
MOST_DETECTIONS = 10_000
TileSide = Annotated[int, Field(ge=32, le=16_384)]
_WHOLE: tuple[Region, ...] = ((0.0, 0.0, 1.0, 1.0),)


class TargetSelection(Described):
    """Select the objects of earlier steps that a model runs on, and how much around each of them it sees."""

    label: Annotated[tuple[str, ...], BeforeValidator(_as_labels)] | None = None
    """Labels of the objects. Default: all."""
    origin: Annotated[str | None, Field(alias="from")] = None
    """The `id` of the step that found them, such as `detect-1`. Default: any step."""
    min_size: tuple[Size, Size] | None = None
    """Minimum width and height of the box in pixels. Skip objects that are too small to recognise."""
    min_confidence: Fraction = 0.0
    """Minimum confidence of the object."""
    tracked: bool = False
    """Run only on tracked objects and on what was found on them, which saves runs on objects that the tracker has not
    confirmed. Objects without a track are otherwise run on in every frame."""
    margin: Annotated[float, Field(ge=0, le=4)] = 0.0
    """How much the crop extends beyond the box on each side, as a fraction of the box's width and height."""
    square: bool = False
    """Extend the box to a square around its centre, so that the crop is not distorted."""
    align: Literal["face"] | None = None
    """`face` rotates and scales the crop by the five landmarks of a face, as face recognition models expect."""


class ModelElement(Element):
    """A step that runs a model. Subclasses define what becomes of the model's outputs."""

    threading: ClassVar[Threading] = Threading.PENDING
    scalar: ClassVar[str | None] = "model"
    task: ClassVar[str]
    """The `task` of its model cards, and of the heads that fit."""

    model: ChangesLive[ModelSource]
    """The ONNX file, a model of the store (`store:plates@2`; `store:plates` is its newest version), one of the
    catalogue (`yolox-nano`, after `sightline models pull yolox-nano`), or one that Triton serves:
    `grpc://HOST:PORT/NAME` or `http://HOST:PORT/NAME`."""
    swap: ChangesLive[TrialLimits | None] = None
    """Limits for another `model` that is set while the pipeline runs, as long as the change is on probation: where it
    does not keep to them, the former model goes on. Default: three times the former model's time for a frame, and
    finite numbers only."""
    canary: ChangesLive[CanaryOptions | None] = None
    """A second model that serves a share of the streams: {model: models/new.onnx, share: 10%}. It is rolled back when
    it fails, is too slow, or disagrees too much."""
    shadow: ChangesLive[ShadowOptions | None] = None
    """A second model that runs on a sample of the frames without touching results: {model: models/new.onnx, every: 10}.
    The report says how far both agree."""
    head: str | None = None
    """The head that decodes the outputs; the guide to models lists them. Default: recognised from the outputs."""
    head_options: Mapping[str, Any] = {}
    """Settings of the head, such as anchors. Default: those of the model's family."""
    labels: tuple[str, ...] | InputPath | None = None
    """Class names in order: a list, or a file with one name a line."""
    size: tuple[PixelCount, PixelCount] | None = None
    """Width and height of the network's input, for models that leave them open."""
    fit: Fit | None = None
    """How the frame (or crop) is fitted into the network's input: `letterbox` pads, `stretch` distorts, `expand` fills
    the rest with what surrounds the crop (the edge of the frame is repeated), `cover` takes the centre (see `crop`),
    `height` scales to full height and keeps the aspect ratio (for text), `native` does not scale: the input is as large
    as the frame."""
    align: Align | None = None
    """Where a letterboxed frame lies in the input."""
    crop: Crop | None = None
    """The fraction of the shorter side that `fit: cover` keeps; 0.875 is 224 of 256."""
    multiple: Multiple | None = None
    """With `fit: native`: round the sides of the input up to a multiple of this."""
    resize: Resize | None = None
    """Interpolation of the resize."""
    convert: Convert | None = None
    """Where colours are converted: at the network's size, or at the frame's size before the resize."""
    color: ChannelOrder | None = None
    """Channel order of the network's input."""
    mean: Means | None = None
    """Subtracted from each level before `scale`: one value, or one per channel."""
    scale: Scales | None = None
    """Divides each level (255 gives 0..1): one value, or one per channel."""
    pad: Levels | None = None
    """Level of the padding, 0 to 255: one value, or one per channel."""
    engine: EngineName = "auto"
    """The inference engine. `auto` uses Triton for served models. On a GPU it prefers TensorRT, then ONNX Runtime with
    CUDA; otherwise, and on the CPU, OpenVINO, then ONNX Runtime."""
    precision: Precision = "auto"
    """Numeric precision. `auto` measures the available precisions once for each model and machine, and keeps the
    fastest that stays within its accuracy budget: 16 bits (bfloat16 on CPUs, FP16 on GPUs) are compared with fp32 on
    frames of the files among the sources; a pipeline of cameras alone uses what earlier runs found, else fp32. The
    report gives the reason. `fp32`
    runs the file as it is, so results do not depend on the machine. `bf16` computes in bfloat16 with OpenVINO on CPUs
    that have it (AVX-512 BF16, AMX, ARM's BF16), elsewhere as fp32. `fp16` halves the precision on GPUs; CPUs compute
    it as fp32. `int8` runs the quantised file beside the model (`street.int8.onnx`, written by `sightline quantize`).
    Where it is not given, the environment variable SIGHTLINE_PRECISION goes before `auto`."""
    every: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Run on every n-th frame of each stream, starting with its first."""
    frames: FrameCount | None = None
    """For action recognition models: how many frames make one input, the newest of each stream (with `on`, of each
    track). Default: read from the model file where it is fixed."""
    stride: FrameCount | None = None
    """For action recognition models: take every n-th frame. Default: the model card's value, else 1."""
    regions: Regions | Mapping[str, Regions] | None = None
    """Regions of interest: a list of [left, top, right, bottom] in fractions of the frame, or a mapping from streams
    (names or globs) to such lists. Default, and for streams that the mapping does not name: the whole frame."""
    on: Annotated[TargetSelection, _short_form("label", str, list, tuple)] | None = None
    """Run on objects of earlier steps instead of on the frame: a label, a list of labels, or a mapping such as
    {label: car, min_size: [32, 32]}."""
    reinfer_interval: Duration = 2_000_000_000
    """How long the result for a tracked object is reused before the model runs on it again. It runs earlier when the
    box has grown by half, when the object is seen with more confidence, and 0.2, 0.5 and 1 s after the track appeared.
    `0s` runs on every frame. Objects whose position is only carried over from an earlier frame are skipped."""

    compat: Literal["deepstream"] | None = None
    """`deepstream` cuts and counts as nvinfer of DeepStream does, to compare numbers with an installation: `every`
    counts batches instead of frames of each stream; crops of objects begin at even pixels and have even sides; centred
    letterboxes are rounded down; boxes that begin outside of the frame are moved into it, those that reach below it are
    dropped, and none is cut. Results then depend on which frames are in a batch."""

    @property
    def has_precision(self) -> bool:
        """Whether the precision was asked for: by the option, or by the environment."""
        return "precision" in self.model_fields_set or bool(os.environ.get(PRECISION_VARIABLE))

    @property
    def wanted_precision(self) -> Precision:
        """The precision that was asked for, or `auto`. Raises ConfigurationError for a wrong one in the environment."""
        if "precision" in self.model_fields_set:
            return self.precision
        named = os.environ.get(PRECISION_VARIABLE, "") or self.precision
        for precision in get_args(Precision):
            if named == precision:
                known: Precision = precision
                return known
        raise ConfigurationError(f"{PRECISION_VARIABLE}={named}: must be {', '.join(get_args(Precision))}")

    @property
    def frame_interval(self) -> int:
        """Of so many frames of a stream, the selector takes one."""
        return self.every

    def required(self) -> frozenset[Capability]:
        """Return objects for `on`, and tracks as well for several frames of each object."""
        if self.on is None:
            return self.needs
        return self.needs | ({Capability.OBJECTS} if self.frames is None else {Capability.OBJECTS, Capability.TRACKS})

    def wanted_labels(self) -> Named:
        """Return the labels that `on` names."""
        if self.on is None or self.on.label is None:
            return ()
        return [(("on", "label", number), label) for number, label in enumerate(self.on.label)]

    def named_steps(self) -> Named:
        """Return the step that `on` names."""
        return () if self.on is None or self.on.origin is None else [(("on", "from"), self.on.origin)]

    def searches(self) -> bool:
        """Return whether it looks for objects in frames rather than on objects."""
        return Capability.OBJECTS in self.gives and self.on is None

    def plan(self) -> Planned:
        """Plan how the model is used, or return None and at least one problem. Loads no engine."""
        from sightline_plugins.infer.plan import plan_model

        return plan_model(self)

    def plan_problems(self, plan: ModelPlan) -> list[Problem]:
        """Return the options that do not fit a model which can be used."""
        del plan
        return []

    def postprocessor(self, plan: ModelPlan, site: Site) -> Postprocessor[Any]:
        """Make what turns the model's outputs into results."""
        raise NotImplementedError

    def selection(self, plan: ModelPlan) -> TargetSelection | None:
        """Return the objects that the model runs on; None for frames."""
        del plan
        return self.on

    def chosen_values(self) -> Mapping[str, ChosenValue]:
        """Return what head, labels, pre-processing and boxes come to, from the model, its card and its head."""
        from sightline_plugins.infer.chosen import chosen_values

        plan, _ = self.plan()
        return {} if plan is None else chosen_values(self, plan)

    def advice(self, inputs: Mapping[str, str]) -> Iterable[str]:
        """Warn of a model that knows only some files (`made_for` in its card) on other ones."""
        from sightline_plugins.infer.card import read_card

        card = read_card(self.model)
        own = [name for name in inputs if matching(self.streams, [name])]
        others = [name for name in own if Path(inputs[name]).name not in card.made_for]
        if card.made_for and others:
            where = ", ".join(others[:3]) + (", ..." if others[3:] else "")
            yield (
                f"{Path(str(self.model)).name} is made for {', '.join(card.made_for)} only ({card.trained_on}); on "
                f"{where} it sees little, and wrong things: take a model of the catalogue (`sightline models list`)"
            )

    def alone(self, model: Path | str | None = None) -> Self:
        """Return the step with its first model alone, or with another one in its place."""
        changed = {"model": self.model if model is None else model, "swap": None, "canary": None, "shadow": None}
        return self.model_copy(update=changed)

    def promoted(self) -> Self | None:
        """Return the step with its canary as the model."""
        if self.canary is None:
            return None
        return self.model_copy(update={"model": self.canary.model, "canary": None})

    def files_beside(self) -> Mapping[str, Path]:
        """The cards of its models, and the files beside a model that hold weights of it (`model.onnx.data`)."""
        from sightline_plugins.infer.card import card_path
        from sightline_plugins.infer.facts import read_facts

        models = {"model": self.model}
        for name, second in (("canary.model", self.canary), ("shadow.model", self.shadow)):
            if second is not None:
                models[name] = second.model
        found: dict[str, Path] = {}
        for name, model in models.items():
            if isinstance(model, Path):
                found[f"the card of the {name}"] = card_path(model)
                with suppress(ModelError):  # the check says what is wrong with it
                    weights = read_facts(model).weights
                    found |= {f"a file of weights ({one}) of the {name}": model.parent / one for one in weights}
        return found

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Check model, card, labels, head, engine, precision, regions, and options that exclude each other. Of a model
        in the store, all files are compared with their SHA-256.
        """
        damage = self._damage()
        if damage is not None:
            return [Problem(damage, ("model",))]
        plan, problems = self.plan()
        found = [*problems, *(self.plan_problems(plan) if plan else ()), *self._option_problems(context)]
        if not found:
            found += [problem for name in ("canary", "shadow") for problem in self._second_problems(name, context)]
        return found

    def build(self, site: Site) -> Operator:
        """Load the model. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.exchange import ExchangeableModel

        return ExchangeableModel(self, site)

    def open(self, site: Site) -> ModelOperator:
        """Load the model, for `build`, or to take the place of another one. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.operator import open_model

        return open_model(self, site)

    def regions_of(self, stream: str) -> Sequence[tuple[float, float, float, float]]:
        """Return the regions of a stream, by its name, in fractions of the frame."""
        if self.regions is None:
            return _WHOLE
        if not isinstance(self.regions, Mapping):
            return self.regions
        return next((regions for glob, regions in self.regions.items() if fnmatchcase(stream, glob)), _WHOLE)

    def _second_problems(self, name: str, context: CheckContext) -> Iterable[Problem]:
        """Check the model of a canary or shadow."""
        options: CanaryOptions | ShadowOptions | None = getattr(self, name)
        if options is None:
            return
        second = self.alone(options.model)
        found = [one.message for one in second.check(context)]
        if name == "shadow" and not found:
            plan, _ = second.plan()
            if plan is not None and plan.stack is not None:
                found.append("a model of several frames cannot be a shadow, which sees a sample of them: use a canary")
        yield from (Problem(message, (name, "model")) for message in found)

    def _option_problems(self, context: CheckContext) -> list[Problem]:
        from sightline_plugins.infer.precision import precision_problem

        found = {"precision": precision_problem(self), "engine": self._engine_problem(context)}
        problems = [Problem(message, (key,)) for key, message in found.items() if message is not None]
        if self.on is not None and self.regions is not None:
            problems.append(
                Problem(
                    "regions are parts of the frame, and `on` runs on objects: leave one of the two out", ("regions",)
                )
            )
        if isinstance(self.regions, Mapping) and not context.streams_may_come:
            problems += [
                Problem(f"no stream is called {glob!r}; streams: {', '.join(context.streams)}", ("regions", glob))
                for glob in self.regions
                if not any(fnmatchcase(stream, glob) for stream in context.streams)
            ]
        return problems

    def _damage(self) -> str | None:
        from sightline_plugins.store import stored_model

        stored = stored_model(self.model) if isinstance(self.model, Path) else None
        return None if stored is None else stored.damage

    def _engine_problem(self, context: CheckContext) -> str | None:
        from sightline_plugins.engines.kinds import check_engine

        if self.engine == "tensorrt" and context.device.kind is DeviceKind.CPU:
            return "engine tensorrt needs a GPU, and this runs on the CPU: use auto"
        try:
            check_engine(self.engine, self.model)
        except MissingExtra as error:  # for a served model, reading its facts reports it
            return str(error) if self.engine == "tensorrt" else None
        except ConfigurationError as error:
            return str(error)
        return None


class Tiles(Described):
    """Cut frames into overlapping tiles."""

    size: tuple[TileSide, TileSide] | None = None
    """Width and height of a tile in pixels of the frame. Default: the size of the network's input."""
    overlap: Annotated[float, Field(ge=0, le=0.9)] = 0.2
    """Minimum overlap of neighbouring tiles, as a fraction of a tile. Objects smaller than the overlap are never
    cut."""
    whole: bool = True
    """Also run on the whole frame, for objects larger than a tile."""


class ClassLimits(Described):
    """Limits for the boxes of one class; what is not given is that of all classes."""

    min_size: tuple[Size, Size] | None = None
    """Minimum width and height of the box in pixels of the frame."""
    max_size: tuple[Size, Size] | None = None
    """Maximum width and height of the box in pixels of the frame."""
    max_detections: Annotated[int, Field(ge=1, le=MOST_DETECTIONS)] | None = None
    """How many boxes of the class stay at most, the most confident ones."""


class DetectionElement(ModelElement):
    """A step whose model finds boxes."""

    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})

    confidence: Fraction | None = None
    """Minimum confidence of an object. Default: the model card's value, else 0.25."""
    class_confidence: Mapping[str, Fraction] = {}
    """Minimum confidence of some classes, by label. Default: the model card's values, unless `confidence` is set."""
    classes: tuple[str, ...] | None = None
    """Labels of the classes that become objects. Default: all."""
    iou: Fraction | None = None
    """Boxes that overlap a more confident box by more than this (intersection over union) are suppressed. Default: the
    value of the head's family (0.45; end-to-end models 1, which suppresses nothing)."""
    class_agnostic: bool | None = None
    """Whether boxes of different classes suppress each other."""
    nms: Annotated[NmsFields, _short_form("method", str)] = NmsFields()
    """What happens to boxes that overlap by more than `iou`: `hard` drops the less confident, `soft` lowers its
    confidence, `fusion` merges them into one box, `none` keeps them all. A mapping sets more:
    {method: soft, sigma: 0.3}."""
    max_detections: Annotated[int, Field(ge=1, le=MOST_DETECTIONS)] | None = None
    """Maximum number of objects per frame (and per region or tile). Default: 300."""
    min_size: tuple[Size, Size] | None = None
    """Minimum width and height of an object's box in pixels of the frame: smaller ones are left out."""
    max_size: tuple[Size, Size] | None = None
    """Maximum width and height of an object's box in pixels of the frame: larger ones are left out."""
    max_per_class: Annotated[int, Field(ge=1, le=MOST_DETECTIONS)] | None = None
    """Maximum number of objects of each class on a frame, the most confident ones. Default: `max_detections` alone
    limits them."""
    class_limits: Mapping[str, ClassLimits] = {}
    """Other limits for some classes, by label: {person: {min_size: [8, 16], max_detections: 50}}."""
    tiles: Annotated[Tiles | None, _short_form("size", list, tuple)] = None
    """Run on overlapping tiles, to find small objects in large frames: a mapping such as
    {size: [640, 640], overlap: 0.2, whole: true} (pixels of the frame), or only the size."""

    def plan(self) -> Planned:
        """Plan the model; the classes that options name have to be among its labels."""
        return self._plan_boxes(needs_head=True)

    def plan_problems(self, plan: ModelPlan) -> list[Problem]:
        """Return limits that no box fits, and what does not fit `tiles`."""
        problems = list(self._limit_problems())
        if self.tiles is None:
            return problems
        problems += [
            Problem(f"tiles cover the whole frame: leave out {name}, or tiles", ("tiles",))
            for name in ("on", "regions")
            if getattr(self, name) is not None
        ]
        if self.tiles.size is None and plan.preprocessing.size_wh is None:
            message = "the model takes images of any size: set the size of tiles, such as [640, 640]"
            problems.append(Problem(message, ("tiles",)))
        return problems

    def _limit_problems(self) -> Iterator[Problem]:
        usual = ClassLimits(min_size=self.min_size, max_size=self.max_size)
        named = [(("class_limits", label), limits) for label, limits in self.class_limits.items()]
        for place, own in ((("min_size",), usual), *named):
            smallest, largest = own.min_size or usual.min_size, own.max_size or usual.max_size
            if smallest and largest and (smallest[0] > largest[0] or smallest[1] > largest[1]):
                sizes = " and ".join(
                    f"{name} {size[0]:g} x {size[1]:g}"
                    for name, size in (("min_size", smallest), ("max_size", largest))
                )
                yield Problem(f"no box fits both {sizes}", place)

    def found_labels(self) -> frozenset[str] | None:
        """Return the labels of the model, or those of `classes`; None for a model without labels."""
        plan, _ = self.plan()
        if plan is None or not plan.labels:
            return None
        return frozenset(plan.labels if self.classes is None else self.classes)

    def postprocessor(self, plan: ModelPlan, site: Site) -> Postprocessor[Any]:
        """Make objects of boxes."""
        from sightline_plugins.infer.detections import DetectionPostprocessor, detection_rules

        rules = detection_rules(self, plan)
        return DetectionPostprocessor(plan, rules, element_id=site.element_id or self.name, warn=site.warn)

    def _plan_boxes(self, *, needs_head: bool) -> Planned:
        from sightline_plugins.infer.plan import NamedClass, plan_model

        named: list[NamedClass] = [(("classes", number), name) for number, name in enumerate(self.classes or ())]
        named += [((key, name), name) for key in ("class_confidence", "class_limits") for name in getattr(self, key)]
        return plan_model(self, named=named, needs_head=needs_head)


CONFIDENCE = 0.25
"""Minimum confidence of an object where neither option nor card sets one."""
NMS_OPTIONS = (
    *("class_confidence", "iou", "class_agnostic", "nms", "max_detections", "min_size", "max_size", "max_per_class"),
    "class_limits",
)
"""Options that only boxes need."""


def unused_options(element: ModelElement, names: Iterable[str], *, plan: ModelPlan) -> list[Problem]:
    """Return a problem for each of these options that was set, although the model's head has no use for it."""
    if plan.head is None:
        return []
    reason = f"has no meaning for a model with head {plan.head.name!r}: leave it out"
    return [Problem(f"{name} {reason}", (name,)) for name in names if name in element.model_fields_set]


class AttributeElement(ModelElement):
    """A step whose model describes objects (with `on`), or the frame, which then becomes an object itself."""

    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})

    vote: bool = True
    """With `on` and tracked objects: combine all results for a track. `false` reports the newest result."""

    def provided(self) -> frozenset[Capability]:
        """Return objects when it describes frames."""
        return frozenset() if self.on is not None else self.gives

    def found_labels(self) -> frozenset[str] | None:
        """Return the labels of the objects that stand for frames; none when it describes objects."""
        return frozenset() if self.on is not None else self.frame_labels()

    def frame_labels(self) -> frozenset[str] | None:
        """Return the labels that an object which stands for a frame can have."""
        raise NotImplementedError
