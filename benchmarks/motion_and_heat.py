"""What `flow`, `heat_map` and drawn heat maps cost a frame, beside decoding it.

    python -m benchmarks.motion_and_heat [--frames 250]

The street of the sample videos, as it is (640x360) and enlarged to 1920x1080, with its true tracks. Figures are CPU
time on one thread, means in milliseconds; `decoding` is what PyAV needs for the frame of 640x360, and `bare` is the
search of OpenCV alone, on images that were reduced before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import av
import cv2
import numpy as np

from sightline.graph import Element
from sightline.media import Batch, Frame, Objects, Origin, PixelFormat, Stream, Surface
from sightline.testing.run import site_for
from sightline_plugins import Draw, Flow, HeatMaps

CLIP = Path(__file__).parent.parent / "sample_videos" / "street.mp4"
SCALES = {"640x360": 1, "1920x1080": 3}


def decoded(count: int) -> Iterator[list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]]]:
    """The planes of the first frames, I420."""
    with av.open(str(CLIP)) as container:
        for _, frame in zip(range(count), container.decode(video=0), strict=False):
            height, width = frame.height, frame.width
            whole = np.asarray(frame.to_ndarray(format="yuv420p"), np.uint8).reshape(-1)
            luma, chroma = height * width, height * width // 4
            parts = whole[:luma], whole[luma : luma + chroma], whole[luma + chroma :]
            sizes = (height, width), (height // 2, width // 2), (height // 2, width // 2)
            yield [part.reshape(size) for part, size in zip(parts, sizes, strict=True)]


def batches(count: int, *, scale: int) -> list[Batch]:
    """Batches of one frame, enlarged, with the true tracks."""
    truth = np.loadtxt(CLIP.with_suffix(".mot.txt"), delimiter=",")
    stream, made = Stream("street"), []
    for index, planes in enumerate(decoded(count)):
        large = tuple(np.ascontiguousarray(plane.repeat(scale, 0).repeat(scale, 1)) for plane in planes)
        surface = Surface(PixelFormat.I420, large[0].shape[::-1], large).shared()
        own = truth[truth[:, 0] == index + 1]
        objects = Objects.from_columns(
            frame=np.zeros(len(own)),
            xyxy=np.concatenate([own[:, 2:4], own[:, 2:4] + own[:, 4:6]], axis=1) * scale,
            confidence=np.ones(len(own)),
            class_id=np.zeros(len(own)),
            track_id=own[:, 1],
            source=Origin("truth", ("object",)),
        )
        made.append(Batch((Frame(stream, index, index * 40_000_000, surface),), objects))
    return made


def cost(work: Callable[[], object], *, count: int) -> float:
    """CPU milliseconds a frame."""
    start = time.process_time()
    work()
    return (time.process_time() - start) / count * 1e3


def element_cost(element: Element, clip: Sequence[Batch]) -> tuple[float, list[Batch]]:
    """CPU milliseconds a frame of an element, and what it makes."""
    operator = element.build(site_for(element.name, None))
    made: list[Batch] = []
    spent = cost(lambda: made.extend(operator.process(batch) for batch in clip), count=len(clip))  # type: ignore[misc]
    operator.close()
    return spent, made


def bare_cost(clip: Sequence[Batch]) -> float:
    """CPU milliseconds a frame of the dense search alone."""
    images = [cv2.resize(batch.frames[0].surface.planes[0], (320, 180), interpolation=cv2.INTER_AREA) for batch in clip]
    search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    pairs = list(pairwise(images))
    return cost(lambda: [search.calc(now, before, None) for before, now in pairs], count=len(pairs))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=250)
    count = parser.parse_args().frames
    cv2.setNumThreads(1)
    decoding = cost(lambda: sum(1 for _ in decoded(count)), count=count)
    print(f"{'decoding':34}{decoding:8.2f} ms")
    for size, scale in SCALES.items():
        clip = batches(count, scale=scale)
        objects = sum(len(batch.objects) for batch in clip) / count
        print(f"{size}, {objects:.0f} objects a frame")
        drawn, mapped = element_cost(HeatMaps.model_validate({"standing": {}}), clip)
        plain = [replace(batch, columns=replace(batch.columns, graphics=())) for batch in mapped]
        options = Draw(trail=0)
        rows = {
            "flow, dense, bare": bare_cost(clip),
            "flow, dense": element_cost(Flow(), clip)[0],
            "flow, dense, with objects": element_cost(Flow(objects=True), clip)[0],
            "flow, sparse": element_cost(Flow(mode="sparse"), clip)[0],
            "heat_map": drawn,
            "heat_map, paths": element_cost(HeatMaps.model_validate({"ways": {"measure": "paths"}}), clip)[0],
            "draw, a heat map": element_cost(options, mapped)[0] - element_cost(options, plain)[0],
        }
        for name, spent in rows.items():
            print(f"  {name:32}{spent:8.2f} ms {spent / decoding:8.1f} x decoding")


if __name__ == "__main__":
    main()
