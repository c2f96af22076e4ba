"""Routes about steps: their options, and which of them change while the pipeline runs."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Response

from sightline.api import Changed, ElementInfo
from sightline.config import parse_steps
from sightline.config.schema import page_of
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

    @router.get(ELEMENTS, summary="List the steps")
    def list_elements(response: Response) -> list[ElementInfo]:
        response.headers["ETag"] = f'"{pipeline.configuration.etag}"'
        return [_info(element_id, element) for element_id, element in pipeline.description.elements()]

    @router.get(ELEMENT, summary="Show a step")
    def show_element(element: str, response: Response) -> ElementInfo:
        response.headers["ETag"] = f'"{pipeline.configuration.etag}"'
        return _info(element, known_element(pipeline.description, element))

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
    of the patch alone. Raises ConfigurationError for what is wrong with them.
    """
    element = known_element(description, element_id)
    known = options_of_element(element)
    check_text(served, [{element.name: patch}], key=("pipeline",))
    back = unmasked(patch, known)
    given = {**known, **back} if whole else merged(known, back)
    (read,) = parse_steps([{element.name: given}], registry=served.registry)
    assert isinstance(read, Element)
    return description.with_element(element_id, read)


def _info(element_id: str, element: Element) -> ElementInfo:
    kind = type(element)
    live = [field.alias or name for name, field in kind.model_fields.items() if changes_live(field)]
    return ElementInfo(
        id=element_id,
        element=element.name,
        purpose=page_of(kind).purpose,
        options=masked(element),
        changes_live=live,
        json_schema=kind.model_json_schema(by_alias=True),
    )
