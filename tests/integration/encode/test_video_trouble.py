"""Killed processes, full disks, unwritable places: what was written stays readable."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.encode.clips import frames_at, read_back
from tests.integration.figures import Record
from tests.open_files import needs_descriptors, nothing_left_open

from sightline.devices import Device
from sightline.errors import OutputError
from sightline.graph import Outputs, Site
from sightline.testing import make_batches, make_frames, run_element
from sightline_plugins.sinks.video import Video

ENDLESS = """
import dataclasses, sys
from pathlib import Path
from sightline.devices import Device
from sightline.graph import Outputs, Site
from sightline.testing import make_batches, make_frames
from sightline_plugins.sinks.video import Video

video = Video.model_validate({"path": sys.argv[1], "gop": "400ms"})
writer = video.build(Site(device=Device(), outputs=Outputs(Path(sys.argv[2]))))
images = make_frames(50, size_wh=(64, 48))
for index in range(1_000_000):
    frame = dataclasses.replace(images[index % 50], index=index, pts_ns=index * 40_000_000)
    writer.process(make_batches([frame])[0])
    print(index, flush=True)
"""
GOP_FRAMES = 10
HELD_BACK_BY_THE_ENCODER = 16
TOO_LARGE = "it has reached the largest size a file may have here; what was written before is kept"

LIMITED = """
import resource, sys
from pathlib import Path
from sightline.devices import Device
from sightline.errors import OutputError
from sightline.graph import Outputs, Site
from sightline.testing import make_batches, make_frames
from sightline_plugins.sinks.video import Video

path, folder, limit, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
video = Video.model_validate({"path": path, "gop": "400ms"})
writer = video.build(Site(device=Device(), outputs=Outputs(folder)))
errors = []
for batch in make_batches(make_frames(count, size_wh=(64, 48))):
    try:
        writer.process(batch)
    except OutputError as error:
        errors.append(f"process: {error}")
        if len(errors) == 2:
            break
for close in (writer.close, writer.close):
    try:
        close()
    except OutputError as error:
        errors.append(f"close: {error}")
print("\\n".join(errors))
"""


@pytest.mark.row(id="C5")
@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize("seed", range(4))
def test_a_killed_process_loses_at_most_one_gop(tmp_path: Path, suffix: str, seed: int, figure: Record) -> None:
    stop_at = random.Random(seed).randrange(40, 160)
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, f"clip.{suffix}", str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= stop_at:
                break
        child.send_signal(signal.SIGKILL)

    times_ns = read_back(tmp_path / f"clip.{suffix}", is_cut=True).times_ns()
    assert times_ns == [index * 40_000_000 for index in range(len(times_ns))]
    figure("lost of a drawn video, worst", (stop_at + 1 - len(times_ns)) / 25, limit=2.0, unit="s")
    assert len(times_ns) > stop_at - GOP_FRAMES - HELD_BACK_BY_THE_ENCODER


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_full_disk_is_an_error_for_each_frame_but_not_again_on_close_and_leaves_a_readable_file(
    tmp_path: Path, suffix: str
) -> None:
    errors = limited(f"clip.{suffix}", tmp_path, limit=100_000, frames=500)

    assert errors == [f"process: cannot write {tmp_path / f'clip.{suffix}'}: {TOO_LARGE}"] * 2
    times_ns = read_back(tmp_path / f"clip.{suffix}").times_ns()
    assert len(times_ns) >= GOP_FRAMES
    assert times_ns == [index * 40_000_000 for index in range(len(times_ns))]


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_a_disk_that_is_full_when_the_file_is_closed_costs_at_most_the_last_gop(tmp_path: Path, suffix: str) -> None:
    run_element(
        Video.model_validate({"path": f"whole.{suffix}", "gop": "400ms"}),
        make_batches(make_frames(30, size_wh=(64, 48))),
        outputs=tmp_path,
    )
    size = (tmp_path / f"whole.{suffix}").stat().st_size

    errors = limited(f"clip.{suffix}", tmp_path, limit=size - 20, frames=30)

    assert errors == [f"close: cannot close {tmp_path / f'clip.{suffix}'}: {TOO_LARGE}"]
    assert len(read_back(tmp_path / f"clip.{suffix}").ticks) >= 30 - GOP_FRAMES


def test_a_disk_that_is_full_before_the_first_gop_leaves_no_file_that_nothing_can_play(tmp_path: Path) -> None:
    errors = limited("clip.mp4", tmp_path, limit=4_000, frames=30)

    assert len(errors) == 2
    assert not list(tmp_path.iterdir())


def limited(name: str, folder: Path, *, limit: int, frames: int) -> list[str]:
    """Write noise in a process whose files cannot grow beyond the limit; return the errors it saw."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, name, str(folder), str(limit), str(frames)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_an_unwritable_place_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(OutputError, match=r"cannot open .*file/clip\.mp4: a part of its path is not a folder"):
        run_element(Video(path="file/clip.mp4"), make_batches(frames_at([0])), outputs=tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "clip.mp4").symlink_to(tmp_path / "elsewhere.mp4")

    with pytest.raises(OutputError, match="symbolic link"):
        run_element(Video(path="clip.mp4"), make_batches(frames_at([0])), outputs=tmp_path)
    assert not (tmp_path / "elsewhere.mp4").exists()


def test_a_size_the_encoder_refuses_is_an_error_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot encode video to .*clip\.mp4"):
        run_element(Video(path="clip.mp4"), make_batches(frames_at([0], size_wh=(20_000, 2))), outputs=tmp_path)

    assert not list(tmp_path.iterdir())


def test_closing_again_is_harmless(tmp_path: Path) -> None:
    writer = Video(path="clip.mp4").build(Site(device=Device(), outputs=Outputs(tmp_path)))
    batches = make_batches(frames_at([0, 40_000_000]))
    writer.process(batches[0])
    writer.close()
    writer.close()

    assert len(read_back(tmp_path / "clip.mp4").ticks) == 1


@needs_descriptors
def test_no_file_descriptor_is_left_open(tmp_path: Path) -> None:
    with nothing_left_open():
        for number in range(5):
            run_element(Video(path=f"{number}.mp4"), make_batches(frames_at([0])), outputs=tmp_path)
