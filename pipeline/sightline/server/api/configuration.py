"""Routes about the configuration as a whole: read, check, apply."""

from __future__ import annotations

import io
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Response
from ruamel.yaml import YAML

from sightline.api import Changed, Verdict
from sightline.config import InvalidConfiguration, check_description, description_from
from sightline.config.document import plain
from sightline.config.yaml_tree import parse
from sightline.graph import Element, Outputs, PipelineDescription
from sightline.graph.masked import masked
from sightline.graph.tree import Step
from sightline.server.api.changing import admitted, change, check_text, unmasked
from sightline.server.api.served import PIPELINE, Admin, IfMatch, Operator, Prove, Served, tag_in
from sightline.server.guard import Refused

CONFIGURATION = f"{PIPELINE}/configuration"
_YAML = "application/yaml"
_NAME = "the configuration"
ConfigurationText = Annotated[
    str, Body(media_type=_YAML, description="A configuration as in the YAML file. `***` stays what it is.")
]


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["configuration"], dependencies=[Depends(served.known)])
    pipeline = served.pipeline

    @router.get(
        CONFIGURATION,
        summary="Read the configuration",
        response_class=Response,
        responses={200: {"content": {_YAML: {}}}},
    )
    def read_configuration() -> Response:
        """As YAML, with what has changed since the start, and secrets as `***`."""
        present = pipeline.configuration
        headers = {"ETag": f'"{present.etag}"', "Content-Type": _YAML}
        return Response(_text_of(present.description), headers=headers)

    @router.post(f"{CONFIGURATION}/check", summary="Say what is wrong with a configuration")
    def check_configuration(text: ConfigurationText, actor: Operator) -> Verdict:
        """Nothing changes."""
        del actor
        present = pipeline.description
        try:
            wanted = admitted(served, _described(served, text), changed_from=present)
            problems = check_description(wanted, outputs=Outputs(pipeline.outputs_root), registry=served.registry)
            if problems:
                raise InvalidConfiguration(problems)
        except InvalidConfiguration as error:
            return Verdict(valid=False, problems=str(error).splitlines())
        return Verdict(valid=True, problems=[])

    @router.put(CONFIGURATION, summary="Apply a configuration")
    async def apply_configuration(
        text: ConfigurationText, actor: Admin, if_match: IfMatch = None, prove: Prove = 5.0
    ) -> Changed:
        """Checked as a whole, applied between two batches, and reverted when it does not work for `prove` seconds."""
        expected = tag_in(if_match)
        if if_match is None:
            text_ = "say which configuration this replaces: If-Match with the ETag of what you read, or *"
            raise Refused(HTTPStatus.PRECONDITION_REQUIRED, text_)
        return await change(
            served,
            actor,
            "apply configuration",
            served.name,
            lambda _: _described(served, text),
            expected=expected,
            prove=prove,
        )

    return router


def _described(served: Served, text: str) -> PipelineDescription:
    """Return the description in a text. Raises InvalidConfiguration."""
    document = parse(text, name=_NAME)
    if document.problems or document.root is None:
        raise InvalidConfiguration(document.problems)
    given = plain(document.root)
    if not isinstance(given, dict):
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "a configuration is a table with `sources` and `pipeline`")
    check_text(served, given)
    whole = unmasked(given, served.pipeline.description.to_plain())
    return description_from(whole, registry=served.registry, checked=False)  # by the policy first, then by the change


def _text_of(description: PipelineDescription) -> str:
    shown: dict[str, Any] = description.to_plain()
    shown["sources"] = {name: masked(description.sources[name]) for name in shown["sources"]}
    shown["pipeline"] = _shown(description.steps)
    text = io.StringIO()
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False
    yaml.default_flow_style = False
    yaml.dump(shown, text)
    return text.getvalue()


def _shown(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    return [
        {step.name: masked(step)}
        if isinstance(step, Element)
        else {step.name: {name: _shown(branch) for name, branch in step.branches.items()}}
        for step in steps
    ]
