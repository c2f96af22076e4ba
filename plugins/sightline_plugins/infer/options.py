"""Options of the elements that run a model: shared ones, those of detectors, and those of elements that describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from sightline.devices import DeviceKind
from sightline.errors import ConfigurationError, MissingExtra, ModelError
from sightline.graph.element import Capability, CheckContext, Element, Problem, Threading
from sightline.graph.fields import Fraction, InputPath
from sightline.graph.operator import Operator
from sightline.graph.site import Site
from sightline.media.time import Duration
from sightline_plugins.engines.address import ModelSource
from sightline_plugins.infer.fields import FrameCount, Levels, Means, NmsFields, PixelCount, Scales

if TYPE_CHECKING:
    from sightline_plugins.infer.plan import ModelPlan
    from sightline_plugins.infer.postprocessing import DetectionRules
    from sightline_plugins.nms import NmsOptions


def _ordered(region: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    left, top, right, bottom = region
    if left >= right or top >= bottom:
        raise ValueError("a region is [left, top, right, bottom] in fractions, with left < right and top < bottom")
    return region


def _as_labels(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _as_selection(value: object) -> object:
    return {"label": value} if isinstance(value, str | list | tuple) else value


Region = Annotated[tuple[Fraction, Fraction, Fraction, Fraction], AfterValidator(_ordered)]
"""Left, top, right, bottom as fractions of the image."""
Regions = Annotated[tuple[Region, ...], Field(min_length=1, max_length=64)]
Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_WHOLE: tuple[Region, ...] = ((0.0, 0.0, 1.0, 1.0),)


class TargetSelection(BaseModel):
    """Which objects of the steps before a model is run on, and what of the image it sees of each."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True, populate_by_name=True
    )

    label: Annotated[tuple[str, ...], BeforeValidator(_as_labels)] | None = None
    """Labels of the objects; all when not given."""
    origin: Annotated[str | None, Field(alias="from")] = None
    """The step that found them (its `id`, such as detect-1); any when not given."""
    min_size: tuple[Size, Size] | None = None
    """Width and height in pixels that the box must have at least: what is too small to tell is not asked about."""
    min_confidence: Fraction = 0.0
    """Confidence that the object must have at least."""
    tracked: bool = False
    """Only objects that a tracker follows, and what was found on those: what it does not believe (yet) costs no looks.
    Objects that nobody follows are looked at on each frame."""
    margin: Annotated[float, Field(ge=0, le=4)] = 0.0
    """How far beyond the box the model sees, on each side, as a share of the box's width and height."""
    square: bool = False
    """Whether the box is made a square around its middle, so that nothing is distorted."""
    align: Literal["face"] | None = None
    """`face` turns and scales by the five landmarks of a face, as models that recognise faces want it."""


class ModelElement(Element):
    """A step that runs a model. Its subclasses say what the model's outputs become."""

    threading: ClassVar[Threading] = Threading.PENDING
    scalar: ClassVar[str | None] = "model"
    task: ClassVar[str]
    """What its model cards say as `task`, and the heads that fit."""

    model: ModelSource
    """The ONNX file, or a model that Triton serves: grpc://HOST:PORT/NAME or http://HOST:PORT/NAME."""
    head: str | None = None
    """How the outputs are read (the guide to models lists the heads); told from the outputs when not given."""
    head_options: Mapping[str, Any] = {}
    """Settings of the head, such as anchors; its family's usual ones when not given."""
    labels: tuple[str, ...] | InputPath | None = None
    """Class names in order: a list, or a file with one a line."""
    size: tuple[PixelCount, PixelCount] | None = None
    """Width and height of the network's input, for models that leave them open."""
    fit: Literal["letterbox", "stretch", "expand", "cover", "height", "native"] | None = None
    """How an image of another shape fills the input: `letterbox` with padding, `stretch` distorted, `expand` with what
    the image shows around it (beyond the image its edge is repeated), `cover` its middle (see `crop`), `height`
    full height and the width that it needs (text), `native` unscaled, the input as large as the image."""
    align: Literal["center", "top_left"] | None = None
    """Where a letterboxed image lies."""
    crop: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of the shorter side that `fit: cover` keeps; 0.875 is 224 of 256."""
    multiple: Annotated[int, Field(ge=1, le=512)] | None = None
    """With `fit: native`, sides of the input are rounded up to a multiple of this."""
    resize: Literal["bilinear", "area", "nearest", "antialias"] | None = None
    """How the image is made small."""
    convert: Literal["network", "image"] | None = None
    """Where colours are converted: at the network's size, or at the image's before it is resized."""
    color: Literal["rgb", "bgr", "gray"] | None = None
    """Order of the channels that the network wants."""
    mean: Means | None = None
    """Taken off each level before `scale`: one value, or one a channel."""
    scale: Scales | None = None
    """Each level is divided by this (255 gives 0..1): one value, or one a channel."""
    pad: Levels | None = None
    """Level of the padding, 0 to 255: one value, or one a channel."""
    engine: Literal["auto", "openvino", "onnxruntime", "tensorrt", "triton"] = "auto"
    """What computes; `auto` is Triton for models that it serves. On a GPU it is TensorRT where that is installed and
    takes the model, else ONNX Runtime where it was built for GPUs; else, and on the CPU, OpenVINO where it is
    installed, else ONNX Runtime."""
    precision: Literal["auto", "fp32", "fp16", "int8"] = "fp32"
    """How exactly it is computed. `fp32` takes the file as it is, on every machine alike: results should change because
    somebody wanted it, not because another processor did the work. `int8` takes the quantised file beside the model
    (`street.int8.onnx`, which `sightline quantize` writes). `fp16` halves it on GPUs; CPUs compute it as fp32. `auto`
    measures what there is once, and keeps the fastest that lost no more than its budget; the report says why."""
    every: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Run on every n-th frame of each stream, from its first."""
    frames: FrameCount | None = None
    """Images that a model of actions looks at together, the newest of each stream (with `on`, of each track); told
    from the file where it says how many."""
    stride: FrameCount | None = None
    """Every how many frames one of these images is taken; the card's when not given, else 1."""
    regions: Regions | Mapping[str, Regions] | None = None
    """Where to look: a list of [left, top, right, bottom] in fractions of the image, or a mapping from streams (names
    or globs) to such lists; the whole image when not given, and for streams that the mapping does not name."""
    on: Annotated[TargetSelection, BeforeValidator(_as_selection)] | None = None
    """Run on objects of steps before instead of on the image: a label, a list of labels, or a mapping such as
    {label: car, min_size: [32, 32]}."""
    refresh: Duration = 2_000_000_000
    """What was found out about a tracked object is used again until it is so old; sooner when its box has grown by half
    or it is seen better, and 0.2, 0.5 and 1 s after it appeared. `0s` asks again on each frame. Objects whose place is
    only remembered (plates that a step before did not look for on this frame) are not looked at."""

    def required(self) -> frozenset[Capability]:
        """Objects, for a step that works on them; tracks, for one that looks at several images of each."""
        if self.on is None:
            return self.needs
        return self.needs | ({Capability.OBJECTS} if self.frames is None else {Capability.OBJECTS, Capability.TRACKS})

    def wanted_labels(self) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """The labels that `on` names."""
        if self.on is None or self.on.label is None:
            return ()
        return [(("on", "label", number), label) for number, label in enumerate(self.on.label)]

    def named_steps(self) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """The step that `on` names."""
        return () if self.on is None or self.on.origin is None else [(("on", "from"), self.on.origin)]

    def searches(self) -> bool:
        """Whether it looks for objects, and in images instead of on objects."""
        return Capability.OBJECTS in self.gives and self.on is None

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Engine, precision, regions, and options that contradict each other; subclasses add the model."""
        from sightline_plugins.infer.precision.choice import precision_problem

        found = {"precision": precision_problem(self), "engine": self._engine_problem(context)}
        problems = [Problem(wrong, (key,)) for key, wrong in found.items() if wrong is not None]
        if self.on is not None and self.regions is not None:
            problems.append(Problem("regions are parts of the image: with `on` the objects say where", ("regions",)))
        if isinstance(self.regions, Mapping) and not context.streams_may_come:
            problems += [
                Problem(f"no stream is called {glob!r}; streams: {', '.join(context.streams)}", ("regions", glob))
                for glob in self.regions
                if not any(fnmatchcase(stream, glob) for stream in context.streams)
            ]
        return problems

    def _engine_problem(self, context: CheckContext) -> str | None:
        from sightline_plugins.engines.opening import check_engine

        if self.engine == "tensorrt" and context.device.kind is DeviceKind.CPU:
            return "tensorrt is an engine of GPUs, and this runs on the CPU: write auto"
        try:
            check_engine(self.engine, self.model)
        except MissingExtra as error:  # of a served model, whoever reads its facts tells it
            return str(error) if self.engine == "tensorrt" else None
        except ConfigurationError as error:
            return str(error)
        return None

    def regions_of(self, stream: str) -> Sequence[tuple[float, float, float, float]]:
        """The regions of a stream by its name, in fractions of the image."""
        if self.regions is None:
            return _WHOLE
        if not isinstance(self.regions, Mapping):
            return self.regions
        found = (regions for glob, regions in self.regions.items() if fnmatchcase(stream, glob))
        return next(found, _WHOLE)


CONFIDENCE = 0.25
TileSide = Annotated[int, Field(ge=32, le=16_384)]


def _as_suppression(value: object) -> object:
    return {"method": value} if isinstance(value, str) else value


def _as_tiles(value: object) -> object:
    return {"size": value} if isinstance(value, list | tuple) else value


class Tiles(BaseModel):
    """How an image is cut into overlapping tiles."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)

    size: tuple[TileSide, TileSide] | None = None
    """Width and height of a tile in pixels of the image; those of the network's input when not given."""
    overlap: Annotated[float, Field(ge=0, le=0.9)] = 0.2
    """The share of a tile that its neighbours show, too, at least. What is smaller than that is never cut."""
    whole: bool = True
    """Whether the model is also run on the whole image, for what is larger than a tile."""


class DetectionElement(ModelElement):
    """A step whose model finds boxes."""

    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})

    confidence: Fraction | None = None
    """Least confidence of an object; the card's when not given, else 0.25."""
    class_confidence: Mapping[str, Fraction] = {}
    """Least confidence for some classes, by label."""
    classes: tuple[str, ...] | None = None
    """Labels of the classes that become objects; all when not given."""
    iou: Fraction | None = None
    """Of two boxes that overlap by more than this (intersection over union) the less confident is dropped; the head's
    family decides when not given (0.45; end-to-end models: 1, none is dropped)."""
    class_agnostic: bool | None = None
    """Whether boxes of different classes drop one another too."""
    nms: Annotated[NmsFields, BeforeValidator(_as_suppression)] = NmsFields()
    """What becomes of boxes that overlap by more than `iou`: `hard` drops the less confident, `soft` takes confidence
    from it, `fusion` makes one box of them, `none` leaves them. A mapping says more: {method: soft, sigma: 0.3}."""
    max_detections: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Objects of an image (and of a region or tile) at most: 300 when not given."""
    tiles: Annotated[Tiles | None, BeforeValidator(_as_tiles)] = None
    """Run on overlapping tiles of the image, for things that are small in a large image: a mapping such as
    {size: [640, 640], overlap: 0.2, whole: true} (pixels of the image), or only the size."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Model, card, labels, head, classes, engine, regions and tiles."""
        return [*plan_detections(self)[2], *super().check(context)]

    def found_labels(self) -> frozenset[str] | None:
        """The labels of the model, those of `classes` only when they are given; None for a model without labels."""
        plan, _, _ = plan_detections(self)
        if plan is None or not plan.labels:
            return None
        return frozenset(plan.labels if self.classes is None else self.classes)

    def build(self, site: Site) -> Operator:
        """Load the model. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.detections import DetectionPostprocessor
        from sightline_plugins.infer.operator import build_operator

        plan, rules, problems = plan_detections(self)
        if plan is None or rules is None:
            raise ModelError("; ".join(problem.message for problem in problems))
        task = DetectionPostprocessor(plan, rules, element_id=site.element_id or self.name, warn=site.warn)
        return build_operator(self, plan, task=task, site=site)


def plan_detections(
    element: DetectionElement, *, needs_head: bool = True
) -> tuple[ModelPlan | None, DetectionRules | None, list[Problem]]:
    """The plan of the model and the rules for its boxes, or None and at least one problem. Loads no engine."""
    from sightline_plugins.infer.plan import plan_model

    named: list[tuple[tuple[str | int, ...], str]] = [
        (("classes", number), name) for number, name in enumerate(element.classes or ())
    ]
    named += [(("class_confidence", name), name) for name in element.class_confidence]
    plan, problems = plan_model(element, named=named, needs_head=needs_head)
    if plan is None:
        return None, None, problems
    return plan, _rules(element, plan), [*problems, *_tile_problems(element, plan)]


def _tile_problems(element: DetectionElement, plan: ModelPlan) -> Iterable[Problem]:
    if element.tiles is None:
        return
    for name in ("on", "regions"):
        if getattr(element, name) is not None:
            yield Problem(f"tiles cover the whole image: leave out {name}, or tiles", ("tiles",))
    if element.tiles.size is None and plan.preprocessing.size_wh is None:
        yield Problem("the model takes images of any size: say how large tiles are, such as [640, 640]", ("tiles",))


BOX_RULES = ("class_confidence", "iou", "class_agnostic", "nms", "max_detections")
"""Options that only boxes need."""


def useless_options(element: ModelElement, names: Iterable[str], *, plan: ModelPlan) -> list[Problem]:
    """A problem for each of these options that was set although what the model's head gives has no use for it."""
    if plan.head is None:
        return []
    told = f"has no meaning for a model with head {plan.head.name!r}: leave it out"
    return [Problem(f"{name} {told}", (name,)) for name in names if name in element.model_fields_set]


def _rules(element: DetectionElement, plan: ModelPlan) -> DetectionRules:
    import numpy as np

    from sightline_plugins.infer.postprocessing import DetectionRules

    card, labels = plan.card, plan.labels
    general = next(value for value in (element.confidence, card.confidence, CONFIDENCE) if value is not None)
    limits = np.full(len(labels) + 1, general, np.float32)
    for name, value in element.class_confidence.items():
        limits[labels.index(name)] = value
    chosen = element.classes
    wanted = None if chosen is None else np.array([label in chosen for label in labels] + [False])
    return DetectionRules(
        _nms(element, plan), min(general, *element.class_confidence.values(), general), limits, wanted
    )


def _nms(element: DetectionElement, plan: ModelPlan) -> NmsOptions:
    from sightline_plugins.nms import NmsOptions

    card, own = plan.card.nms, element.nms
    layers: list[Mapping[str, Any]] = [
        card.model_dump(),
        own.model_dump(),
        {"iou": element.iou, "class_agnostic": element.class_agnostic, "max_detections": element.max_detections},
    ]
    said = {name: value for layer in layers for name, value in layer.items() if value is not None}
    usual = plan.head.nms if plan.head is not None else NmsOptions()
    if usual.iou >= 1 and "method" in said:
        said.setdefault("iou", NmsOptions().iou)
    return replace(usual, **said)


class AttributeElement(ModelElement):
    """A step whose model describes: objects, where `on` says so, or else the image, which becomes an object."""

    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})

    vote: bool = True
    """With `on` and tracked objects: whether all looks at a track count together. `false` tells what the latest look
    says."""

    def provided(self) -> frozenset[Capability]:
        """Objects, when it describes images."""
        return frozenset() if self.on is not None else self.gives

    def found_labels(self) -> frozenset[str] | None:
        """The labels of the objects that stand for images; none when it describes objects."""
        return frozenset() if self.on is not None else self.image_labels()

    def image_labels(self) -> frozenset[str] | None:
        """The labels that an object which stands for an image can have."""
        raise NotImplementedError
