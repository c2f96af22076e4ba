"""What options come to that nobody gave: for `sightline explain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ChosenValue:
    """A value that an element chose, and what it goes by, such as `model card street.yaml`."""

    value: Any
    origin: str


@runtime_checkable
class ChoosesValues(Protocol):
    """An element whose defaults depend on something: on a file that an option names, or on another option."""

    def chosen_values(self) -> Mapping[str, ChosenValue]:
        """Return by option what those come to that were not given, and options that only the chosen part has.

        It is asked when the description has no mistakes. Values are plain data.
        """
        ...
