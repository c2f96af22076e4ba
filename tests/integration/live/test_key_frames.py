"""Nothing is shown before the first key frame, and that there is none is said."""

from __future__ import annotations

import pytest

from sightline.graph import MessageKind
from sightline.testing.camera import CameraOptions, Clip, FakeCamera
from tests.integration.camera.clips import noise_clip
from tests.integration.live.conftest import Record
from tests.integration.live.watching import Watched, until

LATE_SECONDS = 2.5


def test_nothing_is_shown_before_the_first_key_frame(clip: Clip) -> None:
    with FakeCamera(clip, options=CameraOptions(live=True)) as camera:
        camera.faults.late_key = 0.7
        with Watched({"cam": camera.url}) as watched:
            watched.has_frames(20)

    assert not any(seen.damaged for seen in watched.frames["cam"])


def test_that_no_key_frame_comes_is_said_with_what_to_do(
    clip: Clip, monkeypatch: pytest.MonkeyPatch, figure: Record
) -> None:
    monkeypatch.setattr("sightline_plugins.decode.live_input._LONG_WITHOUT_KEY_NS", 1_000_000_000)
    with FakeCamera(clip) as camera:
        camera.faults.late_key = LATE_SECONDS
        with Watched({"cam": camera.url}) as watched:
            until(lambda: bool(watched.of_kind(MessageKind.WARNING)))
            watched.has_frames(10)

    texts = [told.message.text for told in watched.of_kind(MessageKind.WARNING)]
    assert len([text for text in texts if "no key frame" in text]) == 1
    figure("A11", "warnings that name the cause", len(texts), limit=1, unit="warnings")


def test_a_very_long_group_of_pictures_is_watched_like_any_other(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    endless = noise_clip(tmp_path_factory.mktemp("clips"), count=300, key_every=1500)
    with FakeCamera(endless.at_fps(200)) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(200)

    assert not any(seen.damaged for seen in watched.frames["cam"])
