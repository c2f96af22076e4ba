"""Options that change while a pipeline runs, without building the operator anew, so that its state goes on.

An element marks such fields with the type `ChangesLive`, and its operator implements `TakesChanges`. When two
descriptions of a step differ in nothing else, the runtime hands the new one to the operator between two batches;
otherwise it builds another operator.

    class Lingering(Rule):
        after: ChangesLive[Duration] = 20_000_000_000
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Value = TypeVar("Value")


class _Mark:
    """What stands in the metadata of a field that changes live."""


ChangesLive: TypeAlias = Annotated[Value, _Mark()]
"""The type of a field whose value may change while the pipeline runs."""


@runtime_checkable
class TakesChanges(Protocol):
    """An operator that takes over changed options of its element and keeps its state."""

    def change(self, element: Any) -> None:
        """Take over an element of the class that built this operator; it differs from the present one only in options
        that change live.

        Called between two batches, never while `process` runs; results that are pending may be collected meanwhile,
        and belong to the former options. It must be quick, because the batches behind it wait. Raises SightlineError
        before it has changed anything. If another step then refuses its part of the same change, `change` is called
        again with the former element.
        """
        ...


@runtime_checkable
class PreparesChanges(Protocol):
    """An operator that takes changes, and before that makes something ready beside its work: it opens a model."""

    def prepare(self, element: Any, *, prove_ns: int) -> None:
        """Make ready what `change` to this element needs, which `change` then takes over.

        Called by the thread that carries the change out, while `process` may run in another. `prove_ns` is how long the
        change will be on probation: so long the operator can go back by itself. It then posts `MODEL_TAKEN_BACK`, and
        the change is reverted without the loss of a frame. Raises SightlineError, with nothing left open.
        """
        ...

    def abandon(self) -> None:
        """Release what was made ready and not taken over; from any thread."""
        ...


def changes_live(field: FieldInfo) -> bool:
    """Whether a field is marked as one that changes live."""
    return any(isinstance(item, _Mark) for item in field.metadata)


def live_keys(model: type[BaseModel]) -> frozenset[str]:
    """Return the YAML keys of the options of a class that change live."""
    return frozenset(field.alias or name for name, field in model.model_fields.items() if changes_live(field))


def differ_live_only(one: BaseModel, other: BaseModel, *, others_change_live: bool) -> bool:
    """Whether two elements of one class differ at most in options that change live. `others_change_live` says whether
    options of any name, such as the zones of `zones`, do.
    """
    if type(one) is not type(other):
        return False
    fixed = [name for name, field in type(one).model_fields.items() if not changes_live(field)]
    same = all(getattr(one, name) == getattr(other, name) for name in fixed)
    return same and (others_change_live or one.__pydantic_extra__ == other.__pydantic_extra__)


@runtime_checkable
class Promotes(Protocol):
    """An element that may have a second model, which can take the place of the first one by itself.

    Its operator posts `CANARY_PROVED` when the second model has proved itself; with `promotes` true in the data of the
    message, the pipeline is changed to `promoted`, as if somebody had asked for that.
    """

    def promoted(self) -> Any | None:
        """Return the element with the second model alone; None when it has none."""
        ...
