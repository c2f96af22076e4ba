"""Three machines and a head with real Ray: how soon streams run elsewhere, and whether records are lost or doubled.

    python -m benchmarks.cluster.trial [--cameras 12] [--json FILE]

The machines are network namespaces (Linux, as root), the cameras an RTSP server outside of them. Each frame becomes a
record that a web service outside receives. In turn, the processes of a machine are killed, it joins again, the process
of the controller is killed, a machine loses sight of the head but not of its cameras, the cable of another one is cut
and put in again, a changed configuration is rolled out, another one that one machine cannot run is rolled back, and all
processes of the head are killed and started again. The controller is also let hang. The changed configuration has a
model that only the head has. It needs the extra `cluster`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np

from benchmarks.cluster.machines import (
    SIGHTLINE,
    Arrival,
    Machines,
    doubled,
    events,
    machines,
    missing_frames,
    runs,
    unreported,
    with_signal,
)
from benchmarks.pipelines.document import processor
from sightline.cluster.model import ClusterEventKind

FPS = 10
_HEAD, _WORKERS = 1, (2, 3, 4)
_LONGEST_SECONDS = 180.0
_REST_SECONDS = 8.0
_RECENT = 1000
_STEADY, _FRAME_NS = 100, 1_000_000_000 // FPS
MODELS = Path(__file__).parents[2] / "models"
_CONTROLLER = "sightline_plugins.commands.cluster.program"
_UNFIT = _WORKERS[-1]
_STEPS = """
from pathlib import Path

def fails_on_frames(batch):
    if Path.cwd().name == "{folder}":
        raise RuntimeError("this machine cannot do that")
"""
_OF_SIGHTLINE = (_CONTROLLER, "sightline_plugins.commands.cluster.process")


class TooSlow(Exception):
    """Something did not happen in time."""


@dataclass
class Trial:
    """A cluster under trial, and the figures so far."""

    place: Machines
    cameras: Sequence[str]
    figures: dict[str, Any] = field(default_factory=dict)

    def begin(self) -> None:
        """Start cameras, receiver, head and workers, and wait until all streams run."""
        clip = write_clip(self.place.folder / "clip.mp4")
        self.place.start_cameras(clip, self.cameras)
        self.place.start_receiver()
        self._models.mkdir()
        for name in ("street.onnx", "street.yaml"):
            shutil.copy(MODELS / name, self._models / name)
        (self.place.folder / "steps.py").write_text(_STEPS.format(folder=f"m{_UNFIT}"))
        self.describe("first")
        self.place.start_probe(_HEAD)
        began_ns = time.time_ns()
        self.start_head()
        self.note("controller after seconds", self.seconds_to_answer(began_ns))
        for number in _WORKERS:
            self.start_worker(number)
        self.note("all streams after seconds", self.seconds_until(self.is_whole, "all streams"))

    def describe(self, path: str, step: str = "") -> None:
        """Write the configuration: a record for each frame is posted to a path of the receiver."""
        sources = "".join(f"  {name}: {{uri: '{self.place.camera(name)}'}}\n" for name in self.cameras)
        (self.place.folder / "site.yaml").write_text(
            f"name: site\nsources:\n{sources}cluster: {{moving: 0.25, fps: {FPS}}}\n"
            f"pipeline:\n{step}\n- webhook: {{url: '{self.place.receiver}{path}', send: [frames], batch: 5}}\n"
        )

    def start_head(self) -> None:
        """Start the head, which runs no streams."""
        arguments = ["cluster", "run", str(self.place.folder / "site.yaml")]
        self._head = self._start(_HEAD, [*arguments, "--address", self.place.address(_HEAD)], log="head.log")

    def start_worker(self, number: int) -> None:
        """Start the worker of a machine."""
        arguments = ["cluster", "worker", "--head", self.place.address(_HEAD)]
        self._start(
            number, [*arguments, "--address", self.place.address(number), "--capacity", "200"], log="worker.log"
        )

    def measure_what_ray_takes(self) -> None:
        """Note the processor time of a worker's process and of Ray's, at a machine and at the head, in percent."""
        of_ray: dict[int, float] = {}
        worker = 0.0
        for number in (_HEAD, _WORKERS[0]):
            before, began = self.place.cpu_times(number), time.monotonic()
            self.rest()
            after, passed = self.place.cpu_times(number), time.monotonic() - began
            used = {pid: 100 * (after[pid] - before[pid]) / passed for pid in before.keys() & after.keys()}
            worker = sum(one for pid, one in used.items() if any(runs(pid, name) for name in _OF_SIGHTLINE))
            of_ray[number] = sum(used.values()) - worker
        self.note("CPU percent of a worker's process", round(worker, 1))
        self.note("CPU percent of Ray on its machine", round(of_ray[_WORKERS[0]], 1))
        self.note("CPU percent of Ray and the command at the head", round(of_ray[_HEAD], 1))

    def kill_a_machine(self, number: int) -> None:
        """Kill all processes of a machine at once."""
        own = self.streams_of(number)
        killed_ns = self.place.kill(number)
        self.note("killed: elsewhere after seconds", self.seconds_elsewhere(own, number, killed_ns))
        self.note("killed: streams", len(own))

    def join_again(self, number: int) -> None:
        """Start the machine's worker again, and wait for its share."""
        before, joined = len(self.reported("stream_moved")), len(self.reported("worker_joined"))
        since_ns = time.time_ns()
        self.start_worker(number)
        self.seconds_until(lambda: len(self.reported("worker_joined")) > joined, "the worker that joins")
        share = len(self.cameras) // len(_WORKERS) - 1
        self.note(
            "joined: share after seconds",
            self.seconds_until(lambda: len(self.streams_of(number)) >= share, "its share"),
        )
        self.rest()
        self.note("joined: streams moved", len(self.reported("stream_moved")) - before)
        self.note("joined: streams", len(self.streams_of(number)))
        self.note("joined: blind seconds of each", self.blind_seconds(self.streams_of(number), since_ns))

    def cut_a_cable(self, number: int) -> None:
        """Pull the cable of a machine; put it in again when its streams run elsewhere."""
        own = self.streams_of(number)
        cut_ns = self.place.cut(number)
        self.note("cut: elsewhere after seconds", self.seconds_elsewhere(own, number, cut_ns))
        self.note("cut: its streams have stopped after seconds", self.seconds_to_stop(number, cut_ns))
        self.note("cut: streams", len(own))
        self.place.cut(number, is_cut=False)
        self.note(
            "healed: balanced after seconds", self.seconds_until(lambda: len(self.streams_of(number)) > 0, "balance")
        )
        self.rest()

    def kill_the_head(self) -> None:
        """Kill all processes of the head, and start it again: all machines start Ray then, on the same cores here."""
        before = self.where()
        count = len(self.place.arrivals())
        self.place.kill(_HEAD)
        self.rest()
        self.note("head away: frames without a record", missing_frames(self.place.arrivals()[count:]))
        count, began_ns = len(self.place.arrivals()), time.time_ns()
        self.start_head()
        self.note("head back: controller after seconds", self.seconds_to_answer(began_ns))
        self.rest()
        after = self.place.arrivals()[count:]
        self.note("head back: same assignment", self.where() == before)
        self.note("head back: new epochs", len({(one.stream, one.epoch) for one in after}) - len(self.cameras))
        self.note("head back: frames without a record", missing_frames(after))

    def kill_the_controller(self) -> None:
        """Kill the process of the controller alone."""
        self._lose_the_controller("controller killed", signal.SIGKILL)

    def stop_the_controller(self) -> None:
        """Let the process of the controller hang."""
        self._lose_the_controller("controller hangs", signal.SIGSTOP)

    def _lose_the_controller(self, name: str, number: int) -> None:
        before, count = self.where(), len(self.place.arrivals())
        (pid,) = (pid for pid in self.place.processes(_HEAD) if runs(pid, _CONTROLLER))
        with_signal(pid, number)
        self.note(f"{name}: answers after seconds", self.seconds_to_answer(time.time_ns()))
        self.rest()
        after = self.place.arrivals()[count:]
        self.note(f"{name}: same assignment", self.where() == before)
        self.note(f"{name}: new epochs", len({(one.stream, one.epoch) for one in after}) - len(self.cameras))
        self.note(f"{name}: frames without a record", missing_frames(after))

    def part_from_the_head(self, number: int) -> None:
        """Lose packets between a machine and the head, so that it keeps its cameras; deliver them again later."""
        own = self.streams_of(number)
        parted_ns = self.place.part(_HEAD, number)
        self.note("parted: elsewhere after seconds", self.seconds_elsewhere(own, number, parted_ns))
        elsewhere = [one for one in self.place.arrivals() if one.time_ns > parted_ns and one.stream in own]
        first = min(one.time_ns for one in elsewhere if one.host != self.place.address(number))
        self.note("parted: first record elsewhere after seconds", round((first - parted_ns) / 1e9, 2))
        self.rest()
        here = self.place.address(number)
        last = max(one.time_ns for one in self.place.arrivals() if one.host == here)
        self.note("parted: its last record after seconds", round((last - parted_ns) / 1e9, 2))
        self.note("parted: blind seconds of each", self.blind_seconds(own, parted_ns))
        self.place.part(_HEAD, number, is_parted=False)
        self.seconds_until(lambda: len(self.streams_of(number)) > 0, "balance")
        self.rest()

    def roll_out_a_model(self) -> None:
        """Change the configuration to one with a model that the head alone has."""
        step = f"- detect: {{model: '{self._models}/street.onnx', streams: [{self.cameras[0]}], every: 100}}"
        self.roll_out("good change", path="good", step=step, ends=ClusterEventKind.ROLLOUT_DONE)
        having = [one for one in _WORKERS if list((self.place.folder / f"m{one}" / "cache").glob("cluster/*/street.*"))]
        self.note("good change: machines that got the model", [self.place.address(one) for one in having])

    def roll_out_what_one_cannot(self) -> None:
        """Change the configuration to one that fails on the frames of one machine."""
        step = f"- apply: {{function: '{self.place.folder}/steps.py:fails_on_frames'}}"
        self.roll_out("bad change", path="bad", step=step, ends=ClusterEventKind.ROLLOUT_REVERTED)

    def roll_out(self, name: str, *, path: str, step: str, ends: ClusterEventKind) -> None:
        """Change the configuration, and wait until it runs everywhere, or has been rolled back."""
        before, count, reported = self.where(), len(self.place.arrivals()), len(self.reported(ends))
        self.describe(path, step)
        self._head.send_signal(signal.SIGHUP)
        seconds = self.seconds_until(lambda: len(self.reported(ends)) > reported, f"the event {ends}")
        self.note(f"{name}: {ends} after seconds", seconds)
        self.rest()
        after = self.place.arrivals()[count:]
        tried = sorted({one.host for one in after if one.path == f"/{path}"})
        newest = {one.stream: one.path for one in after}
        self.note(f"{name}: machines whose records came from it", tried)
        self.note(f"{name}: runs in the end", sorted(set(newest.values())))
        self.note(f"{name}: why", self.reported(ends)[-1]["text"])
        self.note(f"{name}: same assignment", self.where() == before)
        self.note(f"{name}: new epochs", len({(one.stream, one.epoch) for one in after}) - len(self.cameras))
        self.note(f"{name}: frames without a record", missing_frames(after))

    def end(self) -> None:
        """Judge all records that arrived."""
        arrivals, reported = self.place.arrivals(), events(self._events)
        self.note("records", len(arrivals))
        self.note("doubled records", doubled(arrivals))
        self.note("unreported", unreported(arrivals, reported))

    def rest(self) -> None:
        """Let what is under way come to an end."""
        time.sleep(_REST_SECONDS)

    def recent(self) -> Sequence[Any]:
        """The newest records."""
        return self.place.arrivals()[-_RECENT:]

    def where(self) -> dict[str, str]:
        """From which machine the newest record of each stream came."""
        return {one.stream: one.host for one in self.recent()}

    def streams_of(self, number: int) -> set[str]:
        """The streams whose newest record came from a machine."""
        return {stream for stream, host in self.where().items() if host == self.place.address(number)}

    def is_whole(self) -> bool:
        """Whether all streams run."""
        return set(self.where()) == set(self.cameras)

    def seconds_elsewhere(self, streams: set[str], number: int, since_ns: int) -> float:
        """How long it takes until each of the streams has sent a record from another machine."""

        def arrived() -> dict[str, int]:
            first: dict[str, int] = {}
            for one in self.place.arrivals():
                if one.time_ns > since_ns and one.stream in streams and one.host != self.place.address(number):
                    first.setdefault(one.stream, one.time_ns)
            return first

        self.seconds_until(lambda: set(arrived()) == streams, "streams elsewhere")
        return round((max(arrived().values(), default=since_ns) - since_ns) / 1e9, 2)

    def seconds_to_stop(self, number: int, since_ns: int) -> float | None:
        """When the log of a machine's worker says that its streams have stopped; None when it does not."""
        for line in (self.place.folder / f"m{number}" / "worker.log").read_text().splitlines():
            if line.endswith("its streams have stopped"):
                text, milliseconds = line[:19], int(line[20:23])
                seconds = time.mktime(time.strptime(text, "%Y-%m-%d %H:%M:%S")) + milliseconds / 1000 - since_ns / 1e9
                if seconds > 0:
                    return round(seconds, 2)
        return None

    def seconds_to_answer(self, since_ns: int) -> float:
        """How long it takes until the controller answers."""
        self.seconds_until(lambda: self.place.answered(since_ns) is not None, "an answer of the controller")
        return round(((self.place.answered(since_ns) or since_ns) - since_ns) / 1e9, 2)

    def seconds_until(self, condition: Callable[[], bool], what: str) -> float:
        """How long it takes. Raises TooSlow after three minutes."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > _LONGEST_SECONDS:
                raise TooSlow(f"{what} did not come within {_LONGEST_SECONDS:.0f} s")
            time.sleep(0.1)
        return round(time.monotonic() - began, 2)

    def blind_seconds(self, streams: set[str], since_ns: int) -> list[float]:
        """How long at most no frames were taken of each stream, between its epoch at that time and the next one.

        Records may arrive late, but frames are taken at a steady rate: those that came soonest say when.
        """
        found = []
        for stream in streams:
            epochs: dict[int, list[Arrival]] = defaultdict(list)
            for one in self.place.arrivals():
                if one.stream == stream:
                    epochs[one.epoch].append(one)
            former = max(epoch for epoch, own in epochs.items() if own[0].time_ns < since_ns)
            new = min(epoch for epoch in epochs if epoch > former)
            last = max(one.seq for one in epochs[former])
            end_ns = _begin_ns(epochs[former][-_STEADY:]) + last * _FRAME_NS
            found.append(round((_begin_ns(epochs[new][:_STEADY]) - end_ns) / 1e9, 2))
        return sorted(found)

    def reported(self, kind: str) -> list[dict[str, Any]]:
        """The events of a kind."""
        return [one for one in events(self._events) if one["kind"] == kind]

    def note(self, what: str, value: object) -> None:
        """Keep a figure, and print it."""
        self.figures[what] = value
        print(f"{what}: {value}", flush=True)

    @property
    def _events(self) -> Path:
        return self.place.folder / f"m{_HEAD}" / "out" / "site.cluster.events.jsonl"

    def _start(self, number: int, arguments: Sequence[str], *, log: str) -> subprocess.Popen[bytes]:
        own = [
            "--ray-folder",
            str(self.place.folder / f"r{number}"),
            "--output-root",
            str(self.place.folder / f"m{number}"),
        ]
        lacks = None if number == _HEAD else self._models
        return self.place.start(number, [*SIGHTLINE, *arguments, *own], log=log, lacks=lacks)

    @property
    def _models(self) -> Path:
        return self.place.folder / "models"


def _begin_ns(records: Sequence[Arrival]) -> int:
    """When the first frame of an epoch was taken, by those of its records that came soonest."""
    return min(one.time_ns - one.seq * _FRAME_NS for one in records)


def write_clip(path: Path) -> Path:
    """Write ten seconds of a small moving image, a key frame a second."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"g": str(FPS), "bf": "0", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 160, 96, "yuv420p"
        for index in range(10 * FPS):
            image = np.full((96, 160, 3), 60, np.uint8)
            image[30:60, index : index + 30] = 200
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def main() -> int:
    """Run the trial, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=int, default=12)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    print(processor(), flush=True)
    with TemporaryDirectory(prefix="cluster-") as folder, machines(Path(folder), max(_WORKERS)) as place:
        trial = Trial(place, [f"cam{number}" for number in range(given.cameras)])
        try:
            trial.begin()
            trial.measure_what_ray_takes()
            trial.kill_a_machine(2)
            trial.rest()
            trial.join_again(2)
            trial.kill_the_controller()
            trial.part_from_the_head(4)
            trial.cut_a_cable(3)
            trial.roll_out_a_model()
            trial.roll_out_what_one_cannot()
            trial.stop_the_controller()
            trial.kill_the_head()
            trial.end()
        except TooSlow as error:
            print(f"error: {error}", file=sys.stderr)
            for log in sorted(Path(folder).glob("m*/*.log")):
                print(f"== {log.relative_to(folder)}\n{log.read_text(errors='replace')[-1500:]}", file=sys.stderr)
            return 1
        finally:
            if given.json:
                given.json.write_text(json.dumps(trial.figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
