"""Nothing is shown before the first key frame, and its absence is reported."""

from __future__ import annotations

import time

import pytest

from sightline.graph import MessageKind
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from tests.integration.camera.clips import noise_clip
from tests.integration.figures import Record, form
from tests.integration.live.watching import PATIENCE_SECONDS, Watched, until
from tests.integration.many_pipelines import resident_mib

LIMIT_SECONDS = form(0.5, long=10.0)
LATE_SECONDS = 3 * LIMIT_SECONDS
LONG_GROUP = 1500


def test_nothing_is_shown_before_the_first_key_frame(clip: Clip) -> None:
    with FakeCamera(clip, options=CameraOptions(live=True)) as camera:
        camera.faults.late_key = 0.7
        with Watched({"cam": camera.url}) as watched:
            watched.has_frames(20)

    assert not any(seen.damaged for seen in watched.frames["cam"])


@pytest.mark.row(id="A11", long=True)
def test_that_no_key_frame_comes_is_said_with_what_to_do(
    clip: Clip, monkeypatch: pytest.MonkeyPatch, figure: Record
) -> None:
    monkeypatch.setattr("sightline_plugins.sources.live.reader._LONG_WITHOUT_KEY_NS", round(LIMIT_SECONDS * 1e9))
    with FakeCamera(clip) as camera:
        camera.faults.late_key = LATE_SECONDS
        begun = time.monotonic()
        with Watched({"cam": camera.url}) as watched:
            until(lambda: bool(watched.of_kind(MessageKind.WARNING)), seconds=LATE_SECONDS + PATIENCE_SECONDS)
            until(lambda: len(watched.frames["cam"]) >= 5, seconds=LATE_SECONDS + PATIENCE_SECONDS)

    (told,) = [one for one in watched.of_kind(MessageKind.WARNING) if "key frame" in one.message.text]
    late_seconds = told.at_seconds - begun - LIMIT_SECONDS
    figure(f"the cause is reported, later than its limit of {LIMIT_SECONDS:g} s by", late_seconds, limit=2.0, unit="s")
    assert not any(seen.damaged for seen in watched.frames["cam"])


@pytest.mark.row(id="A11")
def test_a_very_long_group_of_images_is_watched_like_any_other(
    tmp_path_factory: pytest.TempPathFactory, figure: Record
) -> None:
    endless = noise_clip(tmp_path_factory.mktemp("clips"), count=LONG_GROUP, key_every=LONG_GROUP, size_wh=(64, 48))
    with FakeCamera(endless.at_fps(500)) as camera, Watched({"cam": camera.url}) as watched:
        watched.has_frames(100)
        before_mib = resident_mib()
        until(lambda: camera.sent.images >= LONG_GROUP)
        grown_mib = resident_mib() - before_mib

    figure(f"memory, growth in a group of {LONG_GROUP:,} frames", max(grown_mib, 0), limit=20, unit="MiB")
    assert grown_mib <= 20
    assert not any(seen.damaged for seen in watched.frames["cam"])
