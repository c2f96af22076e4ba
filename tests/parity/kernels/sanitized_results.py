"""Runs kernels that find and draw; a child process under the sanitizers does (`test_sanitized.py`)."""

from __future__ import annotations

from tests.parity.kernels import test_draw, test_heads, test_hide, test_nms

if __name__ == "__main__":
    for case in test_heads.CASES:
        test_heads.test_the_kernels_find_exactly_what_the_head_finds_on_the_host(case)
    test_heads.test_what_finds_no_room_is_counted_and_harms_nobody()
    test_nms.test_the_same_boxes_stay_as_on_the_host_in_the_same_order("shuffled", class_agnostic=False)
    test_nms.test_candidates_that_found_no_room_are_told()
    test_draw.test_later_shapes_lie_over_earlier_ones("shuffled")
    test_hide.test_only_what_is_covered_is_hidden()
