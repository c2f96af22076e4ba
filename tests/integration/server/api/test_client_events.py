"""Events by the client: as they come, and across broken connections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

import pytest

from sightline.client import (
    Client,
    Invalid,
    LostRecords,
    MessageRecord,
    PipelineClient,
    UnexpectedAnswer,
    Unreachable,
)
from tests.integration.server.api.conftest import Steered
from tests.integration.server.api.test_client_connection import scripted
from tests.integration.server.conftest import wait_for
from tests.ports import free_port

RECENT = json.dumps({"records": [], "newest": "7-5"})


@pytest.fixture
def street(steered: Steered) -> Iterator[PipelineClient]:
    with Client(steered.listener.url, token=steered.operator.token) as client:
        yield client.pipeline()


def sent(number: int, text: str = "here") -> str:
    """A record as the server sends it."""
    record = {"id": f"7-{number}", "record": "message", "time": "2026-11-25T22:31:04Z", "kind": "test", "text": text}
    return f"id: 7-{number}\nevent: message\ndata: {json.dumps(record)}\n\n"


def test_what_comes_after_the_call_is_told(street: PipelineClient) -> None:
    events = street.events(types=["message"], streams=["ya*"])
    street.pause("yard")
    street.pause("gate")
    street.resume("yard")

    found = list(islice(events, 2))
    events.close()

    assert all(isinstance(one, MessageRecord) and one.stream == "yard" for one in found)
    assert next(one.state for one in found if isinstance(one, MessageRecord)) == "paused"


def test_records_behind_an_id_are_told_again(street: PipelineClient) -> None:
    street.pause("yard")
    wait_for(lambda: any(one.stream == "yard" for one in street.recent_events()))
    *_, before, last = street.recent_events(limit=2)

    assert next(street.events(after=before.id)) == last


def test_what_is_counted_and_was_is_typed(street: PipelineClient) -> None:
    wait_for(lambda: street.counts().streams["gate"].frames > 5)

    table = street.history("fps", "tracks", streams=["gate"], step="10s")
    assert {one.stream for one in table.columns} <= {"gate"}
    assert table.step >= 10


def test_a_wrong_question_is_explained(street: PipelineClient) -> None:
    with pytest.raises(Invalid, match="series"):
        street.history("event_times")
    with pytest.raises(Invalid, match="is not the id of a record"):
        next(street.events(after="yesterday"))


@pytest.mark.parametrize("missing_bytes", [0, 10])
def test_a_broken_connection_goes_on_where_it_was(missing_bytes: int) -> None:
    answers = (200, RECENT), (200, sent(6) + sent(7)), (0, ""), (503, ""), (200, ": still here\n\n"), (200, sent(8))
    with scripted(*answers) as server, Client(server.url) as client:
        events = client.pipeline("street").events()
        server.missing_bytes = missing_bytes
        found = [one.id for one in islice(events, 3) if isinstance(one, MessageRecord)]
        events.close()

    assert found == ["7-6", "7-7", "7-8"]
    assert server.last_ids == ["7-5", "7-7", "7-7", "7-7", "7-7"]


def test_what_is_lost_is_told_in_its_place() -> None:
    lost = 'event: lost\ndata: {"record":"lost","count":12}\n\n'
    with scripted((200, RECENT), (200, lost + sent(18))) as server, Client(server.url) as client:
        first, second = islice(client.pipeline("street").events(), 2)

    assert first == LostRecords(record="lost", count=12)
    assert isinstance(second, MessageRecord)


def test_a_server_that_does_not_come_back_is_given_up() -> None:
    with scripted((200, RECENT), (200, sent(6)), (503, "")) as server, Client(server.url) as client:
        events = client.pipeline("street").events(reconnect_seconds=0.1)
        next(events)
        with pytest.raises(Exception, match="the server answered 503"):
            next(events)


def test_nobody_there_is_given_up() -> None:
    with Client(f"http://127.0.0.1:{free_port()}") as client:
        events = client.pipeline("street").events(after="7-5", reconnect_seconds=0.1)
        with pytest.raises(Unreachable):
            next(events)


@pytest.mark.parametrize("data", ["data: x\n\n", 'data: {"record": "other"}\n\n', "data: []\n\n"])
def test_something_else_that_is_sent_is_noticed(data: str) -> None:
    with scripted((200, RECENT), (200, data)) as server, Client(server.url) as client:
        events = client.pipeline("street").events()
        with pytest.raises(UnexpectedAnswer, match="not as this version knows it"):
            next(events)
