"""The batch sizes that engines on a GPU compute.

A batch of images is rounded up to the next size of the list. The rows behind the images are computed, too, and nobody
reads them. So few sizes are bound, compiled and captured as CUDA graphs: closer steps would waste less of a batch, and
cost memory and a warm-up each.

On the CPU every image is a request of its own: none of this is used there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

BATCH_SIZES = (1, 2, 4, 6, 8, 12, 16, 24, 32)
"""All of them, in ascending order."""
MAX_BATCH_SIZE = BATCH_SIZES[-1]
"""Images that are computed at once where a model takes any number, unless its engine is set otherwise."""


def rounded_up(images: int, *, limit: int = MAX_BATCH_SIZE) -> int:
    """Return the batch size for so many images, 1 to `limit`; `limit` itself where no listed size is between."""
    if not 1 <= images <= limit:
        raise ValueError(f"a batch has 1 to {limit} images, not {images}")
    return next((size for size in BATCH_SIZES if images <= size <= limit), limit)


def rounded_down(images: int) -> int:
    """Return the largest batch size of at most so many images, which are 1 or more."""
    return next(size for size in reversed(BATCH_SIZES) if size <= images)


@dataclass(frozen=True, slots=True)
class BatchRange:
    """The batch sizes that a model is compiled for: 1 to `most`, and the fastest at `usual`."""

    usual: int
    most: int

    def __post_init__(self) -> None:
        """Raises ValueError unless 1 <= usual <= most."""
        if not 1 <= self.usual <= self.most:
            raise ValueError(f"batches have 1 to {self.most} images, and usually {self.usual}")

    @classmethod
    def around(cls, images: int) -> BatchRange:
        """Return the range for batches that usually have so many images: up to the next size above theirs.

        The one above is for what a stream that joins adds. Larger batches are computed in portions.
        """
        usual = rounded_up(min(images, MAX_BATCH_SIZE))
        return cls(usual, next((above for size, above in pairwise(BATCH_SIZES) if size == usual), MAX_BATCH_SIZE))


ANY_BATCH = BatchRange(usual=8, most=MAX_BATCH_SIZE)
"""For models whose images per batch are not known before: those of objects and tiles, and streams that come and go."""
