"""`multi_camera`: give one global id to an object that several streams see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from sightline.graph import Capability, CheckContext, Element, Operator, Problem, Site
from sightline.graph.wording import allowed, suggest
from sightline.media.time import Duration
from sightline_plugins.track.multi_camera.floor_plan import FloorCamera, FloorPlanError, fit_floor
from sightline_plugins.track.multi_camera.motion import FloorMotion

Number = Annotated[float, Field(allow_inf_nan=False)]
FloorPoint = tuple[Number, Number, Number, Number]
"""x and y of a point in the image, and X and Y of the same point on the floor in metres."""
Probability = Annotated[float, Field(gt=0, lt=1)]

POINTS = "[[x, y, X, Y], ...]"
_BEYOND_POINTS = 1.5
"""The floor that cameras see, in each direction, in widths of what the points cover."""
_LEAST_SIDE_M = 5.0


class MultiCamera(Element):
    """Give one global id to an object that several streams see (multi-target multi-camera tracking).

    Tracks of all streams are compared by what is there: their appearance, if `embed` stands before this step, and their
    position and velocity on a `floor` plan. A track that was seen for `confirm_after` gets the id of the object that it
    most probably is, or a new one. Objects have the attributes `global_id` and `global_id_confidence`, the probability
    that the id is right. Two tracks that one stream shows at the same time never share an id; tracks of several streams
    do, if their views overlap and the positions agree. An event `identity` reports that a track was `matched` with a
    known object, or that later evidence `revised` its id; ids that were written before stay as they are.

    `floor` holds at least four points for each camera: x and y in the image (fractions of the frame, or `pixels: true`)
    and X and Y on the floor in metres, in one coordinate system for all cameras. Streams without points are matched
    by appearance only.

    Trade-offs:

    - `confirm_after`: longer waits gather more evidence before the first decision.
    - `min_probability`: a higher value confuses fewer objects and gives more ids to the same object.
    - `max_speed`: what objects cannot reach is not matched. Set it for vehicles; too high a value makes positions
      worth less.
    - `max_wait`: streams are compared in the order of time. A stream that is behind is waited for this long, so ids of
      the others come later.

    ```yaml
    - multi_camera:
        floor:
          street: [[0.1, 0.9, 0, 0], [0.9, 0.9, 6, 0], [0.7, 0.3, 6, 14], [0.3, 0.3, 0, 14]]
          entrance: [[0.2, 0.8, 6, 10], [0.8, 0.9, 0, 10], [0.7, 0.4, 0, 24], [0.3, 0.4, 6, 24]]
    ```
    """

    name: ClassVar[str] = "multi_camera"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TRACKS})
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.EVENTS})

    floor: Mapping[str, tuple[FloorPoint, ...]] = Field(default_factory=dict)
    """Points of each camera, by the stream's name: [[x, y, X, Y], ...]."""
    pixels: bool = False
    """x and y are pixels of the frame instead of fractions of it."""
    max_error: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.5
    """How far the points of a camera may be from where its homography puts them, in metres."""
    max_speed: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 3.0
    """The fastest that objects move, in metres per second."""
    classes: tuple[str, ...] | None = None
    """Labels of the objects that get global ids; all when not given. Objects of different labels are never the same."""
    confirm_after: Duration = 500_000_000
    """How long a track is seen before it gets a global id."""
    max_gap: Duration = 300_000_000_000
    """An object that no stream has shown for this long is forgotten, and gets a new id when it comes back."""
    max_wait: Duration = 2_000_000_000
    """How long decisions wait for streams that are behind."""
    min_probability: Probability = 0.5
    """How probable it has to be that a track is a known object rather than a new one."""

    @model_validator(mode="after")
    def _check_floor(self) -> Self:
        """Refuse points outside the image, and points that fit no homography."""
        errors = [
            InitErrorDetails(
                type=PydanticCustomError("floor_plan", "{text}", {"text": text}), loc=("floor", *key), input=None
            )
            for stream, points in self.floor.items()
            for key, text in self._mistakes(stream, points)
        ]
        if errors:
            raise ValidationError.from_exception_data(self.name, errors)
        return self

    def _mistakes(self, stream: str, points: tuple[FloorPoint, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
        outside = False
        for number, (x, y, _, _) in enumerate(points):
            if not self.pixels and not (0 <= x <= 1 and 0 <= y <= 1):
                outside = True
                yield (
                    (stream, number),
                    f"[{x:g}, {y:g}] is outside the image: give fractions from 0 to 1, or pixels and `pixels: true`",
                )
        if not outside:
            try:
                fit_floor(points, max_error_m=self.max_error)
            except FloorPlanError as error:
                yield (stream,), f"the floor plan of the camera {stream!r}: {error}"

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Report streams of the floor plan that do not exist."""
        for stream in self.floor:
            if stream not in context.streams and not context.streams_may_come:
                near = suggest(stream, context.streams) or f"; streams: {allowed(context.streams)}"
                yield Problem(f"there is no stream {stream!r} that this step works on{near}", ("floor", stream))

    def check_given(self, given: Mapping[str, frozenset[Capability]]) -> Iterator[Problem]:
        """Report streams that have neither embeddings nor a floor plan."""
        lacking = [
            stream for stream, present in given.items() if Capability.EMBEDDINGS not in present | self._plan_of(stream)
        ]
        if lacking:
            streams = "the streams" if len(lacking) > 1 else "the stream"
            yield Problem(
                f"there is nothing to match {streams} {allowed(lacking)} by: put embed (with on) before this step, "
                f"or give the floor plan of each camera (floor: {{{lacking[0]}: {POINTS}}})"
            )

    def _plan_of(self, stream: str) -> frozenset[Capability]:
        return frozenset({Capability.EMBEDDINGS} if stream in self.floor else ())

    def wanted_labels(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the classes."""
        for number, label in enumerate(self.classes or ()):
            yield ("classes", number), label

    def found_rules(self) -> frozenset[str]:
        """Return the kinds of events."""
        return frozenset({"matched", "revised"})

    def reason_against_processes(self) -> str | None:
        """It compares objects of all streams."""
        return "it compares objects of several streams"

    def serves_all_gpus(self) -> bool:
        """Return True: streams of all GPUs are compared."""
        return True

    def cameras(self) -> dict[str, FloorCamera]:
        """Return the cameras of the floor plan."""
        return {stream: fit_floor(points, max_error_m=self.max_error) for stream, points in self.floor.items()}

    def motion(self) -> FloorMotion | None:
        """Return how objects move on the floor plan; None without one."""
        if not self.floor:
            return None
        points = np.array([point[2:] for points in self.floor.values() for point in points])
        sides = np.maximum(_BEYOND_POINTS * np.ptp(points, axis=0), _LEAST_SIDE_M)
        return FloorMotion(self.max_speed, float(sides.prod()))

    def build(self, site: Site) -> Operator:
        """Make the operator, which knows the objects of all streams."""
        from sightline_plugins.track.multi_camera.operator import MultiCameraOperator

        return MultiCameraOperator(self, site)
