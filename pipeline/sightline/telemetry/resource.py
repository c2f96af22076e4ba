"""Who sends telemetry: the attributes of OpenTelemetry's resource."""

from __future__ import annotations

import os
import socket
from importlib.metadata import version
from typing import TYPE_CHECKING
from uuid import uuid4

from sightline.errors import MissingExtra

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

SERVICE_NAME = "sightline"


def make_resource(pipeline: str, *, purpose: str) -> Resource:
    """Return the resource of a run of a pipeline, with an instance id of its own.

    OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before what is found here. Raises MissingExtra without the
    packages of OpenTelemetry, which `purpose` needs.
    """
    try:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    except ModuleNotFoundError as error:
        raise MissingExtra("opentelemetry-sdk", extra="otel", purpose=purpose) from error
    found: dict[str, str | int] = {
        "service.name": SERVICE_NAME,
        "service.version": version("sightline"),
        "service.instance.id": str(uuid4()),
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
        "sightline.pipeline": pipeline,
    }
    return Resource.create(found).merge(OTELResourceDetector().detect())
