"""Follow tracks in the images: a correlation filter for each track, and what it sees as a measurement of the motion.

As in DeepStream's NvDCF, a filter is learned from the boxes that detections gave, and searches the object around the
box that the motion model expects. Three things keep it from following what hides an object, or the background:

- a peak counts only where it is high, stands out, and lies where the object can have gone by the motion model;
- the lower it is, the less it moves the box;
- a filter learns from detections only, and not from those that it does not recognise. After a few in a row, the object
  has changed and the filter begins afresh.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma
from sightline_plugins.track.correlation import (
    CELLS,
    CHANNELS,
    HALF,
    Complex,
    Floats,
    Pyramid,
    learned,
    peaks,
    responses,
    spectra,
)
from sightline_plugins.track.kalman import MotionModel, correct
from sightline_plugins.track.tracks import Integers, TrackColumns, TrackState

Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


NOISE = MotionModel(measurement=(0.1, 1.0), doubt=10.0)
"""Of a peak as a measurement of a box. What errs most is the place in the box that the filter holds on to, and that
errs alike from frame to frame. The size is hardly measured."""


@dataclass(frozen=True, slots=True)
class FollowerModel:
    """How much a filter learns, and what its peaks are worth.

    Chosen on all clips of `benchmarks.tracking.visual` together.
    """

    noise: MotionModel = NOISE
    """Noise of a peak; one of `full_height` counts as certain."""
    rate: float = 0.1
    """Weight of the latest detection in a filter."""
    least_height: float = 0.25
    """Height of a peak from which it counts."""
    full_height: float = 1.0
    """Height of a peak from which it is certain."""
    least_ratio: float = 6.0
    """Peak-to-sidelobe ratio from which a peak counts (Bolme et al.: around 7 an object is hidden)."""
    most_deviations: float = 4.0
    """Standard deviations, of the expected place and the noise together, that a peak may be away."""
    surprise: float = 0.05
    """Distance between peak and expected place, in box sizes, from which a certain peak counts more than its noise
    says: the object stopped or turned. Nearer ones may be the box that trembles."""
    least_side: float = 6.0
    """Width and height, in pixels, from which an object is followed."""
    max_lost_ns: int = 1_000_000_000
    """How long an object is followed without being detected."""
    patience: int = 10
    """Detections in a row that a filter does not recognise before it begins afresh."""


class VisualFollower:
    """The filters of the tracks of one stream, by their number."""

    def __init__(self, model: FollowerModel | None = None) -> None:
        self._model = model or FollowerModel()
        self._pyramid: Pyramid | None = None
        self._number = np.empty(0, np.int64)
        self._numerator: Complex = np.empty((0, CHANNELS, CELLS, HALF), np.complex64)
        self._denominator: Floats = np.empty((0, CELLS, HALF), np.float32)
        self._strange = np.empty(0, np.int64)
        """Detections in a row that the filter did not recognise."""
        self._recognised = np.empty(0, np.bool_)
        """False where the filter searched this image and did not find its object."""

    @property
    def is_waiting(self) -> bool:
        """Whether there is an image that was not searched yet."""
        return self._pyramid is not None

    def look(self, image: Luma) -> None:
        """Take the next image (H, W)."""
        self._pyramid = Pyramid(image)

    def correct(self, tracks: TrackColumns, *, now_ns: int) -> None:
        """Move tracks, in place, to where the image shows them; those that it does not show stay as they are.

        Without an image nothing changes. The image stays for `learn`.
        """
        self._recognised[:] = True
        if self._pyramid is None or not len(self._number) or not len(tracks):
            return
        own = self._number.searchsorted(tracks.number).clip(max=len(self._number) - 1)
        searched = (self._number[own] == tracks.number) & self._is_usable(self._pyramid, tracks.mean[:, 0])
        searched &= now_ns - tracks.seen_ns <= self._model.max_lost_ns
        rows = searched.nonzero()[0]
        if not len(rows):
            return
        own = own[rows]
        box, certainty = self._found(self._pyramid, own, tracks.mean[rows, 0])
        seen = (certainty >= 0) & self._is_near(tracks, rows, box)
        self._recognised[own] = seen
        rows = rows[seen]
        filters = tracks.filter[rows]
        correct(
            filters,
            box=box[seen],
            confidence=self._weighed(tracks, rows, box=box[seen], certainty=certainty[seen]),
            area=tracks.area[rows],
            model=self._model.noise,
        )
        tracks.filter[rows] = filters

    def learn(self, tracks: TrackColumns) -> None:
        """Learn from the tracks that the last update found or began, and forget those that are no more."""
        self._keep(np.isin(self._number, tracks.number))
        pyramid, self._pyramid = self._pyramid, None
        if pyramid is None:
            return
        rows = ((tracks.state != TrackState.LOST) & self._is_usable(pyramid, tracks.mean[:, 0])).nonzero()[0]
        number = tracks.number[rows]
        is_known = np.isin(number, self._number)
        own = self._number.searchsorted(number[is_known])
        self._strange[own] = np.where(self._recognised[own], 0, self._strange[own] + 1)
        rate = np.where(self._recognised[own], self._model.rate, self._strange[own] > self._model.patience)
        self._strange[own[rate == 1]] = 0
        learning = np.ones(len(rows), np.bool_)
        learning[is_known] = rate > 0
        rows, is_known, own, rate = rows[learning], is_known[learning], own[rate > 0], rate[rate > 0]
        if not len(rows):
            return
        box = tracks.mean[rows, 0]
        numerator, denominator = learned(spectra(pyramid, box[:, :2], box[:, 2:]))
        weight = rate.astype(np.float32)[:, None, None]
        self._numerator[own] += weight[..., None] * (numerator[is_known] - self._numerator[own])
        self._denominator[own] += weight * (denominator[is_known] - self._denominator[own])
        self._begin(tracks.number[rows[~is_known]], numerator[~is_known], denominator[~is_known])

    def forget_image(self) -> None:
        """Release the image, which was searched."""
        self._pyramid = None

    def _found(self, pyramid: Pyramid, own: Indices, box: Floats) -> tuple[Floats, Floats]:
        """Return where filters see objects around boxes (N, 4), and how certain (N,) they are, -1 for not at all."""
        model = self._model
        spectrum = spectra(pyramid, box[:, :2], box[:, 2:])
        peak = peaks(responses(self._numerator[own], self._denominator[own], spectrum))
        found = np.concatenate([box[:, :2] + peak.offset * box[:, 2:], box[:, 2:]], axis=1)
        certainty = (peak.height - model.least_height) / (model.full_height - model.least_height)
        counts = (certainty >= 0) & (peak.ratio >= model.least_ratio)
        return found, np.where(counts, np.minimum(certainty, 1), -1).astype(np.float32)

    def _weighed(self, tracks: TrackColumns, rows: Indices, *, box: Floats, certainty: Floats) -> Floats:
        """Return certainties (N,) as the filter takes them: above 1 for peaks that contradict the motion model."""
        model, doubt = self._model, self._model.noise.doubt
        away = ((box[:, :2] - tracks.mean[rows, 0, :2]) ** 2).sum(axis=1) / tracks.area[rows]
        contradiction = (certainty / model.surprise) ** 2 * away
        variance = (1 + doubt - doubt * certainty) / (1 + contradiction)
        weighed: Floats = (1 + (1 - variance) / doubt).astype(np.float32)
        return weighed

    def _is_near(self, tracks: TrackColumns, rows: Indices, box: Floats) -> Mask:
        noise = np.float32(self._model.noise.measurement[0]) ** 2 * tracks.area[rows]
        reach = np.float32(self._model.most_deviations) * np.sqrt(tracks.covariance[rows, 0, 0] + noise)
        near: Mask = np.abs(box[:, :2] - tracks.mean[rows, 0, :2]).max(axis=1, initial=0) <= reach
        return near

    def _is_usable(self, pyramid: Pyramid, box: Floats) -> Mask:
        """Tell which boxes (N, 4: centre, width and height) are large enough, and have their middle in the image."""
        inside = (box[:, :2] >= 0) & (box[:, :2] < np.array(pyramid.size_wh))
        is_large = box[:, 2:] >= self._model.least_side
        return np.asarray((inside & is_large).all(axis=1), np.bool_)

    def _begin(self, number: Integers, numerator: Complex, denominator: Floats) -> None:
        order = np.argsort(np.concatenate([self._number, number]))
        none = np.zeros(len(number), np.int64)
        self._number = np.concatenate([self._number, number])[order]
        self._numerator = np.concatenate([self._numerator, numerator])[order]
        self._denominator = np.concatenate([self._denominator, denominator])[order]
        self._strange = np.concatenate([self._strange, none])[order]
        self._recognised = np.concatenate([self._recognised, none == 0])[order]

    def _keep(self, kept: Mask) -> None:
        if kept.all():
            return
        self._number, self._strange = self._number[kept], self._strange[kept]
        self._numerator, self._denominator = self._numerator[kept], self._denominator[kept]
        self._recognised = self._recognised[kept]
