"""Routes about versions of the configuration: list them, go back to one, write the present one to its file."""

from __future__ import annotations

from http import HTTPStatus

from anyio import to_thread
from fastapi import APIRouter, Depends, Response

from sightline.api import Changed, ConfigurationFileInfo, Saved, Version
from sightline.server.api.changing import changed_now
from sightline.server.api.configuration import CONFIGURATION, YAML_TYPE, text_of
from sightline.server.api.served import Admin, Prove, Served
from sightline.server.guard import Refused


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["configuration"], dependencies=[Depends(served.known)])
    pipeline = served.pipeline

    @router.post(f"{CONFIGURATION}/save", summary="Write the configuration to its file")
    async def save_configuration(actor: Admin) -> Saved:
        """Only what has changed since the file was read: comments, order and references to the environment stay."""

        def write() -> Saved:
            with served.audit.change(actor, "save configuration", target=served.name):
                return Saved(written=pipeline.write_back())

        return await to_thread.run_sync(write)

    @router.get(f"{CONFIGURATION}/versions", summary="List the versions of the configuration")
    def list_versions() -> list[Version]:
        """The last hundred, the present one last."""
        return [
            Version(version=one.number, etag=one.etag, time=one.at_ns / 1e9, by=one.by, proven=one.is_proven)
            for one in pipeline.versions
        ]

    @router.get(
        f"{CONFIGURATION}/versions/{{tag}}",
        summary="Read an earlier configuration",
        response_class=Response,
        responses={200: {"content": {YAML_TYPE: {}}}},
    )
    def read_version(tag: str) -> Response:
        """As YAML, with secrets as `***`."""
        found = next((one for one in reversed(pipeline.versions) if one.etag == tag), None)
        if found is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"no version that is kept has the tag {tag}")
        return Response(text_of(found.description), headers={"ETag": f'"{tag}"', "Content-Type": YAML_TYPE})

    @router.get(f"{CONFIGURATION}/file", summary="Read what the file describes")
    def read_file() -> ConfigurationFileInfo:
        """When it was read or written last: in the form of the configuration, so that both can be compared."""
        file = pipeline.file
        if file is None or file.description is None:
            raise Refused(HTTPStatus.NOT_FOUND, "this pipeline comes from no file")
        return ConfigurationFileInfo(
            path=str(file.path),
            text=text_of(file.description),
            changed=file.has_changed(),
            saved=pipeline.configuration.is_of_file,
        )

    @router.post(f"{CONFIGURATION}/rollback", summary="Go back to an earlier configuration")
    async def roll_back(actor: Admin, to: str | None = None, prove: Prove = 5.0) -> Changed:
        """To the last one that worked, or to the one with the tag `to`."""
        if to is not None and to not in {one.etag for one in pipeline.versions}:
            raise Refused(HTTPStatus.NOT_FOUND, f"no version that is kept has the tag {to}")

        def ask() -> Changed:
            with served.audit.change(actor, "roll back", target=served.name, changes=[{"path": "to", "after": to}]):
                pipeline.roll_back(to=to, prove=prove or 0, by=actor.name).wait()
            return changed_now(pipeline.configuration)

        return await to_thread.run_sync(ask)

    return router
