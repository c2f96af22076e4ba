"""A model that is open: what it was opened for, its file as it was then, and how long it takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from sightline.graph.site import Site
from sightline.redaction import redact
from sightline_plugins.infer.operator import ModelOperator
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.trial import Timings

_FileState: TypeAlias = tuple[int, int] | None


@dataclass(slots=True, eq=False)
class OpenModel:
    """A model and its operator. `element` is a step with this model alone (`ModelElement.alone`)."""

    element: ModelElement
    site: Site
    file: _FileState
    operator: ModelOperator
    timings: Timings = field(default_factory=Timings)
    _apart: ModelOperator | None = None

    @classmethod
    def of(cls, element: ModelElement, site: Site) -> OpenModel:
        """Open the model of an element. Raises ModelError or ConfigurationError."""
        file = _state_of(element)
        return cls(element, site, file, element.open(site))

    @classmethod
    def warmed(cls, element: ModelElement, site: Site) -> OpenModel:
        """Open the model of an element and run it once. Raises ModelError, ConfigurationError or CudaError."""
        made = cls.of(element, site)
        try:
            made.operator.warm()
        except BaseException:
            made.operator.close()
            raise
        return made

    def __str__(self) -> str:
        model = self.element.model
        return model.name if isinstance(model, Path) else redact(model)

    @property
    def element_id(self) -> str:
        """The id of the step."""
        return self.site.element_id or self.element.name

    @property
    def searches(self) -> bool:
        """Whether it looks at frames rather than at objects of other steps."""
        return self.element.on is None

    def is_for(self, element: ModelElement) -> bool:
        """Whether opening the model of this element now would give the same."""
        return self.element == element and self.file == _state_of(element)

    def apart(self) -> ModelOperator | None:
        """Return what runs the same predictor for comparisons; see `ModelOperator.apart`. It warns of nothing."""
        if self._apart is None:
            silent = replace(self.site, post=lambda _: None)
            self._apart = self.operator.apart(self.element, self.element.postprocessor(self.operator.plan, silent))
        return self._apart


def _state_of(element: ModelElement) -> _FileState:
    if not isinstance(element.model, Path):
        return None
    try:
        found = element.model.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
