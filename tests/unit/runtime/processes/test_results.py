"""What travels between processes comes out as it went in."""

from __future__ import annotations

import pickle
import socket

import numpy as np
import pytest

from sightline.errors import ConfigurationError, DeviceUnavailable, OperatorError, SightlineError
from sightline.media import Batch, Event, Frame, Objects, Stream
from sightline.media.objects import Origin
from sightline.runtime.processes.assignment import ToldError
from sightline.runtime.processes.channel import Channel, ChannelClosed
from sightline.runtime.processes.results import Results
from sightline.runtime.stats.counters import StreamStats
from sightline.testing import make_frames

GATE = Stream("gate", live=True)


def batch() -> Batch:
    surface = make_frames(1, stream="gate", size_wh=(1920, 1080))[0].surface
    frames = tuple(Frame(GATE, index, index * 40, surface, capture_ns=7, damaged=index == 1) for index in (5, 6))
    objects = Objects.from_columns(
        frame=[0, 1],
        xyxy=[[1, 2, 3, 4], [5, 6, 7, 8]],
        confidence=[0.5, 0.75],
        class_id=[0, 1],
        source=Origin("detect-1", ("car", "bus")),
    )
    return Batch(frames, objects).with_events([Event("line", "a", 1, {"direction": "in"}, step="lines-1")])


def test_a_batch_keeps_everything_but_its_pixels() -> None:
    given = batch()

    data = pickle.dumps(Results.of(given))
    found = pickle.loads(data).batch()

    assert len(data) < 3000
    assert [(one.stream, one.index, one.pts_ns, one.capture_ns, one.damaged, one.size_wh) for one in found.frames] == [
        (one.stream, one.index, one.pts_ns, one.capture_ns, one.damaged, one.size_wh) for one in given.frames
    ]
    assert found.events == given.events
    assert found.objects.labels() == ["car", "bus"]
    np.testing.assert_array_equal(found.objects.xyxy, given.objects.xyxy)


def test_letters_come_in_order_until_the_other_side_ends() -> None:
    ours, its = (Channel(one) for one in socket.socketpair())
    its.send("first", list(range(1000)))
    its.send("second")
    its.close()

    assert [(letter := ours.receive()).kind, letter.content] == ["first", list(range(1000))]
    assert ours.receive().kind == "second"
    with pytest.raises(ChannelClosed):
        ours.receive()
    with pytest.raises(ChannelClosed):
        ours.send("late")
    ours.close()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OperatorError("it failed", element="detect-1", stream="gate", frame=3), OperatorError),
        (DeviceUnavailable("no GPU"), DeviceUnavailable),
        (ConfigurationError("wrong"), ConfigurationError),
        (ValueError("a fault of ours"), SightlineError),
    ],
)
def test_an_error_is_told_with_its_kind(error: Exception, kind: type[SightlineError]) -> None:
    told = pickle.loads(pickle.dumps(ToldError.of(error))).error()

    assert type(told) is kind
    assert str(error) in str(told)
    assert getattr(told, "stream", None) == getattr(error, "stream", None)


def test_stats_are_copied_with_what_they_counted() -> None:
    stats = StreamStats(GATE)
    stats.receive()
    stats.see("car", 4)
    stats.finish(damaged=False, latency_ns=1_000_000)

    copy = pickle.loads(pickle.dumps(stats))
    stats.see("car", 5)
    copy.receive()

    assert (copy.received, copy.finished, copy.labels["car"].objects) == (2, 1, 1)
    assert copy.latency.percentile_ns(50) == stats.latency.percentile_ns(50)
