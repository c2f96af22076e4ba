"""What the API of a server answers, as types: one definition for the server and for its client.

The OpenAPI document is made of them. Everything here is data: importing it brings neither the server nor the pipeline.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class PipelineState(BaseModel):
    """A pipeline of this server."""

    name: str
    running: bool
    ready: bool = Field(description="Whether every stream is live, or has been read.")
    streams: int
    etag: str = Field(description="The tag of its configuration.")
    saved: bool = Field(description="Whether the configuration is that of its file.")


class StreamInfo(BaseModel):
    """A stream: its source as in YAML without secrets, and how it is; None when the pipeline does not run."""

    name: str
    source: dict[str, Any]
    status: dict[str, Any] | None


class ElementInfo(BaseModel):
    """A step: what it is, the options that were given to it without secrets, and those that change live."""

    id: str
    element: str = Field(description="The name of the element, such as `zones`.")
    purpose: str
    options: dict[str, Any]
    changes_live: list[str] = Field(description="Options whose change keeps the state; others build the step anew.")
    json_schema: dict[str, Any] = Field(description="JSON Schema of the options, as of the YAML file.")


class RuleInfo(BaseModel):
    """A rule: the step that has it, its options as in YAML, and what it has counted by stream."""

    element: str = Field(description="The id of the step, such as `zones-1`.")
    kind: str = Field(description="The name of the element, such as `zones`.")
    outline: str = Field(description="How it is drawn: as an open `line` or a closed `zone`.")
    name: str
    options: dict[str, Any]
    counts: dict[str, Any]


class Changed(BaseModel):
    """What became of a change."""

    etag: str = Field(description="The tag of the configuration now.")
    version: int = Field(description="The number of this version of the configuration.")
    proven: bool = Field(description="Whether its probation is over, or it needed none.")


class Version(BaseModel):
    """A version of the configuration that was applied."""

    version: int
    etag: str
    time: float = Field(description="When it was applied, in seconds since the epoch.")
    by: str = Field(description="Who asked for it.")
    proven: bool


class Saved(BaseModel):
    """What became of writing the configuration to its file."""

    written: bool = Field(description="Whether the file differs from what it was.")


class Verdict(BaseModel):
    """What is wrong with a configuration; nothing when `valid`."""

    valid: bool
    problems: list[str]
