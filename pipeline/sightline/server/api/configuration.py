"""Routes about the configuration as a whole: read, check, apply."""

from __future__ import annotations

import gzip
import io
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Response
from ruamel.yaml import YAML
from starlette.requests import Request

from sightline.api import Changed, ConfigurationProblem, Verdict
from sightline.config import InvalidConfiguration, LocatedProblem, Place, check_description, description_from
from sightline.config.document import Node, Scalar, dotted
from sightline.config.spans import length_at, located
from sightline.config.yaml_tree import parse
from sightline.graph import Outputs, PipelineDescription
from sightline.graph.masked import masked_pipeline
from sightline.redaction import redact
from sightline.server.api.changing import admitted, change, check_text, unmasked_tree
from sightline.server.api.served import PIPELINE, Admin, IfMatch, Operator, Prove, Served, tag_in
from sightline.server.guard import Refused

CONFIGURATION = f"{PIPELINE}/configuration"
YAML_TYPE = "application/yaml"
_WIDTH = 120
_SCHEMA = "application/schema+json"
_NAME = "the configuration"
_EMPTY = Scalar(Place(_NAME, 1, 1), None)
ConfigurationText = Annotated[
    str, Body(media_type=YAML_TYPE, description="A configuration as in the YAML file. `***` stays what it is.")
]


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["configuration"], dependencies=[Depends(served.known)])
    pipeline = served.pipeline

    @router.get(
        CONFIGURATION,
        summary="Read the configuration",
        response_class=Response,
        responses={200: {"content": {YAML_TYPE: {}}}},
    )
    def read_configuration() -> Response:
        """As YAML, with what has changed since the start, and secrets as `***`."""
        present = pipeline.configuration
        headers = {"ETag": f'"{present.etag}"', "Content-Type": YAML_TYPE}
        return Response(text_of(present.description), headers=headers)

    @router.get(
        f"{CONFIGURATION}/schema",
        summary="Describe what a configuration may hold",
        response_class=Response,
        responses={200: {"content": {_SCHEMA: {}}}},
    )
    def read_schema(request: Request) -> Response:
        """The JSON Schema of the YAML file with everything that is installed, as `sightline schema` prints it."""
        schema = served.schema
        headers = {"ETag": f'"{schema.tag}"', "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if schema.tag in request.headers.get("if-none-match", ""):
            return Response(None, HTTPStatus.NOT_MODIFIED, headers)
        headers["Content-Type"] = _SCHEMA
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(schema.compressed, headers={**headers, "Content-Encoding": "gzip"})
        return Response(gzip.decompress(schema.compressed), headers=headers)

    @router.post(f"{CONFIGURATION}/check", summary="Say what is wrong with a configuration")
    def check_configuration(text: ConfigurationText, actor: Operator) -> Verdict:
        """Each mistake with its place in the text; nothing changes."""
        del actor
        root: Node = _EMPTY
        try:
            root = _tree(text)
            wanted = admitted(served, described(root), changed_from=pipeline.description)
            found = check_description(wanted, outputs=Outputs(pipeline.outputs_root), registry=served.registry)
        except InvalidConfiguration as error:
            found = error.problems
        return Verdict(valid=not found, problems=[_problem(one, text) for one in located(found, root).problems])

    @router.put(CONFIGURATION, summary="Apply a configuration")
    async def apply_configuration(
        text: ConfigurationText, actor: Admin, if_match: IfMatch = None, prove: Prove = 5.0
    ) -> Changed:
        """Checked as a whole, applied between two batches, and reverted when it does not work for `prove` seconds."""
        expected = tag_in(if_match)
        if if_match is None:
            text_ = "say which configuration this replaces: If-Match with the ETag of what you read, or *"
            raise Refused(HTTPStatus.PRECONDITION_REQUIRED, text_)
        root = _tree(text)
        try:
            return await change(
                served,
                actor,
                "apply configuration",
                served.name,
                lambda _: described(root),
                expected=expected,
                prove=prove,
            )
        except InvalidConfiguration as error:
            raise located(error.problems, root) from None

    def described(root: Node) -> PipelineDescription:
        """The description in a tree, which the policy still has to judge. Raises InvalidConfiguration."""
        check_text(served, root)
        whole = unmasked_tree(root, pipeline.description.to_plain())
        return description_from(whole, registry=served.registry, checked=False)

    return router


def _tree(text: str) -> Node:
    """Parse a text. Raises InvalidConfiguration."""
    document = parse(text, name=_NAME)
    if document.problems:
        raise InvalidConfiguration(document.problems)
    return document.root or _EMPTY


def _problem(problem: LocatedProblem, text: str) -> ConfigurationProblem:
    place = problem.place
    return ConfigurationProblem(
        path=dotted(problem.key),
        message=redact(problem.message),
        line=place.line,
        column=place.column,
        length=length_at(text, place) if place.line else 0,
    )


def text_of(description: PipelineDescription) -> str:
    """A description as YAML, with secrets as `***`."""
    text = io.StringIO()
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False
    yaml.default_flow_style = None  # what holds no other list or mapping stands on one line
    yaml.width = _WIDTH
    yaml.dump(masked_pipeline(description), text)
    return text.getvalue()
