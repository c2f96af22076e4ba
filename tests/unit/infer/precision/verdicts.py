"""A judge of precisions whose verdicts the test gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from sightline_plugins.engines.protocol import Precision
from sightline_plugins.infer.precision import Verdict


@dataclass(slots=True)
class GivenVerdicts:
    """A `Judge`: `verdicts` by precision, and `obstacles` to others."""

    verdicts: dict[Precision, Verdict] = field(default_factory=dict)
    obstacles: dict[Precision, str] = field(default_factory=dict)

    def obstacle(self, precision: Precision) -> str | None:
        return self.obstacles.get(precision)

    def __call__(self, precision: Precision) -> Verdict:
        if precision not in self.verdicts:
            pytest.fail(f"{precision} was judged although nothing could be gained")
        return self.verdicts[precision]


def agreeing(share: float = 1.0) -> GivenVerdicts:
    """Return a judge that finds this share of results to agree, in every precision."""
    return GivenVerdicts({"bf16": Verdict(share), "fp16": Verdict(share)})
