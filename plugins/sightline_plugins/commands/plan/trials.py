"""Run a pipeline with other streams or without a part, and make a plan of what that took."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.cli.bench import endless
from sightline.cli.interrupts import interrupts
from sightline.cli.progress import Progress
from sightline.devices import Device
from sightline.devices.processor import processor_name
from sightline.graph import Message, PipelineDescription
from sightline.pipeline import Pipeline
from sightline.server.resources import Resources
from sightline_plugins.commands.plan.capacity import Figures
from sightline_plugins.commands.plan.copies import copied, without_decoding, without_steps
from sightline_plugins.commands.plan.fleet import Fleet, shares
from sightline_plugins.commands.plan.measured import Measured, measure

SHARES = {"each stream once": 0.15, "decoders alone": 0.15, "steps alone": 0.15, "everything": 0.25, "as planned": 0.3}
"""What is measured, and its share of the time."""
_STREAMS_A_CORE, _FEWEST, _MOST = 2, 4, 64
"""Streams that keep a machine busy, at least and at most."""
_MOST_CONFIRMED = 512
KEPT_UP = 0.97
"""Share of the frames of its streams that a run has to finish in time."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What was measured, how many streams fit by that with this share left free, and what a run of so many took; None
    where none fits, or too many to try.
    """

    runs: tuple[tuple[str, Measured], ...]
    figures: Figures
    headroom: float
    streams: int
    confirmed: Measured | None

    @property
    def kept_up(self) -> float | None:
        """Share of the frames of its streams that the run of as many as planned finished in time."""
        return None if self.confirmed is None else min(1.0, self.confirmed.fps / self.confirmed.wanted_fps)

    @property
    def others(self) -> float:
        """Share of all cores that other programs used while it was measured, at most."""
        return max((one.others or 0.0 for _, one in self.runs), default=0.0)

    @property
    def fits(self) -> bool:
        """Whether any stream fits, and as many as planned did when it was tried."""
        return self.streams > 0 and (self.kept_up is None or self.kept_up >= KEPT_UP)

    def to_json(self, fleet: Fleet | None) -> dict[str, Any]:
        """As plain data."""
        figures = self.figures
        most = {"processor": figures.streams_by_processor(), "memory": figures.streams_by_memory()}
        plain: dict[str, Any] = {
            "streams": self.streams,
            "fits": self.fits,
            "runs_out": figures.runs_out(),
            "headroom": self.headroom,
            "most_streams": {what: None if count == float("inf") else round(count, 2) for what, count in most.items()},
            "kept_up": self.kept_up,
            "other_programs": self.others,
            "figures": figures.to_json(),
            "runs": {name: {"streams": one.streams, "fps": one.fps, "cpu_ms": one.cpu_ms} for name, one in self.runs},
        }
        if fleet is not None:
            filled, left = shares(fleet, figures, headroom=self.headroom)
            machines = {
                one.name: {"machines": one.machines, "streams": one.streams, "each": one.each} for one in filled
            }
            plain["fleet"] = {"streams": fleet.streams, "without_a_place": left, "machines": machines}
        return plain


class Trials:
    """Runs a pipeline again and again, each time with other streams or without a part; `seconds` for all together."""

    def __init__(
        self, description: PipelineDescription, *, seconds: float, outputs: Path, say: Callable[[str], None]
    ) -> None:
        self._description = description
        self._seconds = seconds
        self._outputs = outputs
        self._say = say
        self._told: set[str] = set()

    def plan(self, *, headroom: float) -> Plan:
        """Measure, predict, and try what was predicted. Raises Interrupted, ConfigurationError or StreamError."""
        few = self._run("each stream once", self._description)
        many = copied(self._description, streams=_busy(few))
        alone = self._run("decoders alone", without_steps(many)), self._run("steps alone", without_decoding(many))
        whole = self._run("everything", many)
        figures = Figures.of(few, whole, processor=processor_name(), memory_bytes=_memory_bytes())
        streams = figures.streams(headroom=headroom)
        confirmed = None
        if 0 < streams <= _MOST_CONFIRMED:
            confirmed = self.as_planned(streams)
        runs = tuple(zip(list(SHARES)[1:], (*alone, whole), strict=False))
        return Plan(runs, figures, headroom, streams, confirmed)

    def as_planned(self, streams: int) -> Measured:
        """Run so many streams at their own rates."""
        return self._run("as planned", copied(self._description, streams=streams), realtime=True)

    def _run(self, name: str, description: PipelineDescription, *, realtime: bool = False) -> Measured:
        seconds, count = SHARES[name] * self._seconds, len(description.sources)
        streams = "1 stream" if count == 1 else f"{count} streams"
        self._say(f"{list(SHARES).index(name) + 1}/{len(SHARES)}  {name}: {streams}, {seconds:.0f} s")
        pipeline = Pipeline.from_description(endless(description, realtime=realtime), outputs=self._outputs)
        progress = Progress(pipeline.status, quiet=True)

        def tell(message: Message) -> None:
            if message.text not in self._told:
                self._told.add(message.text)
                progress.tell(message)

        pipeline.on_message(tell)
        with progress, interrupts(pipeline, say=progress.say) as caught:
            return measure(pipeline, seconds=seconds, is_over=lambda: bool(caught.count))


def _busy(few: Measured) -> int:
    """How many streams keep the machine busy: about as many as it can do, because each has a decoder and tracks of its
    own that take room in caches; judged by what each stream once took. A multiple of them.
    """
    own, cores = few.streams, Device().cores
    share = few.wanted_fps / own * few.cpu_ms / 1000  # of a core, that a stream takes
    wanted = max(_FEWEST, _STREAMS_A_CORE * cores, round(cores / share))
    return -(-max(own, min(_MOST, wanted)) // own) * own


def _memory_bytes() -> int:
    """Memory that this process may have: what is free, and what it has; all of it where that is unknown."""
    now = Resources.now()
    if now.total_bytes is None or now.used_bytes is None:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return now.total_bytes - now.used_bytes + (now.process_bytes or 0)
