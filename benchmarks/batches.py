"""Whether OpenVINO computes several images in one call cheaper than one a call on the CPU, and with the same results.

    python -m benchmarks.batches [MODEL.onnx ...] [--rounds 25] [--batches 2,4,8]

Without models: the shared ones and those that Sightline ships whose number of images is open or can be opened. The
graph is rewritten as Sightline does. One request on one thread; CPU milliseconds an image, medians, and the median of
the rounds' ratios to one image a call, measured in turn. The last column says whether all results are the same to the
bit, whatever the number of images in a call.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from benchmarks.arguments import numbers
from benchmarks.graph_passes import DATA, ROOT, copied, processor
from sightline.errors import ModelError
from sightline_plugins.engines.model_file import read_model
from sightline_plugins.engines.openvino import OpenVino, core
from sightline_plugins.engines.rebatching import make_batch_dynamic, random_feeds
from sightline_plugins.onnx_graph.inputs import find_image_input, fix_batch, fix_size
from sightline_plugins.onnx_graph.simplify import OPENVINO, rewrite

SIZES = {"yunet_n_dynamic": (640, 384), "en_number_mobile_v2.0_rec": (320, 32)}
"""Sizes at which models of open size are measured."""
_SIZE_WH = (320, 320)
_OPTIONS = {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
Feeds = dict[str, npt.NDArray[Any]]


@dataclass(slots=True)
class Variant:
    """A model compiled for a number of images, and what its rounds took, in milliseconds an image."""

    rows: int
    request: Any
    ms: list[float] = field(default_factory=list)

    def results(self, feeds: Feeds, *, count: int) -> list[npt.NDArray[Any]]:
        """Return the outputs for all images, in calls of `rows`."""
        calls = [
            [np.array(value) for value in self.request.infer(self._part(feeds, first)).values()]
            for first in range(0, count, self.rows)
        ]
        return [np.concatenate(parts) for parts in zip(*calls, strict=True)]

    def measure(self, feeds: Feeds, *, count: int) -> None:
        """Compute all images once."""
        parts = [self._part(feeds, first) for first in range(0, count, self.rows)]
        begin = time.process_time()
        for part in parts:
            self.request.infer(part, share_inputs=True, share_outputs=True)
        self.ms.append((time.process_time() - begin) * 1e3 / count)

    def _part(self, feeds: Feeds, first: int) -> Feeds:
        return {name: np.ascontiguousarray(values[first : first + self.rows]) for name, values in feeds.items()}


def variants(model: onnx.ModelProto, rows: tuple[int, ...]) -> list[Variant]:
    """Compile a model of open batch for each number of images."""
    made = []
    for count in rows:
        fixed = copied(model)
        for entry in fixed.graph.input:
            entry.type.tensor_type.shape.dim[0].dim_value = count
        fix_batch(fixed)
        content = rewrite(fixed, OPENVINO).SerializeToString()
        compiled = core().compile_model(core().read_model(content), "CPU", _OPTIONS)
        made.append(Variant(count, compiled.create_infer_request()))
    return made


def row(path: Path, *, batches: tuple[int, ...], rounds: int) -> str:
    """Measure a model; its line of the table. Raises ModelError where its number of images cannot be opened."""
    model, _ = read_model(path)
    if not all(size.HasField("dim_value") for size in find_image_input(model).entry.type.tensor_type.shape.dim[1:]):
        fix_size(model, SIZES.get(path.stem, _SIZE_WH))
    shape = [size.dim_value for size in find_image_input(model).entry.type.tensor_type.shape.dim]
    model = make_batch_dynamic(model, compute=OpenVino(concurrency=1).compute)
    count = max(batches)
    made = variants(model, (1, *batches))
    feeds = random_feeds(_with_rows(model, count), rows=count, old=count)
    first, *others = (one.results(feeds, count=count) for one in made)
    same = all(np.array_equal(a, b) for other in others for a, b in zip(first, other, strict=True))
    for _ in range(rounds):
        for one in made:
            one.measure(feeds, count=count)
    one, *more = made
    cells = [f"{statistics.median(one.ms):.2f}"]
    for other in more:
        ratio = statistics.median(b / a for a, b in zip(one.ms, other.ms, strict=True))
        cells.append(f"{statistics.median(other.ms):.2f} ({ratio:.2f})")
    size = "x".join(map(str, shape[1:]))
    return f"| {path.stem} | {size} | {' | '.join(cells)} | {'yes' if same else 'no'} |"


def _with_rows(model: onnx.ModelProto, rows: int) -> onnx.ModelProto:
    fixed = copied(model)
    for entry in fixed.graph.input:
        entry.type.tensor_type.shape.dim[0].dim_value = rows
    return fixed


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batches", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--batches", type=numbers, default=(2, 4, 8))
    asked = parser.parse_args()
    paths = asked.models or sorted([*(DATA / "models").glob("*.onnx"), *(ROOT / "models").glob("*.onnx")])
    version = OpenVino(concurrency=1).settings["version"]
    print(f"{processor()}, OpenVINO {version}, one thread, {asked.rounds} rounds\n")
    print(f"| model | image | 1 image a call, ms | {' | '.join(f'{n}, ms (ratio)' for n in asked.batches)} | same |")
    print("|---|---|---:" + "|---:" * len(asked.batches) + "|---|")
    for path in paths:
        try:
            print(row(path, batches=asked.batches, rounds=asked.rounds), flush=True)
        except (ModelError, RuntimeError) as error:
            reason = str(error).splitlines()[0][:100]
            print(f"| {path.stem} | cannot be computed in batches: {reason} |", flush=True)


if __name__ == "__main__":
    main()
