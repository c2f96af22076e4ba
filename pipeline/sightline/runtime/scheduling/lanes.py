"""The lanes of a run, one per GPU, and the failover from one to another. A run on the CPU has one lane."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Protocol

from sightline.devices.discovery import DeviceInUse
from sightline.errors import ConfigurationError, CudaFailed, LinkClosed, OperatorError, SightlineError
from sightline.graph import BatchOptions, Element, Message, MessageKind, Site, Step
from sightline.graph.tree import identify
from sightline.media import Batch, Stream
from sightline.redaction import redact
from sightline.runtime.inspection import FrameInspection
from sightline.runtime.scheduling.assembly import Assembly
from sightline.runtime.scheduling.batcher import Arrival, Batcher
from sightline.runtime.scheduling.element_totals import ElementTotals
from sightline.runtime.scheduling.factory import BuiltOperator, OperatorFactory
from sightline.runtime.scheduling.layout import stage_views, step_links
from sightline.runtime.scheduling.link import (
    Item,
    Link,
    LinkPolicy,
    LinkReceiver,
    LinkSender,
    OptionsChange,
    Outlet,
    StateRequest,
    WorkItem,
    fan_in,
)
from sightline.runtime.scheduling.node import Node
from sightline.runtime.scheduling.order import BatchOrder
from sightline.runtime.scheduling.stage_threads import StageGroup
from sightline.runtime.state.file import SavedState
from sightline.runtime.stats.counters import DropReason, LinkStats
from sightline.runtime.stats.snapshot import SOURCE_LINK, LinkView, RunLayout

BuiltOperators = Mapping[str, BuiltOperator]
_LARGEST_DEFAULT_BATCH = 16
_LEAST_BATCH_OF_FILES = 4
"""Steps cost a quarter less per frame where they find their code and data in the processor's caches from the frame
before: 0.67 ms instead of 0.92 with one file and FastestDet (`benchmarks/pipelines/stages.py`)."""


class RunEvents(Protocol):
    """What the lanes of a run report, from their threads. Every batch is either done or lost."""

    def batch_begun(self, item: WorkItem) -> None:
        """A batch enters the first step."""
        ...

    def batch_done(self, item: WorkItem, batch: Batch) -> None:
        """A batch has been processed completely."""
        ...

    def batch_lost(self, item: WorkItem, reason: DropReason) -> None:
        """A batch will not be processed completely."""
        ...

    def stream_ended(self, stream: Stream) -> None:
        """The end of a stream has passed all steps."""
        ...

    def stream_paused(self, stream: Stream, *, number: int) -> None:
        """The last frame before a pause of a stream has passed all steps."""
        ...

    def failed(self, error: BaseException) -> None:
        """Something has failed, and not because of a GPU that others replace."""
        ...

    def takes(self, error: OperatorError, *, closing: bool = False) -> bool:
        """Whether the run goes on although an operator has failed; see `Probation.takes`."""
        ...

    def lane_lost(self, lane: Lane) -> None:
        """A lane whose GPU failed has ended: its streams need another one."""
        ...

    def lanes_ended(self) -> None:
        """All lanes have ended."""
        ...


class Lane:
    """The batcher, the stages and the operators of one GPU; `site` is what they are built for. From any thread.

    It implements `LaneEvents`: it passes what its stages report on to the run, with what it knows of its GPU.
    """

    def __init__(
        self, site: Site, *, lanes: Lanes, events: RunEvents, outlet: Outlet | None, order: BatchOrder | None
    ) -> None:
        self.site = site
        self.is_lost = False
        """Whether its GPU has failed and its streams go on in other lanes."""
        self.batcher = Batcher(size=1, timeout_ns=0, clock=site.clock, on_batch=events.batch_begun, order=order)
        self._lanes = lanes
        self._events = events
        self.assembly = Assembly(self.batcher, events=self, clock=site.clock, outlet=outlet)

    def __str__(self) -> str:
        return str(self.site.device)

    @property
    def gpu_failure(self) -> str | None:
        """Why its GPU cannot be used any more; None while it can."""
        return None if self.site.gpu is None else self.site.gpu.guard.cause

    def fail_over(self, error: BaseException) -> bool:
        """Move the streams to other lanes if the GPU is what failed. Return whether they move."""
        return self._lanes.fail_over(self, error)

    def drop_reason(self) -> DropReason:
        """Why the lane drops what it holds."""
        return DropReason.GPU_LOST if self._lanes.is_losing(self) else DropReason.STOPPED

    def batch_done(self, item: WorkItem, batch: Batch) -> None:
        """Pass it on."""
        self._events.batch_done(item, batch)

    def batch_lost(self, item: WorkItem) -> None:
        """Pass it on with the reason."""
        self._events.batch_lost(item, DropReason.REVERTED if item.is_lost else self.drop_reason())

    def stream_ended(self, stream: Stream) -> None:
        """Pass it on."""
        self._events.stream_ended(stream)

    def stream_paused(self, stream: Stream, *, number: int) -> None:
        """Pass it on."""
        self._events.stream_paused(stream, number=number)

    def failed(self, error: BaseException) -> None:
        """Fail over if the GPU is what failed; else pass it on."""
        if not self.fail_over(error):
            self._events.failed(error)

    def takes(self, error: OperatorError, *, closing: bool = False) -> bool:
        """Pass it on, unless the GPU is what failed."""
        is_gpu = self.gpu_failure is not None or _is_gpu_failure(error)
        return not is_gpu and self._events.takes(error, closing=closing)

    def lane_ended(self) -> None:
        """Let the run know of a lost lane, and of the end of all lanes."""
        self._lanes.lane_ended(self)


def sites_of(device: DeviceInUse, site: Site) -> list[Site]:
    """Return the site of each lane; they differ in their GPU."""
    gpus = device.gpus or (None,)
    return [replace(site, device=one, gpu=gpu) for one, gpu in zip(device.devices, gpus, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class StreamSlot:
    """Where the frames of a stream go: a link into a lane, and what its reader is built for."""

    link: LinkSender[Arrival]
    site: Site
    lane: Lane | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the lane is lost, so that the stream gets another slot or ends."""
        return self.lane is not None and self.lane.is_lost

    def pause(self, stream: Stream, *, number: int) -> None:
        """Let batches no longer wait for the stream, and a mark with this number follow its last frame."""
        if self.lane is not None:
            self.lane.batcher.pause_stream(stream, number=number)

    def resume(self, stream: Stream) -> None:
        """Let batches wait for the stream again."""
        if self.lane is not None:
            self.lane.batcher.resume_stream(stream)

    def fail_over(self, error: BaseException) -> bool:
        """See `Lane.fail_over`, for an error of the reader or of the link."""
        return self.lane is not None and self.lane.fail_over(error)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild did with the elements, by their ids: `kept` unchanged, `changed` with their state kept, `built`
    anew, or `gone`.
    """

    kept: tuple[str, ...]
    changed: tuple[str, ...]
    built: tuple[str, ...]
    gone: tuple[str, ...]


class AtItsEnd(ConfigurationError):
    """The run has ended meanwhile."""

    def __init__(self) -> None:
        super().__init__("the pipeline has come to its end: there is nothing left to change")


class Lanes:
    """All lanes of a run; each stream is in one of them. From any thread.

    They end together, so that the streams of a lost lane find another: with several, none ends before `seal`. An
    `order` of batches is that of the only lane.
    """

    def __init__(
        self,
        sites: Sequence[Site],
        *,
        factory: OperatorFactory,
        events: RunEvents,
        consumer: Link[Item] | None,
        order: BatchOrder | None = None,
    ) -> None:
        self._events = events
        self._factory = factory
        self._post = sites[0].post
        self._lock = Lock()
        self._rebuilding = Lock()
        self._ended: set[Lane] = set()
        self._lasting_batch_size: int | None = None
        outlets = fan_in(None if consumer is None else consumer.sender, count=len(sites))
        self._all = tuple(
            Lane(site, lanes=self, events=events, outlet=outlet, order=order if len(sites) == 1 else None)
            for site, outlet in zip(sites, outlets, strict=True)
        )
        self.elements = ElementTotals(lambda: nodes_of(self._all), on_error=self._failed_on_its_way_out)

    def build(self, steps: tuple[Step, ...]) -> None:
        """Build the operators and plan the stages. Raises SightlineError, with nothing left open."""
        built = self._factory.build(identify(steps), sites=self._sites_to_build(self._all))
        for lane, own in zip(self._all, built, strict=True):
            lane.assembly.install(steps, own)

    def start(self) -> None:
        """Start the stages. Raises what makes that impossible; all is then over when all stages have ended."""
        for lane in self._all:
            lane.assembly.start()

    def discard(self) -> None:
        """Release everything although it was not started."""
        for lane in self._all:
            lane.assembly.discard()

    def abort(self) -> None:
        """End all stages now, and drop what is under way."""
        for lane in self._all:
            lane.assembly.abort()

    def seal(self) -> None:
        """Let each lane end with the last of its streams."""
        for lane in self._all:
            lane.batcher.seal()

    def suspend(self) -> None:
        """Let frames wait in front of the steps."""
        for lane in self._all:
            lane.batcher.suspend()

    def resume(self) -> None:
        """Let frames into the steps again."""
        for lane in self._all:
            lane.batcher.resume()

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Let no lane end for lack of streams while the block is open."""
        with ExitStack() as stack:
            for lane in self._all:
                stack.enter_context(lane.batcher.kept_open())
            yield

    def wait(self) -> list[str]:
        """Wait for the end. Return the operators that run on: after an abort, those that do not return."""
        return [text for lane in self._all for text in lane.assembly.wait()]

    def open_slot(
        self, stream: Stream, *, capacity: int, policy: LinkPolicy, on_drop: Callable[[DropReason], None]
    ) -> StreamSlot:
        """Open a slot for a stream that has none, in the lane with the fewest streams. Dropped frames are counted by
        `on_drop`. Raises LinkClosed when all lanes have ended.
        """
        left = self._usable
        if not left:
            raise LinkClosed
        lane = min(left, key=lambda one: one.batcher.count)

        def drop(arrival: Arrival, reason: DropReason) -> None:
            reason = lane.drop_reason() if reason is DropReason.STOPPED else reason
            if arrival.trace is not None:
                arrival.trace.lose(reason)
            on_drop(reason)

        link = lane.batcher.add(stream, capacity=capacity, policy=policy, on_drop=drop)
        return StreamSlot(link, lane.site, lane)

    def resize_batches(self, batch: BatchOptions, *, streams: int, in_real_time: bool, may_change: bool) -> None:
        """Set the size of batches in each lane: the wanted one, or its share of so many streams; several frames of few
        streams, unless they come `in_real_time`. `may_change` says that streams come and go while the pipeline runs.
        """
        streams_of_a_lane = -(-streams // max(len(self._usable), 1))
        least = 1 if in_real_time else _LEAST_BATCH_OF_FILES
        size = batch.size or min(max(streams_of_a_lane, least), _LARGEST_DEFAULT_BATCH)
        self._lasting_batch_size = batch.size if may_change else size
        for lane in self._all:
            lane.batcher.timeout_ns = batch.timeout
            if size != lane.batcher.size:
                lane.batcher.size = size
                lane.assembly.resize_links()

    def _sites_to_build(self, lanes: Sequence[Lane]) -> list[Site]:
        """Return what operators are built for now, lane by lane."""
        return [replace(lane.site, batch_size=self._lasting_batch_size) for lane in lanes]

    def differs(self, steps: tuple[Step, ...]) -> bool:
        """Whether these steps differ from the present ones, or files that they read have changed."""
        has_all = all(self.has(name, element) for name, element in identify(steps))
        return not (has_all and all(lane.assembly.runs(steps) for lane in self._usable))

    def has(self, element_id: str, element: Element) -> bool:
        """Whether building this element now would give the operators that there are."""
        return all(lane.assembly.has(element_id, element) for lane in self._usable)

    def rebuild(self, steps: tuple[Step, ...], *, prove_ns: int, agree: Callable[[], None] = lambda: None) -> Rebuilt:
        """Continue with other steps. Unchanged elements keep their operators and state, and so do those that differ
        only in options that change live. The others are built first, so that the pause is short. Raises SightlineError,
        and continues as before, when one cannot be built or does not take its options, or the run ends meanwhile.
        `prove_ns` is how long the change is on probation. `agree` is called when all is built and nothing has changed
        yet; what it raises ends the change.
        """
        with self._rebuilding:
            elements, lanes = dict(identify(steps)), self._usable
            kept = [one for one in elements if self.has(one, elements[one])]
            changed = [
                one
                for one in elements
                if one not in kept and all(lane.assembly.can_change(one, elements[one]) for lane in lanes)
            ]
            new = [one for one in elements if one not in kept and one not in changed]
            built = self._factory.build([(one, elements[one]) for one in new], sites=self._sites_to_build(lanes))
            try:
                agree()
                self._change({one: elements[one] for one in changed}, lanes, prove_ns=prove_ns)
            except BaseException:
                self._factory.discard(built)
                raise
            gone: tuple[str, ...] = ()
            if new or not all(lane.assembly.has_layout(steps) for lane in lanes):
                gone = self._exchange(steps, dict(zip(lanes, built, strict=True)), kept=[*kept, *changed])
            else:
                for lane in lanes:
                    lane.assembly.prepare(steps, lane.assembly.built)
            return Rebuilt(tuple(kept), tuple(changed), tuple(new), gone)

    def saved_states(self) -> list[SavedState]:
        """Return the state of the operators that keep some, of all live streams that are read: in each lane as it is
        between the same two batches. It waits until these have passed all steps.
        """
        marks: dict[Lane, StateRequest] = {}
        for lane in self._usable:
            live = frozenset(stream for stream in lane.batcher.links() if stream.live)
            if live:
                marks[lane] = StateRequest(live, at_ns=lane.site.clock.epoch_ns())
                lane.assembly.request(marks[lane])
        passed = [mark for lane, mark in marks.items() if lane.assembly.has_passed(mark)]
        return [saved for mark in passed for saved in mark.saved]

    def _change(self, elements: Mapping[str, Element], lanes: Sequence[Lane], *, prove_ns: int) -> None:
        """Let operators take over options, in every lane between two batches: all of them, or none. Raises
        SightlineError.
        """
        if not elements:
            return
        former = {one: lane.assembly.built[one].node.element for lane in lanes for one in elements}
        nodes = [(one, node) for one, own in nodes_of(lanes).items() if one in elements for node in own]
        try:
            for one, node in nodes:
                node.prepare(elements[one], prove_ns=prove_ns)
            errors = self._pass_change(elements, lanes)
            if errors:
                self._pass_change(former, lanes)
                raise errors[0]
        except BaseException:
            for _, node in nodes:
                node.abandon()
            raise
        for lane in lanes:
            lane.assembly.note_change(elements)

    def _pass_change(self, elements: Mapping[str, Element], lanes: Sequence[Lane]) -> list[SightlineError]:
        """Let a change of options pass all stages; return the errors of operators that did not take them."""
        marks = {lane: OptionsChange(elements) for lane in lanes}
        for lane, mark in marks.items():
            lane.assembly.request(mark)
        passed = [lane.assembly.has_passed(mark) for lane, mark in marks.items()]
        if not any(passed):
            raise AtItsEnd
        return [error for mark in marks.values() for error in mark.errors]

    def _exchange(
        self, steps: tuple[Step, ...], built: Mapping[Lane, BuiltOperators], *, kept: Sequence[str]
    ) -> tuple[str, ...]:
        """Let other stages run these steps, with the operators that are kept and those that were built. Return the ids
        of elements that are gone. Raises ConfigurationError when the run has ended.
        """
        elements = [one for one, _ in identify(steps)]
        switched = self._switch(built, kept=kept)
        if not switched:
            raise AtItsEnd
        old = {one: nodes for one, nodes in nodes_of(switched).items() if one not in kept}
        for lane, own in switched.items():
            lane.assembly.prepare(steps, {one: own.get(one) or lane.assembly.built[one] for one in elements})
        self.elements.retire(old, new={one: nodes for one, nodes in nodes_of(switched).items() if one not in kept})
        for lane in switched:
            lane.assembly.resume()
        return tuple(one for one in old if one not in elements)

    def fail_over(self, lane: Lane, error: BaseException) -> bool:
        """Move the streams of a lane whose GPU has failed to the others. Return whether they move: not while the GPU
        works, nor when there is no other lane.
        """
        cause = lane.gpu_failure
        with self._lock:
            is_new = not lane.is_lost
            others = self._others(lane)
            if cause is None or (is_new and not others):
                return False
            lane.is_lost = True
        if not _is_gpu_failure(error):
            self._post(Message(MessageKind.WARNING, redact(error)))
        if is_new:
            self._post(Message(MessageKind.WARNING, _failover_text(lane, cause, others)))
            lane.batcher.close()
        return True

    def is_losing(self, lane: Lane) -> bool:
        """Whether a lane is lost, or will be because its GPU has failed and there are others."""
        return lane.is_lost or (lane.gpu_failure is not None and bool(self._others(lane)))

    def lane_ended(self, lane: Lane) -> None:
        """Report a lost lane, and the end of the last one."""
        with self._lock:
            self._ended.add(lane)
            is_last = len(self._ended) == len(self._all)
        if lane.is_lost:
            self._events.lane_lost(lane)
        if is_last:
            self._events.lanes_ended()

    @property
    def count(self) -> int:
        """How many lanes there are, lost ones included."""
        return len(self._all)

    @property
    def is_running(self) -> bool:
        """Whether any was started and has not ended."""
        return any(lane.assembly.is_running for lane in self._all)

    @property
    def stage_groups(self) -> list[StageGroup]:
        """The stages that run now, or ran last."""
        return [lane.assembly.group for lane in self._all if lane.assembly.group is not None]

    def inspect(self, inspection: FrameInspection | None) -> None:
        """Let the next frame of a stream be inspected, in the lane that it is in; None for no frame any more."""
        for lane in self._all:
            lane.batcher.inspect(inspection)

    def layout(self) -> RunLayout:
        """Return how the steps run now, or ran last; with several lanes, in each of them."""
        group = next(iter(self.stage_groups), None)
        if group is None:
            return RunLayout()
        stages = [thread.stage for thread in group.threads]
        return RunLayout(stage_views(stages), tuple(step_links(stages, group.links)), self.elements.places())

    def link_views(self, *, now_ns: int) -> tuple[LinkView, ...]:
        """Return the links of all streams that have not ended, and those of the stages that run now or ran last."""
        views = []
        for lane in self._usable:
            for stream, source in lane.batcher.links().items():
                arrival = source.oldest()
                age_ns = 0 if arrival is None else max(0, now_ns - arrival.at_ns)
                views.append(_link_view(SOURCE_LINK, source, age_ns=age_ns, stream=stream))
        for lane in self._all:
            for name, link in (lane.assembly.group.links if lane.assembly.group else {}).items():
                inlet, item = link.receiver, link.receiver.oldest()
                age_ns = max(0, now_ns - min(item.arrivals_ns)) if isinstance(item, WorkItem) else 0
                views.append(_link_view(self._name(lane, name), inlet, age_ns=age_ns))
        return tuple(views)

    @property
    def link_stats(self) -> Mapping[str, LinkStats]:
        """The stats of all links between stages, by name; with several lanes the lane's name is in front."""
        return {self._name(lane, name): one for lane in self._all for name, one in lane.assembly.link_stats.items()}

    @property
    def cpu_ns(self) -> int:
        """The CPU time of the threads that have ended."""
        return sum(lane.assembly.cpu_ns for lane in self._all)

    def _failed_on_its_way_out(self, error: OperatorError) -> None:
        if not self._events.takes(error, closing=True):
            self._events.failed(error)

    @property
    def _usable(self) -> list[Lane]:
        return [lane for lane in self._all if not lane.is_lost]

    def _switch(self, built: Mapping[Lane, BuiltOperators], *, kept: Sequence[str]) -> dict[Lane, BuiltOperators]:
        """Let all lanes hand over what is kept; return what was built for those that have not ended instead."""
        for lane in built:
            lane.assembly.request_handover(kept)
        switched = {lane: own for lane, own in built.items() if lane.assembly.has_handed_over()}
        self._factory.discard([own for lane, own in built.items() if lane not in switched])
        return switched

    def _name(self, lane: Lane, link: str) -> str:
        return link if len(self._all) == 1 else f"{lane}/{link}"

    def _others(self, lane: Lane) -> list[Lane]:
        """The lanes that streams of this one can move to."""
        return [one for one in self._usable if one is not lane and one.gpu_failure is None and not one.assembly.is_over]


def nodes_of(lanes: Iterable[Lane]) -> dict[str, list[Node]]:
    """Return the nodes of these lanes by the ids of their elements, each once."""
    found: dict[str, list[Node]] = {}
    for lane in lanes:
        for element_id, built in list(lane.assembly.built.items()):
            nodes = found.setdefault(element_id, [])
            if built.node not in nodes:
                nodes.append(built.node)
    return found


def _link_view(name: str, link: LinkReceiver[Any], *, age_ns: int, stream: Stream | None = None) -> LinkView:
    return LinkView(name, stream, str(link.policy), link.depth, link.capacity, age_ns, link.stats)


def _failover_text(lane: Lane, cause: str, others: Sequence[Lane]) -> str:
    count, left = lane.batcher.count, ", ".join(map(str, others))
    streams = "its stream goes" if count == 1 else f"its {count} streams go"
    return (
        f"{lane} cannot be used any more: {cause}; {streams} on on {left}, without the frames that were under way "
        f"and without what steps on {lane} knew"
    )


def _is_gpu_failure(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, CudaFailed):
        error = error.__cause__
    return error is not None
