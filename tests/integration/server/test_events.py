"""Events and messages over HTTP: complete, in order, for readers that come again, are slow, vanish or mean harm."""

from __future__ import annotations

import http.client
import json
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from sightline import Batch, Pipeline
from sightline.api import EventRecord, MessageRecord, RecentRecords
from sightline.media import Event
from sightline.server import listen
from tests.integration.server.conftest import TOKEN, ask, endless, wait_for, watched

EVENTS = "/api/v1/pipelines/street/events"
LIMIT_SECONDS = 300


class Stream:
    """A client of server-sent events."""

    def __init__(self, port: int, path: str = EVENTS, **headers: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_SECONDS)
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}", **headers})
        self.response = self._connection.getresponse()
        self.last_id: str | None = None

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Type and data of each event, until the server ends the answer."""
        fields: dict[str, str] = {}
        while line := self.response.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if not name:
                if "data" in fields:
                    self.last_id = fields.get("id", self.last_id)
                    yield fields["event"], json.loads(fields["data"])
                fields = {}
            elif not line.startswith(b":"):
                fields[name] = value

    def close(self) -> None:
        self.response.close()
        self._connection.close()


def street(folder: Path) -> Pipeline:
    """Two streams with lines, zones and, in a branch, other lines; all is written as JSON lines as well."""
    everywhere = {"polygon": [[0, 0], [1, 0], [1, 1], [0, 1]]}
    quarter = {"quarter": {"from": [0.25, 0], "to": [0.25, 1]}}
    return Pipeline(
        name="street",
        sources={"street": "sample_videos/street.mp4", "dusk": "sample_videos/dusk.mp4"},
        steps=[
            {"replay": {"path": "sample_videos/{stream}.mot.txt", "ids": True, "label": "car"}},
            {"lines": {"middle": {"from": [0.5, 0], "to": [0.5, 1]}, "across": {"from": [0, 0.6], "to": [1, 0.6]}}},
            {"zones": {"everywhere": everywhere}},
            {"tee": {"branch": [{"lines": quarter}, {"jsonl": {"path": "branch-{stream}.jsonl"}}]}},
            {"jsonl": {"path": "{stream}.jsonl"}},
        ],
        outputs=folder,
    )


def written(folder: Path, name: str) -> list[tuple[int, dict[str, Any]]]:
    lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
    return [(line["frame"], event) for line in lines for event in line.get("events", [])]


def by_step(records: list[dict[str, Any]]) -> dict[tuple[str, str], list[tuple[int, dict[str, Any]]]]:
    found = defaultdict(list)
    for one in records:
        found[one["stream"], one["element"]].append((one["frame"], one["event"]))
    return found


def until_stopped(events: Iterator[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """All events of rules till the run has stopped."""
    found: list[dict[str, Any]] = []
    for kind, data in events:
        assert kind != "lost"
        if kind == "message" and data["kind"] == "stopped":
            return found
        if kind == "event":
            found.append(data)
    pytest.fail("the stream has ended before the run")


def check_against_files(records: list[dict[str, Any]], folder: Path) -> None:
    """The records are the events of the JSON lines, each once; those of a step in the order of the file."""
    steps = by_step(records)
    rules = {"lines-1": {"middle", "across"}, "zones-1": {"everywhere"}, "lines-2": {"quarter"}}
    assert {element for _, element in steps} == set(rules)
    for stream in ("street", "dusk"):
        for element, own in rules.items():
            file = f"branch-{stream}.jsonl" if element == "lines-2" else f"{stream}.jsonl"
            expected = [(frame, event) for frame, event in written(folder, file) if event["rule"] in own]
            assert expected
            assert steps[stream, element] == expected


def test_the_stream_has_every_event_of_the_json_lines_in_order(tmp_path: Path) -> None:
    pipeline = street(tmp_path)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener:
        stream = Stream(listener.port)
        report = pipeline.run()
        records = until_stopped(stream.events())
        stream.close()

    assert stream.response.getheader("content-type", "").startswith("text/event-stream")
    assert report.frames > 0
    check_against_files(records, tmp_path)
    numbers = [int(one["id"].partition("-")[2]) for one in records]
    assert numbers == sorted(set(numbers))
    assert {one["label"] for one in records} == {"car"}


@contextmanager
def opened(port: int, path: str = f"{EVENTS}/socket", **headers: str) -> Iterator[ClientConnection]:
    shown = {"Authorization": f"Bearer {TOKEN}", **headers}
    with connect(f"ws://127.0.0.1:{port}{path}", additional_headers=shown, open_timeout=LIMIT_SECONDS) as client:
        yield client


def receive_all(client: ClientConnection) -> None:
    while True:
        client.recv(timeout=LIMIT_SECONDS)


def socket_events(client: ClientConnection) -> Iterator[tuple[str, dict[str, Any]]]:
    for message in client:
        for record in json.loads(message):
            yield record["record"], record


def test_the_socket_has_every_event_of_the_json_lines_in_order(tmp_path: Path) -> None:
    pipeline = street(tmp_path)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, opened(listener.port) as client:
        pipeline.run()
        records = until_stopped(socket_events(client))

    check_against_files(records, tmp_path)


def test_a_client_that_is_cut_off_again_and_again_misses_nothing(tmp_path: Path) -> None:
    pipeline = street(tmp_path)
    records: list[dict[str, Any]] = []
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, ThreadPoolExecutor() as pool:
        running = pool.submit(pipeline.run)
        last = "0-0"
        is_over = False
        while not is_over:
            stream = Stream(listener.port, **{"Last-Event-ID": last})
            for number, (kind, data) in enumerate(stream.events()):
                assert kind != "lost"
                last = str(stream.last_id)
                records += [data] if kind == "event" else []
                is_over = data.get("kind") == "stopped"
                if number == 6 or is_over:
                    break
            stream.close()
        assert running.result().frames > 0

    check_against_files(records, tmp_path)


def numbered(batch: Batch) -> Batch:
    """An event on each frame, with its number and a secret."""
    return batch.with_events(
        [
            Event("tick", "even" if frame.index % 2 == 0 else "odd", row, {"number": frame.index, "url": SECRET_URL})
            for row, frame in enumerate(batch.frames)
        ]
    )


SECRET_URL = "rtsp://admin:hunter2@127.0.0.1:9/main?token=canary7"
APPLY = {"apply": f"{__name__}:numbered"}


@pytest.fixture
def ticking() -> Iterator[int]:
    """The port of a pipeline with an event on each frame of two streams, and one that cannot be reached."""
    sources: dict[str, Any] = {
        "gate": endless(fps=50),
        "yard": endless(fps=10, pattern="bars"),
        "camera": SECRET_URL,
    }
    pipeline = Pipeline(name="street", sources=sources, steps=[APPLY])
    with watched(pipeline, token=TOKEN) as listener:
        yield listener.port


def first(port: int, count: int, query: str) -> list[dict[str, Any]]:
    stream = Stream(port, f"{EVENTS}?{query}")
    found = [data for _, (_, data) in zip(range(count), stream.events(), strict=False)]
    stream.close()
    return found


def test_filters_are_parameters(ticking: int) -> None:
    assert {one["stream"] for one in first(ticking, 5, "stream=ya*&type=event")} == {"yard"}
    assert {one["event"]["rule"] for one in first(ticking, 5, "rule=even&rule=none")} == {"even"}
    assert {one["element"] for one in first(ticking, 5, "element=apply-1&kind=tick")} == {"apply-1"}
    lost = first(ticking, 1, "type=message&stream=camera&after=0-0&kind=stream_lost")
    assert lost[0]["state"] == "lost"
    assert lost[0]["record"] == "message"


def test_the_last_records_can_be_asked_for_and_gone_on_from(ticking: int) -> None:
    wait_for(lambda: len(ask(ticking, f"{EVENTS}/recent?stream=yard&type=event", token=TOKEN).json()["records"]) >= 3)
    answer = ask(ticking, f"{EVENTS}/recent?stream=gate&type=event&limit=3", token=TOKEN).json()

    numbers = [one["event"]["number"] for one in answer["records"]]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    following = first(ticking, 3, f"stream=gate&type=event&after={answer['newest']}")
    assert [one["event"]["number"] for one in following] == list(range(numbers[-1] + 1, numbers[-1] + 4))


def test_answers_are_as_the_document_says(ticking: int) -> None:
    wait_for(lambda: ask(ticking, f"{EVENTS}/recent?kind=stream_lost", token=TOKEN).json()["records"])
    answer = ask(ticking, f"{EVENTS}/recent?limit=1000", token=TOKEN)

    read = RecentRecords.model_validate_json(answer.body, strict=True)
    assert {type(one) for one in read.records} == {EventRecord, MessageRecord}
    for one, raw in zip(read.records, answer.json()["records"], strict=True):
        assert one.model_dump(exclude_none=True, mode="json") == raw


def test_no_record_holds_a_secret(ticking: int) -> None:
    wait_for(lambda: ask(ticking, f"{EVENTS}/recent?kind=stream_lost", token=TOKEN).json()["records"])
    wait_for(lambda: ask(ticking, f"{EVENTS}/recent?kind=tick", token=TOKEN).json()["records"])
    answer = ask(ticking, f"{EVENTS}/recent?limit=1000", token=TOKEN).text

    assert "127.0.0.1:9/main" in answer
    assert "hunter2" not in answer
    assert "canary7" not in answer


@pytest.mark.parametrize("path", [EVENTS, f"{EVENTS}/recent"])
def test_without_a_token_nothing_is_shown(ticking: int, path: str) -> None:
    assert ask(ticking, path).status == 401
    assert ask(ticking, path, token="another").status == 401


def test_without_a_token_no_socket_opens(ticking: int) -> None:
    with pytest.raises(InvalidStatus, match="401"), connect(f"ws://127.0.0.1:{ticking}{EVENTS}/socket"):
        pass


@pytest.mark.parametrize(
    "query",
    [
        "after=nonsense",
        "after=" + "9" * 300,
        "type=other",
        "&".join(["stream=gate"] * 33),
        f"rule={'x' * 129}",
    ],
)
def test_a_wrong_question_is_refused(ticking: int, query: str) -> None:
    assert ask(ticking, f"{EVENTS}?{query}", token=TOKEN).status == 422
    with pytest.raises(InvalidStatus, match="403"), opened(ticking, f"{EVENTS}/socket?{query}"):
        pass


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x"])
def test_a_wrong_limit_is_refused(ticking: int, limit: str) -> None:
    assert ask(ticking, f"{EVENTS}/recent?limit={limit}", token=TOKEN).status == 422


def test_a_wrong_last_event_id_is_refused(ticking: int) -> None:
    answer = ask(ticking, EVENTS, token=TOKEN, **{"Last-Event-ID": "<script>"})

    assert answer.status == 422
    assert "is not the id of a record" in answer.text


def test_a_socket_that_talks_is_closed(ticking: int) -> None:
    with opened(ticking) as client:
        client.send("hello")
        with pytest.raises(ConnectionClosed) as closed:
            receive_all(client)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1003


def test_clients_that_vanish_or_never_read_hold_up_nobody(ticking: int) -> None:
    steady = Stream(ticking, f"{EVENTS}?stream=gate&type=event")
    events = steady.events()
    begin = next(events)[1]["event"]["number"]
    asked = f"GET {EVENTS} HTTP/1.1\r\nHost: 127.0.0.1:{ticking}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    idle = [socket.create_connection(("127.0.0.1", ticking)) for _ in range(20)]
    for client in idle:
        client.sendall(asked)
    for number in range(50):
        with socket.create_connection(("127.0.0.1", ticking)) as client:
            client.sendall(asked if number % 2 else asked[:40])
            if number % 4 == 1:
                client.recv(100)

    numbers = [next(events)[1]["event"]["number"] for _ in range(100)]

    assert numbers == list(range(begin + 1, begin + 101))
    assert ask(ticking, "/healthz", token=TOKEN).status == 200
    for client in idle:
        client.close()
    steady.close()


def test_a_server_that_stops_ends_its_streams() -> None:
    pipeline = Pipeline(name="street", sources={"gate": endless()}, steps=[APPLY])
    with watched(pipeline, token=TOKEN) as listener:
        stream = Stream(listener.port)
        events = stream.events()
        assert next(events)[1]["id"]
        with opened(listener.port) as client:
            assert client.recv(timeout=LIMIT_SECONDS)
            listener.close()

            with pytest.raises(ConnectionClosed) as closed:
                receive_all(client)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code in (1001, 1012)
        assert all(data["record"] == kind for kind, data in events)
        stream.close()


def test_events_come_from_a_pipeline_that_runs_again(tmp_path: Path) -> None:
    source = {"pattern": "bars", "frames": 5, "size": [64, 48]}
    pipeline = Pipeline(name="street", sources={"gate": source}, steps=[APPLY])
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener:
        stream = Stream(listener.port, f"{EVENTS}?type=event")
        events = stream.events()
        for _ in range(2):
            pipeline.run()
            assert [next(events)[1]["event"]["number"] for _ in range(5)] == [0, 1, 2, 3, 4]
        stream.close()


@pytest.mark.parametrize("path", ["", "/recent"])
def test_another_pipeline_has_no_events_here(ticking: int, path: str) -> None:
    elsewhere = EVENTS.replace("street", "other")

    assert ask(ticking, f"{elsewhere}{path}", token=TOKEN).status == 404
    with pytest.raises(InvalidStatus, match="403"), opened(ticking, f"{elsewhere}/socket"):
        pass


def parameters(document: Mapping[str, Any], path: str) -> set[str]:
    """The names of the parameters in a query or header."""
    return {one["name"] for one in document["paths"][path]["get"]["parameters"] if one["in"] != "path"}


def test_the_document_describes_the_routes(ticking: int) -> None:
    document = ask(ticking, "/api/v1/openapi.json", token=TOKEN).json()

    path = EVENTS.replace("street", "{pipeline}")
    filters = {"type", "stream", "kind", "rule", "label", "element"}
    assert parameters(document, path) == {*filters, "after", "last-event-id"}
    assert parameters(document, f"{path}/recent") == {*filters, "limit"}
    assert "Last-Event-ID" in document["paths"][path]["get"]["description"]
