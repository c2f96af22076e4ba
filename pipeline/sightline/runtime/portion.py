"""How much of what waits a batch takes."""

from __future__ import annotations

_LONGEST_NS = 250_000_000


class Portion:
    """The most frames of a batch when live streams wait: what the pipeline gets through in a quarter of a second.

    A few batches are under way at any time. Where frames take long, large batches would make every image seconds old;
    where they do not, this is more than any batch has.
    """

    def __init__(self) -> None:
        self._frames = 0
        self._taken_ns = 0
        self._frame_ns = 0.0

    def asked_for(self, now_ns: int, *, waits: bool) -> None:
        """The next batch is asked for. `waits` says that frames are there already: nothing but the pipeline's own pace
        has kept them waiting.
        """
        is_pace = waits and self._frames > 0
        self._frame_ns = (now_ns - self._taken_ns) / self._frames if is_pace else 0.0

    def taken(self, frames: int, now_ns: int) -> None:
        """A batch of so many frames leaves."""
        self._frames, self._taken_ns = frames, now_ns

    def of(self, size: int) -> int:
        """How many frames of a batch of `size` are taken."""
        return size if self._frame_ns * size <= _LONGEST_NS else max(1, int(_LONGEST_NS / self._frame_ns))
