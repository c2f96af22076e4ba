"""How long a process takes from its start to its first result, with the compiled model kept and without.

    python -m benchmarks.startup models/street.onnx [more.onnx ...] [--rounds 5] [--write]

Each start is a process of its own that opens the model as a step does and waits for one image's outputs. Kept and not
kept take turns; read the ratio. `--write` puts the table into docs/benchmarks/engines.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks" / "engines.md"
BEGIN, END = "<!-- startup -->", "<!-- /startup -->"
ENGINES = ("openvino", "onnxruntime")
PROGRAM = """
import sys, time
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.preprocess.definition import ImageForm
import numpy as np
path, engine, width, height = sys.argv[1:]
start = time.perf_counter()
size_wh = (int(width), int(height)) if int(width) else None
opened = open_engine(path, engine=engine, image=ImageForm(scale=(1 / 255,), size_wh=size_wh))
inputs = [np.zeros([size or 1 for size in spec.shape], spec.dtype) for spec in opened.inputs]
opened.submit(inputs).result()
print(opened.report["model"], time.perf_counter() - start)
"""


@dataclass
class Starts:
    """What the starts of one kind took, in seconds: the whole process, its processor time, and the model alone."""

    process: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    model: list[float] = field(default_factory=list)


def start(path: Path, engine: str, *, size_wh: tuple[int, int], cache: str, expected: str, into: Starts) -> None:
    """One process; `expected` is what its report has to say of the model."""
    began, used = time.perf_counter(), _cpu_of_children()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), engine, *map(str, size_wh)],
        env={**os.environ, "SIGHTLINE_CACHE": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    into.process.append(time.perf_counter() - began)
    into.cpu.append(_cpu_of_children() - used)
    origin, seconds = done.stdout.split()
    assert origin == expected, (path, engine, origin)
    into.model.append(float(seconds))


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(path: Path, engine: str, *, rounds: int, size_wh: tuple[int, int]) -> Mapping[str, Starts]:
    """Starts of both kinds, in turn."""
    starts = {"compiled": Starts(), "cached": Starts()}
    with tempfile.TemporaryDirectory(prefix="sightline-startup-") as folder:
        start(path, engine, size_wh=size_wh, cache=folder, expected="compiled", into=Starts())
        for _ in range(rounds):
            for kind, cache in (("compiled", "off"), ("cached", folder)):
                start(path, engine, size_wh=size_wh, cache=cache, expected=kind, into=starts[kind])
    return starts


def table(paths: list[Path], *, rounds: int, size_wh: tuple[int, int]) -> Iterator[str]:
    """The rows of the table, as they are measured."""
    yield "| model | engine | process: compiled | cached | its CPU time: compiled | cached | model alone: ratio |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for path in paths:
        for engine in ENGINES:
            starts = measure(path, engine, rounds=rounds, size_wh=size_wh)
            process, cpu, model = (
                [statistics.median(getattr(starts[kind], what)) for kind in ("compiled", "cached")]
                for what in ("process", "cpu", "model")
            )
            yield (
                f"| {path.name} | {engine} | {process[0]:.2f} s | {process[1]:.2f} s | {cpu[0]:.2f} s | {cpu[1]:.2f} s "
                f"| {model[1] / model[0]:.2f} |"
            )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, nargs=2, default=(0, 0), help="for models of open size")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks/engines.md")
    options = parser.parse_args()
    rows = []
    for row in table(options.models, rounds=options.rounds, size_wh=tuple(options.size)):
        print(row, flush=True)
        rows.append(row)
    if options.write:
        before, rest = PAGE.read_text("utf-8").split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(rows) + f"\n{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
