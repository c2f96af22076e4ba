"""Supervision of sources on a clock that is moved by hand: pacing, limits, attempts, time after a reconnection."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import ClassVar

import pytest

from sightline.devices import Device
from sightline.errors import StreamLost, StreamRefused
from sightline.graph import Message, MessageKind, Site, SourceElement, SourceReader
from sightline.graph.site import SystemClock
from sightline.media import Frame, Stream
from sightline.runtime.scheduling.batcher import Arrival
from sightline.runtime.scheduling.lanes import StreamSlot
from sightline.runtime.scheduling.link import Link, open_link
from sightline.runtime.sources.health import Continuation, Pace, backoff_seconds
from sightline.runtime.sources.read_control import ReadControl
from sightline.runtime.sources.supervisor import Limits, SourceSupervisor
from sightline.runtime.stats.counters import StreamStats
from sightline.testing import make_frames

SECOND_NS = 1_000_000_000
FRAME_NS = 40_000_000
PAUSE_NS = 60 * SECOND_NS


class Attempt(SourceElement):
    """A stream of several attempts: so many frames each, then it is lost; after the last one it ends."""

    name: ClassVar[str] = "attempt"

    attempts: tuple[int, ...] = (5,)
    camera: bool = False
    first_pts_ns: int = 0
    bad_close: bool = False

    @property
    def live(self) -> bool:
        return self.camera

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        return _AttemptReader(self, stream)


class GivesUp(Attempt):
    """A camera that is given up after half a minute without a frame."""

    name: ClassVar[str] = "gives_up"

    @property
    def gives_up_ns(self) -> int | None:
        return 30 * SECOND_NS


class Refused(Attempt):
    """A camera that does not accept the password, however often it is asked."""

    name: ClassVar[str] = "refused"

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        _AttemptReader.made += 1
        raise StreamRefused("wrong password", credentials=True)


class _AttemptReader(SourceReader):
    made = 0
    asked = 0

    def __init__(self, source: Attempt, stream: Stream) -> None:
        self._source = source
        self._stream = stream
        self._number = type(self).made
        type(self).made += 1

    def frames(self) -> Iterator[Frame]:
        surface = make_frames(1, size_wh=(16, 16))[0].surface
        for index in range(self._source.attempts[self._number]):
            type(self).asked += 1
            yield Frame(self._stream, index, self._source.first_pts_ns + index * FRAME_NS, surface)
        if self._number + 1 < len(self._source.attempts):
            raise StreamLost("it went away")

    def close(self) -> None:
        if self._source.bad_close:
            raise OSError("the socket is gone")


class ManualClock(SystemClock):
    """A clock that only waiting moves."""

    now_ns = 1_000 * SECOND_NS

    def monotonic_ns(self) -> int:
        return self.now_ns


class ManualControl(ReadControl):
    """What a source waits for to be stopped: waiting moves the clock. In the wait number `pause_at` the stream is
    paused, and resumed after a minute.
    """

    def __init__(self, clock: ManualClock, *, stop_at: int | None = None, pause_at: int | None = None) -> None:
        super().__init__()
        self.waits_seconds: list[float] = []
        self._clock = clock
        self._stop_at, self._pause_at = stop_at, pause_at

    def sleep(self, seconds: float) -> None:
        self.waits_seconds.append(round(seconds, 9))
        number = len(self.waits_seconds)
        if number == self._pause_at:
            self.pause()
            return
        self._clock.now_ns += round(seconds * SECOND_NS)
        if number == self._stop_at:
            self.stop()

    def wait_while_paused(self, number: int, *, at_most_seconds: float | None) -> None:
        self._clock.now_ns += PAUSE_NS if at_most_seconds is None else min(PAUSE_NS, round(at_most_seconds * SECOND_NS))
        if at_most_seconds is None or at_most_seconds * SECOND_NS > PAUSE_NS:
            self.resume()


class Bench:
    """A source that runs in the test's own thread."""

    def __init__(
        self,
        source: Attempt,
        *,
        limits: Limits = Limits(),  # noqa: B008
        stop_at: int | None = None,
        pause_at: int | None = None,
        clock: ManualClock | None = None,
    ) -> None:
        _AttemptReader.made = _AttemptReader.asked = 0
        self.clock = clock or ManualClock()
        self.control = ManualControl(self.clock, stop_at=stop_at, pause_at=pause_at)
        self.messages: list[Message] = []
        self.link: Link[Arrival] = open_link(1000)
        self.stats = StreamStats(Stream("cam", live=source.live))
        site = Site(device=Device(), element_id="cam", clock=self.clock, post=self.messages.append)
        thread = SourceSupervisor(source, slot=StreamSlot(self.link.sender, site), stats=self.stats, limits=limits)
        thread._control = self.control
        thread.work()
        self.arrivals = [self.link.receiver.receive() for _ in range(self.link.receiver.depth)]

    @property
    def kinds(self) -> list[MessageKind]:
        return [message.kind for message in self.messages]


def test_in_real_time_each_frame_comes_when_its_time_has_come() -> None:
    bench = Bench(Attempt(attempts=(5,), realtime=True, first_pts_ns=7 * SECOND_NS))

    begun = bench.arrivals[0].at_ns
    assert [arrival.at_ns - begun for arrival in bench.arrivals] == [number * FRAME_NS for number in range(5)]
    assert begun == 1_000 * SECOND_NS


def test_without_real_time_nothing_waits() -> None:
    assert Bench(Attempt(attempts=(5,))).control.waits_seconds == []


def test_a_stop_ends_the_wait_for_a_frame_and_the_frame_is_not_counted() -> None:
    bench = Bench(Attempt(attempts=(5,), realtime=True), stop_at=2)

    assert (bench.stats.received, len(bench.arrivals)) == (2, 2)


def test_what_is_late_is_not_held_back() -> None:
    pace = Pace()

    waits = [pace.wait_ns(pts, now_ns=now) for pts, now in ((100, 1000), (200, 1050), (300, 1250), (400, 1251))]

    assert waits == [0, 50, 0, 49]


def test_a_jump_of_the_timestamps_is_not_waited_for_and_a_slow_rate_is() -> None:
    day, second = 86_400_000_000_000, 1_000_000_000
    jumping, slow, late = Pace(), Pace(), Pace()

    assert [jumping.wait_ns(pts, now_ns=0) for pts in (0, second, day, day, day + second)] == [
        0, second, 2 * second, 2 * second, 3 * second
    ]  # fmt: skip
    assert jumping.jumped_ns == day - second
    waits = [slow.wait_ns(20 * n * second, now_ns=0) for n in range(4)]
    assert waits == [0, 20 * second, 40 * second, 60 * second]
    assert slow.jumped_ns == 0
    assert [late.wait_ns(pts, now_ns=0) for pts in (0, day)] == [0, 0]


@pytest.mark.parametrize("frames", [0, 1, 3, 5])
def test_a_limit_of_frames_is_exact_and_asks_for_none_beyond(frames: int) -> None:
    bench = Bench(Attempt(attempts=(5,)), limits=Limits(frames=frames))

    assert (bench.stats.received, _AttemptReader.asked) == (frames, frames)


def test_a_limit_of_frames_counts_over_all_attempts() -> None:
    bench = Bench(Attempt(attempts=(5, 5, 5), camera=True), limits=Limits(frames=12))

    assert [arrival.frame.index for arrival in bench.arrivals] == list(range(12))


def test_a_duration_is_of_the_streams_own_time() -> None:
    bench = Bench(Attempt(attempts=(50,), first_pts_ns=7 * SECOND_NS), limits=Limits(duration_ns=10 * FRAME_NS))

    assert bench.stats.received == 10


def test_time_goes_on_after_a_reconnection_by_what_the_clock_says() -> None:
    bench = Bench(Attempt(attempts=(2, 2), camera=True))

    pause_ns = round(bench.control.waits_seconds[0] * SECOND_NS)
    times = [arrival.frame.pts_ns for arrival in bench.arrivals]
    assert times == [0, FRAME_NS, FRAME_NS + pause_ns, 2 * FRAME_NS + pause_ns]


def test_time_rises_although_the_clock_stands_still() -> None:
    moved = Continuation()
    moved.begin(index=0, pts_ns=500, now_ns=9)
    moved.note(500, now_ns=9)

    moved.begin(index=1, pts_ns=0, now_ns=9)

    assert 0 + moved.shift_ns == 501


def test_an_attempt_without_frames_waits_longer_and_one_with_frames_starts_again() -> None:
    bench = Bench(Attempt(attempts=(1, 0, 0, 0, 0, 1, 1), camera=True))

    assert bench.control.waits_seconds == [0.1, 0.2, 0.4, 0.5, 0.5, 0.1]
    assert bench.stats.reconnects == 2


def test_a_loss_is_told_and_its_repeats_are_not() -> None:
    bench = Bench(Attempt(attempts=(1, 0, 0, 0, 0, 0), camera=True))

    assert bench.kinds.count(MessageKind.STREAM_LOST) == 1


def test_waits_double_to_half_a_second_stay_there_for_ten_seconds_and_grow_to_thirty() -> None:
    jitter = random.Random(1)
    waits = [backoff_seconds(attempt, jitter=jitter) for attempt in range(40)]

    assert waits[:4] == [0.1, 0.2, 0.4, 0.5]
    assert waits[3:21] == [0.5] * 18
    assert waits[21] < waits[22] < waits[23] < waits[24]
    assert all(22.5 <= wait <= 30 for wait in waits[27:])
    assert len(set(waits[27:])) > 1


def test_attempts_never_end() -> None:
    assert backoff_seconds(10**9) <= 30


def test_stopping_ends_the_wait_for_the_next_attempt() -> None:
    bench = Bench(Attempt(attempts=(1, 1, 1), camera=True), stop_at=1)

    assert (bench.stats.received, bench.stats.state) == (1, "ended")


def test_a_file_that_breaks_off_is_not_tried_again() -> None:
    bench = Bench(Attempt(attempts=(2, 2)))

    assert (bench.stats.state, bench.stats.error, bench.stats.received) == ("failed", "it went away", 2)


def test_trouble_while_closing_is_told_and_does_not_fail_the_stream() -> None:
    bench = Bench(Attempt(attempts=(2,), bad_close=True))

    assert bench.stats.state == "ended"
    assert [message.text for message in bench.messages if message.kind is MessageKind.WARNING] == [
        "closing the input failed: OSError: the socket is gone"
    ]


def test_trouble_while_closing_does_not_keep_a_camera_from_being_tried_again() -> None:
    assert Bench(Attempt(attempts=(2, 2), camera=True, bad_close=True)).stats.received == 4


def test_a_password_that_is_refused_is_tried_at_most_twice_a_minute_for_ever() -> None:
    bench = Bench(Refused(camera=True), stop_at=20)

    assert all(wait >= 30 for wait in bench.control.waits_seconds)
    assert _AttemptReader.made == 20
    assert bench.kinds.count(MessageKind.STREAM_AUTH_FAILED) == 1


class SteppedClock(ManualClock):
    """Its time of day is set an hour forth and back, again and again."""

    def epoch_ns(self) -> int:
        return (self.now_ns // SECOND_NS % 2) * 3_600 * SECOND_NS


def test_a_host_clock_that_is_set_moves_no_timer() -> None:
    source = Attempt(attempts=(1, 0, 0, 0, 0, 1, 1), camera=True)
    steady, stepped = Bench(source), Bench(source, clock=SteppedClock())

    assert stepped.control.waits_seconds == steady.control.waits_seconds
    assert [one.frame.pts_ns for one in stepped.arrivals] == [one.frame.pts_ns for one in steady.arrivals]


def test_a_paused_file_is_not_late_when_it_goes_on_in_real_time() -> None:
    bench = Bench(Attempt(attempts=(5,), realtime=True), pause_at=2)

    begun = bench.arrivals[0].at_ns
    times = [arrival.at_ns - begun for arrival in bench.arrivals]
    assert times == [0, FRAME_NS, *(PAUSE_NS + number * FRAME_NS for number in (2, 3, 4))]
    assert [arrival.frame.pts_ns for arrival in bench.arrivals] == [number * FRAME_NS for number in range(5)]
    assert bench.kinds == ["stream_started", "stream_paused", "stream_resumed", "stream_ended"]


def test_a_pause_ends_the_wait_for_the_next_attempt_and_is_no_reconnect() -> None:
    bench = Bench(Attempt(attempts=(2, 0, 0, 2), camera=True), pause_at=3)

    times = [arrival.frame.pts_ns for arrival in bench.arrivals]
    assert times == [0, FRAME_NS, FRAME_NS + 300_000_000 + PAUSE_NS, 2 * FRAME_NS + 300_000_000 + PAUSE_NS]
    assert (bench.stats.reconnects, bench.stats.received) == (0, 4)
    assert bench.kinds[2:] == ["stream_lost", "stream_paused", "stream_resumed", "stream_back", "stream_ended"]


def test_a_pause_is_no_time_without_frames() -> None:
    """A camera that gives up after half a minute is paused for a whole one, and lost after that."""
    bench = Bench(GivesUp(attempts=(1, 0, 0, 1), camera=True), pause_at=2)

    assert (bench.stats.state, bench.stats.received) == ("ended", 2)


def test_a_run_of_limited_duration_ends_although_a_camera_is_paused() -> None:
    bench = Bench(Attempt(attempts=(2, 2), camera=True), limits=Limits(duration_ns=SECOND_NS), pause_at=1)

    assert (bench.stats.state, bench.stats.received) == ("ended", 2)
    assert bench.clock.now_ns == 1_001 * SECOND_NS
