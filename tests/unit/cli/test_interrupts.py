"""What each signal asks of the pipeline."""

from __future__ import annotations

import os
import signal
from typing import Any, cast

import pytest

from sightline.cli.interrupts import interrupts


class Recorder:
    """Stands in for a pipeline, and notes what is asked of it."""

    def __init__(self, *, started: bool = True) -> None:
        self.asked: list[str] = []
        self._started = started

    def status(self) -> tuple[str, ...]:
        return ("gate",) if self._started else ()

    def stop(self) -> None:
        self.asked.append("stop")

    def abort(self) -> None:
        self.asked.append("abort")


def handled(recorder: Recorder, *numbers: signal.Signals) -> int:
    with interrupts(cast("Any", recorder), say=lambda text: None) as caught:
        for number in numbers:
            os.kill(os.getpid(), number)
    return caught.count


def test_the_first_signal_stops() -> None:
    recorder = Recorder()

    assert handled(recorder, signal.SIGINT) == 1
    assert recorder.asked == ["stop"]


def test_the_second_signal_aborts_whichever_it_is() -> None:
    recorder = Recorder()

    assert handled(recorder, signal.SIGTERM, signal.SIGINT) == 2
    assert recorder.asked == ["stop", "abort"]


def test_the_second_signal_ends_a_pipeline_that_is_still_being_built() -> None:
    with pytest.raises(KeyboardInterrupt):
        handled(Recorder(started=False), signal.SIGINT, signal.SIGINT)


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    handled(Recorder(), signal.SIGINT)

    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
