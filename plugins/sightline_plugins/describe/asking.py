"""Asking, in a thread of its own: which question goes next, when it may, and what is counted of it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from sightline.errors import OutputError, SightlineError
from sightline.graph import Site
from sightline.media.events import Scalar
from sightline.redaction import redact
from sightline.runtime.threads import LoopThread
from sightline_plugins.describe.answers import AnswerInvalid, AnswerReader, verdict_of
from sightline_plugins.describe.database import DayLimits, Ended, RequestFile
from sightline_plugins.describe.describe import Describe
from sightline_plugins.describe.questions import Question, QuestionQueue
from sightline_plugins.sinks.files import Degradation

if TYPE_CHECKING:
    from sightline_plugins.describe.chat import ChatClient, Reply

_MINUTE_NS = 60_000_000_000
_FIRST_PAUSE_NS = 1_000_000_000
_LONGEST_PAUSE_NS = 60_000_000_000
_LONGEST_ASKED_PAUSE_NS = 3_600_000_000_000
_LOOK_AGAIN_SECONDS = 1.0
"""After how long it looks for what has expired while it may not send."""
_STEP_SECONDS = 0.05
_STOP_SECONDS = 30.0
_MOST_WARNINGS = 20


class AskingFailed(SightlineError):
    """The thread that asks has ended because of an error of ours."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A question and the fields of its answer, or None when there is no answer; `state` says how it ended."""

    question: Question
    state: str
    fields: Mapping[str, Scalar] | None
    is_confirmed: bool | None = None
    """What the answer says of an alarm."""


class Asker:
    """Sends questions one after another, within the budgets, and hands over how each ended.

    `ended` is called once for each question, from the thread of this, or from that of `put` and `close`. Each question
    ends in one state: `answered`, `invalid` (the answer is not what was asked for), `refused` (by the server), `failed`
    (no answer, also after retries), `dropped` (the queue was full), `expired` (also one that could not be sent before),
    `over_budget` (of the day), `unanswered` (the run ended before). An error of ours ends the asking: all questions
    are `failed`, and `check` raises it.
    """

    def __init__(
        self, element: Describe, site: Site, *, client: Callable[[], ChatClient], ended: Callable[[Answered], None]
    ) -> None:
        """Open the file. Raises OutputError for one that is no file of requests, or cannot be written."""
        self._element = element
        self._site = site
        self._clock = site.clock
        self._make_client = client
        self._ended = ended
        self._queue = QuestionQueue(element.queue)
        self._reader = AnswerReader(element.answer_schema, limit=element.answer_limit)
        self._texts = AnswerReader(None, limit=element.answer_limit)
        self._limits = DayLimits(element.per_day, element.money_per_day)
        path = site.outputs.path(element.path)
        site.outputs.prepare(path)
        self._file = RequestFile(path, pipeline=site.pipeline, step=site.element_id, keep=element.keep)
        site.outputs.mark(path)
        self._degradation = Degradation(site)
        self._file_lock = Lock()
        self._counts: Counter[str] = Counter()
        self._sent_ns: deque[int] = deque()
        self._pause_until_ns = 0
        self._pause_ns = _FIRST_PAUSE_NS
        self._warned: set[str] = set()
        self._thread: LoopThread | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_busy = False
        self._is_closed = False
        self._failure: BaseException | None = None

    def put(self, question: Question) -> None:
        """Let a question wait for its turn. Never waits itself."""
        gone = self._queue.put(question)
        if gone is not None:
            self._end(gone, "dropped")
        if self._failure is not None:  # looked at after the queue was filled, and set before it is emptied
            self._fail_waiting()
        elif self._thread is None:
            self._thread = LoopThread("describe")
            self._thread.start()
            self._thread.post(self._begin)
        else:
            self._thread.post(self._wake.set)

    def finish(self, at_most_ns: int) -> None:
        """Wait until all questions have ended, at most so long, and as long as the site allows. Raises
        AskingFailed.
        """
        if self._thread is None:
            return
        deadline_ns = self._clock.monotonic_ns() + at_most_ns

        async def settled() -> None:
            while self._is_busy or len(self._queue):
                if self._clock.monotonic_ns() >= self._site.wait_limit.limited(deadline_ns):
                    break
                await asyncio.sleep(_STEP_SECONDS)

        self._thread.call(settled(), timeout_seconds=at_most_ns / 1e9 + _STOP_SECONDS)
        self.check()

    def check(self) -> None:
        """Raise AskingFailed if the thread has ended because of an error of ours."""
        if self._failure is not None:
            error = self._failure
            raise AskingFailed(f"it cannot ask any more: {redact(f'{type(error).__name__}: {error}')}") from error

    def close(self) -> None:
        """Stop asking: a request that is under way is given up. Harmless when called again."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._thread is not None:
            self._thread.stop()
        for question in self._queue.take_all():
            self._end(question, "unanswered")
        self._file.close()

    def totals(self) -> Mapping[str, int]:
        """Return what was counted of all streams: `requests`, and how they ended."""
        return dict(self._counts)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        """Serve until the thread ends; an error is kept for the thread of the pipeline, which raises it."""
        try:
            await self._serve()
        except Exception as error:  # noqa: BLE001  the outermost frame: `check` raises it
            self._failure = error
            self._fail_waiting()

    def _fail_waiting(self) -> None:
        for question in self._queue.take_all():
            self._end(question, "failed")

    async def _serve(self) -> None:
        from sightline_plugins.describe.chat import estimated_tokens

        client = self._make_client()
        try:
            while True:
                now_ns = self._clock.monotonic_ns()
                wait_ns = self._wait_ns(now_ns)
                for gone in self._queue.take_expired(now_ns + wait_ns):
                    self._end(gone, "expired")
                self._is_busy = True
                question = None if wait_ns else self._queue.take()
                if question is None:
                    self._is_busy = False
                    await self._rest(wait_ns)
                    continue
                try:
                    await self._ask(client, question, estimated_tokens(question, self._element))
                except asyncio.CancelledError:
                    self._end(question, "unanswered")
                    raise
                except Exception:
                    self._end(question, "failed")
                    raise
                finally:
                    self._is_busy = False
        finally:
            await client.close()

    async def _rest(self, wait_ns: int) -> None:
        """Wait until something may be sent, or for a question."""
        if wait_ns:
            await asyncio.sleep(min(wait_ns / 1e9, _LOOK_AGAIN_SECONDS))
        elif not len(self._queue):
            await self._wake.wait()
            self._wake.clear()

    def _wait_ns(self, now_ns: int) -> int:
        """Return how long nothing may be sent: after a failure, or because the minute is used up."""
        while self._sent_ns and now_ns - self._sent_ns[0] >= _MINUTE_NS:
            self._sent_ns.popleft()
        is_full = len(self._sent_ns) >= self._element.per_minute
        minute_ns = self._sent_ns[0] + _MINUTE_NS - now_ns if is_full else 0
        return max(self._pause_until_ns - now_ns, minute_ns, 0)

    async def _ask(self, client: ChatClient, question: Question, guess: tuple[int, int]) -> None:
        from sightline_plugins.describe.chat import cost_of

        guessed_cost = cost_of(guess, self._element)
        try:
            number = self._enter(question, guessed_cost)
        except sqlite3.Error as error:
            self._cannot_write(error, question)
            self._end(question, "failed")
            return
        if number is None:
            self._warn("the requests of the day are used up: questions are dropped until the next day (UTC)")
            self._end(question, "over_budget")
            return
        self._sent_ns.append(self._clock.monotonic_ns())
        self._counts["requests"] += 1
        question.attempts += 1
        self._counts["requests_unanswered"] += 1
        reply = await client.ask(question)
        self._counts["requests_unanswered"] -= 1
        cost = 0.0 if reply.is_free else guessed_cost if reply.tokens is None else cost_of(reply.tokens, self._element)
        fields, is_confirmed, outcome, reason = self._read(reply, question)
        self._counts[f"requests_{outcome}"] += 1
        try:
            with self._file_lock:
                self._file.end(number, outcome, tokens=reply.tokens, cost=cost)
        except sqlite3.Error as error:
            self._cannot_write(error, question)
        self._pause_after(reply)
        if reason:
            self._warn(f"the server at {self._element.host()}: {reason}")
        if reply.is_again and question.attempts <= self._element.retries:
            self._again(question)
        else:
            self._end(question, outcome, fields, is_confirmed=is_confirmed)

    def _again(self, question: Question) -> None:
        gone = self._queue.put(question)
        if gone is not None:
            self._end(gone, "failed" if gone is question else "dropped")

    def _enter(self, question: Question, cost: float) -> int | None:
        with self._file_lock:
            now_ns = self._clock.epoch_ns()
            return self._file.begin(question.id, now_ns=now_ns, cost=cost, limits=self._limits)

    def _read(self, reply: Reply, question: Question) -> tuple[Mapping[str, Scalar] | None, bool | None, str, str]:
        """Return the fields of an answer, what it says of an alarm, how the request ended, and why there is none."""
        if reply.outcome != "answered":
            return None, None, reply.outcome, reply.reason
        try:
            if question.verify is None:
                return self._reader.read(reply.text), None, "answered", ""
            is_confirmed = verdict_of(reply.text, confirm=question.verify.confirm, refuse=question.verify.refuse)
            return self._texts.read(reply.text), is_confirmed, "answered", ""
        except AnswerInvalid as error:
            return None, None, "invalid", str(error)

    def _pause_after(self, reply: Reply) -> None:
        """Let a server that is busy, or refuses us, rest: as long as it says, or longer each time."""
        if not reply.is_again and not reply.is_closed:
            self._pause_ns = _FIRST_PAUSE_NS
            return
        wait_ns = self._pause_ns if reply.wait_ns is None else min(reply.wait_ns, _LONGEST_ASKED_PAUSE_NS)
        self._pause_until_ns = self._clock.monotonic_ns() + wait_ns
        self._pause_ns = min(self._pause_ns * 2, _LONGEST_PAUSE_NS)

    def _end(
        self,
        question: Question,
        state: str,
        fields: Mapping[str, Scalar] | None = None,
        *,
        is_confirmed: bool | None = None,
    ) -> None:
        """Hand over how a question ended, and keep it; one that was dropped is only counted, by whoever asked."""
        if state != "dropped":
            self._keep(question, state, fields)
        self._ended(Answered(question, state, fields, is_confirmed))

    def _keep(self, question: Question, state: str, fields: Mapping[str, Scalar] | None) -> None:
        ended = Ended(
            id=question.id,
            stream=question.stream,
            about=question.about,
            asked_ns=question.time_ns,
            prompt=question.prompt,
            facts=json.dumps(question.facts, ensure_ascii=False),
            state=state,
            answer=None if fields is None else str(fields["text"]),
            ended_ns=self._clock.epoch_ns(),
        )
        try:
            with self._file_lock:
                self._file.keep_ended(ended)
            if self._degradation.is_degraded:
                self._degradation.succeeded(stream=question.stream)
        except sqlite3.Error as error:
            self._cannot_write(error, question)

    def _cannot_write(self, error: sqlite3.Error, question: Question) -> None:
        reason = f"{self._element.path} cannot be written: {error}; without it, nothing is asked"
        self._degradation.failed(OutputError(reason, reason=str(error)), stream=question.stream)

    def _warn(self, text: str) -> None:
        """Warn of each kind of trouble once."""
        kind = text.partition(":")[0] + text.partition(":")[2][:12]
        if kind not in self._warned and len(self._warned) < _MOST_WARNINGS:
            self._warned.add(kind)
            self._site.warn(text)
