"""Which cells count as changed, beside the plain definition in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.infer.adaptive.motion import compare_cells

Cells = npt.NDArray[np.uint8]


def changed_cells(now: Cells, before: Cells, at_run: Cells, noise: float) -> tuple[npt.NDArray[np.bool_], float]:
    few, few_before, few_at_run = (cells[::4, ::4].astype(int) for cells in (now, before, at_run))
    middle = few.size // 2
    trembling = np.sort(np.abs(few - few_before), axis=None)[middle]
    shared = np.sort(few - few_at_run, axis=None)[middle]
    noise += (trembling - noise) * 0.1
    expected = np.clip(at_run.astype(int) + shared, 0, 255)
    return np.abs(now - expected) > max(5, 6 * noise), noise


@pytest.mark.parametrize("size_wh", [(1, 1), (3, 7), (160, 90), (239, 135)])
@pytest.mark.parametrize("light", [0, 30, -200])
def test_cells_that_change_by_more_than_noise_and_light_are_found(size_wh: tuple[int, int], light: int) -> None:
    random = np.random.default_rng(size_wh[0])
    noise = np.zeros(1)
    at_run = random.integers(0, 256, size_wh[::-1]).astype(np.uint8)
    before = at_run
    expected_noise = 0.0
    for number in range(4):
        trembling = random.integers(-number, number + 1, at_run.shape)
        now = np.clip(at_run.astype(int) + light + trembling, 0, 255).astype(np.uint8)
        now[: size_wh[1] // 3, : size_wh[0] // 3] ^= 64
        changed, count = compare_cells(now, before=before, at_run=at_run, noise=noise)
        expected, expected_noise = changed_cells(now, before, at_run, expected_noise)
        np.testing.assert_array_equal(changed, expected)
        assert count == expected.sum()
        assert noise[0] == pytest.approx(expected_noise)
        before = now
