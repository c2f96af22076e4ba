"""Our decoder on the real PyNvVideoCodec, over a driver and an NVDEC that need no GPU (`tests/null_nvcuvid`)."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.frame import VideoFrame

from sightline_plugins.codecs.sps import Crop
from tests.conftest import missing
from tests.fakes.native_build import has_compiler
from tests.integration.sources.cropped import CODED_WH, whole_of, with_crop
from tests.null_driver import build_null_driver
from tests.null_nvcuvid import build_null_nvcuvid, pattern

COUNT = 30
CROP = Crop(6, 4, 2, 8)
CROPS = (Crop(), Crop(0, 0, 6, 2), Crop(6), Crop(0, 4), CROP)
SUFFIXES = ("mp4", "ts")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("PyNvVideoCodec has no wheel for this machine")
    if importlib.util.find_spec("PyNvVideoCodec") is None:
        missing("PyNvVideoCodec is not installed")
    if not has_compiler():
        missing("gcc is not installed (Debian: gcc)")
    folder = tmp_path_factory.mktemp("libraries")
    build_null_driver(folder)
    build_null_nvcuvid(folder)
    return folder


def write_pattern(path: Path, crop: Crop) -> Path:
    """A clip of the image that the null NVDEC shows, encoded without loss, whose SPS crops it."""
    options = {"profile": "baseline", "qp": "1", "g": "10", "sc_threshold": "0"}
    with av.open(whole_of(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options=options)
        stream.width, stream.height = CODED_WH
        for number in range(COUNT):
            frame = VideoFrame.from_ndarray(pattern(CODED_WH), "yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with av.open(whole_of(path)) as container:
        assert all(np.array_equal(frame.to_ndarray(), pattern(CODED_WH)) for frame in container.decode(video=0))
    return with_crop(path, crop, codec="libx264")


def decoded(repository: Path, libraries: Path, *clips: Path, which: str = "file") -> list[dict[str, Any]]:
    """What came of each clip, in a process of its own for all of them."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.gpu.nvdec_over_null", libraries, which, *clips],
        cwd=repository,
        env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def cropped(
    repository: Path, libraries: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[Crop, str], dict[str, Any]]:
    """What came of clips of all crops in all containers."""
    folder = tmp_path_factory.mktemp("cropped")
    clips = {
        (crop, suffix): write_pattern(folder / f"{number}.{suffix}", crop)
        for number, crop in enumerate(CROPS)
        for suffix in SUFFIXES
    }
    return dict(zip(clips, decoded(repository, libraries, *clips.values()), strict=True))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("crop", CROPS, ids=str)
def test_frames_are_those_of_the_cpu_and_nothing_is_left(
    cropped: dict[tuple[Crop, str], dict[str, Any]], crop: Crop, suffix: str
) -> None:
    found = cropped[crop, suffix]

    assert (found["decoder"], found["frames"], found["same"], found["times"]) == ("nvdec", COUNT, COUNT, True)
    assert found["nvdec"] == [0, 0, COUNT]
    assert (found["live"], found["orphans"]) == ({}, {})


def test_frames_of_a_camera_are_those_of_the_cpu(repository: Path, libraries: Path, tmp_path: Path) -> None:
    [found] = decoded(repository, libraries, write_pattern(tmp_path / "clip.mp4", CROP), which="camera")

    assert (found["decoder"], found["frames"], found["same"]) == ("nvdec", COUNT, COUNT)
    assert (found["live"], found["orphans"]) == ({}, {})


def test_a_crop_that_changes_is_followed(repository: Path, libraries: Path, tmp_path: Path) -> None:
    crops = [Crop(8), Crop(0, 0, 8), CROP, Crop()]
    parts = [write_pattern(tmp_path / f"{number}.ts", crop) for number, crop in enumerate(crops)]
    clip = tmp_path / "clip.ts"
    clip.write_bytes(b"".join(part.read_bytes() for part in parts))

    [found] = decoded(repository, libraries, clip)

    assert (found["decoder"], found["frames"], found["same"]) == ("nvdec", COUNT * len(crops), COUNT * len(crops))
    assert (found["times"], found["nvdec"]) == (True, [0, 0, COUNT * len(crops)])
    assert (found["live"], found["orphans"]) == ({}, {})


def test_pynvvideocodec_takes_the_cropped_size_from_the_corner(
    repository: Path, libraries: Path, tmp_path: Path
) -> None:
    clip = write_pattern(tmp_path / "clip.mp4", CROP)

    [found] = decoded(repository, libraries, clip, which="unaware unverified")

    assert (found["decoder"], found["same"]) == ("nvdec", 0)
    assert found["luma"] == pattern(CODED_WH)[:84, :152].tolist()


def test_that_is_found_by_comparing_the_first_frame(repository: Path, libraries: Path, tmp_path: Path) -> None:
    clip = write_pattern(tmp_path / "clip.mp4", CROP)

    [found] = decoded(repository, libraries, clip, which="unaware")

    assert (found["decoder"], found["frames"], found["same"]) == ("cpu", COUNT, COUNT)
    assert found["reason"].startswith("NVDEC's image differs from the CPU's: ")


def test_the_package_copies_luma_and_chroma_of_a_frame_and_we_both_at_once(
    repository: Path, libraries: Path, tmp_path: Path
) -> None:
    [found] = decoded(repository, libraries, write_pattern(tmp_path / "clip.mp4", Crop()))

    to_host = COUNT  # `frames_of` looks at each; the first one was compared, and is not copied again
    assert found["counts"]["cuMemcpy2DAsync"] == COUNT * (2 + 1) + to_host
    assert found["counts"]["cuStreamSynchronize"] == 1  # before the decoder is released
    assert found["counts"]["cuDevicePrimaryCtxRetain"] == 1  # nobody makes a context of its own
