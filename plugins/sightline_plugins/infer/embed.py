"""`embed`: turns what is seen into a vector that says how it looks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from sightline.errors import ModelError
from sightline.graph.element import CheckContext, Problem
from sightline.graph.operator import Operator
from sightline.graph.site import Site
from sightline_plugins.infer.options import AttributeElement


class Embed(AttributeElement):
    """Gives objects (or images) a vector of length 1: what looks alike has vectors that point the same way.

    The vector stands in the column `embedding`; the cosine of two is their product. Without `on`, the image, or each
    of its `regions`, becomes an object labelled `image` with a vector.

    The knobs and what they trade:

    - `refresh`: a tracked object is looked at once every so long, and when it is seen larger or better.
    - `vote`: the mean of all looks at a track is steadier than one look; `false` keeps up with a changing appearance.
    - `on: {align: face}` turns faces upright by their landmarks, as models that recognise faces expect.

    ```yaml
    embed:
      model: models/osnet.onnx
      on: {label: person, min_size: [24, 48]}
    ```
    """

    name: ClassVar[str] = "embed"
    task: ClassVar[str] = "embed"

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Model, card, head, engine and regions."""
        from sightline_plugins.infer.plan import plan_model

        return [*plan_model(self)[1], *super().check(context)]

    def image_labels(self) -> frozenset[str] | None:
        """Every image is a `image`."""
        return frozenset({"image"})

    def build(self, site: Site) -> Operator:
        """Load the model. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.operator import build_operator
        from sightline_plugins.infer.plan import plan_model
        from sightline_plugins.infer.vectors import EmbeddingPostprocessor

        plan, problems = plan_model(self)
        if plan is None:
            raise ModelError("; ".join(problem.message for problem in problems))
        task = EmbeddingPostprocessor(plan, element_id=site.element_id or self.name, vote=self.vote)
        return build_operator(self, plan, task=task, site=site)
