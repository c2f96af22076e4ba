"""Supervises the pipelines of files and folders, as files come, change and go."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sightline.errors import ConfigurationError
from sightline.graph import Message, MessageKind
from sightline.server.supervisor.lifecycle import SupervisedStatus
from sightline.server.supervisor.supervised import SupervisedPipeline, WorkerOptions

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 64

Action = Literal["start", "stop", "restart"]
_Stamp = tuple[int, int, int, int]


def pipeline_name(file: Path) -> str:
    """The name of a file's pipeline in the server: that of the file, with dashes for what addresses cannot hold.

    >>> pipeline_name(Path("/etc/sightline/main street.yaml"))
    'main-street'
    """
    return _NO_NAME.sub("-", file.stem)[:_LONGEST_NAME]


@dataclass(slots=True)
class _Known:
    """A file that is supervised: its stamp when it was taken up, and its newest one."""

    pipeline: SupervisedPipeline
    task: asyncio.Task[None]
    taken: _Stamp | None
    seen: _Stamp | None
    is_going: bool = field(default=False)


class Supervisor:
    """Runs a pipeline for each file, and for each `*.yaml` in the folders, until it is stopped.

    `run` is awaited in one event loop; the rest may be called from any thread while that runs.
    """

    def __init__(
        self,
        places: Sequence[Path],
        options: WorkerOptions,
        *,
        post: Callable[[str, Message], None],
        say: Callable[[str, str], None],
    ) -> None:
        """`post` and `say` get the name of a pipeline with each message and with each line of its worker's log.

        Raises ConfigurationError when a place is not there, or two files would have the same name.
        """
        self._options, self._post, self._say = options, post, say
        self._folders = [place.absolute() for place in places if place.is_dir()]
        self._files = [place.absolute() for place in places if not place.is_dir()]
        for file in self._files:
            if not file.exists():
                raise ConfigurationError(f"{file} does not exist: give YAML files, or folders of them")
        self._known: dict[Path, _Known] = {}
        self._by_name: dict[str, SupervisedPipeline] = {}
        self._candidates: dict[Path, _Stamp | None] = {}
        self._refused: dict[Path, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        _check_names(self._wanted())

    def pipelines(self) -> tuple[SupervisedStatus, ...]:
        """All pipelines as they are now, by name."""
        return tuple(one.status() for _, one in sorted(self._by_name.copy().items()))

    def find(self, name: str) -> SupervisedPipeline | None:
        """The pipeline of that name."""
        return self._by_name.get(name)

    def request(self, name: str, action: Action) -> Future[SupervisedStatus | None]:
        """Start, stop or restart a pipeline soon; None when there is none of that name (any more)."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._do(name, action), self._loop)

    def stop(self) -> None:
        """Finish all pipelines; `run` returns then."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stopping.set)

    def abort(self) -> None:
        """Kill all pipelines; `run` returns then. In the event loop of `run`."""
        self._stopping.set()
        for known in self._known.values():
            known.task.cancel()

    async def run(self) -> None:
        """Supervise until `stop`. Raises ConfigurationError when another server runs one of the files."""
        self._loop = asyncio.get_running_loop()
        try:
            for file in self._wanted():
                self._take(file, _stamp(file))
            while not self._stopping.is_set():
                try:
                    await asyncio.wait_for(self._stopping.wait(), _LOOK_SECONDS)
                except TimeoutError:
                    self._look()
        finally:
            for one in self._known.values():
                one.pipeline.close()
            await asyncio.gather(*(one.task for one in self._known.values()), return_exceptions=True)

    async def _do(self, name: str, action: Action) -> SupervisedStatus | None:
        pipeline = self._by_name.get(name)
        if pipeline is None:
            return None
        {"start": pipeline.start, "stop": pipeline.stop, "restart": pipeline.restart}[action]()
        return pipeline.status()

    def _wanted(self) -> list[Path]:
        """The files that are to run; each once."""
        files = [file for folder in self._folders for file in sorted(folder.glob("*.yaml")) if _is_pipeline(file)]
        return list(dict.fromkeys([*self._files, *files]))

    def _look(self) -> None:
        """Follow the files."""
        wanted = self._wanted()
        for file, known in list(self._known.items()):
            if known.task.done():
                self._forget(file, known)
            elif file not in wanted and not known.is_going:
                known.is_going = True
                known.pipeline.close()
            elif not known.is_going:
                self._look_at(known, _stamp(file))
        fresh = {file: _stamp(file) for file in wanted if file not in self._known}
        for file, stamp in fresh.items():
            if stamp is not None and self._candidates.get(file) == stamp:  # it is written completely
                self._take_up(file, stamp)
        self._candidates = fresh
        self._refused = {file: why for file, why in self._refused.items() if file in fresh}

    def _look_at(self, known: _Known, stamp: _Stamp | None) -> None:
        if stamp is not None and stamp == known.seen and stamp != known.taken:
            known.taken = stamp
            known.pipeline.note_change()
        known.seen = stamp

    def _take_up(self, file: Path, stamp: _Stamp) -> None:
        """Supervise a file that has come; log why not, once, where that is impossible."""
        try:
            if pipeline_name(file) in self._by_name:
                raise ConfigurationError(
                    f"{file}: there is a pipeline {pipeline_name(file)!r} already: rename the file"
                )
            self._take(file, stamp)
        except ConfigurationError as error:
            if self._refused.get(file) != str(error):
                self._refused[file] = str(error)
                _LOG.error("%s", error)

    def _take(self, file: Path, stamp: _Stamp | None) -> None:
        name = pipeline_name(file)
        pipeline = SupervisedPipeline(name, file, self._options, post=self._post, say=self._say)
        task = asyncio.ensure_future(pipeline.run())
        self._known[file] = _Known(pipeline, task, taken=stamp, seen=stamp)
        self._by_name[name] = pipeline

    def _forget(self, file: Path, known: _Known) -> None:
        del self._known[file], self._by_name[known.pipeline.name]
        if known.is_going:
            self._post(known.pipeline.name, Message(MessageKind.STOPPED, f"{file} is gone"))
        if not known.task.cancelled() and (error := known.task.exception()) is not None:
            _LOG.error("the supervision of %s failed and begins anew", file, exc_info=error)


def _is_pipeline(file: Path) -> bool:
    """Whether a file of a folder is taken for a pipeline: hidden files are not, nor the cards of models."""
    return not file.name.startswith(".") and not file.with_suffix(".onnx").exists()


def _check_names(files: Sequence[Path]) -> None:
    named: dict[str, Path] = {}
    for file in files:
        other = named.setdefault(pipeline_name(file), file)
        if other != file:
            raise ConfigurationError(f"{other} and {file} would have the same name {pipeline_name(file)!r}: rename one")


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = os.stat(path)  # noqa: PTH116  every field of it, in one call
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
