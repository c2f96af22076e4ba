"""What a predictor is: pre-processing and engine together, which show parts of pictures to a model.

`engine_predictor.py` shows one picture at a time to an engine that takes arrays of the host, `device/predictor.py`
batches to an engine on a GPU, from where only what was found comes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from sightline.media import Batch, Surface
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.task import Task

Seen: TypeAlias = tuple[Surface, Subject]
"""A subject whose picture is needed, and the surface that shows it."""


@dataclass(frozen=True, slots=True)
class LookResult:
    """What a task read in the outputs of a look, None for outputs that are no numbers to be used; and whether all of
    them were finite numbers.
    """

    answer: Any
    is_finite: bool


class Look(Protocol):
    """One look of a model at a subject, under way. Any thread waits for it, and then reads it, once."""

    def wait(self) -> None:
        """Wait, without the GIL, until the outputs are there. Raises ModelError or GpuError when it failed."""
        ...

    def read(self, task: Task[Any], subject: Subject, batch: Batch) -> LookResult:
        """Let the task read the outputs, which are there; nobody else may use the task meanwhile."""
        ...


class Predictor(Protocol):
    """Shows parts of pictures to a model. One thread asks for looks, that or another one reads them."""

    @property
    def device(self) -> str:
        """Where pictures are prepared: `cpu` or `cuda:N`."""
        ...

    @property
    def report(self) -> Mapping[str, Any]:
        """What the run report says of it: what computes where, and why there."""
        ...

    @property
    def most_unread(self) -> int:
        """How many looks may wait to be read; with more, memory grows."""
        ...

    def look_all(self, seen: Sequence[Seen]) -> Iterator[Look | None]:
        """The looks at these subjects, in their order, each begun when it is asked for at the latest; None where the
        picture was only taken for later (`Subject.stack`).
        """
        ...

    def close(self) -> None:
        """Wait for what is under way, and free the model. May be called again. Looks may still be read."""
        ...
