"""What pre-processing costs, and how many detections of the published recipes survive it.

    python -m benchmarks.preprocessing costs DATA [--rounds 60]
    python -m benchmarks.preprocessing calls DATA [--rounds 60]
    python -m benchmarks.preprocessing agreement DATA [--step 5]

DATA is the folder of shared test data. Costs are medians over interleaved rounds on one thread. Calls: CPU time of the
two usual ways beside that of the same steps by OpenCV and swscale, in a loop and with 8 MB of other memory touched
before each call, as a network does. Agreement: of the
detections that the plain recipe finds with a confidence of at least 0.5, the share for which there is one with
IoU >= 0.9 and a confidence that differs by at most 0.05. Both sides run the network in ONNX Runtime on the file as it
is, so that only the images differ.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
from tests.reference import detection as plain

from sightline.media import Surface
from sightline.media.convert import surface_from_rgb
from sightline_plugins.preprocess.colors import ImageColors, PlaneResizer
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import Convert, Preprocessing, Resize

CLIPS = (
    "car-detection",
    "one-by-one-person-detection",
    "bottle-detection",
    "street-cars-640x360",
    "crowd-faces-800x450",
)
SIZES = ((640, 360), (768, 432), (1280, 720), (1920, 1080), (3840, 2160))
NETWORK = (352, 352)
VARIANTS: tuple[tuple[Convert, Resize], ...] = (
    ("network", "bilinear"),
    ("network", "area"),
    ("image", "bilinear"),
    ("image", "area"),
)
Way = Callable[[], object]
REFERENCES = {"INTER_LINEAR": cv2.INTER_LINEAR, "INTER_AREA": cv2.INTER_AREA}


def definition(convert: Convert, resize: Resize) -> Preprocessing:
    """FastestDet's pre-processing with another filter or place of conversion."""
    return Preprocessing(NETWORK, fit="stretch", resize=resize, convert=convert, color="bgr")


def opencv_way(surface: Surface, interpolation: int) -> Way:
    """What most people write: the image to BGR, resized, as float32 in NCHW."""
    height, width = surface.planes[0].shape
    i420 = np.concatenate([plane.ravel() for plane in surface.planes]).reshape(height * 3 // 2, width)

    def run() -> object:
        bgr = cv2.cvtColor(i420, cv2.COLOR_YUV2BGR_I420)
        resized = cv2.resize(bgr, NETWORK, interpolation=interpolation)
        return np.ascontiguousarray((resized.astype(np.float32) / 255).transpose(2, 0, 1))

    return run


def our_way(surface: Surface, convert: Convert, resize: Resize) -> Way:
    """The pre-processor, giving its images back at once."""
    preprocessor = HostPreprocessor(definition(convert, resize))

    def run() -> object:
        prepared = preprocessor.prepare(surface)
        preprocessor.recycle(prepared)
        return prepared

    return run


def costs(rounds: int) -> None:
    """Print milliseconds an image for each size and way."""
    names = [*(f"{convert}, {resize}" for convert, resize in VARIANTS), *(f"OpenCV {name}" for name in REFERENCES)]
    print(f"| image | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for width, height in SIZES:
        noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
        surface = surface_from_rgb(cv2.GaussianBlur(noise, (9, 9), 0).astype(np.uint8))
        ways = [our_way(surface, *variant) for variant in VARIANTS]
        ways += [opencv_way(surface, interpolation) for interpolation in REFERENCES.values()]
        medians = " | ".join(f"{value:.2f}" for value in interleaved(ways, rounds))
        print(f"| {width}x{height} | {medians} |", flush=True)


def interleaved(ways: list[Way], rounds: int) -> list[float]:
    """Median milliseconds of each, taken in turn."""
    taken: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds + 3):
        for way, times in zip(ways, taken, strict=True):
            begin = time.perf_counter()
            way()
            times.append((time.perf_counter() - begin) * 1e3)
    return [statistics.median(times[3:]) for times in taken]


def planes_by_opencv(surface: Surface) -> Way:
    """What an expert writes for I420: three resizes and one conversion, into memory that is there."""
    width, height = NETWORK
    small: plain.Image = np.zeros((height * 3 // 2, width), np.uint8)
    chroma = small[height:].reshape(2, height // 2, width // 2)
    parts, bgr = (small[:height], *chroma), np.zeros((height, width, 3), np.uint8)

    def run() -> object:
        for plane, part in zip(surface.planes, parts, strict=True):
            cv2.resize(plane, part.shape[::-1], dst=part, interpolation=cv2.INTER_LINEAR)
        return cv2.cvtColor(small, cv2.COLOR_YUV2BGR_I420, dst=bgr)

    return run


def image_by_libraries(surface: Surface) -> Way:
    """The image to planes of red, green and blue by swscale, each averaged by swscale, and joined by OpenCV."""
    colors, resizer = ImageColors(), PlaneResizer("area")
    bgr = np.zeros((*NETWORK[::-1], 3), np.uint8)

    def run() -> object:
        channels = colors.planes(surface, (0, 0, *surface.size_wh))
        return cv2.merge([resizer.resize(one, size_wh=NETWORK) for one in channels[::-1]], dst=bgr)

    return run


def calls(rounds: int) -> None:
    """Print microseconds of CPU time for each size, and our share of what the libraries take."""
    print("| image | state | OpenCV, planes | network, bilinear | ratio | libraries, image | image, area | ratio |")
    print(f"|{'---|' * 8}")
    for width, height in SIZES:
        noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
        surface = surface_from_rgb(cv2.GaussianBlur(noise, (9, 9), 0).astype(np.uint8))
        pairs = [
            (planes_by_opencv(surface), our_way(surface, "network", "bilinear")),
            (image_by_libraries(surface), our_way(surface, "image", "area")),
        ]
        for is_cold in (False, True):
            cells = []
            for pair in pairs:
                theirs, ours = cpu_us(pair, rounds, is_cold=is_cold)
                cells.append(f"{theirs:.0f} | {ours:.0f} | {ours / theirs:.2f}")
            print(f"| {width}x{height} | {'cold' if is_cold else 'loop'} | {' | '.join(cells)} |", flush=True)


def cpu_us(ways: tuple[Way, ...], rounds: int, *, is_cold: bool) -> list[float]:
    """Median microseconds of CPU time of each, taken in turn."""
    taken: list[list[float]] = [[] for _ in ways]
    other = np.zeros(1 << 20)
    for _ in range(rounds + 3):
        for way, times in zip(ways, taken, strict=True):
            if is_cold:
                other += 1
            else:
                way()
            begin = time.thread_time_ns()
            way()
            times.append((time.thread_time_ns() - begin) / 1e3)
    return [statistics.median(times[3:]) for times in taken]


def inputs(surface: Surface, preprocessors: dict[str, HostPreprocessor]) -> Iterator[tuple[str, plain.Image]]:
    """The network's input by each way."""
    for name, preprocessor in preprocessors.items():
        yield name, preprocessor.prepare(surface).image[0]


def agreement(data: Path, step: int) -> None:
    """Print the share of the recipe's detections that survive each way of pre-processing, for both references."""
    session = plain.session(data / "models" / "FastestDet.onnx")
    ours = {f"{convert}, {resize}": HostPreprocessor(definition(convert, resize)) for convert, resize in VARIANTS}
    random = np.random.default_rng(0)
    counts: Counter[tuple[str, str, str]] = Counter()
    for clip in CLIPS:
        for frame, bgr in plain.sampled_frames(data / "videos" / f"{clip}.mp4", step=step):
            resized = {name: cv2.resize(bgr, NETWORK, interpolation=kind) for name, kind in REFERENCES.items()}
            images = dict(inputs(frame.surface, ours)) | {f"OpenCV {name}": one for name, one in resized.items()}
            images |= {f"OpenCV {name}, 1 in 10 off by 1": nudged(one, random) for name, one in resized.items()}
            found = {
                name: plain.fastestdet_from_input(one, session, confidence=0.4, size_wh=frame.size_wh)
                for name, one in images.items()
            }
            for reference in REFERENCES:
                expected = sure(found[f"OpenCV {reference}"])
                counts[reference, clip, "all"] += len(expected.xyxy)
                for name, given in found.items():
                    counts[reference, clip, name] += plain.matched(expected, given)
    for reference in REFERENCES:
        report(reference, counts)


def nudged(image: plain.Image, random: np.random.Generator) -> plain.Image:
    """The image with a tenth of its samples changed by one level."""
    change = random.choice([-1, 0, 1], image.shape, p=[0.05, 0.9, 0.05])
    moved: plain.Image = np.clip(image + change, 0, 255).astype(np.uint8)
    return moved


def sure(found: plain.Found) -> plain.Found:
    """The detections with a confidence of at least 0.5."""
    rows = found.confidence >= 0.5
    return plain.Found(found.xyxy[rows], found.confidence[rows], found.class_id[rows])


def report(reference: str, counts: Counter[tuple[str, str, str]]) -> None:
    """Print the table of one reference."""
    names = dict.fromkeys(name for key, _, name in counts if key == reference and name != "all")
    print(
        f"\nReference: cv2.resize {reference}\n\n| way | {' | '.join(CLIPS)} | all |\n|---|{'---|' * (len(CLIPS) + 1)}"
    )
    totals = [counts[reference, clip, "all"] for clip in CLIPS]
    print(f"| detections | {' | '.join(map(str, totals))} | {sum(totals)} |")
    for name in names:
        hits = [counts[reference, clip, name] for clip in CLIPS]
        shares = [f"{100 * hit / max(total, 1):.1f}" for hit, total in zip(hits, totals, strict=True)]
        print(f"| {name} | {' | '.join(shares)} | {100 * sum(hits) / sum(totals):.1f} |")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["costs", "calls", "agreement"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--step", type=int, default=5)
    given = parser.parse_args()
    cv2.setNumThreads(1)
    if given.what == "costs":
        costs(given.rounds)
    elif given.what == "calls":
        calls(given.rounds)
    else:
        agreement(given.data, given.step)


if __name__ == "__main__":
    main()
