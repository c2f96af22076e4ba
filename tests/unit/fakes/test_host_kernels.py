"""Kernels built for the host do what they would do on a GPU, and show what is wrong with them."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices.cuda.driver import KernelSource
from sightline.errors import KernelError
from tests.fakes import ORDERS, HostKernels, Order
from tests.unit.cuda.host_arrays import dense

SOURCE = KernelSource(
    "sample.cu",
    """
struct Pair { int factor; float offset; };

extern "C" __global__ void scaled(int *out, Pair pair) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    const int width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    out[(z * height + y) * width + x] = ((z * height + y) * width + x) * pair.factor + (int)pair.offset;
}

extern "C" __global__ void reversed(float *values) {
    __shared__ float kept[96];
    kept[threadIdx.x] = values[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    values[blockIdx.x * blockDim.x + threadIdx.x] = kept[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void summed(const float *values, float *sums) {
    extern __shared__ float partial[];
    partial[threadIdx.x] = values[blockIdx.x * blockDim.x + threadIdx.x];
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

extern "C" __global__ void warps(int *out) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned whole = 0xffffffffu;
    int sum = threadIdx.x;
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(whole, sum, by);
    int most = lane;
    for (int with = 1; with < 8; with *= 2) most = max(most, __shfl_xor_sync(whole, most, with));
    const unsigned odd = __ballot_sync(whole, lane & 1);
    const int first = __shfl_sync(whole, sum, 0), before = __shfl_up_sync(whole, lane, 1);
    int half = 0;
    if (lane < 16) half = __popc(__ballot_sync(0x0000ffffu, true));
    __syncwarp();
    int *row = out + threadIdx.x * 6;
    row[0] = first, row[1] = most, row[2] = odd == 0xaaaaaaaau, row[3] = before, row[4] = half;
    row[5] = __any_sync(whole, lane == 5) + 2 * __all_sync(whole, warp >= 0);
}

extern "C" __global__ void counted(int *out) {
    atomicAdd(&out[0], 1);
    atomicMax(&out[1], (int)threadIdx.x);
    const int thirds = __syncthreads_count(threadIdx.x % 3 == 0);
    const bool is_any = __syncthreads_or(threadIdx.x > 9), are_all = __syncthreads_and(threadIdx.x < 10);
    if (threadIdx.x == 7) out[2] = thirds + (is_any ? 1000 : 0) + (are_all ? 100 : 0);
}

extern "C" __global__ void leaves_early(int *out) {
    if (threadIdx.x >= 5) return;
    __syncthreads();
    atomicAdd(out, 1);
}

extern "C" __global__ void waits_apart(int *out) {
    if (threadIdx.x < 3) __syncthreads();
    else
        __syncthreads();
    *out = 1;
}

extern "C" __global__ void waits_forever(int *out) {
    if (threadIdx.x < 3) __syncwarp();
    else __syncthreads();
    *out = 1;
}

extern "C" __global__ void stops(int *out) {
    if (*out == 0) __trap();
}

extern "C" __global__ void reads_unset(int *out) {
    __shared__ int kept[4];
    if (blockIdx.x == 0) kept[threadIdx.x] = 1;
    out[blockIdx.x * 4 + threadIdx.x] = kept[threadIdx.x];
}
""",
    {},
)
PAIR = np.dtype([("factor", "<i4"), ("offset", "<f4")])


def pair(factor: int, offset: float) -> np.void:
    value: np.void = np.array([(factor, offset)], PAIR)[0]
    return value


def floats(count: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(1).random(count, np.float32)


def test_every_thread_runs_once_with_its_own_place() -> None:
    out = dense(np.zeros((6, 6, 8), np.int32))

    HostKernels(SOURCE)["scaled"](out, pair(3, 2.0), grid=(2, 3, 2), block=(4, 2, 3))

    assert np.array_equal(out.values.ravel(), np.arange(6 * 6 * 8) * 3 + 2)


@pytest.mark.parametrize("order", ORDERS)
def test_threads_wait_at_barriers(order: Order) -> None:
    values = dense(floats(4 * 96))
    expected = values.values.reshape(4, 96)[:, ::-1].ravel().copy()

    HostKernels(SOURCE, order=order)["reversed"](values, grid=4, block=96)

    assert np.array_equal(values.values, expected)


@pytest.mark.parametrize("order", ORDERS)
def test_a_removed_barrier_shows(order: Order) -> None:
    mutant = SOURCE.replaced("    __syncthreads();\n    values", "    values")
    values = dense(floats(4 * 96))
    expected = values.values.reshape(4, 96)[:, ::-1].ravel().copy()

    HostKernels(mutant, order=order)["reversed"](values, grid=4, block=96)

    assert not np.array_equal(values.values, expected)


def test_dynamic_shared_memory_has_the_size_of_the_launch() -> None:
    values, sums = dense(floats(8 * 128)), dense(np.zeros(8, np.float32))

    HostKernels(SOURCE)["summed"](values, sums, grid=8, block=128, shared=128 * 4)

    assert np.allclose(sums.values, values.values.reshape(8, 128).sum(axis=1))


@pytest.mark.parametrize("order", ORDERS)
def test_lanes_exchange_values_and_vote(order: Order) -> None:
    out = dense(np.zeros((64, 6), np.int32))

    HostKernels(SOURCE, order=order)["warps"](out, grid=1, block=64)

    lanes = np.tile(np.arange(32), 2)
    sums = np.repeat([sum(range(32)), sum(range(32, 64))], 32)
    expected = [sums, lanes | 7, np.ones(64), np.maximum(lanes - 1, 0), 16 * (lanes < 16), np.full(64, 3)]
    assert np.array_equal(out.values, np.stack(expected, axis=1))


def test_blocks_count_together() -> None:
    out = dense(np.zeros(3, np.int32))

    HostKernels(SOURCE)["counted"](out, grid=2, block=10)

    assert out.values.tolist() == [20, 9, 104]


def test_threads_that_have_ended_are_not_waited_for() -> None:
    out = dense(np.zeros(1, np.int32))

    HostKernels(SOURCE)["leaves_early"](out, grid=1, block=64)

    assert out.values.tolist() == [5]


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        ("waits_apart", r"block \(0, 0, 0\): threads of one block wait at different barriers, in lines \d+ and \d+"),
        ("waits_forever", r"none can go on: 5 at the barrier in line \d+; lanes 00000007 of warp 0 in line \d+"),
        ("stops", r"__trap\(\) in line \d+"),
    ],
)
def test_threads_that_get_stuck_are_told_with_their_lines(kernel: str, told: str) -> None:
    kernels = HostKernels(SOURCE)

    with pytest.raises(KernelError, match=told):
        kernels[kernel](dense(np.zeros(1, np.int32)), grid=1, block=8)

    kernels["leaves_early"](dense(np.zeros(1, np.int32)), grid=1, block=8)


def test_shared_memory_holds_nothing_of_the_block_before() -> None:
    out = dense(np.zeros(8, np.int32))

    HostKernels(SOURCE)["reads_unset"](out, grid=2, block=4)

    assert out.values[:4].tolist() == [1] * 4
    assert set(out.values[4:].tolist()) == {np.array(0xA5A5A5A5, np.uint32).view(np.int32).item()}


def test_a_struct_of_another_size_is_refused() -> None:
    larger = np.zeros(1, [("factor", "<i4"), ("offset", "<f4"), ("more", "<i4")])[0]

    with pytest.raises(TypeError, match=r"parameters of \(8, 8\) bytes are given \(8, 12\)"):
        HostKernels(SOURCE)["scaled"](dense(np.zeros(1, np.int32)), larger, grid=1, block=1)


def test_an_unknown_kernel_is_answered_with_those_there_are() -> None:
    with pytest.raises(KernelError, match=r"sample\.cu has no kernel 'scale'; it has scaled, reversed"):
        HostKernels(SOURCE)["scale"]


def test_a_mistake_is_told_with_its_line() -> None:
    line = SOURCE.text[: SOURCE.text.index("kept[threadIdx.x] = values")].count("\n") + 1

    with pytest.raises(
        KernelError, match=rf"sample\.cu does not compile for this machine's processor:(?s:.*)sample\.cu:{line}:"
    ):
        HostKernels(SOURCE.replaced("kept[threadIdx.x] = values", "kept[thread] = values"))


def test_threads_of_the_host_take_turns() -> None:
    kernels = HostKernels(SOURCE)
    rows = [dense(np.tile(floats(96), 50)) for _ in range(4)]
    threads = [threading.Thread(target=lambda row=row: kernels["reversed"](row, grid=50, block=96)) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(np.array_equal(row.values.reshape(50, 96), np.tile(floats(96)[::-1], (50, 1))) for row in rows)


def test_builds_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path))
    source = KernelSource("kept.cu", 'extern "C" __global__ void kept(int *out) { *out = 12345; }', {})
    HostKernels(source)

    assert {file.suffix for file in (tmp_path / "kernels").iterdir()} >= {".so"}
