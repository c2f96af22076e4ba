"""Several processes that train the same network and average their weights now and then (local SGD, Stich, 2019).

One process with one thread each uses a few busy cores better than one process whose threads wait for each other.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

EVERY_STEPS = 40


class Replicas:
    """This process's place among `count` of them; they meet in files beside the weights and never wait."""

    def __init__(self, weights: Path, *, number: int, count: int) -> None:
        self._own = weights.with_suffix(f".replica{number}")
        self._others = [weights.with_suffix(f".replica{other}") for other in range(count) if other != number]
        self._read: dict[Path, int] = {}

    @torch.no_grad()
    def meet(self, network: nn.Module) -> None:
        """Write the weights, then takes the mean with what others wrote since the last time."""
        state = network.state_dict()
        part = self._own.with_suffix(self._own.suffix + ".part")
        torch.save(state, part)
        part.replace(self._own)
        fresh = [path for path in self._others if path.exists() and self._read.get(path) != path.stat().st_mtime_ns]
        if not fresh:
            return
        self._read.update({path: path.stat().st_mtime_ns for path in fresh})
        states = [torch.load(path, weights_only=True) for path in fresh]
        for name, value in state.items():
            if value.dtype.is_floating_point:
                value.copy_(torch.stack([value, *[other[name] for other in states]]).mean(dim=0))
