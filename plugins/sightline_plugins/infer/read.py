"""`read`: recognise a line of text, such as a number plate."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from sightline.graph.element import Problem
from sightline.graph.fields import Fraction
from sightline.graph.site import Site
from sightline.media import Batch, Origin
from sightline_plugins.infer.fields import AttributeName
from sightline_plugins.infer.options import AttributeElement, Planned
from sightline_plugins.infer.postprocessing import (
    Description,
    Postprocessor,
    TargetResult,
    all_finite,
    with_descriptions,
)

if TYPE_CHECKING:
    from sightline_plugins.heads.head import Array, Text
    from sightline_plugins.infer.plan import ModelPlan
    from sightline_plugins.infer.targets import InferenceTarget
    from sightline_plugins.infer.track_memory import TrackEntry

LABEL = "text"
_MAX_TEXTS = 16
"""Different texts of a track that are remembered."""


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


class Read(AttributeElement):
    """Read one line of text on each object or frame, with a model that outputs symbols along the line (CTC).

    With `on`, each object gets the attributes `text` and `text_confidence`. Without `on`, the frame, or each of its
    `regions`, becomes an object labelled `text` with these attributes, if text was found. `labels` are the symbols in
    the network's order, without the blank: a list, or a file with one symbol a line.

    Trade-offs:

    - `pattern` and `confidence`: text that does not match, or is below the confidence, is left out.
    - `vote`: each result for a track votes for its text, weighted by confidence, so one misread frame changes nothing.
      `reinfer_interval` sets how often the model runs; plates that pass quickly need a short one.
    - `on: {margin: 0.05}`: a box that cuts off the first symbol does more harm than a little background.

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
    """Name of the attribute. Default: the model card's value, else `text`."""
    confidence: Fraction | None = None
    """Minimum mean confidence of the symbols. Default: the model card's value, else 0."""
    pattern: Annotated[str, AfterValidator(_compiles), Field(max_length=1000)] | None = None
    """Regular expression that the whole text must match. Default: any text."""

    def plan(self) -> Planned:
        """Plan the model; its symbols have to be known, and as many as the network outputs."""
        plan, problems = super().plan()
        if plan is None:
            return None, problems
        if not plan.labels:
            message = "the model's symbols are unknown: give labels, a list or a file with one symbol a line"
            return None, [Problem(message, ("labels",))]
        problem = _symbol_problem(plan)
        return (plan, problems) if problem is None else (None, [*problems, problem])

    def frame_labels(self) -> frozenset[str] | None:
        """Return the label of every line of text."""
        return frozenset({LABEL})

    def postprocessor(self, plan: ModelPlan, site: Site) -> Postprocessor[Any]:
        rules = TextRules(
            self.attribute or plan.card.attribute or "text",
            next((value for value in (self.confidence, plan.card.confidence) if value is not None), 0.0),
            None if self.pattern is None else re.compile(self.pattern),
            self.vote,
        )
        return TextPostprocessor(plan, rules, element_id=site.element_id or self.name)


def _symbol_problem(plan: ModelPlan) -> Problem | None:
    from sightline_plugins.heads.ctc import CtcOptions, alphabet, symbols_axis

    if not isinstance(plan.head_options, CtcOptions):
        return None
    shape, count = plan.outputs[0].shape, len(alphabet(plan.labels, plan.head_options))
    if shape[-1] is None or symbols_axis(shape, count) is not None:
        return None
    message = (
        f"{len(plan.labels)} labels make {count} symbols with the blank, which is no size of the model's output "
        f"{plan.outputs[0]}: give as many labels as the model has symbols, or head_options: {{space: true}} where a "
        "space follows them"
    )
    return Problem(message, ("labels",))


@dataclass(frozen=True, slots=True)
class TextRules:
    """Which texts count: those with at least `confidence` that match `pattern` from end to end."""

    attribute: str = "text"
    confidence: float = 0.0
    pattern: re.Pattern[str] | None = None
    vote: bool = True

    def accepts(self, found: Text) -> bool:
        """Return whether a text counts; an empty one never does."""
        matches = self.pattern is None or self.pattern.fullmatch(found.text) is not None
        return bool(found.text) and found.confidence >= self.confidence and matches


@dataclass(frozen=True, slots=True)
class TextVote:
    """One text: the sum of the confidences of the results that read it, and their number."""

    text: str
    weight: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class TextVotes:
    """The texts read on one object, in the order of their first results; empty when no text counted."""

    votes: tuple[TextVote, ...] = ()

    def best(self) -> tuple[str, float] | None:
        """Return the text with the most weight (of equals the first), and its mean confidence."""
        if not self.votes:
            return None
        best = max(self.votes, key=lambda vote: vote.weight)
        return best.text, best.weight / best.count

    def merged(self, other: TextVotes) -> TextVotes:
        """Return these votes and at most one more; of too many texts the one with the least weight is forgotten."""
        kept = {vote.text: vote for vote in self.votes}
        for vote in other.votes:
            before = kept.get(vote.text, TextVote(vote.text, 0.0, 0))
            kept[vote.text] = TextVote(vote.text, before.weight + vote.weight, before.count + vote.count)
        if len(kept) > _MAX_TEXTS:
            del kept[min(self.votes, key=lambda vote: vote.weight).text]
        return TextVotes(tuple(kept.values()))


class TextPostprocessor(Postprocessor[TextVotes]):
    """Reads text. Over a track's life each result votes for its text, weighted by confidence."""

    def __init__(self, plan: ModelPlan, rules: TextRules, *, element_id: str) -> None:
        self._plan = plan
        self._rules = rules
        self._origin = Origin(element_id, (LABEL,))

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> TextVotes | None:
        del batch
        if not all_finite(outputs[:1]):
            return None
        found: Text = self._plan.decode(outputs, size_wh=target.placement.size_wh)
        return TextVotes((TextVote(found.text, found.confidence),)) if self._rules.accepts(found) else TextVotes()

    def remember(
        self, entry: TrackEntry[TextVotes], result: TextVotes, target: InferenceTarget, batch: Batch
    ) -> TextVotes:
        """Return the votes of all results for the track; a result without text that counts changes nothing."""
        known = entry.result or TextVotes()
        if self._rules.vote:
            result = known.merged(result)
        elif not result.votes:
            result = known
        return super().remember(entry, result, target, batch)

    def attach(self, batch: Batch, results: Sequence[TargetResult[TextVotes]]) -> Batch:
        """Return the batch with text on the objects, or with one more object per part of a frame that shows text."""
        best = [(target, votes.best()) for target, votes in results if votes is not None]
        described = [(target, self._description(*text)) for target, text in best if text is not None]
        return with_descriptions(batch, described, origin=self._origin)

    def _description(self, text: str, confidence: float) -> Description:
        name = self._rules.attribute
        return Description({name: text, f"{name}_confidence": confidence}, confidence)
