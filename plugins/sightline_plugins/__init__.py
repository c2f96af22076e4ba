"""The elements and sources that Sightline ships, one folder per kind; each is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sightline.libraries import decline_telemetry

if TYPE_CHECKING:
    from sightline_plugins.camera_health.camera_health import CameraHealth
    from sightline_plugins.delivery.amqp import Amqp
    from sightline_plugins.delivery.kafka import Kafka
    from sightline_plugins.delivery.mqtt import Mqtt
    from sightline_plugins.delivery.nats import Nats
    from sightline_plugins.delivery.otlp import Otlp
    from sightline_plugins.delivery.postgres import Postgres
    from sightline_plugins.delivery.redis import Redis
    from sightline_plugins.delivery.webhook import Webhook
    from sightline_plugins.describe.describe import Describe
    from sightline_plugins.draw.draw import Draw
    from sightline_plugins.draw.privacy import Privacy
    from sightline_plugins.drift.drift import Drift
    from sightline_plugins.flow.flow import Flow
    from sightline_plugins.functions.apply import Apply
    from sightline_plugins.functions.callback import Callback
    from sightline_plugins.harvest.harvest import Harvest
    from sightline_plugins.infer.classify import Classify
    from sightline_plugins.infer.detect import Detect
    from sightline_plugins.infer.embed import Embed
    from sightline_plugins.infer.infer import Infer
    from sightline_plugins.infer.pose import Pose
    from sightline_plugins.infer.read import Read
    from sightline_plugins.infer.segment import Segment
    from sightline_plugins.infer.tensors import Tensors
    from sightline_plugins.publish.publish import Publish
    from sightline_plugins.record.record import Record
    from sightline_plugins.replay.replay import Replay
    from sightline_plugins.rules.absence import Absence
    from sightline_plugins.rules.combine import Combine
    from sightline_plugins.rules.crowd import Crowd
    from sightline_plugins.rules.direction import Direction
    from sightline_plugins.rules.flows import Flows
    from sightline_plugins.rules.heat_map import HeatMaps
    from sightline_plugins.rules.left_objects import LeftObjects
    from sightline_plugins.rules.lines import Lines
    from sightline_plugins.rules.loitering import Loitering
    from sightline_plugins.rules.parking import Parking
    from sightline_plugins.rules.queue import Queue
    from sightline_plugins.rules.speed import Speed
    from sightline_plugins.rules.stopped import Stopped
    from sightline_plugins.rules.zones import Zones
    from sightline_plugins.search.index import SearchIndex
    from sightline_plugins.sinks.coco import Coco
    from sightline_plugins.sinks.csv import Csv
    from sightline_plugins.sinks.jsonl import Jsonl
    from sightline_plugins.sinks.kitti import Kitti
    from sightline_plugins.sinks.mot import Mot
    from sightline_plugins.sinks.parquet import Parquet
    from sightline_plugins.sinks.rerun import Rerun
    from sightline_plugins.sinks.snapshots import Snapshots
    from sightline_plugins.sinks.sqlite import Sqlite
    from sightline_plugins.sinks.video import Video
    from sightline_plugins.sources.file.element import Media
    from sightline_plugins.sources.images.element import Images
    from sightline_plugins.sources.live.rtsp import Rtsp
    from sightline_plugins.sources.live.v4l2 import V4l2
    from sightline_plugins.sources.pattern import Pattern
    from sightline_plugins.sources.pipe.element import Pipe
    from sightline_plugins.sources.recorded.element import Recorded
    from sightline_plugins.tile.tile import Tile
    from sightline_plugins.track.multi_camera.element import MultiCamera
    from sightline_plugins.track.track import Track
    from sightline_plugins.warp.dewarp import Dewarp
    from sightline_plugins.warp.stabilise import Stabilise

decline_telemetry()  # before any module here imports ONNX Runtime

_HOMES = {
    "Absence": "sightline_plugins.rules.absence",
    "Amqp": "sightline_plugins.delivery.amqp",
    "Apply": "sightline_plugins.functions.apply",
    "Callback": "sightline_plugins.functions.callback",
    "CameraHealth": "sightline_plugins.camera_health.camera_health",
    "Classify": "sightline_plugins.infer.classify",
    "Combine": "sightline_plugins.rules.combine",
    "Coco": "sightline_plugins.sinks.coco",
    "Crowd": "sightline_plugins.rules.crowd",
    "Csv": "sightline_plugins.sinks.csv",
    "Describe": "sightline_plugins.describe.describe",
    "Detect": "sightline_plugins.infer.detect",
    "Dewarp": "sightline_plugins.warp.dewarp",
    "Direction": "sightline_plugins.rules.direction",
    "Draw": "sightline_plugins.draw.draw",
    "Drift": "sightline_plugins.drift.drift",
    "Embed": "sightline_plugins.infer.embed",
    "Flow": "sightline_plugins.flow.flow",
    "Flows": "sightline_plugins.rules.flows",
    "Harvest": "sightline_plugins.harvest.harvest",
    "HeatMaps": "sightline_plugins.rules.heat_map",
    "Images": "sightline_plugins.sources.images.element",
    "Infer": "sightline_plugins.infer.infer",
    "Jsonl": "sightline_plugins.sinks.jsonl",
    "Kafka": "sightline_plugins.delivery.kafka",
    "Kitti": "sightline_plugins.sinks.kitti",
    "LeftObjects": "sightline_plugins.rules.left_objects",
    "Lines": "sightline_plugins.rules.lines",
    "Loitering": "sightline_plugins.rules.loitering",
    "Media": "sightline_plugins.sources.file.element",
    "Mot": "sightline_plugins.sinks.mot",
    "Mqtt": "sightline_plugins.delivery.mqtt",
    "MultiCamera": "sightline_plugins.track.multi_camera.element",
    "Nats": "sightline_plugins.delivery.nats",
    "Otlp": "sightline_plugins.delivery.otlp",
    "Parking": "sightline_plugins.rules.parking",
    "Parquet": "sightline_plugins.sinks.parquet",
    "Rerun": "sightline_plugins.sinks.rerun",
    "Pattern": "sightline_plugins.sources.pattern",
    "Pipe": "sightline_plugins.sources.pipe.element",
    "Pose": "sightline_plugins.infer.pose",
    "Postgres": "sightline_plugins.delivery.postgres",
    "Privacy": "sightline_plugins.draw.privacy",
    "Publish": "sightline_plugins.publish.publish",
    "Queue": "sightline_plugins.rules.queue",
    "Read": "sightline_plugins.infer.read",
    "Record": "sightline_plugins.record.record",
    "Recorded": "sightline_plugins.sources.recorded.element",
    "Redis": "sightline_plugins.delivery.redis",
    "Replay": "sightline_plugins.replay.replay",
    "Rtsp": "sightline_plugins.sources.live.rtsp",
    "SearchIndex": "sightline_plugins.search.index",
    "Segment": "sightline_plugins.infer.segment",
    "Snapshots": "sightline_plugins.sinks.snapshots",
    "Speed": "sightline_plugins.rules.speed",
    "Sqlite": "sightline_plugins.sinks.sqlite",
    "Stabilise": "sightline_plugins.warp.stabilise",
    "Stopped": "sightline_plugins.rules.stopped",
    "Tensors": "sightline_plugins.infer.tensors",
    "Tile": "sightline_plugins.tile.tile",
    "Track": "sightline_plugins.track.track",
    "V4l2": "sightline_plugins.sources.live.v4l2",
    "Video": "sightline_plugins.sinks.video",
    "Webhook": "sightline_plugins.delivery.webhook",
    "Zones": "sightline_plugins.rules.zones",
}

__all__ = [
    "Absence",
    "Amqp",
    "Apply",
    "Callback",
    "CameraHealth",
    "Classify",
    "Coco",
    "Combine",
    "Crowd",
    "Csv",
    "Describe",
    "Detect",
    "Dewarp",
    "Direction",
    "Draw",
    "Drift",
    "Embed",
    "Flow",
    "Flows",
    "Harvest",
    "HeatMaps",
    "Images",
    "Infer",
    "Jsonl",
    "Kafka",
    "Kitti",
    "LeftObjects",
    "Lines",
    "Loitering",
    "Media",
    "Mot",
    "Mqtt",
    "MultiCamera",
    "Nats",
    "Otlp",
    "Parking",
    "Parquet",
    "Pattern",
    "Pipe",
    "Pose",
    "Postgres",
    "Privacy",
    "Publish",
    "Queue",
    "Read",
    "Record",
    "Recorded",
    "Redis",
    "Replay",
    "Rerun",
    "Rtsp",
    "SearchIndex",
    "Segment",
    "Snapshots",
    "Speed",
    "Sqlite",
    "Stabilise",
    "Stopped",
    "Tensors",
    "Tile",
    "Track",
    "V4l2",
    "Video",
    "Webhook",
    "Zones",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'sightline_plugins' has no attribute {name!r}")
