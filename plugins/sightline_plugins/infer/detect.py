"""`detect`: find objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from sightline.graph.element import CheckContext, Problem
from sightline.graph.site import Site
from sightline_plugins.infer.adaptive.budget import Budget
from sightline_plugins.infer.options import DetectionElement

if TYPE_CHECKING:
    from sightline_plugins.infer.operator import ModelOperator


class Detect(DetectionElement):
    """Find objects with a neural network (an ONNX file) and add them to the objects of earlier steps.

    Boxes are in pixels of the source frame, clipped to it. Options that are not given come from the model card
    (`street.yaml` beside `street.onnx`), then from the file's metadata, then from the defaults of the head's family; so
    a known export needs nothing but `model`. Results do not depend on batch size, number of streams or timing.

    Trade-offs:

    - A low `confidence` finds more objects and is wrong more often; for a tracker 0.1 can be right, because it filters
      by itself. `class_confidence` sets it per class.
    - `every: 3` runs the network on every third frame of each stream, for a third of the cost; a tracker predicts the
      frames between, which have no detections.
    - `every: auto` runs it where it pays: more often while objects move, come and meet, and hardly while nothing does,
      within the `budget`. It needs `track` behind it, and is for cameras that stand still: while one moves, the network
      runs on every frame.
    - `regions` runs the network once per region: small distant objects are seen larger, and each region costs a run.
      Detections that overlapping regions share are merged.
    - `tiles` cuts large frames into overlapping tiles to find small objects: more tiles find smaller objects, and cost
      more runs. Objects that are cut by tile edges are merged.
    - `on` looks for objects on objects of earlier steps (plates on cars); what is found becomes a child of the object.
    - `convert: network` converts colours after the resize, which is fastest; `image` converts before it, as training
      code does: it gives exactly the numbers of OpenCV, and costs more the larger the frame.
    - `resize: area` averages instead of sampling: more stable on small objects in large frames, and slower.

    ```yaml
    detect:
      model: models/street.onnx
      confidence: 0.4
      classes: [car, person]
      class_confidence: {person: 0.3}
    ```
    """

    name: ClassVar[str] = "detect"
    task: ClassVar[str] = "detect"

    every: Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"] = 1  # type: ignore[assignment]  # one value more
    """Run on every n-th frame of each stream, starting with its first; `auto`: on those where it pays."""
    budget: Budget | None = None
    """With `every: auto`: what may be lost, and how many runs may be spent."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Check as for all models, and that `every: auto` and `budget` fit the other options."""
        yield from super().check(context)
        if self.every != "auto":
            if self.budget is not None:
                yield Problem("a budget is for every: auto: set that, or leave the budget out", ("budget",))
            return
        for name in ("on", "frames", "compat"):
            if getattr(self, name) is not None:
                yield Problem(f"every: auto decides for whole frames: leave out {name}, or give a number", ("every",))

    def open(self, site: Site) -> ModelOperator:
        """Load the model. Raises ModelError or ConfigurationError."""
        if self.every != "auto":
            return super().open(site)
        from sightline_plugins.infer.adaptive.operator import open_adaptive_model

        return open_adaptive_model(self, site, budget=self.budget or Budget())

    @property
    def frame_interval(self) -> int:
        """One with `auto`, which decides by itself."""
        return 1 if self.every == "auto" else self.every
