"""Routes about steps: their options, and which of them change while the pipeline runs."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Response

from sightline.api import Changed, ElementInfo, NewSteps
from sightline.config import parse_steps
from sightline.config.schema import page_of
from sightline.config.step_checks import reaching_labels
from sightline.graph import Element, PipelineDescription
from sightline.graph.live_options import changes_live
from sightline.graph.masked import masked
from sightline.server.api.changing import change, check_text, merged, unmasked
from sightline.server.api.served import PIPELINE, Admin, IfMatch, Prove, Served, tag_in
from sightline.server.guard import Refused

ELEMENTS = f"{PIPELINE}/elements"
ELEMENT = f"{ELEMENTS}/{{element}}"


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["elements"], dependencies=[Depends(served.known)])
    pipeline = served.pipeline
    kept: dict[str, dict[str, frozenset[str] | None]] = {}

    def reaching_now() -> tuple[PipelineDescription, dict[str, frozenset[str] | None]]:
        """The description, and the labels that reach its steps; these are kept, as models may have to be read."""
        present = pipeline.configuration
        labels = kept.get(present.etag)
        if labels is None:
            kept.clear()
            labels = kept[present.etag] = reaching_labels(
                present.description.steps, streams=list(present.description.sources)
            )
        return present.description, labels

    @router.get(ELEMENTS, summary="List the steps")
    def list_elements(response: Response) -> list[ElementInfo]:
        response.headers["ETag"] = f'"{pipeline.configuration.etag}"'
        present, labels = reaching_now()
        return [_info(element_id, element, labels[element_id]) for element_id, element in present.elements()]

    @router.post(ELEMENTS, summary="Add steps")
    async def add_elements(new: NewSteps, actor: Admin, if_match: IfMatch = None, prove: Prove = None) -> Changed:
        """Between two batches. Steps that are there keep their state as long as their ids stay: `zones-1` counts."""

        def edit(description: PipelineDescription) -> PipelineDescription:
            check_text(served, new.steps, key=("pipeline",))
            if new.after is not None:
                known_element(description, new.after)
            return description.with_steps(parse_steps(new.steps, registry=served.registry), after=new.after)

        return await change(
            served, actor, "add elements", new.after or "", edit, expected=tag_in(if_match), prove=prove
        )

    @router.get(ELEMENT, summary="Show a step")
    def show_element(element: str, response: Response) -> ElementInfo:
        response.headers["ETag"] = f'"{pipeline.configuration.etag}"'
        present, labels = reaching_now()
        return _info(element, known_element(present, element), labels[element])

    @router.delete(ELEMENT, summary="Remove a step")
    async def remove_element(element: str, actor: Admin, if_match: IfMatch = None, prove: Prove = None) -> Changed:
        """What it counted stays in the report."""

        def edit(description: PipelineDescription) -> PipelineDescription:
            known_element(description, element)
            return description.without_element(element)

        return await change(served, actor, "remove element", element, edit, expected=tag_in(if_match), prove=prove)

    @router.patch(ELEMENT, summary="Change options of a step")
    async def change_element(
        element: str,
        options: Annotated[
            dict[str, Any],
            Body(description="Options to change, merged into the present ones (RFC 7396): null takes one out."),
        ],
        actor: Admin,
        if_match: IfMatch = None,
        prove: Prove = None,
    ) -> Changed:
        """Options that change live are taken over between two batches; for others the step is built anew."""

        def edit(description: PipelineDescription) -> PipelineDescription:
            return with_options(served, description, element, options)

        return await change(served, actor, "change element", element, edit, expected=tag_in(if_match), prove=prove)

    return router


def known_element(description: PipelineDescription, element_id: str) -> Element:
    """Return a step. Raises Refused when there is none of that id."""
    found = dict(description.elements())
    if element_id not in found:
        text = f"no step has the id {element_id!r}; the ids are {', '.join(found) or 'none'}"
        raise Refused(HTTPStatus.NOT_FOUND, text)
    return found[element_id]


def options_of_element(element: Element) -> dict[str, Any]:
    """The options that were given to a step, as in YAML, with what is secret."""
    return element.model_dump(mode="json", by_alias=True, exclude_unset=True)


def with_options(
    served: Served, description: PipelineDescription, element_id: str, patch: dict[str, Any], *, whole: bool = False
) -> PipelineDescription:
    """Return a description in which a step has other options, merged with the present ones; `whole` options are those
    of the patch alone. Null takes one out. Raises ConfigurationError for what is wrong with them.
    """
    element = known_element(description, element_id)
    known = options_of_element(element)
    check_text(served, [{element.name: patch}], key=("pipeline",))
    back = unmasked(patch, known)
    given = merged({name: value for name, value in known.items() if not whole or name not in back}, back)
    (read,) = parse_steps([{element.name: given}], registry=served.registry)
    assert isinstance(read, Element)
    return description.with_element(element_id, read)


def _info(element_id: str, element: Element, labels: frozenset[str] | None) -> ElementInfo:
    kind = type(element)
    live = [field.alias or name for name, field in kind.model_fields.items() if changes_live(field)]
    return ElementInfo(
        id=element_id,
        element=element.name,
        purpose=page_of(kind).purpose,
        options=masked(element),
        changes_live=live,
        json_schema=kind.model_json_schema(by_alias=True),
        labels=None if labels is None else sorted(labels),
    )
