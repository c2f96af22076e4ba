"""Text recognition results: attributes of objects, or an object for each frame region."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sightline.media import Batch, Objects, Origin
from sightline_plugins.heads.head import Array, Text
from sightline_plugins.infer.labels import Values, with_attributes
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import Postprocessor, TargetResult
from sightline_plugins.infer.targets import InferenceTarget, region_of
from sightline_plugins.infer.track_memory import TrackEntry

LABEL = "text"
_MOST = 16
"""Different texts of a track that are kept in mind."""


@dataclass(frozen=True, slots=True)
class TextRules:
    """Which texts count: those with at least that confidence that match `pattern` from end to end."""

    attribute: str = "text"
    confidence: float = 0.0
    pattern: re.Pattern[str] | None = None
    vote: bool = True

    def count(self, found: Text) -> bool:
        """Whether a text counts; no text never does."""
        matches = self.pattern is None or self.pattern.fullmatch(found.text) is not None
        return bool(found.text) and found.confidence >= self.confidence and matches


@dataclass(frozen=True, slots=True)
class TextVote:
    """One text: the sum of the confidences of the looks that read it, and how many these were."""

    text: str
    weight: float
    looks: int = 1


@dataclass(frozen=True, slots=True)
class TextVotes:
    """What was read on the same thing, in the order of first looks; nothing when no text counted."""

    heard: tuple[TextVote, ...] = ()

    def best(self) -> Text | None:
        """The text with the most weight, the earlier one of equals, and its mean confidence."""
        if not self.heard:
            return None
        best = max(self.heard, key=lambda entry: entry.weight)
        return Text(best.text, best.weight / best.looks)

    def and_also(self, other: TextVotes) -> TextVotes:
        """These readings and others, of which there is one at most; of too many texts the lightest one goes."""
        kept = {entry.text: entry for entry in self.heard}
        for entry in other.heard:
            before = kept.get(entry.text, TextVote(entry.text, 0.0, 0))
            kept[entry.text] = TextVote(entry.text, before.weight + entry.weight, before.looks + entry.looks)
        if len(kept) > _MOST:
            del kept[min(self.heard, key=lambda entry: entry.weight).text]
        return TextVotes(tuple(kept.values()))


class TextPostprocessor(Postprocessor[TextVotes]):
    """Reads what it sees. Over a track's life each look votes for the text it read with its confidence."""

    def __init__(self, plan: ModelPlan, rules: TextRules, *, element_id: str) -> None:
        self._plan = plan
        self._rules = rules
        self._origin = Origin(element_id, (LABEL,))

    def read(self, outputs: Sequence[Array], target: InferenceTarget, batch: Batch) -> TextVotes | None:
        """See `Task.read`."""
        del batch
        plan = self._plan
        assert plan.head is not None
        if not np.isfinite(outputs[0]).all():
            return None
        found: Text = plan.head.decode(outputs, plan.reading(size_wh=target.placement.size_wh))
        return TextVotes((TextVote(found.text, found.confidence),)) if self._rules.count(found) else TextVotes()

    def learn(self, slot: TrackEntry[TextVotes], answer: TextVotes, target: InferenceTarget, batch: Batch) -> TextVotes:
        """What all looks at the track read together; a look that read nothing that counts changes nothing."""
        known = slot.known or TextVotes()
        if self._rules.vote:
            answer = known.and_also(answer)
        elif not answer.heard:
            answer = known
        return super().learn(slot, answer, target, batch)

    def attach(self, batch: Batch, answered: Sequence[TargetResult[TextVotes]]) -> Batch:
        """The batch with the text of the objects that were looked at, or an object more for each image with text."""
        best = [(target, answer.best()) for target, answer in answered if answer is not None]
        told = [(target, found) for target, found in best if found is not None]
        on_objects = [(target.object, self._values(found)) for target, found in told if target.object >= 0]
        objects = with_attributes(batch.objects, on_objects)
        images = [(target, found) for target, found in told if target.object < 0]
        if images:
            objects = Objects.concat([objects, self._objects(images, batch)])
        return batch if objects is batch.objects else batch.with_objects(objects)

    def _values(self, found: Text) -> Values:
        return {self._rules.attribute: found.text, f"{self._rules.attribute}_confidence": found.confidence}

    def _objects(self, seen: Sequence[tuple[InferenceTarget, Text]], batch: Batch) -> Objects:
        objects = Objects.from_columns(
            frame=[target.row for target, _ in seen],
            xyxy=[region_of(target, batch.frames[target.row].size_wh) for target, _ in seen],
            confidence=[found.confidence for _, found in seen],
            class_id=np.zeros(len(seen)),
            source=self._origin,
        )
        return with_attributes(objects, [(row, self._values(found)) for row, (_, found) in enumerate(seen)])
