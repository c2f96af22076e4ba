"""A worker that starts in a moment and does as its file says: `FAULT after a moment`, or answers until it is ended.

Started as workers are: NAME and FILE, a socket to listen at, and a pipe that ends with the server.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nready\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name")
    parser.add_argument("--socket", type=int)
    parser.add_argument("--alive", type=int)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    fault = given.file.read_text().strip()
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif fault == "deaf":  # to everything, as one whose interpreter is held
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    elif fault.startswith("exit "):
        os.write(2, f"error: rtsp://user:secret@10.0.0.7/main {'x' * 9000}\n".encode())
        raise SystemExit(int(fault.removeprefix("exit ")))
    listening = socket.socket(fileno=given.socket)
    while True:
        connection, _ = listening.accept()
        with connection, suppress(OSError):  # who asks may have left
            connection.recv(4096)
            connection.sendall(ANSWER)


if __name__ == "__main__":
    main()
