"""Endings: how a run is stopped by whoever started it, whatever made it stop."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sightline.errors import SightlineError
from sightline.runtime.report import Report
from sightline.runtime.runner import Runner

_LOG = logging.getLogger(__name__)


def end(runner: Runner) -> Report:
    """Stop and wait for the end; when that is interrupted (Ctrl-C), drop what is under way."""
    try:
        runner.stop()
        return runner.wait()
    except KeyboardInterrupt as interrupt:
        runner.abort()
        with _noting(interrupt):
            runner.wait()
        raise


def end_because_of(error: BaseException, runner: Runner) -> None:
    """Stop and wait for the end while `error` is on its way; what goes wrong besides is noted on it, or logged when a
    loop was left (GeneratorExit) and nobody can read a note.
    """
    with _noting(error):
        end(runner)


@contextmanager
def _noting(error: BaseException) -> Iterator[None]:
    try:
        yield
    except SightlineError as failure:
        if isinstance(error, GeneratorExit):
            _LOG.error("the pipeline failed after its loop was left: %s", failure)
        elif failure is not error:
            error.add_note(f"the pipeline failed as well: {failure}")
