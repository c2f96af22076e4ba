"""What `redis` reports about its options before anything runs."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from sightline.devices import Device
from sightline.errors import MissingExtra
from sightline.graph import CheckContext, Site
from sightline.graph.outputs import Outputs
from sightline.graph.transport import Record
from sightline_plugins.delivery.redis import Redis, RedisTransport

pytest.importorskip("redis")
CONTEXT = CheckContext(Device(), ("gate",), Outputs())


def problems(**options: Any) -> list[str]:
    return [problem.message for problem in Redis(**options).check(CONTEXT)]


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://localhost:6379/",
        "redis://user:p%40ss@localhost:6379/15",
        "rediss://[::1]:6380/0",
        "unix:///run/redis.sock",
        "unix://user:pw@/run/redis.sock?db=3",
    ],
)
def test_addresses_of_all_kinds_are_accepted(url: str) -> None:
    assert problems(url=url) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://localhost", "begins with redis://, rediss://, unix://"),
        ("redis://:secret@/0", "the address has no host"),
        ("redis://u:secret@localhost/first", "is the number of the database, such as /0"),
        ("redis://u:secret@localhost/0?socket_timeout=1", "nothing but a number of the database"),
        ("unix:///run/redis.sock?password=secret", "nothing but a number of the database"),
        ("unix://u:secret@", "the path of a socket is written"),
    ],
)
def test_an_address_that_means_nothing_is_one_problem_without_its_password(url: str, message: str) -> None:
    (found,) = problems(url=url)

    assert message in found
    assert "secret" not in found


def test_an_unknown_placeholder_in_the_key_is_reported() -> None:
    (found,) = problems(url="redis://localhost", key="x:{steam}")

    assert "{stream}" in found


def test_a_missing_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "redis.connection", raising=False)

    with pytest.raises(MissingExtra, match=r"pip install 'sightline\[redis\]'"):
        Redis(url="redis://localhost").transport(Site(Device()))


def test_parts_of_names_that_a_key_gives_a_meaning_are_replaced() -> None:
    element = Redis(url="redis://localhost")

    assert element.address("a:b {1} *?", "events", pipeline="Süd") == "sightline:Süd:a_b_1_:events"


@pytest.mark.parametrize("max_length", [None, 100_000])
@pytest.mark.parametrize("stream", ["gate", "gäte ☃", "a" * 300, ""])
@pytest.mark.parametrize("body", [b"{}", b"", b"\r\n$1\r\n", bytes(range(256)) * 300])
def test_a_command_is_packed_as_the_client_packs_it(stream: str, body: bytes, max_length: int | None) -> None:
    from redis.connection import Connection

    record = Record(stream, 1_764_000_000, 12_345, "events", f"key:{stream}", body, 0, "text/plain")
    limit = () if max_length is None else ("MAXLEN", "~", max_length)
    fields = {"stream": stream, "epoch": 1_764_000_000, "seq": 12_345, "kind": "events", "content_type": "text/plain"}
    words = ("XADD", f"key:{stream}", *limit, "*", *(part for pair in fields.items() for part in pair), "body", body)
    client: Any = Connection

    assert RedisTransport(Redis(url="redis://localhost", max_length=max_length))._command(record) == b"".join(
        client().pack_command(*words)
    )
