"""What the GPU path costs the processor: CPU time and CUDA calls of a frame over the null driver, which does nothing.

    python -m benchmarks.null_gpu [--against TREE] [--rounds 5]

Eight streams are decoded by the real PyNvVideoCodec over a null NVDEC; batches of eight go through `detect` (`street`,
whose kernels are loaded and not run, and whose engine queues nothing) and `track`, with ten objects in each frame. So
what is measured is Python, the bindings and the null libraries; images are small, because the null driver copies them
with the processor. `libraries` is the part of `decode` within PyAV's demuxing and PyNvVideoCodec. TREE is a checkout of
another commit; both run in turn, each in a process of its own. Figures are medians of all rounds, and "in loops" is how
many loops of a thousand additions in Python take as long on the same machine at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import av
import numpy as np
from av.video.frame import VideoFrame
from tests.null_driver import NullDriver, build_null_driver
from tests.null_nvcuvid import NullNvcuvid, build_null_nvcuvid, pattern

from benchmarks.tracking.cost import ROOT, python_loop, table
from sightline.devices import Device, DeviceKind
from sightline.devices.cuda.cuda_driver import CudaDriver
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.libcuda import LIBRARY
from sightline.graph import Site, SourceReader
from sightline.media import Batch, Frame, Stream
from sightline.media.device_array import DeviceArray
from sightline_plugins import Detect, Track
from sightline_plugins.decode.nvdec_library import HardwareDecoder
from sightline_plugins.decode.video import VideoDecoder
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.infer.cuda_opening import CudaOpening
from sightline_plugins.infer.cuda_postprocessing import CudaDetectionPostprocessor, HostResult
from sightline_plugins.infer.cuda_predictor import CudaPredictor
from sightline_plugins.infer.facts import read_facts
from sightline_plugins.nms.cuda import DETECTION
from sightline_plugins.sources.file.element import Media

SIZE_WH, FRAMES, STREAMS, OBJECTS = (112, 64), 400, 8, 10
WARM_BATCHES = 20
PARTS = ("decode", "detect", "track", "all", "libraries")
CALLS = (
    "cuEventRecord",
    "cuEventQuery",
    "cuStreamWaitEvent",
    "cuEventSynchronize",
    "cuCtxPushCurrent",
    "cuMemcpyAsync",
)
GOALS_US = {"decode": 60, "detect": 40, "all": 150}
"""Of a core of 2.5 GHz, for a frame."""

Figures = dict[str, float]
"""CPU microseconds a frame by part, `loop`, and calls a batch by their names."""


class NullEngine:
    """A `CudaEngine` that queues nothing; batches of any size up to eight."""

    def __init__(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> None:
        self.report = {"engine": "none"}
        self.most_rows = STREAMS
        self.not_capturable = None
        self.inputs, self.outputs = (
            tuple(TensorSpec(spec.name, (None, *spec.shape[1:]), spec.dtype) for spec in specs)
            for specs in (inputs, outputs)
        )

    def bind(self, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray]) -> NullEngine:
        """It is its own execution."""
        del inputs, outputs
        return self

    def enqueue(self) -> None:
        """Queue nothing."""

    def close(self) -> None:
        """There is nothing to close."""


def opened(opening: CudaOpening) -> CudaPredictor:
    """Return the predictor with a null engine instead of opening the model."""
    facts, stream = read_facts(opening.element.model), opening.gpu.stream("model")
    engine = NullEngine(facts.inputs, facts.outputs)
    return CudaPredictor(
        opening.plan, engine=engine, postprocessor=opening.postprocessor, gpu=opening.gpu, stream=stream
    )


def find_objects() -> None:
    """Let ten boxes of each image come from the GPU, where no kernel has written any."""
    boxes = np.zeros((STREAMS, 300), DETECTION)
    edges = np.arange(OBJECTS, dtype=np.float32) * 48
    boxes["xyxy"][:, :OBJECTS] = np.stack([edges, edges / 2, edges + 40, edges / 2 + 40], axis=1)
    boxes["confidence"][:, :OBJECTS] = 0.9
    counts = np.tile(np.array([OBJECTS, OBJECTS, 0, 0], np.int32), (STREAMS, 1))
    read = CudaDetectionPostprocessor.read

    def read_boxes(postprocessor: CudaDetectionPostprocessor, results: object, row: int) -> HostResult:
        del results
        return read(postprocessor, (counts, boxes), row)

    CudaDetectionPostprocessor.read = read_boxes  # type: ignore[assignment, method-assign]


def time_libraries() -> Callable[[], float]:
    """Let the calls of PyAV's demuxing and of PyNvVideoCodec be timed; return what asks for their sum in seconds."""
    spent = [0.0]

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: object, **options: object) -> Any:
            since = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                spent[0] += time.process_time() - since

        return call

    packets = VideoDecoder.packets

    def timed_packets(decoder: VideoDecoder) -> Iterator[object]:
        return iter(timed(partial(next, packets(decoder), None)), None)

    VideoDecoder.packets = timed_packets  # type: ignore[assignment, method-assign]
    HardwareDecoder.decode = timed(HardwareDecoder.decode)  # type: ignore[method-assign]
    return lambda: spent[0]


def write_clip(path: Path) -> Path:
    """Write a clip of the image that the null NVDEC shows."""
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"profile": "baseline", "qp": "1", "g": "100"})
        stream.width, stream.height = SIZE_WH
        for number in range(FRAMES):
            frame = VideoFrame.from_ndarray(pattern(SIZE_WH), "yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def measure(folder: Path) -> Figures:
    """Measure this version, in a process that has the null libraries."""
    null = NullDriver(folder / LIBRARY)
    null.reset()
    NullNvcuvid(folder)
    sys.setdlopenflags(os.RTLD_LAZY)  # PyNvVideoCodec is linked with calls that the null driver lacks
    CudaOpening.open = opened  # type: ignore[assignment, method-assign]
    find_objects()
    libraries = time_libraries()
    gpu = CudaDevice(CudaDriver(0))
    site = Site(device=Device(DeviceKind.CUDA, 0), gpu=gpu, batch_size=STREAMS)
    detect = Detect(model=str(ROOT / "models" / "street.onnx")).build(site)
    track = Track().build(site)
    spent, batches = dict.fromkeys(PARTS, 0.0), 0
    with ExitStack() as stack:
        readers = [stack.enter_context(_Reader(folder / "clip.mp4", site, f"camera-{n}")) for n in range(STREAMS)]
        for number, frames in enumerate(zip(*(reader.frames() for reader in readers), strict=True)):
            if number == WARM_BATCHES:
                spent, before = dict.fromkeys(PARTS, 0.0), null.counts
                spent["libraries"] = -libraries()
                started = since = time.process_time()
            elif number < WARM_BATCHES:
                since = time.process_time()
            decoded = time.process_time()
            found = detect.process(Batch(frames)).result()  # type: ignore[union-attr]
            detected = time.process_time()
            tracked = track.process(found)
            done = time.process_time()
            assert isinstance(tracked, Batch)
            assert number < WARM_BATCHES or len(tracked.objects) == STREAMS * OBJECTS
            for part, seconds in zip(PARTS, (decoded - since, detected - decoded, done - detected), strict=False):
                spent[part] += seconds
            since, batches = done, number + 1 - WARM_BATCHES
            del frames, found, tracked
        spent["all"] = time.process_time() - started
        spent["libraries"] += libraries()
        calls = null.counts - before
    microseconds = 1e6 / (batches * STREAMS)
    return {
        **{part: seconds * microseconds for part, seconds in spent.items()},
        **{call: calls[call] / batches for call in CALLS},
        "loop": python_loop() * 1000,
    }


class _Reader:
    """A clip's reader, closed at the end."""

    def __init__(self, clip: Path, site: Site, name: str) -> None:
        self._reader: SourceReader = Media(uri=str(clip)).build(site, stream=Stream(name))

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def frames(self) -> Iterator[Frame]:
        """Yield its frames, which must be decoded by NVDEC."""
        yield from self._reader.frames()
        assert str(self._reader.decoder).startswith("nvdec"), self._reader.decoder_reason


def measure_tree(tree: Path, folder: Path) -> Figures:
    """Return the figures of a checkout, measured in another process."""
    paths = [str(tree / "plugins"), str(tree / "pipeline"), str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LD_LIBRARY_PATH": str(folder)}
    command = [sys.executable, "-m", "benchmarks.null_gpu", "--json", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    figures: Figures = json.loads(done.stdout)
    return figures


def main() -> None:
    """Measure both versions in turn, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.null_gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--against", type=Path, metavar="TREE", help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, default=5, help="how often both versions run")
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="measure once, with the libraries in that folder")
    asked = parser.parse_args()
    if asked.json:
        print(json.dumps(measure(asked.json)))
        return
    trees = [ROOT] if asked.against is None else [asked.against.resolve(), ROOT]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_null_driver(folder)
        build_null_nvcuvid(folder)
        write_clip(folder / "clip.mp4")
        rounds = [[measure_tree(tree, folder) for tree in trees] for _ in range(asked.rounds)]
    rows = []
    for key in rounds[0][0]:
        own = [median(one[place][key] for one in rounds) for place in range(len(trees))]
        ratio = median(one[-1][key] / one[0][key] if one[0][key] else 1.0 for one in rounds)
        loops = median(one[-1][key] / one[-1]["loop"] for one in rounds)
        goal = f"{GOALS_US[key]}" if key in GOALS_US else ""
        in_loops = f"{loops:.1f}" if key in PARTS else ""
        rows.append([f"`{key}`", *(f"{figure:.1f}" for figure in own), f"{ratio:.2f}", in_loops, goal])
    before = ["before"] if len(trees) > 1 else []
    print(table(["CPU us a frame, calls a batch", *before, "now", "ratio", "in loops", "goal"], rows))


if __name__ == "__main__":
    main()
