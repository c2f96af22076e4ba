"""The parts of a GPU installation: what works, and why not; whatever a part does to the process that tries it."""

from __future__ import annotations

import sys

import pytest

from sightline.devices.gpu import facts
from sightline.devices.gpu.facts import Part, parts, places, tried_parts
from sightline.devices.gpu.libcuda import DriverFacts
from sightline.devices.gpu.probe import PARTS

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
    found = {part.name: part for part in tried_parts(program(hangs="NVENC"), patience_seconds=2)}

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


def test_work_goes_where_all_that_it_needs_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "driver_facts", DriverFacts)

    found = dict(places([Part(name, works=True, text="") for name in PARTS]))

    assert found["decode"] == "on the GPU, by PyNvVideoCodec, NVDEC"
    assert found["models"] == "on the CPU, because onnxruntime-gpu is not installed in the place of onnxruntime"
    assert found["encode"] == "on the CPU"


def test_work_that_lacks_a_part_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "driver_facts", DriverFacts)

    found = dict(places([Part(name, works=name != "NVRTC", text="") for name in PARTS]))

    assert found["preprocess, draw"] == "not by pycuda, cuda-bindings, NVRTC, because of NVRTC: see there"
