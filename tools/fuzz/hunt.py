"""The parent's side: mutants are given to a child, and the one that it dies of is named, tried again alone and kept."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tools.fuzz.limits import START_SECONDS, WALL_SECONDS

_ROOT = Path(__file__).resolve().parents[2]
_MUTANTS_A_CHILD = 400
_LOG_TAIL = 1_500


@dataclass(frozen=True, slots=True)
class Finding:
    """A mutant that the project did not take as it should, and where it is kept."""

    target: str
    seed: str
    path: Path
    what: str

    def text(self) -> str:
        """For people."""
        return f"{self.target} {self.seed}: {self.path}\n{self.what.strip()}"


@dataclass(slots=True)
class Tally:
    """What came of the mutants of one target. `slowest_seconds` and `most_mib` are those of a single mutant."""

    target: str
    seed: int
    mutants: int = 0
    seconds: float = 0.0
    slowest_seconds: float = 0.0
    most_mib: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def text(self) -> str:
        """One line for people."""
        ends = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))
        return (
            f"{self.target}: {self.mutants} mutants from seed {self.seed} in {self.seconds:.0f} s: {ends}; "
            f"slowest {self.slowest_seconds:.1f} s, most {self.most_mib:.0f} MiB; {len(self.findings)} findings"
        )


class _Died(Exception):
    """The child is gone, or was ended because a mutant took too long; the message says how."""


class Child:
    """One child process with one target. Used by one thread."""

    def __init__(self, target: str, *, shared: Path | None, log: Path, wall_seconds: float = WALL_SECONDS) -> None:
        self._wall_seconds = wall_seconds
        self._log: IO[bytes] = log.open("wb")
        self._log_path = log
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.fuzz.child", target, str(shared or "")],
            cwd=_ROOT,
            env={**os.environ, "TMPDIR": str(log.parent)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._pending = b""
        self._answer(START_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def do(self, seed: str, path: Path) -> dict[str, Any]:
        """One job; see `tools.fuzz.child`. Raises _Died."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seed} {path}\n".encode())
        self._process.stdin.flush()
        return self._answer(self._wall_seconds)

    def _answer(self, limit_seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        until = time.monotonic() + limit_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._pending:
                if not selector.select(max(until - time.monotonic(), 0)):
                    raise _Died(f"no answer within {limit_seconds:g} s{self._tail()}")
                piece = self._process.stdout.read1(65_536)  # type: ignore[attr-defined]
                if not piece:
                    raise _Died(f"the process ended: {_how(self._process.wait())}{self._tail()}")
                self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _tail(self) -> str:
        content = self._log_path.read_bytes()[-_LOG_TAIL:].decode(errors="replace").strip()
        return f"\n{content}" if content else ""


def hunt(
    target: str, *, seed: int, work: Path, kept: Path, shared: Path | None, seconds: float, mutants: int | None = None
) -> Tally:
    """Try mutants of seeds from `seed` on, for so many seconds or mutants, whichever is over first; the time in which
    the first child starts does not count.

    `work` is for files that go, `kept` for those that the project failed on.
    """
    tally, number = Tally(target, seed), seed
    began = time.monotonic()

    def goes_on() -> bool:
        return time.monotonic() - began < seconds and (mutants is None or tally.mutants < mutants)

    while goes_on():
        with Child(target, shared=shared, log=work / f"{target}.log") as child:
            if not tally.mutants:
                began = time.monotonic()
            for _ in range(_MUTANTS_A_CHILD):
                if not goes_on():
                    break
                tally.mutants += 1
                number += 1
                if not _try(child, tally, seed=str(number - 1), work=work, kept=kept, shared=shared):
                    break
    tally.seconds = time.monotonic() - began
    return tally


def replay(target: str, path: Path, *, work: Path, shared: Path | None, wall_seconds: float = WALL_SECONDS) -> str:
    """Try a file that was kept, in a child of its own; returns what is wrong, empty when nothing is."""
    try:
        with Child(target, shared=shared, log=work / f"{target}-replay.log", wall_seconds=wall_seconds) as child:
            return str(child.do("-", path)["trouble"])
    except _Died as death:
        return str(death)


def _try(child: Child, tally: Tally, *, seed: str, work: Path, kept: Path, shared: Path | None) -> bool:
    """One mutant; False when the child is of no more use."""
    stem = work / f"{tally.target}-{seed}"
    try:
        answer = child.do(seed, stem)
    except _Died as death:
        path = next(iter(work.glob(f"{stem.name}.*")), None)
        if path is None:
            raise RuntimeError(f"the mutant {tally.target} {seed} could not be made: {death}") from death
        # A machine that is busy may be the reason, and so may what an earlier mutant did: only what fails alone counts.
        alone = replay(tally.target, path, work=work, shared=shared)
        if alone:
            _keep(tally, seed, path, kept=kept, what=alone)
        tally.outcomes["failed" if alone else "only in company"] += 1
        return False
    path = Path(answer["path"])
    tally.slowest_seconds = max(tally.slowest_seconds, answer["seconds"])
    tally.most_mib = max(tally.most_mib, answer["mib"])
    tally.outcomes[answer["outcome"] or "failed"] += 1
    if answer["trouble"]:
        _keep(tally, seed, path, kept=kept, what=answer["trouble"])
    else:
        path.unlink()
    return True


def _keep(tally: Tally, seed: str, path: Path, *, kept: Path, what: str) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    to = path.replace(kept / path.name)
    to.with_name(to.name + ".txt").write_text(what + "\n")
    tally.findings.append(Finding(tally.target, seed, to, what))


def _how(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
