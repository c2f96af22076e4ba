"""Rectangles that lie at an angle."""

from __future__ import annotations

import numpy as np

from sightline_plugins.nms.overlap import Floats


def mean_rectangle(corners: Floats, *, weights: Floats) -> Floats:
    """The weighted mean (4, 2) of rectangles (N, 4, 2), each of whose corners may begin the list.

    Rectangles are turned by quarters, in their list of corners, to lie as close as they can to the first; then middles,
    side lengths and directions are averaged.
    """
    across = corners[:, 1] - corners[:, 0]
    down = corners[:, 3] - corners[:, 0]
    ways = np.stack([across, down, -across, -down], axis=1)
    lengths = np.maximum(np.linalg.norm(ways, axis=2), 1e-12)
    directions = ways / lengths[..., None]
    nearest = (directions @ directions[0, 0]).argmax(axis=1)
    rows = np.arange(len(corners))
    direction = np.average(directions[rows, nearest], axis=0, weights=weights)
    direction /= max(float(np.linalg.norm(direction)), 1e-12)
    turned = directions[0, 1] @ (-direction[1], direction[0])
    normal = np.array([-direction[1], direction[0]]) * (1.0 if turned >= 0 else -1.0)
    half_across = direction * np.average(lengths[rows, nearest], weights=weights) / 2
    half_down = normal * np.average(lengths[rows, (nearest + 1) % 4], weights=weights) / 2
    middle = np.average(corners.mean(axis=1), axis=0, weights=weights)
    return np.stack(
        [
            middle - half_across - half_down,
            middle + half_across - half_down,
            middle + half_across + half_down,
            middle - half_across + half_down,
        ]
    )
