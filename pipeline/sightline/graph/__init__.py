"""How pipelines are described and checked: elements, what they build, the tree they stand in."""

from sightline.graph.element import Capability, CheckContext, Element, Problem, Threading
from sightline.graph.fields import InputPath, OutputPath
from sightline.graph.live_options import ChangesLive, PreparesChanges, TakesChanges
from sightline.graph.messages import Message, MessageKind, StreamState
from sightline.graph.mounts import Mounts
from sightline.graph.operator import (
    AlarmCount,
    ComparesModels,
    CountsAlarms,
    DriftMeasure,
    MeasuresDrift,
    ModelComparison,
    Operator,
    Pending,
    RecordsOnRequest,
    ResetsCounts,
    RunsOn,
    Sink,
)
from sightline.graph.outputs import Outputs
from sightline.graph.packets import EncodedFormat, EncodedPacket, PacketRing, Packets, Wanted
from sightline.graph.registry import Registry
from sightline.graph.site import Clock, Examples, Site, WaitLimit
from sightline.graph.source import SourceElement, SourceReader
from sightline.graph.state import KeepsState, Saved
from sightline.graph.telemetry import TelemetryOptions
from sightline.graph.tree import BatchOptions, OutboxOptions, Parallel, PipelineDescription, ProcessOptions, Step, Tee

__all__ = [
    "AlarmCount",
    "BatchOptions",
    "Capability",
    "ChangesLive",
    "CheckContext",
    "Clock",
    "ComparesModels",
    "CountsAlarms",
    "DriftMeasure",
    "Element",
    "EncodedFormat",
    "EncodedPacket",
    "Examples",
    "InputPath",
    "KeepsState",
    "MeasuresDrift",
    "Message",
    "MessageKind",
    "ModelComparison",
    "Mounts",
    "Operator",
    "OutboxOptions",
    "OutputPath",
    "Outputs",
    "PacketRing",
    "Packets",
    "Parallel",
    "Pending",
    "PipelineDescription",
    "PreparesChanges",
    "Problem",
    "ProcessOptions",
    "RecordsOnRequest",
    "Registry",
    "ResetsCounts",
    "RunsOn",
    "Saved",
    "Sink",
    "Site",
    "SourceElement",
    "SourceReader",
    "Step",
    "StreamState",
    "TakesChanges",
    "Tee",
    "TelemetryOptions",
    "Threading",
    "WaitLimit",
    "Wanted",
]
