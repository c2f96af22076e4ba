"""Recording through kills and full disks."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import pytest

from sightline import Pipeline
from sightline.devices import Device
from sightline.graph import MessageKind, Packets, Site
from sightline.media import Batch, Stream
from sightline_plugins import Media, Record
from tests.disks import SmallDisk, fill
from tests.integration.camera.clips import write_noise
from tests.integration.figures import Record as Measured
from tests.integration.record.scenes import INTERVAL_NS, Shown, Told, images

SECOND_NS = 1_000_000_000
KILLS = 25
"""Of each container: fifty in all."""
PATIENCE_SECONDS = 300.0

VICTIMS = """
import os, random, signal, sys
from pathlib import Path
from sightline.devices import Device
from sightline.graph import Outputs, Packets, Site
from sightline.media import Batch, Stream
from sightline_plugins import Media, Record
import sightline_plugins.sources.file.reader, sightline_plugins.record.stream_recorder

source, suffix, folder, seed = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])

def record(number, progress):
    site = Site(device=Device(), outputs=Outputs(folder / str(number)), packets=Packets())
    element = Record.model_validate({"path": "{time}." + suffix, "segment": "4s"})
    recorder = element.build(site)
    reader = Media(uri=source, loop=True).build(site, stream=Stream("cam"))
    for frame in reader.frames():
        recorder.consume(Batch((frame,)))
        os.write(progress, b"%d\\n" % frame.pts_ns)

chance = random.Random(seed)
for number in range(int(sys.argv[5])):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        record(number, writing)
    os.close(writing)
    with os.fdopen(reading) as lines:
        for _ in range(chance.randrange(60, 500)):
            last = next(lines)
        os.kill(child, signal.SIGKILL)
        for last in lines:
            pass
    os.waitpid(child, 0)
    print(int(last), flush=True)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key frames five seconds apart: what a kill costs must not depend on them."""
    return write_noise(
        tmp_path_factory.mktemp("source") / "source.mp4", count=250, key_every=125, b_frames=2, size_wh=(64, 48)
    )


@pytest.mark.row(id="C5")
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_kill_at_any_moment_costs_less_than_two_seconds(
    source: Path, suffix: str, tmp_path: Path, figure: Measured
) -> None:
    arguments = [str(source), suffix, str(tmp_path), str(random.Random(suffix).randrange(1000)), str(KILLS)]
    done = subprocess.run([sys.executable, "-c", VICTIMS, *arguments], capture_output=True, text=True, check=True)

    ended_ns = [int(line) for line in done.stdout.split()]
    assert len(ended_ns) == KILLS
    lost_ns: list[int] = []
    for number, last_ns in enumerate(ended_ns):
        *finished, last = sorted((tmp_path / str(number)).iterdir())
        shown = [*(images(file) for file in finished), _begun(last)]
        assert all(one[0].is_key for one in shown if one)
        readable_ns = sum(one[-1].pts_ns + INTERVAL_NS for one in shown if one)
        lost_ns.append(last_ns - readable_ns)
    figure(f"lost of a recording, {KILLS} kills, worst", max(lost_ns) / SECOND_NS, limit=2.0, unit="s")


def _begun(file: Path) -> list[Shown]:
    """What is in a file that may just have been begun, and then holds nothing that can be opened."""
    try:
        return images(file)
    except av.error.FFmpegError:
        return []


class StreamClock:
    """A clock that goes on by what the stream goes on."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def epoch_ns(self) -> int:
        return self.now_ns


def record_on(
    disk: SmallDisk, source: Path, *, seconds: int, each: Callable[[int], None] = lambda _: None, **options: Any
) -> Told:
    """Record so many seconds; `each` is called before each frame with its number."""
    told, clock = Told(), StreamClock()
    site = Site(device=Device(), outputs=disk, packets=Packets(), clock=clock, post=told)
    recorder = Record.model_validate({"path": "{time}.mp4", "segment": "2s", **options}).build(site)
    reader = Media(uri=str(source), loop=True).build(site, stream=Stream("cam"))
    for frame in reader.frames():
        if frame.index >= seconds * 25:
            break
        each(frame.index)
        clock.now_ns = frame.pts_ns
        recorder.consume(Batch((frame,)))
    reader.close()
    recorder.close()
    return told


@pytest.fixture(scope="module")
def short_groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_noise(tmp_path_factory.mktemp("short") / "short.mp4", count=100, key_every=25, size_wh=(64, 48))


def test_a_full_disk_is_told_once_and_what_was_written_stays_readable(short_groups: Path, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=200_000)

    told = record_on(disk, short_groups, seconds=30)

    (text,) = told.texts(MessageKind.SINK_DEGRADED)
    assert "the disk is full" in text
    assert MessageKind.SINK_RECOVERED not in told.kinds()
    files = sorted(tmp_path.iterdir())
    assert files
    assert all(images(file)[0].is_key for file in files)


def test_recording_goes_on_when_there_is_room_again(short_groups: Path, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=200_000)
    freed_at = 20 * 25

    def free(number: int) -> None:
        if number == freed_at:
            disk.capacity = 10_000_000

    told = record_on(disk, short_groups, seconds=40, each=free)

    kinds = told.kinds()
    assert kinds.count(MessageKind.SINK_DEGRADED) == kinds.count(MessageKind.SINK_RECOVERED) == 1
    after = told.recorded()[-1]
    resumed = next(file for file in told.recorded() if file.last_pts_ns > freed_at * INTERVAL_NS)
    assert resumed.first_pts_ns <= (freed_at * INTERVAL_NS) + 3 * SECOND_NS
    assert after.last_pts_ns == (40 * 25 - 1) * INTERVAL_NS
    assert all(len(file.shown) == file.count for file in told.recorded())


def test_the_oldest_recordings_make_room_where_they_may(short_groups: Path, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=200_000)

    told = record_on(disk, short_groups, seconds=40, keep={"age": "7d", "free": "0B"})

    files = [file for file in told.recorded() if file.path.exists()]
    assert files[-1].last_pts_ns == (40 * 25 - 1) * INTERVAL_NS
    assert all(images(file.path)[0].is_key for file in files)
    lost_ns = 40 * SECOND_NS - sum(file.last_pts_ns - file.first_pts_ns + INTERVAL_NS for file in told.recorded())
    assert lost_ns <= 40 * SECOND_NS // 2


def test_a_limit_of_size_keeps_the_disk_from_ever_being_full(short_groups: Path, tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=200_000)

    told = record_on(disk, short_groups, seconds=40, keep={"size": "100kB", "free": "0B"})

    assert MessageKind.SINK_DEGRADED not in told.kinds()
    assert told.recorded()[-1].last_pts_ns == (40 * 25 - 1) * INTERVAL_NS


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


@pytest.mark.row(id="C4")
def test_on_a_real_full_disk_nothing_else_stops(
    short_groups: Path, tmpfs: Path, tmp_path: Path, figure: Measured
) -> None:
    told, writers = Told(), {"record-1", "snapshots-1"}
    pipeline = Pipeline(
        sources={"cam": {"uri": str(short_groups), "loop": True, "realtime": True}},
        steps=[
            {"record": {"path": f"{tmpfs}/{{time}}.mp4", "segment": "1s"}},
            {"snapshots": {"path": f"{tmpfs}/{{frame}}.jpg", "every": "400ms"}},
            {"jsonl": {"path": "cam.jsonl"}},
        ],
        outputs=tmp_path,
    )
    pipeline.on_message(told)
    filler = tmpfs / "filler"
    with pipeline:
        until(lambda: bool(told.recorded()), "a segment is finished")
        fill(filler)
        filled = time.monotonic()
        until(lambda: told.elements(MessageKind.SINK_DEGRADED) == writers, "the disk is full")
        degraded_seconds = time.monotonic() - filled
        filler.unlink()
        freed = time.monotonic()
        until(lambda: told.elements(MessageKind.SINK_RECOVERED) == writers, "writing goes on")
        recovered_seconds = time.monotonic() - freed

    report = pipeline.report
    assert report is not None
    lines = [json.loads(line)["frame"] for line in (tmp_path / "cam.jsonl").read_text().splitlines()]
    figure("`record` and `snapshots` say that they are degraded after", degraded_seconds, limit=2.0, unit="s")
    figure("they write again, once there is room, after", recovered_seconds, limit=10.0, unit="s")
    figure("frames that are missing in a file on another disk", report.frames - len(lines), limit=0, unit="frames")
    assert lines == list(range(report.frames))
    assert all(images(file)[0].is_key for file in tmpfs.glob("*.mp4"))
