"""Random pipelines, faults and endings, made from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, get_args

from sightline import Pipeline
from sightline.graph import Element, Message, Parallel, Tee
from sightline.graph import Step as AnyStep
from sightline.graph.tree import identify
from sightline.media import Batch
from sightline.testing import FrameOrder
from tests.integration.runtime.chaos import (
    WORLDS,
    InlineSink,
    Input,
    OwnSink,
    OwnStep,
    PendingStep,
    Place,
    Planted,
    Step,
    World,
)

Ending = Literal[
    "run",
    "wait",
    "stop",
    "abort",
    "iterate",
    "slow",
    "break",
    "raise",
    "close",
    "with",
    "with-raise",
    "async",
    "cancel",
]
ENDINGS: tuple[Ending, ...] = get_args(Ending)
KINDS = (Step, Step, OwnStep, PendingStep, PendingStep, InlineSink, OwnSink)
PLACES: tuple[Place, ...] = ("process", "process", "result", "end_stream", "drain", "close", "build", "totals")
STREAMS = ("gate-1", "gate-2", "yard", "door", "roof")


@dataclass
class Scenario:
    """A pipeline that is about to be run, and what is known of it."""

    seed: int
    world: World
    pipeline: Pipeline
    ending: Ending
    inputs: dict[str, Input]
    elements: dict[str, Element]
    leave_after: int
    orders: dict[str, FrameOrder] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)

    def streams_of(self, element_id: str) -> set[str]:
        """The streams that an element works on."""
        patterns = self.elements[element_id].streams
        return {
            name for name in self.inputs if patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)
        }


def make(seed: int, *, faults: bool = True) -> Scenario:
    """The scenario of a seed."""
    dice = random.Random(seed)
    world = WORLDS[seed] = World()
    inputs = {name: _input(dice, seed, faults=faults) for name in STREAMS[: dice.randint(1, 5)]}
    faulty = faults and dice.random() < 0.6
    steps = tuple(_steps(dice, seed, depth=2, faulty=faulty, names=tuple(inputs)))
    pipeline = Pipeline(
        sources=inputs,
        steps=steps,
        batch={"size": dice.choice((1, 2, 3, 8)), "timeout": dice.choice(("1ms", "40ms", "10m"))},
    )
    scenario = Scenario(
        seed=seed,
        world=world,
        pipeline=pipeline,
        ending=dice.choice(ENDINGS),
        inputs=inputs,
        elements=dict(identify(steps)),
        leave_after=dice.randint(0, 30),
    )
    for element_id in scenario.elements:
        scenario.orders[element_id] = FrameOrder()
        pipeline.probe(element_id, scenario.orders[element_id])
    pipeline.on_message(scenario.messages.append)
    if faults and dice.random() < 0.1:
        pipeline.probe(dice.choice(list(scenario.elements)), _failing_probe(world, dice.randint(0, 10)))
    if faults and dice.random() < 0.1:
        pipeline.on_message(_failing_listener)
    return scenario


def _input(dice: random.Random, seed: int, *, faults: bool) -> Input:
    frames = dice.choice((0, 1, dice.randint(2, 40)))
    fault = dice.choice(("unreadable", "lost", "broken", "close")) if faults and dice.random() < 0.15 else None
    camera = fault != "lost" and dice.random() < 0.2
    damaged = frozenset(dice.sample(range(frames), frames // 8))
    return Input(world=seed, frames=frames, camera=camera, fault=fault, fault_at=dice.randint(0, 20), damaged=damaged)


def _steps(dice: random.Random, seed: int, *, depth: int, faulty: bool, names: tuple[str, ...]) -> Iterator[AnyStep]:
    for number in range(dice.randint(1, 4)):
        draw = dice.random()
        if depth and draw < 0.3 and number:
            branches = {
                name: tuple(_steps(dice, seed, depth=depth - 1, faulty=faulty, names=names))
                for name in ("a", "b", "c")[: dice.randint(1, 3)]
            }
            yield Tee(branches=branches) if dice.random() < 0.5 else Parallel(branches=branches)
        else:
            yield _element(dice, seed, faulty=faulty, names=names)


def _element(dice: random.Random, seed: int, *, faulty: bool, names: tuple[str, ...]) -> Step:
    fails = faulty and dice.random() < 0.2
    return dice.choice(KINDS)(
        world=seed,
        streams=dice.choice((None, None, None, ("gate*",), (dice.choice(names),))),
        fails_in=dice.choice(PLACES) if fails else None,
        fails_at=dice.choice((0, dice.randint(0, 20))),
        slow_calls=frozenset(dice.sample(range(30), dice.choice((0, 0, 3, 10)))),
        moment_at=dice.randint(0, 15),
    )


def _failing_probe(world: World, call: int) -> Callable[[Batch], None]:
    calls = iter(range(1000))

    def probe(batch: Batch) -> None:
        if next(calls) == call:
            world.fail("probe")

    return probe


def _failing_listener(message: Message) -> None:
    raise Planted("a fault of the listener")
