"""The child process: takes jobs from standard input one by one, under limits, and says how each ended.

A job is a line `SEED FILE` or `- FILE`: make the mutant of that seed into the file, or take the file as it is. Answers
are JSON lines on standard output; what the libraries print goes to standard error.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

from tools.fuzz.limits import CPU_SECONDS, ROOM_MIB
from tools.fuzz.targets.names import target_of
from tools.fuzz.targets.target import Target, Trouble

_MIB = 1 << 20
_KIB_OF = 1_024


def main() -> None:
    """Serve one target, `argv[1]`, until standard input ends; `argv[2]` is the folder of shared data, or empty."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    name, shared = sys.argv[1:3]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        target = target_of(name, Path(folder), shared=Path(shared) if shared else None)
        _warm_up(target, Path(folder) / "warm")
        limit = _status_mib("VmSize") + target.extra_mib + ROOM_MIB
        resource.setrlimit(resource.RLIMIT_AS, (int(limit * _MIB),) * 2)
        answers.write(json.dumps({"ready": True}) + "\n")
        for line in sys.stdin:
            seed, _, path = line.rstrip("\n").partition(" ")
            answers.write(json.dumps(_done(target, name, seed, Path(path))) + "\n")


def _warm_up(target: Target, path: Path) -> None:
    """A first mutant, so that what is loaded only once counts for no other."""
    path.mkdir()
    mutant = target.mutant(Random(0))
    file = path / f"first{mutant.suffix}"
    file.write_bytes(mutant.data)
    try:
        target.exercise(file)
    except Exception:  # noqa: BLE001  the same mutant is met again, where it is judged
        return


def _done(target: Target, name: str, seed: str, path: Path) -> dict[str, object]:
    if seed != "-":
        mutant = target.mutant(Random(f"{name}:{seed}"))
        path = path.with_name(path.name + mutant.suffix)
        path.write_bytes(mutant.data)
    Path("/proc/self/clear_refs").write_text("5")
    used_mib, began = _status_mib("VmRSS"), time.monotonic()
    cpu = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu) + CPU_SECONDS + 1, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    outcome, trouble = "", ""
    try:
        outcome = target.exercise(path)
    except Trouble as error:
        trouble = str(error)
    except BaseException:  # noqa: BLE001  whatever comes out of the project is what is looked for
        trouble = traceback.format_exc(limit=-8)
    more_mib = _status_mib("VmHWM") - used_mib
    if not trouble and more_mib > target.extra_mib:
        trouble = f"took {more_mib:.0f} MiB more; the limit is {target.extra_mib} MiB"
    return {
        "path": str(path),
        "outcome": outcome,
        "trouble": trouble,
        "seconds": round(time.monotonic() - began, 3),
        "mib": round(more_mib, 1),
    }


def _status_mib(field: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / _KIB_OF


if __name__ == "__main__":
    main()
