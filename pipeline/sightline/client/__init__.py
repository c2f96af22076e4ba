"""The client of a server's API, for Python: see and steer a running pipeline from another program."""

from sightline.api import Changed, ElementInfo, PipelineState, RuleInfo, StreamInfo, Verdict, Version
from sightline.client.client import Client
from sightline.client.errors import (
    AccessDenied,
    ApiError,
    ClientError,
    Conflict,
    Invalid,
    Mistake,
    NotFound,
    Refused,
    Reverted,
    ServerFault,
    Stale,
    Unavailable,
    UnexpectedAnswer,
    Unreachable,
)
from sightline.client.pipelines import Configuration, PipelineClient

__all__ = [
    "AccessDenied",
    "ApiError",
    "Changed",
    "Client",
    "ClientError",
    "Configuration",
    "Conflict",
    "ElementInfo",
    "Invalid",
    "Mistake",
    "NotFound",
    "PipelineClient",
    "PipelineState",
    "Refused",
    "Reverted",
    "RuleInfo",
    "ServerFault",
    "Stale",
    "StreamInfo",
    "Unavailable",
    "UnexpectedAnswer",
    "Unreachable",
    "Verdict",
    "Version",
]
