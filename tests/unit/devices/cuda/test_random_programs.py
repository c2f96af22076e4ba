"""The life of arrays, leases, events and pools: whatever the program, nobody sees what is not his."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.devices.cuda import graphs, memory, pools, progress, streams
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import CudaError
from sightline.media.device_array import DeviceArray
from tests.fakes.cuda import CudaMisuse
from tests.unit.devices.cuda.drivers import DriverKind, fresh_gpus
from tests.unit.devices.cuda.programs import Program


def run(numbers: list[int], kind: DriverKind) -> None:
    driver = fresh_gpus(kind, memory_bytes=2**18)()
    gpu = CudaDevice(driver)
    Program(gpu).run(numbers)
    gpu.close()
    driver.check()
    assert driver.live_bytes == (0, 0)
    assert driver.live_graphs == 0
    assert driver.is_closed


@settings(max_examples=80)
@given(st.lists(st.integers(0, 255), max_size=80))
def test_every_program_computes_what_the_model_computes(driver_kind: DriverKind, numbers: list[int]) -> None:
    run(numbers, driver_kind)


def does_nothing(*_: object, **__: object) -> None:
    """What a mutant does instead."""


def launched_elsewhere(all_graphs: graphs.Graphs, handle: int, *, stream: CudaStream, name: str) -> None:
    """Launches a graph on a stream of its own."""
    LAUNCH(all_graphs, handle, stream=all_graphs._handles.stream("elsewhere"), name=name)


def too_far(stream: progress.Progress, tick: int) -> list[progress.Point]:
    """Takes for done what was recorded later, too."""
    return ADVANCE(stream, tick + 4)


ADVANCE = progress.Progress.advance
LAUNCH = graphs.Graphs.launch
MUTANTS: dict[str, tuple[type, str, Callable[..., object] | property]] = {
    "a stream does not wait for events": (streams.CudaStream, "wait", does_nothing),
    "arrays do not wait for their content": (DeviceArray, "on", lambda array, _: array),
    "who gives back memory forgets who uses it": (memory.Lease, "last_uses", lambda _: []),
    "who uses memory until a point forgets that point": (
        memory.Lease,
        "used_until",
        lambda lease, event: lease._streams.pop(event.stream.handle, None),
    ),
    "every point counts as reached": (progress.Point, "is_done", property(lambda _: True)),
    "a point that is reached counts for those behind it": (progress.Progress, "advance", too_far),
    "memory is lent before its users are done": (pools.Pool, "_awaited", lambda _, block, __: block.address),
    "changes do not wait for readers": (CudaDevice, "settle", lambda _, arrays, stream: arrays),
    "events become part of a graph": (streams.Handles, "marked", lambda _, stream: nullcontext()),
    "a graph is launched on another stream": (graphs.Graphs, "launch", launched_elsewhere),
}


def fails(seed: int) -> bool:
    """Whether a program shows that something is wrong."""
    rolls = random.Random(seed)
    try:
        run([rolls.randrange(256) for _ in range(200)], "fake")
    except (AssertionError, CudaError, CudaMisuse):
        return True
    return False


# Leases that a failed program leaves behind are given back here, and meet the mutant too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_missing_wait_is_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, instead = MUTANTS[mutant]
    monkeypatch.setattr(owner, name, instead)

    is_caught = any(fails(seed) for seed in range(200))
    gc.collect()

    assert is_caught, "no program found it"
