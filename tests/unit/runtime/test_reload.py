"""Pipelines that become others while they run."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, OperatorError, SightlineError
from sightline.graph import BatchOptions, Message, MessageKind, Parallel, PipelineDescription, SourceElement, Step, Tee
from sightline.runtime.runner import Runner
from sightline.runtime.stats.report import Report
from sightline.testing import FrameOrder, assert_accounted
from tests.unit.runtime.elements import Find, Gated, Held, Hold, Remark, Synthetic, Tallied, Tally, UntilTold
from tests.waiting import wait_until

LIMIT_SECONDS = 300


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    Tallied.built.clear()
    Held.gate.set()
    threads = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(60)
        assert not thread.is_alive(), thread.name


def endless() -> SourceElement:
    return Synthetic(frames=None)


def described(*steps: Step, **sources: SourceElement) -> PipelineDescription:
    return PipelineDescription(sources=sources or {"yard": endless(), "gate": endless()}, steps=steps)


def started(description: PipelineDescription, *, order: FrameOrder | None = None) -> tuple[Pipeline, list[Message]]:
    """A pipeline that runs, and what it tells; `order` looks at what leaves the step `t`."""
    pipeline, told = Pipeline.from_description(description), list[Message]()
    pipeline.on_message(told.append)
    if order is not None:
        pipeline.probe("t", order)
    pipeline.start()
    return pipeline, told


def ended(pipeline: Pipeline) -> Report:
    pipeline.stop()
    report = pipeline.wait()
    assert_accounted(report, stopped=True)
    return report


def seen(element_id: str) -> int:
    return len(Tallied.built[element_id].frames) if element_id in Tallied.built else 0


def test_what_is_unchanged_keeps_its_operator_and_what_is_changed_gets_another() -> None:
    before = described(Find(label="one"), Tally(id="kept"), Tally(id="other"))
    pipeline, told = started(before)
    wait_until(lambda: len({name for name, _ in Tallied.built["other"].frames}) == 2)
    kept, other = Tallied.built["kept"], Tallied.built["other"]

    pipeline.reload(described(Find(label="two"), Tally(id="kept"), Tally(id="other", fail_at=-5)), prove=0).wait(
        LIMIT_SECONDS
    )
    wait_until(lambda: seen("other"))
    ended(pipeline)

    assert Tallied.built["kept"] is kept
    assert (sorted(kept.ended), kept.closed) == (["gate", "yard"], 1)
    assert Tallied.built["other"] is not other
    assert (sorted(other.ended), other.drained, other.closed) == (["gate", "yard"], 1, 1)
    assert [message.text for message in told if "reloaded" in message.text] == [
        "reloaded: rebuilt find-1, other; kept kept"
    ]


@pytest.mark.parametrize(
    "after",
    [
        (Tally(id="t"),),
        (Hold(), Tally(id="t")),
        (Find(), Tally(id="t"), Hold()),
        (Tee(branches={"a": (Tally(id="t"),), "b": (Hold(),)}), Remark()),
        (Parallel(branches={"a": (Find(),), "b": (Remark(), Tally(id="t"))}), Remark(rule="last")),
        (Parallel(branches={"a": (Find(), Find(label="b")), "b": (Tally(id="t"),)}), Find(label="c")),
    ],
    ids=["fewer", "a sink before", "pending before", "into a tee", "into a branch", "much else"],
)
def test_steps_may_be_moved_added_and_taken_away_and_no_frame_is_lost(after: tuple[Step, ...]) -> None:
    pipeline, _ = started(described(Find(), Tally(id="t"), Remark()))
    wait_until(lambda: len({name for name, _ in Tallied.built["t"].frames}) == 2)
    operator = Tallied.built["t"]

    pipeline.reload(described(*after), prove=0).wait(LIMIT_SECONDS)
    there = seen("t")
    wait_until(lambda: seen("t") > there)
    report = ended(pipeline)

    assert Tallied.built["t"] is operator
    for stream in report.streams:
        own = [index for name, index in operator.frames if name == stream.stream.name]
        assert own == list(range(len(own)))
        assert stream.processed <= len(own)
    assert sorted(operator.ended) == ["gate", "yard"]
    assert operator.closed == 1


def test_a_file_is_read_to_its_end_whatever_is_changed_meanwhile() -> None:
    UntilTold.over.clear()
    sources = {"yard": UntilTold(), "gate": UntilTold()}
    order = FrameOrder()
    pipeline, _ = started(described(Find(), Tally(id="t"), **sources), order=order)
    for number in range(30):
        changed = described(Find(label=f"{number}"), Tally(id="t"), Hold(), **sources)
        pipeline.reload(changed, prove=0).wait(LIMIT_SECONDS)
    UntilTold.over.set()

    report = pipeline.wait()
    assert_accounted(report)
    order.check(report)
    received = [stream.received for stream in report.streams]
    assert [stream.processed for stream in report.streams] == received
    assert len(Tallied.built["t"].frames) == sum(received)


def test_sources_come_go_and_start_again_as_is_described() -> None:
    pipeline, told = started(described(Tally(id="t"), a=endless(), b=endless(), c=endless()))
    wait_until(lambda: {name for name, _ in Tallied.built["t"].frames} == {"a", "b", "c"})

    after = described(Tally(id="t"), a=endless(), b=Synthetic(frames=None, damaged_at=1), d=endless())
    pipeline.reload(after, prove=0).wait(LIMIT_SECONDS)

    assert sorted(Tallied.built["t"].ended) == ["b", "c"]
    assert sorted(status.name for status in pipeline.status()) == ["a", "b", "d"]
    assert pipeline.description == after
    texts = [message.text for message in told if message.kind is MessageKind.RELOADED]
    assert texts == ["reloaded: added d; removed c; restarted b"]
    ended(pipeline)


def test_batches_may_be_gathered_in_another_way() -> None:
    pipeline, _ = started(described(Tally(id="t")))
    after = described(Tally(id="t")).model_copy(update={"batch": BatchOptions(size=7, timeout=2)})

    pipeline.reload(after, prove=0).wait(LIMIT_SECONDS)

    runner = pipeline._runner
    assert isinstance(runner, Runner)
    assert (runner._lanes._all[0].batcher.size, runner._lanes._all[0].batcher.timeout_ns) == (7, 2_000_000_000)
    ended(pipeline)


def test_nothing_is_touched_when_nothing_has_changed() -> None:
    pipeline, told = started(described(Find(), Tally(id="t")))
    pipeline.reload(described(Find(), Tally(id="t")), prove=0).wait(LIMIT_SECONDS)

    ended(pipeline)

    assert "reloaded: nothing has changed" in [message.text for message in told]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": (Tally(id="t"), Tally(id="t"))}, "the id 't' is already that of"),
        ({"name": "other", "device": "cpu"}, "name and device cannot change while the pipeline runs: start it again"),
        ({"keep_running": True}, "keep_running cannot change"),
        ({"steps": (Gated(gate=lambda: None, error=lambda: OSError("no")),)}, "element 'gated-1' cannot be built"),
    ],
    ids=["a mistake", "the frame of it", "how it ends", "a part that cannot be built"],
)
def test_what_can_not_be_is_refused_whole_and_the_old_goes_on(change: dict[str, object], message: str) -> None:
    before = described(Find(), Tally(id="t"), yard=endless())
    pipeline, told = started(before)
    wait_until(lambda: seen("t"))

    change.setdefault("sources", {"gate": endless()})
    refused = pipeline.reload(before.model_copy(update=change), prove=0)

    with pytest.raises(SightlineError, match=message):
        refused.wait(LIMIT_SECONDS)
    there = seen("t")
    wait_until(lambda: seen("t") > there)
    assert pipeline.description == before
    assert [status.name for status in pipeline.status()] == ["yard"]
    (warning,) = [one for one in told if one.kind is MessageKind.WARNING]
    assert warning.text.startswith("the change is refused, and everything goes on as it was: ")
    ended(pipeline)


@pytest.mark.parametrize(
    "sources", [{"yard": Synthetic(frames=None, camera=True)}, {"gate": endless()}], ids=["restarted", "exchanged"]
)
def test_the_only_stream_may_be_another_one_whatever_there_is_to_pass(sources: dict[str, SourceElement]) -> None:
    steps: list[Step] = [Find(), Tally(id="t"), Hold(), Remark()]
    pipeline, _ = started(described(*steps, yard=endless()))
    wait_until(lambda: seen("t"))

    pipeline.reload(described(*steps, **sources), prove=0).wait(LIMIT_SECONDS)

    there = seen("t")
    wait_until(lambda: seen("t") > there + 3)
    assert [one.name for one in pipeline.status()] == list(sources)
    ended(pipeline)


def test_files_that_come_by_a_change_end_the_run_with_their_end() -> None:
    pipeline, _ = started(described(Tally(id="t"), yard=endless()))
    wait_until(lambda: seen("t"))

    pipeline.reload(described(Tally(id="t"), gate=Synthetic(frames=5)), prove=0).wait(LIMIT_SECONDS)

    assert {one.stream.name: one.received for one in pipeline.wait().streams}["gate"] == 5


def test_an_operator_that_fails_on_its_way_out_stops_the_pipeline() -> None:
    pipeline, _ = started(described(Tally(id="t", fail_on_close=True)))
    wait_until(lambda: seen("t"))

    pipeline.reload(described(Tally(id="t")), prove=0).wait(LIMIT_SECONDS)

    with pytest.raises(OperatorError, match="element 't' failed while closing"):
        pipeline.wait()


def test_a_pipeline_that_does_not_run_becomes_what_is_described_at_its_next_start() -> None:
    pipeline = Pipeline.from_description(described(Tally(id="t")))

    pipeline.reload(described(Tally(id="u"), yard=Synthetic(frames=2)), prove=0).wait(LIMIT_SECONDS)

    assert pipeline.run().frames == 2
    assert seen("u") == 2


def test_counts_of_elements_and_links_go_on_and_totals_of_those_that_were_replaced_stay() -> None:
    pipeline, _ = started(described(Find(label="one"), Tally(id="t"), Hold()))
    wait_until(lambda: seen("t") > 10)
    pipeline.reload(described(Find(label="two"), Tally(id="t")), prove=0).wait(LIMIT_SECONDS)
    there = seen("t")
    wait_until(lambda: seen("t") > there)

    report = ended(pipeline)

    by_id = {one.element_id: one for one in report.elements}
    assert set(by_id) == {"find-1", "t", "hold-1"}
    assert by_id["find-1"].frames == by_id["t"].frames == seen("t")
    assert "hold-1" in report.links


def test_a_file_that_a_step_reads_counts_as_part_of_it(tmp_path: Path) -> None:
    tracks, clip = tmp_path / "tracks.txt", {"pattern": "counter", "frames": None, "realtime": True}
    tracks.write_text("1,1,10,10,20,20,1,-1,-1,-1\n")
    pipeline = Pipeline(sources={"yard": clip}, steps=[{"replay": {"path": str(tracks)}}])
    told: list[str] = []
    pipeline.on_message(lambda message: told.append(message.text))
    pipeline.start()
    tracks.write_text("1,1,10,10,20,20,1,-1,-1,-1\n2,1,10,10,20,20,1,-1,-1,-1\n")

    pipeline.reload(pipeline.description, prove=0).wait(LIMIT_SECONDS)

    assert "reloaded: rebuilt replay-1" in told
    ended(pipeline)


@pytest.mark.parametrize("seed", range(12))
def test_random_changes_lose_nothing_however_the_run_ends(seed: int) -> None:
    chance = random.Random(seed)
    order = FrameOrder()
    pipeline, _ = started(described(*random_steps(chance)), order=order)
    changes = []
    for _ in range(8):
        sources = {name: endless() for name in ("yard", "gate", "door") if chance.random() < 0.6} or {"yard": endless()}
        changes.append(pipeline.reload(described(*random_steps(chance), **sources), prove=0))
        if chance.random() < 0.5:
            changes[-1].wait(LIMIT_SECONDS)
    ending = threading.Timer(chance.random() * 0.05, pipeline.stop if seed % 3 else pipeline.abort)
    ending.start()
    for change in changes:
        with suppress(ConfigurationError):  # the run had ended before
            change.wait(LIMIT_SECONDS)

    report = pipeline.wait()
    ending.join()
    assert_accounted(report, stopped=True)
    assert order.wrong == []
    assert Tallied.built["t"].closed == 1


def random_steps(chance: random.Random) -> list[Step]:
    """Steps with the tally among them that must live through everything."""
    others: list[Step] = [
        Find(label=chance.choice("ab")),
        Hold(),
        Remark(rule=chance.choice("ab")),
        Tally(id="changing", fail_at=-chance.randint(1, 3)),
    ]
    chosen = chance.sample(others, chance.randint(0, 3))
    chosen.insert(chance.randint(0, len(chosen)), Tally(id="t"))
    if chance.random() < 0.3:
        return [Parallel(branches={"a": tuple(chosen[:1]), "b": (Find(id="branch"),)}), *chosen[1:]]
    return chosen
