"""`read`: reads a line of text, such as a number plate."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, Field

from sightline.errors import ModelError
from sightline.graph.element import CheckContext, Problem
from sightline.graph.fields import Fraction
from sightline.graph.operator import Operator
from sightline.graph.site import Site
from sightline_plugins.infer.fields import AttributeName
from sightline_plugins.infer.options import AttributeElement

if TYPE_CHECKING:
    from sightline_plugins.infer.plan import ModelPlan


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from error
    return pattern


class Read(AttributeElement):
    """Reads one line of text on each object (or image) by a model that gives a symbol for each step along it (CTC).

    With `on`, an object gets the attributes `text` and `text_confidence`. Without, the image, or each of its parts,
    becomes an object labelled `text` with these attributes, where something was read. `labels` are the symbols in the
    network's order, without the blank: a list, or a file with one a line.

    The knobs and what they trade:

    - `pattern` and `confidence`: what does not look like the text that is expected, or is unsure, is not told at all.
    - `vote`: each look at a track votes for the text that it read with its confidence, so one misread frame changes
      nothing. `refresh` says how often a look is worth its cost; plates that pass quickly want a short one.
    - `on: {margin: 0.05}`: boxes that cut off the first symbol cost more than a little background.

    ```yaml
    read:
      model: models/plates.onnx
      labels: [A, B, C, "0", "1", "2"]
      size: [96, 32]
      on: plate
      pattern: "[A-Z]{1,3}[0-9]{1,4}"
      confidence: 0.6
    ```
    """

    name: ClassVar[str] = "read"
    task: ClassVar[str] = "read"

    attribute: AttributeName | None = None
    """Name of the attribute; the card's when not given, else `text`."""
    confidence: Fraction | None = None
    """Least mean confidence of a text's symbols; the card's when not given, else 0."""
    pattern: Annotated[str, AfterValidator(_compiles), Field(max_length=1000)] | None = None
    """Regular expression that the whole text must match; any text when not given."""

    def check(self, context: CheckContext) -> Iterable[Problem]:
        """Model, card, symbols, head, engine and regions."""
        return [*plan_text(self)[1], *super().check(context)]

    def image_labels(self) -> frozenset[str] | None:
        """Every line of text is a `text`."""
        return frozenset({"text"})

    def build(self, site: Site) -> Operator:
        """Load the model. Raises ModelError or ConfigurationError."""
        from sightline_plugins.infer.operator import build_operator
        from sightline_plugins.infer.text import TextPostprocessor, TextRules

        plan, problems = plan_text(self)
        if plan is None:
            raise ModelError("; ".join(problem.message for problem in problems))
        rules = TextRules(
            self.attribute or plan.card.attribute or "text",
            next((value for value in (self.confidence, plan.card.confidence) if value is not None), 0.0),
            None if self.pattern is None else re.compile(self.pattern),
            self.vote,
        )
        task = TextPostprocessor(plan, rules, element_id=site.element_id or self.name)
        return build_operator(self, plan, task=task, site=site)


def plan_text(element: Read) -> tuple[ModelPlan | None, list[Problem]]:
    """The plan of the model, or None and at least one problem. Loads no engine."""
    from sightline_plugins.heads.ctc import CtcOptions, alphabet, symbols_axis
    from sightline_plugins.infer.plan import plan_model

    plan, problems = plan_model(element)
    if plan is None:
        return None, problems
    if not plan.labels:
        message = "the symbols that the model knows are not known: give labels, a list or a file with one a line"
        return None, [Problem(message, ("labels",))]
    if isinstance(plan.head_options, CtcOptions):
        shape = plan.outputs[0].shape
        count = len(alphabet(plan.labels, plan.head_options))
        if shape[-1] is not None and symbols_axis(shape, count) is None:
            problems.append(_wrong_count(plan, count))
    return (None if problems else plan), problems


def _wrong_count(plan: ModelPlan, count: int) -> Problem:
    message = (
        f"{len(plan.labels)} labels make {count} symbols with the blank, and none of the sizes of the model's output "
        f"{plan.outputs[0]} is that: give as many labels as it knows, or head_options: {{space: true}} where a space "
        "follows them"
    )
    return Problem(message, ("labels",))
