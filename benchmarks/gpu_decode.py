"""Hardware decoding against PyNvVideoCodec alone, on a machine with an NVIDIA GPU.

    python -m benchmarks.gpu_decode CLIP... [--streams 1,8,16,64] [--seconds 5] [--churn 10000]

For each number of streams, as many threads decode the clip again and again. *Alone* is PyNvVideoCodec with the packets
in memory, whose images nobody keeps; *ours* is the `media` source: reading the file, byte stream, decoding, and the
copy of each image into a surface of its own. Clips are repeated in one file, so that opening it does not count.
Python's share is the processor time of our thread for a frame, less
that of PyNvVideoCodec's for one. Before that, every frame of the clip is compared with the CPU's, bit by bit.

`--churn` opens and closes so many decoders, and changes the size under them a tenth as often, and prints the memory of
GPU and process before and after.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import cast

import av
from av.packet import Packet
from av.video.stream import VideoStream
from tests.integration.sources.clips import SMALL, WIDE, write_changing
from tests.reading import Seen, media, reader_of, same

from benchmarks.gpus import describe, measured_gpu
from sightline.devices.cuda.device import CudaDevice
from sightline_plugins.codecs.byte_stream import ByteStream
from sightline_plugins.decode.nvdec_library import library_for
from sightline_plugins.decode.open_media import OpenOptions, open_media, video_stream

GOAL = 0.95
MOST_MICROSECONDS = 100.0
_MOST_FPS = 2_500
"""Clips are made long enough for that; one that ends earlier is measured to its end."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Frames a second of all streams together, and processor time of a thread for each frame."""

    fps: float
    microseconds: float


Work = Callable[[threading.Event], int]
"""Decodes until it is asked to stop; returns the number of frames."""


def measured(work: Work, *, streams: int, seconds: float) -> Rate:
    """Run it in as many threads."""
    stop, ready = threading.Event(), threading.Barrier(streams + 1)
    counts, used = [0] * streams, [0.0] * streams

    def run(number: int) -> None:
        ready.wait()
        begun = time.thread_time()
        counts[number] = work(stop)
        used[number] = time.thread_time() - begun

    threads = [threading.Thread(target=run, args=(number,)) for number in range(streams)]
    for thread in threads:
        thread.start()
    ready.wait()
    begun = time.monotonic()
    for thread in threads:
        thread.join(max(begun + seconds - time.monotonic(), 0))
    stop.set()
    for thread in threads:
        thread.join()
    frames = max(sum(counts), 1)
    return Rate(frames / (time.monotonic() - begun), 1e6 * sum(used) / frames)


def byte_packets(path: Path) -> tuple[str, list[Packet[VideoStream]]]:
    """The codec, and all packets as NVDEC reads them."""
    options = OpenOptions()
    container = open_media(str(path), stream="clip", options=options)
    video = video_stream(container, number=0, stream="clip", uri=str(path), options=options)
    stream = ByteStream(video)
    turned = [one for packet in container.demux(video) if packet.size and (one := stream.of(packet)) is not None]
    if stream.configuration and not stream.is_filtered:
        turned[0] = cast("Packet[VideoStream]", Packet(stream.configuration + bytes(turned[0])))
    container.close()
    return stream.codec, turned


def alone(gpu: CudaDevice, path: Path) -> Work:
    """PyNvVideoCodec, without anything of ours but its stream."""
    codec, packets = byte_packets(path)

    def work(stop: threading.Event) -> int:
        stream, frames = gpu.stream("alone"), 0
        decoder = library_for(gpu).decoder(codec, stream_handle=stream.handle, is_immediate=False)
        while not stop.is_set():
            for number, packet in enumerate(packets):
                frames += len(decoder.decode(packet.buffer_ptr, size_bytes=packet.size, timestamp=number))
                if stop.is_set():
                    break
        stream.synchronize()
        return frames

    return work


def ours(gpu: CudaDevice, path: Path) -> Work:
    """The source."""

    def work(stop: threading.Event) -> int:
        frames, last = 0, None
        with reader_of(media(path), gpu) as reader:
            for frame in reader.frames():
                frames, last = frames + 1, frame
                if stop.is_set():
                    break
            if reader.decoder != "nvdec":
                raise SystemExit(f"{path}: decoded by the CPU: {reader.decoder_reason}")
            if last is not None:
                for array in last.surface.arrays:
                    assert array.ready is not None
                    array.ready.wait()
        return frames

    return work


def lengthened(path: Path, folder: Path, *, frames: int) -> Path:
    """The clip again and again in one MP4 file, until it has so many frames; nothing is encoded anew."""
    result = folder / f"{path.stem}.mp4"
    with av.open(result, "w") as target:
        stream, count, shift = None, 0, 0
        while count < frames:
            with av.open(path) as source:
                video = source.streams.video[0]
                stream = stream or target.add_stream_from_template(video)
                last = 0
                for packet in source.demux(video):
                    if packet.dts is None or packet.pts is None:
                        continue
                    last = max(last, packet.pts + (packet.duration or 0))
                    packet.pts, packet.dts, packet.stream = packet.pts + shift, packet.dts + shift, stream
                    target.mux(packet)
                    count += 1
                shift += last
    return result


def compare(gpu: CudaDevice, path: Path) -> int:
    """How many frames are, bit by bit, those of the CPU. Ends the program when one is not."""
    source = media(path)
    with reader_of(source, gpu) as reader, reader_of(source) as on_cpu:
        number = -1
        for number, (frame, other) in enumerate(zip(reader.frames(), on_cpu.frames(), strict=True)):
            if not same(Seen.of(frame), Seen.of(other)):
                raise SystemExit(f"{path}: frame {number} is not that of the CPU")
    return number + 1


def churn(gpu: CudaDevice, path: Path, *, count: int) -> None:
    """Open and close decoders, and change sizes."""
    with tempfile.TemporaryDirectory() as folder:
        changing = write_changing(Path(folder) / "changing.ts", SMALL, WIDE, SMALL, WIDE, SMALL)
        print("opened,size_changes,gpu_free_mib,process_peak_mib")
        for number in range(count + 1):
            with reader_of(media(path), gpu) as reader:
                for _ in islice(reader.frames(), 2):
                    pass
            if number % 40 == 0:
                with reader_of(media(changing), gpu) as reader:
                    for _ in reader.frames():
                        pass
            if number % max(count // 10, 1) == 0:
                print(f"{number},{number // 40 * 4},{free_mib(gpu):.0f},{peak_mib():.0f}", flush=True)


def free_mib(gpu: CudaDevice) -> float:
    """The memory that the GPU has free."""
    with gpu.guard("asking for its memory") as driver:
        return driver.free_memory_bytes()[0] / 2**20


def peak_mib() -> float:
    """The most memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def rates(gpu: CudaDevice, path: Path, *, streams: Sequence[int], seconds: float) -> None:
    """Print the rates of a clip, ours and PyNvVideoCodec's, one after the other for each number of streams."""
    print(f"\n{path.name}: {compare(gpu, path)} frames, bit by bit those of the CPU\n")
    print("| streams | alone, fps | ours, fps | ratio | goal | Python, µs a frame | goal |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        long = lengthened(path, Path(folder), frames=round(_MOST_FPS * seconds))
        _compare_rates(gpu, path, long, streams=streams, seconds=seconds)


def _compare_rates(gpu: CudaDevice, path: Path, long: Path, *, streams: Sequence[int], seconds: float) -> None:
    for count in streams:
        theirs = measured(alone(gpu, path), streams=count, seconds=seconds)
        own = measured(ours(gpu, long), streams=count, seconds=seconds)
        ratio, share = own.fps / theirs.fps, own.microseconds - theirs.microseconds
        print(
            f"| {count} | {theirs.fps:.0f} | {own.fps:.0f} | {ratio:.3f} | >= {GOAL}: {_met(ratio >= GOAL)} "
            f"| {share:.0f} | < {MOST_MICROSECONDS:.0f}: {_met(share < MOST_MICROSECONDS)} |",
            flush=True,
        )


def _met(is_met: object) -> str:
    return "yes" if is_met else "no"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the clips of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", nargs="+", type=Path)
    parser.add_argument("--streams", default="1,8,16,64")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--churn", type=int, default=0)
    parser.add_argument("--device", type=int, default=0, help="the number N of cuda:N")
    given = parser.parse_args(arguments)
    with measured_gpu(given.device) as gpu:
        engines = library_for(gpu).support("h264", chroma="420", bit_depth=8).engines
        print(f"{describe(gpu)}, {engines} NVDEC")
        for path in given.clips:
            rates(gpu, path, streams=[int(one) for one in given.streams.split(",")], seconds=given.seconds)
        if given.churn:
            churn(gpu, given.clips[0], count=given.churn)


if __name__ == "__main__":
    main()
