"""What is true on the images that a model is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sightline.errors import ConfigurationError
from sightline_plugins.commands.evaluate.annotations import Annotations, read_annotations
from sightline_plugins.quantize.images import Sample, frame_number
from sightline_plugins.replay.formats import UNLABELLED


def read_truth(files: Sequence[Path], samples: Sequence[Sample]) -> Annotations | None:
    """The truth of the images, one file for each clip in order; None without files.

    Frames are numbered over all clips, as in what models find. Raises ConfigurationError that names the file.
    """
    if not files:
        return None
    tables = [_of_clip(file, [one for one in samples if one.clip == clip]) for clip, file in enumerate(files)]
    joined = Annotations.from_rows(
        **{
            name: np.concatenate([getattr(table, name) for table in tables])
            for name in ("frame", "xyxy", "confidence", "label", "identity", "ignored")
        }
    )
    if not (~joined.ignored).any():
        raise ConfigurationError(f"{', '.join(map(str, files))}: nothing is true on any image that is judged")
    return joined


def _of_clip(file: Path, samples: Sequence[Sample]) -> Annotations:
    known = read_annotations(file, truth=True)
    numbers = {one.frame: frame_number(one) for one in samples}
    known = known.select(np.isin(known.frame, list(numbers)))
    return replace(known, frame=np.array([numbers[frame] for frame in known.frame.tolist()], np.int64))


def alike(found: Annotations, truth: Annotations) -> tuple[Annotations, Annotations]:
    """Both with labels that can be compared: a truth without labels (MOT) is compared without regard to them."""
    if UNLABELLED not in truth.label:
        return found, truth
    return _unlabelled(found), _unlabelled(truth)


def _unlabelled(table: Annotations) -> Annotations:
    return replace(table, label=np.full(len(table), UNLABELLED, np.str_))
