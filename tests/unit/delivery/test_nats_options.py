"""What `nats` reports about its options before anything runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sightline.devices import Device
from sightline.errors import ConfigurationError, MissingExtra
from sightline.graph import CheckContext, Site
from sightline.graph.outputs import Outputs
from sightline_plugins.delivery.nats import JetStream, Nats

pytest.importorskip("nats")
CONTEXT = CheckContext(Device(), ("gate",), Outputs())


def problems(**options: Any) -> list[str]:
    return [problem.message for problem in Nats(**options).check(CONTEXT)]


@pytest.mark.parametrize(
    "url", ["nats://localhost", "nats://user:p%40ss@localhost:4222", "tls://token@localhost", "tls://[::1]:4222"]
)
def test_addresses_of_all_kinds_are_accepted(url: str) -> None:
    assert problems(url=url) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mqtt://u:secret@localhost", "begins with nats://, tls://"),
        ("nats://u:secret@", "the address has no host"),
        ("nats://u:secret@localhost:99999", "with a port from 1 to 65535"),
    ],
)
def test_an_address_that_means_nothing_is_one_problem_without_its_password(url: str, message: str) -> None:
    (found,) = problems(url=url)

    assert message in found
    assert "secret" not in found


@pytest.mark.parametrize("subject", ["a..b", ".a", "a.", "a b", "a.*", "{stream}.>"])
def test_a_template_that_makes_no_subject_is_reported(subject: str) -> None:
    (found,) = problems(url="nats://localhost", subject=subject)

    assert "is no subject" in found


@pytest.mark.parametrize("name", ["a.b", "a b", "a*", "a>", "a/b", ""])
def test_a_name_that_a_stream_cannot_have_is_reported(name: str) -> None:
    with pytest.raises(ConfigurationError, match="stream"):
        JetStream(stream=name)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (True, JetStream(stream="SIGHTLINE")),
        (False, None),
        ({"max_age": "7d"}, JetStream(max_age="7d")),
    ],
)
def test_jetstream_is_switched_or_described(given: Any, meant: JetStream | None) -> None:
    assert Nats(url="nats://localhost", jetstream=given).stream_options() == meant


def test_a_user_and_a_file_of_credentials_contradict_each_other() -> None:
    with pytest.raises(ConfigurationError, match="credentials_file or a user in the URL, not both"):
        Nats(url="nats://user:pw@localhost", credentials_file=Path("site.creds"))


def test_a_missing_client_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    monkeypatch.delitem(sys.modules, "nats.js", raising=False)

    with pytest.raises(MissingExtra, match=r"pip install 'sightline\[nats\]'"):
        Nats(url="nats://localhost").transport(Site(Device()))


def test_credentials_files_name_the_extra_when_their_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nkeys", None)

    with pytest.raises(MissingExtra, match="needs the package 'nkeys'"):
        Nats(url="nats://localhost", credentials_file=Path("site.creds")).transport(Site(Device()))


def test_parts_of_names_that_a_subject_gives_a_meaning_are_replaced() -> None:
    element = Nats(url="nats://localhost")

    assert element.address("a.b *>c", "events", pipeline="Süd") == "sightline.Süd.a_b_c.events"
