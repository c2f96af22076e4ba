"""How long engines take for an image, measured in turns, so that what else a machine does hits all alike."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Sequence

import numpy as np

from sightline_plugins.engines.protocol import Array, Engine, Pending

_OPEN_SIZE = 320
"""Height and width of made images, for models that leave them open."""
_ROUNDS = 5
_LONGEST_ROUND = 64


def interleaved_seconds(engines: Sequence[Engine], *, budget_seconds: float, rounds: int = _ROUNDS) -> list[float]:
    """The median time for an image of each engine, kept busy, over rounds in turn of about `budget_seconds` in all."""
    inputs = [_made_inputs(engine) for engine in engines]
    once = [
        _round(engine, arrays, images=engine.concurrency + 1) for engine, arrays in zip(engines, inputs, strict=True)
    ]
    share = budget_seconds / (rounds * len(engines))
    counts = [
        max(engine.concurrency, min(_LONGEST_ROUND, int(share / one)))
        for engine, one in zip(engines, once, strict=True)
    ]
    times: list[list[float]] = [[] for _ in engines]
    for _ in range(rounds):
        for engine, arrays, count, noted in zip(engines, inputs, counts, times, strict=True):
            noted.append(_round(engine, arrays, images=count))
    return [statistics.median(noted) for noted in times]


def _round(engine: Engine, arrays: Sequence[Array], *, images: int) -> float:
    """Seconds an image, with always two more submitted than are computed at once."""
    begun = time.perf_counter()
    underway: deque[Pending] = deque()
    for _ in range(images):
        if len(underway) >= engine.concurrency + 2:
            underway.popleft().result()
        underway.append(engine.submit(arrays))
    for work in underway:
        work.result()
    return (time.perf_counter() - begun) / images


def _made_inputs(engine: Engine) -> list[Array]:
    random = np.random.default_rng(0)
    shapes = [
        tuple(size or (_OPEN_SIZE if place else 1) for place, size in enumerate(spec.shape)) for spec in engine.inputs
    ]
    return [
        random.integers(0, 256, shape).astype(spec.dtype)
        if spec.dtype.kind in "iu"
        else random.random(shape, np.float32).astype(spec.dtype)
        for spec, shape in zip(engine.inputs, shapes, strict=True)
    ]
