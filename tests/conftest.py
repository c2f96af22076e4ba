"""Fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

import tests.fakes  # noqa: F401  they take the place of libraries before any test imports those

REPOSITORY = Path(__file__).resolve().parent.parent

LONG_UNITS = ("engines", "rules", "server", "track", "world")
"""Folders of unit tests in which files take 5 to 20 s of the processor: graphs, histories, simulated worlds."""

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes take one file after the other, mix files that wait with files that compute.

    Files of one folder are alike: five that wait for brokers would leave the processor idle, and five that open a
    browser would fight for it. Files of unit tests are short, so that some of them come last: not those of
    `LONG_UNITS`.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    files = sorted({item.path for item in items})
    units = [path for path in files if path.is_relative_to(REPOSITORY / "tests" / "unit")]
    units.sort(key=lambda path: path.parent.name not in LONG_UNITS)
    others = sorted(set(files) - set(units), key=lambda path: crc32(str(path.relative_to(REPOSITORY)).encode()))
    places = {path: number / len(units) for number, path in enumerate(units)}
    places |= {path: number / len(others) * 0.85 for number, path in enumerate(others)}
    items.sort(key=lambda item: places[item.path])


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
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def compiled(run_folder: Path) -> Path:
    """Where models and kernels that were compiled are kept till the end of the run, for all its processes."""
    return run_folder / "compiled"


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
