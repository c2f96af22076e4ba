"""Random images through pre-processing, against OpenCV and swscale; a child under sanitizers runs it as a program.

    python -m tests.unit.preprocess.random_images COUNT [--wrong]

With `--wrong`, planes are taken to be a row higher than they are.
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np

from sightline.media import ColorMatrix, ColorRange, Surface
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import WHOLE, Preprocessing
from sightline_plugins.preprocess.fused import Job, fused_plan
from sightline_plugins.preprocess.placement import Region
from tests.unit.preprocess.images import WITH_CHROMA, by_libraries, noise


def random_surface(random: Random) -> Surface:
    """An image of any format and size, a third of them narrow."""
    widest = random.choice((40, 300, 700))
    return noise(
        random.choice(WITH_CHROMA),
        (random.randint(1, widest), random.randint(1, 400)),
        matrix=random.choice(list(ColorMatrix)),
        color_range=random.choice(list(ColorRange)),
        gap_bytes=random.choice((0, 0, 3, 64)),
        seed=random.randint(0, 1000),
    )


def random_definition(random: Random) -> Preprocessing:
    """Pre-processing in colours by any filter, larger or smaller than the image."""
    return Preprocessing(
        (random.randint(1, 500), random.randint(1, 300)),
        fit=random.choice(("letterbox", "stretch", "cover", "height", "native")),
        align=random.choice(("center", "top_left")),
        resize=random.choice(("bilinear", "area", "nearest", "antialias")),
        convert=random.choice(("network", "image")),
        color=random.choice(("rgb", "bgr")),
    )


def random_region(random: Random) -> Region:
    """The whole image or a part of it, in fractions."""
    if random.random() < 0.6:
        return WHOLE
    (left, right), (top, bottom) = (sorted((random.random(), random.random())) for _ in range(2))
    return left, top, right, bottom


def check(seed: int) -> bool:
    """Compare one random image; whether it is one that is resized, so that there is something to compare with."""
    random = Random(seed)
    surface, definition = random_surface(random), random_definition(random)
    placement = definition.place_fractions(random_region(random), surface)
    preprocessor = HostPreprocessor(definition)
    images = [preprocessor.prepare(surface, placement).image for _ in range(2)]
    expected = by_libraries(surface, placement, definition)
    if expected is None:
        return False
    for image in images:
        np.testing.assert_array_equal(image, expected, err_msg=f"{seed}: {definition} {placement}")
    return True


def read_beyond() -> None:
    """Run the plan of a higher image."""
    surface = noise(WITH_CHROMA[0], (64, 48))
    job = Job(
        format=surface.format,
        size_wh=(64, 64),
        matrix=surface.matrix,
        range=surface.range,
        region_xyxy=(0, 0, 64, 64),
        resized_wh=(32, 32),
        window_xywh=(0, 0, 32, 32),
        place_xy=(0, 0),
        network_wh=(32, 32),
    )
    plan = fused_plan(job, Preprocessing((32, 32)))
    assert plan is not None
    plan.run(surface, out=np.empty((1, 32, 32, 3), np.uint8), scratch=np.empty(plan.scratch_bytes, np.uint8))


if __name__ == "__main__":
    if "--wrong" in sys.argv:
        read_beyond()
    for _seed in range(int(sys.argv[1])):
        check(_seed)
