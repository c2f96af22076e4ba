"""Changes: a live stream's images become others while it runs."""

from __future__ import annotations

from sightline.media import Frame

_INTERVALS = 16
_OTHER_RATE = 1.25
_SAME_RATE = 1.1


class Changes:
    """Tells when size, codec or frame rate of a stream change; for one thread.

    A rate is the middle of 16 intervals, and another one counts when the 16 after them agree.
    """

    def __init__(self) -> None:
        self._size_wh: tuple[int, int] | None = None
        self._codec: str | None = None
        self._rate = _Rate()

    def look(self, frame: Frame, *, codec: str | None) -> str | None:
        """What has changed with this frame, in words; None when nothing has."""
        told = [
            _change(None if self._size_wh is None else _size(self._size_wh), _size(frame.size_wh)),
            _change(self._codec, codec),
            self._rate.note(frame.pts_ns),
        ]
        self._size_wh, self._codec = frame.size_wh, codec
        return ", ".join(text for text in told if text) or None


class _Rate:
    """Measures the frame rate."""

    def __init__(self) -> None:
        self._intervals_ns: list[int] = []
        self._previous_ns: int | None = None
        self._interval_ns = 0
        self._candidate_ns = 0

    def note(self, pts_ns: int) -> str | None:
        """Take down a frame; the change of rate in words when there is one."""
        if self._previous_ns is not None:
            self._intervals_ns.append(pts_ns - self._previous_ns)
        self._previous_ns = pts_ns
        if len(self._intervals_ns) < _INTERVALS:
            return None
        middle_ns = sorted(self._intervals_ns)[_INTERVALS // 2]
        self._intervals_ns.clear()
        is_confirmed = _ratio(middle_ns, self._candidate_ns) <= _SAME_RATE
        self._candidate_ns = middle_ns
        before_ns = self._interval_ns
        if not is_confirmed or (before_ns and _ratio(middle_ns, before_ns) < _OTHER_RATE):
            return None
        self._interval_ns = middle_ns
        return f"{1e9 / before_ns:.3g} fps became {1e9 / middle_ns:.3g} fps" if before_ns else None


def _ratio(one_ns: int, other_ns: int) -> float:
    return max(one_ns, other_ns, 1) / max(min(one_ns, other_ns), 1)


def _size(size_wh: tuple[int, int]) -> str:
    return f"{size_wh[0]}x{size_wh[1]}"


def _change(before: str | None, now: str | None) -> str | None:
    return None if before is None or now is None or before == now else f"{before} became {now}"
