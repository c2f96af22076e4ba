"""Lines of `gst-launch-1.0` become pipelines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sightline.config import load_description
from tests.command_line import called
from tests.integration.imported.places import prepared

_DEEPSTREAM = r"""#!/bin/sh
# Two files side by side.
export GST_DEBUG=2
gst-launch-1.0 -e nvstreammux name=mux batch-size=2 width=1920 height=1080 ! \
  nvinfer config-file-path=four_files/detector.txt interval=1 ! \
  nvtracker ll-lib-file=libnvds_nvmultiobjecttracker.so ll-config-file=four_files/dcf.yml ! \
  nvmultistreamtiler rows=1 columns=2 width=1280 height=360 ! nvvideoconvert ! nvdsosd display-clock=true ! \
  "video/x-raw(memory:NVMM), format=I420" ! nvv4l2h265enc bitrate=4000000 ! h265parse ! matroskamux ! \
  filesink location=out.mkv \
  filesrc location=sample_videos/street.mp4 ! qtdemux ! h264parse ! nvv4l2decoder ! mux.sink_0 \
  uridecodebin uri=rtsp://viewer:sesame@10.0.0.9/main ! mux.sink_1 nvsegvisuall width=3
echo done ! nvdsosd
"""
_DLSTREAMER = (
    "gst-launch-1.0 filesrc location=sample_videos/street.mp4 ! decodebin ! video/x-raw, format=BGRx ! "
    "gvadetect model=models/street.xml device=CPU threshold=0.4 inference-interval=2 ! gvatrack "
    "tracking-type=short-term-imageless ! gvametaconvert format=json ! gvametapublish method=file "
    "file-path=results.json ! gvafpscounter ! gvawatermark ! videoconvert ! autovideosink sync=false"
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    return prepared(tmp_path_factory.mktemp("gst"), repository)


def imported(world: Path, line: str) -> tuple[Mapping[str, Any], str]:
    """The pipeline that a line becomes, as plain data, and the report."""
    result = called("import", "gst", line, "-o", "gst.yaml", "--overwrite", folder=world)
    assert result.returncode == 0, result.stderr
    return YAML(typ="safe", pure=True).load((world / "gst.yaml").read_text()), result.stdout


def test_a_script_of_deepstream_becomes_a_pipeline(world: Path) -> None:
    (world / "run.sh").write_text(_DEEPSTREAM)

    pipeline, report = imported(world, "run.sh")

    assert pipeline["sources"] == {
        "source0": "sample_videos/street.mp4",
        "source1": "rtsp://viewer:${SOURCE1_PASSWORD}@10.0.0.9/main",
    }
    assert [one if isinstance(one, str) else next(iter(one)) for one in pipeline["pipeline"]] == [
        "detect",
        "track",
        "draw",
        "tile",
    ]
    assert pipeline["pipeline"][0]["detect"]["every"] == 2
    assert pipeline["pipeline"][3]["tile"]["video"] == {"path": "out.mkv", "codec": "h265", "bitrate": "4M"}
    assert "?   11  [nvsegvisuall] width=3: no step is known for this element" in report
    assert "sesame" not in report


def test_a_line_of_dl_streamer_becomes_a_pipeline_that_is_right(world: Path) -> None:
    pipeline, report = imported(world, _DLSTREAMER)

    assert pipeline["pipeline"] == [
        {"detect": {"model": "models/street.onnx", "every": 2, "confidence": 0.4}},
        "track",
        {"jsonl": {"path": "out/results.jsonl"}},
        "draw",
        {"publish": {"web": True}},
    ]
    assert "[gvadetect] model=models/street.xml: the ONNX file that it was made from, street.onnx" in report
    load_description(world / "gst.yaml")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nowhere.sh", "is no file, and no line of elements"),
        ("   ", "is no file, and no line of elements"),
        ("gst-launch-1.0 gvadetect device=CPU ! fakesink", "gst-launch-1.0:1: gvadetect names no model"),
        ("filesrc location=a.mp4 ! nvinfer ! fakesink", "[primary-gie] names no config-file"),
        ("filesrc location=a.mp4 ! nvinfer interval=many ! fakesink", "names no config-file"),
        ("filesrc a.mp4 ! = ! fakesink", "is no element, property or link"),
    ],
)
def test_what_is_no_line_is_one_error(world: Path, line: str, message: str) -> None:
    result = called("import", "gst", line, "-o", "broken.yaml", folder=world)

    assert result.returncode == 2
    assert message in result.stderr
    assert not (world / "broken.yaml").exists()


def test_a_password_before_a_host_is_not_shown(world: Path) -> None:
    result = called(
        "import", "gst", "gvametapublish method=mqtt address=me:sesame@localhost:1883 topic=a", folder=world
    )

    assert 'url: "mqtt://me:${MQTT_PASSWORD}@localhost:1883"' in result.stdout
    assert "sesame" not in result.stdout + result.stderr
