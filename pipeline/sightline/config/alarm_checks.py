"""Check that alarms of rules with `verify` reach a step that verifies them, before anybody waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sightline.config.document import Key
from sightline.config.step_checks import means_rule
from sightline.graph.element import Element
from sightline.graph.fields import matching
from sightline.graph.references import NamesRules, VerifiesAlarms
from sightline.graph.rule import Rule
from sightline.graph.rule_options import Verify
from sightline.graph.tree import Parallel, Step, identify
from sightline.graph.wording import allowed


@dataclass(frozen=True, slots=True)
class _Placed:
    """An element with its id and key path. `is_on_the_way`: frames of the step before reach it in any case, and what
    it adds reaches all steps behind.
    """

    identity: str
    key: Key
    element: Element
    is_on_the_way: bool = True


def lost_alarms(steps: Sequence[Step], *, streams: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Each mistake about alarms that are verified, with its key path: rules whose alarms nobody verifies, steps that
    wait for these alarms before they are verified, and steps that verify none.
    """
    keys = (key for key, _ in _keyed(steps, ("pipeline",)))
    ids = {key: identity for key, (identity, _) in zip(keys, identify(tuple(steps)), strict=True)}
    used: set[Key] = set()
    verifiers: list[_Placed] = []
    has_alarms = False
    for rule, behind in _with_behind(steps, ids, ("pipeline",), []):
        if isinstance(rule.element, VerifiesAlarms):
            verifiers.append(rule)
        for name, verify in _verified(rule.element):
            has_alarms = True
            yield from _of_rule(rule, name, verify, behind, streams=streams, used=used)
    for one in verifiers:
        if one.key in used and one.element.on_error == "skip":
            yield one.key, "alarms would be lost with on_error: skip, because this step verifies them: leave it out"
        only = isinstance(one.element, VerifiesAlarms) and one.element.is_for_alarms_only()
        if only and not has_alarms:
            text = "no rule has alarms for it: write verify: true at a rule before it, or another value of about"
            yield (*one.key, "about"), text


def _of_rule(
    rule: _Placed, name: str, verify: Verify, behind: Sequence[_Placed], *, streams: Sequence[str], used: set[Key]
) -> Iterator[tuple[Key, str]]:
    key = (*rule.key, name, "verify")
    full = f"{rule.identity}.{name}"
    possible = [one for one in behind if one.is_on_the_way and isinstance(one.element, VerifiesAlarms)]
    chosen = [one for one in possible if verify.by in (None, one.identity)]
    if verify.by is not None and not chosen:
        others = [one.identity for one in possible]
        which = f"; those are: {allowed(others)}" if others else ""
        yield (*key, "by"), f"no describe step behind this one is called {verify.by!r}{which}"
        return
    waiting: dict[Key, str] = {}
    own = matching(rule.element.streams, streams)
    for stream in own:
        on_it = [one for one in behind if stream in matching(one.element.streams, streams)]
        verifier = next((one for one in chosen if one in on_it), None)
        if verifier is None:
            where = f" on the stream {stream!r}" if len(own) > 1 else ""
            text = "nobody verifies these alarms, which would never come out"
            yield key, f"{text}{where}: put describe behind this step, on the way of all frames, or leave verify out"
            return
        used.add(verifier.key)
        for one in on_it[: on_it.index(verifier)]:
            for below, wanted in one.element.wanted_rules() if isinstance(one.element, NamesRules) else ():
                if means_rule(wanted, full):
                    waiting[(*one.key, *below)] = verifier.identity
    for place, identity in waiting.items():
        yield place, f"alarms of {full} come behind {identity!r} only, which verifies them: put this step behind it"


def _verified(element: Element) -> Iterator[tuple[str, Verify]]:
    """The rules of an element whose alarms are verified."""
    if isinstance(element, Rule):
        for name, options in element.rule_options().items():
            if (verify := options.verification) is not None:
                yield name, verify


def _with_behind(
    steps: Sequence[Step], ids: Mapping[Key, str], key: Key, behind: Sequence[_Placed]
) -> Iterator[tuple[_Placed, list[_Placed]]]:
    """Each element, with those that frames reach behind it; `behind` are those behind all of these steps."""
    for number, step in enumerate(steps):
        here = (*key, number, step.name)
        after = [one for rest in range(number + 1, len(steps)) for one in _flat(steps, rest, ids, key)]
        if isinstance(step, Element):
            yield _Placed(ids[here], here, step), [*after, *behind]
            continue
        outside = [*after, *behind] if isinstance(step, Parallel) else []
        for name, branch in step.branches.items():
            yield from _with_behind(branch, ids, (*here, name), outside)


def _flat(steps: Sequence[Step], number: int, ids: Mapping[Key, str], key: Key) -> Iterator[_Placed]:
    """One of the steps, or all that stand in its branches."""
    step, here = steps[number], (*key, number, steps[number].name)
    if isinstance(step, Element):
        yield _Placed(ids[here], here, step)
        return
    for name, branch in step.branches.items():
        for place, element in _keyed(branch, (*here, name)):
            yield _Placed(ids[place], place, element, is_on_the_way=False)


def _keyed(steps: Sequence[Step], key: Key) -> Iterator[tuple[Key, Element]]:
    for number, step in enumerate(steps):
        here = (*key, number, step.name)
        if isinstance(step, Element):
            yield here, step
        else:
            for name, branch in step.branches.items():
                yield from _keyed(branch, (*here, name))
