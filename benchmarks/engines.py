"""What one image costs in each engine, input form and state of the graph: CPU milliseconds, measured in turn.

    python -m benchmarks.engines street.onnx [more.onnx ...] [--rounds 20] [--images 20] [--size 640 480]

All variants are open at once and take turns in one process, with all cores busy, so that what else the machine does
hits all of them alike: read the ratios to the first row (the file as it is in OpenVINO, float32 images in NCHW).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Array, Engine, Pending
from sightline_plugins.preprocess.definition import ImageForm


@dataclass
class Variant:
    """One way to run the model, and what its rounds took, in milliseconds an image."""

    title: str
    engine: Engine
    inputs: tuple[Array, ...]
    cpu_ms: list[float] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)

    def run(self, *, images: int) -> None:
        """One round: `images` images, always two more submitted than are computed at once."""
        cpu, wall = time.process_time(), time.perf_counter()
        underway: deque[Pending] = deque()
        for _ in range(images):
            if len(underway) >= self.engine.concurrency + 2:
                underway.popleft().result()
            underway.append(self.engine.submit(self.inputs))
        for work in underway:
            work.result()
        self.cpu_ms.append((time.process_time() - cpu) * 1e3 / images)
        self.wall_ms.append((time.perf_counter() - wall) * 1e3 / images)


def open_variants(path: Path, *, size_wh: tuple[int, int] | None) -> list[Variant]:
    """Every engine with the file as it is and rewritten, and every input form."""
    normal = {"size_wh": size_wh, "scale": (1 / 255,)}
    forms = {
        "NCHW float32": ImageForm(layout="nchw", dtype="float32", size_wh=size_wh),
        "NHWC float32": ImageForm(layout="nhwc", dtype="float32", size_wh=size_wh),
        "NHWC uint8": ImageForm(layout="nhwc", dtype="uint8", **normal),  # type: ignore[arg-type]
    }
    engines: tuple[str, ...] = ("openvino", "onnxruntime")
    made = list[Variant]()
    for engine in engines:
        for optimize in (False, True):
            for form, image in forms.items():
                opened = open_engine(path, engine=engine, image=image, optimize=optimize)
                title = f"{engine:12s} {'rewritten' if optimize else 'as it is':10s} {form}"
                made.append(Variant(title, opened, tuple(_filled(opened))))
    return made


def _filled(engine: Engine) -> list[Array]:
    random = np.random.default_rng(1)
    shapes = [(spec, tuple(size or 1 for size in spec.shape)) for spec in engine.inputs]
    return [
        random.integers(0, 256, shape).astype(spec.dtype)
        if spec.dtype.kind in "iu"
        else random.random(shape, np.float32).astype(spec.dtype)
        for spec, shape in shapes
    ]


def report(path: Path, variants: list[Variant]) -> None:
    """Medians and ratios, one line a variant."""
    base = variants[0]
    print(f"\n{path.name}: milliseconds an image, {base.engine.concurrency} at once, {len(base.cpu_ms)} rounds in turn")
    for variant in variants:
        ratio = statistics.median(b / a for a, b in zip(base.cpu_ms, variant.cpu_ms, strict=True))
        cpu, wall = statistics.median(variant.cpu_ms), statistics.median(variant.wall_ms)
        print(f"  {variant.title:38s} CPU {cpu:7.3f}   wall {wall:7.3f}   CPU ratio {ratio:.3f}")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--images", type=int, default=20, help="images a round")
    parser.add_argument("--size", type=int, nargs=2, metavar=("WIDTH", "HEIGHT"), help="for models of dynamic size")
    options = parser.parse_args()
    size_wh = (options.size[0], options.size[1]) if options.size else None
    for path in options.models:
        variants = open_variants(path, size_wh=size_wh)
        for _ in range(options.rounds):
            for variant in variants:
                variant.run(images=options.images)
        report(path, variants)
        for variant in variants:
            variant.engine.close()


if __name__ == "__main__":
    main()
