"""Which boxes and classes decoders select: the same pairs in the same order, however scores lie in memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins.heads.decoding import select_pairs

Floats = npt.NDArray[np.float32]
BOXES, CLASSES = 40, 7


def scores() -> Floats:
    return np.random.default_rng(5).uniform(0, 1, (BOXES, CLASSES)).astype(np.float32)


def behind_a_background() -> Floats:
    return np.concatenate([np.ones((BOXES, 1), np.float32), scores()], axis=1)[:, 1:]


def classes_first() -> Floats:
    return np.ascontiguousarray(scores().T).T


@pytest.mark.parametrize("laid", [scores, behind_a_background, classes_first])
def test_pairs_are_selected_box_by_box_in_every_memory_layout(laid: Callable[[], Floats]) -> None:
    selected = select_pairs(laid(), 0.6, logits=False)

    rows, class_id = np.nonzero(scores() >= 0.6)
    assert len(rows) > CLASSES
    assert selected.rows.tolist() == rows.tolist()
    assert selected.class_id.tolist() == class_id.tolist()
    assert selected.confidence.tolist() == scores()[rows, class_id].tolist()


def test_scores_without_a_class_select_nothing() -> None:
    assert len(select_pairs(np.zeros((BOXES, 0), np.float32), 0.5, logits=False).rows) == 0
