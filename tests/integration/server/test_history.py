"""Counts and the history over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from sightline import Pipeline
from sightline.api import HistoryRecords, HistoryTable, PresentCounts
from sightline.server import listen
from sightline.server.history_series import SERIES
from tests.integration.server.conftest import TOKEN, ask, wait_for, watched

COUNTS, HISTORY = "/api/v1/pipelines/street/counts", "/api/v1/pipelines/street/history"
STEPS: list[Any] = [
    {"replay": {"path": "sample_videos/street.mot.txt", "ids": True, "label": "car"}},
    {"lines": {"middle": {"from": [0.5, 0], "to": [0.5, 1]}}},
]


def street(folder: Path, **source: Any) -> Pipeline:
    return Pipeline(
        name="street", sources={"street": {"uri": "sample_videos/street.mp4", **source}}, steps=STEPS, outputs=folder
    )


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a pipeline that runs at the speed of a camera."""
    with watched(street(tmp_path_factory.mktemp("port"), realtime=True, loop=True), token=TOKEN) as listener:
        yield listener.port


def asked(port: int, path: str, **query: Any) -> Any:
    answer = ask(port, f"{path}?{urlencode(query, doseq=True)}", token=TOKEN)
    assert answer.status == 200, answer.text
    return answer.json()


def test_counts_are_those_of_the_report(tmp_path: Path) -> None:
    pipeline = street(tmp_path)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener:
        assert asked(listener.port, COUNTS)["streams"] == {}
        report = pipeline.run(frames=200).to_json()
        counts = asked(listener.port, COUNTS)

    PresentCounts.model_validate(counts, strict=True)
    own = counts["streams"]["street"]
    assert counts["running"] is False
    assert own["frames"] == 200
    assert own["objects"] == report["streams"]["street"]["objects"]
    assert own["rules"]["lines-1"]["middle"].items() <= report["totals"]["lines-1"]["street"]["middle"].items()
    assert sum(own["rules"]["lines-1"]["middle"].values()) > 0


def test_a_short_run_is_in_the_history_of_the_next_process(tmp_path: Path) -> None:
    pipeline = street(tmp_path)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN):
        pipeline.run()
    with listen(street(tmp_path), "127.0.0.1:0", token=TOKEN) as listener:
        table = asked(listener.port, HISTORY, series=["fps", "tracks", "events", "counts"], step=3600)
        records = asked(listener.port, f"{HISTORY}/records", type="event")

    assert (tmp_path / "out" / "street.history").exists()
    HistoryTable.model_validate(table, strict=True)
    HistoryRecords.model_validate_json(json.dumps(records))
    columns = {(one["series"], one["key"]): sum(filter(None, one["values"])) for one in table["columns"]}
    assert columns["fps", ""] > 0
    assert columns["events", "lines-1.middle"] == len(records["records"]) > 0
    assert columns["counts", "lines-1.middle.in"] + columns["counts", "lines-1.middle.out"] == len(records["records"])
    assert columns["tracks", "car"] > 0


def test_the_history_grows_while_the_pipeline_runs(port: int) -> None:
    def table_with_frames() -> dict[str, Any] | None:
        found: dict[str, Any] = asked(port, HISTORY, series="fps", stream="st*")
        return found if any(one for column in found["columns"] for one in column["values"]) else None

    table = wait_for(table_with_frames, seconds=300)
    assert table["step"] == 10
    (column,) = table["columns"]
    assert len(column["values"]) == len(table["times"])
    assert abs(table["times"][-1] - time.time()) < 60
    assert {one - table["times"][0] for one in table["times"]} == set(range(0, 10 * len(table["times"]), 10))
    assert 0 < max(filter(None, column["values"])) < 100


def test_times_may_be_dates_or_numbers(port: int) -> None:
    def times(**query: str) -> list[int]:
        return list(asked(port, HISTORY, series="fps", **query)["times"])

    begin = int(time.time()) // 3_600 * 3_600 - 7_200
    first, last = (datetime.fromtimestamp(begin + ago, UTC) for ago in (0, 120))
    there = timezone(timedelta(hours=1))
    expected = [begin, begin + 60]
    assert times(**{"from": f"{first:%Y-%m-%dT%H:%M:%SZ}", "to": last.isoformat(), "step": "1m"}) == expected
    assert (
        times(**{"from": first.astimezone(there).isoformat(), "to": f"{last:%Y-%m-%dT%H:%M:%S}", "step": "60"})
        == expected
    )
    assert times(**{"from": str(begin), "to": str(begin + 120), "step": "60s"}) == expected


def test_an_answer_that_would_be_too_long_is_refused(port: int) -> None:
    answer = ask(port, f"{HISTORY}?series=fps&from={time.time() - 80_000}&step=10s", token=TOKEN)

    assert answer.status == 422
    assert "there would be 8001 points: ask for a longer step" in answer.text


@pytest.mark.parametrize(
    "query",
    [
        "",
        "series=fsp",
        "series=fps&from=yesterday",
        "series=fps&from=2026-01-02T03:00:00Z&to=2026-01-02T03:00:00Z",
        "series=fps&from=0001-01-01T00:00:00%2B14:00",
        "series=fps&to=9999-12-31T23:59:59-14:00",
        "series=fps&from=-1e30",
        "series=fps&from=nan",
        "series=fps&step=0",
        "series=fps&step=-5",
        "series=fps&step=100000d",
        "series=fps&step=soon",
        "series=fps&step=" + "9" * 5000,
        "series=fps&combine=median",
        "series=fps&" + "&".join(["stream=x"] * 33),
        "&".join(["series=fps"] * (len(SERIES) + 1)),
    ],
)
def test_a_wrong_question_is_refused_with_a_sentence(port: int, query: str) -> None:
    answer = ask(port, f"{HISTORY}?{query}", token=TOKEN)

    assert answer.status == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "after=-1", "after=9" + "9" * 30, "type=other"])
def test_a_wrong_question_about_records_is_refused(port: int, query: str) -> None:
    assert ask(port, f"{HISTORY}/records?{query}", token=TOKEN).status == 422


@pytest.mark.parametrize("path", [COUNTS, f"{HISTORY}?series=fps", f"{HISTORY}/records"])
def test_without_a_token_nothing_is_shown(port: int, path: str) -> None:
    assert ask(port, path).status == 401


def test_a_pipeline_that_is_not_served_leaves_no_history(tmp_path: Path) -> None:
    street(tmp_path).run(frames=5)

    assert not (tmp_path / "out").exists()
