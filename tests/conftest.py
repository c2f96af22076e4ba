"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import tests.fakes  # noqa: F401  they take the place of libraries before any test imports those

REPOSITORY = Path(__file__).resolve().parent.parent

# The same examples in every run, and none of them fails because the machine is busy. `make fuzz` looks further.
settings.register_profile(
    "same every time", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same every time")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay till the end: the collector of garbage need not go through them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def missing(reason: str) -> None:
    """Skip the test for want of a part; fail instead where all parts must be present (SIGHTLINE_REQUIRE_ALL=1)."""
    if os.environ.get("SIGHTLINE_REQUIRE_ALL") == "1":
        pytest.fail(f"{reason}, and SIGHTLINE_REQUIRE_ALL=1 forbids skipping")
    pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def _signals_are_heard() -> None:
    """Programs that a shell or `nohup` starts in the background ignore Ctrl-C and hangups, and so would whatever the
    tests start.
    """
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="session", autouse=True)
def _no_cache() -> Iterator[None]:
    """Compiled models and kernels are kept only where tests ask for it: `compiled`, or a folder of their own.

    Models run at fp32 unless a test says otherwise, so that results do not depend on the processor.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGHTLINE_CACHE", "off")
        patch.setenv("SIGHTLINE_PRECISION", "fp32")
        yield


@pytest.fixture(scope="session", autouse=True)
def _tokens_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tokens that tests make are kept in a file of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGHTLINE_TOKENS", str(tmp_path_factory.mktemp("tokens") / "tokens.json"))
        yield


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where models and kernels that were compiled are kept till the end of the run, for all its processes."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "compiled"


@pytest.fixture(scope="module")
def compiled_once(compiled: Path) -> Iterator[None]:
    """What the tests of a module need is compiled at most once in the run, perhaps for another module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGHTLINE_CACHE", str(compiled))
        yield


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of shared videos, models and ground truth, which is not part of the repository."""
    folder = Path(os.environ.get("SIGHTLINE_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        missing(f"no shared test data at {folder} (set SIGHTLINE_SHARED_DATA)")
    return folder
