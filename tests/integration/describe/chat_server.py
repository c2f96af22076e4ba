"""A server that speaks OpenAI's chat format with images, over real sockets, and behaves as a test says."""

from __future__ import annotations

import base64
import gzip
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler"], None]


@dataclass
class Received:
    """One request: its headers, its body, and the images in it."""

    path: str
    headers: Mapping[str, str]
    body: Any

    @property
    def images(self) -> list[bytes]:
        """The JPEGs that were sent."""
        parts = self.body["messages"][-1]["content"]
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        return [base64.b64decode(url.removeprefix("data:image/jpeg;base64,")) for url in urls]

    @property
    def texts(self) -> list[str]:
        """The texts that were sent: the question, the facts, and the captions."""
        return [part["text"] for part in self.body["messages"][-1]["content"] if part["type"] == "text"]

    @property
    def facts(self) -> Any:
        """What the pipeline says that it knows."""
        return json.loads(self.texts[1])


@dataclass
class ChatServer:
    """What a running server has received. `behaviours` are used one for each request, the last one for all others."""

    url: str = ""
    behaviours: list[Behaviour] = field(default_factory=list)
    requests: list[Received] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Handler(BaseHTTPRequestHandler):
    """Takes a request, and lets a behaviour answer it."""

    protocol_version = "HTTP/1.1"
    chat: ChatServer

    def do_POST(self) -> None:
        """Note the request, and answer."""
        data = self.rfile.read(int(self.headers["Content-Length"]))
        with self.chat.lock:
            self.chat.requests.append(Received(self.path, dict(self.headers), json.loads(data)))
            behave = self.chat.behaviours[0]
            if len(self.chat.behaviours) > 1:
                del self.chat.behaviours[0]
        try:
            behave(self)
        except OSError:  # the client has gone, which is what some tests are about
            self.close_connection = True

    def reply(self, data: bytes, *, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        """Send a whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


def completion(text: object, *, tokens: tuple[int, int] = (1000, 20)) -> bytes:
    """A whole answer of the chat format."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    body = {"id": "a", "object": "chat.completion", "created": 0, "model": "m", "usage": usage}
    return json.dumps({**body, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()


def says(text: object, *, tokens: tuple[int, int] = (1000, 20)) -> Behaviour:
    """Answer with this text."""
    return lambda handler: handler.reply(completion(text, tokens=tokens))


def fails(status: int, **headers: str) -> Behaviour:
    """Answer with an error."""
    body = json.dumps({"error": {"message": "\x1b[31mno <script>", "type": "error"}}).encode()
    return lambda handler: handler.reply(body, status=status, **headers)


def stalls(handler: Handler) -> None:
    """Answer nothing until the server ends."""
    handler.chat.is_over.wait(60)
    handler.close_connection = True


def drips(handler: Handler) -> None:
    """Send a byte from time to time, so that no single read takes long."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    while not handler.chat.is_over.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def breaks_off(handler: Handler) -> None:
    """Promise more than comes."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(completion("half")[:40])
    handler.close_connection = True


def is_broken(handler: Handler) -> None:
    """Answer with JSON that is none."""
    handler.reply(b'{"choices": [{"message": {"content": "half')


def is_odd(handler: Handler) -> None:
    """Answer with JSON of another form."""
    handler.reply(b'{"choices": [], "usage": {"prompt_tokens": -5000000, "completion_tokens": "many"}}')


def is_large(handler: Handler) -> None:
    """Answer with 10 MB."""
    handler.reply(completion("long " * 2_000_000))


def is_endless(handler: Handler) -> None:
    """Send parts of an answer, without saying how many, as long as somebody reads."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Connection", "close")
    handler.end_headers()
    while not handler.chat.is_over.is_set():
        handler.wfile.write(b" " * 100_000)


def is_compressed(handler: Handler) -> None:
    """Answer with a hundred kilobytes that become 100 MB."""
    handler.reply(gzip.compress(b" " * 100_000_000), Content_Encoding="gzip")


def streams(*parts: str, is_whole: bool = True) -> Behaviour:
    """Send an answer piece by piece."""

    def behave(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Connection", "close")
        handler.end_headers()
        body = {"id": "a", "object": "chat.completion.chunk", "created": 0, "model": "m"}
        for number, text in enumerate(parts):
            reason = "stop" if is_whole and number == len(parts) - 1 else None
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
            handler.wfile.write(b"data: " + json.dumps({**body, "choices": [choice]}).encode() + b"\n\n")
            handler.wfile.flush()
        if is_whole:
            handler.wfile.write(b"data: [DONE]\n\n")
        handler.close_connection = True

    return behave


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *args: Any) -> None:
        """Print nothing: clients that give up are what some tests are about."""


@contextmanager
def running(*behaviours: Behaviour, host: str = "127.0.0.1") -> Iterator[ChatServer]:
    """A server on a free port of the loopback, or of another address of this machine."""
    chat = ChatServer(behaviours=list(behaviours))
    server = _Server((host, 0), type("Own", (Handler,), {"chat": chat}))
    chat.url = f"http://{host}:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield chat
    finally:
        chat.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()
