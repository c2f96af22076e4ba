"""What every step that says something about what it sees can be told besides."""

from __future__ import annotations

from typing import ClassVar

from sightline.graph.element import Capability
from sightline_plugins.infer.options import ModelElement


class DescribingElement(ModelElement):
    """A step whose model describes: objects, where `on` says so, or else the picture, which becomes an object."""

    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.OBJECTS})

    vote: bool = True
    """With `on` and tracked objects: whether all looks at a track count together. `false` tells what the latest look
    says."""

    def provided(self) -> frozenset[Capability]:
        """Objects, when it describes pictures."""
        return frozenset() if self.on is not None else self.gives

    def found_labels(self) -> frozenset[str] | None:
        """The labels of the objects that stand for pictures; none when it describes objects."""
        return frozenset() if self.on is not None else self.picture_labels()

    def picture_labels(self) -> frozenset[str] | None:
        """The labels that an object which stands for a picture can have."""
        raise NotImplementedError
