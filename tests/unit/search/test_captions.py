"""What the sample pair is trained and asked with: no caption has a wording that is kept for questions."""

from __future__ import annotations

import numpy as np
from tools.train.search_captions import HELD_OUT, NOUNS, DescribedCrops, caption_of, has_held_out, vocabulary, words_of
from tools.train.search_questions import questions_in_other_words
from tools.train.search_samples import HEADINGS, Described

COUNT = 200


def described() -> list[Described]:
    """One of each kind, heading and light."""
    kinds = [kind for kind in NOUNS if kind not in ("vehicle", "child")]
    return [
        Described(kind, "red", heading, light, top="blue", coat=kind == "person", bag=kind == "person")
        for kind in kinds
        for heading in HEADINGS
        for light in ("day", "dusk")
    ]


def test_no_caption_has_a_wording_that_is_held_out() -> None:
    rng, known, columns = np.random.default_rng(3), set(vocabulary()), DescribedCrops(described())
    rows = np.arange(len(described()))
    for what in described() * (COUNT // 40):
        caption = caption_of(what, rng=rng)
        assert not has_held_out(caption.text)
        assert caption.is_true_of(what)
        assert columns.fitting(caption, rows).tolist() == [caption.is_true_of(one) for one in described()]
        assert set(words_of(caption.text.replace("[UNK]", ""))) <= known


def test_questions_in_other_words_are_true_and_held_out() -> None:
    tracks = {("street", number): what for number, what in enumerate(described())}
    asked = questions_in_other_words(tracks, count=COUNT, seed=1)
    assert len(asked) > 50
    assert sum(has_held_out(question.text) for question in asked) > 0.8 * len(asked)
    assert all(question.right for question in asked)


def test_the_clothes_of_a_rider_are_told_apart_from_the_bicycle() -> None:
    what, rng = Described("bicycle", "red", "left", "day", top="blue"), np.random.default_rng(4)
    captions = [caption_of(what, rng=rng) for _ in range(COUNT)]
    assert sum(caption.top == "blue" for caption in captions) > 0.4 * COUNT
    assert not any(
        caption.is_true_of(Described("bicycle", "red", "left", "day", top="green"))
        for caption in captions
        if caption.top
    )
    assert set(HELD_OUT) >= set(HEADINGS)
