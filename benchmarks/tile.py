"""What a wall of streams costs, encoding included, beside the obvious way to make one.

    python -m benchmarks.tile [--streams 16] [--seconds 8] [--rounds 3] [--size 1920x1080]

Streams of 640x360 at 25 frames a second, with frames of the sample clips, become one video (H.264, `superfast`). `tile`
is the step; `naive` makes BGR of each frame (`cv2.cvtColor`), resizes that (`cv2.resize`), pastes it with NumPy, and
hands the image to the same encoder; both begin with decoded frames. `pipeline` is a whole run with `tile`, in which the
streams are decoded, too. Each way takes its turn in every round; printed are medians:

- `ratio`: seconds of video made in a second. 1 and more is real time.
- `cores`: processor time per second of video.
- `image`: milliseconds of processor time for each image of the wall; `tiles alone` is `tile` without its encoder.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import av
import cv2
import numpy as np

from benchmarks.arguments import size_wh
from sightline import Pipeline
from sightline.media import Batch, Frame, PixelFormat, Stream, Surface
from sightline.testing.run import site_for
from sightline_plugins import Tile, Video
from sightline_plugins.tile.canvas import FrameResizer, TileCanvas, kind_for
from sightline_plugins.tile.grid import cells_of, grid_for

FPS = 25
CLIPS = Path(__file__).parent.parent / "sample_videos"
FRAME_WH = (640, 360)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one way took: wall and processor seconds, for so many seconds of video."""

    wall_seconds: float
    cpu_seconds: float
    video_seconds: float


def decoded(count: int) -> list[list[Surface]]:
    """That many frames of two clips, in I420 and 640x360."""
    found = []
    for name in ("street", "entrance"):
        with av.open(str(CLIPS / f"{name}.mp4")) as container:
            frames = [frame for frame, _ in zip(container.decode(video=0), range(count), strict=False)]
        found.append([surface_of(frame) for frame in frames])
    return found


def surface_of(frame: av.VideoFrame) -> Surface:
    """The planes of a decoded frame."""
    stacked = frame.to_ndarray(format="yuv420p").astype(np.uint8)
    width, height = FRAME_WH
    luma, rest = stacked[:height], stacked[height:].reshape(2, height // 2, width // 2)
    return Surface(PixelFormat.I420, FRAME_WH, (luma, rest[0], rest[1]))


def tiled(clips: Sequence[Sequence[Surface]], names: Sequence[str], *, size: tuple[int, int]) -> None:
    """Make the wall by `tile`."""
    with tempfile.TemporaryDirectory() as folder:
        site = replace(site_for("wall", Path(folder)), streams=tuple(names))
        operator = Tile.model_validate({"size": size, "video": "wall.mp4"}).build(site)
        for index in range(len(clips[0])):
            operator.process(moment(clips, names, index))
        for name in names:
            operator.end_stream(Stream(name))
        operator.drain()
        operator.close()


def composed(clips: Sequence[Sequence[Surface]], names: Sequence[str], *, size: tuple[int, int]) -> None:
    """Put all frames into the image, and do nothing with it."""
    canvas = TileCanvas(size, kind_for(clips[0][0]), resizer=FrameResizer())
    columns, rows = grid_for(len(names), columns=None, rows=None)
    cells = cells_of(size, columns=columns, rows=rows)
    for index in range(len(clips[0])):
        for number in range(len(names)):
            canvas.put(clips[number % len(clips)][index], cells[number])


def moment(clips: Sequence[Sequence[Surface]], names: Sequence[str], index: int) -> Batch:
    """A frame of each stream."""
    pts_ns = index * 10**9 // FPS
    return Batch(
        tuple(
            Frame(Stream(name), index, pts_ns, clips[number % len(clips)][index]) for number, name in enumerate(names)
        )
    )


def naive(clips: Sequence[Sequence[Surface]], names: Sequence[str], *, size: tuple[int, int]) -> None:
    """Make the wall as one would without thinking."""
    across = int(np.ceil(np.sqrt(len(names))))
    width, height = size[0] // across, size[1] // across
    with tempfile.TemporaryDirectory() as folder:
        writer = Video(path="wall.mp4").build(site_for("video", Path(folder)))
        for index in range(len(clips[0])):
            image = np.zeros((size[1], size[0], 3), np.uint8)
            for number in range(len(names)):
                planes = clips[number % len(clips)][index].planes
                stacked = np.concatenate([plane.reshape(-1, FRAME_WH[0]) for plane in planes])
                bgr = cv2.cvtColor(stacked, cv2.COLOR_YUV2BGR_I420)
                row, column = divmod(number, across)
                place = slice(row * height, (row + 1) * height), slice(column * width, (column + 1) * width)
                image[place] = cv2.resize(bgr, (width, height))
            surface = Surface(PixelFormat.BGR24, size, (image,))
            writer.consume(Batch((Frame(Stream("wall"), index, index * 10**9 // FPS, surface),)))
        writer.close()


def pipeline(names: Sequence[str], *, count: int, size: tuple[int, int]) -> None:
    """Make the wall in a whole run."""
    sources = {name: str(CLIPS / ("street.mp4", "entrance.mp4")[number % 2]) for number, name in enumerate(names)}
    with tempfile.TemporaryDirectory() as folder:
        steps = [Tile.model_validate({"size": size, "video": str(Path(folder) / "wall.mp4")})]
        Pipeline(sources=sources, steps=steps).run(frames=count)


def measured(way: Callable[[], None], *, video_seconds: float) -> Cost:
    """Run once; processor time is that of all threads."""
    cpu, wall = time.process_time(), time.perf_counter()
    way()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu, video_seconds)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=size_wh, default=(1920, 1080))
    arguments = parser.parse_args()
    count, size = arguments.seconds * FPS, arguments.size
    names = [f"cam{number:02d}" for number in range(arguments.streams)]
    clips = decoded(count)
    ways: Mapping[str, Callable[[], None]] = {
        "tile": lambda: tiled(clips, names, size=size),
        "naive": lambda: naive(clips, names, size=size),
        "pipeline": lambda: pipeline(names, count=count, size=size),
        "tiles alone": lambda: composed(clips, names, size=size),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            costs[name].append(measured(way, video_seconds=arguments.seconds))
    print(f"{len(names)} streams of {FRAME_WH[0]}x{FRAME_WH[1]} in {size[0]}x{size[1]}; {os.cpu_count()} cores")
    print(f"{'':18}{'ratio':>8}{'cores':>8}{'image':>8}")
    for name, own in costs.items():
        ratio = statistics.median(cost.video_seconds / cost.wall_seconds for cost in own)
        cores = statistics.median(cost.cpu_seconds / cost.video_seconds for cost in own)
        print(f"{name:18}{ratio:8.2f}{cores:8.2f}{cores * 1000 / FPS:8.1f}")
    faster = statistics.median(
        other.cpu_seconds / one.cpu_seconds for one, other in zip(costs["tile"], costs["naive"], strict=True)
    )
    print(f"processor time, naive / tile: {faster:.2f}")


if __name__ == "__main__":
    main()
