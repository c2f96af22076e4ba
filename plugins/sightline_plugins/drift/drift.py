"""`drift`: report streams whose objects or images are no longer what they usually are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, field_validator, model_validator

from sightline.graph import (
    Capability,
    ChangesLive,
    CheckContext,
    Element,
    InputPath,
    Operator,
    OutputPath,
    Problem,
    Site,
)
from sightline.graph.fields import is_there, matching
from sightline.graph.outputs import safe_name
from sightline.graph.references import Location
from sightline.graph.rule_options import Severity
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration, format_duration
from sightline_plugins.drift.quantities import MOST_BLOCKS, MOST_LABELS, QUANTITIES, QuantityName

FEWEST_BLOCKS = 4
"""Windows that a baseline has at least."""
PARTS = 10
"""A window has so many parts; it is compared at the end of each."""

_Time = Annotated[Duration, Field(gt=0)]
_HOUR_NS = 3600 * NANOSECONDS


class Drift(Element):
    """Report streams whose objects or images are no longer what they usually are.

    Each stream is compared with itself. For a day (`learn`) a baseline is learned, or one is taken from a file; then
    the newest half an hour (`window`) is compared with it, ten times in that time. What is compared are histograms:

    - of each label (`classes`): the `confidence` of its objects, their `size` (the square root of the share of the
      frame that a box covers), and the `count` of objects on a frame;
    - of the image: its mean `brightness`, its `contrast` (the standard deviation) and its `sharpness` (fine detail
      beside contrast).

    A quantity drifts when its distance from the baseline (Kolmogorov and Smirnov: 0 is the same, 1 has nothing in
    common) is greater than `threshold`, than chance allows with so few samples, and than the baseline differs from
    itself, and when it has moved by more than a trifle. That is an event `drift` with `state: began`, and
    `state: ended` with `seconds` when it is over; the name of its rule is the quantity (`drift.confidence`). With it
    go `quantity`, `label`, `distance`, `limit`, and the medians `before` and `now` (means of `count`). The report and
    the metrics have the same of every quantity.

    Put it behind the step that finds objects, and behind `track`: an object with a `track_id` counts as one sample,
    however long it stands there. Without tracks, objects are taken from sixty frames of a window. Frames on which a
    detector did not run are left out. A baseline of a day or more knows the time of day. What was learned is kept over
    a restart, and is learned anew with `--fresh` or by `pipeline.reset_counts("drift-1")`.

    ```yaml
    - drift: {learn: 7d, window: 1h, classes: [car, person], severity: medium}
    ```
    """

    name: ClassVar[str] = "drift"
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.EVENTS})

    quantities: Annotated[tuple[QuantityName, ...], Field(min_length=1)] = QUANTITIES
    """What is compared. Without quantities of the image, no pixel is read."""
    classes: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_LABELS)] | None = None
    """Labels of the objects that count; the first sixteen that come, when not given."""
    learn: _Time = 24 * _HOUR_NS
    """How long a baseline is learned; a time in which no frames come does not count."""
    window: _Time = _HOUR_NS // 2
    """The time that is compared with it. A longer one has more samples, and reports later."""
    interval: _Time = NANOSECONDS
    """The time from one sampled frame to the next; with fewer frames than that, each is sampled."""
    baseline: InputPath | None = None
    """File with a baseline, as `write` makes it; `{stream}` is replaced by the stream's name. Nothing is learned
    then."""
    write: OutputPath | None = None
    """File to which each baseline is written when it is learned, or when its stream ends before: `.json`."""
    threshold: ChangesLive[Annotated[float, Field(gt=0, lt=1)]] = 0.3
    """The distance from which on a quantity drifts, where chance and custom do not demand more."""
    relearn: ChangesLive[_Time | None] = None
    """A drift that has lasted for so long is the new normal: it ends with `reason: relearned`, and the baseline of the
    stream is learned anew. Never when not given."""
    severity: ChangesLive[Severity | None] = None
    """How grave its events are; it stands in each of them."""

    @field_validator("quantities", "classes")
    @classmethod
    def _each_once(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if names is not None and len(set(names)) < len(names):
            raise ValueError("names one twice: name each once")
        return names

    @model_validator(mode="after")
    def _fits(self) -> Drift:
        if self.window < PARTS * self.interval:
            least = format_duration(PARTS * self.interval)
            raise ValueError(f"`window` is shorter than ten times `interval`: make it {least} at least")
        if not FEWEST_BLOCKS * self.window <= self.learn <= MOST_BLOCKS * self.window:
            low, high = (format_duration(times * self.window) for times in (FEWEST_BLOCKS, MOST_BLOCKS))
            raise ValueError(f"`learn` must be 4 to 400 times as long as `window`: {low} to {high}")
        return self

    def found_rules(self) -> frozenset[str]:
        """Return the names of the rules: the quantities."""
        return frozenset(self.quantities)

    def wanted_labels(self) -> Iterator[tuple[Location, str]]:
        """Yield the labels that `classes` names."""
        for number, label in enumerate(self.classes or ()):
            yield ("classes", number), label

    def baseline_for(self, stream: str) -> Path | None:
        """Return the file with the baseline of a stream, if one is named."""
        if self.baseline is None:
            return None
        return Path(str(self.baseline).replace("{stream}", safe_name(stream))).expanduser()

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that every baseline can be read, and that those that are learned can be written."""
        from sightline_plugins.drift.baseline_file import baseline_problem
        from sightline_plugins.sinks.files import path_problems

        for path in {self.baseline_for(stream) for stream in matching(self.streams, context.streams)} - {None}:
            assert path is not None
            if is_there(path) or "{stream}" in str(self.baseline):
                problem = baseline_problem(path)
                if problem is not None:
                    yield Problem(problem, ("baseline",))
        if self.write is None:
            return
        if self.baseline is not None:
            yield Problem("nothing is learned with `baseline`: take one of both away", ("write",))
        if not self.write.lower().endswith(".json"):
            yield Problem(f"{self.write!r} must end in .json", ("write",))
        yield from path_problems(self, self.write, context=context, shareable=False, key="write")

    def build(self, site: Site) -> Operator:
        """Make the operator."""
        from sightline_plugins.drift.operator import DriftOperator

        return DriftOperator(self, site=site)
