"""What a tracker can be told."""

from __future__ import annotations

from dataclasses import dataclass, field

from sightline_plugins.track.kalman import MotionModel


@dataclass(frozen=True, slots=True)
class TrackerOptions:
    """Options of `ByteTracker`. Confidences and similarities are 0 to 1, times nanoseconds.

    A similarity is intersection over union, times the detection's confidence where the detection is a
    high one (a sure box wins over a doubtful one), times `class_mismatch_weight` where the classes differ.
    """

    low_confidence: float = 0.1
    """Detections below are ignored; between this and `high_confidence` they only keep known tracks alive."""
    high_confidence: float = 0.6
    """Detections from here on are matched first."""
    new_confidence: float = 0.7
    """A detection that matches nothing starts a track from here on."""
    min_hits: int = 2
    """Successive detections before a track is confirmed and gets its id; those of the first frame are at once."""
    max_lost_ns: int = 1_000_000_000
    """A track not seen for longer is given up, whatever the frame rate (but not before two frames without it, at less
    than two frames in this time)."""

    min_similarity: float = 0.2
    """Confirmed track and high detection match above this."""
    min_similarity_low: float = 0.5
    """Track seen in the last frame and low detection match above this."""
    min_similarity_tentative: float = 0.3
    """Track not yet confirmed and high detection match above this."""
    wide_margin: float = 0.3
    """Last round: what is left of confirmed tracks and high detections is matched with boxes grown on each side by this
    share of their size (buffered IoU), which finds what moved or turned unforeseen. 0: no such round."""
    min_similarity_wide: float = 0.2
    """Similarity of the grown boxes above which they match."""
    class_mismatch_weight: float = 0.5
    """1: classes play no part; 0: a track only continues with its own class; between: another class needs that much
    more overlap. At 0.5 a van that the detector calls truck for a frame keeps its track, and a person in front of a car
    does not take over the car's."""
    motion: MotionModel = field(default_factory=MotionModel)

    def __post_init__(self) -> None:
        if not 0 <= self.low_confidence <= self.high_confidence <= self.new_confidence <= 1:
            raise ValueError(
                "tracker: 0 <= low_confidence <= high_confidence <= new_confidence <= 1 is needed, got "
                f"{self.low_confidence}, {self.high_confidence}, {self.new_confidence}"
            )
        for name in ("min_similarity", "min_similarity_low", "min_similarity_tentative", "min_similarity_wide",
                     "class_mismatch_weight"):  # fmt: skip
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"tracker: {name} must be from 0 to 1, got {getattr(self, name)}")
        if self.min_hits < 1:
            raise ValueError(f"tracker: min_hits must be 1 or more, got {self.min_hits}")
        if self.max_lost_ns < 0 or self.wide_margin < 0:
            raise ValueError(
                f"tracker: max_lost_ns and wide_margin must not be negative, got {self.max_lost_ns}, {self.wide_margin}"
            )
