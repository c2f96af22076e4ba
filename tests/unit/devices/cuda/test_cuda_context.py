"""Contexts of threads, with something that keeps pycuda's stack for each thread, as pycuda does."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sightline.devices.cuda import cuda_driver
from sightline.devices.cuda.cuda_driver import CudaDriver, Current
from sightline.devices.cuda.driver import DriverError, Harm


class Refused(Exception):
    """What pycuda raises."""


class Pycuda:
    """Stands for `pycuda.driver`: `stack` are the contexts of this thread."""

    Error = Refused

    def __init__(self) -> None:
        self.stack: list[Context] = []
        self.Context = self

    def pop(self) -> None:
        if self.stack.pop().is_dead:
            raise Refused("cuCtxPopCurrent failed")


class Context:
    """A context of one GPU."""

    def __init__(self, pycuda: Pycuda) -> None:
        self._pycuda = pycuda
        self.is_dead = False

    def push(self) -> None:
        if self.is_dead:
            raise Refused("cuCtxPushCurrent failed: not initialized")
        self._pycuda.stack.append(self)


@pytest.fixture
def pycuda() -> Iterator[Pycuda]:
    """In the end nothing stays behind in this thread."""
    pycuda = Pycuda()
    yield pycuda
    assert (pycuda.stack, cuda_driver._HERE.context, cuda_driver._INSIDE) == ([], None, set())


def test_a_block_within_one_of_the_same_gpu_changes_nothing(pycuda: Pycuda) -> None:
    context = Context(pycuda)

    with Current(context, pycuda), Current(context, pycuda):
        assert pycuda.stack == [context]


def test_a_block_within_one_of_another_gpu_makes_its_own_context_current(pycuda: Pycuda) -> None:
    one, other = Context(pycuda), Context(pycuda)
    seen = []

    with Current(one, pycuda), Current(other, pycuda):
        seen.append(pycuda.stack[-1])
        with Current(one, pycuda):
            seen.append(pycuda.stack[-1])
        seen.append(pycuda.stack[-1])

    assert seen == [other, one, other]


def test_a_context_that_is_gone_ends_the_work_of_its_gpu(pycuda: Pycuda) -> None:
    context = Context(pycuda)
    context.is_dead = True

    with pytest.raises(DriverError, match="cuCtxPushCurrent failed: not initialized") as raised:
        Current(context, pycuda).__enter__()

    assert raised.value.harm is Harm.DEVICE


def test_a_context_that_goes_within_a_block_ends_the_work_of_its_gpu(pycuda: Pycuda) -> None:
    context = Context(pycuda)

    with pytest.raises(DriverError, match="cuCtxPopCurrent failed"), Current(context, pycuda):
        context.is_dead = True


def test_a_driver_whose_context_is_gone_closes_all_the_same(pycuda: Pycuda, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = object.__new__(CudaDriver)
    driver._context, driver._pycuda = Context(pycuda), pycuda
    driver._context.is_dead = True
    abandoned = list[CudaDriver]()
    monkeypatch.setattr("sightline.devices.cuda.cuda_driver._ABANDONED", abandoned)

    driver.close()

    assert abandoned == [driver]


def test_when_the_program_ends_nobody_comes_in_and_who_is_in_is_waited_for(
    pycuda: Pycuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_driver, "_ENDING", threading.Event())
    context, is_in, may_leave = Context(pycuda), threading.Event(), threading.Event()

    def work() -> None:
        with Current(context, pycuda):
            is_in.set()
            may_leave.wait()

    working, ending = threading.Thread(target=work), threading.Thread(target=cuda_driver.end)
    working.start()
    is_in.wait()
    ending.start()
    cuda_driver._ENDING.wait()
    with pytest.raises(DriverError, match="the program ends"):
        Current(context, pycuda).__enter__()
    is_waiting = ending.is_alive()
    may_leave.set()
    ending.join()
    working.join()

    assert is_waiting


def test_who_does_not_leave_is_waited_for_so_long_and_no_longer(
    pycuda: Pycuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_driver, "_ENDING", threading.Event())
    monkeypatch.setattr(cuda_driver, "_INSIDE", {-1})

    cuda_driver.end(timeout_seconds=0.01)

    cuda_driver._INSIDE.clear()
