"""Tests of the device run on two drivers: the fake, and the real one over the null driver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.null_driver import NullCudaDriver
from tests.unit.devices.cuda.drivers import DriverKind, MakeDriver, TestedDriver, fresh_gpus


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both drivers for whoever uses one; the fake alone where a test says why: `fake_driver("reason")`."""
    if "driver_kind" in metafunc.fixturenames:
        needs_fake = metafunc.definition.get_closest_marker("fake_driver") is not None
        metafunc.parametrize("driver_kind", ["fake"] if needs_fake else ["fake", "null"])


@pytest.fixture
def make_driver(driver_kind: DriverKind) -> Iterator[MakeDriver]:
    """What is left open on the null driver is closed: its later end would release the context of another test."""
    make, made = fresh_gpus(driver_kind), list[TestedDriver]()

    def make_one(index: int = 0) -> TestedDriver:
        made.append(make(index))
        return made[-1]

    yield make_one
    for driver in made:
        if isinstance(driver, NullCudaDriver):
            driver.close()


@pytest.fixture
def driver(make_driver: MakeDriver) -> TestedDriver:
    return make_driver()
