"""A camera that answers WS-Discovery and ONVIF's device and media services, on the loopback. It stands in for real
ones, and is written from the specifications: no real camera was asked.
"""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import struct
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self

GROUP = ("239.255.255.250", 3702)
_SOAP = '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body>{}</s:Body></s:Envelope>'
_MATCH = """<e:Envelope xmlns:e="http://www.w3.org/2003/05/soap-envelope"
 xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing" xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery">
<e:Header><a:RelatesTo>{number}</a:RelatesTo></e:Header><e:Body><d:ProbeMatches><d:ProbeMatch>
<d:Scopes>onvif://www.onvif.org/name/North%20gate onvif://www.onvif.org/hardware/T1000</d:Scopes>
<d:XAddrs>{services}</d:XAddrs></d:ProbeMatch></d:ProbeMatches></e:Body></e:Envelope>"""


class FakeOnvifCamera:
    """Answers until it is closed; a context manager. `services` is what it says its services are."""

    def __init__(self, uri: str, *, user: str, password: str) -> None:
        self.uri, self.user, self.password = uri, user, password
        self.asked: list[str] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.service = f"http://127.0.0.1:{self._http.server_port}/onvif/device_service"
        self.services = f"http://192.0.2.7/onvif {self.service}"
        self._group = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._group.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._group.bind(GROUP)
        member = struct.pack("4s4s", socket.inet_aton(GROUP[0]), socket.inet_aton("127.0.0.1"))
        self._group.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        self._threads = [Thread(target=self._http.serve_forever), Thread(target=self._answer_probes)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._is_closed = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waking:
            waking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            waking.sendto(b"", GROUP)
        for thread in self._threads:
            thread.join()
        self._group.close()

    _is_closed = False

    def _answer_probes(self) -> None:
        while not self._is_closed:
            question, sender = self._group.recvfrom(65_507)
            number = re.search(rb"<a:MessageID>(.*?)</a:MessageID>", question)
            if number:
                for wrong in (b"", b"<", b"<!DOCTYPE x><x/>", _match("uuid:other", self.service)):
                    self._group.sendto(wrong, sender)
                self._group.sendto(_match(number[1].decode(), self.services), sender)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        camera = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, body = camera._answer(request)
                content = _SOAP.format(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler

    def _answer(self, request: str) -> tuple[int, str]:
        found = re.search(r"<e:Body><\w:(\w+)", request)
        action = found[1] if found else ""
        self.asked.append(action)
        if action == "GetSystemDateAndTime":  # a clock that is years off
            clock = _tag("Time", _numbers(Hour=1, Minute=2, Second=3)) + _tag(
                "Date", _numbers(Year=2020, Month=1, Day=2)
            )
            return 200, _tag("UTCDateTime", clock)
        if not self._is_signed(request):
            return 400, _tag("Fault", _tag("Code", "ter:NotAuthorized") + _tag("Reason", "Sender not Authorized"))
        if action == "GetCapabilities":
            return 200, _tag("Capabilities", _tag("Media", _tag("XAddr", "http://192.0.2.7/onvif/media_service")))
        if action == "GetProfiles":
            size = _tag("Resolution", _numbers(Width=640, Height=360))
            video = _tag("Encoding", "H264") + size + _tag("FrameRateLimit", "25")
            return 200, f'<Profiles token="main"><Name>Main</Name>{_tag("VideoEncoderConfiguration", video)}</Profiles>'
        return 200, _tag("MediaUri", _tag("Uri", self.uri))

    def _is_signed(self, request: str) -> bool:
        names = ("Username", "Password", "Nonce", "Created")
        found = [re.search(rf"<\w:{name}(?: [^>]*)?>(.*?)</", request) for name in names]
        user, digest, nonce, created = (one[1] if one else "" for one in found)
        wanted = hashlib.sha1(base64.b64decode(nonce) + created.encode() + self.password.encode()).digest()
        is_now = created.startswith("2020-01-02T01:")
        return user == self.user and is_now and base64.b64encode(wanted).decode() == digest


def _match(number: str, services: str) -> bytes:
    return _MATCH.format(number=number, services=services).encode()


def _tag(name: str, content: str) -> str:
    return f"<{name}>{content}</{name}>"


def _numbers(**values: int) -> str:
    return "".join(_tag(name, str(value)) for name, value in values.items())
