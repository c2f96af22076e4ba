"""Sightline, as its documentation says to use it."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.pipelines.job import Job, Outcome, PartMissing

from sightline import Pipeline
from sightline.devices.processor import NATIVE, processor_flags
from sightline_plugins.infer.detections import DetectionPostprocessor
from sightline_plugins.infer.requests import HostRequest
from sightline_plugins.preprocess.cpu import HostPreprocessor

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


def run_stages(job: Job) -> Outcome:
    """As `run`, with the CPU time of each stage."""
    return _run_stages(job, "fp32")


def run_bfloat16_stages(job: Job) -> Outcome:
    """As `run_bfloat16`, with the CPU time of each stage."""
    return _run_stages(job, "bf16")


def _run_stages(job: Job, precision: str) -> Outcome:
    spent = [_timed(HostPreprocessor, "prepare"), _timed(HostRequest, "wait"), _timed(DetectionPostprocessor, "read")]
    options = {"resize": "bilinear", "convert": "network", "precision": precision}
    _pipeline(job, options).run(frames=_WARM_UP_FRAMES)
    for one in spent:
        one.clear()
    report = _pipeline(job, options).run().to_json()
    prepare, wait, head = (sum(one) / 1e9 for one in spent)
    elements = {name: one["cpu_ms_per_frame"] * report["frames"] / 1e3 for name, one in report["elements"].items()}
    stages = {
        "decode": sum(one["read_cpu_seconds"] for one in report["streams"].values()),
        "prepare": prepare,
        "submit": elements["detect-1"] - prepare - wait - head,
        "wait": wait,
        "head": head,
        "track": elements["track-1"],
        "records": elements["jsonl-1"],
        "framework": report["framework_cpu_seconds"],
        "engine": report["engine_cpu_seconds"],
    }
    return Outcome(report["wall_seconds"], report["cpu_seconds"], stages)


def _timed(owner: type, name: str) -> list[int]:
    """Let a method note the CPU nanoseconds of each call in the list."""
    method, spent = getattr(owner, name), list[int]()

    def timed(*given: Any, **named: Any) -> Any:
        started = time.thread_time_ns()
        result = method(*given, **named)
        spent.append(time.thread_time_ns() - started)
        return result

    setattr(owner, name, timed)
    return spent


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
