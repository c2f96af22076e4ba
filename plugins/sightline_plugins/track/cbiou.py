"""`cbiou`: match enlarged boxes, by a little first and by more in the round of low confidence.

Yang et al., "Hard to Track Objects with Irregular Motions and Similar Appearances? Make It Easier by Buffering the
Matching Space", WACV 2023. Enlarged boxes overlap after sudden moves, turns and missed frames. As in the `trackers`
package (2.6.1), rounds, life cycle and filter are those of BoT-SORT.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from sightline.graph.tracker import Tracker
from sightline.media.boxes import Boxes
from sightline_plugins.track.botsort import BotSortOptions, BotSortTracker
from sightline_plugins.track.cascade import Floats, Indices, Pairwise, enlarged, overlaps

Buffer = Annotated[float, Field(ge=0, le=10)]


class CBIouOptions(BotSortOptions):
    """Options of `CBIouTracker`, for objects that move irregularly and far from each other."""

    name: ClassVar[str] = "cbiou"

    buffer: Buffer = 0.3
    """Fraction of width and height by which boxes are enlarged on each side."""
    buffer_low: Buffer = 0.5
    """The same for low-confidence detections."""

    def build(self, *, first_id: int = 1) -> Tracker:
        """Make the tracker of one stream."""
        return CBIouTracker(self, first_id=first_id)


class CBIouTracker(BotSortTracker):
    """C-BIoU, for one stream."""

    def __init__(self, options: CBIouOptions, *, first_id: int = 1) -> None:
        super().__init__(options, first_id=first_id)
        self._buffers = options.buffer, options.buffer_low

    def _overlap(self, tracks: Boxes, detections: Boxes, *, is_low: bool) -> Pairwise:
        buffer = self._buffers[is_low]

        def overlap(rows: Indices, columns: Indices) -> Floats:
            return overlaps(enlarged(tracks, buffer=buffer), enlarged(detections, buffer=buffer))(rows, columns)

        return overlap
