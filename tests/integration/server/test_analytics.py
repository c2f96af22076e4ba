"""What the history adds up over HTTP, for the sample world with its ground truth."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from sightline import Pipeline
from sightline.api import DwellTable, HeatMapTable, HistoryTable
from sightline.client import Client
from sightline.server import Listener, listen
from tests.integration.server.conftest import TOKEN, ask, wait_for

HISTORY = "/api/v1/pipelines/street/history"
TRUTH = json.loads(Path("sample_videos/street.truth.json").read_text())
BOX, ROAD = TRUTH["zones"][0]["polygon"], TRUTH["lines"][0]
CROSSINGS = sum(TRUTH["totals"]["lines"]["road"].values()) + sum(
    1 + (stay["leave"] is not None) for stay in TRUTH["stays"]
)
FORMULA = "=HYPERLINK(1)"


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    """A server that has seen the sample world once, with the true tracks."""
    folder = tmp_path_factory.mktemp("analytics")
    pipeline = Pipeline(
        name="street",
        sources={"street": "sample_videos/street.mp4"},
        steps=[
            {"replay": {"path": "sample_videos/street.mot.txt", "ids": True, "label": FORMULA}},
            {"lines": {"road": {"from": ROAD["from"], "to": ROAD["to"], "margin": 0}}},
            {"zones": {"gone": "0s", "box": {"polygon": BOX, "margin": 0}}},
        ],
        outputs=folder,
    )
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener:
        pipeline.run()
        wait_for(lambda: crossings(listener) == CROSSINGS)
        yield listener


def crossings(listener: Listener) -> int:
    """How many crossings of lines and of edges of zones the history has: a sample may be taken before the end."""
    found = asked(listener, series="crossings", step="31d")["columns"]
    return int(sum(sum(filter(None, one["values"])) for one in found))


def asked(listener: Listener, part: str = "", **query: Any) -> Any:
    answer = ask(listener.port, f"{HISTORY}{part}?{urlencode(query, doseq=True)}", token=TOKEN)
    assert answer.status == 200, answer.text
    return answer.json()


def table(listener: Listener, part: str = "", **query: Any) -> list[dict[str, str]]:
    path = f"{HISTORY}{part}?{urlencode({**query, 'format': 'csv'}, doseq=True)}"
    answer = ask(listener.port, path, token=TOKEN)
    assert answer.status == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_crossings_and_stays_are_those_of_the_ground_truth(listener: Listener) -> None:
    found = asked(listener, series=["crossings", "occupancy", "occupancy_max", "tracks"], step="31d")
    HistoryTable.model_validate(found, strict=True)
    summed = {one["key"]: sum(filter(None, one["values"])) for one in found["columns"] if one["series"] == "crossings"}
    occupancy = {one["series"]: max(filter(None, one["values"])) for one in found["columns"] if "box" in one["key"]}

    lines = TRUTH["totals"]["lines"]["road"]
    assert {key: summed[f"lines-1.road.{key}"] for key in ("in", "out")} == lines
    assert summed["zones-1.box.enter"] == TRUTH["totals"]["zones"]["box"]
    inside = np.zeros(TRUTH["frames"])
    for stay in TRUTH["stays"]:
        inside[stay["enter"] : stay["leave"]] += 1
    assert occupancy["occupancy"] == pytest.approx(inside.mean(), rel=0.02)
    assert occupancy["occupancy_max"] == inside.max()


def test_dwell_is_that_of_the_ground_truth(listener: Listener) -> None:
    found = asked(listener, "/dwell")
    DwellTable.model_validate(found, strict=True)
    (zone,) = found["zones"]

    true = [stay["dwell_seconds"] for stay in TRUTH["stays"] if stay["leave"] is not None]
    expected, _ = np.histogram(true, [0, *found["limits"], 1e9])
    assert zone["key"] == "zones-1.box"
    assert zone["stays"] == expected.tolist()
    assert zone["seconds"] == pytest.approx(sum(true), rel=0.02)


def test_the_heat_is_where_objects_were(listener: Listener) -> None:
    found = asked(listener, "/heatmap", stream="street")
    HeatMapTable.model_validate(found, strict=True)
    columns, rows = found["columns"], found["rows"]
    heat = np.array(found["values"]).reshape(rows, columns)

    expected, (width, height) = np.zeros((rows, columns)), TRUTH["size"]
    boxes = np.loadtxt("sample_videos/street.mot.txt", delimiter=",")
    feet_x, feet_y = boxes[:, 2] + boxes[:, 4] / 2, boxes[:, 3] + boxes[:, 5]
    cells = np.clip(feet_y / height * rows, 0, rows - 1).astype(int), np.clip(feet_x / width * columns, 0, columns - 1)
    np.add.at(expected, (cells[0], cells[1].astype(int)), 1 / TRUTH["fps"])
    assert heat.sum() == pytest.approx(expected.sum(), rel=0.02)
    assert heat[expected == 0].sum() == 0
    coarse = [one.reshape(9, 6, 12, 8).sum((1, 3)).ravel() for one in (heat, expected)]
    assert np.corrcoef(*coarse)[0, 1] > 0.99
    assert found["labels"] == [FORMULA]


def test_paths_count_each_track_once(listener: Listener) -> None:
    found = asked(listener, "/heatmap", stream="street", kind="paths")
    tracks = len(set(np.loadtxt("sample_videos/street.mot.txt", delimiter=",")[:, 1]))

    assert 1 < max(found["values"]) <= tracks
    assert all(value == int(value) for value in found["values"])
    assert found["unit"] == "tracks"


def test_labels_are_chosen(listener: Listener) -> None:
    assert max(asked(listener, "/heatmap", stream="street", label="bus")["values"]) == 0
    assert max(asked(listener, "/heatmap", stream="street", label="=HYPER*")["values"]) > 0
    assert max(asked(listener, "/heatmap", stream="other")["values"]) == 0


def test_tables_come_as_csv_with_the_same_numbers(listener: Listener) -> None:
    series = table(listener, series=["crossings", "tracks"], step="1h")
    dwell = table(listener, "/dwell")
    heat = table(listener, "/heatmap", stream="street")

    assert sum(float(row["value"]) for row in series if row["key"] == "lines-1.road.in") == 12
    assert all(row["time"].endswith("00:00Z") for row in series)
    assert sum(int(row["stays"]) for row in dwell) == sum(asked(listener, "/dwell")["zones"][0]["stays"])
    assert [float(row["value"]) for row in heat] == asked(listener, "/heatmap", stream="street")["values"]
    assert float(heat[0]["x"]) == pytest.approx(0.5 / 96, abs=1e-5)


def test_records_come_as_csv_in_parts(listener: Listener) -> None:
    path = f"{HISTORY}/records?type=event&kind=line&limit=20&format=csv"
    first = ask(listener.port, path, token=TOKEN)
    last = ask(listener.port, f"{path}&after={first.headers['sightline-next']}", token=TOKEN)
    rows = [row for part in (first, last) for row in csv.DictReader(io.StringIO(part.text))]

    assert "sightline-next" not in last.headers
    assert len(rows) == sum(TRUTH["totals"]["lines"]["road"].values())
    assert {(row["kind"], row["rule"], row["element"], row["stream"]) for row in rows} == {
        ("line", "road", "lines-1", "street")
    }
    directions = [json.loads(row["data"])["direction"] for row in rows]
    assert {one: directions.count(one) for one in directions} == TRUTH["totals"]["lines"]["road"]


def test_csv_is_also_given_to_who_accepts_it_and_holds_no_formula(listener: Listener) -> None:
    answer = ask(listener.port, f"{HISTORY}?series=tracks&step=1h", token=TOKEN, Accept="text/csv, */*;q=0.1")

    assert answer.headers["content-type"].startswith("text/csv")
    assert f",'{FORMULA}," in answer.text
    assert f",{FORMULA}," not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/heatmap",
        "/heatmap?stream=street&kind=hands",
        "/heatmap?stream=street&from=2026-01-02T03:00:00Z&to=2026-01-02T03:00:00Z",
        "/dwell?from=yesterday",
        "/dwell?format=xml",
    ],
)
def test_a_wrong_question_is_refused_with_a_sentence(listener: Listener, path: str) -> None:
    answer = ask(listener.port, f"{HISTORY}{path}", token=TOKEN)

    assert answer.status == 422
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_client_reads_them(listener: Listener) -> None:
    with Client(listener.url, token=TOKEN) as client:
        street = client.pipeline()
        (zone,) = street.dwell(streams=["street"]).zones
        heat = street.heat_map("street", kind="paths", labels=["*"])

    assert sum(zone.stays) > 10
    assert len(heat.values) == heat.columns * heat.rows
