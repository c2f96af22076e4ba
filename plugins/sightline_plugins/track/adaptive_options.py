"""Options and thresholds of the default tracker."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from sightline.graph.fields import Fraction
from sightline.graph.tracker import Tracker, TrackerOptions
from sightline.media.time import Duration
from sightline_plugins.track.tracks import Floats

REIDENTIFY_WITHIN_NS = 60_000_000_000
NEVER = 2.0
"""A similarity that no pair reaches."""


class AdaptiveOptions(TrackerOptions):
    """Options of `AdaptiveTracker`.

    Thresholds are certainties: confidences relative to those of objects that the detector finds steadily, which have
    0.95 (`calibrate`). Detections from `new_track_threshold` to `high_confidence` are fair. Their weight depends on the
    track: they keep a track whose detections are mostly fair; for a track with mostly high certainty they count as low,
    because the object is probably half hidden.
    """

    name: ClassVar[str] = "adaptive"
    tells_matches: ClassVar[bool] = True

    max_lost: Duration = 2_000_000_000
    """How long a track is kept without being seen, whatever the frame rate (at least two frames)."""
    min_hits: Annotated[int, Field(ge=1)] = 2
    """Detections in a row with `high_threshold` before a track is confirmed and gets its id; lower ones count less."""
    calibrate: bool = True
    """Whether thresholds are relative to the detector's usual confidence; false takes its confidences as they are."""
    high_threshold: Fraction = 0.8
    """Detections from here on count fully for `min_hits`; each 0.1 less counts 0.135 less, down to 0.1."""
    low_confidence: Fraction = 0.1
    """Detections below are not used."""
    high_confidence: Fraction = 0.56
    """Detections from here on are matched first; those below need more overlap with objects mostly seen with high
    certainty."""
    new_track_threshold: Fraction = 0.6
    """Detections from here on may begin a track."""
    class_mismatch_weight: Fraction = 0.5
    """Weight of the overlap when the class differs: at 1 classes play no part, at 0 a track keeps its class."""
    camera_motion: bool = False
    """Whether expected boxes follow the camera's motion, which is measured in the images; 10 ms a frame and more. For
    cameras in vehicles and drones, and for those that pan."""
    appearance: bool = False
    """Whether tracks and detections are compared by their embeddings too, which `embed` before this step computes. For
    objects that hide each other or stay hidden for long; set a longer `max_lost` with it."""

    reidentify_within: Duration = REIDENTIFY_WITHIN_NS
    """With `appearance`: how long after an object was last seen it gets its id back when it is recognized, wherever it
    appears: after a longer occlusion, or when the camera was gone. 0 switches it off."""
    visual: bool = False
    """Whether objects are followed in the images, by correlation filters: on frames without a detector (`every` of
    `detect`), and for a second where no detection finds them. Takes 1 to 2 ms a frame for 5 objects, 10 to 35 ms for
    100."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low_confidence > min(self.high_confidence, self.new_track_threshold):
            raise ValueError(
                "tracker: low_confidence must not be above high_confidence or new_track_threshold, got "
                f"{self.low_confidence}, {self.high_confidence}, {self.new_track_threshold}"
            )
        if not self.appearance and self.reidentify_within not in (0, REIDENTIFY_WITHIN_NS):
            raise ValueError("tracker: reidentify_within compares embeddings: set appearance: true with it")
        return self

    @property
    def needs_appearance(self) -> bool:
        """The option `appearance`."""
        return self.appearance

    @property
    def needs_images(self) -> bool:
        """The options `camera_motion` and `visual`."""
        return self.camera_motion or self.visual

    @property
    def follows_objects(self) -> bool:
        """The option `visual`."""
        return self.visual

    def build(self, *, first_id: int = 1) -> Tracker:
        """Make the tracker of one stream."""
        from sightline_plugins.track.adaptive import AdaptiveTracker

        return AdaptiveTracker(self, first_id=first_id)


@dataclass(frozen=True, slots=True)
class MatchingThresholds:
    """Similarities, 0 to 1, above which a track and a detection match.

    A similarity is intersection over union, times the detection's certainty where that is at least
    `new_track_threshold`, times `class_mismatch_weight` where the classes differ.
    """

    min_similarity: float = 0.31
    """Confirmed track and high detection match above this."""
    min_similarity_fair: float = 0.27
    """Confirmed track that is mostly seen with fair certainty, and fair detection, match above this."""
    min_similarity_half_hidden: float = 0.4
    """Confirmed track that is mostly seen with high certainty, and fair detection, match above this."""
    min_similarity_low: float = 0.5
    """Track seen in the last frame and low detection match above this."""
    min_similarity_tentative: float = 0.1
    """Track not yet confirmed, and fair or high detection, match above this."""
    way_margin: float = 1.3
    """The last round matches the remaining tracks and high detections with boxes enlarged on each side by so many
    standard deviations of the way from one frame to the next, which is long for new tracks and at low frame rates."""
    least_margin: float = 0.1
    """They are enlarged by at least this fraction of their size; tracks not yet confirmed take part where their way is
    longer than that."""
    min_similarity_wide: float = 0.11
    """Similarity of the enlarged boxes above which they match."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value < 0 or (value > 1 and field.name not in ("least_margin", "way_margin")):
                raise ValueError(f"tracker: {field.name} must be from 0 to 1, got {value}")

    def floors(self) -> Floats:
        """Return (kinds, bands): the similarity that a track of a kind needs with a detection of a band."""
        high, low, tentative = self.min_similarity, self.min_similarity_low, self.min_similarity_tentative
        fair, half_hidden = self.min_similarity_fair, self.min_similarity_half_hidden
        return np.array(
            [
                [NEVER, NEVER, tentative, tentative],
                [NEVER, low, half_hidden, high],
                [NEVER, NEVER, half_hidden, high],
                [NEVER, low, fair, high],
                [NEVER, NEVER, fair, high],
            ],
            np.float32,
        )
