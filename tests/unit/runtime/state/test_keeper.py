"""State over runs: taken up by the same step and stream, saved while frames flow, and never in the way of a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from sightline import Pipeline
from sightline.graph import (
    Element,
    Message,
    MessageKind,
    Operator,
    Outputs,
    Parallel,
    PipelineDescription,
    Saved,
    Site,
    Step,
    Tee,
)
from sightline.graph.site import SystemClock
from sightline.media import Batch, Stream
from sightline.runtime.state.file import SavedState, StateFile
from sightline.runtime.state.keeper import StateKeeper
from sightline.runtime.stats.report import Report
from tests.disks import SmallDisk
from tests.unit.runtime.elements import Find, Synthetic
from tests.unit.runtime.several_gpus import Gpus
from tests.waiting import wait_until

ENDED = 1_000
"""What the end of a stream adds to a tally, so that it shows which of both was saved."""


class Tally(Element):
    """Counts frames, over all runs."""

    name: ClassVar[str] = "tally"

    wrong: str = ""

    def serves_all_gpus(self) -> bool:
        return True

    def build(self, site: Site) -> Operator:
        del site
        return _TallyOperator(self.wrong)


class _TallyOperator(Operator):
    def __init__(self, wrong: str) -> None:
        self._wrong = wrong
        self._counts: Counter[str] = Counter()

    def process(self, batch: Batch) -> Batch:
        self._counts.update(frame.stream.name for frame in batch.frames)
        return batch

    def end_stream(self, stream: Stream) -> None:
        self._counts[stream.name] += ENDED

    def save(self, stream: Stream) -> Saved | None:
        if self._wrong == "save":
            raise ZeroDivisionError("no")
        return {"frames": object() if self._wrong == "object" else self._counts[stream.name]}

    def restore(self, stream: str, saved: Saved) -> None:
        if self._wrong == "restore":
            raise ValueError("not mine")
        self._counts[stream] = int(saved["frames"])

    def totals(self) -> Mapping[str, Any]:
        return dict(self._counts)


class Messages(list[Message]):
    def texts(self, kind: MessageKind) -> list[str]:
        return [one.text for one in self if one.kind is kind]


def make(
    root: Path, *steps: Step, camera: bool = True, frames: int | None = 20, state: str = "out/x.state", name: str = "x"
) -> tuple[Pipeline, Messages]:
    description = PipelineDescription(
        name=name, sources={"gate": Synthetic(camera=camera, frames=frames)}, steps=steps or (Tally(),), state=state
    )
    pipeline = Pipeline.from_description(description, outputs=root)
    messages = Messages()
    pipeline.on_message(messages.append)
    return pipeline, messages


def run(root: Path, *steps: Step, fresh: bool = False, **options: Any) -> tuple[int, int]:
    """Run, and return what the first tally had when the run began, and when it ended. Cameras drop frames."""
    return result(make(root, *steps, **options)[0].run(fresh=fresh))


def result(report: Report, step: str = "tally-1") -> tuple[int, int]:
    total = int(report.totals[step]["gate"]) - ENDED
    return total - report.frames, total


def test_counts_of_a_camera_go_on_in_the_next_run(tmp_path: Path) -> None:
    (none, one), (again, two) = run(tmp_path), run(tmp_path)

    pipeline, messages = make(tmp_path)
    three, _ = result(pipeline.run())

    assert (none, again, three) == (0, one, two)
    assert one > 0
    assert len(messages.texts(MessageKind.STATE_RESTORED)) == 1
    assert messages.texts(MessageKind.WARNING) == []


def test_a_file_is_counted_anew(tmp_path: Path) -> None:
    assert [run(tmp_path, camera=False) for _ in range(2)] == [(0, 20)] * 2
    assert list(tmp_path.iterdir()) == []


def test_a_fresh_run_begins_anew_and_the_next_one_goes_on_from_there(tmp_path: Path) -> None:
    run(tmp_path)
    (none, second), (again, _) = run(tmp_path, fresh=True), run(tmp_path)

    assert (none, again) == (0, second)


def test_steps_that_keep_nothing_make_no_file(tmp_path: Path) -> None:
    make(tmp_path, Find())[0].run()

    assert list(tmp_path.iterdir()) == []


def test_steps_in_branches_keep_their_state(tmp_path: Path) -> None:
    steps = (Parallel(branches={"a": (Tally(),), "b": (Find(), Tally())}), Tee(branches={"c": (Tally(),)}), Tally())

    _, first = run(tmp_path, *steps)
    report = make(tmp_path, *steps)[0].run()

    assert [result(report, f"tally-{number}")[0] for number in (1, 2, 3, 4)] == [first] * 4


def test_state_is_saved_while_frames_flow(tmp_path: Path) -> None:
    pipeline, _ = make(tmp_path, frames=None)
    path = tmp_path / "out" / "x.state"
    with pipeline:
        wait_until(path.exists)
        first = path.read_bytes()
        wait_until(lambda: path.read_bytes() != first)
        killed = path.read_bytes()
    path.write_bytes(killed)

    saved = json.loads(killed.splitlines()[1])["state"]["frames"]
    assert run(tmp_path)[0] == saved


def test_all_steps_are_saved_between_the_same_two_batches(tmp_path: Path) -> None:
    steps = (Tally(), Find(), Parallel(branches={"a": (Tally(),), "b": (Find(),)}), Tally())
    pipeline, _ = make(tmp_path, *steps, frames=None)
    path = tmp_path / "out" / "x.state"
    with pipeline:
        wait_until(path.exists)
        lines = path.read_bytes().splitlines()[1:]

    assert len({json.loads(line)["state"]["frames"] for line in lines}) == 1
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("wrong", "warning"),
    [
        ("restore", "the state of tally-1 cannot be restored: ValueError: not mine; it begins anew"),
        ("save", "the state of tally-1 cannot be saved: ZeroDivisionError: no; after a restart it begins anew"),
        ("object", "the state of tally-1 cannot be saved: TypeError"),
    ],
)
def test_a_step_whose_state_is_wrong_goes_on_without(tmp_path: Path, wrong: str, warning: str) -> None:
    _, first = run(tmp_path)
    pipeline, messages = make(tmp_path, Tally(wrong=wrong))

    before, _ = result(pipeline.run())

    assert before == (0 if wrong == "restore" else first)
    assert [text.startswith(warning) for text in messages.texts(MessageKind.WARNING)] == [True]


def test_a_file_that_cannot_be_used_is_kept_aside(tmp_path: Path) -> None:
    run(tmp_path, name="other")
    pipeline, messages = make(tmp_path)

    before, after = result(pipeline.run())

    (warning,) = messages.texts(MessageKind.WARNING)
    assert "of another pipeline, 'other'. It is kept as x.state.refused" in warning
    assert before == 0
    assert (tmp_path / "out" / "x.state.refused").exists()
    assert run(tmp_path)[0] == after


def test_a_second_process_runs_without_the_file_that_another_one_uses(tmp_path: Path) -> None:
    _, first = run(tmp_path)
    other = StateFile(tmp_path / "out" / "x.state", pipeline="x", outputs=Outputs(tmp_path))
    assert other.claim()
    pipeline, messages = make(tmp_path)

    before, _ = result(pipeline.run())

    other.close()
    assert before == 0
    (warning,) = messages.texts(MessageKind.WARNING)
    assert "in use by another process" in warning
    assert run(tmp_path)[0] == first


def test_a_state_that_nobody_has_taken_yet_is_not_lost(tmp_path: Path) -> None:
    """A run that is killed before a camera answers leaves what the one before has saved."""
    _, first = run(tmp_path)
    description = PipelineDescription(
        name="x", sources={"yard": Synthetic(camera=True, frames=20)}, steps=(Tally(),), state="out/x.state"
    )
    Pipeline.from_description(description, outputs=tmp_path).run()

    assert run(tmp_path)[0] == first


def test_streams_in_lanes_of_several_gpus_share_a_file(gpus: Gpus, tmp_path: Path) -> None:
    description = PipelineDescription(
        name="x", sources={name: Synthetic(camera=True) for name in "abc"}, steps=(Tally(),), device="cuda"
    )

    def counted() -> dict[str, tuple[int, int]]:
        report = Pipeline.from_description(description, outputs=tmp_path, gpu=gpus).run()
        totals = {name: int(total) - ENDED for name, total in report.totals["tally-1"].items()}
        return {
            one.stream.name: (totals[one.stream.name] - one.processed, totals[one.stream.name])
            for one in report.streams
        }

    first, second = counted(), counted()

    assert [before for before, _ in first.values()] == [0, 0, 0]
    assert [before for before, _ in second.values()] == [after for _, after in first.values()]


def test_a_full_disk_is_reported_once_and_writing_goes_on(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path, capacity=100)
    messages = Messages()
    states = iter(range(1_000_000))
    keeper = StateKeeper(
        tmp_path / "x.state",
        pipeline="x",
        outputs=disk,
        clock=SystemClock(),
        post=messages.append,
        saved=lambda: [SavedState("tally-1", "tally", "gate", number, {"frames": number}) for number in [next(states)]],
        save_seconds=0.01,
    )
    assert keeper.take("tally-1", element="tally", stream="gate") is None
    wait_until(lambda: next(states) > 20)
    disk.capacity = 10_000
    wait_until((tmp_path / "x.state").exists)
    keeper.stop()

    (warning,) = messages.texts(MessageKind.WARNING)
    assert "the disk is full" in warning
