"""The command `sightline` within the process of the tests: one of its own begins with half a second of imports."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from sightline.cli.main import execute


def called(
    *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Call it, without a terminal to ask on. `folder` and `environment` are those of the tests when not given.

    For what it says and writes. Signals, terminals and what it leaves behind are seen in a process of its own only.
    """
    out, errors = io.StringIO(), io.StringIO()
    with (
        chdir(folder or Path.cwd()),
        mock.patch.dict(os.environ, environment or {}, clear=environment is not None),
        mock.patch("sys.stdin", io.StringIO()),
        redirect_stdout(out),
        redirect_stderr(errors),
    ):
        code = execute(arguments)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())
