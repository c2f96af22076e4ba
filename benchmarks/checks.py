"""How long `sightline check` and `--help` take, beside the import of the libraries that any such program needs.

    python -m benchmarks.checks [CONFIG] [--rounds 11]

Every start is a process of its own, and the starts take turns; read the ratios. `check, first` has an empty cache, so
the model file is parsed; after that its facts are kept by content. The baseline imports the libraries and does nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = "import click, msgspec, numpy, pydantic, ruamel.yaml"


def seconds(command: Sequence[str], *, cache: str, bytecode: str) -> float:
    """Return how long one process takes, with the bytecode that an installation has. Raises CalledProcessError when it
    fails.
    """
    environment = {**os.environ, "SIGHTLINE_CACHE": cache, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def measured(commands: Mapping[str, Sequence[str]], *, rounds: int) -> dict[str, float]:
    """Return the median seconds of each command, over rounds in turn; the first one fills cache and bytecode."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as bytecode:
        for _ in range(rounds + 1):
            for name, command in commands.items():
                with tempfile.TemporaryDirectory() as empty:
                    times[name].append(seconds(command, cache=empty if "first" in name else cache, bytecode=bytecode))
    return {name: statistics.median(of_one[1:]) for name, of_one in times.items()}


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("config", nargs="?", default=str(ROOT / "configs" / "count-vehicles.yaml"))
    parser.add_argument("--rounds", type=int, default=11)
    asked = parser.parse_args()
    program = str(Path(sys.executable).parent / "sightline")
    baseline = "libraries alone"
    commands = {
        baseline: [sys.executable, "-c", LIBRARIES],
        "sightline --help": [program, "--help"],
        "sightline check": [program, "check", asked.config],
        "sightline check, first": [program, "check", asked.config],
    }
    medians = measured(commands, rounds=asked.rounds)
    print("| command | seconds | ratio |\n|---|---|---|")
    for name, taken in medians.items():
        print(f"| `{name}` | {taken:.3f} | {taken / medians[baseline]:.2f} x |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
