"""NVDEC without a GPU, for the real PyNvVideoCodec: `libnvcuvid.so.1` in C above the null driver (`nvcuvid.c`).

The fake (`tests/fakes/nvdec.py`) takes the place of PyNvVideoCodec and decodes; this takes the place of NVIDIA's
library below it and shows a pattern, so that what the package does with images, memory and streams is the real thing.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.libcuda import LIBRARY, NVDEC_LIBRARY
from tests.fakes.native_build import compile_library

ENCODER_LIBRARY = "libnvidia-encode.so.1"
_SOURCE = Path(__file__).with_name("nvcuvid.c")
_FLAGS = ("-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", "-Wl,--no-as-needed")


def build_null_nvcuvid(folder: Path) -> None:
    """Compile it into the folder in which the null driver lies: a child process with the folder in `LD_LIBRARY_PATH`
    has NVDEC. Raises RuntimeError with the compiler's words.
    """
    for name in (NVDEC_LIBRARY, ENCODER_LIBRARY):
        flags = (*_FLAGS, f"-L{folder}", f"-l:{LIBRARY}", f"-Wl,-soname,{name}")
        compile_library([_SOURCE], folder / name, flags=flags)


class NullNvcuvid:
    """What the library tells of itself, in a process that has it."""

    def __init__(self, folder: Path) -> None:
        self._library = ctypes.CDLL(str(folder / NVDEC_LIBRARY), os.RTLD_GLOBAL)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many decoders there are, how many of their images are mapped, and how many have ever been."""
        return self._library.null_decoders(), self._library.null_mapped(), self._library.null_maps()


def pattern(size_wh: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """What every coded image of that size shows: the planes of I420, each row after the other, (height * 3 / 2, width).

    Blocks of one level each, so that an encoder of blocks keeps every level.
    """
    width, height = size_wh
    y, x = np.mgrid[:height, :width]
    luma = 40 + (x // 16 * 11 + y // 16 * 17) % 160
    y, x = np.mgrid[: height // 2, : width // 2]
    chroma = [60 + (x // 8 * 13 + y // 8 * 7 + plane * 50) % 120 for plane in (0, 1)]
    return np.concatenate([luma.ravel(), *(plane.ravel() for plane in chroma)]).astype(np.uint8).reshape(-1, width)
