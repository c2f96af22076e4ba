"""What every step that runs a model can be told: the model, its input, and what it is run on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from sightline.devices import DeviceKind
from sightline.errors import ConfigurationError, MissingExtra
from sightline.graph.element import Capability, CheckContext, Element, Problem, Threading
from sightline.graph.fields import Fraction, InputPath
from sightline.media.time import Duration
from sightline_plugins.infer.engines.address import ModelSource
from sightline_plugins.infer.model.values import FrameCount, Levels, Means, PixelCount, Scales


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
"""Left, top, right, bottom as fractions of the picture."""
Regions = Annotated[tuple[Region, ...], Field(min_length=1, max_length=64)]
Size = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_WHOLE: tuple[Region, ...] = ((0.0, 0.0, 1.0, 1.0),)


class Selection(BaseModel):
    """Which objects of the steps before a model is run on, and what of the picture it sees of each."""

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
    """How a picture of another shape fills the input: `letterbox` with padding, `stretch` distorted, `expand` with what
    the picture shows around it (beyond the picture its edge is repeated), `cover` its middle (see `crop`), `height`
    full height and the width that it needs (text), `native` unscaled, the input as large as the picture."""
    align: Literal["center", "top_left"] | None = None
    """Where a letterboxed picture lies."""
    crop: Annotated[float, Field(gt=0, le=1)] | None = None
    """The share of the shorter side that `fit: cover` keeps; 0.875 is 224 of 256."""
    multiple: Annotated[int, Field(ge=1, le=512)] | None = None
    """With `fit: native`, sides of the input are rounded up to a multiple of this."""
    resize: Literal["bilinear", "area", "nearest", "antialias"] | None = None
    """How the picture is made small."""
    convert: Literal["network", "picture"] | None = None
    """Where colours are converted: at the network's size, or at the picture's before it is resized."""
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
    """Pictures that a model of actions looks at together, the newest of each stream (with `on`, of each track); told
    from the file where it says how many."""
    stride: FrameCount | None = None
    """Every how many frames one of these pictures is taken; the card's when not given, else 1."""
    regions: Regions | Mapping[str, Regions] | None = None
    """Where to look: a list of [left, top, right, bottom] in fractions of the picture, or a mapping from streams (names
    or globs) to such lists; the whole picture when not given, and for streams that the mapping does not name."""
    on: Annotated[Selection, BeforeValidator(_as_selection)] | None = None
    """Run on objects of steps before instead of on the picture: a label, a list of labels, or a mapping such as
    {label: car, min_size: [32, 32]}."""
    refresh: Duration = 2_000_000_000
    """What was found out about a tracked object is used again until it is so old; sooner when its box has grown by half
    or it is seen better, and 0.2, 0.5 and 1 s after it appeared. `0s` asks again on each frame. Objects whose place is
    only remembered (plates that a step before did not look for on this frame) are not looked at."""

    def required(self) -> frozenset[Capability]:
        """Objects, for a step that works on them; tracks, for one that looks at several pictures of each."""
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
        """Whether it looks for objects, and in pictures instead of on objects."""
        return Capability.OBJECTS in self.gives and self.on is None

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Engine, precision, regions, and options that contradict each other; subclasses add the model."""
        from sightline_plugins.infer.precision.choice import precision_problem

        found = {"precision": precision_problem(self), "engine": self._engine_problem(context)}
        problems = [Problem(wrong, (key,)) for key, wrong in found.items() if wrong is not None]
        if self.on is not None and self.regions is not None:
            problems.append(Problem("regions are parts of the picture: with `on` the objects say where", ("regions",)))
        if isinstance(self.regions, Mapping) and not context.streams_may_come:
            problems += [
                Problem(f"no stream is called {glob!r}; streams: {', '.join(context.streams)}", ("regions", glob))
                for glob in self.regions
                if not any(fnmatchcase(stream, glob) for stream in context.streams)
            ]
        return problems

    def _engine_problem(self, context: CheckContext) -> str | None:
        from sightline_plugins.infer.engines.opening import check_engine

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
        """The regions of a stream by its name, in fractions of the picture."""
        if self.regions is None:
            return _WHOLE
        if not isinstance(self.regions, Mapping):
            return self.regions
        found = (regions for glob, regions in self.regions.items() if fnmatchcase(stream, glob))
        return next(found, _WHOLE)
