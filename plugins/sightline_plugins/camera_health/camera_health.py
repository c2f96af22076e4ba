"""`camera_health`: report cameras that are covered, turned, out of focus or frozen."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from sightline.graph import Capability, ChangesLive, Element, Operator, Site
from sightline.graph.rule_options import Severity
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration

Check = Literal["covered", "turned", "defocused", "frozen"]
CHECKS: tuple[Check, ...] = ("covered", "turned", "defocused", "frozen")
IMAGE = "image"
"""The name of the tensor with what was measured."""

_Time = Annotated[Duration, Field(gt=0)]


class CameraHealth(Element):
    """Report cameras that are covered, turned, out of focus or frozen.

    Each camera is compared with itself: for the first ten seconds it learns what stands still in the image, then
    it looks twice a second, on luma of at most 320 pixels width, made small from the planes as they were decoded.
    Times are those of the frames, so the frame rate does not matter. It needs no model.

    - `camera_covered`: most of what stood in the image is gone, and nothing with detail is there instead: a hand, a
      bag, paint, or a light that was switched off.
    - `camera_turned`: what stands in the image no longer matches, or matches somewhere else. Matching is by structure,
      so that day, dusk, headlights and shadows do not count, nor does a shift of up to a fortieth of the width, as of a
      mast in the wind.
    - `camera_defocused`: things are where they were, and their fine detail is gone. Dense fog is that as well.
    - `camera_frozen`: the image stays the same to the pixel, though time goes on. A still scene is not frozen: the
      noise of the sensor changes it. A camera whose images are often the same by themselves gets more time.

    Each is an event with `state: began`, and `state: ended` with `seconds` when it is over; the name of its rule is the
    last word (`camera_health.covered`). With it go `brightness` and `contrast` (levels from 0 to 255), `match` (the
    share of the image that is as usual) and, where known, `sharpness` (1 is as usual) and `shift_x`, `shift_y` (shares
    of the width and height). The report holds how often and how long, and what was measured last. The tensor `image`
    has brightness, contrast, match, sharpness (NaN where it is not known) and the share of pixels that changed, on
    frames that were looked at.

    Put it before steps that change images. A camera that is meant to move has `checks: [frozen]`. What it learned is
    kept over a restart. In a GPU's memory frames are made small there; the kernel is that of `flow`, and has run on no
    GPU yet ([what has run on GPUs](../benchmarks/gpu.md)).

    ```yaml
    - camera_health: {after: 20s, severity: high}
    ```
    """

    name: ClassVar[str] = "camera_health"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.EVENTS})

    checks: Annotated[tuple[Check, ...], Field(min_length=1)] = CHECKS
    """What is looked for."""
    interval: _Time = NANOSECONDS // 2
    """The time from one compared frame to the next; with fewer frames than that, each is compared."""
    learn: _Time = 10 * NANOSECONDS
    """How long it learns what a camera usually sees."""
    after: ChangesLive[_Time] = 20 * NANOSECONDS
    """How long a camera has to be covered, turned or out of focus. Longer than lorries stand before it."""
    frozen_after: ChangesLive[_Time] = 30 * NANOSECONDS
    """How long its image has to stay the same."""
    clear_after: ChangesLive[_Time] = 10 * NANOSECONDS
    """How long it has to be well until the event ends."""
    relearn: ChangesLive[_Time] = 3600 * NANOSECONDS
    """A camera that has been covered, turned or out of focus for so long has a new view: the event ends with
    `reason: relearned`, and the view is learned anew. One that shows nothing at all goes on being covered."""
    match: ChangesLive[Annotated[float, Field(gt=0, lt=1)]] = 0.4
    """When less of what usually stands in the image is there, the camera is covered or turned. Higher finds smaller
    changes; lower bears more traffic that stands in the image."""
    sharpness: ChangesLive[Annotated[float, Field(gt=0, lt=1)]] = 0.45
    """When less of the usual fine detail is left, the camera is out of focus."""
    severity: ChangesLive[Severity | None] = None
    """How grave its events are; it stands in each of them."""

    @field_validator("checks")
    @classmethod
    def _each_once(cls, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        if len(set(checks)) < len(checks):
            raise ValueError("names a check twice: name each once")
        return checks

    def found_rules(self) -> frozenset[str]:
        """Return the names of the rules: the checks."""
        return frozenset(self.checks)

    def build(self, site: Site) -> Operator:
        """Make the operator."""
        from sightline_plugins.camera_health.operator import CameraHealthOperator

        return CameraHealthOperator(self, site=site)
