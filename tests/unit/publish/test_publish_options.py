"""Options of `publish`, and what is refused before anything runs."""

from __future__ import annotations

import pytest

from sightline import Pipeline
from sightline.config import InvalidConfiguration, parse_steps
from sightline_plugins import Publish

SECRET = "correct-horse-battery"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "say how to publish: rtsp, url, hls or web"),
        ({"rtsp": "nowhere/{stream}"}, "give HOST:PORT"),
        ({"rtsp": "127.0.0.1:0/{stream}"}, "has no port that viewers could know"),
        ({"rtsp": ":8554/{stream}"}, "a token is needed"),
        ({"web": False}, "say how to publish"),
        ({"web": True, "token": "0123456789abcdef"}, "token is for rtsp"),
        ({"rtsp": "0.0.0.0:8554/{stream}"}, "a token is needed"),
        ({"rtsp": "127.0.0.1:8554/{stream}", "token": "short"}, "a token has 16 characters or more"),
        ({"url": "http://host/x"}, "streams are pushed to rtsp://"),
        ({"url": "rtsp:///x"}, "has no host"),
        ({"web": True, "quality": 20, "bitrate": "1M"}, "not both"),
    ],
)
def test_what_can_not_be_meant_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidConfiguration, match=said):
        parse_steps([{"publish": options}])


@pytest.mark.parametrize(
    "options",
    [
        {"web": True},
        {"web": True, "rtsp": "127.0.0.1:8554/{stream}"},
        {"rtsp": ":8554/live/{stream}", "token": SECRET},
        {"url": "rtmp://host/app/{stream}", "bitrate": "800k"},
        {"hls": "out/{stream}/index.m3u8"},
    ],
)
def test_what_is_meant_is_taken(options: dict[str, object]) -> None:
    (step,) = parse_steps([{"publish": options}])

    assert isinstance(step, Publish)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rtsp": "127.0.0.1:8554/live"}, "2 streams would share rtsp"),
        ({"url": "rtmp://host/live"}, "2 streams would share url"),
        ({"hls": "live.m3u8"}, "2 streams would share hls"),
        ({"rtsp": "127.0.0.1:8554/{name}"}, r"publish\.rtsp: \{name\} stands for nothing here"),
        ({"hls": "{stream}.mp4"}, "must end in .m3u8"),
        ({"hls": "../../../{stream}.m3u8"}, "leaves the output folder"),
    ],
)
def test_what_can_not_be_done_is_told_by_the_check(options: dict[str, object], said: str) -> None:
    sources = {name: {"pattern": "bars"} for name in ("gate", "yard")}

    with pytest.raises(InvalidConfiguration, match=said):
        Pipeline(sources=sources, steps=[{"publish": options}]).check()


def test_the_token_is_not_shown() -> None:
    assert SECRET not in repr(Publish(rtsp="127.0.0.1:8554/{stream}", token=SECRET))
