"""Arguments are checked against a kernel's parameters, and packed by pointers."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sightline.devices.cuda.driver import (
    Extent,
    KernelArgument,
    PackedArguments,
    Parameter,
    blocks_for,
    check_launch,
    pack_arguments,
)

PAIR = np.dtype([("a", "<i4"), ("b", "<f4")])


@dataclass
class Buffer:
    address: int


def packed(declaration: str, argument: KernelArgument) -> PackedArguments:
    return pack_arguments("work", parameters=[Parameter.parse(declaration)], arguments=[argument])


def content(arguments: PackedArguments, *, dtype: str) -> Any:
    """The first argument, read as a GPU's driver does: through the array of pointers."""
    pointer = ctypes.c_void_p.from_address(arguments.address).value
    assert pointer is not None
    return np.frombuffer(ctypes.string_at(pointer, arguments.sizes_bytes[0]), dtype)[0]


def pair(a: int, b: float) -> np.void:
    value: np.void = np.array([(a, b)], PAIR)[0]
    return value


@pytest.mark.parametrize(
    ("declaration", "argument", "dtype", "expected"),
    [
        ("int n", -7, "<i4", -7),
        ("const unsigned int n", np.int64(7), "<u4", 7),
        ("unsigned char n", 255, "<u1", 255),
        ("long long n", 2**40, "<i8", 2**40),
        ("size_t n", 2**40, "<u8", 2**40),
        ("bool n", True, "?", True),
        ("float x", 1, "<f4", 1.0),
        ("float x", np.float64(0.5), "<f4", 0.5),
        ("double x", 0.1, "<f8", 0.1),
        ("float *x", Buffer(2**47), "<u8", 2**47),
        ("const unsigned char *__restrict__ x", np.uint64(2**47), "<u8", 2**47),
        ("const Pair *x", None, "<u8", 0),
    ],
)
def test_an_argument_is_what_the_parameter_says(
    declaration: str, argument: KernelArgument, dtype: str, expected: object
) -> None:
    assert content(packed(declaration, argument), dtype=dtype) == expected


def test_a_struct_is_given_by_value() -> None:
    value = content(packed("const Pair pair", pair(3, 0.5)), dtype="V8").view(PAIR)

    assert value == pair(3, 0.5)


def test_pointers_lead_to_the_arguments_one_after_another() -> None:
    parameters = [Parameter("a", "int"), Parameter("b", "float*"), Parameter("c", "Pair")]

    arguments = pack_arguments("work", parameters=parameters, arguments=[1, np.uint64(2), pair(3, 4)])

    assert arguments.sizes_bytes == (4, 8, 8)


@pytest.mark.parametrize(
    ("declaration", "argument", "reason"),
    [
        ("int n", 2**31, "it does not fit"),
        ("unsigned int n", -1, "it does not fit"),
        ("int n", 0.5, "a whole number is needed"),
        ("int n", None, "a whole number is needed"),
        ("float x", None, "a number is needed"),
        ("float *x", 12345, "something in the device's memory"),
        ("float *x", np.zeros(3), "something in the device's memory"),
        ("float *x", np.int64(12345), "something in the device's memory"),
        ("Pair x", 3, "a struct is given as a NumPy structured scalar"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(declaration: str, argument: Any, reason: str) -> None:
    parameter = Parameter.parse(declaration)

    with pytest.raises(
        TypeError, match=rf"kernel work: {re.escape(parameter.type)} {parameter.name} does not .*{reason}"
    ):
        packed(declaration, argument)


def test_what_lies_nowhere_is_refused() -> None:
    with pytest.raises(TypeError, match="it has no `address` in the device's memory"):
        packed("float *x", "text")  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [[], [1], [1, 2, 3]])
def test_a_wrong_number_of_arguments_is_refused(arguments: list[KernelArgument]) -> None:
    parameters = [Parameter("rows", "int"), Parameter("columns", "int")]

    with pytest.raises(TypeError, match=rf"takes 2 arguments \(rows, columns\), not {len(arguments)}"):
        pack_arguments("work", parameters=parameters, arguments=arguments)


def test_extents_are_filled_up_with_ones() -> None:
    assert check_launch("work", grid=5, block=(32, 8), shared=0) == ((5, 1, 1), (32, 8, 1))


@pytest.mark.parametrize(
    ("grid", "block", "shared", "reason"),
    [
        (0, 32, 0, r"grid \(0, 1, 1\) is not between"),
        ((1, 65_536), 32, 0, r"grid \(1, 65536, 1\) is not between"),
        (1, (1, 1, 65), 0, r"block \(1, 1, 65\) is not between"),
        (1, (32, 33), 0, "has more than 1024 threads"),
        (1, 32, 48 * 1024 + 1, "bytes of shared memory are not between"),
    ],
)
def test_launches_that_no_gpu_takes_are_refused(grid: Extent, block: Extent, shared: int, reason: str) -> None:
    with pytest.raises(ValueError, match=f"kernel work: .*{reason}"):
        check_launch("work", grid=grid, block=block, shared=shared)


@pytest.mark.parametrize(("count", "blocks"), [(0, 0), (1, 1), (32, 1), (33, 2)])
def test_blocks_cover_all_threads(count: int, blocks: int) -> None:
    assert blocks_for(count, block=32) == blocks
