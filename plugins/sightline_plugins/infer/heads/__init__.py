"""Heads: what turns a model's raw outputs into what they mean. One pure module each; `HEADS` holds them by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sightline_plugins.infer.heads import (
    class_map,
    classify,
    ctc,
    embed,
    end_to_end,
    faces,
    fastestdet,
    finished,
    grids,
    heatmap,
    priors,
    sets,
    simcc,
    yolo,
)
from sightline_plugins.infer.heads.findings import Candidates
from sightline_plugins.infer.heads.head import Head, TaskName

HEADS: Mapping[str, Head[Any]] = MappingProxyType(
    {
        head.name: head
        for head in (
            fastestdet.HEAD,
            *yolo.HEADS,
            end_to_end.END_TO_END,
            end_to_end.NORMALIZED,
            end_to_end.DETR_DEPLOYED,
            *grids.HEADS,
            *priors.HEADS,
            *sets.HEADS,
            *faces.HEADS,
            *finished.HEADS,
            classify.CLASSIFY,
            classify.TAGS,
            embed.HEAD,
            ctc.HEAD,
            class_map.HEAD,
            heatmap.HEAD,
            simcc.HEAD,
        )
    }
)


def heads_of(task: str) -> Mapping[str, Head[Any]]:
    """The heads whose findings a step of that task can use, by name: `detect` takes every head that finds boxes."""
    return {
        name: head
        for name, head in HEADS.items()
        if head.task == task or (task == "detect" and head.finding is Candidates)
    }


__all__ = ["HEADS", "Head", "TaskName", "heads_of"]
