"""Both engines keep the contract of `protocol.py`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from sightline.errors import ModelError
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.engines.requests import Arrays, Requests, Work
from sightline_plugins.preprocess.definition import ImageForm
from tests.unit.engines.graphs import compute, random, small_network

Name = Literal["openvino", "onnxruntime"]
Opener = Callable[..., Engine]
HEIGHT, WIDTH = 24, 32


@pytest.fixture(params=["openvino", "onnxruntime"])
def name(request: pytest.FixtureRequest) -> Name:
    found: Name = request.param
    return found


@pytest.fixture
def opened(name: Name) -> Iterator[Opener]:
    """Opens engines of the kind under test and closes them in the end."""
    with ExitStack() as stack:

        def open_one(model: onnx.ModelProto, **options: Any) -> Engine:
            engine = open_engine(model.SerializeToString(), engine=name, **options)
            stack.callback(engine.close)
            return engine

        yield open_one


def images(count: int) -> list[npt.NDArray[np.float32]]:
    return [random(1, 3, HEIGHT, WIDTH, seed=index) for index in range(count)]


def threads() -> int:
    """Threads of this process, native ones too."""
    return len(list(Path("/proc/self/task").iterdir()))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_inputs_and_outputs_are_described(opened: Opener, name: Name) -> None:
    engine = opened(small_network())
    assert engine.name == name
    assert [str(spec) for spec in engine.inputs] == ["x float32 (1, 3, 24, 32)"]
    assert [str(spec) for spec in engine.outputs] == ["y float32 (1, 6, 24, 32)"]


def test_fifty_images_submitted_at_once_come_back_in_order(opened: Opener) -> None:
    engine = opened(small_network())
    given = images(50)
    pending = [engine.submit((image,)) for image in given]
    for image, work in zip(given, pending, strict=True):
        np.testing.assert_allclose(work.result()[0], compute(small_network(), x=image)[0], atol=1e-4)


def test_a_result_is_the_same_to_the_bit_whatever_else_is_under_way(opened: Opener) -> None:
    engine, alone = opened(small_network(), concurrency=4), opened(small_network(), concurrency=1)
    given = images(20)
    together = [work.result()[0] for work in [engine.submit((image,)) for image in given]]
    for image, found in zip(given, together, strict=True):
        assert np.array_equal(alone.submit((image,)).result()[0], found)


def test_a_result_can_be_asked_for_again_and_later_work_leaves_it_alone(opened: Opener) -> None:
    engine = opened(small_network())
    first = engine.submit((images(1)[0],))
    kept = first.result()[0].copy()
    for work in [engine.submit((image,)) for image in images(20)]:
        work.result()
    assert first.result()[0] is first.result()[0]
    assert np.array_equal(first.result()[0], kept)


def test_one_thread_submits_while_another_collects(opened: Opener) -> None:
    engine = opened(small_network())
    given = images(60)
    expected = [engine.submit((image,)).result()[0] for image in given]
    pending = [engine.submit((image,)) for image in given[:5]]
    found: list[npt.NDArray[np.float32]] = []

    def collect() -> None:
        for index in range(len(given)):
            while len(pending) <= index:
                submitted.wait(5)
            found.append(pending[index].result()[0])

    submitted = threading.Event()
    collector = threading.Thread(target=collect)
    collector.start()
    pending.extend(engine.submit((image,)) for image in given[5:])
    submitted.set()
    collector.join(20)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_closing_waits_for_what_is_under_way_and_results_stay_valid(opened: Opener) -> None:
    engine = opened(small_network())
    given = images(4)
    pending = [engine.submit((image,)) for image in given]
    engine.close()
    engine.close()
    for image, work in zip(given, pending, strict=True):
        np.testing.assert_allclose(work.result()[0], compute(small_network(), x=image)[0], atol=1e-4)


def test_nothing_is_accepted_after_closing(opened: Opener) -> None:
    engine = opened(small_network())
    engine.close()
    with pytest.raises(ModelError, match="closed"):
        engine.submit((images(1)[0],))


def test_engines_that_are_opened_and_closed_leave_no_thread_and_no_memory_behind(name: Name) -> None:
    content = small_network().SerializeToString()

    def cycle() -> None:
        engine = open_engine(content, engine=name, image=ImageForm(), concurrency=2)
        engine.submit((np.zeros((1, HEIGHT, WIDTH, 3), np.uint8),))
        engine.close()

    for _ in range(20):
        cycle()
    before, python_before, memory = threads(), threading.active_count(), resident_bytes()
    for _ in range(60):
        cycle()
    assert threading.active_count() <= python_before
    assert threads() <= before + 2
    assert resident_bytes() - memory < 6e6


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize(
    ("mean", "scale"),
    [((0.0,), (1 / 255,)), ((0.0,), (0.1, 0.2, 0.3)), ((100.0,), (0.02,)), ((99.0, 110.0, 120.0), (0.01, 0.02, 0.03))],
)
def test_layout_conversion_and_normalisation_are_part_of_the_graph(
    opened: Opener, layout: str, dtype: str, mean: tuple[float, ...], scale: tuple[float, ...]
) -> None:
    form = ImageForm(layout=layout, dtype=dtype, mean=mean, scale=scale)  # type: ignore[arg-type]
    engine = opened(small_network(), image=form)
    image = np.random.default_rng(3).integers(0, 256, (1, HEIGHT, WIDTH, 3)).astype(dtype)
    seen = (image.astype(np.float32) - np.array(mean, np.float32)) * np.array(scale, np.float32)
    expected = compute(small_network(), x=np.ascontiguousarray(seen.transpose(0, 3, 1, 2)))[0]
    given = image if layout == "nhwc" else np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    tolerance = 1e-6 * float(np.abs(expected).max())
    np.testing.assert_allclose(engine.submit((given,)).result()[0], expected, rtol=0, atol=max(tolerance, 1e-5))


def test_a_dynamic_batch_becomes_one_and_a_dynamic_size_is_fixed_on_demand(opened: Opener) -> None:
    model = small_network(batch="N", size_wh=("w", "h"))
    engine = opened(model, image=ImageForm(size_wh=(WIDTH, HEIGHT)))
    assert engine.inputs[0].shape == (1, HEIGHT, WIDTH, 3)
    assert engine.outputs[0].shape == (1, 6, HEIGHT, WIDTH)


def test_a_size_that_stays_dynamic_may_differ_from_image_to_image(opened: Opener) -> None:
    engine = opened(small_network(batch="N", size_wh=("w", "h")), image=ImageForm(mean=(1.0, 2.0, 3.0)))
    assert engine.inputs[0].shape == (1, None, None, 3)
    for size in ((8, 12), (20, 16), (8, 12)):
        result = engine.submit((np.zeros((1, *size, 3), np.uint8),)).result()
        assert result[0].shape == (1, 6, *size)


def test_a_read_only_image_is_taken_as_it_is(opened: Opener) -> None:
    engine = opened(small_network())
    image = images(1)[0]
    image.flags.writeable = False
    np.testing.assert_allclose(engine.submit((image,)).result()[0], compute(small_network(), x=image)[0], atol=1e-4)


def test_work_that_was_interrupted_never_passes_for_a_result() -> None:
    def interrupted() -> tuple[npt.NDArray[np.float32], ...]:
        raise KeyboardInterrupt

    work = Work(interrupted)
    with pytest.raises(KeyboardInterrupt):
        work.result()
    with pytest.raises(ModelError, match="interrupted"):
        work.result()


def test_a_result_that_is_collected_out_of_turn_makes_room() -> None:
    requests = Requests((), concurrency=1, label="model")

    def unfinished() -> Arrays:
        raise AssertionError("nobody has to wait for this one")

    requests.submit((), start=lambda _: unfinished)
    early = requests.submit((), start=lambda _: tuple)
    for _ in range(requests.limit - 2):
        requests.submit((), start=lambda _: unfinished)
    early.result()

    requests.submit((), start=lambda _: unfinished)
