"""Faults and scripts: what is understood, what is refused, what happens when."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError

from sightline_plugins.codecs.bitstream import annex_b
from sightline_plugins.commands.camera.clip import Clip, ClipPacket, Faults, Mount
from sightline_plugins.commands.camera.script import Script, Step, perform
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.rtsp.payloads import Codec

SETS = (b"\x67\x42\x00\x1f\x99", b"\x68\xce\x38\x80\x01")


def clip(*, count: int = 5) -> Clip:
    packets = [ClipPacket(annex_b([b"\x65\x88\x01"]), n * 40_000_000, n * 40_000_000, True) for n in range(count)]
    return Clip.of(packets, codec=Codec.H264, size_wh=(64, 48), parameter_sets=SETS)


class Stage:
    """Two cameras, and what was done to their server."""

    def __init__(self) -> None:
        self.mounts = {name: Mount(name, clip(), seed=0) for name in ("gate", "yard")}
        self.done: list[str] = []

    async def up(self) -> None:
        self.done.append("up")

    async def down(self) -> None:
        self.done.append("down")


def performed(*steps: Step) -> tuple[Stage, list[str]]:
    stage, said = Stage(), list[str]()
    script = Script.of(steps, repeat_seconds=None, cameras=stage.mounts)
    asyncio.run(perform(script, stage, say=said.append))
    return stage, said


def test_faults_are_written_as_people_write_them() -> None:
    faults = Faults.model_validate({"loss": "5%", "corruption": 0.01, "jump": "-1h", "late_key": "500ms", "wrap": "2s"})

    assert (faults.loss, faults.corruption) == (0.05, 0.01)
    assert (faults.jump, faults.late_key, faults.wrap) == (-3_600, 0.5, 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [("loss", 1.5), ("loss", "150%"), ("late_key", -1), ("refuse", 200), ("trickle", 0), ("timestamps", "odd")],
)
def test_values_that_make_no_sense_are_refused_when_they_are_set(name: str, value: object) -> None:
    with pytest.raises(ValidationError):
        setattr(Faults(), name, value)


def test_steps_happen_in_the_order_of_their_times() -> None:
    _, said = performed(Step(at=0.02, loss=0.5), Step(at=0, corruption=0.5), Step(at=0.01, kill=True))

    assert said == ["0 s: corruption 0.5", "0.01 s: killed", "0.02 s: loss 0.5"]


def test_what_is_over_is_as_it_was_before() -> None:
    stage, said = performed(Step(at=0, loss=0.2), Step(at=0, loss=0.5, fps=5, lasts=0.01))

    assert said[-1] == "0.01 s: over: loss 0.5, 5 fps"
    assert [mount.faults.loss for mount in stage.mounts.values()] == [0.2, 0.2]
    assert [mount.clip.fps for mount in stage.mounts.values()] == [25, 25]


def test_a_killed_server_comes_back_when_it_is_over() -> None:
    stage, _ = performed(Step(at=0, kill=True, lasts=0.01))

    assert stage.done == ["down", "up"]


def test_a_step_can_be_for_one_camera() -> None:
    stage, _ = performed(Step(at=0, camera="yard", stall=True, swap=clip(count=7)))

    assert [mount.faults.stall for mount in stage.mounts.values()] == [False, True]
    assert [len(mount.clip.packets) for mount in stage.mounts.values()] == [5, 7]


def test_a_step_in_which_nothing_happens_is_refused() -> None:
    with pytest.raises(ValidationError, match="nothing happens"):
        Step(at=1, lasts=2)


def test_a_script_for_another_camera_is_refused() -> None:
    with pytest.raises(ValueError, match="cameras: cam"):
        FakeCamera(clip(), script=[Step(at=0, camera="gate", stall=True)])


def test_a_script_does_not_begin_again_before_it_is_over() -> None:
    with pytest.raises(ValueError, match="takes 3 s"):
        FakeCamera(clip(), script=[Step(at=1, stall=True, lasts=2)], repeat_seconds=2)


def test_a_script_begins_again() -> None:
    stage, said = Stage(), list[str]()
    script = Script.of([Step(at=0, loss=0.5, lasts=0.01)], repeat_seconds=0.1, cameras=stage.mounts)

    async def watch() -> None:
        task = asyncio.create_task(perform(script, stage, say=said.append))
        async with asyncio.timeout(30):
            while len(said) < 6:
                await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(watch())

    assert said[:2] * 3 == said[:6]
