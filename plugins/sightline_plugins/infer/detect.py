"""`detect`: finds objects with a neural network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from sightline.errors import ConfigurationError, ModelError
from sightline.graph.element import Capability, CheckContext, Element, Problem, Threading
from sightline.graph.fields import Fraction, InputPath
from sightline.graph.operator import Operator
from sightline.graph.site import Site
from sightline_plugins.infer.values import Levels, Means, PixelCount, Scales


def _ordered(region: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    left, top, right, bottom = region
    if left >= right or top >= bottom:
        raise ValueError("a region is [left, top, right, bottom] in fractions, with left < right and top < bottom")
    return region


Region = Annotated[tuple[Fraction, Fraction, Fraction, Fraction], AfterValidator(_ordered)]
"""Left, top, right, bottom as fractions of the picture."""
Regions = Annotated[tuple[Region, ...], Field(min_length=1, max_length=64)]
_WHOLE: tuple[Region, ...] = ((0.0, 0.0, 1.0, 1.0),)


class Detect(Element):
    """Finds objects with a neural network (an ONNX file) and adds them to those already there.

    Boxes come back in pixels of the source picture, clipped to it. What is not said here comes from the model card
    (`street.yaml` beside `street.onnx`), then from the file's metadata, then from the habits of the head's family; so a
    known export needs nothing but `model`. Results do not depend on batch size, number of streams or timing.

    The knobs and what they trade:

    - `confidence` low finds more and is wrong more often; a tracker may want 0.1 and sort it out itself.
      `class_confidence` sets it class by class.
    - `every: 3` runs the network on every third frame of each stream, for a third of the cost; a tracker predicts on
      the others, which carry no detections.
    - `regions` runs the network once for each region: small things far away are seen larger, and each region costs a
      run. What is found twice where regions overlap is merged.
    - `convert: network` converts colours after the picture was made small, which is the fastest; `picture` converts
      first, as training code does: it gives the very numbers that OpenCV would, and costs more the larger the picture.
    - `resize: area` averages instead of sampling: steadier on small things in large pictures, and slower.

    ```yaml
    detect:
      model: models/street.onnx
      confidence: 0.4
      classes: [car, person]
      class_confidence: {person: 0.3}
    ```
    """

    name: ClassVar[str] = "detect"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})
    threading: ClassVar[Threading] = Threading.PENDING
    scalar: ClassVar[str | None] = "model"

    model: InputPath
    """The ONNX file."""
    head: str | None = None
    """How the outputs are read: `fastestdet`, `yolox`, `yolov5`, `yolov8`, `end_to_end`, `end_to_end_normalized`; told
    from their shapes when not given."""
    labels: tuple[str, ...] | InputPath | None = None
    """Class names in order: a list, or a file with one a line."""
    confidence: Fraction | None = None
    """Least confidence of an object; the card's when not given, else 0.25."""
    class_confidence: Mapping[str, Fraction] = {}
    """Least confidence for some classes, by label."""
    classes: tuple[str, ...] | None = None
    """Labels of the classes that become objects; all when not given."""
    iou: Fraction | None = None
    """Of two boxes that overlap by more than this (intersection over union) the less confident is dropped; the head's
    family decides when not given (0.45; end-to-end models: 1, none is dropped)."""
    agnostic: bool | None = None
    """Whether boxes of different classes drop one another too."""
    max_detections: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Objects of a picture (or region) at most: 300 when not given."""
    fit: Literal["letterbox", "stretch"] | None = None
    """How a picture of another shape fills the network's input: with padding, or distorted."""
    align: Literal["center", "top_left"] | None = None
    """Where a letterboxed picture lies."""
    resize: Literal["bilinear", "area", "nearest"] | None = None
    """How the picture is made small."""
    convert: Literal["network", "picture"] | None = None
    """Where colours are converted: at the network's size, or at the picture's before it is resized."""
    color: Literal["rgb", "bgr"] | None = None
    """Order of the channels that the network wants."""
    mean: Means | None = None
    """Taken off each level before `scale`: one value, or one a channel."""
    scale: Scales | None = None
    """Each level is divided by this (255 gives 0..1): one value, or one a channel."""
    pad: Levels | None = None
    """Level of the padding, 0 to 255: one value, or one a channel."""
    size: tuple[PixelCount, PixelCount] | None = None
    """Width and height of the network's input, for models that leave them open."""
    engine: Literal["auto", "openvino", "onnxruntime"] = "auto"
    """What computes; `auto` is OpenVINO where it is installed, else ONNX Runtime."""
    every: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Run on every n-th frame of each stream, from its first."""
    regions: Regions | Mapping[str, Regions] | None = None
    """Where to look: a list of [left, top, right, bottom] in fractions of the picture, or a mapping from streams (names
    or globs) to such lists; the whole picture when not given, and for streams that the mapping does not name."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Model, card, labels, head, classes, engine and regions."""
        from sightline_plugins.infer.detection_plan import plan_detection
        from sightline_plugins.infer.engines.opening import choose

        _, problems = plan_detection(self)
        try:
            choose(self.engine)
        except ConfigurationError as error:
            problems.append(Problem(str(error), ("engine",)))
        if isinstance(self.regions, Mapping):
            problems += [
                Problem(f"no stream is called {glob!r}; streams: {', '.join(context.streams)}", ("regions", glob))
                for glob in self.regions
                if not any(fnmatchcase(stream, glob) for stream in context.streams)
            ]
        return problems

    def found_labels(self) -> frozenset[str] | None:
        """The labels of the model, those of `classes` only when they are given; None for a model without labels."""
        from sightline_plugins.infer.detection_plan import plan_detection

        plan, _ = plan_detection(self)
        if plan is None or not plan.labels:
            return None
        return frozenset(plan.labels if self.classes is None else self.classes)

    def build(self, site: Site) -> Operator:
        """Load the model. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.detection_plan import plan_detection
        from sightline_plugins.infer.detector import Detector
        from sightline_plugins.infer.engines.protocol import open_engine

        plan, problems = plan_detection(self)
        if plan is None:
            raise ModelError("; ".join(problem.message for problem in problems))
        engine = open_engine(
            self.model, engine=self.engine, device=str(site.device), image=plan.preprocessing.image_form()
        )
        return Detector(
            plan,
            engine=engine,
            element_id=site.element_id or self.name,
            every=self.every,
            regions_of=self.regions_of,
            warn=site.warn,
        )

    def regions_of(self, stream: str) -> Sequence[tuple[float, float, float, float]]:
        """The regions of a stream by its name, in fractions of the picture."""
        if self.regions is None:
            return _WHOLE
        if not isinstance(self.regions, Mapping):
            return self.regions
        found = (regions for glob, regions in self.regions.items() if fnmatchcase(stream, glob))
        return next(found, _WHOLE)
