"""Versions of a pipeline's configuration, and the tags by which a change names the one that it was made from."""

from __future__ import annotations

import json
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

from pydantic import BaseModel

from sightline.errors import ConfigurationError, StaleConfiguration
from sightline.graph import Element, PipelineDescription, Step

_MOST_VERSIONS = 100
_TAG_BYTES = 8


@dataclass(frozen=True)
class Configuration:
    """A version of a pipeline's configuration.

    `number` counts the versions of a pipeline from 1, `at_ns` is when this one was applied (nanoseconds since the
    epoch), and `by` who asked for it. `is_proven` says that it has worked: it ran as long as its change was on
    probation, or needed no probation. `is_of_file` says that the file of the pipeline described the same when it was
    read or written last.
    """

    description: PipelineDescription = field(repr=False)
    number: int
    at_ns: int
    by: str
    is_proven: bool
    is_of_file: bool = False
    _key: bytes = field(default=b"", repr=False, compare=False)

    @cached_property
    def etag(self) -> str:
        """The tag of this configuration: equal descriptions have equal tags as long as the pipeline object lives.

        Passwords are part of it. It is keyed with random bytes that leave the process by no way, so that nobody can
        find a password by trying which one gives the tag.
        """
        return blake2b(_canonical(self.description), key=self._key, digest_size=_TAG_BYTES).hexdigest()


class Versions:
    """The last hundred versions of a configuration, the present one last; from one thread at a time."""

    def __init__(self, description: PipelineDescription, *, epoch_ns: Callable[[], int]) -> None:
        self._key = secrets.token_bytes(32)
        self._epoch_ns = epoch_ns
        self._versions: deque[Configuration] = deque(maxlen=_MOST_VERSIONS)
        self.add(description)

    @property
    def all(self) -> tuple[Configuration, ...]:
        """All that are kept, the oldest first."""
        return tuple(self._versions)

    @property
    def present(self) -> Configuration:
        """The one that holds now."""
        return self._versions[-1]

    def add(self, description: PipelineDescription, *, by: str = "", is_proven: bool = True) -> None:
        """Make a description the present one; what equals it already stays the same version."""
        before = self._versions[-1] if self._versions else None
        if before is not None and before.description == description:
            return
        number = 1 if before is None else before.number + 1
        self._versions.append(Configuration(description, number, self._epoch_ns(), by, is_proven, _key=self._key))

    def prove(self, number: int) -> None:
        """Note that a version has worked."""
        for index, one in enumerate(self._versions):
            if one.number == number:
                self._versions[index] = replace(one, is_proven=True)

    def check(self, expected: str | None) -> None:
        """Raises StaleConfiguration when the present version has another tag than a change was made from."""
        present = self.present
        if expected is None or expected == present.etag:
            return
        by = f", asked for by {present.by}" if present.by else ""
        raise StaleConfiguration(
            f"the configuration is {present.etag} (version {present.number}{by}), and the change was made from "
            f"{expected}: read the configuration again, and make the change from what it is now",
            etag=present.etag,
        )

    def to_restore(self, etag: str | None) -> PipelineDescription:
        """Return the description of the version with a tag; without one, of the last that worked before the present
        one. Raises ConfigurationError when there is none.
        """
        versions = list(self._versions)
        if etag is not None:
            found = [one for one in versions if one.etag == etag]
            if not found:
                known = ", ".join(dict.fromkeys(one.etag for one in versions))
                raise ConfigurationError(f"no version that is kept has the tag {etag}; tags: {known}")
            return found[-1].description
        present = self.present.description
        first = next(index for index, one in enumerate(versions) if one.description == present)
        worked = [one for one in versions[:first] if one.is_proven]
        if not worked:
            raise ConfigurationError("no earlier configuration is kept that worked: there is nothing to go back to")
        return worked[-1].description


def _canonical(description: PipelineDescription) -> bytes:
    """Return equal bytes for equal descriptions, and other bytes for others."""
    parts = {
        "pipeline": _dumped(description, exclude={"sources", "steps"}),
        "sources": {name: [source.name, _dumped(source)] for name, source in description.sources.items()},
        "steps": _steps(description.steps),
    }
    return json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()


def _steps(steps: tuple[Step, ...]) -> list[Any]:
    return [
        [step.name, _dumped(step)]
        if isinstance(step, Element)
        else [step.name, {name: _steps(branch) for name, branch in step.branches.items()}]
        for step in steps
    ]


def _dumped(described: BaseModel, *, exclude: set[str] | None = None) -> Any:
    return described.model_dump(mode="json", by_alias=True, exclude=exclude, fallback=repr)
