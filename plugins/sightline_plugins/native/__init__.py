"""The compiled part: small loops over few elements, which NumPy spends more time on calling than on computing.

C sources (`*.c`) lie beside the Python that calls them; together they are one library, which the installation compiles
(`tools/release/wheel_hook.py`). Nothing in it allocates, keeps state or knows Python: functions read and write arrays
that the caller owns, of the types and sizes that their Python wrapper has checked. Results do not depend on the
processor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy.typing as npt

from sightline.errors import SightlineError

LIBRARY = Path(__file__).with_name("libsightline.so")
POINTER = ctypes.c_void_p
SIZE = ctypes.c_ssize_t
INT = ctypes.c_int
FLOAT = ctypes.c_float
DOUBLE = ctypes.c_double
_BYTES = ctypes.c_char * 0
_pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_in.argtypes, _pointer_in.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p


def function(name: str, *parameters: Any, result: Any = None, long: bool = False) -> Callable[..., Any]:
    """Return a function of the library, with the types of its parameters and its result.

    The GIL is kept, because other threads could hold it for milliseconds before a call of microseconds goes on; `long`
    releases it, for calls of more than about 50 microseconds. Raises SightlineError when the library is missing.
    """
    found = getattr(_library(long=long), name)
    found.argtypes, found.restype = parameters, result
    called: Callable[..., Any] = found
    return called


def pointer(array: npt.NDArray[Any]) -> Any:
    """Return what a `POINTER` parameter takes for a C-contiguous array; the array must outlive the call."""
    if array.flags.writeable and array.size:
        return _BYTES.from_buffer(array)  # type: ignore[arg-type]  # six times as fast as the address
    return array.ctypes.data


def values(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> bytes:
    """Return a copy of the values of an array, in C order, which a `POINTER` parameter takes that C only reads.

    For arrays of some kilobytes at most, of which the copy costs a tenth of what `pointer` does.
    """
    return array.astype(dtype, copy=False).tobytes()


def described(array: npt.NDArray[Any]) -> object:
    """Return an object that lives as long as it is used, for `description`: what C gets of an array with gaps."""
    return array.__array_struct__


def description(described: object) -> int:
    """Return what a `POINTER` parameter takes for an `Array` (native.h), in half the time of address and strides."""
    address: int = _pointer_in(described, None)
    return address


@cache
def _library(*, long: bool) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(LIBRARY)) if long else ctypes.PyDLL(str(LIBRARY))
    except OSError as error:
        raise SightlineError(
            f"the compiled part of Sightline cannot be loaded ({error}): install it again, with `pip install "
            "--force-reinstall --no-deps` and the wheel for this system, or `make install` in a copy of the repository"
        ) from error
