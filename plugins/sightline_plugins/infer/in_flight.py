"""Batches that models of one step compute: what gives them, what comes of them, and parts that different models get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from sightline.graph.inspection import ModelWork
from sightline.media import Batch
from sightline_plugins.infer.canary import GiveTo
from sightline_plugins.infer.open_model import OpenModel
from sightline_plugins.infer.operator import PendingBatch
from sightline_plugins.infer.trial import Trial


@dataclass(slots=True, eq=False)
class Swap:
    """A swap on probation: the trial of the model that serves, the former one, and until when it is kept open."""

    trial: Trial
    former: OpenModel
    until_ns: int


@dataclass(frozen=True, slots=True)
class ShownFrame:
    """Somebody inspects the frame in a row of a batch."""

    row: int
    show: Callable[[ModelWork], None]


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """What a model has raised when a batch was given to it; raised again where the result is collected."""

    error: Exception
    runs: ClassVar[int] = 0
    invalid: ClassVar[int] = 0

    def result(self) -> Batch:
        """Raise it."""
        raise self.error


@dataclass(slots=True, eq=False)
class RunningBatch:
    """A batch that a model computes, and what gives it to another one. `swap` is the one that was on probation;
    `collect` waits for the result, and sees to it that there is one.
    """

    collect: Callable[[RunningBatch], Batch]
    model: OpenModel
    swap: Swap | None
    batch: Batch
    give: GiveTo
    pending: PendingBatch | FailedBatch
    given_at_ns: int

    def result(self) -> Batch:
        """Wait for it. Raises what the model that serves raises."""
        return self.collect(self)


@dataclass(frozen=True, slots=True, eq=False)
class DividedBatch:
    """A batch of which a canary has computed the rows in `own`, and the model that serves computes the others."""

    batch: Batch
    own: Sequence[int]
    found: Batch
    others: Sequence[int]
    rest: RunningBatch

    def result(self) -> Batch:
        """Wait for the others, and return all."""
        return self.batch.with_rows(self.own, self.found).with_rows(self.others, self.rest.result())


def giving(batch: Batch, shown: ShownFrame | None) -> GiveTo:
    """Return what gives a batch to a model, and shows what that makes of the frame that is inspected."""
    if shown is None:
        return lambda model: model.process(batch)
    return lambda model: model.process_shown(batch, row=shown.row, show=shown.show)


def part_of(batch: Batch, rows: Sequence[int], shown: ShownFrame | None) -> tuple[Batch, ShownFrame | None]:
    """Return some frames of a batch, in the order of `rows`, and which of them is inspected."""
    if shown is not None:
        shown = replace(shown, row=rows.index(shown.row)) if shown.row in rows else None
    return (batch if len(rows) == len(batch) else batch.select_frames(rows)), shown
