"""Copies: between any layouts, of any size, counted, and never of what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.media import PixelFormat

VALUES = np.arange(35, dtype=np.uint8).reshape(5, 7)


def test_dense_and_padded_arrays_are_copied_into_each_other(gpu: CudaDevice) -> None:
    stream = gpu.stream("copies")
    padded = gpu.upload([VALUES], stream=stream)
    dense = [gpu.empty((5, 7), np.uint8, stream=stream)]
    again = gpu.new_surface(PixelFormat.GRAY8, size_wh=(7, 5), stream=stream).arrays

    dense = gpu.copy(padded, dense, stream=stream)
    again = tuple(gpu.copy(dense, again, stream=stream))

    assert (padded[0].is_dense, dense[0].is_dense, again[0].is_dense) == (False, True, False)
    np.testing.assert_array_equal(dense[0].to_host(), VALUES)
    np.testing.assert_array_equal(again[0].to_host(), VALUES)


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "i8"])
@pytest.mark.parametrize("shape", [(), (1,), (33,), (3, 5), (2, 3, 5), (2, 0), (0, 4)])
def test_arrays_of_any_shape_survive_the_way_there_and_back(
    gpu: CudaDevice, shape: tuple[int, ...], dtype: str
) -> None:
    values = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)

    np.testing.assert_array_equal(gpu.upload([values])[0].to_host(), values)


def test_arrays_of_different_types_cross_together(gpu: CudaDevice) -> None:
    arrays: list[npt.NDArray[Any]] = [
        np.arange(3, dtype=np.uint8),
        np.arange(4, dtype=np.float64),
        np.zeros((), np.int32),
    ]

    back = gpu.download(gpu.upload(arrays)).wait()

    for one, other in zip(arrays, back, strict=True):
        np.testing.assert_array_equal(one, other)
    assert gpu.transfers.counts.host_to_device_bytes == gpu.transfers.counts.device_to_host_bytes == 3 + 32 + 4


def test_records_survive_the_way_there_and_back(gpu: CudaDevice) -> None:
    jobs = np.zeros(3, np.dtype([("address", "u8"), ("size", "i4", (2,))], align=True))
    jobs["size"] = [[1, 2], [3, 4], [5, 6]]

    np.testing.assert_array_equal(gpu.upload([jobs])[0].to_host(), jobs)


def test_the_host_may_change_its_own_as_soon_as_an_upload_returns(gpu: CudaDevice) -> None:
    values = VALUES.copy()
    (array,) = gpu.upload([values])

    values[:] = 0

    np.testing.assert_array_equal(array.to_host(), VALUES)


def test_some_rows_are_an_array_that_shares_the_memory(gpu: CudaDevice) -> None:
    (array,) = gpu.upload([VALUES])

    np.testing.assert_array_equal(array.rows(1, 3).to_host(), VALUES[1:3])
    assert gpu.transfers.counts.device_to_host_bytes == 14
    assert array.rows(0, 0).to_host().shape == (0, 7)


@pytest.mark.parametrize("rows", [(-1, 2), (2, 1), (0, 6)])
def test_rows_that_are_not_there_are_refused(gpu: CudaDevice, rows: tuple[int, int]) -> None:
    (array,) = gpu.upload([VALUES])

    with pytest.raises(ValueError, match="are not all among the 5 rows"):
        array.rows(*rows)


@pytest.mark.parametrize(("shape", "dtype"), [((7, 5), "u1"), ((5, 7), "i1"), ((5, 8), "u1")])
def test_a_copy_into_something_else_is_refused(gpu: CudaDevice, shape: tuple[int, ...], dtype: str) -> None:
    stream = gpu.stream("copies")
    arrays, targets = gpu.upload([VALUES], stream=stream), [gpu.empty(shape, dtype, stream=stream)]

    with pytest.raises(ValueError, match=r"uint8 of shape \(5, 7\) cannot be copied into"):
        gpu.copy(arrays, targets, stream=stream)


def test_an_array_that_comes_down_again_and_again_needs_no_more_streams(gpu: CudaDevice) -> None:
    array = gpu.upload([VALUES])[0]
    counts = list[int]()

    for _ in range(50):
        array.to_host()
        counts.append(gpu.handle_counts[0])

    assert counts[-1] == counts[9]
