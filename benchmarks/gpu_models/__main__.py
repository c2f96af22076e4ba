"""Models on a GPU: a pipeline against its parts, on a machine with an NVIDIA GPU.

    python -m benchmarks.gpu_models CLIP [--model MODEL.onnx] [--set KEY=VALUE]... [--engine auto|tensorrt|onnxruntime]
        [--parts rates,latency,precisions] [--streams 16,64] [--seconds 10] [--rounds 3] [--size 1920x1080]
        [--frames N] [--device 0]

*Rates*: so many streams of the clip are decoded by NVDEC, pre-processed and detected on by one pipeline, when all has
warmed up. The baseline is the lower of *decoding alone*, PyNvVideoCodec in as many threads with the packets in memory,
whose images nobody keeps, and the *engine alone*, its runs one behind the other on images that lie in the GPU's
memory, in batches of the same size and as a CUDA graph where it can be one. The pipeline has to reach 0.90 of that.
What is copied between host and GPU is counted for each frame: down comes what was found, up go descriptions of
images, and nothing else.

*Latency*: one image lies decoded in the GPU's memory; it takes from the step's call until objects are there on the
host. The baseline is the same engine's run for one image, which is queued and waited for, plainly or as a graph,
whatever is faster. The step may take 1.5 times that.

*Precisions*: the engine alone in FP32, FP16 and INT8 (the file that `sightline quantize` wrote beside the model) in
batches of 32, and COCO's AP of what the step finds on the sample clips, whose truth is exact. A point may be lost.

`--frames N` runs a detector and a tracker on the clip until N frames have been seen, and prints what GPU and process
hold meanwhile; it may grow by 64 MiB. A day of one camera with 25 frames a second is 2,160,000 frames.

All are measured in turn, `--rounds` times; tables hold the median, the least and the most. The exit code is 1 when a
goal is missed. `--size` makes the clip that large first.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arguments import numbers, size_wh
from benchmarks.gpu_decode import lengthened
from benchmarks.gpu_models import latency, precisions, rates, soak
from benchmarks.gpu_models.case import ENGINES, BenchmarkCase, subject_of
from benchmarks.gpu_models.clips import enlarged
from benchmarks.gpu_models.figures import Goals
from benchmarks.gpus import describe, measured_gpu

from sightline.devices.cuda.device import CudaDevice

PARTS = ("rates", "latency", "precisions")
_REPOSITORY = Path(__file__).resolve().parents[2]
_SAMPLES = _REPOSITORY / "sample_videos"
_MODEL = _REPOSITORY / "models" / "street.onnx"


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("clip", type=Path)
    made.add_argument("--model", type=Path, default=_MODEL, help="a detector, with its card or with --set")
    made.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    made.add_argument("--engine", choices=("auto", *ENGINES), default="auto")
    made.add_argument("--parts", type=_names, default=PARTS, help="some of rates,latency,precisions; none: ''")
    made.add_argument("--streams", type=numbers, default=(16, 64))
    made.add_argument("--seconds", type=float, default=10.0, help="of each measurement of a rate")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--looks", type=int, default=500, help="images of each measurement of a latency")
    made.add_argument("--judged", type=int, help="frames of each sample clip for the AP; all when not given")
    made.add_argument("--size", type=size_wh, metavar="WIDTHxHEIGHT", help="make the clip that large first")
    made.add_argument("--file-frames", type=int, default=3000, help="after so many a file is read from its beginning")
    made.add_argument("--frames", type=int, default=0, help="frames at full speed, of all streams together")
    made.add_argument("--device", type=int, default=0, help="the number N of cuda:N")
    return made


def _names(text: str) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    if unknown := set(names) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no part is called {', '.join(sorted(unknown))}: {', '.join(PARTS)}")
    return names


def measure(gpu: CudaDevice, given: argparse.Namespace, *, folder: Path) -> Goals:
    """Measure what is asked for, with files in that folder."""
    goals = Goals()
    print(describe(gpu))
    case = subject_of(gpu, given.model, settings=tuple(given.settings), engine=given.engine)
    clip = given.clip if given.size is None else enlarged(given.clip, folder, size_wh=given.size)
    long = lengthened(clip, folder, frames=given.file_frames)
    _measure_parts(case, clip, long, given=given, goals=goals)
    if given.frames:
        soak.measure(case, long, streams=given.streams[0], frames=given.frames, goals=goals)
    return goals


def _measure_parts(case: BenchmarkCase, clip: Path, long: Path, *, given: argparse.Namespace, goals: Goals) -> None:
    rounds, seconds = given.rounds, given.seconds
    if "rates" in given.parts:
        for streams in given.streams:
            rates.measure(case, clip, long, streams=streams, rounds=rounds, seconds=seconds, goals=goals)
    if "latency" in given.parts:
        latency.measure(case, clip, rounds=rounds, looks=given.looks, goals=goals)
    if "precisions" in given.parts:
        precisions.measure(case, _SAMPLES, rounds=rounds, seconds=seconds, judged=given.judged, goals=goals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit code. Ends the program with a message where there is no GPU for it."""
    given = parser().parse_args(arguments)
    with measured_gpu(given.device) as gpu, tempfile.TemporaryDirectory() as folder:
        goals = measure(gpu, given, folder=Path(folder))
    for missed in goals.missed:
        print(f"missed: {missed}")
    return 1 if goals.missed else 0


if __name__ == "__main__":
    sys.exit(main())
