"""What a kernel is called with: arguments checked against its parameters, and packed as `cuLaunchKernel` takes them.

A GPU checks none of this: it would read whatever lies behind a wrong number of arguments, or behind an address of the
host. So it is checked here, for the GPU and for tests alike.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

_SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "char": ctypes.c_int8,
    "signed char": ctypes.c_int8,
    "unsigned char": ctypes.c_uint8,
    "short": ctypes.c_int16,
    "unsigned short": ctypes.c_uint16,
    "int": ctypes.c_int32,
    "unsigned": ctypes.c_uint32,
    "unsigned int": ctypes.c_uint32,
    "long long": ctypes.c_int64,
    "unsigned long long": ctypes.c_uint64,
    "size_t": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_FLOATS = (ctypes.c_float, ctypes.c_double)
_QUALIFIERS = re.compile(r"\b(const|__restrict__|__grid_constant__)\b")


class Addressed(Protocol):
    """Something in the device's memory, such as a `DeviceArray`."""

    @property
    def address(self) -> int:
        """Where its first byte lies, in the device's memory."""
        ...


KernelArgument: TypeAlias = int | float | np.generic | Addressed | None
"""What a parameter takes.

a pointer            something with an `address`, an address as `np.uint64`, or None for a null pointer
a number             an int, a float or a NumPy scalar that fits into the parameter's type
a struct             a NumPy structured scalar (`np.void`) of the same size, by value
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel: its name, and its C type without qualifiers; a pointer's type ends in `*`."""

    name: str
    type: str

    @classmethod
    def parse(cls, declaration: str) -> Parameter:
        """The parameter that such a C declaration means: `const unsigned char *__restrict__ luma`."""
        plain = " ".join(_QUALIFIERS.sub(" ", declaration.replace("*", " * ")).split())
        type_, _, name = plain.rpartition(" ")
        return cls(name, type_.replace(" *", "*"))

    @property
    def is_pointer(self) -> bool:
        """Whether it takes an address."""
        return self.type.endswith("*")


class PackedArguments:
    """The arguments of one launch; `address` is that of an array of pointers to them. Keep it until the launch returns.

    The pointers lead to copies, and `cuLaunchKernel` copies again, so nothing of it need live until the kernel has run.
    What the addresses among them lead to must.
    """

    __slots__ = ("_pointers", "_values", "sizes_bytes")

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = tuple(values)
        self._pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self.sizes_bytes = tuple(ctypes.sizeof(value) for value in values)

    @property
    def address(self) -> int:
        """The address of the array of pointers: `kernelParams` of `cuLaunchKernel`."""
        return ctypes.addressof(self._pointers)


def pack_arguments(
    kernel: str, *, parameters: Sequence[Parameter], arguments: Sequence[KernelArgument]
) -> PackedArguments:
    """The arguments for a kernel of these parameters. Raises TypeError for one that does not fit, by its name."""
    if len(arguments) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        raise TypeError(f"kernel {kernel} takes {len(parameters)} arguments ({names}), not {len(arguments)}")
    values = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        try:
            values.append(_value(parameter, argument))
        except TypeError as error:
            said = f"kernel {kernel}: {parameter.type} {parameter.name} does not take {argument!r}: {error}"
            raise TypeError(said) from None
    return PackedArguments(values)


def _value(parameter: Parameter, argument: KernelArgument) -> Any:
    if parameter.is_pointer:
        return ctypes.c_uint64(_address(argument))
    scalar = _SCALARS.get(parameter.type)
    if scalar is None:
        if not isinstance(argument, np.void):
            raise TypeError("a struct is given as a NumPy structured scalar")
        return (ctypes.c_char * argument.nbytes).from_buffer_copy(argument.tobytes())
    if scalar in _FLOATS:
        if not isinstance(argument, int | float | np.integer | np.floating):
            raise TypeError("a number is needed")
        return scalar(float(argument))
    if not isinstance(argument, int | np.integer | np.bool_):
        raise TypeError("a whole number is needed")
    value = scalar(int(argument))
    if int(value.value) != int(argument):
        raise TypeError("it does not fit")
    return value


def _address(argument: KernelArgument) -> int:
    if argument is None:
        return 0
    if isinstance(argument, np.uint64):
        return int(argument)
    if isinstance(argument, int | float | np.generic | np.ndarray):
        raise TypeError("a pointer is given as something in the device's memory (with an `address`), or as np.uint64")
    try:
        return argument.address
    except AttributeError:
        raise TypeError("it has no `address` in the device's memory") from None
