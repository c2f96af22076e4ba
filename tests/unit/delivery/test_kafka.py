"""`kafka`: what its options become, and mistakes that are found before anything connects."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.devices import Device
from sightline.graph import CheckContext, Outputs
from sightline_plugins import Kafka

URL = "kafka://localhost:9092,127.0.0.1:9093"


def problems(streams: tuple[str, ...] = ("gate",), **options: Any) -> list[tuple[str, tuple[str | int, ...]]]:
    context = CheckContext(device=Device(), streams=streams, outputs=Outputs())
    return [(problem.message, problem.key) for problem in Kafka(**{"url": URL, **options}).check(context)]


def keys(**options: Any) -> set[tuple[str | int, ...]]:
    return {key for _, key in problems(**options)}


def test_the_url_names_several_brokers() -> None:
    settings = Kafka(url=URL).settings("site")
    assert settings["bootstrap.servers"] == "localhost:9092,127.0.0.1:9093"
    assert settings["security.protocol"] == "plaintext"


def test_a_user_in_the_url_logs_in_over_tls() -> None:
    element = Kafka(url="kafkas://site:p%40ss%2Fw0rd@one,[::1]:9093", sasl="scram-sha-256")
    settings = element.settings("site")
    assert settings["bootstrap.servers"] == "one,[::1]:9093"
    assert settings["security.protocol"] == "sasl_ssl"
    assert settings["sasl.mechanism"] == "SCRAM-SHA-256"
    assert (settings["sasl.username"], settings["sasl.password"]) == ("site", "p@ss/w0rd")


def test_user_and_password_are_sent_plainly_unless_told_otherwise() -> None:
    assert Kafka(url="kafkas://site:secret@one").settings("site")["sasl.mechanism"] == "PLAIN"


def test_no_password_is_shown() -> None:
    element = Kafka(url="kafkas://site:secret@one,two", options={"ssl.key.password": "hidden"})
    assert "secret" not in element.destination() + repr(element)
    assert "hidden" not in repr(element)


def test_fewer_acknowledgements_end_idempotence() -> None:
    settings = Kafka(url=URL, acks=1).settings("site")
    assert (settings["acks"], settings["enable.idempotence"]) == ("1", False)
    assert settings["max.in.flight.requests.per.connection"] == 1


def test_plain_options_have_no_problems() -> None:
    assert problems(options={"linger.ms": 20, "client.id": "north"}, compression="zstd") == []


@pytest.mark.parametrize("sasl", ["plain", "scram-sha-256", "scram-sha-512"])
def test_librdkafka_accepts_each_way_to_log_in(sasl: str) -> None:
    assert problems(url="kafkas://site:secret@localhost:9093", sasl=sasl) == []


def test_each_broker_of_the_url_is_checked() -> None:
    assert keys(url="kafka://localhost:9092,localhost:99999") == {("url",)}
    assert keys(url="kafka://localhost,") == {("url",)}
    assert keys(url="kafka://localhost,no.such.host.invalid") == {("url",)}


def test_another_scheme_is_a_problem() -> None:
    assert keys(url="mqtt://localhost,127.0.0.1") == {("url",)}


@pytest.mark.parametrize("topic", ["site/{kind}", "a b", "caf\N{LATIN SMALL LETTER E WITH ACUTE}", "{nothing}", "."])
def test_a_topic_that_kafka_does_not_know_is_a_problem(topic: str) -> None:
    assert ("topic",) in keys(topic=topic)


def test_a_long_name_is_cut_where_the_topic_would_be_too_long() -> None:
    element = Kafka(url=URL, topic="site.{stream}")
    assert element.address("n" * 200, "events", pipeline="") == "site." + "n" * 200
    assert element.address("n" * 255, "events", pipeline="") == "site." + "n" * 100


def test_a_topic_that_is_too_long_nevertheless_is_a_problem() -> None:
    assert keys(topic="t" * 200 + "{stream}", streams=("n" * 250,)) == {("topic",)}


def test_a_setting_that_another_option_stands_for_is_a_problem() -> None:
    (problem,) = problems(options={"bootstrap.servers": "three"})
    assert problem == ("bootstrap.servers is set by `url`", ("options", "bootstrap.servers"))


def test_transactions_cannot_be_set() -> None:
    assert ("options", "transactional.id") in keys(options={"transactional.id": "a"})


def test_a_setting_that_librdkafka_does_not_know_is_named() -> None:
    (problem,) = problems(options={"linger": 20})
    assert '"linger"' in problem[0]


def test_sasl_without_a_password_is_a_problem() -> None:
    assert ("sasl",) in keys(sasl="plain")
