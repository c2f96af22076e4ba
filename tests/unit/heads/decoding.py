"""Shared by the tests of heads: decode outputs by a head's name, and compare the boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.heads.head import Candidates, DecodeContext, Signature
from sightline_plugins.heads.registry import HEADS, heads_of, match_head

Outputs = list[npt.NDArray[Any]]
Box = tuple[float, float, float, float]
Expected = tuple[Box, int, float]
"""A box as x1, y1, x2, y2 in pixels of the network's input, its class, its confidence."""
Shape = tuple[int | None, ...]


def read(
    head: str,
    outputs: Outputs,
    *,
    size_wh: tuple[int, int],
    confidence: float = 0.3,
    names: tuple[str, ...] = (),
    labels: tuple[str, ...] = (),
    **options: Any,
) -> Candidates:
    """What the head of that name finds; `options` are its `head_options`."""
    family = HEADS[head]
    chosen = None if family.options is None else family.options.model_validate(options)
    context = DecodeContext(size_wh, confidence, names or tuple(map(str, range(len(outputs)))), labels, chosen)
    found: Candidates = family.decode([output.copy() for output in outputs], context)
    return found


def assert_found(found: Candidates, expected_boxes: list[Expected], *, pixels: float = 0.02) -> None:
    """Exactly these expected_boxes, in any order."""
    given = sorted(zip(found.class_id.tolist(), found.xyxy.tolist(), found.confidence.tolist(), strict=True))
    wanted = sorted((kind, list(box), score) for box, kind, score in expected_boxes)
    assert [kind for kind, _, _ in given] == [kind for kind, _, _ in wanted]
    for (_, box, score), (_, expected, confidence) in zip(given, wanted, strict=True):
        assert box == pytest.approx(expected, abs=pixels)
        assert score == pytest.approx(confidence, abs=2e-3)


def matched(*outputs: tuple[Any, ...], size_wh: tuple[int, int] = (640, 640), classes: int | None = None) -> str:
    """Return the head that matches outputs: shapes, or names with shapes and perhaps element types."""
    signature = signature_of(*outputs, size_wh=size_wh, classes=classes)
    return match_head(signature, heads_of("detect").values())


def signature_of(
    *outputs: tuple[Any, ...], size_wh: tuple[int, int] = (640, 640), classes: int | None = None
) -> Signature:
    """Return what a head is matched with."""
    named = [output if isinstance(output[0], str) else (f"o{number}", output) for number, output in enumerate(outputs)]
    specs = tuple(TensorSpec(name, tuple(shape), np.dtype(*kind or ("f4",))) for name, shape, *kind in named)
    return Signature(specs, size_wh, classes)
