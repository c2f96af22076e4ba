"""What is allowed, and yet probably not what somebody wants: one sentence each, which `check` and `run` print."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

from sightline.graph.tree import PipelineDescription


@runtime_checkable
class Advises(Protocol):
    """An element that knows when it probably does not do what it is used for."""

    def advice(self, inputs: Mapping[str, str]) -> Iterable[str]:
        """Return sentences about this element on these streams: file or URL by name, without made images.

        It is asked when the description has no mistakes.
        """
        ...


def advice_of(description: PipelineDescription) -> Iterator[str]:
    """Yield the advice of each element, beginning with its id, and what `sightline cluster run` refuses."""
    inputs = {name: str(uri) for name, source in description.sources.items() if (uri := getattr(source, "uri", None))}
    for identity, element in description.elements():
        if isinstance(element, Advises):
            yield from (f"{identity}: {text}" for text in element.advice(inputs))
    if description.cluster is not None:
        for pattern in description.cluster.idle_patterns(description.sources):
            yield f"cluster.streams.{pattern}: no stream has such a name, so `sightline cluster run` refuses it"
