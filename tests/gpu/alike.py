"""Whether a GPU's recording says what the CPU's says, as far as two computers can that add in another order.

Same frames, same classes, boxes that overlap by 0.99, confidences within 0.01. What is told only from some confidence
on may be missing where it is within 0.01 of that, and of two classes that are nearly as likely either may be told; that
must be few.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline_plugins.sinks.records import decode_mask
from tests.integration.gpu.agreement import LEAST_OVERLAP, MOST_OFF, overlap

Thing: TypeAlias = Mapping[str, Any]
MOST_DOUBTFUL = 0.02
"""Of all things, those which may differ because they are at a limit."""
ABOUT = 0.8
"""The overlap of boxes that are about the same."""
LEAST_COSINE = 0.9999
LEAST_SAME_PIXELS = 0.99
_EMPTY: Sequence[Thing] = ()


def assert_alike(expected: bytes, found: bytes, *, least: float) -> None:
    """Compare two recordings in JSON lines; `least` is the confidence from which objects count."""
    count, doubtful = 0, list[str]()
    for line, other in _frames(expected, found):
        things, others = line.get("objects", _EMPTY), list(other.get("objects", _EMPTY))
        count += len(things)
        alone = [thing for thing in things if not _taken(thing, others)]
        for thing in _unless_as_likely(alone, others):
            where = f"frame {line['frame']}: {_told(thing)} has no counterpart among {list(map(_told, others))}"
            assert thing["confidence"] < least + MOST_OFF, where
        doubtful += [f"frame {line['frame']}: {_told(thing)}" for thing in (*alone, *others)]
    assert count, "nothing was found at all"
    assert len(doubtful) <= 1 + MOST_DOUBTFUL * count, f"{len(doubtful)} of {count} differ: {'; '.join(doubtful)}"


def share_found_again(expected: bytes, found: bytes) -> float:
    """How many of all things of either recording are in the other, too, of the same class and in about the same place.

    For computing that is less exact on purpose.
    """
    again = count = 0
    for line, other in _frames(expected, found):
        sides = line.get("objects", _EMPTY), other.get("objects", _EMPTY)
        count += sum(map(len, sides))
        for things, others in (sides, sides[::-1]):
            again += sum(any(_about(thing, known) for known in others) for thing in things)
    assert count, "nothing was found at all"
    return again / count


def assert_same_areas(expected: bytes, found: bytes) -> None:
    """Compare two recordings of masks: on each frame nearly all pixels are of the same class."""
    shares = list[float]()
    for line, other in _frames(expected, found):
        sizes = [thing["mask"]["size"] for thing in (*line.get("objects", _EMPTY), *other.get("objects", _EMPTY))]
        if sizes:
            classes = [_classes(own.get("objects", _EMPTY), size_hw=sizes[0]) for own in (line, other)]
            shares.append(float(np.mean(classes[0] == classes[1])))
    assert shares, "nothing was found at all"
    assert min(shares) >= LEAST_SAME_PIXELS


def _frames(expected: bytes, found: bytes) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The lines of both, which must be of the same frames."""
    ours, others = ([json.loads(line) for line in content.splitlines()] for content in (expected, found))
    assert [(line["frame"], line["pts_ns"]) for line in ours] == [(line["frame"], line["pts_ns"]) for line in others]
    return list(zip(ours, others, strict=True))


def _taken(thing: Thing, others: list[Thing]) -> bool:
    """Whether one of the others is like it, which is taken out."""
    alike = next((number for number, other in enumerate(others) if _are_alike(thing, other)), None)
    if alike is not None:
        del others[alike]
    return alike is not None


def _unless_as_likely(alone: Sequence[Thing], others: Sequence[Thing]) -> list[Thing]:
    """All that are not alike, on both sides, without those that differ from one of the other side in the class only."""
    return [
        thing
        for own, theirs in ((alone, others), (others, alone))
        for thing in own
        if not any(_in_same_place(thing, other) for other in theirs)
    ]


def _are_alike(thing: Thing, other: Thing) -> bool:
    return (
        (thing["label"], thing["class_id"]) == (other["label"], other["class_id"])
        and _in_same_place(thing, other)
        and _are_near(thing.get("keypoints", ()), other.get("keypoints", ()), box=thing["box"])
        and _same_values(thing.get("attributes", {}), other.get("attributes", {}))
        and _cosine(thing.get("embedding", (1,)), other.get("embedding", (1,))) >= LEAST_COSINE
    )


def _about(thing: Thing, other: Thing) -> bool:
    return bool(thing["label"] == other["label"]) and overlap(thing["box"], other["box"]) >= ABOUT


def _in_same_place(thing: Thing, other: Thing) -> bool:
    is_as_sure = abs(thing["confidence"] - other["confidence"]) <= MOST_OFF
    return is_as_sure and overlap(thing["box"], other["box"]) >= LEAST_OVERLAP


def _are_near(points: Sequence[Any], others: Sequence[Any], *, box: Sequence[float]) -> bool:
    """Whether keypoints are where the others are, to a hundredth of the box."""
    limit = MOST_OFF * max(box[2] - box[0], box[3] - box[1], 1)
    return all(
        (point is None) == (other is None) and (point is None or _far(point, other) <= limit)
        for point, other in zip_longest(points, others)
    )


def _far(point: Sequence[float], other: Sequence[float]) -> float:
    return float(np.abs(np.subtract(point[:2], other[:2])).max())


def _same_values(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        abs(value - other[name]) <= MOST_OFF if isinstance(value, float) else value == other[name]
        for name, value in one.items()
    )


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.dot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other)))


def _classes(things: Sequence[Thing], *, size_hw: tuple[int, int]) -> npt.NDArray[np.int64]:
    """The class of each pixel; -1 where there is nothing."""
    height, width = size_hw
    classes = np.full((height, width), -1, np.int64)
    for thing in things:
        mask = decode_mask(thing["mask"]["counts"], size_wh=(width, height))
        classes[mask.in_image((width, height))] = thing["class_id"]
    return classes


def _told(thing: Thing) -> str:
    return f"{thing['label']} {thing['confidence']} {thing['box']}"
