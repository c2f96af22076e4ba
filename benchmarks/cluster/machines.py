"""Machines on a network of their own, as network namespaces: what a cluster runs on where there is one machine.

A machine is lost when all of its processes are killed, and cut off when its cable is down. Two machines are parted when
packets between them get lost, while both reach all others. Beside the machines there is one with cameras, and with a
receiver of records that writes down what arrives, and when.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from sightline.cluster.model import ClusterEventKind

TOKEN = "0123456789abcdef" * 4
_NUMBERS = count()
_OUTSIDE = 250
_NOBODY = "02:00:00:00:00:99"
RECEIVER_PORT, CAMERA_PORT, CONTROLLER_PORT = 8090, 8554, 6380

_RECEIVER = """
import json, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
out = open(sys.argv[2], "a", buffering=1)
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        now = time.time_ns()
        host, path = self.client_address[0], self.path
        rows = [[now, host, one["stream"], one["epoch"], one["seq"], one["frame"], path] for one in body]
        lines = [json.dumps(row) for row in rows]
        out.write("".join(line + chr(10) for line in lines))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_request(self, code="-", size="-"):
        pass
ThreadingHTTPServer((sys.argv[1], int(sys.argv[3])), Handler).serve_forever()
"""

_PROBE = """
import sys, time
from sightline.cluster.wire import Connection
from sightline.errors import SightlineError
out = open(sys.argv[2], "a", buffering=1)
while True:
    try:
        connection = Connection.to_controller((sys.argv[1], int(sys.argv[3])), token=sys.argv[4], timeout_seconds=1)
        connection.send({"ask": "status"})
        if "status" in connection.receive(timeout_seconds=1):
            out.write(f"{time.time_ns()}\\n")
        connection.close()
    except (OSError, SightlineError):
        pass
    time.sleep(0.1)
"""


class Arrival(NamedTuple):
    """A record of a frame, when it arrived (time of day), from which machine, and the path that it was posted to."""

    time_ns: int
    host: str
    stream: str
    epoch: int
    seq: int
    frame: int
    path: str


@dataclass
class Machines:
    """Machines 1, 2, 3 ... with the addresses 10.77.0.1 and so on, and one outside with cameras and the receiver."""

    folder: Path
    prefix: str = field(default_factory=lambda: f"sl{os.getpid() % 100_000}{next(_NUMBERS)}")
    started: dict[int, list[subprocess.Popen[bytes]]] = field(default_factory=lambda: defaultdict(list))

    def address(self, number: int) -> str:
        """The address of a machine."""
        return f"10.77.0.{number}"

    def build(self, count: int) -> None:
        """Make the network. Raises CalledProcessError where that is not allowed."""
        outside = self._name(_OUTSIDE)
        _ip("netns", "add", outside)
        _ip("-n", outside, "link", "set", "lo", "up")
        _ip("-n", outside, "link", "add", "switch", "type", "bridge")
        _ip("-n", outside, "link", "set", "switch", "up")
        _ip("-n", outside, "addr", "add", f"{self.address(_OUTSIDE)}/24", "dev", "switch")
        for number in range(1, count + 1):
            name, port = self._name(number), f"port{number}"
            _ip("netns", "add", name)
            _ip("-n", outside, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", outside, "link", "set", port, "master", "switch", "up")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")

    def start(
        self, number: int, command: Sequence[str], *, log: str, lacks: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program on a machine; what it prints goes to a file. It finds nothing in the folder `lacks`."""
        folder = self.folder / f"m{number}"
        folder.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "SIGHTLINE_CLUSTER_TOKEN": TOKEN,
            "SIGHTLINE_CACHE": str(folder / "cache"),
            "PYTHONUNBUFFERED": "1",
        }
        if lacks is not None:  # `ip netns exec` has given it mounts of its own
            command = ("sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(lacks), *command)
        with (folder / log).open("ab") as output:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self._name(number), *command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.started[number].append(process)
        return process

    def cpu_times(self, number: int) -> dict[int, float]:
        """The processor seconds of each process of a machine."""
        found = {}
        for pid in self.processes(number):
            with suppress(OSError):  # it has ended since
                found[pid] = cpu_seconds(pid)
        return found

    def start_cameras(self, clip: Path, names: Sequence[str]) -> None:
        """Show a clip as cameras of these names."""
        cameras = [f"{name}={clip}" for name in names]
        command = [
            *SIGHTLINE,
            "camera",
            *cameras,
            "--host",
            self.address(_OUTSIDE),
            "--port",
            str(CAMERA_PORT),
            "--live",
        ]
        self.start(_OUTSIDE, command, log="cameras.log")

    def start_receiver(self) -> None:
        """Let the receiver listen."""
        arguments = [self.address(_OUTSIDE), str(self.folder / "arrivals.jsonl"), str(RECEIVER_PORT)]
        self.start(_OUTSIDE, [sys.executable, "-c", _RECEIVER, *arguments], log="receiver.log")

    def start_probe(self, number: int) -> None:
        """Ask the controller on a machine for its status ten times a second, and write down when it answers."""
        arguments = [self.address(number), str(self.folder / "answers.txt"), str(CONTROLLER_PORT), TOKEN]
        self.start(_OUTSIDE, [sys.executable, "-c", _PROBE, *arguments], log="probe.log")

    def camera(self, name: str) -> str:
        """The address of a camera."""
        return f"rtsp://{self.address(_OUTSIDE)}:{CAMERA_PORT}/{name}"

    @property
    def receiver(self) -> str:
        """Where records go."""
        return f"http://{self.address(_OUTSIDE)}:{RECEIVER_PORT}/"

    def processes(self, number: int) -> list[int]:
        """The ids of all processes of a machine."""
        done = subprocess.run(["ip", "netns", "pids", self._name(number)], capture_output=True, text=True, check=False)
        return [int(pid) for pid in done.stdout.split()]

    def kill(self, number: int) -> int:
        """Kill all processes of a machine at once; return the time of day."""
        now_ns = time.time_ns()
        while pids := self.processes(number):
            for pid in pids:
                with_signal(pid, signal.SIGKILL)
            for process in self.started[number]:
                process.wait(60)
        self.started[number].clear()
        return now_ns

    def cut(self, number: int, *, is_cut: bool = True) -> int:
        """Pull the cable of a machine, or put it in again; return the time of day."""
        now_ns = time.time_ns()
        _ip("-n", self._name(_OUTSIDE), "link", "set", f"port{number}", "down" if is_cut else "up")
        return now_ns

    def part(self, one: int, other: int, *, is_parted: bool = True) -> int:
        """Lose all packets between two machines, in silence, or deliver them again; return the time of day."""
        now_ns = time.time_ns()
        for here, there in ((one, other), (other, one)):
            place = ("-n", self._name(here), "neigh")
            if is_parted:  # nobody has that hardware address
                wrong = ("lladdr", _NOBODY, "dev", "eth0", "nud", "permanent")
                _ip(*place, "replace", self.address(there), *wrong)
            else:
                _ip(*place, "del", self.address(there), "dev", "eth0")
        return now_ns

    def answered(self, since_ns: int) -> int | None:
        """When the controller answered first since then, as time of day; None when it has not."""
        path = self.folder / "answers.txt"
        times = map(int, path.read_text().split("\n")[:-1]) if path.exists() else ()
        return next((one for one in times if one > since_ns), None)

    def arrivals(self, since: int = 0) -> list[Arrival]:
        """What the receiver has got, without the first ones."""
        path = self.folder / "arrivals.jsonl"
        lines = path.read_text().split("\n")[since:-1] if path.exists() else []
        return [Arrival(*json.loads(line)) for line in lines]

    def close(self) -> None:
        """End everything, and take the network down."""
        for number in list(self.started):
            self.kill(number)
        known = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
        for name in (line.split()[0] for line in known.splitlines() if line.startswith(self.prefix)):
            for pid in self.processes(int(name.removeprefix(self.prefix + "-"))):
                with_signal(pid, signal.SIGKILL)
            _ip("netns", "delete", name)

    def _name(self, number: int) -> str:
        return f"{self.prefix}-{number}"


SIGHTLINE = (sys.executable, "-m", "sightline.cli.main")


@contextmanager
def machines(folder: Path, count: int) -> Iterator[Machines]:
    """Yield so many machines. Raises CalledProcessError or FileNotFoundError where namespaces are not allowed."""
    made = Machines(folder)
    try:
        made.build(count)
        yield made
    finally:
        made.close()


def with_signal(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used. Raises OSError when it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def runs(pid: int, program: str) -> bool:
    """Whether a process was started with that word in its command."""
    try:
        return program in Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return False


def doubled(arrivals: Sequence[Arrival]) -> int:
    """How many records a receiver would count twice that keeps the newest `(epoch, seq)` of each stream."""
    newest: dict[str, tuple[int, int]] = {}
    hosts: dict[tuple[str, int, int], str] = {}
    twice = 0
    for one in arrivals:
        if (one.epoch, one.seq) <= newest.get(one.stream, (-1, -1)):
            continue
        newest[one.stream] = one.epoch, one.seq
        twice += hosts.setdefault((one.stream, one.epoch, one.seq), one.host) != one.host
    return twice


def missing_frames(arrivals: Sequence[Arrival]) -> dict[str, int]:
    """How many frames have no record, by the address of the machine, between the first and the last one of each
    epoch.
    """
    found: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for one in arrivals:
        found[one.host, one.stream, one.epoch].add(one.frame)
    missing: dict[str, int] = defaultdict(int)
    for (host, _, _), frames in found.items():
        missing[host] += max(frames) - min(frames) + 1 - len(frames)
    return {host: count for host, count in sorted(missing.items()) if count}


def events(path: Path) -> list[dict[str, Any]]:
    """The events that a controller has written down."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def unreported(arrivals: Sequence[Arrival], reported: Sequence[Mapping[str, Any]]) -> list[str]:
    """Interruptions that nobody reported: epochs without the event of a gap before them, and missing numbers."""
    gaps = {(one["stream"], one["epoch"]) for one in reported if one["kind"] == ClusterEventKind.STREAM_GAP}
    numbers: dict[tuple[str, int], set[int]] = defaultdict(set)
    for one in arrivals:
        numbers[one.stream, one.epoch].add(one.seq)
    first = {stream: min(epoch for name, epoch in numbers if name == stream) for stream, _ in numbers}
    missing = [
        f"{stream}@{epoch}" for stream, epoch in numbers if epoch != first[stream] and (stream, epoch) not in gaps
    ]
    holes = [f"{stream}@{epoch}" for (stream, epoch), own in numbers.items() if own != set(range(len(own)))]
    return [
        *(f"no gap is reported before {one}" for one in missing),
        *(f"records of {one} are missing" for one in holes),
    ]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=True)
