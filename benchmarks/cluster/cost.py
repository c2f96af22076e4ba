"""What a stream costs in a cluster of one worker, against `sightline run`: CPU time for each frame.

    python -m benchmarks.cluster.cost [--rounds 4] [--windows 5] [--seconds 6] [--streams 4] [--json FILE]

Both run at the same time and are measured in the same windows, since what other programs do changes the CPU time of a
frame by a tenth from one half minute to the next. Each round starts both anew, in changing order.
Both read the same live cameras (an RTSP server in a process of its own), decode each frame and write a line of JSON.
The worker is the process that a cluster runs on a machine, under a controller in another process; CPU time is that of
the process which runs the streams. Ray's own processes are not among them: `benchmarks.cluster.trial` measures those.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import av
import numpy as np

from benchmarks.cluster.machines import SIGHTLINE, TOKEN, cpu_seconds
from benchmarks.pipelines.document import processor
from sightline.config import load_description
from sightline.graph.outputs import Outputs
from sightline_plugins.commands.cluster.charter import Charter
from sightline_plugins.commands.cluster.job import Machine
from sightline_plugins.commands.cluster.keeper import WorkerKeeper, end_worker
from sightline_plugins.commands.cluster.process import holder_of
from sightline_plugins.commands.cluster.supervision import ControllerSupervisor

FPS, SIZE = 25, (640, 360)
_CAMERA_PORT, _CONTROLLER_PORT = 18554, 16380
_Way = Callable[[Path, Path], AbstractContextManager[int]]
_WARM_SECONDS, _LONGEST_SECONDS = 3.0, 120.0


def write_clip(path: Path) -> Path:
    """Write four seconds of noise in motion."""
    width, height = SIZE
    noise = np.random.default_rng(1).integers(0, 255, (height, 2 * width, 3), np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"g": str(FPS), "bf": "0", "crf": "35"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(4 * FPS):
            image = np.ascontiguousarray(noise[:, 4 * index : 4 * index + width])
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@contextmanager
def cameras(clip: Path, names: Sequence[str]) -> Iterator[None]:
    """Show the clip as live cameras."""
    shown = [f"{name}={clip}" for name in names]
    command = [*SIGHTLINE, "camera", *shown, "--host", "127.0.0.1", "--port", str(_CAMERA_PORT), "--live"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@contextmanager
def on_one_machine(config: Path, outputs: Path) -> Iterator[int]:
    """`sightline run`; the id of its process."""
    command = [*SIGHTLINE, "run", str(config), "-q", "--output-root", str(outputs)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@contextmanager
def in_a_cluster(config: Path, outputs: Path) -> Iterator[int]:
    """A controller and one worker; the id of the worker's process."""
    description = load_description(config, outputs=Outputs(outputs))
    charter = Charter.of(description, address=("127.0.0.1", _CONTROLLER_PORT), outputs=Outputs(outputs / "head"))
    supervisor = ControllerSupervisor(charter)
    keeper = WorkerKeeper(charter.job, Machine("w1", "127.0.0.1", 10_000.0, 1000, {}, str(outputs)))
    supervisor.start()
    keeper.start()
    try:
        wait_for(lambda: (holder := holder_of(outputs)) is not None and holder.pid)
        holder = holder_of(outputs)
        yield 0 if holder is None else holder.pid
    finally:
        keeper.stop()
        end_worker(outputs, timeout_seconds=_LONGEST_SECONDS)
        supervisor.stop()


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until something holds. Raises TimeoutError."""
    until = time.monotonic() + _LONGEST_SECONDS
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.05)


def frames_in(outputs: Path) -> int:
    """How many frames have been written."""
    return sum(path.read_bytes().count(b"\n") for path in outputs.glob("*.jsonl"))


def costs(
    ways: Sequence[tuple[_Way, Path]], config: Path, *, streams: int, windows: int, seconds: float
) -> list[list[float]]:
    """CPU milliseconds for each frame, by window, of ways that run at the same time, without their starts."""
    found: list[list[float]] = [[] for _ in ways]
    with ExitStack() as stack:
        pids = [stack.enter_context(way(config, outputs)) for way, outputs in ways]
        wait_for(lambda: all(len(list(outputs.glob("*.jsonl"))) == streams for _, outputs in ways))
        time.sleep(_WARM_SECONDS)
        for _ in range(windows):
            before = [(cpu_seconds(pid), frames_in(outputs)) for pid, (_, outputs) in zip(pids, ways, strict=True)]
            time.sleep(seconds)
            for number, (pid, (_, outputs)) in enumerate(zip(pids, ways, strict=True)):
                used, frames = cpu_seconds(pid) - before[number][0], frames_in(outputs) - before[number][1]
                found[number].append(1000 * used / frames)
    return found


def main() -> None:
    """Measure both ways, and print medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    os.environ["SIGHTLINE_CLUSTER_TOKEN"] = TOKEN
    names = [f"cam{number}" for number in range(given.streams)]
    ways: dict[str, _Way] = {"run": on_one_machine, "cluster": in_a_cluster}
    found: dict[str, list[float]] = {name: [] for name in ways}
    print(processor(), flush=True)
    with TemporaryDirectory(prefix="cost-") as text:
        folder = Path(text)
        config = folder / "site.yaml"
        sources = "".join(f"  {name}: rtsp://127.0.0.1:{_CAMERA_PORT}/{name}\n" for name in names)
        config.write_text(
            f"name: site\nsources:\n{sources}cluster: {{fps: {FPS}}}\npipeline: [{{jsonl: '{{stream}}.jsonl'}}]\n"
        )
        with cameras(write_clip(folder / "clip.mp4"), names):
            for number in range(given.rounds):
                order = sorted(ways, reverse=number % 2 == 0)
                both = [(ways[name], folder / f"{name}{number}") for name in order]
                for _, outputs in both:
                    outputs.mkdir()
                windows = costs(both, config, streams=given.streams, windows=given.windows, seconds=given.seconds)
                for name, own in zip(order, windows, strict=True):
                    found[name] += own
                    print(f"{name}: {', '.join(f'{one:.3f}' for one in own)} ms of CPU time a frame", flush=True)
    ratios = [cluster / alone for cluster, alone in zip(found["cluster"], found["run"], strict=True)]
    rounds = [statistics.median(ratios[at : at + given.windows]) for at in range(0, len(ratios), given.windows)]
    for name, own in found.items():
        print(f"median of {name}: {statistics.median(own):.3f} ms")
    of_rounds = ", ".join(f"{one:.3f}" for one in rounds)
    print(f"cluster / run: median {statistics.median(ratios):.3f}; of the rounds {of_rounds}")
    if given.json:
        given.json.write_text(json.dumps({**found, "ratios": ratios}, indent=2) + "\n")


if __name__ == "__main__":
    main()
