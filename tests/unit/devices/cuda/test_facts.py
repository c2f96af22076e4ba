"""The parts of a GPU installation: what works, and why not; whatever a part does to the process that tries it."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError

import pytest

from sightline.devices.cuda import facts
from sightline.devices.cuda.facts import Part, parts, places, tried_parts
from sightline.devices.cuda.libcuda import DriverFacts
from sightline.devices.cuda.probe import PARTS

PROGRAM = """
import json, os, sys, time
print("a library says hello")
for name in sys.argv[1:]:
    if name == ENDS:
        os._exit(1)
    if name == HANGS:
        time.sleep(600)
    print(json.dumps({"part": name, "text": name + " 1.0", "works": True}), flush=True)
"""


def program(*, ends: str = "", hangs: str = "") -> list[str]:
    return [sys.executable, "-c", f"ENDS, HANGS = {ends!r}, {hangs!r}\n{PROGRAM}"]


def test_every_part_is_told() -> None:
    assert tried_parts(program()) == [Part(name, works=True, text=f"{name} 1.0") for name in PARTS]


def test_a_part_that_ends_the_program_is_told_and_the_others_are_tried() -> None:
    found = {part.name: part for part in tried_parts(program(ends="NVDEC"))}

    assert found["NVDEC"] == Part("NVDEC", works=False, text="trying it ended the program, with exit code 1")
    assert [name for name, part in found.items() if not part.works] == ["NVDEC"]


def test_a_part_that_hangs_is_told_and_the_others_are_tried() -> None:
    found = {part.name: part for part in tried_parts(program(hangs="NVENC"), timeout_seconds=2)}

    assert found["NVENC"].text == "trying it took more than 2 s"
    assert [name for name, part in found.items() if not part.works] == ["NVENC"]


def test_without_a_driver_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = {"pycuda", "PyNvVideoCodec", "tensorrt", "tensorrt_rtx"}
    monkeypatch.setattr(facts, "driver_facts", lambda: DriverFacts(reason="no driver"))
    for name in libraries:
        monkeypatch.delitem(sys.modules, name, raising=False)

    found = parts()

    assert [part.name for part in found] == [*PARTS]
    assert not any(part.works for part in found)
    assert places(found) == [("decode, models, drawing, encode", "on the CPU, because there is no driver")]
    assert not libraries & set(sys.modules)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine with a driver; the packages that are installed on it, by name."""
    installed: dict[str, str] = {}

    def version(package: str) -> str:
        if package not in installed:
            raise PackageNotFoundError(package)
        return installed[package]

    monkeypatch.setattr(facts, "driver_facts", DriverFacts)
    monkeypatch.setattr(facts, "why_not", lambda index: None)
    monkeypatch.setattr(facts, "version", version)
    return installed


def all_but(*lacking: str) -> list[Part]:
    return [Part(name, works=name not in lacking, text="1.0") for name in PARTS]


@pytest.mark.usefixtures("packages")
def test_work_goes_where_all_that_it_needs_works() -> None:
    found = dict(places(all_but()))

    assert found["decode"] == "on the GPU, by PyNvVideoCodec, NVDEC"
    assert found["preprocess, draw"] == "on the GPU, by cuda-bindings, NVRTC"
    assert found["models"] == "on the GPU, by TensorRT (1.0); what it does not take, on the CPU"
    assert found["encode"] == "on the GPU, by NVENC"


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("work", ["decode", "encode"])
def test_video_goes_to_the_cpu_where_a_part_can_not_be_used(work: str) -> None:
    found = dict(places(all_but("NVDEC", "NVENC")))

    assert found[work] == f"on the CPU (NV{work[:3].upper()} cannot be used: see there)"


@pytest.mark.usefixtures("packages")
def test_without_what_kernels_need_a_gpu_is_of_no_use() -> None:
    found = dict(places(all_but("NVRTC")))

    assert found["preprocess, draw"].startswith("nowhere: ")
    assert "(NVRTC cannot be used: see there)" in found["preprocess, draw"]


@pytest.mark.parametrize(
    ("lacking", "installed", "place"),
    [
        (
            (),
            {"onnxruntime-gpu": "1.20"},
            "TensorRT (1.0); what it does not take, by ONNX Runtime's CUDA provider (1.20)",
        ),
        (("TensorRT",), {"onnxruntime-gpu": "1.20"}, "on the GPU, by ONNX Runtime's CUDA provider (1.20)"),
        (
            ("TensorRT",),
            {},
            "on the CPU (TensorRT cannot be used; onnxruntime-gpu is not installed instead of onnxruntime)",
        ),
    ],
)
def test_models_go_to_the_first_engine_that_is_there(
    packages: dict[str, str], lacking: tuple[str, ...], installed: dict[str, str], place: str
) -> None:
    packages |= installed

    assert place in dict(places(all_but(*lacking)))["models"]


@pytest.mark.usefixtures("packages")
def test_nothing_goes_to_a_gpu_that_can_not_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "why_not", lambda index: "it is older than Turing")

    (everything,) = places(all_but())

    assert everything[1] == "on the CPU, because cuda:0 cannot be used: see Devices"
