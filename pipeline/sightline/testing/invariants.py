"""What holds of every run, whatever its pipeline does: frames are accounted for, and keep their order.

order = FrameOrder()
pipeline.probe("jsonl-1", order)
report = pipeline.run()
assert_accounted(report)
order.check(report)
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sightline.media import Batch, Frame
from sightline.runtime.stats.counters import DropReason
from sightline.runtime.stats.report import Report


def assert_accounted(report: Report, *, stopped: bool = False, gpu_lost: bool = False, reverted: bool = False) -> None:
    """Each frame received ended in exactly one counter, and nothing was dropped that had to be kept.

    `stopped` says that the run was ended from outside or by a failure: frames under way may then be dropped as
    `stopped`. `gpu_lost` says that one of several GPUs broke: what was on it is dropped as `gpu lost`. `reverted` says
    that a change was: frames on which its steps failed are dropped as `reverted`. Live streams may drop frames as
    `overloaded` or `damaged`; files never do. Raises AssertionError.
    """
    for stream in report.streams:
        name, dropped = stream.stream.name, stream.dropped.total()
        ended = stream.processed + stream.damaged + dropped
        assert stream.received == ended, (
            f"stream {name!r}: {stream.received} frames received, but {ended} accounted for "
            f"({stream.processed} processed, {stream.damaged} damaged, {dict(stream.dropped)} dropped)"
        )
        allowed = {DropReason.STOPPED} if stopped else set()
        allowed |= {DropReason.GPU_LOST} if gpu_lost else set()
        allowed |= {DropReason.REVERTED} if reverted else set()
        allowed |= {DropReason.OVERLOADED, DropReason.DAMAGED} if stream.stream.live else set()
        wrong = {str(reason): count for reason, count in stream.dropped.items() if count and reason not in allowed}
        assert not wrong, f"stream {name!r}: dropped {wrong}, which nothing explains"


@dataclass(slots=True)
class _Seen:
    frames: int = 0
    missing: int = 0
    index: int = -1
    pts_ns: int | None = None


@dataclass(slots=True, eq=False)
class FrameOrder:
    """A probe that watches the frames of each stream: indices and timestamps must rise. `check` says what was wrong."""

    wrong: list[str] = field(default_factory=list)
    _streams: dict[str, _Seen] = field(default_factory=dict)

    def __call__(self, batch: Batch) -> None:
        """Look at a batch."""
        for frame in batch.frames:
            self._look(frame, self._streams.setdefault(frame.stream.name, _Seen()))

    def frames(self, stream: str) -> int:
        """How many frames of a stream came by."""
        return self._streams.get(stream, _Seen()).frames

    def check(self, report: Report) -> None:
        """Order was kept, frames that are missing in between were counted as dropped, and those that went all the way
        came by; for elements of the main line, or in a run that nothing stopped. Raises AssertionError.
        """
        assert not self.wrong, "; ".join(self.wrong)
        for stream in report.streams:
            name, dropped = stream.stream.name, stream.dropped.total()
            seen = self._streams.get(name, _Seen())
            assert seen.missing <= dropped, f"stream {name!r}: {seen.missing} frames missing, {dropped} dropped"
            assert seen.frames >= stream.finished, (
                f"stream {name!r}: {stream.finished} frames went all the way, {seen.frames} came by here"
            )

    def _look(self, frame: Frame, seen: _Seen) -> None:
        if frame.index <= seen.index or (seen.pts_ns is not None and frame.pts_ns <= seen.pts_ns):
            self.wrong.append(
                f"stream {frame.stream.name!r}: frame {frame.index} at {frame.pts_ns} ns came "
                f"after frame {seen.index} at {seen.pts_ns} ns"
            )
        seen.frames += 1
        seen.missing += frame.index - seen.index - 1
        seen.index, seen.pts_ns = frame.index, frame.pts_ns
