"""How late published images are, and what publishing costs.

    python -m benchmarks.publishing [--seconds 12]

The street clip of the samples, made 640x360 and 1280x720 at 25 fps with the number of each image in cells at its
upper edge, is published in real time: passed on as it is, and encoded (behind `draw`). A client in a process of its own
notes when each image is there whole. Latency is from the moment at which the decoded frame leaves the source to that
note, without the client's decoding; it holds the wait for the thread of `publish`, the encoder, the server and the
loopback. CPU is for each image: that of the step, its encoder with it, and what the process takes more, but for
reading and decoding, than when nobody watches.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import av
import numpy as np
import numpy.typing as npt
from av.codec import CodecContext
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame

from sightline import Pipeline
from sightline.media import Batch
from sightline.runtime.stats.report import Report
from sightline.server import listen
from sightline_plugins.codecs.bitstream import annex_b, avcc_parts, length_prefixed_units

SAMPLE = Path(__file__).resolve().parent.parent / "sample_videos" / "street.mp4"
PORT, WEB_PORT = 18_554, 18_555
CELLS, CELL_HEIGHT = 16, 16
SIZES = ((640, 360), (1280, 720))
WAYS: dict[str, object] = {"rtsp": f"127.0.0.1:{PORT}/{{stream}}", "web": True}
TOKEN = "0123456789abcdef"  # of the server of this benchmark, on the loopback
TRANSPORT = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"
SETTING_UP = (("DESCRIBE", ""), ("SETUP", TRANSPORT), ("PLAY", ""))
URLS = {
    "rtsp": f"rtsp://127.0.0.1:{PORT}/gate",
    "web": f"ws://127.0.0.1:{WEB_PORT}/steps/publish-1/live/gate?token={TOKEN}",
}


def write_clip(path: Path, *, size_wh: tuple[int, int], count: int) -> None:
    """The sample, looped, with numbers in it."""
    width, height = size_wh
    source = cast("dict[str, Any]", {"uri": str(SAMPLE), "loop": True})
    chosen = {"preset": "superfast", "g": "25", "bf": "0", "sc_threshold": "0"}
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=25, options=chosen)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number, view in enumerate(Pipeline(sources={"gate": source}, steps=[])):
            if number == count:
                break
            scaled = VideoFrame.from_ndarray(view.rgb(), "rgb24").reformat(width, height, "yuv420p")
            rows = scaled.to_ndarray()
            rows[:CELL_HEIGHT] = np.repeat(cells(number), width // CELLS)
            frame = VideoFrame.from_ndarray(rows, "yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def cells(number: int) -> npt.NDArray[np.uint8]:
    """The luma of each cell, most significant bit first."""
    bits = number >> np.arange(CELLS - 1, -1, -1) & 1
    return np.where(bits, 235, 16).astype(np.uint8)


def number_in(frame: VideoFrame) -> int:
    """The number that an image shows."""
    luma = frame.to_ndarray()[CELL_HEIGHT // 2]
    width = frame.width // CELLS
    bits = (np.asarray(luma[width // 2 : frame.width : width]) > 128).astype(np.int64)
    return int(bits @ (1 << np.arange(CELLS - 1, -1, -1)))


def watch(way: str, *, count: int) -> None:
    """The client: print the number of each image, and when it was there (monotonic, nanoseconds)."""
    arrivals = from_rtsp(URLS[way]) if way == "rtsp" else from_web(URLS[way])
    noted = [next(arrivals) for _ in range(count)]
    decoder = CodecContext.create("h264", "r")
    assert isinstance(decoder, VideoCodecContext)
    decoder.thread_count, decoder.flags = 1, decoder.flags | 0x80000  # AV_CODEC_FLAG_LOW_DELAY
    times = [at_ns for at_ns, _ in noted]
    frames = [frame for _, data in noted for frame in decoder.decode(Packet(data))]
    frames += decoder.decode(None)
    for frame, at_ns in zip(frames, times, strict=False):
        print(number_in(frame), at_ns)


def from_rtsp(url: str) -> Iterator[tuple[int, bytes]]:
    """Byte streams of images as they come by RTSP over TCP; FFmpeg would hold each back until the next has come."""
    with socket.create_connection(("127.0.0.1", PORT)) as client:
        file = client.makefile("rwb")
        for number, (method, header) in enumerate(SETTING_UP, start=1):
            where = f"{url}/video" if method == "SETUP" else url
            file.write(f"{method} {where} RTSP/1.0\r\nCSeq: {number}\r\n{header}\r\n".encode())
            file.flush()
            head = list(iter(file.readline, b"\r\n"))
            size = next((int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length")), 0)
            file.read(size)
        units: list[bytes] = []
        while True:
            _, channel, length = struct.unpack(">cBH", file.read(4))
            packet = file.read(length)
            if channel:
                continue
            unpack(packet[12:], units)
            if packet[1] & 0x80:
                yield time.monotonic_ns(), annex_b(units)
                units = []


def unpack(payload: bytes, units: list[bytes]) -> None:
    """Add what an RTP payload holds (RFC 6184: single units, STAP-A, FU-A) to the units of an image."""
    kind = payload[0] & 0x1F
    if kind == 24:
        at = 1
        while at < len(payload):
            length = int.from_bytes(payload[at : at + 2], "big")
            units.append(payload[at + 2 : at + 2 + length])
            at += 2 + length
    elif kind == 28:
        if payload[1] & 0x80:
            units.append(bytes([payload[0] & 0xE0 | payload[1] & 0x1F]))
        units[-1] += payload[2:]
    else:
        units.append(payload)


def from_web(url: str) -> Iterator[tuple[int, bytes]]:
    """Byte streams of images as they come over a WebSocket."""
    from websockets.sync.client import connect

    sets: tuple[bytes, ...] = ()
    with connect(url, max_size=None) as client:
        for message in client:
            at_ns = time.monotonic_ns()
            if isinstance(message, str):
                continue
            if message[4:8] == b"ftyp":
                at = message.index(b"avcC") + 4
                sets = avcc_parts(message[at:])[1]
                continue
            data = message[message.index(b"mdat") + 4 :]
            yield at_ns, annex_b([*sets, *length_prefixed_units(data, length_size=4)])


def published(clip: Path, way: str, *, drawn: bool, viewers: int, seconds: int) -> tuple[Report, list[float]]:
    """The report of a run, and the latencies that its viewers saw, in milliseconds."""
    left: dict[int, int] = {}

    def note(batch: Batch) -> None:
        for frame in batch.frames:
            left[frame.index] = time.monotonic_ns()

    steps: list[Any] = [{"callback": {"function": "benchmarks.publishing:nothing"}}, *(["draw"] if drawn else [])]
    pipeline = Pipeline(
        sources=cast("dict[str, Any]", {"gate": {"uri": str(clip), "realtime": True}}),
        steps=[*steps, {"publish": {way: WAYS[way]}}],
    )
    pipeline.probe("callback-1", note)
    with listen(pipeline, f"127.0.0.1:{WEB_PORT}", token=TOKEN):
        told, report = _watched(pipeline, left, way, viewers=viewers, seconds=seconds)
    pairs = [tuple(map(int, line.split())) for text in told for line in text.splitlines()[25:]]
    return report, [(at_ns - left[number]) / 1e6 for number, at_ns in pairs if number in left]


def _watched(
    pipeline: Pipeline, left: dict[int, int], way: str, *, viewers: int, seconds: int
) -> tuple[list[str], Report]:
    pipeline.start()
    while not left:
        time.sleep(0.01)
    command = [sys.executable, "-m", "benchmarks.publishing", "--watch", way, "--count", str(seconds * 25)]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(viewers)]
    told = [client.communicate()[0] for client in clients]
    if not clients:
        time.sleep(seconds)
    pipeline.stop()
    return told, pipeline.wait()


def nothing(batch: Batch) -> None:
    """The step after which frames are timed."""


def cpu_of_rest(report: Report) -> float:
    """Milliseconds of CPU for each frame, but for reading and decoding."""
    read_ns = sum(stream.read_cpu_ns for stream in report.streams)
    return (report.cpu_seconds * 1e3 - read_ns / 1e6) / max(report.frames, 1)


def line(size_wh: tuple[int, int], way: str, *, drawn: bool, clip: Path, seconds: int) -> str:
    """A row of the table."""
    alone, _ = published(clip, way, drawn=drawn, viewers=0, seconds=seconds)
    report, latencies = published(clip, way, drawn=drawn, viewers=1, seconds=seconds)
    median, late = statistics.median(latencies), float(np.percentile(latencies, 95))
    own = next(element for element in report.elements if element.element_id == "publish-1")
    cells = [f"{size_wh[0]}x{size_wh[1]}", way, "encoded" if drawn else "passed on", f"{median:.1f} / {late:.1f}"]
    cells += [f"{own.cpu_ns / own.frames / 1e6:.2f}", f"{cpu_of_rest(report) - cpu_of_rest(alone):.2f}"]
    return f"| {' | '.join(cells)} |"


def table(seconds: int) -> Iterator[str]:
    """The table, row by row."""
    yield "| images | way | made | latency p50 / p95, ms | CPU of the step, ms | with the server, ms |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        for size_wh in SIZES:
            clip = Path(folder) / f"{size_wh[1]}.mp4"
            write_clip(clip, size_wh=size_wh, count=25 * (seconds + 20))
            for way in WAYS:
                for drawn in (False, True):
                    yield line(size_wh, way, drawn=drawn, clip=clip, seconds=seconds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=12, help="how long each is watched")
    parser.add_argument("--watch", choices=tuple(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.watch:
        watch(chosen.watch, count=chosen.count)
        return
    for row in table(chosen.seconds):
        print(row, flush=True)


if __name__ == "__main__":
    main()
