"""Sample images to calibrate and judge with, and their ground truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from sightline.devices import Device
from sightline.errors import ConfigurationError, StreamUnreadable
from sightline.graph import Site
from sightline.graph.registry import Registry
from sightline.media import Frame, Stream
from sightline_plugins.commands.evaluate.annotations import Annotations, read_annotations
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import Image, Preprocessing
from sightline_plugins.preprocess.placement import Placement
from sightline_plugins.replay.formats import UNLABELLED

_MAX_BYTES = 512 << 20
"""Maximum size of all images that judge a model."""
_CLIP_FRAMES = 10_000_000
"""More frames than any clip has."""
_JUDGED_SHARE = 4
"""Images that judge a model, for each that calibrates it."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """A prepared image: the number of its clip and of its frame there, and where it lies in the network's input."""

    clip: int
    frame: int
    size_wh: tuple[int, int]
    image: Image
    placement: Placement


def frame_number(sample: Sample) -> int:
    """Return a number that no other frame of any clip has."""
    return sample.clip * _CLIP_FRAMES + sample.frame


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """The images that calibrate a model, and those that judge it; `apart` means that no image is both."""

    calibration: tuple[Image, ...]
    judged: tuple[Sample, ...]
    apart: bool


def gather(
    definition: Preprocessing,
    frames: Sequence[str],
    *,
    judge: Sequence[str],
    count: int,
    progress: Callable[[str], None],
) -> Images:
    """Return `count` images of `frames` for calibration, and up to four times as many of `judge` for judging.

    Without `judge` all come from the same clips, and lie between each other where there are enough. Raises
    ConfigurationError for a clip that cannot be read or has no images, StreamLost for one that ends early.
    """
    if judge:
        calibration = _read(definition, _spread(_lengths(frames, progress), count), clips=frames, progress=progress)
        chosen = _spread(_lengths(judge, progress), _judged_limit(calibration, count))
        judged = _read(definition, chosen, clips=judge, progress=progress)
    else:
        chosen = _spread(_lengths(frames, progress), count * (1 + _JUDGED_SHARE))
        step = max(1, round(sum(map(len, chosen)) / count))
        samples = _read(definition, chosen, clips=frames, progress=progress)
        if step == 1:
            return Images(tuple(sample.image for sample in samples), tuple(samples), apart=False)
        calibration, others = samples[::step], [sample for number, sample in enumerate(samples) if number % step]
        limit = min(_judged_limit(calibration, count), len(others))
        judged = [others[number] for number in np.linspace(0, len(others) - 1, limit).round().astype(int)]
    return Images(tuple(sample.image for sample in calibration), tuple(judged), apart=True)


def _judged_limit(prepared: Sequence[Sample], count: int) -> int:
    largest = max(one.image.nbytes for one in prepared)
    return max(1, min(_JUDGED_SHARE * count, _MAX_BYTES // largest))


def _lengths(clips: Sequence[str], progress: Callable[[str], None]) -> list[int]:
    lengths = list[int]()
    for clip in clips:
        progress(f"counting the images of {clip}")
        try:
            lengths.append(sum(1 for _ in _frames(clip)))
        except StreamUnreadable as error:
            raise ConfigurationError(str(error)) from error
        if not lengths[-1]:
            raise ConfigurationError(f"{clip}: holds no image")
    return lengths


def _spread(lengths: Sequence[int], count: int) -> list[set[int]]:
    """Return the numbers of the chosen images of each clip, spread evenly over all clips together."""
    starts = np.cumsum([0, *lengths])
    chosen = np.unique(np.linspace(0, starts[-1] - 1, min(count, int(starts[-1]))).round().astype(int))
    return [{int(number - start) for number in chosen if start <= number < end} for start, end in pairwise(starts)]


def _read(
    definition: Preprocessing, chosen: Sequence[set[int]], *, clips: Sequence[str], progress: Callable[[str], None]
) -> list[Sample]:
    preprocessor, samples = HostPreprocessor(definition), list[Sample]()
    for number, (clip, wanted) in enumerate(zip(clips, chosen, strict=True)):
        progress(f"reading {len(wanted)} images of {clip}")
        for place, frame in enumerate(_frames(clip)):
            if place in wanted:
                prepared = preprocessor.prepare(frame.surface)
                size_wh = frame.surface.size_wh
                samples.append(Sample(number, place, size_wh, prepared.image, prepared.placement))
            if place >= max(wanted, default=-1):
                break
    return samples


def _frames(uri: str) -> Iterator[Frame]:
    """Yield the images of a clip, a folder, a glob or a URL."""
    source = Registry().source_for(uri).model_validate({"uri": uri})
    reader = source.build(Site(device=Device(), element_id="quantize"), stream=Stream("clip"))
    try:
        yield from reader.frames()
    finally:
        reader.close()


def read_truth(files: Sequence[Path], samples: Sequence[Sample]) -> Annotations | None:
    """Return the ground truth of the images, from one file for each clip in order; None without files.

    Frames have the numbers of `frame_number`. Raises ConfigurationError that names the file.
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
    """Return both tables, without labels where the ground truth has none (MOT)."""
    if UNLABELLED in truth.label:
        found, truth = (replace(table, label=np.full(len(table), UNLABELLED, np.str_)) for table in (found, truth))
    return found, truth
