"""How the steps of a run are laid out: threads, the links between them, and where each step works."""

from __future__ import annotations

import pytest

from sightline import Pipeline
from sightline.graph import Parallel, PipelineDescription, RunsOn, Tee
from sightline.runtime.stats.snapshot import RunLayout, StageView, StepLink
from tests.unit.runtime.elements import Find, Held, Hold, Synthetic, Tally


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    """A pipeline that has run: with pending results, a sink of its own, branches that end and branches that rejoin."""
    steps = (
        Find(id="find"),
        Tally(id="all"),
        Tee(branches={"archive": (Tally(id="archived"), Hold(id="kept"))}),
        Parallel(branches={"left": (Find(id="left"),), "right": (Tally(id="right"),)}),
        Tally(id="last"),
    )
    pipeline = Pipeline.from_description(PipelineDescription(sources={"gate": Synthetic()}, steps=steps))
    Held.gate.set()
    pipeline.run()
    return pipeline


def test_threads_are_told_with_what_they_run_and_wait_for(pipeline: Pipeline) -> None:
    stages = {stage.name: stage for stage in pipeline.layout().stages}

    assert stages["main"] == StageView("main", None, ("find",))
    assert stages["after-find"] == StageView("after-find", "after-find", ("all",), waits_for="find")
    assert stages["after-left"].steps == ()
    (join,) = [stage for stage in stages.values() if stage.is_join]
    assert join.steps == ("last",)


def test_frames_are_followed_from_step_to_step(pipeline: Pipeline) -> None:
    layout = pipeline.layout()
    (join,) = [stage.name for stage in layout.stages if stage.is_join]

    ways = [(one.start, one.end, one.branch) for one in layout.links]

    assert ways == [
        (None, "find", None),
        ("find", "all", None),
        ("all", "archived", "archive"),
        ("archived", "kept", None),
        ("all", "left", "left"),
        ("all", "right", "right"),
        ("all", join, None),
        ("left", join, None),
        ("right", join, None),
        (join, "last", None),
    ]


def test_every_link_is_where_frames_wait_in_it(pipeline: Pipeline) -> None:
    layout, view = pipeline.layout(), pipeline.view()
    assert view is not None
    waited_in = [one.link for one in layout.links if one.link is not None]
    inner = [stage.link for stage in layout.stages if not stage.steps and not stage.is_join]  # of pending results

    assert sorted([*waited_in, *map(str, inner)]) == sorted(link.name for link in view.links)
    assert StepLink("find", "all", "after-find") in layout.links


def test_steps_tell_where_they_work(pipeline: Pipeline) -> None:
    assert pipeline.layout().places["find"] == RunsOn("cpu")


def test_before_the_start_there_is_no_layout() -> None:
    assert Pipeline(sources={}).layout() == RunLayout()
