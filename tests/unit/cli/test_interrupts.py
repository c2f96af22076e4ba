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
        self.has_begun = started

    def stop(self) -> None:
        self.asked.append("stop")

    def abort(self) -> None:
        self.asked.append("abort")


def handled(recorder: Recorder, *numbers: signal.Signals) -> int:
    with interrupts(
        cast("Any", recorder), say=lambda text: None, reload=lambda: recorder.asked.append("reload")
    ) as caught:
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


def test_a_hangup_reloads_as_often_as_it_comes_and_stops_nothing() -> None:
    recorder = Recorder()

    assert handled(recorder, signal.SIGHUP) == 0
    assert handled(recorder, signal.SIGHUP) == 0
    assert recorder.asked == ["reload", "reload"]


def test_a_terminal_that_hangs_up_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, there = Recorder(), iter([True, False])
    monkeypatch.setattr("sightline.cli.interrupts.has_terminal", lambda: next(there))

    assert handled(recorder, signal.SIGHUP) == 1
    assert recorder.asked == ["stop"]


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    recorder = Recorder()
    try:
        handled(recorder, signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)

    assert recorder.asked == []


def test_handlers_are_put_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]

    handled(Recorder(), signal.SIGINT)

    assert [signal.getsignal(number) for number in numbers] == before
