"""Tries parts of a GPU installation, one after another: `python -m sightline.devices.cuda.probe INDEX PART...`.

It runs in a process of its own, because some libraries end theirs when they do not find what they want. Each part is
a line of JSON on standard output, written before the next part is tried:
`{"part": "NVDEC", "text": "...", "works": true}`.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from importlib import import_module

from sightline.devices.cuda.compatibility import reason_against_tensorrt
from sightline.devices.cuda.libcuda import (
    CODECS,
    NVDEC_LIBRARY,
    decoder_support,
    driver_facts,
    extra_for_driver,
    nvdec_library,
)
from sightline.errors import SightlineError

_EXTRAS = {"cuda": "gpu", "PyNvVideoCodec": "gpu", "tensorrt_rtx": "tensorrt", "pycuda": "pycuda"}
"""The extra that brings a module; TensorRT-RTX is tried where TensorRT is not there."""
_ENCODED = ("h264", "hevc", "av1")


class NotThere(Exception):
    """This machine lacks the part; the message is the reason, as a person reads it."""


def _bindings(_: int) -> str:
    bindings = import_module("cuda.bindings")
    import_module("cuda.bindings.driver")
    return str(bindings.__version__)


def _nvrtc(_: int) -> str:
    from sightline.devices.cuda.nvrtc import nvrtc_version

    return "{}.{}".format(*nvrtc_version())


def _tensorrt(index: int) -> str:
    if (reason := reason_against_tensorrt()) is not None:
        raise NotThere(reason)
    try:
        return str(import_module("tensorrt").__version__)
    except ModuleNotFoundError:
        library = import_module("tensorrt_rtx")
    major, minor = driver_facts().gpus[index].capability
    text = f"{library.__version__}, as TensorRT-RTX"
    if f"SM{major}{minor}" not in library.ComputeCapability.__members__:
        raise NotThere(f"{text}, does not support compute capability {major}.{minor}")
    return text


def _nvdec(index: int) -> str:
    try:
        library = nvdec_library()
    except OSError:
        raise NotThere(f"the driver brings no video decoder ({NVDEC_LIBRARY} is missing)") from None
    cuda, context, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
    for result in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), index),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        cuda.cuCtxSetCurrent(context),
    ):
        if result:
            raise NotThere(f"no context: CUDA error {result}")
    found, missing, engines = [], [], 0
    for codec in CODECS:
        deep = [depth for depth in (8, 10, 12) if decoder_support(library, codec, bit_depth=depth).is_supported]
        engines = max(engines, decoder_support(library, codec).engines)
        if deep:
            found.append(codec if deep == [8] else f"{codec} ({', '.join(map(str, deep))} bits)")
        else:
            missing.append(codec)
    lacks = f"; not {', '.join(missing)}" if missing else ""
    return f"{engines} engines: {', '.join(found) or 'nothing'}{lacks}"


def _pynvvideocodec(_: int) -> str:
    return str(import_module("PyNvVideoCodec").__version__)


def _nvenc(index: int) -> str:
    codec = import_module("PyNvVideoCodec")
    encoded = []
    for name in _ENCODED:
        try:
            caps = codec.GetEncoderCaps(index, name)
        except Exception:  # noqa: BLE001, S112  its errors are plain exceptions, and mean: not this codec
            continue
        if caps.get("width_max"):
            encoded.append(name)
    if not encoded:
        raise NotThere("this GPU encodes nothing")
    return ", ".join(encoded)


def _pycuda(_: int) -> str:
    driver, pycuda = import_module("pycuda.driver"), import_module("pycuda")
    driver.init()
    return f"{pycuda.VERSION_TEXT}, for CUDA {'.'.join(map(str, driver.get_version()))}"


PARTS: dict[str, Callable[[int], str]] = {
    "cuda-bindings": _bindings,
    "NVRTC": _nvrtc,
    "TensorRT": _tensorrt,
    "NVDEC": _nvdec,
    "PyNvVideoCodec": _pynvvideocodec,
    "NVENC": _nvenc,
    "pycuda": _pycuda,
}


def _reason(error: Exception) -> str:
    """An error as one line: of those that explain at length, the first paragraph."""
    if isinstance(error, ModuleNotFoundError) and (extra := _EXTRAS.get((error.name or "").partition(".")[0])):
        return f"not installed: pip install 'sightline[{extra if extra == 'pycuda' else extra_for_driver(extra)}]'"
    first = " ".join(str(error).partition("\n\n")[0].split())
    return first if isinstance(error, SightlineError) else f"{type(error).__name__}: {first}"


def main(arguments: list[str]) -> None:
    """Try these parts of the GPU of that number."""
    index = int(arguments[0])
    for part in arguments[1:]:
        try:
            said = {"part": part, "text": PARTS[part](index), "works": True}
        except NotThere as lack:
            said = {"part": part, "text": str(lack), "works": False}
        except Exception as error:  # noqa: BLE001  whatever a library raises is the answer
            said = {"part": part, "text": _reason(error), "works": False}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
