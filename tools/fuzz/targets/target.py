"""The contract of a target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol


class Trouble(Exception):
    """The project did not take a mutant as it should; the message says what it did."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A wrong input: its bytes, and the suffix of the file that holds them."""

    data: bytes
    suffix: str


class Target(Protocol):
    """Made once in a child process; `mutant` depends on nothing but the originals and `random`."""

    extra_mib: int
    """By how much one mutant may raise the memory of the process."""

    def __init__(self, folder: Path, *, shared: Path | None) -> None:
        """`folder` is its own, to write into; `shared` holds more originals, where there are any."""

    def mutant(self, random: Random) -> Mutant:
        """A mutant."""

    def exercise(self, path: Path) -> str:
        """Give the project the mutant in that file; returns in a word how it ended. Raises Trouble, and whatever the
        project raises that it should not.
        """
