"""The search for tracks of a pipeline that is served: which steps keep tracks, and which may show images of them."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from sightline.graph import Element, Outputs, PipelineDescription
from sightline.graph.hiding import branches_of, may_hide
from sightline.graph.track_search import FindsTracks, TrackFinder
from sightline.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class SearchStep:
    """A step whose tracks can be searched. `shows_images`: its frames lack all that any step hides."""

    id: str
    shows_images: bool
    finder: TrackFinder


class TrackSearches:
    """The finders of a pipeline's steps as it is now. From any thread."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._lock = Lock()
        self._finders: dict[str, tuple[Element, TrackFinder]] = {}

    def steps(self) -> list[SearchStep]:
        """The steps that keep tracks, in the order of the pipeline; finders of steps that are gone are closed."""
        description = self._pipeline.description
        elements = dict(description.elements())
        with self._lock:
            for name, (element, finder) in list(self._finders.items()):
                if elements.get(name) != element:
                    del self._finders[name]
                    finder.close()
            return [
                SearchStep(name, hides_all(description, name), self._finder(name, element))
                for name, element in elements.items()
                if isinstance(element, FindsTracks)
            ]

    def close(self) -> None:
        """Close all finders; harmless when called again."""
        with self._lock:
            for _, finder in self._finders.values():
                finder.close()
            self._finders.clear()

    def _finder(self, name: str, element: Element) -> TrackFinder:
        if name not in self._finders:
            assert isinstance(element, FindsTracks)
            outputs = Outputs(self._pipeline.outputs_root)
            self._pipeline.description.limit(outputs)
            self._finders[name] = element, element.track_finder(outputs)
        return self._finders[name][1]


def hides_all(description: PipelineDescription, step: str) -> bool:
    """Whether the frames that a step gets lack everything that a step of the pipeline hides."""
    branches = branches_of(description)
    order = list(branches)
    return all(
        order.index(name) < order.index(step) and branches[step][: len(branches[name])] == branches[name]
        for name, element in description.elements()
        if may_hide(element)
    )
