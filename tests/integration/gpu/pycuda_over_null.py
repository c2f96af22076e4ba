"""Run a program that uses pycuda over the null driver: `python -m tests.integration.gpu.pycuda_over_null FILE FOLDER`.

The null driver lies in that folder, and `LD_LIBRARY_PATH` names it. The program is what a user wrote; its
`SourceModule` kernels are compiled for this machine's processor instead of a GPU, so that they run. The last line
holds the counts of CUDA's calls and what is left, as JSON.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

from sightline.devices.cuda.driver import KernelSource
from sightline.devices.cuda.libcuda import LIBRARY
from tests.fakes.host_build import load_host_build
from tests.null_driver import NullDriver
from tests.null_driver.driver import HOST_LIBRARY


def main(program: str, folder: str) -> None:
    null = NullDriver(Path(folder) / LIBRARY)
    sys.setdlopenflags(os.RTLD_LAZY)  # pycuda is linked with calls that the null driver lacks, and does not make them
    from pycuda import compiler

    def compiled(source: str, *_: Any, **__: Any) -> bytes:
        return f"{HOST_LIBRARY}{load_host_build(KernelSource('own.cu', source, {}))._name}\0".encode()

    compiler.compile = compiled
    runpy.run_path(program, run_name="__main__")
    sys.stdout.write(json.dumps({"counts": null.counts, "live": null.live, "orphans": null.orphans}))


if __name__ == "__main__":
    main(*sys.argv[1:])
