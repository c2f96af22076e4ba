"""Digests of what was found on frames, by which a replay is compared with what was recorded."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Batch
from sightline.media.objects import STRUCTURES, Objects
from sightline.media.shapes import Mask

_BYTES = 8
_COLUMNS = ("xyxy", "confidence", "class_id", "track_id", "parent")


def digests_of(batch: Batch) -> list[bytes]:
    """Return 8 bytes for each frame of a batch: equal for equal objects, events and tensors, to the last bit."""
    return [_digest(batch, row) for row in range(len(batch))]


def _digest(batch: Batch, row: int) -> bytes:
    total = blake2b(digest_size=_BYTES)
    objects = batch.objects.of_frame(row)
    for column in _COLUMNS:
        total.update(np.ascontiguousarray(getattr(objects, column)).data)
    total.update("\0".join(_names(objects)).encode())
    for name, values in sorted(objects.extra.items()) if len(objects) else ():
        if name[0] != "_" or "." in name:
            total.update(name.encode())
            total.update(_bytes_of(values, is_structure=name in STRUCTURES))
    for event in batch.events:
        if event.frame == row:
            total.update(repr((event.kind, event.rule, dict(event.data), event.step)).encode())
    for tensor in batch.tensors:
        if tensor.frame == row:
            total.update(f"{tensor.element}.{tensor.name}".encode())
            total.update(np.ascontiguousarray(tensor.values).data)
    return total.digest()


def _names(objects: Objects) -> list[str]:
    elements = [origin.element for origin in objects.origins]
    return [
        f"{elements[origin]}:{label}" for origin, label in zip(objects.origin.tolist(), objects.labels(), strict=True)
    ]


def _bytes_of(values: npt.NDArray[Any], *, is_structure: bool) -> bytes:
    if values.dtype.kind == "O":
        return b"".join(_bytes_of_one(value) if is_structure else repr(value).encode() for value in values)
    return np.ascontiguousarray(values).tobytes()


def _bytes_of_one(value: object) -> bytes:
    if isinstance(value, Mask):
        return repr((value.left, value.top, value.bits.shape)).encode() + np.packbits(value.bits).tobytes()
    return repr(value).encode()
