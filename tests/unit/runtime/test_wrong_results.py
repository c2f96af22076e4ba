"""Operators that do not keep their contract: what the run says of them, and that it always ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from sightline.errors import OperatorError
from sightline.graph import Element, Message, MessageKind, Operator, Pending, Sink, Site, Threading
from sightline.media import Batch, Objects, Origin
from sightline.runtime.sources.supervisor import Limits
from sightline.testing import make_frames
from tests.unit.runtime.elements import Synthetic, Tallied, Tally
from tests.unit.runtime.test_runner import make_runner, run

LEFT_BEHIND = "odd-1: did not stop, and is left behind with its outputs open"
CLOSING_SECONDS = 0.6


class Odd(Element):
    """Answers every batch as it is told."""

    name: ClassVar[str] = "odd"
    threading: ClassVar[Threading] = Threading.PENDING

    answer: Callable[[Batch], object]

    def build(self, site: Site) -> Operator:
        del site
        return _OddOperator(self.answer)


class _OddOperator(Operator):
    def __init__(self, answer: Callable[[Batch], object]) -> None:
        self._answer = answer

    def process(self, batch: Batch) -> Batch | Pending:
        return self._answer(batch)  # type: ignore[return-value]


class _Later:
    def __init__(self, result: object) -> None:
        self._result = result

    def result(self) -> object:
        return self._result


def leave(batch: Batch) -> object:
    raise SystemExit(3)


def interrupt(batch: Batch) -> object:
    raise KeyboardInterrupt


def one_object_on(*, frame: int) -> Objects:
    return Objects.from_columns(
        frame=[frame], xyxy=[[0, 0, 1, 1]], confidence=[1], class_id=[0], source=Origin("odd-1", ("thing",))
    )


ANSWERS: dict[str, tuple[Callable[[Batch], object], str]] = {
    "None": (lambda batch: None, "it returned None, not a Batch or a Pending"),
    "a text": (lambda batch: "done", "it returned a str, not a Batch or a Pending"),
    "a list of frames": (lambda batch: list(batch.frames), "it returned a list, not a Batch or a Pending"),
    "frames left out": (lambda batch: Batch(frames=()), "it was given 1 frames and returned 0"),
    "a pending None": (lambda batch: _Later(None), "its pending result is None, not a Batch"),
    "a pending text": (lambda batch: _Later("x"), "its pending result is a str, not a Batch"),
    "frames left out later": (lambda batch: _Later(Batch(frames=())), "it was given 1 frames and returned 0"),
    "another frame": (
        lambda batch: Batch(tuple(make_frames(2, stream="cam")[1:])),
        "it returned frame 1 of stream 'cam' in the place of frame 0 of stream 'cam'",
    ),
    "a frame of another stream": (
        lambda batch: Batch(tuple(make_frames(1, stream="yard"))),
        "it returned frame 0 of stream 'yard' in the place of frame 0 of stream 'cam'",
    ),
    "objects on no frame": (
        lambda batch: batch.with_objects(one_object_on(frame=3)),
        "its objects are on frames 3 to 3 of a batch of 1",
    ),
    "an exit": (leave, "SystemExit: 3"),
    "an interrupt": (interrupt, "KeyboardInterrupt"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_is_no_batch_stops_the_run_and_names_element_stream_and_frame(answer: str) -> None:
    function, cause = ANSWERS[answer]

    with pytest.raises(OperatorError) as failure:
        run(make_runner([Odd(answer=function), Tally()], size=1))

    assert str(failure.value) == f"element 'odd-1' failed on stream 'cam', frame 0: {cause}"
    assert Tallied.built["tally-1"].closed == 1


class Hang:
    """An answer that does not come before the test is over."""

    def __init__(self) -> None:
        self.has_begun, self._gate = threading.Event(), threading.Event()

    def __call__(self, batch: Batch) -> Batch:
        self.has_begun.set()
        self._gate.wait(60)
        return batch

    def end(self) -> None:
        self._gate.set()


@pytest.fixture
def hang() -> Iterator[Hang]:
    made = Hang()
    yield made
    made.end()


@pytest.fixture
def _hanging_is_known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightline.runtime.scheduling.assembly._HANGING_SECONDS", 0.0)
    monkeypatch.setattr("sightline.runtime.scheduling.assembly._ABORT_TIMEOUT_SECONDS", 60.0)


class SlowToClose(Element):
    """A sink that takes its time to close."""

    name: ClassVar[str] = "slow"
    threading: ClassVar[Threading] = Threading.OWN
    sink: ClassVar[bool] = True

    def build(self, site: Site) -> Sink:
        del site
        return _SlowSink()


class _SlowSink(Sink):
    def consume(self, batch: Batch) -> None:
        pass

    def close(self) -> None:
        threading.Event().wait(CLOSING_SECONDS)


def aborted(*steps: Element, hang: Hang) -> list[str]:
    """The warnings of a run that was aborted while a step hung."""
    messages: list[Message] = []
    runner = make_runner([*steps, Odd(answer=hang)], messages=messages)
    runner.start()
    assert hang.has_begun.wait(30)
    runner.abort()
    runner.wait()
    return [message.text for message in messages if message.kind is MessageKind.WARNING]


def test_an_operator_that_never_returns_is_left_behind_after_an_abort(hang: Hang) -> None:
    assert aborted(hang=hang) == [LEFT_BEHIND]


@pytest.mark.usefixtures("_hanging_is_known_at_once")
def test_an_operator_that_had_its_time_before_an_abort_gets_little_more(hang: Hang) -> None:
    begun = time.monotonic()

    aborted(hang=hang)

    assert time.monotonic() - begun < 50


@pytest.mark.usefixtures("_hanging_is_known_at_once")
def test_who_closes_its_outputs_is_waited_for_although_another_hangs(hang: Hang) -> None:
    assert aborted(SlowToClose(), hang=hang) == [LEFT_BEHIND]


def test_a_camera_that_never_answers_is_given_up_when_the_duration_has_passed() -> None:
    sources = {"good": Synthetic(), "lost": Synthetic(camera=True, lost_at=0)}

    report = run(make_runner([Tally()], sources=sources, limits=Limits(duration_ns=300_000_000)))

    assert report.failed_streams == ("lost",)
    assert report.streams[1].error == "the camera went away"
