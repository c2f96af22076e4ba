"""A training that lasts a given time: its learning rate follows the clock, and it says how it goes."""

from __future__ import annotations

import math
import time

import numpy as np
import torch

REPORT_EVERY = 200


class Clock:
    """Counts steps for so many minutes; the rate rises in the first steps and falls as a cosine to the end."""

    def __init__(self, minutes: float, *, rate: float, warm_up_steps: int = 150) -> None:
        self.steps = 0
        self._minutes = minutes
        self._rate = rate
        self._warm_up_steps = warm_up_steps
        self._began = time.monotonic()
        self._recent: list[dict[str, float]] = []

    @property
    def spent(self) -> float:
        """The share of the time that is over."""
        return (time.monotonic() - self._began) / 60 / self._minutes

    def step(self, optimiser: torch.optim.Optimizer) -> bool:
        """Set the learning rate of the next step; False when the time is over."""
        spent = self.spent
        falling = 0.01 + 0.99 * (1 + math.cos(math.pi * min(spent, 1.0))) / 2
        for group in optimiser.param_groups:
            group["lr"] = self._rate * min(1.0, (self.steps + 1) / self._warm_up_steps) * falling
        self.steps += 1
        return spent < 1

    def report(self, **values: float) -> None:
        """Take note of a step's figures; print their means now and then."""
        self._recent.append(values)
        if len(self._recent) == REPORT_EVERY:
            means = {name: np.mean([entry[name] for entry in self._recent]) for name in values}
            shown = " ".join(f"{name} {mean:.4f}" for name, mean in means.items())
            print(f"step {self.steps}, {self.spent:.0%}: {shown}", flush=True)
            self._recent.clear()
