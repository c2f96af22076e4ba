"""How far counts are off: of different objects over the whole recording, and of objects on a frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sightline_plugins.evaluate.table import Annotations


@dataclass(frozen=True, slots=True)
class CountScores:
    """`tracks` and `true_tracks` are different objects of the recording; the error is the mean of the absolute
    differences between objects found and true on a frame.
    """

    tracks: int
    true_tracks: int
    error_per_frame: float


def score_counts(found: Annotations, *, truth: Annotations) -> CountScores:
    """The scores over the frames of the truth and of what was found."""
    truth = truth.select(~truth.ignored)
    frames = int(max(truth.frame.max(initial=-1), found.frame.max(initial=-1))) + 1
    here, there = (np.bincount(table.frame, minlength=frames) for table in (found, truth))
    identities = [len(np.unique(table.identity[table.identity >= 0])) for table in (found, truth)]
    error = float(np.abs(here - there).mean()) if frames else 0.0
    return CountScores(identities[0], identities[1], error)
