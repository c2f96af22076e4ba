"""The metrics of several workers as one exposition: each sample with the label `pipeline`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_PIPELINE = re.compile(r'\bpipeline="(?:[^"\\]|\\.)*",?')


@dataclass(slots=True)
class _Family:
    head: list[str] = field(default_factory=list)
    samples: list[str] = field(default_factory=list)


def merged(texts: Mapping[str, str]) -> str:
    r"""Return the metrics of all pipelines, family by family; texts are by the names of pipelines.

    A label `pipeline` that a sample has becomes the name that the pipeline has in the server.

    >>> print(merged({"a": "# TYPE up gauge\nup 1\n", "b": "# TYPE up gauge\nup{x=\"y\"} 0\n"}), end="")
    # TYPE up gauge
    up{pipeline="a"} 1
    up{pipeline="b",x="y"} 0
    """
    families: dict[str, _Family] = {}
    for pipeline, text in texts.items():
        family = _Family()
        for line in text.splitlines():
            if line.startswith("#"):
                _, _, name, *_ = line.split(" ", 3)
                family = families.setdefault(name, _Family())
                if line not in family.head:
                    family.head.append(line)
            elif (match := _SAMPLE.fullmatch(line)) is not None:
                family.samples.append(_labelled(match, pipeline))
    lines = [line for family in families.values() for line in (*family.head, *family.samples)]
    return "".join(f"{line}\n" for line in lines)


def _labelled(match: re.Match[str], pipeline: str) -> str:
    others = _PIPELINE.sub("", match["labels"] or "")
    labels = f'pipeline="{pipeline}"' + (f",{others}" if others else "")
    return f"{match['name']}{{{labels}}} {match['value']}"
