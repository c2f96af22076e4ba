"""Search in words over HTTP: what is found, by whom, and what a mistake answers."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from sightline import Pipeline
from sightline.client import AccessDenied, Client, Invalid, NotFound
from sightline.graph import Outputs
from sightline.graph.track_search import FindsTracks
from sightline.server.api.turns import Turns
from sightline.server.guard import Refused
from sightline.server.track_search import hides_all
from sightline_plugins import SearchIndex
from tests.integration.search.searched import PAIR, ROAD, SEARCH, Searched, searched
from tests.integration.server.api.conftest import quick_hashes

__all__ = ["quick_hashes"]
VEHICLES = ("car", "van", "truck", "bus")


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searched]:
    """A clip that was indexed, recorded, and crossed a line."""
    folder = tmp_path_factory.mktemp("town")
    steps = [{"lines": ROAD}, {"record": {"path": "{stream}-{time}.mp4", "segment": "60s"}}]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SIGHTLINE_TOKEN", raising=False)
        patch.setenv("SIGHTLINE_TOKENS", str(folder / "access" / "tokens.json"))
        with searched(folder, steps=steps) as town:
            yield town


def test_words_are_understood_and_the_best_tracks_come_first(town: Searched) -> None:
    answer = town.found("text=car%20at%20the%20street&limit=3")

    assert answer["understood"]["streams"] == ["street"]
    assert answer["understood"]["labels"] == ["car"]
    scores = [track["score"] for track in answer["tracks"]]
    assert scores == sorted(scores, reverse=True)
    assert {track["label"] for track in answer["tracks"]} == {"car"}
    assert answer["fitting"] >= len(scores) > 0


def test_filters_limit_and_threshold_hold(town: Searched) -> None:
    everything = town.found("limit=200")["tracks"]
    people = town.found("label=person&limit=200")["tracks"]
    assert 0 < len(people) < len(everything)
    assert {track["label"] for track in people} == {"person"}
    scored = town.found("text=red%20car&limit=200")["tracks"]
    middle = scored[len(scored) // 2]["score"]

    above = town.found(f"text=red%20car&limit=200&threshold={middle}")["tracks"]

    assert [track["id"] for track in above] == [track["id"] for track in scored if track["score"] >= middle]
    assert town.found("stream=nowhere")["tracks"] == []
    assert len(town.found("limit=2")["tracks"]) == 2


def test_tracks_that_look_like_one_are_found_without_it(town: Searched) -> None:
    vehicles = [track for track in town.found("limit=200")["tracks"] if track["label"] in VEHICLES]

    alike = {track["id"]: town.found(f"like={track['id']}&limit=5")["tracks"] for track in vehicles}

    assert all(number not in {track["id"] for track in found} for number, found in alike.items())
    labels = [found[0]["label"] for found in alike.values()]
    assert sum(label in VEHICLES for label in labels) > 0.85 * len(labels) > 5, labels


def test_the_image_of_a_track_finds_it(town: Searched) -> None:
    track = town.found("limit=1")["tracks"][0]
    jpeg = town.viewer.ask(track["image"])
    assert jpeg.headers["content-type"] == "image/jpeg"

    answer = town.operator.ask(f"{SEARCH}?limit=1", "POST", jpeg.body, content_type="image/jpeg")

    assert answer.status == 200
    assert answer.json()["tracks"][0]["id"] == track["id"]


def test_a_track_names_the_recording_and_the_events_that_show_it(town: Searched) -> None:
    events = town.viewer.ask("/api/v1/pipelines/town/history/records?type=event").json()["records"]
    crossing = next(one for one in events if one["event"]["kind"] == "line")
    track = next(one for one in town.found("limit=200")["tracks"] if one["track_id"] == crossing["event"]["track_id"])

    details = town.viewer.ask(f"{SEARCH}/tracks/{track['id']}").json()

    assert details["track"] == track | {"score": None}
    assert crossing["id"] in {one["id"] for one in details["events"]}
    (clip,) = details["clips"]
    assert clip["offset_seconds"] == pytest.approx(track["start_seconds"], abs=0.1)


def test_the_client_finds_tracks(town: Searched) -> None:
    with Client(town.url, token=town.viewer.token) as client:
        pipeline = client.pipeline()
        found = pipeline.find_tracks("car", labels=["car"], limit=2)
        track = found.tracks[0]
        jpeg = pipeline.track_image(track.id)
        assert pipeline.track(track.id).track.track_id == track.track_id
        with pytest.raises(AccessDenied):
            pipeline.find_tracks(like=jpeg)
        with pytest.raises(NotFound):
            pipeline.track(10**9)
        with pytest.raises(Invalid):
            pipeline.find_tracks("car at 25:00")
    with Client(town.url, token=town.operator.token) as client:
        assert client.pipeline().find_tracks(like=jpeg, limit=1).tracks[0].id == track.id


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("text=car%20at%2025:00", 422, "no time of day"),
        ("timezone=Nowhere", 422, "no such zone"),
        ("like=1000000000", 422, "no track with the id"),
        ("limit=0", 422, "limit"),
        ("threshold=nan", 422, "threshold"),
        ("step=draw-1", 404, "there is search_index-1"),
        (f"text={'a' * 301}", 422, "text"),
        ("like=0", 422, "like"),
    ],
)
def test_a_mistake_is_one_typed_error(town: Searched, query: str, status: int, text: str) -> None:
    answer = town.viewer.ask(f"{SEARCH}?{query}")

    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert text in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (b"no image", "image/jpeg", "cannot be used"),
        (b"", "image/png", "cannot be used"),
        (b"<svg/>", "image/svg+xml", "send an image as"),
    ],
)
def test_a_body_that_is_no_image_is_refused(town: Searched, body: bytes, kind: str, text: str) -> None:
    answer = town.operator.ask(SEARCH, "POST", body, content_type=kind)

    assert answer.status == 422
    assert text in answer.json()["detail"]


def test_images_that_are_larger_than_they_look_are_refused(town: Searched) -> None:
    huge = cv2.imencode(".png", np.zeros((6000, 6000), np.uint8))[1].tobytes()
    assert len(huge) < 1 << 20

    answer = town.operator.ask(SEARCH, "POST", huge, content_type="image/png")

    assert answer.status == 422
    assert "larger than" in answer.json()["detail"]


def test_an_image_needs_an_operator_and_words_a_viewer(town: Searched) -> None:
    jpeg = cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))[1].tobytes()

    assert town.viewer.ask(SEARCH, "POST", jpeg, content_type="image/jpeg").status == 403
    assert type(town.viewer)(town.viewer.port, None).ask(SEARCH).status == 401


def test_what_was_deleted_is_gone(town: Searched) -> None:
    last = town.found("limit=200")["tracks"][-1]
    with closing(sqlite3.connect(town.folder / "tracks.db")) as connection, connection:
        connection.execute("DELETE FROM tracks WHERE id = ?", (last["id"],))

    assert last["id"] not in {track["id"] for track in town.found("limit=200")["tracks"]}
    assert town.viewer.ask(f"{SEARCH}/tracks/{last['id']}").status == 404
    assert town.viewer.ask(last["image"]).status == 404


def test_a_step_that_has_written_nothing_finds_nothing(tmp_path: Path) -> None:
    element = SearchIndex(path="tracks.db", encoder=PAIR)
    assert isinstance(element, FindsTracks)
    finder = element.track_finder(Outputs(tmp_path))

    from sightline.graph.track_search import TrackQuestion

    assert finder.find(TrackQuestion("red car")).tracks == ()
    assert finder.track(1) is None
    finder.close()


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        ([{"privacy": {"on": "person", "detector": "replay-1"}}, "INDEX"], True),
        (["INDEX", {"privacy": {"on": "person", "detector": "replay-1"}}], False),
        (["INDEX", "draw"], True),
        ([{"tee": {"a": [{"privacy": {"on": "person", "detector": "replay-1"}}], "b": ["INDEX"]}}], False),
        ([{"tee": {"a": [{"privacy": {"on": "person", "detector": "replay-1"}}, "INDEX"], "b": ["draw"]}}], True),
    ],
)
def test_images_are_shown_only_where_everything_hidden_is_hidden(steps: list[Any], shown: bool) -> None:
    def placed(step: Any) -> Any:
        if step == "INDEX":
            return {"search_index": {"path": "tracks.db", "encoder": PAIR}}
        if isinstance(step, dict) and "tee" in step:
            return {"tee": {name: [placed(one) for one in branch] for name, branch in step["tee"].items()}}
        return step

    before = {"replay": {"path": "sample_videos/street.mot.txt", "ids": True, "label": "person"}}
    described = Pipeline(sources={"a": {"pattern": "bars"}}, steps=[before, *map(placed, steps)]).description

    assert hides_all(described, "search_index-1") is shown


def test_images_are_withheld_where_a_later_step_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIGHTLINE_TOKEN", raising=False)
    monkeypatch.setenv("SIGHTLINE_TOKENS", str(tmp_path / "access" / "tokens.json"))
    with searched(tmp_path, steps=[{"privacy": {"on": "person", "detector": "replay-1"}}], seconds=2) as town:
        answer = town.found()

        assert answer["images_withheld"]
        assert {track["image"] for track in answer["tracks"]} == {None}
        assert town.viewer.ask(f"{SEARCH}/tracks/{answer['tracks'][0]['id']}/image.jpg").status == 404


def test_a_pipeline_without_an_index_says_what_to_add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sightline.server import listen
    from tests.integration.server.conftest import TOKEN, ask

    with listen(Pipeline(name="town", sources={"a": {"pattern": "bars"}}), "127.0.0.1:0", token=TOKEN) as listener:
        answer = ask(listener.port, SEARCH, token=TOKEN)

    assert answer.status == 404
    assert "add `search_index`" in answer.json()["detail"]


def test_more_questions_than_may_wait_are_refused() -> None:
    held, asked = threading.Event(), []

    async def crowd() -> None:
        turns = Turns(most_waiting=2)
        waiting = [asyncio.create_task(turns.ask(lambda: held.wait(60))) for _ in range(2)]
        await asyncio.sleep(0)
        try:
            with pytest.raises(Refused) as refused:
                await turns.ask(lambda: True)
            asked.append(refused.value.status_code)
        finally:
            held.set()
        assert await asyncio.gather(*waiting) == [True, True]
        assert await turns.ask(lambda: True)

    asyncio.run(crowd())
    assert asked == [429]
