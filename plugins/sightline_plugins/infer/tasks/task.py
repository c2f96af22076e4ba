"""What a task is: it makes answers of a model's outputs, and puts the answers into a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

from sightline.media import Batch
from sightline_plugins.infer.heads.findings import Array
from sightline_plugins.infer.subjects.memory import Slot
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.box_rules import BoxRules, Suppressed

Answer = TypeVar("Answer")
Answered: TypeAlias = tuple[Subject, Answer | None]


class Task(Generic[Answer]):
    """Reads outputs and attaches answers. One operator owns it; `learn` to `attach` are called in the order of frames.

    `read` may be called before its turn and in another thread, but never twice at once: an answer depends on the
    outputs of its subject alone.

    An answer is in pixels of the source picture, whatever the network's input was.
    """

    def read(self, outputs: Sequence[Array], subject: Subject, batch: Batch) -> Answer | None:
        """The answer in the model's outputs for a subject; None when the outputs are no numbers to be used."""
        raise NotImplementedError

    @property
    def box_rules(self) -> BoxRules | None:
        """The rules for a task that boxes alone are enough for, after suppression; None for one that reads outputs."""
        return None

    def read_boxes(self, boxes: Suppressed, subject: Subject, batch: Batch) -> Answer:
        """The answer in boxes that were decoded and suppressed by `box_rules` on a GPU; as `read`."""
        raise NotImplementedError

    def is_empty(self, answer: Answer) -> bool:
        """Whether an answer holds nothing, so that outputs which are not all numbers may be the reason."""
        del answer
        return False

    def learn(self, slot: Slot[Answer], answer: Answer, subject: Subject, batch: Batch) -> Answer:
        """Keep an answer for the subject's track; what is known of the track now. The newest answer, unless overridden
        by a task that lets answers vote.
        """
        del subject, batch
        slot.known = answer
        return answer

    def recall(self, slot: Slot[Answer], subject: Subject, batch: Batch) -> Answer | None:
        """What is known of the subject's track, where it stands now."""
        del subject, batch
        return slot.known

    def attach(self, batch: Batch, answered: Sequence[Answered[Answer]]) -> Batch:
        """The batch with the answers. Subjects stand in the order of their frames; None says that nothing is known."""
        raise NotImplementedError

    def totals(self) -> Mapping[str, Any]:
        """What was counted, for the report."""
        return {}
