"""Whether two frames show the same, and how far an embedding is from those of all frames that are kept.

The perceptual hash is pHash (Zauner 2010, "Implementation and Benchmarking of Perceptual Image Hash Functions", 3.2.1):
the signs of the 64 lowest frequencies of a discrete cosine transform of 32 x 32 samples of luma, beside their median.
Frames of a fixed camera all have about the same hash, so two of them are duplicates only if the objects found on them
lie at the same places, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import iou_matrix
from sightline_plugins.harvest.selection import Content, Kept

SIDE = 32
"""Width and height of the luma that is hashed."""
_FREQUENCIES = 8
_SAME_PLACE = 0.7
"""From which overlap (IoU) two boxes are at the same place."""
_SAME_OBJECTS = 0.9
"""Which share of all boxes of two frames (F1) has to be at the same places."""
_MOST_COMPARED = 256
"""Of the frames of a stream with similar hashes, the newest are compared."""
_MOST_VECTORS = 4096

Vectors = npt.NDArray[np.float32]


def _cosines() -> npt.NDArray[np.float64]:
    """The lowest rows of the matrix of the discrete cosine transform (DCT-II) of 32 samples."""
    rows, samples = np.arange(_FREQUENCIES)[:, None], np.arange(SIDE)[None]
    return np.cos(np.pi * (2 * samples + 1) * rows / (2 * SIDE))


_COSINES = _cosines()


def perceptual_hash(luma: npt.NDArray[np.uint8]) -> int:
    """Return the 64 bits of the pHash of a luma of 32 x 32 samples."""
    low = (_COSINES @ luma.astype(np.float64) @ _COSINES.T).ravel()
    low[0] = np.median(low[1:])  # brightness says nothing; its bit is always 0
    bits = low > np.median(low[1:])
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


def fractions(xyxy: Vectors, *, size_wh: tuple[int, int]) -> Vectors:
    """Return boxes (N, 4) in pixels as fractions of the frame."""
    result: Vectors = np.divide(xyxy, np.array(size_wh * 2, np.float32))
    return result


def shows_same_objects(one: Content, other: Content) -> bool:
    """Whether two frames have objects with the same labels at the same places, or both none."""
    total = len(one.xyxy) + len(other.xyxy)
    if 2 * min(len(one.xyxy), len(other.xyxy)) < _SAME_OBJECTS * total:
        return False
    if not total:
        return True
    fits = (iou_matrix(one.xyxy, other.xyxy) >= _SAME_PLACE) & (one.class_id[:, None] == other.class_id)
    return 2 * int(min(fits.any(axis=1).sum(), fits.any(axis=0).sum())) >= _SAME_OBJECTS * total


class KeptContents:
    """The contents of frames that are kept. Used by one thread.

    Hashes that differ in at most `distance` of 64 bits are similar.
    """

    def __init__(self, *, distance: int) -> None:
        self._distance = distance
        self._by_stream: dict[str, list[Kept]] = {}
        self._hashes: dict[str, npt.NDArray[np.uint64]] = {}
        self._vectors: deque[tuple[Kept, Vectors]] = deque()
        self._vector_count = 0
        self._matrix: Vectors | None = None

    def add(self, kept: Kept) -> None:
        """Compare with this frame from now on."""
        self._by_stream.setdefault(kept.candidate.stream, []).append(kept)
        self._hashes.pop(kept.candidate.stream, None)
        if len(kept.content.vectors):
            self._vectors.append((kept, kept.content.vectors))
            self._vector_count += len(kept.content.vectors)
            while self._vector_count > _MOST_VECTORS and len(self._vectors) > 1:
                self._vector_count -= len(self._vectors.popleft()[1])
            self._matrix = None

    def remove(self, kept: Kept) -> None:
        """Compare with this frame no longer."""
        self._by_stream[kept.candidate.stream].remove(kept)
        self._hashes.pop(kept.candidate.stream, None)
        if any(one is kept for one, _ in self._vectors):
            self._vectors = deque((one, own) for one, own in self._vectors if one is not kept)
            self._vector_count = sum(len(own) for _, own in self._vectors)
            self._matrix = None

    def duplicates(self, content: Content, *, stream: str) -> list[Kept]:
        """Return the frames of a stream that show the same."""
        known = self._by_stream.get(stream, [])
        if not known:
            return []
        hashes = self._hashes.get(stream)
        if hashes is None:
            hashes = self._hashes[stream] = np.array([one.content.phash for one in known], np.uint64)
        distances = np.bitwise_count(hashes ^ np.uint64(content.phash))
        similar = np.flatnonzero(distances <= self._distance)[-_MOST_COMPARED:].tolist()
        return [known[number] for number in similar if shows_same_objects(known[number].content, content)]

    def distances(self, vectors: Vectors) -> npt.NDArray[np.float32]:
        """Return the cosine distance (0..2) of each vector (K, D) from the nearest one that is kept; 1 without any."""
        if self._matrix is None or self._matrix.shape[1:] != vectors.shape[1:]:
            self._matrix = _stacked((own for _, own in self._vectors), like=vectors)
        if not len(self._matrix):
            return np.ones(len(vectors), np.float32)
        nearest: npt.NDArray[np.float32] = (vectors @ self._matrix.T).max(axis=1)
        return np.clip(1 - nearest, 0, 2)


def _stacked(parts: Iterable[Vectors], *, like: Vectors) -> Vectors:
    """Return all vectors that are as long as those of `like`, as one matrix."""
    found = [own for own in parts if own.shape[1:] == like.shape[1:]]
    return np.concatenate(found) if found else np.empty((0, like.shape[1]), np.float32)
