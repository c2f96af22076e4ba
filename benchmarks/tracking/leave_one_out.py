"""Are the defaults of `track` those that other sequences would choose? `python -m benchmarks.tracking.leave_one_out`.

    python -m benchmarks.tracking.leave_one_out ../shared/data [--settings 60] [--write]

Settings are drawn at random around the defaults: thresholds, noise of the filter, how long tracks are kept. Each fold
leaves out one sequence (with all its forms) or one detector, takes the setting that is best on all others, and scores
it on what was left out. Where the defaults score as well as that setting, they were not fitted to what was left out;
where a setting is better in every fold, it should be the default. A score is the mean of HOTA and IDF1.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks.tracking.__main__ import ROOT, sequences
from benchmarks.tracking.contestants import Maker, own, scores_of
from benchmarks.tracking.page import between_marks
from benchmarks.tracking.sequences import Sequence as Recording

from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions, MatchingThresholds
from sightline_plugins.track.kalman import MotionModel

STEPS = (1, 3, 6)
SPREAD = 0.35
"""Standard deviation of the logarithm of a factor: most values are from 0.7 to 1.4 times the default."""
BEGIN, END = "<!-- leave one out: begin -->", "<!-- leave one out: end -->"
PAGE = ROOT / "docs" / "benchmarks" / "tracking.md"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """What is drawn."""

    options: AdaptiveOptions
    thresholds: MatchingThresholds
    motion: MotionModel

    def maker(self) -> Maker:
        """Return a maker of trackers with this setting."""
        return own(lambda: AdaptiveTracker(self.options, thresholds=self.thresholds, motion=self.motion))


DEFAULT = Setting(AdaptiveOptions(), MatchingThresholds(), MotionModel())


def drawn(random: np.random.Generator) -> Setting:
    """Return a setting around the default."""

    def near(value: float, *, most: float = np.inf) -> float:
        return min(float(value * np.exp(SPREAD * random.normal())), most)

    def nearby(pair: tuple[float, float]) -> tuple[float, float]:
        return near(pair[0]), near(pair[1])

    options, limits, motion = DEFAULT.options, DEFAULT.thresholds, DEFAULT.motion
    high, new = (near(value, most=0.9) for value in (options.high_confidence, options.new_track_threshold))
    return Setting(
        AdaptiveOptions(
            max_lost=round(near(options.max_lost)),
            high_threshold=near(options.high_threshold, most=0.94),
            low_confidence=near(options.low_confidence, most=min(high, new)),
            high_confidence=high,
            new_track_threshold=new,
        ),
        replace(
            limits,
            **{
                name: near(getattr(limits, name), most=0.95)
                for name in limits.__dataclass_fields__
                if name.startswith("min_similarity")
            },
            way_margin=near(limits.way_margin),
            least_margin=near(limits.least_margin),
        ),
        replace(
            motion,
            measurement=nearby(motion.measurement),
            position_diffusion=nearby(motion.position_diffusion),
            velocity_diffusion=nearby(motion.velocity_diffusion),
            initial_velocity=nearby(motion.initial_velocity),
        ),
    )


def groups_of(recording: Recording) -> tuple[str, str]:
    """Return the folds that leave this recording out: its sequence or kind of scene, and its detector."""
    scene, _, form = recording.name.partition(", ")
    return scene, f"detector: {form or 'as published'}"


def measure(settings: Sequence[Setting], recordings: Sequence[Recording]) -> Floats:
    """Return scores (settings, recordings, rates)."""
    found = np.zeros((len(settings), len(recordings), len(STEPS)))
    for number, setting in enumerate(settings):
        for place, recording in enumerate(recordings):
            for column, step in enumerate(STEPS):
                scores = scores_of(recording.thinned(step), setting.maker())
                found[number, place, column] = (scores.hota + scores.idf1) / 2
        print(f"setting {number}: {found[number].mean():.4f}", flush=True)
    return found


def folds(recordings: Sequence[Recording]) -> Mapping[str, npt.NDArray[np.bool_]]:
    """Return by name which recordings (N,) a fold leaves out."""
    groups = [set(groups_of(one)) for one in recordings]
    names = sorted(set().union(*groups))
    return {name: np.array([name in own for own in groups]) for name in names}


def text(scores: Floats, left_out: Mapping[str, npt.NDArray[np.bool_]]) -> str:
    """Return the table; row 0 of the scores is that of the defaults."""
    by_recording = scores.mean(axis=2)
    rows = ["| left out | defaults | best of the others | best on it alone |", "| --- | --- | --- | --- |"]
    differences = []
    for name, out in left_out.items():
        chosen = int(by_recording[:, ~out].mean(axis=1).argmax())
        own = by_recording[:, out].mean(axis=1)
        differences.append(own[0] - own[chosen])
        which = "the defaults" if chosen == 0 else f"{own[chosen]:.3f}"
        rows.append(f"| {name} | {own[0]:.3f} | {which} | {own.max():.3f} |")
    gain = by_recording.mean(axis=1) - by_recording[0].mean()
    said = f"{len(scores) - 1} settings, {(gain > 0).sum()} of them better than the defaults in the mean of all"
    best = f" (the best by {gain.max():.3f})" if gain.max() > 0 else ""
    means = f"In the mean of the folds, the defaults are {np.mean(differences):+.3f} against what the others choose."
    rows += ["", f"{said}{best}. {means}"]
    return "\n".join(rows)


def main() -> None:
    """Measure, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("shared", type=Path, help="the folder of shared data")
    parser.add_argument("--settings", type=int, default=60, help="how many are drawn (default: 60)")
    parser.add_argument("--write", action="store_true", help="write it into docs/benchmarks/tracking.md")
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    recordings = list(sequences(asked.shared).values())
    scores = measure([DEFAULT, *(drawn(random) for _ in range(asked.settings))], recordings)
    table = text(scores, folds(recordings))
    print(table)
    if asked.write:
        PAGE.write_text(between_marks(PAGE.read_text(), table, begin=BEGIN, end=END))


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
