"""The site: what an element is built for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sightline.devices import Device
from sightline.graph.messages import Message, MessageKind
from sightline.graph.mounts import Mounts
from sightline.graph.outputs import Outputs
from sightline.graph.packets import Packets
from sightline.graph.transport import Outbox
from sightline.media import Frame
from sightline.redaction import redact

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice


class Clock(Protocol):
    """Where time comes from; tests put a manual one in its place."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that only ever grow, for measuring and waiting."""
        ...

    def epoch_ns(self) -> int:
        """The time of day in nanoseconds since the epoch."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of the monotonic clock."""
        return time.monotonic_ns()

    def epoch_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return time.time_ns()


def _discard(message: Message) -> None:
    del message


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Frames of a pipeline's own sources, for what an element measures when it is built for the first time.

    `names` identifies the sources. `frames` decodes about so many frames, spread over them; sources that cannot be read
    are left out.
    """

    names: tuple[str, ...]
    frames: Callable[[int], Iterator[Frame]]


class WaitLimit:
    """How long steps may wait for somebody outside: as long as they want, until the run is asked to stop."""

    def __init__(self) -> None:
        self._until_ns: int | None = None

    def end(self, *, until_ns: int) -> None:
        """Let nobody wait longer than until then, by `Clock.monotonic_ns`; from any thread, while others wait."""
        self._until_ns = until_ns if self._until_ns is None else min(self._until_ns, until_ns)

    def limited(self, deadline_ns: int) -> int:
        """Return until when a step waits that would wait until a deadline; asked again and again while it waits."""
        return deadline_ns if self._until_ns is None else min(self._until_ns, deadline_ns)


@dataclass(frozen=True, slots=True)
class Site:
    """Device, clock, output root, encoded packets and message bus that an element's operator lives with.

    `element_id` names the element in messages and errors; `pipeline` is the pipeline's name. `gpu` is there when
    `device` is one: streams, memory and kernels come from it. In a run on several GPUs each has operators of its own,
    whose frames lie on it or on the host; what serves all GPUs (`Element.serves_all_gpus`) is built as for the CPU.
    `streams` are the names of the sources that the run began with. `live` says that streams are live, and do not wait.
    `batch_size` is how many frames a batch has at most when the
    operator is built; None where that is not known, or follows streams that come and go. `examples` are frames of its
    files; None where it has none.
    `outbox` keeps what is delivered to destinations outside; a run always has one. `mounts` is where elements put what
    they serve over HTTP. `wait_limit` says how long somebody outside may be waited for.
    """

    device: Device
    element_id: str = ""
    pipeline: str = "pipeline"
    clock: Clock = field(default_factory=SystemClock)
    outputs: Outputs = field(default_factory=Outputs)
    packets: Packets = field(default_factory=Packets)
    post: Callable[[Message], None] = _discard
    gpu: CudaDevice | None = None
    streams: tuple[str, ...] = ()
    live: bool = False
    batch_size: int | None = None
    examples: Examples | None = None
    outbox: Outbox | None = None
    mounts: Mounts = field(default_factory=Mounts)
    wait_limit: WaitLimit = field(default_factory=WaitLimit)

    def warn(self, text: str, *, stream: str | None = None) -> None:
        """Post a warning; credentials are taken out of it."""
        self.post(Message(MessageKind.WARNING, redact(text), stream=stream, element=self.element_id))
