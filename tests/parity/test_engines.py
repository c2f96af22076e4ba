"""On real models: rewritten graphs agree with the originals, and OpenVINO agrees with ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest

from sightline_plugins.engines.model_file import read_model
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.onnx_graph.inputs import fix_batch, fix_size
from sightline_plugins.onnx_graph.simplify import COMMON, OPENVINO, rewrite
from sightline_plugins.preprocess.definition import ImageForm

Tensors = list[npt.NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """How to feed a model: size of the image, range of its values, and what else it asks for.

    `ranked`: the outputs are labels, boxes and scores, best first; equally good ones may change places.
    """

    file: str
    size_wh: tuple[int, int]
    scale: float = 1.0
    mean: float = 0.0
    tolerance: float = 1e-4
    extra: dict[str, list[list[int]]] | None = None
    ranked: bool = False


CASES = [
    Case("FastestDet.onnx", (352, 352), scale=1 / 255),
    Case("SqueezeNet_fp16.onnx", (224, 224), tolerance=1e-3),
    Case("deeplab_v3_257.onnx", (257, 257), scale=1 / 127.5, mean=127.5),
    Case(
        "deimv2_hgnetv2_atto_coco.onnx",
        (320, 320),
        scale=1 / 255,
        extra={"orig_target_sizes": [[320, 320]]},
        ranked=True,
    ),
    Case("en_number_mobile_v2.0_rec.onnx", (160, 32), scale=1 / 127.5, mean=127.5),
    Case("osnet_x0_25_msmt17.onnx", (128, 256), scale=1 / 57, mean=116.0),
    Case("yolox_nano.onnx", (416, 416)),
    Case("yunet_n_dynamic.onnx", (320, 256)),
]


@pytest.fixture(params=CASES, ids=lambda case: Path(case.file).stem)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(params=["noise", "photograph"])
def image(request: pytest.FixtureRequest, case: Case, shared_data: Path) -> npt.NDArray[np.uint8]:
    """(1, H, W, 3) uint8 in the size of the model."""
    width, height = case.size_wh
    if request.param == "noise":
        return np.random.default_rng(1).integers(0, 256, (1, height, width, 3), dtype=np.uint8)
    photograph = cv2.imread(str(shared_data / "truth" / "classify" / "kitten_224.png"))
    resized: npt.NDArray[np.uint8] = np.asarray(cv2.resize(photograph, case.size_wh)[None], np.uint8)
    return resized


def rest(case: Case) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(np.array(value, np.int64) for value in (case.extra or {}).values())


@lru_cache(maxsize=1)
def original(path: Path) -> ort.InferenceSession:
    """The file as it is, in ONNX Runtime without any optimisation."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@lru_cache(maxsize=2)
def rewritten(path: Path, size_wh: tuple[int, int], engine: Literal["openvino", "onnxruntime"]) -> ort.InferenceSession:
    """The file as it is rewritten for an engine, in ONNX Runtime."""
    model, _ = read_model(path)
    fix_batch(model)
    fix_size(model, size_wh)
    simple = rewrite(model, OPENVINO if engine == "openvino" else COMMON)
    onnx.checker.check_model(simple)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(simple.SerializeToString(), options, providers=["CPUExecutionProvider"])


def compute(session: ort.InferenceSession, image: npt.NDArray[np.uint8], case: Case) -> Tensors:
    first = session.get_inputs()[0]
    seen = (image.astype(np.float32) - case.mean) * np.float32(case.scale)
    seen = seen if first.shape[-1] == 3 else np.ascontiguousarray(seen.transpose(0, 3, 1, 2))
    feeds = {first.name: seen.astype(np.float16 if "16" in first.type else np.float32)}
    feeds |= {name: np.array(value, np.int64) for name, value in (case.extra or {}).items()}
    found: Tensors = session.run(None, feeds)
    return found


def assert_close(found: Tensors, expected: Tensors, case: Case, *, tolerance: float) -> None:
    """Equal within `tolerance` of the range of the expected values, or of 1."""
    assert [array.shape for array in found] == [array.shape for array in expected]
    if case.ranked:
        found, expected = [ranked_rows(found)], [ranked_rows(expected)]
        nearest = np.abs(found[0][None] - expected[0][:, None]).max(axis=2).argmin(axis=1)
        found = [found[0][nearest]]
    for one, other in zip(found, expected, strict=True):
        wanted = other.astype(np.float64)
        scale = max(1.0, float(np.abs(wanted).max(initial=0)))
        np.testing.assert_allclose(one.astype(np.float64), wanted, rtol=0, atol=tolerance * scale)


def ranked_rows(outputs: Tensors) -> npt.NDArray[np.float64]:
    """(N, 6): label, box as shares of the image, score."""
    labels, boxes, scores = (array[0].astype(np.float64) for array in outputs)
    return np.column_stack([labels, boxes / 320, scores])


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_rewriting_for_an_engine_leaves_the_results_as_they_are(
    case: Case, image: npt.NDArray[np.uint8], shared_data: Path, engine: Literal["openvino", "onnxruntime"]
) -> None:
    path = shared_data / "models" / case.file
    found = compute(rewritten(path, case.size_wh, engine), image, case)
    assert_close(found, compute(original(path), image, case), case, tolerance=case.tolerance)


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_an_engine_agrees_with_the_original_in_onnx_runtime(
    case: Case, image: npt.NDArray[np.uint8], shared_data: Path, engine: Literal["openvino", "onnxruntime"]
) -> None:
    path = shared_data / "models" / case.file
    form = ImageForm(size_wh=case.size_wh, mean=(case.mean,), scale=(case.scale,))
    opened: Engine = open_engine(path, engine=engine, image=form, concurrency=1)
    found = list(opened.submit((image, *rest(case))).result())
    opened.close()
    assert_close(found, compute(original(path), image, case), case, tolerance=1e-3)
