"""Heads of all installed packages, by name, and the choice of the one that reads a model's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from sightline.errors import ConfigurationError, ModelError
from sightline_plugins.heads.head import Candidates, Head, MatchScore, Signature

GROUP = "sightline.heads"
"""Entry points that name `Head` objects. First-party heads are found in the same way as anybody's."""


class InstalledHeads(Mapping[str, Head[Any]]):
    """Heads by name, in alphabetical order. Listing names imports none; looking one up imports its module."""

    def __getitem__(self, name: str) -> Head[Any]:
        entry = _entries()[name]
        try:
            head = entry.load()
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(f"head {name!r} ({entry.value}) cannot be loaded: {error}") from error
        if not isinstance(head, Head) or head.name != name:
            raise ConfigurationError(f"head {name!r}: {entry.value} is not a Head with that name")
        return head

    def __iter__(self) -> Iterator[str]:
        return iter(_entries())

    def __len__(self) -> int:
        return len(_entries())


HEADS: Mapping[str, Head[Any]] = InstalledHeads()


@cache
def _entries() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def heads_of(task: str) -> Mapping[str, Head[Any]]:
    """Return the heads whose results an element of that task can use, by name: `detect` takes all that find boxes."""
    return {
        name: head
        for name, head in HEADS.items()
        if head.task == task or (task == "detect" and head.result_type is Candidates)
    }


def match_head(signature: Signature, heads: Iterable[Head[Any]]) -> str:
    """Return the name of the one head that fits a model's outputs.

    Raises ModelError with the candidates when several fit equally well, and with all heads when none does.
    """
    scores = {head.name: head.match_score(signature) for head in heads}
    certain = [name for name, score in scores.items() if score is MatchScore.CERTAIN]
    matches = certain or [name for name, score in scores.items() if score is MatchScore.POSSIBLE]
    if len(matches) == 1:
        return matches[0]
    outputs = "; ".join(map(str, signature.outputs))
    if matches:
        raise ModelError(f"its outputs ({outputs}) fit several heads: set head to one of {', '.join(sorted(matches))}")
    raise ModelError(f"its outputs ({outputs}) fit no head: set head to one of {', '.join(scores)}")
