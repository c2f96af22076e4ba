"""Tell how the steps of a lane run: which thread runs which of them, and what they pass to each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sightline.runtime.scheduling.join import Join
from sightline.runtime.scheduling.link import Item, Link
from sightline.runtime.scheduling.plan import Stage, Tap
from sightline.runtime.stats.snapshot import StageView, StepLink


def stage_views(stages: Sequence[Stage]) -> tuple[StageView, ...]:
    """Return what each thread runs."""
    return tuple(
        StageView(
            name=stage.name,
            link=stage.link or None,
            steps=tuple(node.element_id for node in stage.nodes),
            waits_for=None if stage.collects is None else stage.collects.element_id,
            is_join=isinstance(stage.inlet, Join),
        )
        for stage in stages
    )


def step_links(stages: Sequence[Stage], links: Mapping[str, Link[Item]]) -> Iterator[StepLink]:
    """Yield the ways of frames, in the order in which the stages were planned: a stage stands behind all that send to
    it. A way that ends in a thread without a step is left out, such as that of results behind the last step.
    """
    senders = {id(link.sender): name for name, link in links.items()}
    receivers = {id(link.receiver): name for name, link in links.items()}
    starts: dict[str, str | None] = {}
    for stage in stages:
        inlet = stage.inlet
        last: str | None = None
        waiting = receivers.get(id(inlet))
        if isinstance(inlet, Join):
            for receiver in inlet.receivers:
                link = receivers[id(receiver)]
                yield StepLink(starts[link], stage.name, link)
            last = stage.name
        elif waiting is not None:
            last = starts[waiting]
        branch = stage.branch
        for step in stage.steps:
            if isinstance(step, Tap):
                starts[senders[id(step.link)]] = last
                continue
            yield StepLink(last, step.element_id, waiting, branch)
            last, waiting, branch = step.element_id, None, None
        if id(stage.outlet) in senders:
            starts[senders[id(stage.outlet)]] = last
