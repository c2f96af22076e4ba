"""What there is of a GPU installation, and why not more: for `sightline doctor`.

Where there is no driver, nothing of it is imported. Where there is one, the parts are tried in another process, since
some of them end theirs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from sightline.devices.cuda.compatibility import reason_against_onnxruntime
from sightline.devices.cuda.libcuda import DriverFacts, driver_facts, driver_release
from sightline.devices.cuda.opening import why_not
from sightline.devices.cuda.probe import PARTS

_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "cuda-bindings": ("cuda-bindings",),
    "NVRTC": ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"),
    "TensorRT": ("tensorrt", "tensorrt-cu13", "tensorrt-cu12", "tensorrt-rtx", "tensorrt-rtx-cu13"),
    "PyNvVideoCodec": ("PyNvVideoCodec",),
    "pycuda": ("pycuda",),
}
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the installation: whether it can be used, and its version, what it can do, or the reason why not."""

    name: str
    works: bool
    text: str


def driver_text(facts: DriverFacts | None = None) -> str:
    """The driver in a few words, or the reason why there is none."""
    known = driver_facts() if facts is None else facts
    if known.cuda_version is None:
        return known.reason or "none"
    release = driver_release()
    newest = "up to CUDA {}.{}".format(*known.cuda_version)
    return newest if release is None else f"{release}, {newest}"


def parts(index: int = 0) -> list[Part]:
    """All parts, tried on that GPU; without a driver, what is installed of them."""
    if driver_facts().reason is not None:
        return [Part(name, works=False, text=_without_driver(name)) for name in PARTS]
    return tried_parts([sys.executable, "-m", "sightline.devices.cuda.probe", str(index)])


def tried_parts(command: Sequence[str], *, timeout_seconds: float = _TIMEOUT_SECONDS) -> list[Part]:
    """What a program says of the parts whose names it is given; one that ends the program is told, and left out."""
    found: dict[str, Part] = {}
    while left := [name for name in PARTS if name not in found]:
        output, end = _said([*command, *left], timeout_seconds)
        said = [part for line in output.splitlines() if (part := _read(line)) is not None and part.name in left]
        found.update({part.name: part for part in said})
        if len(said) < len(left):
            ended = next(name for name in left if name not in found)
            found[ended] = Part(ended, works=False, text=end)
    return [found[name] for name in PARTS]


def _said(command: Sequence[str], timeout_seconds: float) -> tuple[str, str]:
    """What a program wrote, and how it ended."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds, check=False)  # noqa: S603  our own program
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout.decode() if isinstance(expired.stdout, bytes) else expired.stdout or ""
        return output, f"trying it took more than {timeout_seconds:g} s"
    return done.stdout, f"trying it ended the program, with exit code {done.returncode}"


def _read(line: str) -> Part | None:
    """What a line says; libraries print lines, too."""
    try:
        said = json.loads(line)
        return Part(said["part"], said["works"], said["text"])
    except (ValueError, KeyError, TypeError):
        return None


def _without_driver(name: str) -> str:
    packages = _PACKAGES.get(name)
    if packages is None:
        return "not asked, because there is no driver"
    for package in packages:
        try:
            return f"{version(package)} is installed, but there is no driver"
        except PackageNotFoundError:
            continue
    return "not installed"


def places(found: Sequence[Part], index: int = 0) -> list[tuple[str, str]]:
    """What runs where on that GPU, and why not on it: pairs of the work and its place."""
    known = {part.name: part for part in found}
    if driver_facts().reason is not None:
        return [("decode, models, drawing, encode", "on the CPU, because there is no driver")]
    if why_not(index) is not None:
        return [("decode, models, drawing, encode", f"on the CPU, because cuda:{index} cannot be used: see Devices")]
    kernels = [known[name] for name in ("cuda-bindings", "NVRTC")]
    return [
        ("decode", _place([known["PyNvVideoCodec"], known["NVDEC"]])),
        ("preprocess, draw", _place(kernels, otherwise="nowhere: `device: cpu` needs none of them")),
        ("models", _place_of_models(known["TensorRT"])),
        ("encode", _place([known["NVENC"]])),
    ]


def _place(needed: Sequence[Part], *, otherwise: str = "on the CPU") -> str:
    lacking = ", ".join(part.name for part in needed if not part.works)
    if lacking:
        return f"{otherwise} ({lacking} cannot be used: see there)"
    return f"on the GPU, by {', '.join(part.name for part in needed)}"


def _place_of_models(tensorrt: Part) -> str:
    """TensorRT goes before ONNX Runtime, which goes before the CPU."""
    reason = reason_against_onnxruntime()
    try:
        provider = "" if reason else f"ONNX Runtime's CUDA provider ({version('onnxruntime-gpu')})"
    except PackageNotFoundError:
        provider = ""
    if tensorrt.works:
        rest = f"by {provider}" if provider else "on the CPU"
        return f"on the GPU, by TensorRT ({tensorrt.text}); what it does not take, {rest}"
    if provider:
        return f"on the GPU, by {provider}"
    why = reason or "onnxruntime-gpu is not installed instead of onnxruntime"
    return f"on the CPU (TensorRT cannot be used; {why})"
