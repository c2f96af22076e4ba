"""Streams and events: order, and nothing but order."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from tests.fakes.cuda import POISON
from tests.fakes.cuda_driver import FakeCudaDriver

IMAGE = np.arange(48, dtype=np.uint8).reshape(6, 8)


def test_work_of_another_stream_is_seen_after_its_event_was_waited_for(gpu: CudaDevice) -> None:
    first, second = gpu.stream("first"), gpu.stream("second")
    (array,) = gpu.upload([IMAGE], stream=first)
    target = gpu.empty((6, 8), np.uint8, stream=second)

    (copy,) = gpu.copy([array], [target], stream=second)

    np.testing.assert_array_equal(copy.to_host(), IMAGE)


@pytest.mark.fake_driver("the null driver does work at once")
def test_without_the_event_poison_is_seen(gpu: CudaDevice) -> None:
    first, second = gpu.stream("first"), gpu.stream("second")
    (array,) = gpu.upload([IMAGE], stream=first)
    hasty = dataclasses.replace(array, ready=None)

    (copy,) = gpu.copy([hasty], [gpu.empty((6, 8), np.uint8, stream=second)], stream=second)

    assert (copy.to_host() == POISON).all()


@pytest.mark.fake_driver("the null driver does work at once")
def test_nothing_is_done_before_somebody_waits(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    stream = gpu.stream("work")

    gpu.upload([IMAGE], stream=stream)

    assert driver.undone > 0
    stream.synchronize()
    assert driver.undone == 0


@pytest.mark.fake_driver("only the fake counts what is queued")
def test_a_stream_does_not_wait_for_its_own_events(gpu: CudaDevice, driver: FakeCudaDriver) -> None:
    stream = gpu.stream("work")
    event = stream.record()
    before = driver.undone

    stream.wait(event)

    assert driver.undone == before


@pytest.mark.fake_driver("the null driver does work at once")
def test_an_event_is_done_when_the_work_before_it_is(gpu: CudaDevice) -> None:
    stream = gpu.stream("work")
    gpu.upload([IMAGE], stream=stream)
    event = stream.record()

    before = event.is_done
    event.wait()
    after = event.is_done

    assert (before, after) == (False, True)


def test_streams_and_events_are_used_again(gpu: CudaDevice) -> None:
    for _ in range(20):
        stream = gpu.stream("short")
        stream.record().wait()
        del stream

    assert gpu.handle_counts == (1, 1)
