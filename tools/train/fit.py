"""Fits the detector: a given number of minutes, a cosine schedule by the clock, an average of the weights."""

from __future__ import annotations

import copy
import math
import queue
import threading
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tools.train.augment import batches
from tools.train.detector import Detector, points
from tools.train.loss import Targets, loss
from tools.train.replicas import EVERY_STEPS, Replicas
from tools.train.samples import Sample, load
from tools.world.scene import LABELS

LEARNING_RATE = 2.5e-3
WARM_UP_STEPS = 150
REPORT_EVERY = 100


class Average:
    """An exponential average of a network's weights and statistics."""

    def __init__(self, network: nn.Module) -> None:
        self.network = copy.deepcopy(network).eval()
        self.steps = 0

    @torch.no_grad()
    def follow(self, network: nn.Module) -> None:
        """Move the average a step towards the network."""
        self.steps += 1
        keep = 0.998 * (1 - math.exp(-self.steps / 400))
        current = network.state_dict()
        for name, value in self.network.state_dict().items():
            if value.dtype.is_floating_point:
                value.mul_(keep).add_(current[name], alpha=1 - keep)
            else:
                value.copy_(current[name])


def fit(
    *,
    folder: Path,
    weights: Path,
    minutes: float,
    resume: bool,
    rate: float = LEARNING_RATE,
    number: int = 0,
    count: int = 1,
) -> None:
    """Train on the samples in `folder` and writes the averaged weights, now and then and at the end.

    The end is a time, so the result depends on the machine. With `count` above 1, that many processes with
    different `number`s train together; number 0 writes the weights.
    """
    torch.manual_seed(7)
    network = Detector(classes=len(LABELS))
    if resume:
        network.load_state_dict(torch.load(weights, weights_only=True))
    average = Average(network)
    optimiser = torch.optim.AdamW(groups(network), lr=rate, betas=(0.9, 0.99))
    samples = load(folder)
    replicas = Replicas(weights, number=number, count=count)
    feed = _Feed(samples, seed=number)
    began, steps, seen = time.monotonic(), 0, 0
    recent: list[tuple[float, float]] = []
    while (spent := (time.monotonic() - began) / 60 / minutes) < 1:
        for group in optimiser.param_groups:
            group["lr"] = (
                rate * min(1.0, (steps + 1) / WARM_UP_STEPS) * (0.02 + 0.98 * (1 + math.cos(math.pi * spent)) / 2)
            )
        images, targets = feed.take()
        recent.append(_step(network, optimiser, images, targets))
        average.follow(network)
        steps, seen = steps + 1, seen + len(images)
        if count > 1 and steps % EVERY_STEPS == 0:
            replicas.meet(network)
        if steps % REPORT_EVERY == 0:
            box, score = np.mean(recent[-REPORT_EVERY:], axis=0)
            progress = f"step {steps}, {seen} tiles, {len(samples)} samples, {spent:.0%}"
            print(f"{progress}: box {box:.3f} score {score:.3f}", flush=True)
        if number == 0 and steps % (REPORT_EVERY * 3) == 0:
            torch.save(average.network.state_dict(), weights)
    if number == 0:
        torch.save(average.network.state_dict(), weights)
    print(f"done: {steps} steps, {seen} tiles of {len(samples)} samples", flush=True)


def groups(network: nn.Module) -> list[dict[str, object]]:
    """Weights, which decay, and everything else, which does not: what an optimiser takes."""
    decayed = [value for value in network.parameters() if value.ndim > 1]
    plain = [value for value in network.parameters() if value.ndim <= 1]
    return [{"params": decayed, "weight_decay": 0.02}, {"params": plain, "weight_decay": 0.0}]


def _step(network: Detector, optimiser: torch.optim.Optimizer, images: Tensor, targets: Targets) -> tuple[float, float]:
    network.train()
    centres, strides = points((images.shape[3], images.shape[2]))
    box_loss, score_loss = loss(network(images), centres=centres, strides=strides, targets=targets)
    optimiser.zero_grad(set_to_none=True)
    torch.autograd.backward([box_loss + score_loss])
    nn.utils.clip_grad_norm_(network.parameters(), 10.0)
    optimiser.step()
    return float(box_loss.detach()), float(score_loss.detach())


class _Feed:
    """Prepares batches in a thread of its own."""

    def __init__(self, samples: list[Sample], *, seed: int) -> None:
        self._ready: queue.Queue[tuple[Tensor, Targets]] = queue.Queue(maxsize=4)
        self._batches = batches(samples, rng=np.random.default_rng([seed, 41]))
        threading.Thread(target=self._work, daemon=True).start()

    def take(self) -> tuple[Tensor, Targets]:
        """The next batch."""
        return self._ready.get()

    def _work(self) -> None:
        for batch in self._batches:
            self._ready.put(batch)
