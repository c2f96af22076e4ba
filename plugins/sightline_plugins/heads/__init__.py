"""Heads: what turns a model's raw outputs into what they mean. One pure module each; `HEADS` holds them by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sightline_plugins.heads import (
    anchor_based,
    class_map,
    classify,
    ctc,
    dense,
    detr,
    embed,
    end_to_end,
    faces,
    fastestdet,
    heatmap,
    simcc,
    yolo,
)
from sightline_plugins.heads.end_to_end import rows
from sightline_plugins.heads.head import Candidates, Head, TaskName

HEADS: Mapping[str, Head[Any]] = MappingProxyType(
    {
        head.name: head
        for head in (
            fastestdet.HEAD,
            *yolo.HEADS,
            rows.END_TO_END,
            rows.NORMALIZED,
            rows.DETR_DEPLOYED,
            *dense.HEADS,
            *anchor_based.HEADS,
            *detr.HEADS,
            *faces.HEADS,
            *end_to_end.HEADS,
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
        if head.task == task or (task == "detect" and head.result_type is Candidates)
    }


__all__ = ["HEADS", "Head", "TaskName", "heads_of"]
