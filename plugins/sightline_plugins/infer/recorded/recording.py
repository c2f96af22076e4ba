"""Recorded detections as columns, found by number of frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sightline.media import Objects, Origin
from sightline_plugins.infer.recorded.columns import extra_columns, parent_rows
from sightline_plugins.infer.recorded.item import RecordedObject


@dataclass(slots=True)
class _Vocabularies:
    """Labels by class number; where two labels claim a number, one of them goes to another list."""

    lists: list[dict[int, str]] = field(default_factory=lambda: [{}])

    def place(self, label: str, class_id: int | None) -> tuple[int, int]:
        """The list and the number of a label in it; without a number given, the next one is taken."""
        if class_id is None:
            known = self.lists[0]
            class_id = next((number for number, other in known.items() if other == label), len(known))
        for index, known in enumerate(self.lists):
            if known.setdefault(class_id, label) == label:
                return index, class_id
        self.lists.append({class_id: label})
        return len(self.lists) - 1, class_id

    def labels(self) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(known.get(number, str(number)) for number in range(max(known, default=-1) + 1))
            for known in self.lists
        )


class Recording:
    """The detections of one stream, in the order of their frames."""

    def __init__(self, found: Sequence[RecordedObject], *, element: str) -> None:
        ordered = sorted(found, key=lambda item: item.frame)
        vocabularies = _Vocabularies()
        places = [vocabularies.place(item.label, item.class_id) for item in ordered]
        count = len(ordered)
        self._table = Objects(
            frame=np.array([item.frame for item in ordered], np.int32),
            xyxy=np.array([item.xyxy for item in ordered], np.float32).reshape(count, 4),
            confidence=np.array([item.confidence for item in ordered], np.float32),
            class_id=np.array([class_id for _, class_id in places], np.int32),
            track_id=np.array([item.track_id for item in ordered], np.int64),
            parent=parent_rows(ordered),
            origin=np.array([origin for origin, _ in places], np.int16),
            origins=tuple(Origin(element, labels) for labels in vocabularies.labels()),
            extra=extra_columns(ordered),
        )

    def __len__(self) -> int:
        return len(self._table)

    def of_frames(self, rows: Sequence[int], indices: Sequence[int]) -> Objects:
        """The objects of the frames with these indices, as those of the `rows` of a batch."""
        bounds = np.searchsorted(self._table.frame, [[index, index + 1] for index in indices])
        counts = bounds[:, 1] - bounds[:, 0]
        if not counts.any():
            return Objects.empty()
        found = np.concatenate([np.arange(first, last) for first, last in bounds.tolist()])
        frame = np.repeat(np.array(rows, np.int32), counts)
        return self._table.select(found).with_columns(frame=frame)
