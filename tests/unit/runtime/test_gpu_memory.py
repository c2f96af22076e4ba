"""Whether the streams of a run fit into the memory of its GPUs, before it begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Message, MessageKind, SourceElement
from sightline.runtime.gpu_memory import too_little_memory
from tests.fakes.cuda_driver import FakeCudaDriver

MIB = 2**20


class Video(SourceElement):
    """A stream that takes some of a GPU's memory."""

    name: ClassVar[str] = "video_of_the_test"

    mebibytes: int
    in_turn: bool = False

    @property
    def takes_turns(self) -> bool:
        return self.in_turn

    def gpu_memory_bytes(self) -> int:
        return self.mebibytes * MIB


@pytest.fixture
def small() -> Iterator[CudaDevice]:
    """A GPU of 100 MiB."""
    device = CudaDevice(FakeCudaDriver(memory_bytes=100 * MIB))
    yield device
    device.close()


def test_streams_that_fit_say_nothing(small: CudaDevice) -> None:
    assert too_little_memory([small], [Video(mebibytes=50), Video(mebibytes=50)]) is None


def test_streams_that_do_not_fit_say_how_many_do(small: CudaDevice) -> None:
    said = too_little_memory([small], [Video(mebibytes=40) for _ in range(64)])

    assert said is not None
    assert said.startswith(
        "64 streams take about 2.5 GiB of GPU memory, and cuda:0 has 0.1 GiB free: about 2 of them fit"
    )


def test_of_streams_that_take_turns_the_largest_counts(small: CudaDevice) -> None:
    turns = [Video(mebibytes=size, in_turn=True) for size in (60, 10, 60)]

    assert too_little_memory([small], [*turns, Video(mebibytes=40)]) is None
    assert too_little_memory([small], [*turns, Video(mebibytes=41)]) is not None


def test_of_thousands_that_take_turns_few_are_looked_at(small: CudaDevice) -> None:
    asked: list[int] = []

    class Counted(Video):
        def gpu_memory_bytes(self) -> int:
            asked.append(1)
            return super().gpu_memory_bytes()

    assert too_little_memory([small], [Counted(mebibytes=10, in_turn=True) for _ in range(5000)]) is None
    assert len(asked) == 16


def test_streams_of_unknown_size_and_runs_on_the_cpu_say_nothing(small: CudaDevice) -> None:
    assert too_little_memory([small], [Video(mebibytes=0) for _ in range(1000)]) is None
    assert too_little_memory([], [Video(mebibytes=2**20)]) is None


def test_several_gpus_share_the_streams(small: CudaDevice) -> None:
    other = CudaDevice(FakeCudaDriver(index=1, memory_bytes=100 * MIB))

    assert too_little_memory([small, other], [Video(mebibytes=60) for _ in range(3)]) is None
    said = too_little_memory([small, other], [Video(mebibytes=60) for _ in range(4)])
    assert said is not None
    assert "cuda:0, cuda:1 have 0.2 GiB free: about 3 of them fit" in said
    other.close()


def test_a_run_warns_before_it_starts_and_goes_on(small: CudaDevice) -> None:
    messages: list[Message] = []
    cameras = {f"cam{number}": "rtsp://127.0.0.1:9/nothing" for number in range(5)}
    pipeline = Pipeline(sources={"gate": {"pattern": "moving", "frames": 3}, **cameras}, steps=[], gpu=small)
    pipeline.on_message(messages.append)

    with pipeline:
        pipeline.stop()

    kinds = [(message.kind, message.text) for message in messages]
    warnings = [text for kind, text in kinds if kind is MessageKind.WARNING and "of GPU memory" in text]
    assert len(warnings) == 1
    assert warnings[0].startswith("5 streams take about 0.3 GiB of GPU memory")
    assert kinds.index((MessageKind.WARNING, warnings[0])) < [kind for kind, _ in kinds].index(MessageKind.STARTED)
