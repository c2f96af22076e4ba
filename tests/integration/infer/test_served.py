"""Models served elsewhere: the same answers as here, and one clear error for whatever a server can do wrong."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.errors import ConfigurationError, ModelError
from sightline.media import Batch, Frame, PixelFormat, Stream
from sightline.media.convert import surface_from_rgb
from sightline.testing import run_element
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.infer.detect import Detect
from sightline_plugins.preprocess.definition import ImageForm
from tests.conftest import missing
from tests.integration.infer.served import Served, by_triton, find_triton, over_grpc, over_http
from tests.ports import free_port
from tests.unit.engines.graphs import small_network
from tests.unit.infer.tiny import LABELS, image, write_detector

FORM = ImageForm(scale=(1 / 255,))
SEEN = np.random.default_rng(4).integers(0, 256, (1, 32, 32, 3), np.uint8)


@pytest.fixture(autouse=True)
def _client() -> None:
    if importlib.util.find_spec("tritonclient") is None:
        missing("tritonclient is not installed: pip install 'sightline[triton]'")


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(write_detector(tmp_path / "m.onnx"))


@pytest.fixture(params=["grpc", "http"])
def address(request: pytest.FixtureRequest, served: Served) -> Iterator[str]:
    """Where the model is served."""
    with (over_grpc if request.param == "grpc" else over_http)(served) as server:
        yield f"{request.param}://{server}/{served.name}"


def boxes(model: str | Path) -> list[Any]:
    element = Detect.model_validate(
        {"model": str(model), "labels": LABELS, "head": "fastestdet", "color": "rgb", "confidence": 0.5}
    )
    seen = surface_from_rgb(image((1, 2, "yellow"), (6, 5, "pink")), pixel_format=PixelFormat.RGB24)
    (result,) = run_element(element, [Batch((Frame(Stream("cam"), 0, 0, seen),))])
    return sorted((view.label, view.xyxy, round(view.confidence, 5)) for view in result.objects)


def test_a_served_model_gives_the_answers_that_it_gives_here(address: str, tmp_path: Path) -> None:
    opened = open_engine(address, image=FORM, concurrency=3)
    here = open_engine(tmp_path / "m.onnx", engine="onnxruntime", image=FORM)
    expected = here.submit((SEEN,)).result()[0]

    pending = [opened.submit((SEEN,)) for _ in range(12)]

    assert opened.report["engine"] == "triton"
    assert [str(spec) for spec in opened.inputs] == ["images uint8 (1, 32, 32, 3)"]
    for work in pending:
        np.testing.assert_allclose(work.result()[0], expected, atol=1e-6)
    opened.close()
    here.close()


def test_detect_finds_the_same_with_a_served_model(address: str, tmp_path: Path) -> None:
    assert boxes(address) == boxes(tmp_path / "m.onnx")


def test_an_open_size_and_an_open_batch_are_served_too(tmp_path: Path) -> None:
    path = tmp_path / "free.onnx"
    path.write_bytes(small_network(batch="N", size_wh=("w", "h")).SerializeToString())
    with over_http(Served(path)) as server:
        opened = open_engine(f"http://{server}/tiny", image=FORM, concurrency=1)
        assert opened.inputs[0].shape == (1, None, None, 3)
        assert opened.submit((SEEN,)).result()[0].shape == (1, 6, 32, 32)
        opened.close()


def test_a_model_served_for_four_is_filled(tmp_path: Path) -> None:
    path = tmp_path / "four.onnx"
    path.write_bytes(small_network(batch=4).SerializeToString())
    served = Served(path)
    with over_http(served) as server:
        opened = open_engine(f"http://{server}/tiny", image=FORM, concurrency=1)
        before = served.calls
        pending = [opened.submit((SEEN[:, :24],)) for _ in range(8)]
        assert all(np.array_equal(work.result()[0], pending[0].result()[0]) for work in pending)
        assert served.calls - before == (2 if opened.report["batch"] == "fixed 4" else 8)
        opened.close()


def test_a_model_that_the_server_does_not_have_is_named(address: str) -> None:
    with pytest.raises(ModelError, match=r"/other': the server says: .*no model"):
        open_engine(address.replace("/tiny", "/other"), image=FORM)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_server_that_is_not_there_is_named(protocol: str) -> None:
    port = free_port()
    with pytest.raises(ModelError, match=rf"the server does not answer at 127\.0\.0\.1:{port}"):
        open_engine(f"{protocol}://127.0.0.1:{port}/tiny", image=FORM)


@pytest.mark.parametrize(("protocol", "serve"), [("grpc", over_grpc), ("http", over_http)])
def test_a_server_that_is_gone_is_named(protocol: str, serve: Any, served: Served) -> None:
    with serve(served) as server:
        opened = open_engine(f"{protocol}://{server}/tiny", image=FORM, concurrency=1)
    with pytest.raises(ModelError, match="the server"):
        opened.submit((SEEN,)).result()
    opened.close()


@pytest.mark.parametrize("answer", [np.zeros((1, 7, 4, 4), np.float32), np.zeros((1, 7, 8, 8), np.int64)])
def test_an_answer_of_another_form_than_announced_is_named(
    address: str, served: Served, answer: np.ndarray[Any, Any]
) -> None:
    served.answers["map"] = answer
    opened = open_engine(address, image=FORM, concurrency=1)
    with pytest.raises(ModelError, match=r"output map float32 \(1, 7, 8, 8\) expected, the server gave"):
        opened.submit((SEEN,)).result()
    opened.close()


@pytest.mark.parametrize("model", ["grpc://host/name", "http://host:8000", "https://host:1/name", "grpc://h:1/a/b"])
def test_an_address_of_another_form_is_reported(model: str) -> None:
    with pytest.raises(ConfigurationError, match="grpc://HOST:PORT/NAME"):
        open_engine(model)


def test_a_local_engine_cannot_use_a_served_model() -> None:
    with pytest.raises(ConfigurationError, match="leave engine out"):
        open_engine("grpc://127.0.0.1:1/tiny", engine="openvino")


def test_the_engine_triton_needs_an_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="needs a served model"):
        open_engine(write_detector(tmp_path / "m.onnx"), engine="triton")


def test_triton_itself_serves_the_same_answers(tmp_path: Path) -> None:
    if find_triton() is None:
        pytest.skip("Triton is not installed: it is tried where tritonserver or nvidia-pytriton is")
    model = write_detector(tmp_path / "m.onnx")
    ports = free_port(), free_port()
    with by_triton(model, tmp_path, ports=ports):
        for protocol, port in zip(("http", "grpc"), ports, strict=True):
            assert boxes(f"{protocol}://127.0.0.1:{port}/tiny") == boxes(model)
            with pytest.raises(ModelError, match="/other': the server says"):
                open_engine(f"{protocol}://127.0.0.1:{port}/other", image=FORM)
