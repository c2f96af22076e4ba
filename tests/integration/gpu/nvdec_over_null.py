"""Decode clips by the real PyNvVideoCodec over null libraries: `python -m ...nvdec_over_null FOLDER WHICH CLIP...`.

The libraries lie in that folder, and `LD_LIBRARY_PATH` names it. WHICH is `file`, `camera` (that sends the clip),
`unaware` (nobody knows of crops at left and top), or `unaware unverified` (and no image is compared). Writes a line of
JSON for each clip.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.libcuda import LIBRARY
from sightline.graph import SourceElement
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.decode.nvdec_library import ImageFacts
from sightline_plugins.sources.live.rtsp import Rtsp
from tests.null_driver import NullCudaDriver, NullDriver
from tests.null_driver import driver as null_drivers
from tests.null_nvcuvid import NullNvcuvid
from tests.reading import frames_of, media


def main(folder: str, which: str, *clips: str) -> None:
    null = NullDriver(Path(folder) / LIBRARY)
    null_drivers.null_driver = lambda: null  # type: ignore[attr-defined, assignment]
    nvcuvid = NullNvcuvid(Path(folder))
    # PyNvVideoCodec is linked with calls that the null driver lacks, and does not make them.
    sys.setdlopenflags(os.RTLD_LAZY)
    if "unaware" in which:
        ImageFacts.origin = (0, 0)  # type: ignore[assignment]
    for clip in clips:
        sys.stdout.write(json.dumps(decoded(clip, which, null=null, nvcuvid=nvcuvid)) + "\n")


def decoded(clip: str, which: str, *, null: NullDriver, nvcuvid: NullNvcuvid) -> dict[str, Any]:
    """Decode a clip, and tell what came of it."""
    null.reset()
    made_before = nvcuvid.counts[-1]
    gpu = CudaDevice(NullCudaDriver())
    file = media(Path(clip), verify_nvdec="unverified" not in which)
    source: SourceElement = file
    with ExitStack() as stack:
        if which == "camera":
            camera = FakeCamera(load_clip(clip), options=CameraOptions(paced=False, passes=1))
            source = Rtsp(uri=stack.enter_context(camera).url)
        with null.counting() as counts:
            ours, reader = frames_of(source, gpu)
    theirs, _ = frames_of(file)
    pairs = list(zip(ours, theirs, strict=True))
    result = {
        "frames": len(pairs),
        "same": sum(all((one == other).all() for one, other in zip(a.planes, b.planes, strict=True)) for a, b in pairs),
        "times": all(a.pts_ns == b.pts_ns for a, b in pairs),
        "luma": ours[0].planes[0].tolist(),
        "decoder": reader.decoder,
        "reason": reader.decoder_reason,
        "counts": counts,
    }
    del ours, theirs, pairs
    gpu.close()
    *now, made = nvcuvid.counts
    return result | {"nvdec": [*now, made - made_before], "live": null.live, "orphans": null.orphans}


if __name__ == "__main__":
    main(*sys.argv[1:])
