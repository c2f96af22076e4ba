"""`amqp`: mistakes that are found before anything connects."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.devices import Device
from sightline.graph import CheckContext, Outputs
from sightline_plugins import Amqp

URL = "amqp://localhost"


def problems(streams: tuple[str, ...] = ("gate",), **options: Any) -> list[tuple[str, tuple[str | int, ...]]]:
    context = CheckContext(device=Device(), streams=streams, outputs=Outputs())
    return [(problem.message, problem.key) for problem in Amqp(**{"url": URL, **options}).check(context)]


def keys(**options: Any) -> set[tuple[str | int, ...]]:
    return {key for _, key in problems(**options)}


def test_plain_options_have_no_problems() -> None:
    assert problems(url="amqps://site:secret@localhost:5671/north%20gate") == []


def test_no_password_is_shown() -> None:
    element = Amqp(url="amqp://site:secret@localhost/site")
    assert "secret" not in element.destination() + repr(element)


def test_another_scheme_is_a_problem() -> None:
    assert keys(url="kafka://localhost") == {("url",)}


@pytest.mark.parametrize("key", ["{pipeline}.#", "*.{kind}", "{nothing}"])
def test_a_routing_key_with_wildcards_or_unknown_words_is_a_problem(key: str) -> None:
    assert keys(routing_key=key) == {("routing_key",)}


def test_a_long_name_is_cut_where_the_routing_key_would_be_too_long() -> None:
    assert Amqp(url=URL).address("n" * 255, "events", pipeline="site") == "site." + "n" * 100 + ".events"


def test_a_routing_key_that_is_too_long_nevertheless_is_a_problem() -> None:
    assert keys(routing_key="k" * 200 + "{stream}", streams=("n" * 255,)) == {("routing_key",)}


def test_a_name_becomes_one_word_of_the_routing_key() -> None:
    assert Amqp(url=URL).address("gate.north #1*", "events", pipeline="a.b") == "a_b.gate_north_1_.events"


def test_the_url_names_the_virtual_host_and_the_user() -> None:
    parameters = Amqp(url="amqp://si%40te:p%2Fw@[::1]:5673/north%20gate")._parameters()
    assert (parameters.host, parameters.port, parameters.virtual_host) == ("::1", 5673, "north gate")
    assert (parameters.credentials.username, parameters.credentials.password) == ("si@te", "p/w")


@pytest.mark.parametrize("url", ["amqp://localhost", "amqp://localhost/", "amqp://localhost/%2F"])
def test_the_virtual_host_is_a_slash_unless_named(url: str) -> None:
    assert Amqp(url=url)._parameters().virtual_host == "/"
