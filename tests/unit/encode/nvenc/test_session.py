"""Whether a GPU has a video encoder: asked of the driver's own library, here of one that pretends."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest
from tests.fakes import fake_cuda_device

from sightline.devices.cuda.device import CudaDevice
from sightline_plugins.encode import nvenc_library
from sightline_plugins.encode.nvenc_library import reason_against_sessions, session_status

HANDLE, CONTEXT = 0x77, 0x1234
UNSUPPORTED_DEVICE = 2
_OPEN_AT, _DESTROY_AT = 240, 224
"""Where `nvEncodeAPI.h` has these two functions, in bytes from the start of the list."""


class Library:
    """What `libnvidia-encode.so.1` does; it notes what it is asked."""

    def __init__(self, *, status: int = 0, refuses: int = 0) -> None:
        self.status, self.refuses = status, refuses
        self.opened: list[tuple[int, int, int, int]] = []
        self.destroyed: list[int] = []
        open_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
        destroy_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        self._open, self._destroy = open_type(self._opens), destroy_type(self._destroys)

    def NvEncodeAPICreateInstance(self, listed: object) -> int:  # noqa: N802  NVIDIA's name
        place = ctypes.cast(listed, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
        assert ctypes.c_uint32.from_address(place).value == 0x7102000C
        ctypes.c_void_p.from_address(place + _OPEN_AT).value = ctypes.cast(self._open, ctypes.c_void_p).value
        ctypes.c_void_p.from_address(place + _DESTROY_AT).value = ctypes.cast(self._destroy, ctypes.c_void_p).value
        return self.refuses

    def _opens(self, params: int, encoder: ctypes._Pointer[ctypes.c_void_p]) -> int:
        version, kind = (ctypes.c_uint32.from_address(params + at).value for at in (0, 4))
        device = ctypes.c_void_p.from_address(params + 8).value or 0
        api = ctypes.c_uint32.from_address(params + 24).value
        self.opened.append((version, kind, device, api))
        encoder[0] = HANDLE
        return self.status

    def _destroys(self, encoder: int) -> int:
        self.destroyed.append(encoder)
        return 0


@pytest.fixture
def gpu() -> Iterator[CudaDevice]:
    with fake_cuda_device() as gpu:
        yield gpu


def test_a_session_is_opened_in_the_context_and_closed_again() -> None:
    library = Library()

    assert session_status(library, ctypes.c_void_p(CONTEXT)) == 0
    assert library.opened == [(0x7101000C, 1, CONTEXT, 0x0100000C)]
    assert library.destroyed == [HANDLE]


def test_a_session_that_is_refused_is_closed_too() -> None:
    library = Library(status=UNSUPPORTED_DEVICE)

    assert session_status(library, ctypes.c_void_p(CONTEXT)) == UNSUPPORTED_DEVICE
    assert library.destroyed == [HANDLE]


def test_a_driver_that_is_too_old_opens_none() -> None:
    library = Library(refuses=15)

    assert session_status(library, ctypes.c_void_p(CONTEXT)) == 15
    assert library.opened == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (0, None),
        (UNSUPPORTED_DEVICE, "this GPU has no NVENC"),
        (10, "NVENC has no room for another session"),
        (99, "NVENC cannot be used: its error 99"),
    ],
)
def test_each_status_has_its_reason(
    monkeypatch: pytest.MonkeyPatch, gpu: CudaDevice, status: int, reason: str | None
) -> None:
    class Cuda:
        def cuCtxGetCurrent(self, place: object) -> int:  # noqa: N802  CUDA's name
            return 0

    libraries = {nvenc_library.LIBRARY: Library(status=status), "libcuda.so.1": Cuda()}
    monkeypatch.setattr(ctypes, "CDLL", libraries.__getitem__)

    assert reason_against_sessions(gpu) == reason


def test_a_driver_without_the_library_has_a_reason(monkeypatch: pytest.MonkeyPatch, gpu: CudaDevice) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)

    assert reason_against_sessions(gpu) == "the driver brings no video encoder (libnvidia-encode.so.1 is missing)"
