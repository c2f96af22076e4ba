"""Viewers of events, many in one process: they read server-sent events, or arrays from a WebSocket, and count.

    python -m benchmarks.server.viewers PORT --viewers 100 --way sse --token TOKEN

It prints `ready` when all have connected; when its standard input ends it prints what they got, as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import sys
from dataclasses import dataclass, field

EVENTS = "/api/v1/pipelines/pipeline/events"


@dataclass(slots=True)
class Got:
    """What one viewer got."""

    records: int = 0
    lost: int = 0
    deliveries: int = 0
    is_connected: asyncio.Event = field(default_factory=asyncio.Event)


async def view(port: int, got: Got, *, way: str, number: int, token: str) -> None:
    """Connect, and count until cancelled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path, more = EVENTS, "Accept: text/event-stream\r\n"
    if way == "distinct":
        path += f"?rule=gate*&rule=other-{number}"
    if way == "socket":
        key = base64.b64encode(os.urandom(16)).decode()
        path = f"{EVENTS}/socket"
        more = f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n{more}\r\n"
    writer.write(head.encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    status = int(answer.split(b" ", 2)[1])
    if status not in (101, 200):
        raise ConnectionError(f"the server answers {status}: {(await reader.read(500)).decode(errors='replace')}")
    got.is_connected.set()
    try:
        while data := await reader.read(1 << 16):
            got.deliveries += 1
            got.records += data.count(b'"record":"event"')
            if b'"record":"lost"' in data:
                got.lost += sum(int(one.split(b"}")[0]) for one in data.split(b'"record":"lost","count":')[1:])
    finally:
        writer.close()


async def count(port: int, viewers: int, *, way: str, token: str) -> None:
    """Run all viewers until standard input ends."""
    got = [Got() for _ in range(viewers)]
    tasks = [
        asyncio.create_task(view(port, one, way=way, number=number, token=token)) for number, one in enumerate(got)
    ]
    connected = [asyncio.create_task(one.is_connected.wait()) for one in got]
    for task, own in zip(tasks, connected, strict=True):
        await asyncio.wait((task, own), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    print("ready", flush=True)
    before = [one.records for one in got]
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    records = [one.records - earlier for one, earlier in zip(got, before, strict=True)]
    deliveries = sum(one.deliveries for one in got) / len(got)
    lost = sum(one.lost for one in got)
    print(json.dumps({"least": min(records), "most": max(records), "deliveries": deliveries, "lost": lost}))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server.viewers")
    parser.add_argument("port", type=int)
    parser.add_argument("--viewers", type=int, default=100)
    parser.add_argument("--way", choices=("sse", "socket", "distinct"), default="sse")
    parser.add_argument("--token", default="")
    asked = parser.parse_args()
    asyncio.run(count(asked.port, asked.viewers, way=asked.way, token=asked.token))


if __name__ == "__main__":
    main()
