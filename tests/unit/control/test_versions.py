"""Versions of a configuration: their tags, their order, and the way back."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import ClassVar

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, SightlineError, StaleConfiguration
from sightline.graph import BatchOptions, CheckContext, PipelineDescription, Problem, Tee
from sightline_plugins import Webhook
from tests.unit.control.running import LIMIT_SECONDS, described, endless, running, to_steps, with_source, with_step
from tests.unit.runtime.elements import Gated, Remark, Tally


def pipeline() -> Pipeline:
    return Pipeline.from_description(described(Tally(id="t")))


def test_a_version_has_the_time_and_who_asked_for_it() -> None:
    changed = pipeline()

    changed.change(with_step(Remark()), by="ada").wait(LIMIT_SECONDS)

    first, second = changed.versions
    assert (first.number, first.by, second.number, second.by) == (1, "", 2, "ada")
    assert first.at_ns <= second.at_ns
    assert changed.configuration == second
    assert second.description == described(Tally(id="t"), Remark())


@pytest.mark.parametrize(
    "other",
    [
        described(Tally(id="t"), Remark()),
        described(Tally(id="t", fail_at=3)),
        described(Remark(id="t")),
        described(Tee(branches={"a": (Tally(id="t"),)})),
        described(Tally(id="t"), yard=endless()),
        described(Tally(id="t")).model_copy(update={"name": "other"}),
        described(Tally(id="t")).model_copy(update={"batch": BatchOptions(size=3)}),
    ],
    ids=["a step", "an option", "another element", "a tee", "sources", "name", "batch"],
)
def test_another_configuration_has_another_tag_and_an_equal_one_the_same(other: PipelineDescription) -> None:
    changed = pipeline()
    tag = changed.configuration.etag

    changed.change(lambda _: other).wait(LIMIT_SECONDS)
    assert changed.configuration.etag != tag
    changed.change(to_steps(Tally(id="t"))).wait(LIMIT_SECONDS)
    changed.change(lambda _: described(Tally(id="t"))).wait(LIMIT_SECONDS)

    assert changed.configuration.etag == tag


def test_a_secret_is_part_of_the_tag_and_no_tag_tells_which() -> None:
    tags = set()
    for secret in ("first", "second", "first"):
        one = Pipeline(sources={"yard": endless()}, steps=[Webhook(url="http://127.0.0.1/hook", secret=secret)])
        tags.add(one.configuration.etag)
        before = one.configuration.etag
        one.change(to_steps(Webhook(url="http://127.0.0.1/hook", secret="third"))).wait(LIMIT_SECONDS)
        assert one.configuration.etag != before
        assert secret not in repr(one.versions)

    assert len(tags) == 3  # each pipeline has a key of its own


def test_what_no_file_can_hold_has_a_tag_as_well() -> None:
    gate = threading.Event().wait

    assert Pipeline.from_description(described(Gated(gate=gate))).configuration.etag


def test_a_change_made_from_another_version_is_refused_and_told_what_holds_now() -> None:
    changed = pipeline()
    tag = changed.configuration.etag
    changed.change(with_step(Remark()), expected=tag, by="ada").wait(LIMIT_SECONDS)

    with pytest.raises(StaleConfiguration, match="asked for by ada.*made from " + tag) as stale:
        changed.change(with_step(Remark(rule="b")), expected=tag).wait(LIMIT_SECONDS)

    assert stale.value.etag == changed.configuration.etag
    assert changed.configuration.number == 2


def test_of_many_who_change_the_same_version_one_comes_through() -> None:
    with running(Tally(id="t")) as (changed, _):
        tag = changed.configuration.etag
        changes = [
            changed.change(with_step(Remark(id=f"r{number}")), expected=tag, prove=0, by=f"{number}")
            for number in range(20)
        ]
        came_through = []
        for number, change in enumerate(changes):
            try:
                change.wait(LIMIT_SECONDS)
                came_through.append(number)
            except StaleConfiguration:
                pass

        assert len(came_through) == 1
        assert [version.by for version in changed.versions] == ["", str(came_through[0])]
        assert [name for name, _ in changed.description.elements()] == ["t", f"r{came_through[0]}"]


def test_a_hundred_changes_at_the_same_time_take_turns_and_none_is_lost() -> None:
    with running(Tally(id="t"), yard=endless()) as (changed, _):
        ready = threading.Barrier(10)
        failed: list[SightlineError] = []

        def ask(first: int) -> None:
            ready.wait(LIMIT_SECONDS)
            for number in range(first, first + 10):
                edit = with_source(f"s{number}", endless()) if number % 5 == 0 else with_step(Remark(id=f"r{number}"))
                try:
                    changed.change(edit, prove=0, by=f"{number}").wait(LIMIT_SECONDS)
                except SightlineError as error:
                    failed.append(error)

        threads = [threading.Thread(target=ask, args=(first,)) for first in range(0, 100, 10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert failed == []
        assert set(changed.description.sources) == {"yard", *(f"s{number}" for number in range(0, 100, 5))}
        assert {name for name, _ in changed.description.elements()} == {
            "t",
            *(f"r{number}" for number in range(100) if number % 5),
        }
        assert changed.configuration.number == 101


def test_streams_that_come_and_go_are_versions_and_a_change_keeps_them() -> None:
    with running(Tally(id="t"), yard=endless()) as (changed, _):
        waits, goes_on = threading.Event(), threading.Event()

        def edit(description: PipelineDescription) -> PipelineDescription:
            waits.set()
            goes_on.wait(LIMIT_SECONDS)
            return with_step(Remark())(description)

        change = changed.change(edit, prove=0)
        assert waits.wait(LIMIT_SECONDS)
        changed.add_source("gate", endless(), by="ada")
        goes_on.set()
        change.wait(LIMIT_SECONDS)

        assert set(changed.description.sources) == {"yard", "gate"}
        assert [name for name, _ in changed.description.elements()] == ["t", "remark-1"]
        assert "ada" in [version.by for version in changed.versions]


@pytest.mark.parametrize("error", [ValueError("not like this"), ConfigurationError("not like this")])
def test_an_edit_that_raises_changes_nothing_and_the_next_one_may(error: Exception) -> None:
    changed = pipeline()

    def edit(_: PipelineDescription) -> PipelineDescription:
        raise error

    with pytest.raises(type(error), match="not like this"):
        changed.change(edit).wait(LIMIT_SECONDS)
    changed.change(with_step(Remark())).wait(LIMIT_SECONDS)

    assert changed.configuration.number == 2


def test_an_edit_that_returns_something_else_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="returned None"):
        pipeline().change(lambda _: None).wait(LIMIT_SECONDS)  # type: ignore[arg-type, return-value]


def test_the_way_back_leads_from_version_to_version() -> None:
    changed = pipeline()
    for number in range(3):
        changed.change(with_step(Remark(id=f"r{number}"))).wait(LIMIT_SECONDS)

    steps = []
    for _ in range(3):
        changed.roll_back(by="ada").wait(LIMIT_SECONDS)
        steps.append(len(changed.description.steps))

    assert steps == [3, 2, 1]
    with pytest.raises(ConfigurationError, match="nothing to go back to"):
        changed.roll_back().wait(LIMIT_SECONDS)


def test_the_way_back_may_lead_to_any_version_that_is_kept() -> None:
    changed = pipeline()
    changed.change(with_step(Remark(id="a"))).wait(LIMIT_SECONDS)
    tag, wanted = changed.configuration.etag, changed.description
    changed.change(with_step(Remark(id="b"))).wait(LIMIT_SECONDS)
    changed.change(with_step(Remark(id="c"))).wait(LIMIT_SECONDS)

    changed.roll_back(to=tag).wait(LIMIT_SECONDS)

    assert changed.description == wanted
    with pytest.raises(ConfigurationError, match=f"no version that is kept has the tag nothing; tags: .*{tag}"):
        changed.roll_back(to="nothing").wait(LIMIT_SECONDS)


def test_the_last_hundred_versions_are_kept() -> None:
    changed = pipeline()
    for number in range(120):
        changed.change(with_source("yard", endless()) if number % 2 else to_steps()).wait(LIMIT_SECONDS)
        changed.change(to_steps(Tally(id=f"t{number}"))).wait(LIMIT_SECONDS)

    assert len(changed.versions) == 100
    assert changed.versions[-1] == changed.configuration


class Slow(Tally):
    """Counts how often it is asked what is wrong with it."""

    name: ClassVar[str] = "slow"
    asked: ClassVar[list[str | None]] = []

    def check(self, context: CheckContext) -> Iterable[Problem]:
        del context
        self.asked.append(self.id)
        return ()


def test_steps_that_run_already_are_not_checked_again_unless_their_streams_change() -> None:
    Slow.asked.clear()
    with running(Slow(id="a"), Tally(id="t"), yard=endless()) as (changed, _):
        changed.change(with_step(Slow(id="b")), prove=0).wait(LIMIT_SECONDS)
        assert Slow.asked == ["a", "b"]

        changed.change(with_source("gate", endless()), prove=0).wait(LIMIT_SECONDS)

        assert Slow.asked == ["a", "b", "a", "b"]
