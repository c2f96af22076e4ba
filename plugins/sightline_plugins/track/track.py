"""`track`: assign each object an id that is stable from frame to frame."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sightline.graph import Capability, Element, Operator, Site
from sightline.graph.fields import Fraction
from sightline.media.time import Duration
from sightline_plugins.track.options import TrackerOptions

DEFAULTS = TrackerOptions()


class Track(Element):
    """Follow objects by where their boxes are (ByteTrack), and give each a `track_id` that stays its own.

    Ids count from 1 in each stream and never come again. A track is believed after `min_hits` sure detections in a row,
    or more that are less sure (with 2: 3 at a confidence of 0.6, 4 at 0.45), which keeps false alarms out and costs the
    first frames of an object (sure ones on the first image with objects are believed at once); until then, and where
    nothing matches, the id is -1. A longer `max_lost` bridges longer occlusions and takes a stranger for the lost one
    more often. On frames that no detector looked at (`detect` with `every`) objects are where the tracker expects them.

    Objects found on other objects (a plate on a car) are not followed. Detectors should hand over doubtful boxes too:
    those from `low_confidence` on hold on to objects that are half hidden. Anything seen steadily from
    `new_track_threshold` on is followed; raise that where a detector's doubtful objects are not wanted.

    ```yaml
    - track: {max_lost: 1.5s}
    ```
    """

    name: ClassVar[str] = "track"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.TRACKS})

    max_lost: Duration = DEFAULTS.max_lost_ns
    """How long a track is kept without being seen."""
    min_hits: Annotated[int, Field(ge=1)] = DEFAULTS.min_hits
    """Sure detections in a row before a track is believed and gets its id; less sure ones count less."""
    high_threshold: Fraction = DEFAULTS.high_threshold
    """Detections from here on count fully for `min_hits`."""
    low_confidence: Fraction = DEFAULTS.low_confidence
    """Detections below are not used."""
    high_confidence: Fraction = DEFAULTS.high_confidence
    """Detections from here on are matched first; those below need more overlap with objects mostly seen surely."""
    new_track_threshold: Fraction = DEFAULTS.new_track_threshold
    """Detections from here on may begin a track."""
    class_mismatch_weight: Fraction = DEFAULTS.class_mismatch_weight
    """What overlap counts for when the class differs: at 1 classes play no part, at 0 a track keeps its class."""
    untracked: Literal["keep", "drop"] = "keep"
    """What becomes of objects that belong to no track."""

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        self.tracker_options()
        return self

    def tracker_options(self) -> TrackerOptions:
        """The options of the tracker. Raises ValueError when they contradict each other."""
        return TrackerOptions(
            low_confidence=self.low_confidence,
            high_confidence=self.high_confidence,
            new_track_threshold=self.new_track_threshold,
            high_threshold=self.high_threshold,
            min_hits=self.min_hits,
            max_lost_ns=self.max_lost,
            class_mismatch_weight=self.class_mismatch_weight,
        )

    def serves_all_gpus(self) -> bool:
        """True: tracks are kept when a GPU is lost."""
        return True

    def build(self, site: Site) -> Operator:
        """Make the operator; each stream gets a tracker of its own at its first frame."""
        from sightline_plugins.track.operator import TrackOperator

        del site
        return TrackOperator(self.tracker_options(), keep_untracked=self.untracked == "keep")
