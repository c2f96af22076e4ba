"""Messages: what the runtime and operators report to the application, out of band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from sightline.media.events import Scalar


class StreamState(StrEnum):
    """How a stream is.

    `waiting`      it is read later, after other streams (`in_turn`)
    `connecting`   nothing has come yet
    `live`         frames come
    `paused`       it is not read until it is resumed
    `stalled`      the connection stands, but no frame came for too long
    `lost`         it broke off, or its server cannot be reached or refuses it
    `auth_failed`  its server does not accept the credentials
    `ended`        it is over: a file was read to its end, or the stream was stopped
    `failed`       it is given up

    A live stream that is stalled, lost or refused is tried again; the state stays until frames come.
    """

    WAITING = "waiting"
    CONNECTING = "connecting"
    LIVE = "live"
    PAUSED = "paused"
    STALLED = "stalled"
    LOST = "lost"
    AUTH_FAILED = "auth_failed"
    ENDED = "ended"
    FAILED = "failed"


class MessageKind(StrEnum):
    """What a message says."""

    STARTED = "started"
    STATE_RESTORED = "state_restored"
    RELOADED = "reloaded"
    REVERTED = "reverted"
    STREAM_CONNECTING = "stream_connecting"
    STREAM_STARTED = "stream_started"
    STREAM_STALLED = "stream_stalled"
    STREAM_LOST = "stream_lost"
    STREAM_AUTH_FAILED = "stream_auth_failed"
    STREAM_BACK = "stream_back"
    STREAM_PAUSED = "stream_paused"
    STREAM_RESUMED = "stream_resumed"
    STREAM_CHANGED = "stream_changed"
    STREAM_ENDED = "stream_ended"
    STREAM_FAILED = "stream_failed"
    ELEMENT_STUCK = "element_stuck"
    MODEL = "model"
    MODEL_TAKEN_BACK = "model_taken_back"
    CANARY_ROLLED_BACK = "canary_rolled_back"
    CANARY_PROVED = "canary_proved"
    RECORDING_STARTED = "recording_started"
    RECORDING = "recording"
    SINK_DEGRADED = "sink_degraded"
    SINK_RECOVERED = "sink_recovered"
    DESTINATION_LOST = "destination_lost"
    DESTINATION_BACK = "destination_back"
    OVERLOADED = "overloaded"
    KEEPS_UP = "keeps_up"
    WORKER_LOST = "worker_lost"
    WARNING = "warning"
    ERROR = "error"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Message:
    """One report. `text` is a sentence for a person, free of credentials; `stream` and `element` say where.

    `state` is what the stream is from now on, in messages that tell of a change of it. `details` holds what does not
    fit into a sentence: the lines of a traceback, or the stack of an operator that does not return. `data` holds the
    numbers and names of the sentence, for programs.
    """

    kind: MessageKind
    text: str
    stream: str | None = None
    element: str | None = None
    state: StreamState | None = None
    details: str | None = None
    data: Mapping[str, Scalar] = field(default_factory=dict)
