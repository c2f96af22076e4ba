"""A step that does not return, while a camera goes on: it is named with its stack, and frames are accounted for."""

from __future__ import annotations

import threading
import time

import pytest

from sightline.graph import MessageKind
from sightline_plugins import Callback
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.figures import Record, form
from tests.integration.live.watching import PATIENCE_SECONDS, Watched, until

STUCK_SECONDS = form(1.0, long=8.0)
"""After so long a step counts as stuck; eight seconds, usually, so that it is known within ten."""


@pytest.mark.row(id="D2", long=True)
def test_a_step_that_does_not_return_is_named_with_its_stack(
    clip: Clip, monkeypatch: pytest.MonkeyPatch, figure: Record
) -> None:
    monkeypatch.setattr("sightline.runtime.watchdog.STUCK_SECONDS", STUCK_SECONDS)
    entered, released = threading.Event(), threading.Event()

    def hang_on_something(frame: object) -> None:
        del frame
        entered.set()
        released.wait(PATIENCE_SECONDS)

    steps = [Callback(id="hangs", function=hang_on_something)]
    with FakeCamera(clip) as camera, Watched({"cam": camera.url}, steps=steps) as watched:
        assert entered.wait(PATIENCE_SECONDS)
        begun = time.monotonic()
        until(lambda: bool(watched.of_kind(MessageKind.ELEMENT_STUCK)))
        released.set()
        watched.has_frames(10)

    (told,) = watched.of_kind(MessageKind.ELEMENT_STUCK)
    late_seconds = told.at_seconds - begun - STUCK_SECONDS
    figure(f"named with its stack, later than its limit of {STUCK_SECONDS:g} s by", late_seconds, limit=2.0, unit="s")
    assert told.message.element == "hangs"
    assert "hang_on_something" in (told.message.details or "")
