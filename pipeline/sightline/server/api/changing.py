"""How the API changes a pipeline: judged as a whole, logged, applied in turns, and proven or taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from anyio import to_thread

from sightline.api import Changed
from sightline.config.document import Entry, InvalidConfiguration, Items, Key, Node, Scalar, Table, node_of
from sightline.config.document import Place as DocumentPlace
from sightline.control.configuration import Configuration
from sightline.control.control import Change
from sightline.errors import StaleConfiguration
from sightline.graph import Outputs, PipelineDescription
from sightline.graph.masked import MASK
from sightline.server.api.served import Served
from sightline.server.audit import Actor, differences

_PROBATION_SECONDS = 5.0
_MOST_TRIES = 5
_WAIT_SECONDS = 330.0

Edit = Callable[[PipelineDescription], PipelineDescription]


async def change(
    served: Served,
    actor: Actor,
    action: str,
    target: str,
    edit: Edit,
    *,
    expected: str | None = None,
    prove: float | None = None,
    probation: float = _PROBATION_SECONDS,
) -> Changed:
    """Change the pipeline to what `edit` makes of its description; `expected` is the tag that it must have.

    Return when the change is applied, or, with `prove`, when it has worked for that time. Raises what a change raises:
    ConfigurationError (StaleConfiguration for another tag), OperatorError, ChangeReverted; OutputError when it cannot
    be logged.
    """
    return await to_thread.run_sync(
        lambda: _carry_out(served, actor, action, target, edit, expected=expected, prove=prove, probation=probation)
    )


def _carry_out(
    served: Served,
    actor: Actor,
    action: str,
    target: str,
    edit: Edit,
    *,
    expected: str | None,
    prove: float | None,
    probation: float,
) -> Changed:
    for tries_left in reversed(range(_MOST_TRIES)):
        try:
            made, logged = _applied(
                served, actor, action, target, edit, expected=expected, seconds=probation if prove is None else prove
            )
        except StaleConfiguration:  # not by the API: that takes turns
            if expected is not None or not tries_left:
                raise
            continue
        with logged:
            if prove is not None:
                made.wait(_WAIT_SECONDS)
        return changed_now(served.pipeline.configuration)
    raise AssertionError("the last try returns or raises")


def _applied(
    served: Served, actor: Actor, action: str, target: str, edit: Edit, *, expected: str | None, seconds: float
) -> tuple[Change, ExitStack]:
    """Apply a change; return it, and what logs its end when it is left."""
    pipeline = served.pipeline
    with served.turn, ExitStack() as logged:
        present = pipeline.configuration
        wanted = admitted(served, edit(present.description), changed_from=present.description)
        found = differences(present.description, wanted)
        logged.enter_context(served.audit.change(actor, action, target=target, changes=found))
        made = pipeline.change(
            partial(_instead, wanted), expected=expected or present.etag, prove=seconds, by=actor.name
        )
        made.applied.wait(_WAIT_SECONDS)
        return made, logged.pop_all()


def _instead(wanted: PipelineDescription, present: PipelineDescription) -> PipelineDescription:
    del present  # its tag is that of the description from which the wanted one was made
    return wanted


def changed_now(now: Configuration) -> Changed:
    """Return what a change has led to."""
    return Changed(etag=now.etag, version=now.number, proven=now.is_proven)


def admitted(
    served: Served, description: PipelineDescription, *, changed_from: PipelineDescription
) -> PipelineDescription:
    """Return a description as it may run: what came by the API is within the policy. Raises InvalidConfiguration."""
    outputs = Outputs(served.pipeline.outputs_root)
    return served.policy.admitted(description, changed_from=changed_from, outputs=outputs)


def check_text(served: Served, given: object, *, key: Key = ()) -> None:
    """Judge what was written, plain data or a tree, before it is read into elements. Raises InvalidConfiguration."""
    present = node_of(served.pipeline.description.to_plain(), place=DocumentPlace())
    node = given if isinstance(given, Scalar | Items | Table) else node_of(given, place=DocumentPlace())
    problems = served.policy.text_problems(node, changed_from=present, registry=served.registry, key=key)
    if problems:
        raise InvalidConfiguration(problems)


def unmasked(given: Any, known: Any) -> Any:
    """Put the values back that were shown as `***`: what is given back stays what it is."""
    if isinstance(given, str) and MASK in given and isinstance(known, str):
        return known
    if isinstance(given, Mapping) and isinstance(known, Mapping):
        return {name: unmasked(one, known.get(name)) for name, one in given.items()}
    if isinstance(given, list) and isinstance(known, list):
        padded = [*known, *[None] * len(given)]
        return [unmasked(*pair) for pair in zip(given, padded, strict=False)]
    return given


def unmasked_tree(node: Node, known: Any) -> Node:
    """Return a tree with the values that were shown as `***` put back, as `unmasked` does it with plain data."""
    if isinstance(node, Table):
        present = known if isinstance(known, Mapping) else {}
        return replace(
            node,
            entries={
                name: Entry(entry.key_place, unmasked_tree(entry.node, present.get(name)))
                for name, entry in node.entries.items()
            },
        )
    if isinstance(node, Items):
        padded = [*(known if isinstance(known, list) else []), *[None] * len(node.items)]
        return replace(node, items=tuple(unmasked_tree(*pair) for pair in zip(node.items, padded, strict=False)))
    if isinstance(known, str) and isinstance(node.value, str) and MASK in node.value:
        return replace(node, value=known, text=known, quoted=True)
    return node


def merged(known: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Merge a patch into options (RFC 7396): null takes a value out."""
    result = dict(known)
    for name, value in patch.items():
        if value is None:
            with suppress(KeyError):
                del result[name]
        elif isinstance(value, Mapping):
            below = result.get(name)
            result[name] = merged(below if isinstance(below, Mapping) else {}, value)
        else:
            result[name] = value
    return result
