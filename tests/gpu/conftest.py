"""Tests that need an NVIDIA GPU: `make gpu-test`. Where there is none, they skip and say why.

A test that takes too long ends alone, and the others go on. None needs a network. What is compiled is compiled once:
for the run, or for all runs where `SIGHTLINE_CACHE` names a folder.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.opening import open_cuda, why_not

LIMIT_SECONDS = 150
_GIVEN_CACHE = os.environ.get("SIGHTLINE_CACHE")
"""What the environment says before the fixtures of all tests change it."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give each test its limit: a signal raises in the test, where a thread would end the whole run."""
    item.add_marker(pytest.mark.timeout(LIMIT_SECONDS, method="signal"))


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(compiled: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGHTLINE_CACHE", str(compiled) if _GIVEN_CACHE in (None, "off") else str(_GIVEN_CACHE))
        yield


@pytest.fixture(autouse=True)
def _without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def only_here(own: socket.socket, address: Any) -> None:
        if own.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test of GPUs wants a network: {address[0]}")
        connect(own, address)

    monkeypatch.setattr(socket.socket, "connect", only_here)


@pytest.fixture
def gpu() -> Iterator[CudaDevice]:
    """The first GPU, open."""
    reason = why_not(0)
    if reason is not None:
        pytest.skip(reason)
    gpu = open_cuda(0)
    yield gpu
    gpu.close()
