"""Runs kernels that find, draw, reduce and move; a child process under the sanitizers does (`test_sanitized.py`)."""

from __future__ import annotations

from sightline.media import PixelFormat
from tests.parity.kernels import test_draw, test_heads, test_hide, test_nms
from tests.unit.flow import test_on_a_gpu as flow
from tests.unit.tile import test_on_a_gpu as tiles
from tests.unit.warp import test_on_a_gpu as views
from tests.unit.warp import test_turn_on_a_gpu as turning

if __name__ == "__main__":
    for case in test_heads.CASES:
        test_heads.test_the_kernels_find_exactly_what_the_head_finds_on_the_host(case)
    test_heads.test_what_finds_no_room_is_counted_and_harms_nobody()
    test_nms.test_the_same_boxes_stay_as_on_the_host_in_the_same_order("shuffled", class_agnostic=False)
    test_nms.test_candidates_that_found_no_room_are_told()
    test_draw.test_later_shapes_lie_over_earlier_ones("shuffled")
    test_hide.test_only_what_is_covered_is_hidden()
    for pixel_format in (PixelFormat.NV12, PixelFormat.I420):
        tiles.test_every_sample_is_that_of_the_cpu(pixel_format)
        views.test_every_sample_is_that_of_the_cpu(pixel_format)
    flow.test_every_sample_is_that_of_the_cpu(PixelFormat.NV12)
    for border in turning.BORDERS:
        turning.test_every_sample_is_that_of_the_cpu(PixelFormat.NV12, border)
