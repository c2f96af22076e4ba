"""What steps find, and what their options name of the steps before them: labels, rules, ids.

An element implements the protocols that apply to it. The checks of a configuration report a name that no step before
provides, with the place of the option.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from sightline.graph.element import Capability, Problem

Location = tuple[str | int, ...]
"""The path of an option below its element."""
Named = Iterable[tuple[Location, str]]
"""Names, each with the option that holds it."""


@runtime_checkable
class FindsLabels(Protocol):
    """An element that knows which labels it adds. One that gives objects and is not of this kind may add any label."""

    def found_labels(self) -> frozenset[str] | None:
        """Return the labels of the objects that this step can add or rename; None when nobody knows before it runs.

        It never raises: None when files cannot be read.
        """
        ...


@runtime_checkable
class NamesLabels(Protocol):
    """An element whose options name labels."""

    def wanted_labels(self) -> Named:
        """Return the labels that a step before must find."""
        ...


@runtime_checkable
class FindsRules(Protocol):
    """An element that knows which rules' events it adds. One that gives events and is not of this kind may add any."""

    def found_rules(self) -> frozenset[str]:
        """Return the names of the rules whose events this step adds."""
        ...


@runtime_checkable
class NamesRules(Protocol):
    """An element whose options name rules."""

    def wanted_rules(self) -> Named:
        """Return the rules that a step before must have: `step.rule` or `step.rule.direction`, where the step is an id,
        or the name of its element.
        """
        ...


@runtime_checkable
class MakesViews(Protocol):
    """An element that composes images of views."""

    def made_views(self) -> frozenset[str]:
        """Return the names of the views."""
        ...


@runtime_checkable
class NamesViews(Protocol):
    """An element whose options name views."""

    def wanted_views(self) -> Named:
        """Return the views that a step before must make."""
        ...


@runtime_checkable
class NamesSteps(Protocol):
    """An element whose options name other steps."""

    def named_steps(self) -> Named:
        """Return the ids that steps before must have."""
        ...


@runtime_checkable
class ReliesOnSearches(Protocol):
    """An element that must not miss any object, and names the steps that search for them."""

    def relied_on(self) -> Named:
        """Return the ids of steps before that must search whole images."""
        ...


@runtime_checkable
class SendsImages(Protocol):
    """An element that sends images of frames to a server which only redacted ones may reach."""

    def images_leave_to(self) -> str | None:
        """Return the host of another machine that gets images, None where every image may be sent: to this machine, or
        because the options say so.
        """
        ...


@runtime_checkable
class VerifiesAlarms(Protocol):
    """An element that verifies the alarms of rules with `verify` that reach it, and puts them among the events."""

    def is_for_alarms_only(self) -> bool:
        """Return whether it does nothing else, so that it is a mistake if no rule before it has any."""
        ...


@runtime_checkable
class SearchesImages(Protocol):
    """An element that can search whole images for objects, and then marks the frames it searched (`with_search`)."""

    def searches(self) -> bool:
        """Return whether it does, as it is configured."""
        ...


@runtime_checkable
class ChecksCapabilities(Protocol):
    """An element whose needs depend on the stream, or of which one of several is enough."""

    def check_given(self, given: Mapping[str, frozenset[Capability]]) -> Iterable[Problem]:
        """Return what is missing; `given` holds by stream what the steps before this one give."""
        ...
