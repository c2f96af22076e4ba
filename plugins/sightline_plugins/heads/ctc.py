"""Text by connectionist temporal classification (CTC), read greedily.

Each step along the line is a distribution over the alphabet and one more symbol, the blank. The likeliest symbol of
each step counts, repeats without a blank between them are merged, and blanks are removed (Graves et al., "Connectionist
Temporal Classification", ICML 2006, section 3.2: best path decoding). The confidence is the mean probability of the
remaining symbols, at the step where each begins, as in PaddleOCR (`ppocr/postprocess/rec_postprocess.py`).

Outputs may be (1, T, C), (T, 1, C) or (1, C, T): the last axis that is as long as the alphabet holds the symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.heads.decoding import are_logits, softmax, sum_to_one
from sightline_plugins.heads.head import Array, DecodeContext, Head, HeadOptions, MatchScore, Signature, Text


class CtcOptions(HeadOptions):
    """Options of the head `ctc`."""

    blank: Literal["first", "last"] = "first"
    """Where the blank stands among the symbols."""
    space: bool = False
    """Whether a space follows the symbols of `labels`, as PaddleOCR's models have it."""
    scores: Literal["auto", "probabilities", "softmax"] = "auto"
    """`softmax` makes probabilities of raw scores; `auto` does where they do not add up to 1."""


def alphabet(labels: Sequence[str], options: CtcOptions) -> tuple[str, ...]:
    """Return all symbols in the order of the network's, the blank (an empty string) among them."""
    symbols = (*labels, " ") if options.space else tuple(labels)
    return ("", *symbols) if options.blank == "first" else (*symbols, "")


def decode(outputs: Sequence[Array], context: DecodeContext) -> Text:
    """Return the text, and the mean confidence of its symbols (0 when there are none)."""
    options = context.options_or(CtcOptions())
    symbols = alphabet(context.labels, options)
    axis = symbols_axis(outputs[0].shape, len(symbols))
    if axis is None:
        raise ModelError(
            f"head ctc: {len(symbols)} symbols (the labels, the blank, and a space if head_options says so) fit none "
            f"of the sizes of the output {outputs[0].shape}: other labels or another head are needed"
        )
    steps = np.moveaxis(outputs[0], axis, -1).reshape(-1, len(symbols))
    logits = are_logits(steps, form=options.scores, op_type=context.op_type(0), looks_like=sum_to_one)
    best = steps.argmax(axis=1)
    begins = np.empty(len(best), np.bool_)
    begins[:1] = True
    np.not_equal(best[1:], best[:-1], out=begins[1:])
    begins &= best != (0 if options.blank == "first" else len(symbols) - 1)
    if not begins.any():
        return Text("", 0.0)
    rows = softmax(steps[begins]) if logits else steps[begins]
    text = "".join(symbols[number] for number in best[begins].tolist())
    return Text(text, float(rows.max(axis=1).astype(np.float64).mean()))


def symbols_axis(shape: Sequence[int | None], count: int) -> int | None:
    """Return the axis that is as long as the alphabet, the last such; None when there is none."""
    return next((axis for axis in reversed(range(len(shape))) if shape[axis] == count), None)


def match_score(signature: Signature) -> MatchScore:
    """Match a sequence of distributions."""
    sizes = [size for size in signature.shapes[0][1:] if size != 1]
    return MatchScore.certain_if(1 <= len(sizes) <= 2)


CTC = Head(
    name="ctc",
    family="PaddleOCR, CRNN, LPRNet",
    outputs="(1, T, C), (T, 1, C) or (1, C, T): steps and symbols",
    decode=decode,
    task="read",
    result_type=Text,
    match_score=match_score,
    preprocessing={"fit": "height", "color": "bgr", "mean": (127.5,), "scale": (127.5,), "pad": (127,)},
    options=CtcOptions,
)
