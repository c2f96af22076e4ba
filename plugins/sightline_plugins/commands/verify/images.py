"""Images to verify a model on: those of a clip or folder, or generated ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import Site
from sightline.graph.registry import Registry
from sightline.media import PixelFormat, Stream, Surface
from sightline.media.convert import rgb_from_surface
from sightline_plugins.opencv import cv2
from sightline_plugins.preprocess.colors import ImageColors
from sightline_plugins.sources.images.reader import find_images

_SIZES = ((640, 360), (321, 241), (768, 432), (200, 300))
_SEED = 20_26


@dataclass(frozen=True, slots=True, eq=False)
class ImagePair:
    """A surface as the pipeline has it, and its RGB (height, width, 3) uint8 as OpenCV would give it in a notebook."""

    surface: Surface
    rgb: npt.NDArray[np.uint8]


def images_of(uri: str, *, count: int) -> Iterator[ImagePair]:
    """Return the first images of a clip, a folder, a glob or a URL. Raises StreamError when it cannot be read.

    Still images are read a second time by OpenCV; frames of video are converted by FFmpeg, as OpenCV's capture does.
    """
    source = Registry().source_for(uri).model_validate({"uri": uri})
    reader = source.build(Site(device=Device(), element_id="verify"), stream=Stream("frames"))
    paths = find_images(uri) if source.name == "images" else []
    colors, found = ImageColors(), 0
    try:
        for number, frame in enumerate(islice(reader.frames(), count)):
            found += 1
            yield ImagePair(frame.surface, _read(paths[number]) if paths else _converted(frame.surface, colors))
        if not found:
            raise ConfigurationError(f"{uri}: holds no image")
    finally:
        reader.close()


def _read(path: Path) -> npt.NDArray[np.uint8]:
    bgr = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if bgr is None:
        raise ConfigurationError(f"{path}: OpenCV, the reference, cannot read it")
    return np.ascontiguousarray(bgr[..., ::-1])


def _converted(surface: Surface, colors: ImageColors) -> npt.NDArray[np.uint8]:
    if not surface.format.is_yuv or surface.format is PixelFormat.GRAY8:
        return rgb_from_surface(surface)
    width, height = surface.size_wh
    rgb: npt.NDArray[np.uint8] = cv2.merge(colors.planes(surface, (0, 0, width, height)))
    return rgb


def generated_images(count: int) -> Iterator[ImagePair]:
    """Return images of smooth coloured noise in several sizes and shapes; always the same ones."""
    random = np.random.default_rng(_SEED)
    for number in range(count):
        width, height = _SIZES[number % len(_SIZES)]
        coarse = random.integers(0, 256, (12, 16, 3), np.uint8)
        rgb = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
        yield ImagePair(Surface(PixelFormat.RGB24, (width, height), (np.ascontiguousarray(rgb),)), rgb)
