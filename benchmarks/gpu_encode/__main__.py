"""Hardware encoding against PyNvVideoCodec alone, on a machine with an NVIDIA GPU that has NVENC.

    python -m benchmarks.gpu_encode CLIP [--videos 1,4,16] [--seconds 5] [--rounds 3] [--codec h264|h265]
        [--size 1920x1080] [--churn 1000] [--device 0]

The first images of the clip lie decoded in the GPU's memory. *Alone* is PyNvVideoCodec's encoder, fed with them in as
many threads as there are videos, rows without padding, and nobody keeps what it gives. *Ours* is one `video` step,
which is given an image of each video at a time, as in a pipeline, and writes MP4 files.
Settings and key frames are alike,
and both are measured in turn, `--rounds` times, after they have warmed up. Python's share is the processor time of our
thread for an image, less that of PyNvVideoCodec's for one. What is copied between host and GPU is counted: nothing.

`--churn` makes so many videos, one after the other, and prints what GPU and process hold meanwhile; it may grow by
64 MiB. The exit code is 1 when a goal is missed; a GPU without NVENC is reported in one line.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from benchmarks.arguments import numbers, size_wh
from benchmarks.gpu_encode import rates
from benchmarks.gpu_encode.videos import EncodingJob, Ours
from benchmarks.gpu_models.clips import enlarged
from benchmarks.gpu_models.figures import Goals
from benchmarks.gpu_models.soak import Sample, judge, print_samples, sample
from benchmarks.gpus import describe, measured_gpu
from tests.reading import media, reader_of

from sightline.devices.cuda.device import CudaDevice
from sightline_plugins.encode import nvenc
from sightline_plugins.encode.nvenc_library import library_for
from sightline_plugins.encode.settings import EncoderError
from sightline_plugins.sinks.video import Video

_IMAGES = 50
_IMAGES_OF_CHURN = 5
_QUALITY = 23
_SAMPLES = 20


def churn(case: EncodingJob, *, videos: int, goals: Goals) -> None:
    """Make so many videos, one after the other, and print what is held."""
    every, samples = max(1, videos // _SAMPLES), list[Sample]()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, videos + 1):
            video = Ours(_anew(case), Path(folder), videos=1)
            for _ in range(_IMAGES_OF_CHURN):
                video.next()
            video.close()
            if number % every == 0:
                samples.append(sample(case.gpu, number))
    print_samples(samples, of="videos made")
    judge(samples, count=videos, goals=goals)


def _anew(case: EncodingJob) -> EncodingJob:
    """The first images in memory of their own, as in a pipeline: what is held for long holds on to each stream that
    read it, too.
    """
    first, stream = case.images[:_IMAGES_OF_CHURN], case.gpu.main_stream
    copies = [dataclasses.replace(one, surface=one.surface.shared().writable(stream=stream)) for one in first]
    return dataclasses.replace(case, images=copies)


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("clip", type=Path)
    made.add_argument("--videos", type=numbers, default=(1, 4, 16), help="so many at once")
    made.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--codec", choices=("h264", "h265"), default="h264")
    made.add_argument("--size", type=size_wh, metavar="WIDTHxHEIGHT", help="make the clip that large first")
    made.add_argument("--churn", type=int, default=0, help="videos one after the other")
    made.add_argument("--device", type=int, default=0, help="the number N of cuda:N")
    return made


def subject_of(gpu: CudaDevice, given: argparse.Namespace, *, folder: Path) -> EncodingJob:
    """What the command line asks for. Raises EncoderError where the GPU does not encode it."""
    library = library_for(gpu)
    clip = given.clip if given.size is None else enlarged(given.clip, folder, size_wh=given.size)
    with reader_of(media(clip), gpu) as reader:
        frames = list(islice(reader.frames(), _IMAGES))
    images = [dataclasses.replace(frame, surface=frame.surface.to_device(gpu).shared()) for frame in frames]
    reason = nvenc.reason_against(images[0].surface, codec=given.codec, library=library)
    if reason is not None:
        raise EncoderError(reason)
    video = Video(path="{stream}.mp4", codec=given.codec, quality=_QUALITY, encoder="nvenc")
    return EncodingJob(gpu, images, video)


def measure(gpu: CudaDevice, given: argparse.Namespace, *, folder: Path) -> Goals:
    """Measure what is asked for, with files in that folder."""
    goals = Goals()
    print(describe(gpu))
    try:
        case = subject_of(gpu, given, folder=folder)
    except EncoderError as error:
        print(f"nothing to measure: {error}")
        return goals
    rates.measure(case, videos=given.videos, rounds=given.rounds, seconds=given.seconds, goals=goals)
    if given.churn:
        churn(case, videos=given.churn, goals=goals)
    return goals


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
