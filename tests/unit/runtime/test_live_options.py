"""Options that change while a pipeline runs: operators stay, and every step changes between the same two batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, OperatorError
from sightline.graph import (
    ChangesLive,
    Element,
    Message,
    MessageKind,
    Operator,
    Parallel,
    PipelineDescription,
    Site,
    SourceElement,
    Step,
    Tee,
    Threading,
)
from sightline.media import Batch, Stream
from sightline.testing import FrameOrder, assert_accounted
from tests.unit.runtime.elements import Find, Gated, Held, Hold, Synthetic, Tally
from tests.unit.runtime.several_gpus import Gpus
from tests.waiting import wait_until

LIMIT_SECONDS = 300
NEVER = -1


class Adjusted(Element):
    """Notes the value with which it processes each frame; it refuses the value `refuses`, having taken half of it."""

    name: ClassVar[str] = "adjusted"

    value: ChangesLive[int] = 0
    refuses: int = NEVER
    fixed: int = 0
    once: bool = False

    def serves_all_gpus(self) -> bool:
        return self.once

    def build(self, site: Site) -> Operator:
        return Adjuster(self, site.element_id)


class AdjustedApart(Adjusted):
    """The same in a thread of its own."""

    name: ClassVar[str] = "apart"
    threading: ClassVar[Threading] = Threading.OWN


class Adjuster(Operator):
    built: ClassVar[list[Adjuster]] = []

    def __init__(self, element: Adjusted, element_id: str) -> None:
        self.element = element
        self.element_id = element_id
        self.half = self.value = element.value
        self.values: dict[tuple[str, int], int] = {}
        self.is_inside = False
        self.ended: list[str] = []
        self.built.append(self)

    def process(self, batch: Batch) -> Batch:
        self.is_inside = True
        for frame in batch.frames:
            self.values[frame.stream.name, frame.index] = self.value
        self.is_inside = False
        return batch

    def change(self, element: Adjusted) -> None:
        assert not self.is_inside
        self.half = element.value
        if element.value == self.element.refuses:
            raise ConfigurationError(f"{element.value} is too much")
        self.element, self.value = element, element.value

    def end_stream(self, stream: Stream) -> None:
        self.ended.append(stream.name)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    Adjuster.built.clear()
    Held.gate.set()
    threads = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
        assert not thread.is_alive(), thread.name


def described(*steps: Step, **sources: SourceElement) -> PipelineDescription:
    endless: dict[str, SourceElement] = {name: Synthetic(frames=None) for name in ("gate", "yard")}
    return PipelineDescription(sources=sources or endless, steps=steps)


def operator(element_id: str) -> Adjuster:
    (found,) = [one for one in Adjuster.built if one.element_id == element_id]
    return found


def reloaded(messages: list[Message]) -> list[str]:
    return [message.text for message in messages if message.kind is MessageKind.RELOADED]


def wait_for(one: Adjuster, value: int) -> None:
    """Wait until it has processed a frame of `gate` with this value."""
    wait_until(lambda: ("gate", value) in {(name, own) for (name, _), own in list(one.values.items())})


def values_over_time(one: Adjuster) -> list[int]:
    """The values of the frames of a stream in their order, each once; it fails when a frame lacks."""
    own = [value for (name, _), value in one.values.items() if name == "gate"]
    assert [index for name, index in one.values if name == "gate"] == list(range(len(own)))
    return list(dict.fromkeys(own))


def test_the_operator_stays_when_only_options_change_that_may() -> None:
    pipeline, messages = Pipeline.from_description(described(Find(), Adjusted(id="a"), Tally(id="t"))), list[Message]()
    pipeline.on_message(messages.append)
    order = FrameOrder()
    pipeline.probe("a", order)
    with pipeline:
        wait_for(operator("a"), 0)
        for value in range(1, 21):
            pipeline.reload(described(Find(), Adjusted(id="a", value=value), Tally(id="t")), prove=0).wait(
                LIMIT_SECONDS
            )
            wait_for(operator("a"), value)
        threads = {thread.name for thread in threading.enumerate()}
        pipeline.stop()
        report = pipeline.wait()

    assert_accounted(report, stopped=True)
    order.check(report)
    assert values_over_time(operator("a")) == list(range(21))
    assert sorted(operator("a").ended) == ["gate", "yard"]
    assert reloaded(messages) == ["reloaded: changed a; kept find-1, t"] * 20
    assert "sightline-main" in threads
    assert dict(pipeline.description.elements())["a"] == Adjusted(id="a", value=20)


@pytest.mark.parametrize(
    "steps",
    [
        lambda value: (Adjusted(id="a", value=value), Find(), Adjusted(id="b", value=value)),
        lambda value: (AdjustedApart(id="a", value=value), AdjustedApart(id="b", value=value), Hold()),
        lambda value: (
            Adjusted(id="a", value=value),
            Tee(branches={"x": (Adjusted(id="b", value=value), Hold()), "y": (Adjusted(id="c", value=value),)}),
        ),
        lambda value: (
            Parallel(branches={"x": (Find(), Adjusted(id="a", value=value)), "y": (Adjusted(id="b", value=value),)}),
            Adjusted(id="c", value=value),
        ),
    ],
    ids=["around pending results", "threads of their own", "in a tee", "in parallel"],
)
def test_all_steps_change_between_the_same_two_batches(steps: Any) -> None:
    pipeline = Pipeline.from_description(described(*steps(0)))
    with pipeline:
        wait_until(lambda: {name for name, _ in list(Adjuster.built[0].values)} == {"gate", "yard"})
        for value in range(1, 8):
            pipeline.reload(described(*steps(value)), prove=0).wait(LIMIT_SECONDS)
            wait_for(Adjuster.built[0], value)
        pipeline.stop()
        assert_accounted(pipeline.wait(), stopped=True)

    first, *others = Adjuster.built
    assert values_over_time(first) == list(range(8))
    assert all(other.values == first.values for other in others)


def test_all_steps_change_or_none_does() -> None:
    def steps(value: int) -> tuple[Step, ...]:
        return Adjusted(id="a", value=value), Find(), Adjusted(id="b", value=value, refuses=2)

    refused = "element 'b' failed while changing its options: 2 is too much"
    pipeline, messages = Pipeline.from_description(described(*steps(1))), list[Message]()
    pipeline.on_message(messages.append)
    with pipeline:
        wait_until(lambda: operator("b").values)
        with pytest.raises(OperatorError, match=refused):
            pipeline.reload(described(*steps(2)), prove=0).wait(LIMIT_SECONDS)
        assert [(one.half, one.value) for one in (operator("a"), operator("b"))] == [(1, 1)] * 2
        assert dict(pipeline.description.elements())["a"] == Adjusted(id="a", value=1)
        pipeline.reload(described(*steps(3)), prove=0).wait(LIMIT_SECONDS)
        wait_until(lambda: 3 in list(operator("b").values.values()))

    assert values_over_time(operator("b")) == [1, 3]
    assert [message.text for message in messages if message.kind is MessageKind.WARNING] == [
        f"the change is refused, and everything goes on as it was: {refused}"
    ]


def test_an_operator_that_cannot_go_back_stops_the_pipeline() -> None:
    def steps(value: int) -> tuple[Step, ...]:
        return (Adjusted(id="a", value=value, refuses=1),)

    pipeline = Pipeline.from_description(described(*steps(0)))
    pipeline.start()
    wait_until(lambda: operator("a").values)
    operator("a").element = Adjusted(refuses=0)  # it refuses what it has
    operator("a").change = lambda element: 1 / 0  # type: ignore[method-assign,assignment]
    with pytest.raises(ConfigurationError, match="has come to its end"):
        pipeline.reload(described(*steps(2)), prove=0).wait(LIMIT_SECONDS)
    with pytest.raises(OperatorError, match="element 'a' failed while changing its options back: ZeroDivisionError"):
        pipeline.wait()


def test_others_are_built_anew_in_the_same_reload_and_none_is_changed_when_that_fails() -> None:
    def fail() -> Exception:
        return ConfigurationError("no such model")

    with Pipeline.from_description(described(Adjusted(id="a"), Tally(id="t"))) as pipeline:
        wait_for(operator("a"), 0)
        gated = Gated(gate=lambda: None, error=fail)
        with pytest.raises(ConfigurationError, match="no such model"):
            pipeline.reload(described(Adjusted(id="a", value=1), gated), prove=0).wait(LIMIT_SECONDS)
        messages = list[Message]()
        pipeline.on_message(messages.append)
        assert operator("a").value == 0
        pipeline.reload(described(Tee(branches={"x": (Adjusted(id="a", value=1),)}), Tally()), prove=0).wait(
            LIMIT_SECONDS
        )
        wait_for(operator("a"), 1)

    assert values_over_time(operator("a")) == [0, 1]
    assert reloaded(messages) == ["reloaded: changed a; rebuilt tally-1; gone t"]


def test_another_fixed_option_builds_the_step_anew() -> None:
    with Pipeline.from_description(described(Adjusted(id="a"))) as pipeline:
        pipeline.reload(described(Adjusted(id="a", value=1, fixed=1)), prove=0).wait(LIMIT_SECONDS)

    assert [one.value for one in Adjuster.built] == [0, 1]


def test_options_change_although_no_frame_comes() -> None:
    pipeline = Pipeline.from_description(PipelineDescription(sources={}, steps=(Adjusted(id="a"),), keep_running=True))
    with pipeline:
        changed = PipelineDescription(sources={}, steps=(Adjusted(id="a", value=1),), keep_running=True)
        pipeline.reload(changed, prove=0).wait(LIMIT_SECONDS)
        assert operator("a").value == 1


def test_a_change_waits_for_the_batches_in_front_and_an_aborted_run_for_no_change() -> None:
    Held.gate.clear()
    pipeline = Pipeline.from_description(described(Hold(), Adjusted(id="a")))
    pipeline.start()
    wait_until(lambda: operator("a").values)
    change = pipeline.reload(described(Hold(), Adjusted(id="a", value=1)), prove=0)
    with pytest.raises(TimeoutError):  # the sink does not get to it
        change.wait(0.2)

    pipeline.abort()
    with pytest.raises(ConfigurationError, match="has come to its end"):
        change.wait(LIMIT_SECONDS)
    Held.gate.set()
    pipeline.wait()


@pytest.mark.parametrize("once", [False, True], ids=["an operator on each", "one for all"])
def test_options_change_on_all_gpus(gpus: Gpus, once: bool) -> None:
    def steps(value: int) -> tuple[Step, ...]:
        return (Adjusted(id="a", value=value, once=once),)

    pipeline = Pipeline.from_description(described(*steps(0)), gpu=gpus[:2])
    with pipeline:
        wait_until(lambda: {name for one in Adjuster.built for name, _ in list(one.values)} == {"gate", "yard"})
        for value in range(1, 4):
            pipeline.reload(described(*steps(value)), prove=0).wait(LIMIT_SECONDS)
            assert [one.value for one in Adjuster.built] == [value] * (1 if once else 2)
        pipeline.stop()
        assert_accounted(pipeline.wait(), stopped=True)
