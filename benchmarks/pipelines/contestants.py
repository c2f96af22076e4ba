"""Who takes part, in which group, and where the code is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Group(StrEnum):
    """What a contestant stands for; each is compared with ours."""

    OURS = "Sightline"
    OURS_BFLOAT16 = "Sightline in bfloat16"
    EXPERT = "an expert's loop"
    EXPERT_BFLOAT16 = "an expert's loop in bfloat16"
    EXPERT_WITH_OUR_GRAPH = "an expert's loop on our graph"
    READY_MADE = "ready-made ways"
    ORDINARY = "the ordinary loop"


IN_BFLOAT16 = (Group.OURS_BFLOAT16, Group.EXPERT_BFLOAT16)
TARGETS = {Group.EXPERT: 1.0, Group.EXPERT_BFLOAT16: 1.0, Group.READY_MADE: 1.4, Group.ORDINARY: 2.2}
"""How many times as fast as the best of a group ours has to be."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """`where` is `module:function` in this package; `about` says in a few words what is special."""

    name: str
    group: Group
    where: str
    about: str


OURS = Contestant("sightline", Group.OURS, "ours:run", "the pre-processing of the others (bilinear, on the planes)")
OURS_BFLOAT16 = Contestant("sightline, bfloat16", Group.OURS_BFLOAT16, "ours:run_bfloat16", "with `precision: bf16`")
CONTESTANTS = (
    OURS,
    Contestant("expert", Group.EXPERT, "expert:run", "asynchronous requests, graph by onnxsim"),
    Contestant("expert, workers", Group.EXPERT, "expert:run_workers", "a thread a core, graph by onnxsim"),
    Contestant(
        "expert, bfloat16",
        Group.EXPERT_BFLOAT16,
        "expert:run_bfloat16",
        "as `expert`, with the precision that OpenVINO chooses",
    ),
    OURS_BFLOAT16,
    Contestant("ordinary", Group.ORDINARY, "ordinary:run", "OpenCV, ONNX Runtime, demo code, `trackers`, `json`"),
    Contestant("threads, ONNX Runtime", Group.READY_MADE, "ready_made:threads_onnxruntime", "a thread a stream"),
    Contestant("threads, OpenVINO", Group.READY_MADE, "ready_made:threads_openvino", "a thread a stream"),
    Contestant("processes, ONNX Runtime", Group.READY_MADE, "ready_made:processes_onnxruntime", "a process a stream"),
    Contestant("processes, OpenVINO", Group.READY_MADE, "ready_made:processes_openvino", "a process a stream"),
    Contestant("GStreamer, ONNX Runtime", Group.READY_MADE, "gstreamer:onnxruntime", "appsinks, one loop"),
    Contestant("GStreamer, OpenVINO", Group.READY_MADE, "gstreamer:openvino", "appsinks, one loop"),
    Contestant("sightline, exact", Group.OURS, "ours:run_exact", "the model's own pre-processing (area, whole image)"),
    Contestant("expert, our graph", Group.EXPERT_WITH_OUR_GRAPH, "expert:run_rewritten", "asynchronous requests"),
)
