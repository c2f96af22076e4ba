"""What happens to cameras during a soak."""

from __future__ import annotations

import itertools

from sightline_plugins.commands.camera.script import Step
from sightline_plugins.commands.soak.run import FAULTS, ROUNDS, fault_steps


def steps(number: int, *, cameras: int = 4, seed: int = 0) -> list[Step]:
    return fault_steps(number, cameras=cameras, every_seconds=5, seed=seed)[0]


def test_cameras_take_turns() -> None:
    times = sorted(at for number in range(4) for at in {step.at for step in steps(number)})

    assert times == [5.0 * turn for turn in range(1, 4 * ROUNDS + 1)]


def test_the_same_seed_gives_the_same_faults() -> None:
    assert steps(1, seed=7) == steps(1, seed=7)
    assert steps(1, seed=7) != steps(1, seed=8)


def test_cameras_differ() -> None:
    assert [step.text() for step in steps(0)] != [step.text() for step in steps(1)]


def test_a_fault_is_over_before_the_next_of_its_camera() -> None:
    for number, cameras in itertools.product(range(2), (2, 8)):
        ordered = fault_steps(number, cameras=cameras, every_seconds=1, seed=number)[0]
        for step, following in itertools.pairwise(ordered):
            assert step.at == following.at or step.at + (step.lasts or 0) < following.at


def test_a_round_is_over_before_it_begins_again() -> None:
    ordered, repeat = fault_steps(7, cameras=8, every_seconds=20, seed=1)

    assert max(step.at + (step.lasts or 0) for step in ordered) < repeat


def test_every_fault_comes_sooner_or_later() -> None:
    seen = {step.text() for number in range(8) for step in steps(number, cameras=8)}

    assert seen >= {Step.model_validate({"at": 0, **what}).text() for fault in FAULTS for what, _ in fault}
