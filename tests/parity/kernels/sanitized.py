"""Runs kernels on images with nothing behind them; a child process under the sanitizers does (`test_mutants.py`).

With `--wrong`, pre-processing takes images to be a row higher than they are.
"""

from __future__ import annotations

import sys

import numpy as np

from sightline.devices.cuda.driver import KernelSource
from sightline.media import PixelFormat
from sightline_plugins.preprocess import cuda as cuda_preprocess
from sightline_plugins.preprocess.cuda import TensorForm
from sightline_plugins.preprocess.definition import Preprocessing, Resize
from tests.fakes import HostKernels
from tests.parity.kernels.images import inputs, noise, placements, view, wide_view

RESIZES: tuple[Resize, ...] = ("bilinear", "nearest", "area", "antialias")
FORMS = (
    TensorForm("nchw", np.dtype(np.float32)),
    TensorForm("nhwc", np.dtype(np.float16)),
    TensorForm("nchw", np.dtype(np.int8)),
    TensorForm("nhwc", np.dtype(np.uint8)),
)
SIZES = [(33, 21), (1, 1), (46, 32)]
TOO_HIGH = ("min(max(y, top), bottom - 1)", "min(max(y, top), bottom)")


def run_preprocess(source: KernelSource) -> None:
    kernels = HostKernels(source)
    for resize, form in zip(RESIZES, FORMS, strict=True):
        definition = Preprocessing((19, 17), resize=resize, convert="image" if form is FORMS[0] else "network")
        surfaces = [noise(kind, size_wh) for kind in PixelFormat for size_wh in SIZES]
        parts = [(view(one), place) for one in surfaces for place in placements(one, definition).values()]
        wide = noise(PixelFormat.NV12, SIZES[0])
        parts += [(wide_view(wide, bits=10), place) for place in placements(wide, definition).values()]
        inputs(parts, definition, form=form, kernels=kernels)


if __name__ == "__main__":
    source = KernelSource.read(cuda_preprocess.SOURCE)
    if sys.argv[1:] == ["--wrong"]:
        run_preprocess(source.replaced(*TOO_HIGH))
    else:
        run_preprocess(source)
