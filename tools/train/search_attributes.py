"""What the image encoder for search learns beside captions: a layer has to tell from its features what is true.

Captions say a little of a crop and compare it with others; here every step asks for all. The layer is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tools.train.search_captions import COLOURS, VEHICLES
from tools.train.search_samples import HEADINGS, Described

_KINDS = (*VEHICLES, "bicycle", "person")
_COLOURS = tuple(COLOURS)
_UNSAID = -100
"""What `cross_entropy` leaves out."""


def _choices(what: Described) -> tuple[int, ...]:
    """The number of what is true of a crop, for each of `_SIZES`; `_UNSAID` where the question does not arise."""
    is_person, is_bicycle = what.kind == "person", what.kind == "bicycle"
    colour = _COLOURS.index(what.colour)
    return (
        _KINDS.index(what.kind),
        HEADINGS.index(what.heading),
        int(what.light == "dusk"),
        _UNSAID if is_person or is_bicycle else colour,
        colour if is_person else _UNSAID,
        colour if is_bicycle else _UNSAID,
        _COLOURS.index(what.top) if is_bicycle else _UNSAID,
        int(what.coat) if is_person else _UNSAID,
        int(what.bag) if is_person else _UNSAID,
        int(what.child) if is_person else _UNSAID,
    )


_SIZES = (len(_KINDS), len(HEADINGS), 2, *(len(_COLOURS),) * 4, 2, 2, 2)


class Attributes(nn.Module):
    """Asks of features (N, `width`) what is true of N crops."""

    def __init__(self, described: Sequence[Described], *, width: int) -> None:
        super().__init__()
        self._choices = torch.tensor([_choices(what) for what in described])
        self.layer = nn.Linear(width, sum(_SIZES))

    def forward(self, features: Tensor, rows: np.ndarray) -> Tensor:
        """The mean cross entropy over all that is asked about the crops of these rows."""
        answers = self.layer(features).split(_SIZES, dim=1)
        wanted = self._choices[torch.from_numpy(rows)]
        losses = [
            nn.functional.cross_entropy(answer, wanted[:, number])
            for number, answer in enumerate(answers)
            if bool((wanted[:, number] != _UNSAID).any())
        ]
        return torch.stack(losses).mean()
