"""Images that travel with events go to an object store, through outages too, and records name them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from sightline import Pipeline
from sightline.cli.main import execute
from sightline.devices import Device
from sightline.errors import DestinationLost, DestinationRefused, RecordRefused
from sightline.graph import Site
from sightline.graph.transport import Record
from sightline_plugins.delivery.image_store import ImageStore
from tests.integration.delivery.object_store import KEY, SECRET, ObjectStoreServer
from tests.integration.delivery.web_server import Asked, web_server
from tests.waiting import wait_until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStoreServer]:
    folder = tmp_path / "store"
    folder.mkdir()
    server = ObjectStoreServer(folder)
    server.start()
    yield server
    server.kill()


def described(endpoint: str, **options: Any) -> ImageStore:
    return ImageStore(url="s3://site/images", endpoint=endpoint, access_key=KEY, secret_key=SECRET, **options)


def image(number: int) -> Record:
    return Record("gate", 7, number, "events", f"gate/7/{number}.jpg", b"\xff\xd8" + bytes([number]), 0, "image/jpeg")


def deliver(store: ImageStore, *records: Record) -> None:
    transport = store.transport(Site(Device()))
    transport.connect()
    try:
        transport.deliver(records)
    finally:
        transport.close()


def test_images_are_objects_with_their_type(store: ObjectStoreServer) -> None:
    store.client().create_bucket(Bucket="site")

    deliver(described(store.endpoint), image(1), image(2))

    assert store.objects("site") == {
        "images/gate/7/1.jpg": (b"\xff\xd8\x01", "image/jpeg"),
        "images/gate/7/2.jpg": (b"\xff\xd8\x02", "image/jpeg"),
    }


def test_an_image_that_comes_twice_is_one_object(store: ObjectStoreServer) -> None:
    store.client().create_bucket(Bucket="site")

    deliver(described(store.endpoint), image(1), image(1))

    assert list(store.objects("site")) == ["images/gate/7/1.jpg"]


def test_a_bucket_that_does_not_exist_is_named(store: ObjectStoreServer) -> None:
    with pytest.raises(DestinationRefused, match="s3://site/images: there is no bucket site"):
        deliver(described(store.endpoint), image(1))


def test_a_store_that_is_not_there_is_lost_and_shows_no_secret(store: ObjectStoreServer) -> None:
    store.kill()

    with pytest.raises(DestinationLost, match="s3://site/images: ") as lost:
        deliver(described(store.endpoint), image(1))

    assert SECRET not in str(lost.value)
    assert "Debug" not in str(lost.value)


def test_a_store_that_hangs_is_lost_and_those_before_it_count(store: ObjectStoreServer) -> None:
    store.client().create_bucket(Bucket="site")
    transport = described(store.endpoint, timeout="1s").transport(Site(Device()))
    transport.connect()
    transport.deliver([image(1)])
    store.hang()
    try:
        with pytest.raises(DestinationLost):
            transport.deliver([image(2)])
    finally:
        store.go_on()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, DestinationRefused),
        (403, DestinationRefused),
        (413, RecordRefused),
        (429, DestinationLost),
        (503, DestinationLost),
    ],
)
def test_an_answer_says_whether_to_try_again(status: int, error: type[Exception]) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(error) as raised:
            deliver(described(f"http://127.0.0.1:{server.server_port}"), image(1))
        server.shutdown()
    assert type(raised.value) is error


CONFIGURATION = """\
name: walk
sources: {{main gate: {{pattern: bars, size: [640, 360], frames: 40, fps: 100}}}}
outbox: {{path: walk.outbox, linger: {linger}}}
pipeline:
  - replay: {{path: walk.txt, format: mot, label: person}}
  - track
  - lines: {{middle: {{from: [0.5, 0], to: [0.5, 1]}}}}
  - webhook:
      url: {service}
      send: events
      image: crop
      inline_below: 0
      image_store:
        {{url: "s3://site/images", endpoint: "{endpoint}", access_key: {key}, secret_key: {secret}, timeout: 2s}}
"""
"""A walker crosses a line, and the crop of him is too large for the record of that."""


def configured(folder: Path, *, service: str, endpoint: str, linger: str) -> Path:
    rows = [f"{n + 1},-1,{40 + n * 14},80,40,100,0.9,-1,-1,-1" for n in range(40)]
    (folder / "walk.txt").write_text("\n".join(rows) + "\n")
    path = folder / "walk.yaml"
    path.write_text(CONFIGURATION.format(service=service, endpoint=endpoint, linger=linger, key=KEY, secret=SECRET))
    return path


def named_images(server: Asked) -> list[str]:
    """The URLs of the images that the records name."""
    return [record["image"]["url"] for one in server.requests for record in json.loads(one.body)]


def assert_all_there(named: Sequence[str], store: ObjectStoreServer) -> None:
    objects = {f"s3://site/{key}": content for key, (content, _) in store.objects("site").items()}
    assert named
    assert sorted(named) == sorted(objects)
    for content in objects.values():
        image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
        assert image is not None
        assert image.shape[0] > image.shape[1]


def test_images_follow_their_records_after_an_outage(store: ObjectStoreServer, tmp_path: Path) -> None:
    store.kill()
    with web_server(lambda exchange, _: exchange.answer(200)) as service:
        path = configured(tmp_path, service=service.url, endpoint=store.endpoint, linger="1m")
        pipeline = Pipeline.from_yaml(path, outputs=tmp_path)
        pipeline.start()
        wait_until(lambda: service.requests and waiting_images(pipeline))
        store.start()
        store.client().create_bucket(Bucket="site")
        pipeline.wait()

    named = named_images(service)
    assert_all_there(named, store)
    assert named[0].startswith("s3://site/images/main%20gate/")


def waiting_images(pipeline: Pipeline) -> int:
    return sum(one.depth for one in pipeline.deliveries() if one.destination == "webhook-1/images")


def test_images_that_were_left_are_delivered_by_the_command(
    store: ObjectStoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    store.kill()
    with web_server(lambda exchange, _: exchange.answer(200)) as service:
        path = configured(tmp_path, service=service.url, endpoint=store.endpoint, linger="1s")
        Pipeline.from_yaml(path, outputs=tmp_path).run()
    store.start()
    store.client().create_bucket(Bucket="site")

    shown = execute(["outbox", "show", str(path)]), capsys.readouterr().out
    drained = execute(["outbox", "drain", str(path), "--timeout", "1m"])

    assert shown[0] == 0
    assert "webhook-1/images" in shown[1]
    assert "s3://site/images" in shown[1]
    assert drained == 0
    assert_all_there(named_images(service), store)
    assert SECRET not in "".join(capsys.readouterr())
