"""What an engine leaves behind in the thread that opened it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OPENED_HERE_CLOSED_THERE = """
import gc, os, signal, sys, threading
from sightline_plugins.engines.opening import open_engine

def close(engines):
    engines.pop().close()
    gc.collect()

for _ in range(3):
    engines = [open_engine(sys.argv[1], engine=sys.argv[2])]
    thread = threading.Thread(target=close, args=(engines,))
    thread.start()
    thread.join()
heard = []
signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
os.kill(os.getpid(), signal.SIGINT)
sys.exit(0 if heard == [signal.SIGINT] else 1)
"""


def test_a_signal_is_heard_after_an_engine_was_closed_in_another_thread(repository: Path) -> None:
    for engine in ("openvino", "onnxruntime"):
        command = [sys.executable, "-c", OPENED_HERE_CLOSED_THERE, str(repository / "models" / "vehicle.onnx"), engine]

        done = subprocess.run(command, capture_output=True, text=True, check=False)

        assert (done.returncode, done.stderr) == (0, "")
