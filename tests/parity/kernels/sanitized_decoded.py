"""Runs the kernel that places decoded images; a child process under the sanitizers does (`test_decoded.py`).

With `--wrong`, images are taken to be a column wider than they are.
"""

from __future__ import annotations

import sys

import numpy as np

from sightline.devices.cuda.driver import KernelSource
from sightline_plugins.cuda.decoded import DEPTHS, SOURCE, Turn, place_decoded
from tests.fakes import HostKernels
from tests.parity.kernels.images import padded
from tests.unit.cuda.host_arrays import HostArray

SHAPES = [(9, 13), (5, 7, 2), (1, 1)]
TOO_WIDE = ("column >= width", "column > width")


def run(source: KernelSource) -> None:
    kernels = HostKernels(source)
    for bits in DEPTHS:
        for turn in range(8):
            for shape in SHAPES:
                turned = (shape[1], shape[0], *shape[2:]) if turn & Turn.TRANSPOSED else shape
                image = padded(shape, np.uint8 if bits == 8 else np.uint16)
                image.view(np.uint8)[...] = 0x5A
                target = HostArray(padded(turned))
                place_decoded(kernels, [HostArray(image)], targets=[target], bits=bits, turn=Turn(turn))


if __name__ == "__main__":
    source = KernelSource.read(SOURCE)
    run(source.replaced(*TOO_WIDE) if sys.argv[1:] == ["--wrong"] else source)
