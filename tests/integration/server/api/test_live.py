"""Live video and images of a stream, over the API: what is sent, to whom, and what never is."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from sightline import Pipeline
from sightline.media import Stream
from sightline.server import Listener, listen
from sightline_plugins.draw.privacy import Privacy
from sightline_plugins.live import live
from tests.integration.server.api.conftest import PLAZA, REPLAY
from tests.integration.server.conftest import TOKEN, ask, endless, wait_for
from tests.integration.server.live_client import LiveImage, pixels_of, watching

ROOT = Path(__file__).resolve().parents[4]
GATE: dict[str, object] = {"uri": str(ROOT / "sample_videos" / "gate.mp4"), "realtime": True, "loop": True}
RED = endless(pattern="solid", color=[200, 40, 40])
IMAGE = "/api/v1/pipelines/street/streams/gate/image.jpg"
CAMERA = "avc1.640028"
"""The profile and level of the file: what is encoded for viewers has another one."""
TRACKED: list[Any] = [REPLAY, "track", {"zones": {"plaza": PLAZA}}]


def image_size(jpeg: bytes) -> tuple[int, int]:
    """The width and height of a JPEG."""
    with av.open(io.BytesIO(jpeg)) as container:
        stream = container.streams.video[0]
        return stream.width, stream.height


@contextmanager
def served(steps: list[Any], source: dict[str, object] = GATE) -> Iterator[tuple[Listener, Pipeline]]:
    """A pipeline of one stream that runs and is served."""
    pipeline = Pipeline(name="street", sources={"gate": source}, steps=steps)
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        yield listener, pipeline


def passed_on(port: int, *, count: int = 4) -> list[LiveImage]:
    """Images from when the packets of the source are passed on."""
    with watching(port, TOKEN) as client:
        while not (begun := client.next()).is_key or begun.format["codec"] != CAMERA:
            continue
        return [begun, *client.images(count)]


def test_the_packets_of_a_file_are_passed_on_with_what_was_found_on_each_frame() -> None:
    with served(TRACKED) as (listener, _):
        images = passed_on(listener.port)

    assert (images[0].format["width"], images[0].format["height"]) == (960, 540)
    (zone,) = images[0].about["shapes"]
    assert (zone["kind"], zone["name"]) == ("zone", "plaza")
    assert {one["label"] for one in images[0].about["found"]["objects"]} == {"car"}
    assert pixels_of(images)[0].shape == (540, 960, 3)


def test_what_was_found_is_about_the_image_that_is_shown_at_that_time_also_with_b_frames() -> None:
    with served(TRACKED) as (listener, _), watching(listener.port, TOKEN) as client:
        while client.next().format["codec"] != CAMERA:
            continue
        messages = [client.next() for _ in range(120)]

    shown = [one.ticks for one in messages if one.data]
    told = {one.ticks: one.about["found"]["frame"] for one in messages if one.about}
    assert shown != sorted(shown)
    settled = sorted(told)[10:-10]
    assert set(settled) <= set(shown)
    first = settled[0]
    assert [ticks - first for ticks in settled] == [4_500 * (told[ticks] - told[first]) for ticks in settled]


def test_a_codec_that_the_client_does_not_play_is_jpeg_and_its_own_where_it_does(tmp_path: Path) -> None:
    source = {"uri": str(write_hevc(tmp_path / "red.mp4")), "realtime": True, "loop": True}
    with served(["draw"], source) as (listener, _):
        with watching(listener.port, TOKEN) as client:
            while client.next().format["way"] != "jpeg":
                continue
            stills = pixels_of(client.images(2))
        with watching(listener.port, TOKEN, plays=("h264", "h265")) as client:
            while not (image := client.next()).format.get("codec", "").startswith("hvc1"):
                continue
            video = pixels_of([image])

    for pixels in (stills[-1], video[-1]):
        assert np.abs(pixels[100:200, 100:200].astype(int) - (200, 40, 40)).max() < 16


def write_hevc(path: Path) -> Path:
    """A red clip of five seconds in H.265, with a key frame each second."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx265", rate=25, options={"x265-params": "keyint=25:bframes=0:log-level=none"})
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        red = np.full((240, 320, 3), (200, 40, 40), np.uint8)
        for _ in range(125):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(red, "rgb24")))
        container.mux(stream.encode(None))
    return path


def test_overlays_that_were_drawn_are_left_to_the_browser() -> None:
    with served([*TRACKED, "draw"]) as (listener, _):
        images = passed_on(listener.port)

    assert not images[0].format["drawn"]


def test_what_is_hidden_is_never_sent() -> None:
    privacy = {"privacy": {"on": "car", "detector": "replay-1", "method": "fill"}}
    with served([*TRACKED, privacy]) as (listener, _), watching(listener.port, TOKEN) as client:
        images = client.images(45)

    hidden = 0
    for image, pixels in zip(images, pixels_of(images), strict=True):
        for one in image.about["found"].get("objects", []):
            left, top, right, bottom = (round(edge) for edge in one["box"])
            inside = pixels[max(top, 0) : bottom, max(left, 0) : right]
            hidden += 1
            assert np.percentile(inside, 95) < 40
    assert hidden >= 45
    assert len(client.formats) == 1


def test_what_is_hidden_in_a_branch_is_not_sent_either(tmp_path: Path) -> None:
    privacy = {"privacy": {"on": "car", "detector": "replay-1", "method": "fill"}}
    steps = [*TRACKED, {"tee": {"seen": [privacy, {"jsonl": str(tmp_path / "seen.jsonl")}]}}]
    with served(steps) as (listener, _), watching(listener.port, TOKEN) as client:
        images = client.images(3)

    image, shown = images[0], pixels_of(images)
    left, top, right, bottom = (round(edge) for edge in image.about["found"]["objects"][0]["box"])
    assert np.percentile(shown[0][max(top, 0) : bottom, max(left, 0) : right], 95) < 40


def test_images_without_packets_are_encoded() -> None:
    with served(["draw"], RED) as (listener, _), watching(listener.port, TOKEN) as client:
        shown = pixels_of(client.images(3))

    assert np.abs(shown[-1].astype(int) - (200, 40, 40)).max() < 8


def test_a_client_that_plays_nothing_gets_jpeg() -> None:
    with served([], RED) as (listener, _), watching(listener.port, TOKEN, plays=()) as client:
        shown = pixels_of(client.images(2))

    assert client.formats[0]["way"] == "jpeg"
    assert np.abs(shown[-1].astype(int) - (200, 40, 40)).max() < 8


def test_nothing_is_kept_while_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LINGER_SECONDS", 0.2)
    with served(TRACKED) as (listener, pipeline):
        ring = pipeline.packets.of(Stream("gate"))
        before = ring.is_wanted
        with watching(listener.port, TOKEN) as client:
            client.next()
            during = ring.is_wanted
        wait_for(lambda: not ring.is_wanted)

    assert (before, during) == (False, True)


def test_a_client_that_confirms_nothing_gets_a_few_and_later_the_newest() -> None:
    fast = endless(pattern="solid", color=[200, 40, 40], fps=100)
    with served([], fast) as (listener, pipeline), watching(listener.port, TOKEN) as client:
        client.is_lazy = True
        first = [client.next() for _ in range(64)]
        with pytest.raises(TimeoutError):
            client.next(timeout=0.5)
        seen = first[-1].about["found"]["frame"]
        wait_for(lambda: pipeline.status()[0].processed > seen + 400)
        client.confirm()
        client.is_lazy = False
        late = client.next()

    assert late.is_key
    assert late.about["found"]["frame"] > seen + 64


def test_a_stream_that_is_not_there_is_refused() -> None:
    with served([], endless()) as (listener, _):
        refused = ask(listener.port, IMAGE.replace("gate", "other"), token=TOKEN)

        assert refused.status == 404


def test_an_image_is_as_wide_as_asked_for() -> None:
    with served(["draw"], endless(pattern="bars", size=[640, 360])) as (listener, _):
        answers = [ask(listener.port, f"{IMAGE}{query}", token=TOKEN) for query in ("", "?width=300", "?width=3")]

    assert [image_size(one.body) for one in answers[:2]] == [(640, 360), (320, 180)]
    assert answers[2].status == 422


def test_what_a_step_hides_that_was_added_later_is_seen_no_more() -> None:
    privacy = Privacy.model_validate({"on": "car", "detector": "replay-1", "method": "fill"})
    with served(TRACKED) as (listener, pipeline), watching(listener.port, TOKEN) as client:
        while client.next().format["codec"] != CAMERA:
            continue
        before = dark_share(listener.port)
        pipeline.change(lambda now: now.model_copy(update={"steps": (*now.steps, privacy)}), prove=0).applied.wait(300)
        wait_for(lambda: dark_share(listener.port) > before + 0.01)
        while client.next().format["codec"] == CAMERA:
            continue
        images = client.images(3)

    assert {one.format["codec"] for one in images} != {CAMERA}


def dark_share(port: int) -> float:
    """The share of the newest image that is black, as what `fill` hides."""
    with av.open(io.BytesIO(ask(port, IMAGE, token=TOKEN).body), "r") as container:
        image = next(container.decode(video=0)).to_ndarray(format="gray")
    return float((image < 24).mean())
