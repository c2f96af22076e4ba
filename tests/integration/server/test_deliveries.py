"""Destinations in the metrics, the status and the report: one that is there, and one that is away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.server import Listener
from tests.integration.delivery.web_server import web_server
from tests.integration.server.conftest import Lint, ask, endless, wait_for, watched
from tests.integration.server.test_metrics import metrics
from tests.ports import free_port

PASSWORD = "hunter2"
ROW = re.compile(r"\| `(?P<metric>sightline_delivery_\w+)\{(?P<labels>[\w,]+)\}` \| (?P<type>\w+) \|")


@dataclass(frozen=True)
class Watched:
    """A pipeline with `webhook-1`, which delivers, and `webhook-2`, whose destination is away."""

    listener: Listener
    there: int
    away: int

    def deliveries(self) -> Mapping[str, Any]:
        return {one["id"]: one for one in ask(self.listener.port, "/status").json()["deliveries"]}


def hook(port: int) -> Mapping[str, object]:
    return {"webhook": {"url": f"http://admin:{PASSWORD}@127.0.0.1:{port}/seen", "timeout": "5s"}}


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A pipeline that has delivered to one of its destinations, and has lost the other."""
    outputs = tmp_path_factory.mktemp("street")
    with web_server(lambda exchange, _: exchange.answer(204)) as asked:
        there, away = int(asked.url.rpartition(":")[2]), free_port()
        pipeline = Pipeline(sources={"gate": endless()}, steps=[hook(there), hook(away)], outputs=outputs)
        with watched(pipeline) as listener:
            street = Watched(listener, there, away)
            wait_for(
                lambda: (
                    (found := street.deliveries())
                    and found["webhook-1"]["delivered"]
                    and found["webhook-2"]["state"] == "lost"
                    and found["webhook-2"]["oldest_seconds"]
                )
            )
            yield street


def test_the_linter_of_prometheus_finds_nothing(street: Watched, lint: Lint) -> None:
    assert lint(ask(street.listener.port, "/metrics").text) == ""


def test_the_guide_names_every_metric_with_its_type_and_labels(street: Watched, repository: Path) -> None:
    guide = (repository / "docs" / "guide" / "monitoring.md").read_text()
    named = {match["metric"]: (match["type"], match["labels"]) for match in ROW.finditer(guide)}

    text = ask(street.listener.port, "/metrics").text
    types = dict(re.findall(r"^# TYPE (sightline_delivery_\w+) (\w+)$", text, re.MULTILINE))
    labels = {
        name: ",".join(re.findall(r'(\w+)="', inner))
        for name, inner in re.findall(r"^(sightline_delivery_\w+)\{(.*)\}", text, re.MULTILINE)
    }
    assert {name: (kind, labels[name]) for name, kind in types.items()} == named


def test_the_metrics_say_what_waits_for_a_destination_that_is_away(street: Watched) -> None:
    found = metrics(street.listener)

    def of(name: str, destination: str) -> float:
        return found[f'sightline_delivery_{name}{{destination="{destination}"}}']

    assert [of("connected", one) for one in ("webhook-1", "webhook-2")] == [1, 0]
    assert of("records_delivered_total", "webhook-1") > 0
    assert of("records_waiting", "webhook-2") == of("records_total", "webhook-2") > 0
    assert of("oldest_record_seconds", "webhook-2") > 0
    assert of("retries_total", "webhook-2") > 0


def test_every_reason_of_a_loss_is_a_series_from_the_start_on(street: Watched) -> None:
    dropped = [key for key in metrics(street.listener) if key.startswith("sightline_delivery_records_dropped_total")]

    assert sorted(dropped) == [
        f'sightline_delivery_records_dropped_total{{destination="{one}",reason="{reason}"}}'
        for one in ("webhook-1", "webhook-2")
        for reason in ("age", "disk", "full")
    ]


def test_the_status_says_how_each_destination_is(street: Watched) -> None:
    found = street.deliveries()

    there, away = found["webhook-1"], found["webhook-2"]
    assert (there["state"], there["address"]) == ("connected", f"http://127.0.0.1:{street.there}/seen")
    assert "error" not in there
    assert (away["state"], away["address"]) == ("lost", f"http://127.0.0.1:{street.away}/seen")
    assert away["waiting"] == away["put"] > 0
    assert away["oldest_seconds"] > 0
    assert "refused" in away["error"]


def test_no_password_is_shown(street: Watched) -> None:
    paths = ("/status", "/metrics", "/")

    assert [path for path in paths if PASSWORD in ask(street.listener.port, path).text] == []


def test_the_report_says_where_every_record_is(tmp_path: Path) -> None:
    source = {"pattern": "bars", "size": [64, 48], "frames": 20}
    with web_server(lambda exchange, _: exchange.answer(204)) as asked:
        there, away = int(asked.url.rpartition(":")[2]), free_port()
        pipeline = Pipeline(
            sources={"gate": source}, steps=[hook(there), hook(away)], outputs=tmp_path, outbox={"linger": "1s"}
        )
        report = json.loads(json.dumps(pipeline.run().to_json()))

    first, second = report["deliveries"]["webhook-1"], report["deliveries"]["webhook-2"]
    assert first["put"] == first["delivered"] + first["waiting"] == 20
    assert (second["put"], second["delivered"], second["waiting"]) == (20, 0, 20)
    assert first["address"] == f"http://127.0.0.1:{there}/seen"
    assert PASSWORD not in json.dumps(report)
