"""The operator of `describe`: what is asked, with which images, and the events of answers."""

from __future__ import annotations

import secrets
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from sightline.graph import AlarmCount, Pending, Site
from sightline.graph.fields import matching
from sightline.graph.operator import Operator
from sightline.graph.rule_options import Verify
from sightline.media import Altered, Batch, Event, Frame, Part, Stream, Surface
from sightline.media.events import Scalar
from sightline_plugins.delivery.images import around, cut
from sightline_plugins.describe.asking import Answered, Asker
from sightline_plugins.describe.describe import Describe
from sightline_plugins.describe.facts import Moment, facts_of_event, row_of
from sightline_plugins.describe.questions import Admission, CaptionedImage, Question, severity_of, shrunk
from sightline_plugins.describe.segments import Segment, Segments
from sightline_plugins.describe.tracks import EndedTrack, Tracks
from sightline_plugins.describe.verifying import HeldAlarm, Verifier
from sightline_plugins.rules.names import is_of_rule

KIND = "description"
"""The kind of the events of answers, and the name of their rule."""
_MOST_ANSWERS = 1000
_USUAL = severity_of(None)
_MINUTE_NS = 60_000_000_000


def _prompt_about(verify: Verify) -> str:
    """The question about an alarm, with how the answer has to begin."""
    first = f"Begin the answer with {verify.confirm[0]!r} or {verify.refuse[0]!r}, and say in one sentence why."
    return f"{verify.question}\n{first}"


class Describer(Operator):
    """Asks about what passes, and adds the answers that have come to the frames that pass then."""

    def __init__(self, element: Describe, site: Site) -> None:
        """Raises OutputError for a file that is none of requests."""
        self._element = element
        self._site = site
        self._lock = Lock()
        self._counts: dict[str, Counter[str]] = {}
        self._answers: dict[str, deque[Answered]] = {}
        self._admission = Admission(burst=2 * element.queue, interval_ns=_MINUTE_NS // (2 * element.per_minute))
        self._earlier: dict[Stream, deque[tuple[int, CaptionedImage]]] = {}
        self._tracks = Tracks(element) if element.about == "tracks" else None
        self._segments = Segments(element, self._image) if element.about == "segments" else None
        self._is_remembering = element.frames > 1 and element.about in ("events", "alarms")
        self._verifier = Verifier(site.element_id, clock=site.clock, wait_limit=site.wait_limit)
        self._held: dict[str, HeldAlarm] = {}
        """Alarms that are asked about, by the id of the question."""
        self._may_leave = element.images_leave_to() is None
        self._asker = Asker(element, site, client=self._client, ended=self._ended)

    def process(self, batch: Batch) -> Batch | Pending:
        """Ask about what is in the batch, and add the answers that have come. Raises AskingFailed."""
        self._asker.check()
        events = list(self._arrived(batch)) if self._answers else []
        if self._is_remembering:
            self._remember(batch)
        if self._tracks is not None:
            for track in self._tracks.follow(batch):
                self._ask_of_track(track)
        elif self._segments is not None:
            for segment in self._segments.follow(batch):
                self._ask_of_segment(segment)
        elif self._element.about == "events":
            self._ask_of_events(batch)
        batch = batch.with_events(events)
        if any(batch.columns.alarms):
            batch = self._ask_of_alarms(batch)
        if not self._site.live and self._verifier.is_waiting(batch):
            return _Unverified(self, batch)
        return batch.with_events(self._verifier.release(batch))

    def verified(self, batch: Batch) -> Batch:
        """Wait until the alarms of a batch are decided, and add those that go out. Raises AskingFailed."""
        self._verifier.wait(batch)
        self._asker.check()
        return batch.with_events(self._verifier.release(batch))

    def end_stream(self, stream: Stream) -> None:
        """Ask about its open tracks; answers that come from now on are in the file only."""
        if self._tracks is not None:
            for track in self._tracks.end(stream):
                self._ask_of_track(track)
        if self._segments is not None and (segment := self._segments.end(stream)) is not None:
            self._ask_of_segment(segment)
        self._earlier.pop(stream, None)
        self._verifier.end(stream)

    def drain(self) -> None:
        """Let the questions about files be answered, within the limit."""
        if not self._site.live:
            self._asker.finish(self._element.finish)

    def close(self) -> None:
        """Stop asking, and close the file. Alarms that could not go out before are reported."""
        self._asker.close()
        for stream, count in self._verifier.take_unsent().items():
            which = "1 alarm was" if count == 1 else f"{count} alarms were"
            text = f"{which} not sent: the stream ended before; {self._element.path} has the answers so far"
            self._site.warn(text, stream=stream)

    def alarms(self) -> Sequence[AlarmCount]:
        """How many alarms of each rule ended how."""
        return list(self._verifier.counts())

    def totals(self) -> Mapping[str, Any]:
        """By stream: `asked`, and of these how many ended in each state (`Asker`), or were `unredacted` and not sent;
        `events` of answers, and `verified` alarms by rule. Under the empty name: the requests of all streams, by how
        they ended.
        """
        with self._lock:
            found: dict[str, dict[str, Any]] = {stream: dict(counts) for stream, counts in self._counts.items()}
        for stream, rules in self._verifier.totals().items():
            found.setdefault(stream, {})["verified"] = rules
        return {**found, "": dict(self._asker.totals())} if found else {}

    def _client(self) -> Any:
        from sightline_plugins.describe.chat import ChatClient

        return ChatClient(self._element, clock=self._site.clock)

    def _ask_of_events(self, batch: Batch) -> None:
        rules = self._element.rules
        for event in batch.events:
            if event.part is Part.END or event.kind == KIND:
                continue
            if rules is None or any(is_of_rule(event, name) for name in rules):
                self._ask_of_event(batch, event)

    def _ask_of_alarms(self, batch: Batch) -> Batch:
        """Hold the alarms of a batch back, and ask about them."""
        batch, alarms = self._verifier.hold(batch)
        for held in alarms:
            if not self._ask_of_event(batch, held.event, held):
                self._verifier.decide(held, is_confirmed=None)
        return batch

    def _ask_of_event(self, batch: Batch, event: Event, held: HeldAlarm | None = None) -> bool:
        """Ask about an event, or an alarm that is held back; return False when that may not be."""
        frame = batch.frames[event.frame]
        severity = severity_of(event.data.get("severity"))
        if not self._may_be_asked(Moment.of(frame), severity, is_alarm=held is not None):
            return False
        row = row_of(batch.objects, event)
        about = f"{event.step}.{event.rule}" if event.step else event.rule
        head: dict[str, Scalar] = {"about_kind": event.kind, "about_frame": frame.index}
        for name in ("track_id", "severity"):
            if name in event.data:
                head[name] = event.data[name]
        facts = facts_of_event(frame, event, batch.objects, row)
        images = self._images_of(frame, None if row is None else batch.objects.xyxy[row].tolist())
        prompt = self._prompt_of(event) if held is None else _prompt_about(held.verify)
        self._ask(frame.stream.name, about, severity, facts, head, images, prompt=prompt, held=held)
        return True

    def _ask_of_track(self, track: EndedTrack) -> None:
        if self._may_be_asked(track.last):
            head: dict[str, Scalar] = {"about_frame": track.last.frame, "track_id": track.track_id}
            images = [CaptionedImage("The object, best seen:", track.jpeg(quality=self._element.image_quality))]
            self._ask(track.last.stream, "track", _USUAL, track.facts(), head, images)

    def _ask_of_segment(self, segment: Segment) -> None:
        if segment.images and self._may_be_asked(segment.last):
            head: dict[str, Scalar] = {"about_frame": segment.last.frame}
            self._ask(segment.last.stream, "segment", _USUAL, segment.facts(), head, segment.images)

    def _may_be_asked(self, moment: Moment, severity: int = _USUAL, *, is_alarm: bool = False) -> bool:
        """Count a question, and return whether its images may be made and sent."""
        name = moment.stream
        if not (self._may_leave or moment.altered & Altered.CHANGED):
            self._count(name, "asked", "unredacted")
            return False
        if not self._admission.allows(severity, self._site.clock.monotonic_ns(), is_alarm=is_alarm):
            self._count(name, "asked", "dropped")
            return False
        self._count(name, "asked")
        return True

    def _ask(
        self,
        stream: str,
        about: str,
        severity: int,
        facts: Mapping[str, object],
        head: Mapping[str, Scalar],
        images: Sequence[CaptionedImage],
        *,
        prompt: str | None = None,
        held: HeldAlarm | None = None,
    ) -> None:
        clock = self._site.clock
        now_ns = clock.monotonic_ns()
        question = Question(
            id=secrets.token_hex(8),
            stream=stream,
            about=about,
            severity=severity,
            prompt=self._prompt_of_stream(stream) if prompt is None else prompt,
            facts=facts,
            head=head,
            images=images,
            asked_ns=now_ns,
            time_ns=clock.epoch_ns(),
            expires_ns=now_ns + self._element.expire if held is None else held.deadline_ns,
            verify=None if held is None else held.verify,
        )
        if held is not None:
            with self._lock:
                self._held[question.id] = held
        self._asker.put(question)

    def _prompt_of(self, event: Event) -> str | None:
        for name, prompt in self._element.rule_prompts.items():
            if is_of_rule(event, name):
                return prompt
        return None

    def _prompt_of_stream(self, name: str) -> str:
        for pattern, prompt in self._element.stream_prompts.items():
            if matching([pattern], [name]):
                return prompt
        return self._element.prompt

    def _images_of(self, frame: Frame, xyxy: Sequence[float] | None) -> list[CaptionedImage]:
        """The images of an event: earlier frames, the frame, and the crop of its object."""
        found: list[CaptionedImage] = []
        for pts_ns, image in self._earlier.get(frame.stream, ()):
            if frame.pts_ns - pts_ns > 0:
                ago = (frame.pts_ns - pts_ns) / 1e9
                found.append(replace(image, caption=f"The frame {ago:.1f} s before:"))
        found = found[1 - self._element.frames :] if self._element.frames > 1 else []
        found.append(self._image(frame.surface, "The frame of the event:"))
        crop = None if xyxy is None or not self._element.crop else cut(frame.surface, around(xyxy))
        if crop is not None:
            found.append(self._image(crop, "The object of the event:"))
        return found

    def _remember(self, batch: Batch) -> None:
        """Keep a small copy of a frame of each stream from time to time."""
        for frame in batch.frames:
            kept = self._earlier.setdefault(frame.stream, deque(maxlen=self._element.frames))
            if not kept or not 0 <= frame.pts_ns - kept[-1][0] < self._element.spacing:
                kept.append((frame.pts_ns, self._image(frame.surface, "")))

    def _image(self, surface: Surface, caption: str) -> CaptionedImage:
        element = self._element
        return CaptionedImage(caption, shrunk(surface, largest_side=element.image_size), element.image_quality)

    def _ended(self, one: Answered) -> None:
        """Take how a question ended; called from any thread."""
        with self._lock:
            self._counts.setdefault(one.question.stream, Counter())[one.state] += 1
            held = self._held.pop(one.question.id, None)
            if held is not None:
                answer = "" if one.fields is None else str(one.fields["text"])
                self._verifier.decide(held, is_confirmed=one.is_confirmed, answer=answer)
            elif one.fields is not None:
                self._answers.setdefault(one.question.stream, deque(maxlen=_MOST_ANSWERS)).append(one)

    def _count(self, stream: str, *names: str) -> None:
        with self._lock:
            self._counts.setdefault(stream, Counter()).update(names)

    def _arrived(self, batch: Batch) -> Iterator[Event]:
        """Yield the events of answers that have come about streams of the batch, on the first frame of each."""
        seen: set[str] = set()
        for row, frame in enumerate(batch.frames):
            name = frame.stream.name
            if name in seen:
                continue
            seen.add(name)
            with self._lock:
                arrived: Iterable[Answered] = self._answers.pop(name, ())
                self._counts.setdefault(name, Counter())["events"] += len(tuple(arrived))
            for one in arrived:
                yield Event(KIND, KIND, row, self._data(one), self._site.element_id)

    def _data(self, one: Answered) -> dict[str, Scalar]:
        question = one.question
        seconds = (self._site.clock.monotonic_ns() - question.asked_ns) / 1e9
        head = {"question": question.id, "about": question.about, **question.head, "seconds": round(seconds, 3)}
        return {**head, **(one.fields or {})}


@dataclass(frozen=True, slots=True)
class _Unverified:
    """A batch of files whose alarms are not all decided."""

    describer: Describer
    batch: Batch

    def result(self) -> Batch:
        """Wait for them."""
        return self.describer.verified(self.batch)
