"""Heads that a message proposes can read the model's outputs; those that cannot are not proposed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sightline.devices import Device
from sightline.errors import ModelError
from sightline.graph import CheckContext, Outputs
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.heads.head import Signature
from sightline_plugins.heads.registry import heads_of, match_head
from sightline_plugins.infer.detect import Detect
from tests.unit.infer.tiny import write_shapes

Shape = tuple[int, ...]

ODD: tuple[list[Shape], ...] = (
    [(605, 96)],
    [(1, 605, 12)],
    [(1, 7)],
    [(1, 100, 7)],
    [(1, 1000, 3)],
    [(1, 8400, 4)],
    [(1, 12, 40, 40)],
    [(1, 40, 40, 12)],
    [(1, 3, 11, 7, 5)],
    [(1, 300, 4), (1, 300)],
    [(1, 50, 50, 18), (1, 25, 25, 9)],
    [(1, 9, 4), (1, 9, 4), (1, 9, 4)],
)


def proposed(shapes: list[Shape], *, task: str = "detect") -> list[str] | None:
    """The heads that the message names; None when a head fits."""
    outputs = tuple(TensorSpec(f"o{number}", shape, np.dtype(np.float32)) for number, shape in enumerate(shapes))
    try:
        match_head(Signature(outputs, (352, 352)), heads_of(task).values())
    except ModelError as error:
        message = str(error)
    else:
        return None
    found = re.search(r"one of (?:these: )?([\w, ]+)$", message)
    assert found or "none can read them" in message, message
    return found[1].split(", ") if found else []


@pytest.mark.parametrize("shapes", ODD, ids=str)
def test_what_is_proposed_is_accepted(shapes: list[Shape], tmp_path: Path) -> None:
    outputs: dict[str, list[int | str]] = {f"o{number}": [*shape] for number, shape in enumerate(shapes)}
    model = write_shapes(tmp_path / "odd.onnx", inputs={"images": [1, 3, 352, 352]}, outputs=outputs)

    for head in proposed(shapes) or ():
        detect = Detect(model=model, head=head, labels=("x",))
        problems = detect.check(CheckContext(Device(), ("cam",), Outputs(tmp_path)))
        assert not [one.message for one in problems if "cannot read" in one.message], head


def test_outputs_that_nothing_reads_have_no_proposals() -> None:
    assert proposed([(1, 3, 11, 7, 5)]) == []


def test_few_heads_are_left() -> None:
    left = proposed([(1, 1000, 3)])

    assert left is not None
    assert len(left) < len(heads_of("detect")) / 3
    assert "yolo_fastestv2" not in left
