"""The name of a plan in the cache changes when, and only when, something changes that the plan depends on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline_plugins.engines import cache, tensorrt_builder
from sightline_plugins.engines.batch_sizes import BatchRange
from sightline_plugins.engines.cache import key_digest
from sightline_plugins.engines.tensorrt_model import TensorRtModel
from tests.fakes import FakeCudaDriver
from tests.fakes.tensorrt import fake_tensorrt
from tests.unit.engines.graphs import small_network

Options = dict[str, Any]
Patch = pytest.MonkeyPatch


def key(model: str | Path | bytes | None = None, **options: Any) -> str:
    """The key on a GPU: `gpu` are the options of its double, `library` those of TensorRT's."""
    given = {"compute_capability": (8, 6), "name": "double"} | options.pop("gpu", {})
    driver = FakeCudaDriver(memory_bytes=2**16, pinned_bytes=2**16, compute_capability=given["compute_capability"])
    driver.name = given["name"]
    gpu = CudaDevice(driver)
    fake_tensorrt(gpu, **options.pop("library", {}))
    content = small_network(batch="n").SerializeToString() if model is None else model
    made = TensorRtModel(content, gpu=gpu, **options)
    digest = key_digest(made._key, for_processor=False)
    gpu.close()
    return digest


@pytest.mark.parametrize(
    "change",
    [
        {"model": small_network(batch=1).SerializeToString()},
        {"precision": "fp16"},
        {"precision": "int8"},
        {"batches": BatchRange(4, 32)},
        {"batches": BatchRange(8, 12)},
        {"library": {"version": "1.8.0.0"}},
        {"library": {"rtx": False}},
        {"gpu": {"compute_capability": (8, 9)}},
    ],
    ids=str,
)
def test_what_a_plan_depends_on_changes_its_name(change: Options) -> None:
    assert key(**change) != key()


def test_the_size_of_images_changes_its_name() -> None:
    model = small_network(batch="n", size_wh=("w", "h")).SerializeToString()

    assert key(model, size_wh=(32, 24)) != key(model, size_wh=(64, 24))


def test_the_range_of_the_input_changes_the_name_of_a_plan_in_fp16_only() -> None:
    assert key(precision="fp16", input_range=(0, 255)) != key(precision="fp16")
    assert key(precision="fp32", input_range=(0, 255)) == key(precision="fp32")


def test_the_name_of_the_gpu_matters_where_kernels_are_timed_on_it() -> None:
    timed: Options = {"library": {"rtx": False}}

    assert key(**timed, gpu={"name": "another"}) != key(**timed)
    assert key(gpu={"name": "another"}) == key()


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(tensorrt_builder, "WORKSPACE_BYTES", 1),
        lambda patch: patch.setattr(cache, "_rewriting", lambda: "other"),
    ],
    ids=["workspace", "our own rewriting"],
)
def test_how_we_compile_changes_its_name(change: Callable[[Patch], None], monkeypatch: Patch) -> None:
    before = key()

    change(monkeypatch)

    assert key() != before


def test_where_a_model_lies_and_what_it_is_called_does_not_matter(tmp_path: Path) -> None:
    files = [tmp_path / "one.onnx", tmp_path / "folder" / "other.onnx"]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(small_network(batch="n").SerializeToString())

    assert {key(str(files[0])), key(files[1])} == {key()}


def test_the_processor_of_this_machine_does_not_matter(monkeypatch: Patch) -> None:
    before = key()

    monkeypatch.setattr(cache, "_processor", lambda: ("another",))

    assert key() == before


def test_a_size_that_the_model_has_anyway_does_not_matter() -> None:
    assert key(size_wh=(32, 24)) == key()


def test_which_gpu_of_a_kind_computes_does_not_matter() -> None:
    first = CudaDevice(FakeCudaDriver(memory_bytes=2**16, pinned_bytes=2**16, index=3))
    fake_tensorrt(first)

    made = TensorRtModel(small_network(batch="n").SerializeToString(), gpu=first)

    assert key_digest(made._key, for_processor=False) == key()
    first.close()
