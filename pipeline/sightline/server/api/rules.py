"""Routes about rules: the lines, zones and others that watch tracked objects, as objects of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Body, Depends, Response
from pydantic import BaseModel, Field

from sightline.api import Changed, RuleInfo, RuleKind
from sightline.config.schema import page_of
from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription
from sightline.graph.masked import masked
from sightline.graph.registry import Registry
from sightline.graph.rule import Rule
from sightline.server.api.changing import change
from sightline.server.api.elements import known_element, with_options
from sightline.server.api.served import PIPELINE, IfMatch, Operator, Prove, Served, tag_in
from sightline.server.api.streams import check_stream
from sightline.server.guard import Refused

if TYPE_CHECKING:
    from sightline.pipeline import Pipeline

RULES = f"{PIPELINE}/rules"
RULE = f"{RULES}/{{element}}/{{rule}}"


class ResetRequest(BaseModel):
    """Whose counts begin anew."""

    stream: str | None = Field(None, description="The stream; all of them when not given.", max_length=128)


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["rules"], dependencies=[Depends(served.known)])
    pipeline = served.pipeline

    kinds = cache(partial(_rule_kinds, served.registry))

    @router.get(RULES, summary="List the rules with their counts")
    def list_rules(response: Response) -> list[RuleInfo]:
        response.headers["ETag"] = f'"{pipeline.configuration.etag}"'
        return _infos(pipeline)

    @router.get(f"{PIPELINE}/rule-kinds", summary="List the kinds of rules that are drawn")
    def list_kinds() -> list[RuleKind]:
        """What a step that is added can be, besides those that are there."""
        return kinds()

    @router.get(RULE, summary="Show a rule")
    def show_rule(element: str, rule: str, response: Response) -> RuleInfo:
        response.headers["ETag"] = f'"{pipeline.configuration.etag}"'
        _check_rule(served, element, rule)
        return next(one for one in _infos(pipeline) if (one.element, one.name) == (element, rule))

    @router.put(RULE, summary="Add a rule, or replace it")
    async def put_rule(
        element: str,
        rule: str,
        options: Annotated[
            dict[str, Any],
            Body(
                description="The rule as in YAML.",
                examples=[{"polygon": [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9]], "classes": ["person"]}],
            ),
        ],
        actor: Operator,
        if_match: IfMatch = None,
        prove: Prove = None,
    ) -> Changed:
        """Between two batches, without losing a frame. What it has counted stays, and the edit itself is no event."""

        def edit(description: PipelineDescription) -> PipelineDescription:
            _check_holds_rules(served, element)
            return with_options(served, description, element, {rule: options}, whole=True)

        return await change(
            served, actor, "put rule", f"{element}/{rule}", edit, expected=tag_in(if_match), prove=prove
        )

    @router.patch(RULES, summary="Change several rules at once")
    async def change_rules(
        rules: Annotated[
            dict[str, dict[str, dict[str, Any] | None]],
            Body(
                description="By step and name, each rule as in YAML; null removes one.",
                examples=[{"zones-1": {"plaza": {"polygon": [[0.2, 0.4], [0.8, 0.4], [0.8, 0.9]]}, "old": None}}],
            ),
        ],
        actor: Operator,
        if_match: IfMatch = None,
        prove: Prove = None,
    ) -> Changed:
        """All or none. A rule that goes while an equal one comes in the same step is renamed: its counts go along."""
        target = ", ".join(f"{element}/{name}" for element, changes in rules.items() for name in changes)
        edit = partial(_with_rules, served, rules)
        return await change(served, actor, "change rules", target, edit, expected=tag_in(if_match), prove=prove)

    @router.delete(RULE, summary="Remove a rule")
    async def remove_rule(
        element: str, rule: str, actor: Operator, if_match: IfMatch = None, prove: Prove = None
    ) -> Changed:
        def edit(description: PipelineDescription) -> PipelineDescription:
            _check_rule(served, element, rule)
            return with_options(served, description, element, {rule: None})

        return await change(
            served, actor, "remove rule", f"{element}/{rule}", edit, expected=tag_in(if_match), prove=prove
        )

    @router.post(
        f"{RULES}/{{element}}/reset", summary="Let the counts of a step begin anew", status_code=HTTPStatus.ACCEPTED
    )
    async def reset_counts(element: str, actor: Operator, request: ResetRequest | None = None) -> ResetRequest:
        """With the next frame, of one stream or of all. Who is inside stays, and what lasts goes on."""
        _check_holds_rules(served, element)
        asked = request or ResetRequest(stream=None)
        if asked.stream is not None:
            check_stream(served, asked.stream)

        def reset() -> None:
            changes = [] if asked.stream is None else [{"path": "stream", "after": asked.stream}]
            with served.audit.change(actor, "reset counts", target=element, changes=changes):
                pipeline.reset_counts(element, stream=asked.stream)

        await to_thread.run_sync(reset)
        return asked

    return router


def _infos(pipeline: Pipeline) -> list[RuleInfo]:
    view = pipeline.view()
    counted = {} if view is None else view.counts
    return [
        RuleInfo(
            element=element_id,
            kind=element.name,
            outline=element.outline,
            name=name,
            options=dict(options[name]) if isinstance(options.get(name), dict) else options,
            counts={stream: rules[name] for stream, rules in counted.get(element_id, {}).items() if name in rules},
        )
        for element_id, element in pipeline.description.elements()
        if isinstance(element, Rule)
        for options in [masked(element)]
        for name in element.rule_names()
    ]


def _rule_kinds(registry: Registry) -> list[RuleKind]:
    return [
        RuleKind(
            kind=name,
            outline=kind.outline,
            purpose=page_of(kind).purpose,
            json_schema=kind.model_json_schema(by_alias=True),
        )
        for name in registry.element_names
        for kind in [_rule_kind(registry, name)]
        if kind is not None
    ]


def _rule_kind(registry: Registry, name: str) -> type[Rule] | None:
    """Return an element whose rules are named shapes among its options; None for others, and for broken ones."""
    try:
        kind = registry.element(name)
    except ConfigurationError:
        return None
    return kind if issubclass(kind, Rule) and kind.model_config.get("extra") == "allow" else None


def _with_rules(
    served: Served, rules: Mapping[str, dict[str, dict[str, Any] | None]], description: PipelineDescription
) -> PipelineDescription:
    for element, changes in rules.items():
        _check_holds_rules(served, element)
        for name, options in changes.items():
            if options is None:
                _check_rule(served, element, name)
        description = with_options(served, description, element, changes, whole=True)
    return description


def _has(description: PipelineDescription, element_id: str, rule: str) -> bool:
    element = known_element(description, element_id)
    return isinstance(element, Rule) and rule in element.rule_names()


def _check_holds_rules(served: Served, element_id: str) -> None:
    if not isinstance(known_element(served.pipeline.description, element_id), Rule):
        raise Refused(HTTPStatus.NOT_FOUND, f"the step {element_id!r} has no rules")


def _check_rule(served: Served, element_id: str, rule: str) -> None:
    """Raises Refused when a step has no rule of that name."""
    _check_holds_rules(served, element_id)
    if not _has(served.pipeline.description, element_id, rule):
        raise Refused(HTTPStatus.NOT_FOUND, f"the step {element_id!r} has no rule {rule!r}")
