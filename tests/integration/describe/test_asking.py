"""`describe` and servers of all kinds: what is sent, what comes of answers, and what is counted."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.graph import Site
from sightline.graph.messages import Message
from sightline.media import Batch, Event, Objects, Origin, Surface
from sightline.media.events import Scalar
from sightline.testing import make_batches, make_frames
from sightline.testing.run import site_for
from sightline_plugins import Describe
from sightline_plugins.describe.database import read_answers
from sightline_plugins.describe.operator import Describer
from sightline_plugins.describe.questions import shrunk
from tests.integration.describe import chat_server
from tests.integration.describe.chat_server import Behaviour, fails, running, says, streams

PATIENCE_SECONDS = 60.0
QUICK = {"timeout": "30s", "per_minute": 1000, "retries": 0}


def happening(count: int, *, severities: Sequence[str] = ()) -> list[Batch]:
    """Frames of one stream with an object, on each of which a rule reports something about it."""
    batches = []
    for number, batch in enumerate(make_batches(make_frames(count))):
        found = Objects.from_columns(
            frame=[0],
            xyxy=[[4, 10, 16, 22]],
            confidence=[0.9],
            class_id=[0],
            track_id=np.array([7]),
            source=Origin("detect-1", ("car",)),
        )
        data: dict[str, Scalar] = {"track_id": 7, **({"severity": severities[number]} if severities else {})}
        batches.append(batch.with_objects(found).with_events([Event("enter", "yard", 0, data, "zones-1")]))
    return batches


def without_events(batch: Batch) -> Batch:
    """The same frames, on which nothing happens."""
    return replace(batch, events=())


class Run:
    """An operator, and what comes of batches that it is given."""

    def __init__(self, folder: Path, url: str, **options: Any) -> None:
        self.messages: list[Message] = []
        self.site: Site = site_for("describe-1", folder, self.messages)
        element = Describe.model_validate({"url": url, "model": "m", "path": "d.db", **QUICK, **options})
        self.operator: Describer = element.build(self.site)
        self.events: list[Event] = []
        self.path = folder / "d.db"

    def give(self, *batches: Batch) -> None:
        """Process batches; keep the events of answers."""
        for batch in batches:
            made = self.operator.process(batch)
            assert isinstance(made, Batch)
            self.events += [event for event in made.events if event.kind == "description"]

    @property
    def counts(self) -> dict[str, int]:
        """What is counted of the stream, without zeros."""
        (name,) = [name for name in self.operator.totals() if name]
        return {key: value for key, value in self.operator.totals()[name].items() if value}

    @property
    def requests(self) -> dict[str, int]:
        """What is counted of requests, without zeros."""
        return {key: value for key, value in self.operator.totals()[""].items() if value}

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < end, f"waited in vain: {self.operator.totals()}, {self.messages}"
            time.sleep(0.01)

    def until_all_ended(self) -> None:
        """Wait until every question that was asked has ended."""
        self.until(lambda: self.counts["asked"] == sum(self.counts.get(state, 0) for state in STATES))


STATES = ["answered", "invalid", "refused", "failed", "dropped", "expired", "over_budget", "unanswered", "unredacted"]


def outcome(folder: Path, behaviour: Behaviour, **options: Any) -> tuple[Run, chat_server.ChatServer]:
    """Ask one question of a server that behaves so, and take the answer with the next frame."""
    with running(behaviour) as server:
        run = Run(folder, server.url, **options)
        try:
            first, second = happening(2)
            run.give(first)
            run.until_all_ended()
            run.give(without_events(second))
        finally:
            run.operator.close()
    return run, server


def test_an_answer_comes_as_an_event_that_names_what_it_is_about(tmp_path: Path) -> None:
    run, server = outcome(tmp_path, says("A car enters."))

    (event,) = run.events
    assert event.data["text"] == "A car enters."
    assert {key: event.data[key] for key in ("about", "about_kind", "about_frame", "track_id")} == {
        "about": "zones-1.yard",
        "about_kind": "enter",
        "about_frame": 0,
        "track_id": 7,
    }
    assert run.counts == {"asked": 1, "answered": 1, "events": 1}
    assert read_answers(run.path) == [(event.data["question"], "cam", "answered", "A car enters.")]
    (request,) = server.requests
    assert request.facts["event"] == {"kind": "enter", "rule": "yard", "track_id": 7}
    assert request.facts["object"]["label"] == "car"
    assert len(request.images) == 2, "the frame and the crop"


def test_an_answer_comes_piece_by_piece(tmp_path: Path) -> None:
    run, _ = outcome(tmp_path, streams("A car ", "enters."), stream_answer=True)

    assert [event.data["text"] for event in run.events] == ["A car enters."]


def test_a_piece_of_an_answer_is_none(tmp_path: Path) -> None:
    run, _ = outcome(tmp_path, streams("A car ", is_whole=False), stream_answer=True)

    assert run.counts == {"asked": 1, "failed": 1}


@pytest.mark.parametrize("behaviour", [chat_server.stalls, chat_server.drips])
def test_a_server_that_does_not_finish_is_given_up(behaviour: Behaviour, tmp_path: Path) -> None:
    run, _ = outcome(tmp_path, behaviour, timeout="300ms")

    assert run.counts == {"asked": 1, "failed": 1}
    assert "no answer within 0.3 s" in run.messages[0].text


@pytest.mark.parametrize(
    ("behaviour", "state"),
    [
        (chat_server.breaks_off, "failed"),
        (chat_server.is_broken, "invalid"),
        (chat_server.is_odd, "invalid"),
        (chat_server.is_large, "invalid"),
        (chat_server.is_endless, "invalid"),
        (chat_server.is_compressed, "invalid"),
        (says(None), "invalid"),
        (says(" \n"), "invalid"),
        (fails(400), "refused"),
        (fails(401), "refused"),
        (fails(500), "failed"),
        (fails(307, Location="http://203.0.113.1/"), "refused"),
        (streams("not asked for"), "invalid"),
    ],
)
def test_what_is_no_answer_is_counted_and_makes_no_event(behaviour: Behaviour, state: str, tmp_path: Path) -> None:
    run, server = outcome(tmp_path, behaviour)

    assert run.counts == {"asked": 1, state: 1}
    assert run.requests == {"requests": 1, f"requests_{state}": 1}
    assert len(server.requests) == 1
    assert [message.text.isprintable() for message in run.messages] == [True]


def test_markup_and_control_characters_stay_text(tmp_path: Path) -> None:
    run, _ = outcome(tmp_path, says("<script>alert(1)</script>\x1b]0;owned\x07 \u202egnp"), answer_limit=40)

    assert [event.data["text"] for event in run.events] == ["<script>alert(1)</script>]0;owned gnp"]


SCHEMA = {
    "type": "object",
    "properties": {"falls": {"type": "boolean"}, "people": {"type": "integer", "maximum": 9}},
    "required": ["falls"],
}


def test_an_answer_by_a_schema_has_its_fields(tmp_path: Path) -> None:
    answer = '```json\n{"falls": true, "people": 2, "other": {"x": 1}}\n```'
    run, server = outcome(tmp_path, says(answer), answer_schema=SCHEMA)

    data = run.events[0].data
    assert (data["answer_falls"], data["answer_people"]) == (True, 2)
    assert server.requests[0].body["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize(
    "answer",
    [
        *('{"falls": 1}', '{"people": 2}', "[]", "true", "It falls.", '{"falls": true, "people": NaN}'),
        *('{"falls": true, "people": 1e999}', "[" * 1900, '{"falls": true, "x": "' + "y" * 3000 + '"}'),
    ],
)
def test_an_answer_that_does_not_keep_the_schema_makes_no_event(answer: str, tmp_path: Path) -> None:
    run, _ = outcome(tmp_path, says(answer), answer_schema=SCHEMA)

    assert run.counts == {"asked": 1, "invalid": 1}


def test_a_busy_server_is_asked_again_when_it_said(tmp_path: Path) -> None:
    with running(fails(429, Retry_After="1"), says("Now.")) as server:
        run = Run(tmp_path, server.url, retries=1)
        first, second = happening(2)
        before = time.monotonic()
        run.give(first)
        run.until_all_ended()
        assert time.monotonic() - before >= 1
        run.give(without_events(second))
        run.operator.close()

    assert [event.data["text"] for event in run.events] == ["Now."]
    assert run.requests == {"requests": 2, "requests_failed": 1, "requests_answered": 1}


def test_a_server_that_nobody_listens_at_costs_no_money(tmp_path: Path) -> None:
    run = Run(tmp_path, "http://127.0.0.1:9/v1", money_per_day=1, input_price=1e6, output_price=1e6)
    run.give(*happening(1))
    run.until_all_ended()
    run.operator.close()

    assert run.counts == {"asked": 1, "failed": 1}
    with sqlite3.connect(run.path) as file:
        assert file.execute("SELECT cost FROM requests").fetchall() == [(0.0,)]


def test_the_day_has_so_many_requests_also_over_a_restart(tmp_path: Path) -> None:
    with running(says("Yes.")) as server:
        for _ in range(2):
            run = Run(tmp_path, server.url, per_day=3)
            run.give(*happening(2))
            run.until_all_ended()
            run.operator.close()

    assert len(server.requests) == 3
    assert run.counts == {"asked": 2, "answered": 1, "over_budget": 1}


def test_a_request_that_was_under_way_counts_after_a_restart(tmp_path: Path) -> None:
    with running(chat_server.stalls) as server:
        run = Run(tmp_path, server.url, per_day=1)
        run.give(*happening(1))
        run.until(lambda: len(server.requests) == 1)
        run.operator.close()
        assert run.counts == {"asked": 1, "unanswered": 1}
        again = Run(tmp_path, server.url, per_day=1)
        again.give(*happening(1))
        again.until_all_ended()
        again.operator.close()

    assert again.counts == {"asked": 1, "over_budget": 1}
    assert len(server.requests) == 1


@pytest.mark.parametrize("tokens", [(1000, 0), (-1000, 0)])
def test_the_money_of_a_day_is_exceeded_by_one_request_at_most(tokens: tuple[int, int], tmp_path: Path) -> None:
    with running(says("Yes.", tokens=tokens)) as server:
        for _ in range(2):
            run = Run(tmp_path, server.url, money_per_day=2.5, input_price=1000, output_price=0)
            run.give(*happening(3))
            run.until_all_ended()
            run.operator.close()

    with sqlite3.connect(run.path) as file:
        costs = [cost for (cost,) in file.execute("SELECT cost FROM requests ORDER BY id")]
    assert len(costs) == len(server.requests) < 6
    assert sum(costs) >= 2.5 > sum(costs[:-1])


def test_a_minute_has_so_many_requests_and_the_others_wait(tmp_path: Path) -> None:
    with running(says("Yes.")) as server:
        run = Run(tmp_path, server.url, per_minute=2)
        run.give(*happening(4))
        run.until(lambda: run.counts.get("answered") == 2)
        time.sleep(0.3)
        run.operator.close()

    assert len(server.requests) == 2
    assert run.counts == {"asked": 4, "answered": 2, "unanswered": 2}


def test_the_most_severe_is_asked_first_and_then_the_newest(tmp_path: Path) -> None:
    with running(chat_server.stalls, says("Yes.")) as server:
        run = Run(tmp_path, server.url, timeout="2s", queue=3)
        first, *others = happening(6, severities=["low", "low", "critical", "medium", "low", "medium"])
        run.give(first)
        run.until(lambda: len(server.requests) == 1)
        run.give(*others)
        run.until_all_ended()
        run.operator.close()

    asked = [request.facts["event"]["severity"] for request in server.requests[1:]]
    assert asked == ["critical", "medium", "medium"]
    seconds = [request.facts["seconds"] for request in server.requests[2:]]
    assert seconds == sorted(seconds, reverse=True)
    assert run.counts == {"asked": 6, "failed": 1, "answered": 3, "dropped": 2}


def test_a_storm_of_events_makes_no_more_images_than_questions_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(chat_server.stalls) as server:
        run = Run(tmp_path, server.url, queue=5, per_minute=1)
        made: list[Surface] = []

        def counted(surface: Surface, *, largest_side: int) -> Surface:
            made.append(shrunk(surface, largest_side=largest_side))
            return made[-1]

        monkeypatch.setattr("sightline_plugins.describe.operator.shrunk", counted)
        run.give(*happening(100))
        run.operator.close()

    assert run.counts["dropped"] >= 94
    assert len(made) <= 2 * 10 + 2, "a frame and a crop of ten questions, and of one that time may allow"


def test_questions_about_old_events_are_dropped(tmp_path: Path) -> None:
    with running(fails(503, Retry_After="3600")) as server:
        run = Run(tmp_path, server.url, expire="100ms", retries=3)
        run.give(*happening(1))
        run.until_all_ended()
        run.operator.close()

    assert run.counts == {"asked": 1, "expired": 1}


def test_environment_variables_of_the_client_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "stolen")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Own: stolen\nAuthorization: stolen")
    monkeypatch.setenv("HTTP_PROXY", "http://203.0.113.1:1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://203.0.113.1:1")

    _, without_key = outcome(tmp_path, says("Yes."))
    _, with_key = outcome(tmp_path, says("Yes."), api_key="mine")

    assert "stolen" not in str(without_key.requests[0].headers)
    assert "Authorization" not in without_key.requests[0].headers
    assert with_key.requests[0].headers["Authorization"] == "Bearer mine"
    assert "stolen" not in str(with_key.requests[0].headers)


def test_a_key_is_in_no_message_and_not_in_the_file(tmp_path: Path) -> None:
    def repeats(handler: chat_server.Handler) -> None:
        handler.reply(json.dumps({"error": {"message": f"no {handler.headers['Authorization']}"}}).encode(), status=401)

    run, _ = outcome(tmp_path, repeats, api_key="sk-very-secret")

    assert run.messages
    assert "very-secret" not in str(run.messages)
    assert b"very-secret" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert "very-secret" not in repr(run.operator._element)


def test_nothing_is_asked_when_the_file_cannot_be_written(tmp_path: Path) -> None:
    with running(says("Yes.")) as server:
        run = Run(tmp_path, server.url)
        with sqlite3.connect(run.path) as file:
            file.execute("DROP TABLE requests")
        run.give(*happening(1))
        run.until_all_ended()
        run.operator.close()

    assert server.requests == []
    assert run.counts == {"asked": 1, "failed": 1}
    assert "nothing is asked" in run.messages[0].text


def test_questions_about_files_are_finished_within_the_limit(tmp_path: Path) -> None:
    with running(says("Yes.")) as server:
        run = Run(tmp_path, server.url, finish="30s")
        run.give(*happening(3))
        run.operator.drain()
        run.operator.close()

    assert run.counts == {"asked": 3, "answered": 3}


def test_tracks_that_have_ended_are_asked_about(tmp_path: Path) -> None:
    with running(says("A car.")) as server:
        run = Run(tmp_path, server.url, about="tracks", least=0)
        batches = [without_events(batch) for batch in happening(4)]
        run.give(*batches)
        for stream in {batch.frames[0].stream for batch in batches}:
            run.operator.end_stream(stream)
        run.until_all_ended()
        run.operator.close()

    (request,) = server.requests
    assert request.facts["track"]["label"] == "car"
    assert len(request.images) == 1
    assert run.counts == {"asked": 1, "answered": 1}


def test_segments_are_asked_about_with_frames_spread_over_them(tmp_path: Path) -> None:
    with running(says("Quiet.")) as server:
        run = Run(tmp_path, server.url, about="segments", segment="1s", frames=2)
        run.give(*happening(60))
        run.until_all_ended()
        run.operator.close()

    assert len(server.requests) == run.counts["asked"] >= 2
    facts = server.requests[0].facts["segment"]
    assert facts["most_objects_at_once"] == {"car": 1}
    assert all(len(request.images) == 2 for request in server.requests)


def test_earlier_frames_go_with_an_event(tmp_path: Path) -> None:
    with running(says("Yes.")) as server:
        run = Run(tmp_path, server.url, frames=3, spacing="100ms", crop=False)
        *before, last = happening(30)
        run.give(*(without_events(batch) for batch in before), last)
        run.until_all_ended()
        run.operator.close()

    (request,) = server.requests
    assert len(request.images) == 3
    assert [caption.split()[-1] for caption in request.texts[2:]] == ["before:", "before:", "event:"]


@pytest.mark.parametrize(
    ("options", "question"),
    [
        ({}, "P"),
        ({"stream_prompts": {"c*": "S"}}, "S"),
        ({"stream_prompts": {"c*": "S"}, "rule_prompts": {"zones.yard.enter": "R", "zones.yard": "late"}}, "R"),
    ],
)
def test_the_prompt_is_that_of_the_rule_or_the_stream(options: Any, question: str, tmp_path: Path) -> None:
    _, server = outcome(tmp_path, says("Yes."), prompt="P", **options)

    assert server.requests[0].texts[0] == question


def test_images_that_no_step_has_changed_stay_on_this_machine(tmp_path: Path) -> None:
    run = Run(tmp_path, "http://203.0.113.1:9/v1")
    run.give(*happening(2))
    run.operator.close()

    assert run.counts == {"asked": 2, "unredacted": 2}
    assert run.requests == {}
