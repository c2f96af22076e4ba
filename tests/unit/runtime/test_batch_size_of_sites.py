"""What elements know of the batches that they will get when they are built."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Element, Operator, Site
from sightline.media import Batch

PATTERN = {"pattern": "moving", "size": [64, 48], "frames": 2}


class Asks(Element):
    """Keeps the batch size that it was built for."""

    name: ClassVar[str] = "asks"
    found: ClassVar[list[int | None]] = []

    def build(self, site: Site) -> Operator:
        self.found.append(site.batch_size)
        return _Passes()


class _Passes(Operator):
    def process(self, batch: Batch) -> Batch:
        return batch


@pytest.fixture
def found() -> list[int | None]:
    """The batch sizes of all sites, in the order in which operators were built."""
    Asks.found.clear()
    return Asks.found


def run(*, streams: int, **options: Any) -> None:
    sources = {f"s{number}": PATTERN for number in range(streams)}
    pipeline = Pipeline(sources=sources, steps=[Asks()], **options)
    pipeline.start()
    pipeline.stop()
    pipeline.wait()


@pytest.mark.parametrize(("streams", "size"), [(1, 4), (6, 6), (20, 16)])
def test_without_a_size_batches_follow_the_number_of_streams(found: list[int | None], streams: int, size: int) -> None:
    run(streams=streams)

    assert found == [size]


def test_a_size_that_is_configured_is_known(found: list[int | None]) -> None:
    run(streams=1, batch={"size": 24})

    assert found == [24]


def test_streams_in_real_time_do_not_wait_for_each_other(found: list[int | None]) -> None:
    Pipeline(sources={"cam": {**PATTERN, "realtime": True}}, steps=[Asks()]).run()

    assert found == [1]


def test_each_gpu_gets_its_share_of_the_streams(found: list[int | None], gpus: list[CudaDevice]) -> None:
    run(streams=15, gpu=gpus)

    assert found == [5, 5, 5]


@pytest.mark.parametrize(("batch", "size"), [({}, None), ({"size": 3}, 3)], ids=["not configured", "configured"])
def test_where_streams_come_and_go_only_a_configured_size_is_known(
    found: list[int | None], batch: dict[str, int], size: int | None
) -> None:
    run(streams=2, keep_running=True, batch=batch)

    assert found == [size]
