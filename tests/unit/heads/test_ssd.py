from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.errors import ModelError
from tests.unit.heads.decoding import Expected, Outputs, assert_found, read

CLASSES = 4
THINGS: list[Expected] = [
    ((30.0, 40.0, 100.0, 150.0), 3, 0.9),
    ((120.5, 20.25, 290.0, 280.0), 0, 0.6),
    ((200.0, 200.0, 230.0, 222.0), 1, 0.45),
]
Priors = list[tuple[float, float, float, float]]


def mobilenet_priors() -> Priors:
    """qfgaohao/pytorch-ssd, generate_ssd_priors with the settings of mobilenetv1_ssd_config."""
    priors: Priors = []
    for cells, step, low, high in [
        (19, 16, 60, 105), (10, 32, 105, 150), (5, 64, 150, 195), (3, 100, 195, 240), (2, 150, 240, 285),
        (1, 300, 285, 330),
    ]:  # fmt: skip
        for row, column in itertools.product(range(cells), repeat=2):
            x, y = (column + 0.5) * step / 300, (row + 0.5) * step / 300
            sides = [(low, low), (math.sqrt(low * high),) * 2]
            for ratio in (2, 3):
                sides += [(low * ratio**0.5, low / ratio**0.5), (low / ratio**0.5, low * ratio**0.5)]
            priors += [tuple(np.clip((x, y, w / 300, h / 300), 0, 1).tolist()) for w, h in sides]
    return priors


def torchvision_priors(size: int) -> Priors:
    """torchvision's DefaultBoxGenerator: of ssd300_vgg16 for 300, of ssdlite320_mobilenet_v3_large for 320."""
    if size == 300:
        ratios = [[2], [2, 3], [2, 3], [2, 3], [2], [2]]
        scales, cells = [0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05], [38, 19, 10, 5, 3, 1]
        across = [300 / step for step in (8, 16, 32, 64, 100, 300)]
    else:
        ratios, cells = [[2, 3]] * 6, [20, 10, 5, 3, 2, 1]
        scales = [0.2 + 0.75 * k / 5 for k in range(6)] + [1.0]
        across = [float(count) for count in cells]
    priors: Priors = []
    for k, count in enumerate(cells):
        larger = math.sqrt(scales[k] * scales[k + 1])
        pairs = [(scales[k], scales[k]), (larger, larger)]
        for ratio in ratios[k]:
            w, h = scales[k] * math.sqrt(ratio), scales[k] / math.sqrt(ratio)
            pairs += [(w, h), (h, w)]
        for row, column in itertools.product(range(count), repeat=2):
            x, y = (column + 0.5) / across[k], (row + 0.5) / across[k]
            priors += [(x, y, min(w, 1.0), min(h, 1.0)) for w, h in pairs]
    return priors


def tensorflow_priors() -> Priors:
    """tensorflow/models, create_ssd_anchors with the settings of ssd_mobilenet_v1_coco.config, as x, y, w, h."""
    scales = [0.2 + 0.15 * k for k in range(6)] + [1.0]
    priors: Priors = []
    for k, count in enumerate([19, 10, 5, 3, 2, 1]):
        if k == 0:
            specs = [(0.1, 1.0), (scales[0], 2.0), (scales[0], 0.5)]
        else:
            specs = [(scales[k], ratio) for ratio in (1.0, 2.0, 0.5, 3.0, 1 / 3)]
            specs.append((math.sqrt(scales[k] * scales[k + 1]), 1.0))
        for row, column in itertools.product(range(count), repeat=2):
            for scale, ratio in specs:
                x, y = (column + 0.5) / count, (row + 0.5) / count
                priors.append((x, y, scale * math.sqrt(ratio), scale / math.sqrt(ratio)))
    return priors


def encoded(
    priors: Priors, size: int, *, variances: tuple[float, float] = (0.1, 0.2)
) -> tuple[npt.NDArray[np.float32], ...]:
    """Corrections (boxes, 4) as x, y, w, h and scores (boxes, classes), the background's left out."""
    offsets = np.zeros((len(priors), 4), np.float32)
    scores = np.full((len(priors), CLASSES), 1e-3, np.float32)
    taken: set[int] = set()
    for (x1, y1, x2, y2), kind, score in THINGS:
        x, y, w, h = (x1 + x2) / 2 / size, (y1 + y2) / 2 / size, (x2 - x1) / size, (y2 - y1) / size
        far = [abs(x - p[0]) + abs(y - p[1]) + abs(w - p[2]) + abs(h - p[3]) for p in priors]
        best = min((place for place in range(len(priors)) if place not in taken), key=far.__getitem__)
        taken.add(best)
        cx, cy, pw, ph = priors[best]
        shift = [(x - cx) / pw / 0.1, (y - cy) / ph / 0.1]
        offsets[best] = [*shift, math.log(w / pw) / 0.2, math.log(h / ph) / 0.2]
        scores[best, kind] = score
    return offsets, scores


def outputs_of(priors: Priors, size: int, *, raw: bool = False, last: bool = False) -> Outputs:
    offsets, scores = encoded(priors, size)
    background = 1 - scores.sum(axis=1, keepdims=True)
    every = np.concatenate([scores, background] if last else [background, scores], axis=1)
    return [offsets[None], (np.log(every) + 1.5 if raw else every)[None]]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    ("priors", "size", "options"),
    [
        (mobilenet_priors(), 300, {}),
        (torchvision_priors(300), 300, {"style": "torchvision_ssd300"}),
        (torchvision_priors(320), 320, {}),
    ],
    ids=["mobilenet", "torchvision_ssd300", "torchvision_ssdlite320"],
)
def test_every_style_makes_the_default_boxes_of_its_training_code(
    priors: Priors, size: int, options: dict[str, Any], raw: bool
) -> None:
    assert_found(read("ssd", outputs_of(priors, size, raw=raw), size_wh=(size, size), **options), THINGS)


def test_tensorflow_has_rows_before_columns_and_scores_every_class_by_itself() -> None:
    offsets, scores = encoded(tensorflow_priors(), 300)
    every = np.concatenate([np.full((len(scores), 1), 0.2, np.float32), scores], axis=1)
    outputs = [offsets[None][..., [1, 0, 3, 2]], np.log(every / (1 - every))[None]]

    assert_found(read("ssd", outputs, size_wh=(300, 300)), THINGS)


def test_default_boxes_of_ones_own_are_known_by_options() -> None:
    priors: Priors = []
    for count, step, scale, larger in [(8, 40, 0.2, 0.3), (2, 160, 0.45, 0.6)]:
        for row, column in itertools.product(range(count), repeat=2):
            x, y = (column + 0.5) * step / 320, (row + 0.5) * step / 320
            priors += [(x, y, scale, scale), (x, y, larger, larger)]
            priors += [(x, y, scale * 2, scale / 2), (x, y, scale / 2, scale * 2)]
    own: dict[str, Any] = {
        "style": "mobilenet",
        "maps": [(8, 8), (2, 2)],
        "steps": (40, 160),
        "scales": (0.2, 0.45, 0.8),
        "aspect_ratios": [[4], [4]],
    }

    assert_found(read("ssd", outputs_of(priors, 320), size_wh=(320, 320), **own), THINGS)


def test_default_boxes_may_be_an_output() -> None:
    priors = mobilenet_priors()
    outputs = [*outputs_of(priors, 300), np.array(priors, np.float32)[None]]

    assert_found(read("ssd", outputs, size_wh=(300, 300), names=("loc", "conf", "priors")), THINGS)


def test_caffes_flat_outputs_are_read() -> None:
    priors = mobilenet_priors()
    offsets, scores = outputs_of(priors, 300)
    corners = [side for x, y, w, h in priors for side in (x - w / 2, y - h / 2, x + w / 2, y + h / 2)]
    boxes = np.array([corners, [0.1, 0.1, 0.2, 0.2] * len(priors)], np.float32)[None]
    outputs = [offsets.reshape(1, -1), scores.reshape(1, -1), boxes]

    assert_found(read("ssd", outputs, size_wh=(300, 300), names=("mbox_loc", "mbox_conf", "mbox_priorbox")), THINGS)


def test_the_background_may_be_the_last_column() -> None:
    outputs = outputs_of(mobilenet_priors(), 300, raw=True, last=True)

    assert_found(read("ssd", outputs[::-1], size_wh=(300, 300), background="last"), THINGS)


def test_a_number_of_boxes_that_no_style_has_is_refused() -> None:
    with pytest.raises(ModelError, match=r"has 10 default boxes; at 300x300 the styles have mobilenet 3000"):
        read("ssd", [np.zeros((1, 10, 4), np.float32), np.zeros((1, 10, 5), np.float32)], size_wh=(300, 300))


def test_options_that_do_not_fit_each_other_are_refused() -> None:
    outputs = outputs_of(mobilenet_priors(), 300)

    with pytest.raises(ModelError, match="there are 6 aspect_ratios and 2 scales"):
        read("ssd", outputs, size_wh=(300, 300), style="mobilenet", scales=(0.2, 0.4))
