"""A thousand machines and fifty thousand cameras, in simulated time: what failures cost, and what the controller costs.

    python -m benchmarks.cluster [--workers 1000] [--streams 50000] [--seed 1] [--write]

Each scenario begins when the one before has come to rest. The controller is the real one, and so are the leases of the
workers; machines, links and clocks are simulated. Invariants are checked at every start of a stream, and over all
reports at the end. `--write` writes the page and its plot.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.cluster.plot import Sample, plot
from benchmarks.cluster.world import InvariantBroken, World
from benchmarks.pipelines.document import processor
from sightline.cluster.model import ClusterEventKind, StreamSpec

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/benchmarks/cluster.md"
PLOT = ROOT / "docs/images/cluster.svg"
_RACKS = 40
_REST_SECONDS = 20.0
_LONGEST_SECONDS = 600.0
_REGIONS = 8
_LOADS = (10.0, 15.0, 25.0)
_SPARE = 1.5
"""Capacity of all workers beside the load of all streams."""
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass(frozen=True, slots=True)
class Row:
    """What a scenario cost. `imbalance` is that at its end, `step_seconds` CPU time of the longest decision."""

    name: str
    seconds: float
    moved: int
    restarted: int
    most_blind: int
    blind_seconds: float
    imbalance: float
    step_seconds: float

    def line(self) -> str:
        """The row of the table."""
        return (
            f"| {self.name} | {self.seconds:.0f} | {self.moved} | {self.restarted} | {self.most_blind} | "
            f"{self.blind_seconds:.0f} | {100 * self.imbalance:.1f} % | {self.step_seconds:.2f} |"
        )


class Run:
    """Lets a cluster live through scenarios, and samples it once a simulated second."""

    def __init__(self, *, workers: int, streams: int, seed: int) -> None:
        self.world = World(seed=seed)
        self.workers = [f"w{number}" for number in range(workers)]
        rack = max(1, workers // _RACKS)
        self.racks = [self.workers[first : first + rack] for first in range(0, workers, rack)]
        self.rows: list[Row] = []
        self.samples: list[Sample] = []
        self.starts_of_scenarios: list[tuple[float, str]] = []
        wanted = {f"c{number}": _stream(number) for number in range(streams)}
        self.capacity = _SPARE * sum(one.load for one in wanted.values()) / workers
        self._drained = 0
        self.world.begin(wanted)

    def add(self, name: str, number: int, count: int) -> None:
        """Let a machine of a region join."""
        region = number * _REGIONS // count % _REGIONS
        self.world.add_worker(name, capacity=self.capacity, labels={"region": f"r{region}"})

    def scenario(self, name: str, play: Callable[[], None]) -> None:
        """Play a scenario, wait until all streams flow and nothing moves, and note what it cost."""
        world = self.world
        began, blind_ns, events = world.seconds, world.blind_ns, len(world.events)
        starts, first_sample = sum(world.starts.values()), len(self.samples)
        world.longest_step_seconds = 0.0
        self.starts_of_scenarios.append((began, name))
        play()
        calm, played = 0.0, world.seconds
        while calm < _REST_SECONDS:
            if world.seconds - played > _LONGEST_SECONDS:
                raise InvariantBroken(f"{name}: {world.blind} streams are still blind, or streams still move")
            self.wait(1)
            calm = 0.0 if world.blind or self._moves else calm + 1
        moved = sum(one.kind is ClusterEventKind.STREAM_MOVED for one in world.events[events:])
        restarted = sum(world.starts.values()) - starts
        self.rows.append(
            Row(
                name,
                world.seconds - began - _REST_SECONDS,
                moved,
                restarted,
                max(one.blind for one in self.samples[first_sample:]),
                (world.blind_ns - blind_ns) / 1e9,
                self.samples[-1].imbalance,
                world.longest_step_seconds,
            )
        )
        print(self.rows[-1].line(), flush=True)

    def wait(self, seconds: float) -> None:
        """Let time pass, with a sample each second."""
        for _ in range(round(seconds)):
            self.world.run(1)
            imbalance = 0.0 if self.world.controller is None else self.world.controller.status.imbalance
            moved = sum(self.world.starts.values())
            self.samples.append(Sample(self.world.seconds, moved, self.world.blind, imbalance))

    @property
    def _moves(self) -> bool:
        return self.world.controller is None or bool(self.world.controller.status.moving)

    def play(self) -> None:
        """Play all scenarios. Raises InvariantBroken."""
        world = self.world
        self.scenario("all machines start", self._start)
        self.scenario("a rack loses power", lambda: self._each(self.racks[3], world.kill))
        self.scenario("the rack is back", lambda: self._each(self.racks[3], world.boot))
        self.scenario("a rack's switch is cut for 60 s", lambda: self._cut(self.racks[7], 60))
        self.scenario("processes of a rack crash, noticed", lambda: self._crash(self.racks[5]))
        self.scenario("50 machines join", self._join)
        self.scenario(
            "10 machines flap for 3 minutes", lambda: self._flap(self.workers[:: len(self.workers) // 10][:10])
        )
        self.scenario("1 of 10 heartbeats 1 to 5 s late, 1 minute", self._be_late)
        self.scenario("the controller is killed three times, 8 s each", self._kill_controller)
        self.scenario("rolling restart, rack by rack", self._roll)
        world.check_reports()

    def _start(self) -> None:
        for number, name in enumerate(self.workers):
            self.add(name, number, len(self.workers))

    def _each(self, names: Sequence[str], action: Callable[[str], object]) -> None:
        for name in names:
            action(name)

    def _cut(self, names: Sequence[str], seconds: float) -> None:
        self._each(names, self.world.cut)
        self.wait(seconds)
        self._each(names, lambda name: self.world.cut(name, is_cut=False))

    def _crash(self, names: Sequence[str]) -> None:
        self._each(names, lambda name: self.world.kill(name, is_noticed=True))
        self.wait(5)
        self._each(names, self.world.boot)

    def _join(self) -> None:
        new = [f"new{number}" for number in range(max(1, len(self.workers) // 20))]
        for number, name in enumerate(new):
            self.add(name, number, len(new))
        self.wait(5)

    def _flap(self, names: Sequence[str]) -> None:
        for _ in range(9):
            self._cut(names, 10)
            self.wait(10)
        self.wait(70)  # until they are trusted again

    def _be_late(self) -> None:
        for worker in self.world.workers.values():
            worker.late_share = 0.1
        self.wait(60)
        for worker in self.world.workers.values():
            worker.late_share = 0.0

    def _kill_controller(self) -> None:
        for _ in range(3):
            self.world.kill_controller()
            self.wait(8)
            self.world.start_controller()
            self.wait(12)

    def _roll(self) -> None:
        for rack in self.racks:
            controller = self.world.controller
            assert controller is not None
            self._each(rack, controller.drain)
            while any(self.world.workers[name].running for name in rack):
                self.wait(1)
            self._each(rack, lambda name: self.world.kill(name, is_noticed=True))
            self.wait(5)
            for name in rack:
                self.world.boot(name)
                controller.drain(name, is_draining=False)
            self.wait(2)


def _stream(number: int) -> StreamSpec:
    """Fifty cameras a site; three of ten must stay in their region."""
    site = number // 50
    requires = {"region": f"r{site % _REGIONS}"} if number % 10 < 3 else {}
    return StreamSpec(_LOADS[number % len(_LOADS)], requires, f"site{site}")


def main() -> None:
    """Play the scenarios, print the table, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--streams", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)} and its plot")
    asked = parser.parse_args()
    began, cpu_began = time.monotonic(), time.process_time()
    run = Run(workers=asked.workers, streams=asked.streams, seed=asked.seed)
    run.play()
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    world = run.world
    share = world.controller_seconds / world.seconds
    setting = f"`--workers {asked.workers} --streams {asked.streams} --seed {asked.seed}`"
    cpu_seconds, seconds = time.process_time() - cpu_began, time.monotonic() - began
    head = (
        f"{setting}, {datetime.now(UTC):%Y-%m-%d}, one core of {processor()}, shared with other work: "
        f"{world.seconds:.0f} simulated seconds took {cpu_seconds:.0f} s of CPU time ({seconds:.0f} s)."
    )
    columns = "scenario | seconds | moved | restarted | most blind | blind camera-seconds | imbalance after"
    foot = (
        f"The controller took {100 * share:.1f} % of a core, and the process, with the whole simulated world, "
        f"{memory_mb:.0f} MB. {sum(world.starts.values())} starts of streams were checked: none ran twice, and no "
        f"epoch went back. {len(world.silences)} interruptions were all part of a gap that was reported."
    )
    table = [f"| {columns} | longest decision, CPU s |", "|---|" + "---:|" * 7, *(row.line() for row in run.rows)]
    text = "\n".join([BEGIN, "", head, "", *table, "", foot, "", END])
    print(text)
    if asked.write:
        page = PAGE.read_text(encoding="utf-8")
        before, after = page[: page.index(BEGIN)], page[page.index(END) + len(END) :]
        PAGE.write_text(before + text + after, encoding="utf-8")
        PLOT.write_text(plot(run.samples, run.starts_of_scenarios), encoding="utf-8")


if __name__ == "__main__":
    main()
