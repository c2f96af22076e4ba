"""An RTSP server that stops in any moment of a client's coming or going keeps nothing open."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress

import pytest

from sightline.server.address import Address
from sightline_plugins.publish.broadcast import Broadcast, Hub, Image
from sightline_plugins.publish.rtsp import RtspServer
from tests.open_files import open_files
from tests.ports import free_port
from tests.unit.publish.images import SETTINGS, Encoder, frames

MOMENTS = 30
SET_UP = ("SETUP", "Transport: RTP/AVP;unicast;client_port=40000-40001")
DIALOG = [("DESCRIBE",), SET_UP, ("PLAY",), ("TEARDOWN",)]


async def say(dialog: Sequence[Sequence[str]], *, port: int) -> asyncio.StreamWriter:
    """Connect and ask one after the other, waiting for all answers but the last; gives back what is to be closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number, (method, *headers) in enumerate(dialog, start=1):
        head = "\r\n".join([f"{method} rtsp://127.0.0.1:{port}/cam RTSP/1.0", "CSeq: 1", *headers])
        writer.write(f"{head}\r\n\r\n".encode())
        if number < len(dialog):
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in answer, answer
    return writer


async def publish(broadcast: Broadcast[Image]) -> None:
    for frame in frames(500):
        broadcast.publish(frame)
        await asyncio.sleep(0.001)


async def leave(dialog: Sequence[Sequence[str]], *, moment: int) -> None:
    """Have a server stop so many steps of the event loop after the last word of a dialog."""
    broadcast, hub, port = Broadcast("cam", Encoder(SETTINGS)), Hub(), free_port()
    hub.add(broadcast)
    server = RtspServer(Address("127.0.0.1", port), path="{stream}", hub=hub, token=None)
    await server.start()
    publishing = asyncio.create_task(publish(broadcast))
    writer = await say(dialog, port=port)
    for _ in range(moment):
        await asyncio.sleep(0)
    publishing.cancel()
    await server.stop()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def left_open(dialog: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """What this process has open after many servers that it had not before them."""
    gc.disable()  # What nobody closed stays open
    asyncio.run(leave(dialog, moment=MOMENTS))  # What is opened once, with the first server
    before = open_files()
    for moment in range(MOMENTS):
        asyncio.run(leave(dialog, moment=moment))
    return sorted(open_files() - before)


@pytest.fixture(scope="module")
def process() -> Iterator[Executor]:
    """A process of its own: what tests before left to end by itself may open and close files here."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.mark.parametrize("words", range(1, len(DIALOG) + 1))
def test_a_server_that_stops_while_clients_come_and_go_closes_all_their_ports(process: Executor, words: int) -> None:
    assert process.submit(left_open, DIALOG[:words]).result() == []
