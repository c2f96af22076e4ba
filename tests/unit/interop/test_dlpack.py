"""Frames in host memory by DLPack: no copy, no way to write, and nothing that changes behind a tensor."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from sightline.testing import run_source
from sightline_plugins.sources.file.element import Media
from tests.conftest import REPOSITORY

CLIP = str(REPOSITORY / "sample_videos" / "street.mp4")


def test_planes_are_shared_and_cannot_be_written() -> None:
    (frame,) = run_source(Media.model_validate({"uri": CLIP, "duration": "40ms"}))
    assert len(frame.surface.planes) == 3
    for plane in frame.surface.planes:
        tensor = np.from_dlpack(plane)
        assert tensor.ctypes.data == plane.ctypes.data
        assert (tensor.shape, tensor.strides) == (plane.shape, plane.strides)
        assert not tensor.flags.writeable


def test_who_knows_no_read_only_arrays_is_refused_instead_of_let_write() -> None:
    (frame,) = run_source(Media.model_validate({"uri": CLIP, "duration": "40ms"}))
    with pytest.raises(BufferError, match="readonly"):
        frame.surface.planes[0].__dlpack__()  # as DLPack before 1.0 asks


def test_a_tensor_outlives_its_frame_and_never_shows_another_one() -> None:
    reader_frames = iter(run_source(Media.model_validate({"uri": CLIP, "duration": "200ms"})))
    tensor = np.from_dlpack(next(reader_frames).surface.planes[0])
    before = tensor.copy()
    for _ in reader_frames:
        pass
    gc.collect()
    others = run_source(Media.model_validate({"uri": CLIP, "start": "4s", "duration": "1s"}))
    assert not np.array_equal(others[0].surface.planes[0], before)
    assert np.array_equal(tensor, before)
