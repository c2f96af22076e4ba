"""Ports that tests are given."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.ports import free_port

ASK = "from tests.ports import free_port; print(*(free_port() for _ in range(30)))"


def test_no_port_is_given_twice_nor_to_another_process_nor_by_the_system() -> None:
    own = [free_port() for _ in range(30)]
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    others = [int(port) for port in done.stdout.split()]
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()

    assert len({*own, *others}) == 60
    assert max(own + others) < int(first)


def test_a_port_in_use_is_not_given() -> None:
    port = free_port()
    with socket.socket() as used, socket.socket(type=socket.SOCK_DGRAM) as other:
        used.bind(("127.0.0.1", port + 1))
        other.bind(("127.0.0.1", port + 2))

        assert free_port() not in (port + 1, port + 2)
