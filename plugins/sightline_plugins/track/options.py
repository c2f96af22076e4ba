"""What a tracker can be told."""

from __future__ import annotations

from dataclasses import dataclass, field

from sightline_plugins.track.kalman import MotionModel

FRACTIONS = (
    "low_confidence", "high_confidence", "new_track_threshold", "high_threshold", "min_similarity",
    "min_similarity_fair", "min_similarity_half_hidden", "min_similarity_low", "min_similarity_tentative",
    "min_similarity_wide", "class_mismatch_weight",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrackerOptions:
    """Options of `ByteTracker`. Confidences and similarities are 0 to 1, times nanoseconds.

    A similarity is intersection over union, times the detection's confidence where that is at least
    `new_track_threshold` (a sure box wins over a doubtful one), times `class_mismatch_weight` where the classes differ.

    Detections from `new_track_threshold` to `high_confidence` are fair. What they count for depends on the track: one
    that is mostly seen so (small, far, or a weak detector) lives on them, one that is mostly seen surely takes them as
    doubtful, for it is probably half hidden. So detectors whose confidences never get high are followed too.
    """

    low_confidence: float = 0.1
    """Detections below are ignored; those between this and the next limit only keep known tracks alive."""
    high_confidence: float = 0.6
    """Detections from here on are matched first."""
    new_track_threshold: float = 0.4
    """A detection that matches nothing starts a track from here on."""
    high_threshold: float = 0.7
    """Detections from here on count fully for `min_hits`; each 0.1 of confidence less counts 0.2 less, down to 0.1."""
    min_hits: int = 2
    """Sure detections in a row before a track is confirmed and gets its id, or the worth of so many: with 2 they are 2
    at a confidence of 0.7, 3 at 0.6, 4 at 0.45, 5 at 0.4. Those of the first frame in which any track starts lack one
    detection less: if sure, none. A track that is not confirmed ends at its first miss."""
    max_lost_ns: int = 1_000_000_000
    """A track not seen for longer is given up, whatever the frame rate (but not before two frames without it, at less
    than two frames in this time)."""

    min_similarity: float = 0.2
    """Confirmed track and high detection match above this."""
    min_similarity_fair: float = 0.15
    """Confirmed track that is mostly seen with fair confidence, and fair detection, match above this."""
    min_similarity_half_hidden: float = 0.4
    """Confirmed track that is mostly seen with high confidence, and fair detection, match above this."""
    min_similarity_low: float = 0.5
    """Track seen in the last frame and low detection match above this."""
    min_similarity_tentative: float = 0.3
    """Track not yet confirmed, and fair or high detection, match above this."""
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
        for name in FRACTIONS:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"tracker: {name} must be from 0 to 1, got {getattr(self, name)}")
        if self.low_confidence > min(self.high_confidence, self.new_track_threshold):
            raise ValueError(
                "tracker: low_confidence must not be above high_confidence or new_track_threshold, got "
                f"{self.low_confidence}, {self.high_confidence}, {self.new_track_threshold}"
            )
        if self.min_hits < 1:
            raise ValueError(f"tracker: min_hits must be 1 or more, got {self.min_hits}")
        if self.max_lost_ns < 0 or self.wide_margin < 0:
            raise ValueError(
                f"tracker: max_lost_ns and wide_margin must not be negative, got {self.max_lost_ns}, {self.wide_margin}"
            )
