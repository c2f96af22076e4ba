"""What each pass that rewrites a model gains: the time of a model with all passes, and with all but one, in turn.

    python -m benchmarks.graph_passes [MODEL.onnx ...] [--rounds 40]

Without models: the shared ones and those that Sightline ships. One request at a time on one thread, so that a ratio is
a ratio of work. The figure of a pass is the median of the rounds' ratios, time without it to time with it: above 1 it
gains. Passes that change nothing in a model are not measured. The last column tries onnxsim, where it is installed, in
the place of all passes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx

from sightline.errors import ModelError
from sightline_plugins.engines.model_file import read_model
from sightline_plugins.engines.openvino import OpenVino, core
from sightline_plugins.engines.rewriting import example_feeds
from sightline_plugins.onnx_graph.inputs import fix_batch, fix_size
from sightline_plugins.onnx_graph.simplify import OPENVINO, REPAIRS, Rule, rewrite

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("SIGHTLINE_SHARED_DATA", ROOT.parent / "shared" / "data"))
_SIZE_WH = (320, 320)
_CLEANING = ("store_constants", "fold_constants", "remove_idle")
Run = Callable[[], float]


def copied(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def groups(model: onnx.ModelProto) -> dict[str, tuple[Rule, ...]]:
    """Return the passes that change something in a model, by name; those that fold constants count as one."""
    named: dict[str, tuple[Rule, ...]] = {}
    for rule in OPENVINO:
        name = "constants" if rule.__name__ in _CLEANING else rule.__name__
        named[name] = (*named.get(name, ()), rule)
    whole = content(rewrite(copied(model), OPENVINO))
    return {name: own for name, own in named.items() if content(without(model, own)) != whole}


def without(model: onnx.ModelProto, rules: Sequence[Rule]) -> onnx.ModelProto:
    """Return a model after all passes but these."""
    return rewrite(copied(model), [rule for rule in OPENVINO if rule not in rules])


def content(model: onnx.ModelProto) -> tuple[Counter[tuple[str, ...]], Counter[tuple[int, ...]]]:
    """Return what a graph holds: operators with those in front of them, and shapes of constants."""
    producers = {name: node.op_type for node in model.graph.node for name in node.output}
    operators = Counter((node.op_type, *(producers.get(name, "") for name in node.input)) for node in model.graph.node)
    return operators, Counter(tuple(tensor.dims) for tensor in model.graph.initializer)


def opened(model: onnx.ModelProto) -> Run:
    """Return a function that computes the model once and returns the seconds that took."""
    options = {"NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core().compile_model(core().read_model(model.SerializeToString()), "CPU", options)
    request = compiled.create_infer_request()
    feeds = {name: np.ascontiguousarray(value) for name, value in example_feeds(model, None)[0].items()}

    def run() -> float:
        started = time.perf_counter()
        request.infer(feeds)
        return time.perf_counter() - started

    return run


def ratios(variants: Sequence[Run], base: Run, *, rounds: int) -> list[float]:
    """Return for each variant the median ratio of its time to that of `base`, measured in turn."""
    found: list[list[float]] = [[] for _ in variants]
    for number in range(rounds + 3):
        for place, variant in enumerate(variants):
            one, other = base(), variant()
            if number >= 3:
                found[place].append(other / one)
    return [statistics.median(values) for values in found]


def measured(path: Path, *, rounds: int) -> list[tuple[str, float]]:
    """Return the passes of a model with their ratios, and that of all of them."""
    model, _ = read_model(path)
    fix_batch(model)
    with suppress(ModelError):
        fix_size(model, _SIZE_WH)
    names = groups(model)
    variants = [(name, without(model, own)) for name, own in names.items()]
    variants.append(("all", rewrite(copied(model), REPAIRS)))
    if importlib.util.find_spec("onnxsim") is not None:
        import onnxsim

        variants.append(("onnxsim instead", onnxsim.simplify(copied(model))[0]))
    base = opened(rewrite(copied(model), OPENVINO))
    found = ratios([opened(one) for _, one in variants], base, rounds=rounds)
    return [(name, ratio) for (name, _), ratio in zip(variants, found, strict=True)]


def processor() -> str:
    """Return the name of this machine's processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    paths = arguments.models or sorted([*(DATA / "models").glob("*.onnx"), *(ROOT / "models").glob("*.onnx")])
    version = OpenVino(concurrency=1).settings["version"]
    print(f"{processor()}, OpenVINO {version}, one thread, {arguments.rounds} rounds\n")
    print("| model | pass | time without / with |\n|---|---|---|")
    for path in paths:
        for name, ratio in measured(path, rounds=arguments.rounds):
            print(f"| {path.stem} | {name} | {ratio:.3f} |", flush=True)


if __name__ == "__main__":
    main()
