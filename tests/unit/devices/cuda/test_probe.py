"""What `doctor` says of a GPU's encoder, and of TensorRT-RTX on it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from sightline.devices.cuda import probe
from sightline.devices.cuda.libcuda import CudaFacts, DriverFacts
from sightline.errors import KernelError


def encoder(**widths: int) -> SimpleNamespace:
    """PyNvVideoCodec on a GPU that encodes images so wide; codecs that are not named raise."""

    def caps(gpu: int, codec: str) -> dict[str, int]:
        if codec not in widths:
            raise RuntimeError("nvEncOpenEncodeSessionEx returned error 2")
        return {"width_max": widths[codec]} if widths[codec] else {}

    return SimpleNamespace(GetEncoderCaps=caps)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (encoder(h264=4096, hevc=8192, av1=8192), "h264, hevc, av1"),
        (encoder(h264=4096, hevc=8192, av1=0), "h264, hevc"),
    ],
)
def test_it_names_the_codecs(monkeypatch: pytest.MonkeyPatch, module: SimpleNamespace, text: str) -> None:
    monkeypatch.setattr(probe, "import_module", lambda name: module)

    assert probe.PARTS["NVENC"](0) == text


def test_a_gpu_that_encodes_nothing_lacks_the_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(probe, "import_module", lambda name: encoder())

    probe.main(["0", "NVENC"])

    said = json.loads(capsys.readouterr().out)
    assert said == {"part": "NVENC", "text": "this GPU encodes nothing", "works": False}


@pytest.mark.parametrize(
    ("capability", "works", "text"),
    [
        ((8, 9), True, "1.7.1, as TensorRT-RTX"),
        ((9, 0), False, "1.7.1, as TensorRT-RTX, does not support compute capability 9.0"),
    ],
)
def test_a_gpu_that_tensorrt_rtx_does_not_support_is_told(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    capability: tuple[int, int],
    works: bool,
    text: str,
) -> None:
    library = SimpleNamespace(__version__="1.7.1", ComputeCapability=SimpleNamespace(__members__={"SM89": 1}))

    def imported(name: str) -> SimpleNamespace:
        if name != "tensorrt_rtx":
            raise ModuleNotFoundError(name)
        return library

    monkeypatch.setattr(probe, "import_module", imported)
    monkeypatch.setattr(probe, "driver_facts", lambda: DriverFacts((13, 0), (CudaFacts(0, "GPU", capability, 2**33),)))

    probe.main(["0", "TensorRT"])

    assert json.loads(capsys.readouterr().out) == {"part": "TensorRT", "text": text, "works": works}


@pytest.mark.parametrize(
    ("part", "error", "text"),
    [
        (
            "TensorRT",
            ModuleNotFoundError("no", name="tensorrt_rtx"),
            "not installed: pip install 'sightline[tensorrt]'",
        ),
        ("pycuda", ModuleNotFoundError("no", name="pycuda"), "not installed: pip install 'sightline[pycuda]'"),
        ("cuda-bindings", ModuleNotFoundError("no", name="cuda"), "not installed: pip install 'sightline[gpu]'"),
        ("TensorRT", ModuleNotFoundError("No module named 'x'", name="x"), "ModuleNotFoundError: No module named 'x'"),
        (
            "PyNvVideoCodec",
            RuntimeError("a library\nis missing\n\n=== STEPS ==="),
            "RuntimeError: a library is missing",
        ),
        ("NVRTC", KernelError("NVRTC failed"), "NVRTC failed"),
    ],
)
def test_an_error_is_one_line_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], part: str, error: Exception, text: str
) -> None:
    def fails(index: int) -> str:
        raise error

    monkeypatch.setitem(probe.PARTS, part, fails)

    probe.main(["0", part])

    assert json.loads(capsys.readouterr().out) == {"part": part, "text": text, "works": False}


def test_a_driver_without_a_video_decoder_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise OSError("libnvcuvid.so.1: cannot open shared object file")

    monkeypatch.setattr(probe, "nvdec_library", missing)

    probe.main(["0", "NVDEC"])

    assert json.loads(capsys.readouterr().out)["text"] == (
        "the driver brings no video decoder (libnvcuvid.so.1 is missing)"
    )


def test_tensorrt_for_another_cuda_than_the_driver_is_not_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(probe, "reason_against_tensorrt", lambda: "it is for CUDA 13")
    monkeypatch.setattr(probe, "import_module", None)

    probe.main(["0", "TensorRT"])

    assert json.loads(capsys.readouterr().out)["text"] == "it is for CUDA 13"
