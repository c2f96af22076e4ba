"""Text from steps that were made from known text by the definition of CTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.errors import ModelError
from sightline_plugins.heads.ctc import CtcOptions
from sightline_plugins.heads.head import DecodeContext, Text
from sightline_plugins.heads.registry import HEADS

Floats = npt.NDArray[np.float32]
LETTERS = ("a", "b", "c")


def path_of(text: str, *, steps: int, held: int = 2) -> list[str]:
    """One of the paths that stand for a text: each symbol `held` times, a blank after it, blanks to the end."""
    path = [symbol for letter in text for symbol in [letter] * held + [""]]
    return path + [""] * (steps - len(path))


def encode(path: Sequence[str], symbols: Sequence[str], *, sure: float = 0.9) -> Floats:
    """Probabilities (1, T, C) of a path, `sure` for its symbol and the rest spread evenly."""
    rows = np.full((len(path), len(symbols)), (1 - sure) / (len(symbols) - 1))
    for step, symbol in enumerate(path):
        rows[step, symbols.index(symbol)] = sure
    return rows[None].astype(np.float32)


def about(text: str, confidence: float) -> Text:
    """A text that equals one whose confidence is nearly that."""
    return Text(text, pytest.approx(confidence))  # type: ignore[arg-type]


def decode(output: npt.NDArray[Any], *, output_ops: tuple[str, ...] = (), **options: Any) -> Text:
    context = DecodeContext((8, 8), labels=LETTERS, options=CtcOptions(**options), output_ops=output_ops)
    found: Text = HEADS["ctc"].decode([output], context)
    return found


@pytest.mark.parametrize("text", ["", "a", "abc", "aabbcc", "cabba"])
def test_text_comes_back(text: str) -> None:
    found = decode(encode(path_of(text, steps=24), ("", *LETTERS)))

    assert found.text == text
    assert found.confidence == pytest.approx(0.9 if text else 0)


def test_repeats_without_a_blank_between_are_one() -> None:
    assert decode(encode(["a", "a", "b", "b", "b", "", "b"], ("", *LETTERS))).text == "abb"


def test_text_may_reach_both_ends() -> None:
    assert decode(encode(["a", "b", "c"], ("", *LETTERS))).text == "abc"


def test_the_blank_may_be_last() -> None:
    assert decode(encode(path_of("abca", steps=16), (*LETTERS, "")), blank="last").text == "abca"


@pytest.mark.parametrize(("blank", "symbols"), [("first", ("", *LETTERS, " ")), ("last", (*LETTERS, " ", ""))])
def test_a_space_may_follow_the_labels(blank: str, symbols: tuple[str, ...]) -> None:
    assert decode(encode(path_of("a b", steps=16), symbols), blank=blank, space=True).text == "a b"


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (0, 2, 1)])
def test_symbols_are_the_axis_as_long_as_the_alphabet(axes: tuple[int, int, int]) -> None:
    assert decode(encode(path_of("cab", steps=9), ("", *LETTERS)).transpose(axes)).text == "cab"


@pytest.mark.parametrize("output_ops", [(), ("Add",)])
def test_raw_scores_give_the_same_text_and_confidence(output_ops: tuple[str, ...]) -> None:
    raw = np.log(encode(path_of("abc", steps=12), ("", *LETTERS), sure=0.8)) + 5

    assert decode(raw, output_ops=output_ops) == about("abc", 0.8)


def test_the_confidence_is_the_mean_over_the_symbols_where_each_begins() -> None:
    steps = np.concatenate(
        [
            encode([symbol], ("", *LETTERS), sure=sure)
            for symbol, sure in [("a", 0.6), ("a", 0.9), ("", 0.99), ("b", 0.8)]
        ],
        axis=1,
    )

    assert decode(steps) == about("ab", 0.7)


def test_an_alphabet_of_another_size_is_refused() -> None:
    with pytest.raises(ModelError, match=r"4 symbols .* fit none of the sizes of the output \(1, 9, 7\)"):
        decode(np.zeros((1, 9, 7), np.float32))
