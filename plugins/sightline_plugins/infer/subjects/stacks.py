"""Stacks as subjects: the last pictures of each part of a stream, or of each tracked object, together."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from sightline.media import Batch, Stream
from sightline_plugins.infer.subjects.subject import Subject, Subjects
from sightline_plugins.pixels.stacks import Stack, StackForm


class StackSubjects:
    """What another kind of subjects chooses, each with the stack of its pictures.

    A picture is taken on every `form.stride`-th frame of each stream. The model looks as soon as there are enough of
    them, and again when `every` frames have passed; answers belong to the newest frame. Objects have to be tracked:
    the others are left out. A stack that got no picture for as long as it spans begins anew, so at most those of the
    objects that were seen within one span are kept.
    """

    def __init__(self, chosen: Subjects, form: StackForm, *, every: int) -> None:
        self._chosen = chosen
        self._form = form
        self._every = every
        self._seen: dict[Stream, int] = {}
        self._stacks: dict[Stream, dict[Hashable, Stack]] = {}

    def of(self, batch: Batch) -> list[Subject]:
        """See `Subjects.of`."""
        numbers = [self._count(frame.stream) for frame in batch.frames]
        parts = [0] * len(batch.frames)
        found = []
        for subject in self._chosen.of(batch):
            key: Hashable | None = subject.slot
            if subject.object < 0:
                key = parts[subject.row]
                parts[subject.row] += 1
            stacked = self._stacked(subject, key, batch.frames[subject.row].stream, number=numbers[subject.row])
            if stacked is not None:
                found.append(stacked)
        return found

    def end_stream(self, stream: Stream) -> None:
        """Drop the stream's stacks."""
        self._seen.pop(stream, None)
        self._stacks.pop(stream, None)
        self._chosen.end_stream(stream)

    def _stacked(self, subject: Subject, key: Hashable | None, stream: Stream, *, number: int) -> Subject | None:
        """The subject with its stack on frames that give a picture; else what is known of it, None for nothing."""
        if key is None:
            return None
        if not subject.due or number % self._form.stride:
            return None if subject.slot is None else replace(subject, due=False)
        stacks = self._stacks.setdefault(stream, {})
        stack = stacks.get(key)
        if stack is None:
            stack = stacks[key] = Stack(self._form.frames)
        stack.taken, stack.taken_at = stack.taken + 1, number
        due = stack.taken >= self._form.frames and (stack.asked_at is None or number - stack.asked_at >= self._every)
        if due:
            stack.asked_at = number
        return replace(subject, stack=stack, due=due)

    def _count(self, stream: Stream) -> int:
        number = self._seen.get(stream, 0)
        self._seen[stream] = number + 1
        stacks = self._stacks.get(stream)
        if stacks and number % self._form.stride == 0:
            oldest = number - self._form.frames * self._form.stride
            for key in [key for key, stack in stacks.items() if stack.taken_at < oldest]:
                del stacks[key]
        return number
