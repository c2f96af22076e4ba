"""Sightline, as its documentation says to use it."""

from __future__ import annotations

from typing import Any

from benchmarks.pipelines.job import Job, Outcome, PartMissing

from sightline import Pipeline
from sightline.devices.processor import NATIVE, processor_flags

_WARM_UP_FRAMES = 20


def run(job: Job) -> Outcome:
    """With the pre-processing of the expert and of the ready-made ways: bilinear, on the planes."""
    return _run(job, {"resize": "bilinear", "convert": "network"})


def run_bfloat16(job: Job) -> Outcome:
    """The same in bfloat16. Raises PartMissing on processors that do not compute it."""
    if processor_flags().isdisjoint(NATIVE["bf16"]):
        raise PartMissing("this processor does not compute bfloat16")
    return _run(job, {"resize": "bilinear", "convert": "network", "precision": "bf16"})


def run_exact(job: Job) -> Outcome:
    """With the pre-processing that FastestDet was trained with, at the precision that is measured: what one gets who
    says nothing.
    """
    return _run(job, {"precision": "auto"})


def _run(job: Job, preprocessing: dict[str, str]) -> Outcome:
    _pipeline(job, preprocessing).run(frames=_WARM_UP_FRAMES)
    report = _pipeline(job, preprocessing).run().to_json()
    own_seconds = report["framework_cpu_seconds"]
    details = {
        "framework_share": own_seconds / report["cpu_seconds"],
        "framework_us_per_frame": own_seconds / report["frames"] * 1e6,
        "engine_ms_per_frame": report["engine_cpu_seconds"] / report["frames"] * 1e3,
        "source_ms_per_frame": sum(one["read_cpu_seconds"] for one in report["streams"].values())
        / report["frames"]
        * 1e3,
        **{f"{name}_ms_per_frame": one["cpu_ms_per_frame"] for name, one in report["elements"].items()},
    }
    return Outcome(report["wall_seconds"], report["cpu_seconds"], details)


def _pipeline(job: Job, preprocessing: dict[str, str]) -> Pipeline:
    detect: dict[str, Any] = {
        "model": str(job.model),
        "labels": str(job.labels),
        "confidence": job.confidence,
        **preprocessing,
    }
    return Pipeline(
        sources={name: {"uri": str(job.clip), "loop": job.passes} for name in job.names},
        steps=[{"detect": detect}, "track", {"jsonl": str(job.out / "{stream}.jsonl")}],
        outputs=job.out,
    )
