"""Every element that ships keeps the contract of elements."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from sightline.config import parse_steps
from sightline.graph import Element, Registry
from sightline.media import Batch, Objects, Origin
from sightline.testing import conformance, make_batches, make_frames
from tests.conftest import missing
from tests.fakes import fake_cuda_device
from tests.unit.infer import mean_color, tiny_maps

DETECTIONS = "".join(f"{frame},-1,{4 + frame},10,12,12,0.9,-1,-1,-1\n" for frame in range(1, 9))


ABOUT_IMAGES = (
    conformance.frames_pass_unchanged,
    conformance.shared_pixels_are_not_written_to,
    conformance.results_do_not_depend_on_batch_size,
)
"""The checks that ask something else where images lie in a GPU's memory."""


def nothing(batch: Batch) -> Batch:
    """A function for `apply` and `callback`."""
    return batch


HERE = "tests.conformance.test_elements:nothing"
OPTIONS: dict[str, dict[str, object]] = {
    "absence": {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]], "after": "1s"}},
    "amqp": {"url": "amqp://127.0.0.1"},
    "apply": {"function": HERE},
    "callback": {"function": HERE},
    "camera_health": {"interval": "40ms", "learn": "80ms", "after": "40ms", "frozen_after": "40ms"},
    "classify": {"model": "colors.onnx", "labels": list(mean_color.COLORS), "on": "car", **mean_color.PLAIN},
    "coco": {"path": "{stream}.json"},
    "combine": {"both": "lines.a.in then lines.a.out"},
    "crowd": {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]], "at_least": 1}},
    "csv": {"path": "{stream}.csv"},
    "describe": {"url": "http://127.0.0.1:9/v1", "model": "m", "path": "d.db", "about": "segments"},
    "detect": {"model": "models/street.onnx"},
    "direction": {"right": {"allowed": 0}},
    "dewarp": {"views": {"left": {"yaw": -40, "size": [64, 48]}, "right": {"yaw": 40, "size": [64, 48]}}},
    "draw": {},
    "drift": {"interval": "40ms", "window": "400ms", "learn": "1600ms"},
    "embed": {"model": "colors.onnx", "on": "car", **mean_color.PLAIN},
    "flow": {"mode": "dense", "arrows": True},
    "harvest": {"path": "harvest", "apart": 0, "random": 0.5},
    "heat_map": {"standing": {}},
    "flows": {
        "left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]},
        "right": {"polygon": [[0.6, 0], [1, 0], [1, 1], [0.6, 1]]},
    },
    "infer": {"model": "heatmaps.onnx", "head": "tests.unit.infer.own_heads:red_cells", "on": "car"},
    "jsonl": {"path": "{stream}.jsonl"},
    "kafka": {"url": "kafka://127.0.0.1:9092"},
    "kitti": {"path": "{stream}.txt"},
    "left_objects": {"hall": {"after": "1s"}},
    "lines": {"middle": {"from": [0.5, 0], "to": [0.5, 1]}},
    "loitering": {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]}},
    "mot": {"path": "{stream}.txt"},
    "mqtt": {"url": "mqtt://127.0.0.1"},
    "multi_camera": {},
    "nats": {"url": "nats://127.0.0.1"},
    "otlp": {"url": "http://127.0.0.1"},
    "parking": {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]}},
    "parquet": {"path": "out"},
    "pose": {"model": "heatmaps.onnx", "on": "car", "reinfer_interval": "1s"},
    "postgres": {"url": "postgresql://127.0.0.1/site"},
    "privacy": {"on": "car", "detector": "detect-1"},
    "publish": {"hls": "{stream}/index.m3u8"},
    "queue": {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]}},
    "read": {"model": "stripes.onnx", "labels": ["a", "b"], "on": "car"},
    "record": {"path": "{stream}-{time}.mp4"},
    "redis": {"url": "redis://127.0.0.1"},
    "replay": {"path": "det.txt", "label": "car"},
    "rerun": {"path": "{stream}.rrd"},
    "search_index": {"path": "tracks.db", "encoder": "models/search", "min_size": 8, "least": 0, "settle": 0},
    "segment": {"model": "map.onnx", "labels": list(tiny_maps.CLASSES), **tiny_maps.PLAIN},
    "snapshots": {"path": "{stream}-{frame}.jpg"},
    "speed": {"road": {"ground": {"from": [0, 0], "to": [1, 0], "length": 9}}},
    "sqlite": {"path": "{stream}.db"},
    "stabilise": {},
    "stopped": {"anywhere": {"after": "1s"}},
    "tensors": {"model": "map.onnx", "on": "car", **tiny_maps.PLAIN},
    "tile": {"video": "wall.mp4"},
    "track": {},
    "video": {"path": "{stream}.mp4"},
    "webhook": {"url": "http://127.0.0.1"},
    "zones": {"left": {"polygon": [[0, 0], [0.4, 0], [0.4, 1], [0, 1]]}},
}


def moving_objects() -> list[Batch]:
    """Eight frames of one stream, an object with a track that walks to the right; every other frame was searched."""
    batches = []
    for batch in make_batches(make_frames(8)):
        left = 4 + 6 * batch.frames[0].index
        found = Objects.from_columns(
            frame=[0],
            xyxy=[[left, 10, left + 12, 22]],
            confidence=[0.9],
            class_id=[0],
            track_id=np.array([7]),
            source=Origin("detect-1", ("car",)),
        )
        searched = {0} if batch.frames[0].index % 2 == 0 else set()
        batches.append(batch.with_objects(found).with_search("detect-1", searched))
    return batches


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(compiled_once: None) -> None:
    """Models and kernels are compiled for the first check that needs them."""


@pytest.fixture(params=OPTIONS)
def element(request: pytest.FixtureRequest, repository: Path, tmp_path: Path) -> Element:
    if request.param == "rerun" and find_spec("rerun") is None:
        missing("the package rerun is not installed")
    (tmp_path / "det.txt").write_text(DETECTIONS)
    mean_color.write_mean_color(tmp_path / "colors.onnx", gain=2)
    mean_color.write_line_reader(tmp_path / "stripes.onnx")
    tiny_maps.write_class_map(tmp_path / "map.onnx")
    tiny_maps.write_heatmaps(tmp_path / "heatmaps.onnx")
    options = dict(OPTIONS[request.param])
    base = repository if request.param in ("detect", "search_index") else tmp_path
    (step,) = parse_steps([{request.param: options}], base_folder=base)
    assert isinstance(step, Element)
    return step


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_the_contract_is_kept(check: Callable[[conformance.Case], None], element: Element, tmp_path: Path) -> None:
    check(conformance.Case(element, moving_objects(), outputs=tmp_path))


def test_images_on_a_gpu_are_dealt_with_as_the_contract_says(element: Element, tmp_path: Path) -> None:
    with fake_cuda_device(memory_bytes=2**26, pinned_bytes=2**26) as gpu:
        there = [[frame.surface.to_device(gpu) for frame in batch.frames] for batch in moving_objects()]
        batches = [batch.with_surfaces(own) for batch, own in zip(moving_objects(), there, strict=True)]

        for check in ABOUT_IMAGES:
            check(conformance.Case(element, batches, outputs=tmp_path / check.__name__, gpu=gpu))


def test_every_installed_element_is_among_them() -> None:
    registry = Registry()

    assert sorted(OPTIONS) == [name for name in registry.element_names if registry.package(name) == "sightline"]


def test_describing_elements_imports_nothing_heavy() -> None:
    code = (
        "import sys; from sightline.graph import Registry; r = Registry();"
        "[r.element(n) for n in r.element_names]; [r.source(n) for n in r.source_names];"
        "print([m for m in ('cv2', 'av', 'openvino', 'onnxruntime', 'onnx') if m in sys.modules])"
    )

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"
