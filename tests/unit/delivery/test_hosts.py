"""Hosts of URLs are found, and those that do not exist are distinguished from those that may."""

from __future__ import annotations

import socket
from typing import NoReturn

import pytest

from sightline_plugins.delivery.hosts import hosts_of, is_known


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("mqtt://broker", ["broker"]),
        ("mqtt://user:pa@ss@broker:1883/x", ["broker"]),
        ("kafka://one:9092,two:9092", ["one", "two"]),
        ("redis://[::1]:6379/0", ["::1"]),
        ("unix:///run/redis.sock", []),
    ],
)
def test_hosts_are_read_from_a_url(url: str, hosts: list[str]) -> None:
    assert hosts_of(url) == hosts


def test_a_host_that_has_an_address_is_known() -> None:
    assert is_known("127.0.0.1")
    assert is_known("localhost")


def test_a_name_that_no_host_can_have_is_not_known() -> None:
    assert not is_known("x" * 300)


@pytest.mark.parametrize(("number", "known"), [(socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)])
def test_a_name_service_that_is_away_refuses_nothing(monkeypatch: pytest.MonkeyPatch, number: int, known: bool) -> None:
    def fail(*_: object) -> NoReturn:
        raise socket.gaierror(number, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", fail)

    assert is_known("broker.example") is known
