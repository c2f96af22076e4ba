"""Find ONVIF cameras, and ask them for the addresses of their streams.

WS-Discovery asks by multicast on chosen interfaces; the media service is asked by SOAP over HTTP, with the user's token
(WS-Security, digest) and by HTTP digest where a camera wants that. Redirects and proxies are not used, and only
addresses in the given networks are connected to: a camera may say that its services are anywhere.
"""

from __future__ import annotations

import fcntl
import re
import selectors
import socket
import struct
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from urllib.parse import urlsplit

from sightline.errors import StreamLost, StreamRefused, StreamUnreadable
from sightline.graph.discovery import FoundCamera, FoundStream
from sightline.graph.networks import Networks, resolve
from sightline_plugins.onvif import messages
from sightline_plugins.onvif.messages import DEVICE, MEDIA, MOST_BYTES, WrongAnswer

GROUP = ("239.255.255.250", 3702)
_MOST_CAMERAS = 64
_MOST_PROFILES = 8
_MOST_DATAGRAM = 65_507
_ASK_AGAIN_SECONDS = 0.5
_ANSWER_SECONDS = 6.0
_SIOCGIFADDR = 0x8915
_HTTP = re.compile(r"(?i)http://[\x21-\x7e]+")


class OnvifDiscovery:
    """A `CameraDiscovery`."""

    def interfaces(self) -> dict[str, str]:
        """The IPv4 addresses of this machine by their interfaces."""
        found = {}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            for _, name in socket.if_nameindex():
                with suppress(OSError):  # it has none
                    answer = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                    found[name] = socket.inet_ntoa(answer[20:24])
        return found

    def discover(self, addresses: Sequence[str], *, networks: Networks, seconds: float) -> list[FoundCamera]:
        """Ask by multicast, twice, from each address."""
        number, question = messages.probe()
        found: dict[str, FoundCamera] = {}
        with ExitStack() as opened, selectors.DefaultSelector() as selector:
            for address in addresses:
                selector.register(opened.enter_context(_asking_from(address)), selectors.EVENT_READ)
            end, again = time.monotonic() + seconds, time.monotonic()
            while (left := end - time.monotonic()) > 0 and len(found) < _MOST_CAMERAS:
                if time.monotonic() >= again:
                    again = time.monotonic() + (_ASK_AGAIN_SECONDS if again < end - seconds + 0.1 else seconds)
                    for key in selector.get_map().values():
                        with suppress(OSError):  # an interface without multicast
                            key.fileobj.sendto(question, GROUP)  # type: ignore[union-attr]
                for key, _ in selector.select(min(left, _ASK_AGAIN_SECONDS)):
                    with suppress(OSError, WrongAnswer):
                        answer, (sender, _) = key.fileobj.recvfrom(_MOST_DATAGRAM)  # type: ignore[union-attr]
                        camera = _camera(answer, sender, number=number)
                        if camera is not None and not networks.refusal(ip_address(sender)):
                            found.setdefault(camera.service, camera)
        return sorted(found.values(), key=lambda camera: ip_address(camera.address))

    def streams(self, service: str, *, user: str, password: str, networks: Networks) -> list[FoundStream]:
        """Ask the media service for its profiles, and each for its address by RTSP."""
        device = _Service(service, user=user, password=password, networks=networks)
        clock = messages.clock_of(device.ask(f'<d:GetSystemDateAndTime xmlns:d="{DEVICE}"/>', signed=False))
        if clock is not None:
            device.ahead = clock - datetime.now(UTC)
        body = f'<d:GetCapabilities xmlns:d="{DEVICE}"><d:Category>Media</d:Category></d:GetCapabilities>'
        media = device.at(messages.media_service(device.ask(body)))
        found = []
        for profile in list(messages.profiles(media.ask(f'<m:GetProfiles xmlns:m="{MEDIA}"/>')))[:_MOST_PROFILES]:
            uri = messages.stream_uri(media.ask(messages.stream_uri_request(profile["token"])))
            if uri:
                found.append(_stream(profile, uri))
        if not found:
            raise StreamUnreadable("the camera names no stream")
        return found


def _asking_from(address: str) -> socket.socket:
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        asking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        asking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        asking.bind((address, 0))
        asking.setblocking(False)
    except BaseException:
        asking.close()
        raise
    return asking


def _camera(answer: bytes, sender: str, *, number: str) -> FoundCamera | None:
    """Return what has answered; None when none of its services is where the answer came from."""
    services, scopes = messages.probe_match(answer, number=number)
    own = [one for one in services if _HTTP.fullmatch(one) and urlsplit(one).hostname == sender]
    name, hardware = scopes.get("name", ""), scopes.get("hardware", "")
    return FoundCamera(sender, name or hardware or sender, hardware, own[0]) if own else None


def _stream(profile: dict[str, str], uri: str) -> FoundStream:
    numbers = [profile.get(key, "") for key in ("width", "height")]
    size = (int(numbers[0]), int(numbers[1])) if all(one.isdigit() for one in numbers) else None
    fps = profile.get("fps", "")
    rate = float(fps) if fps.replace(".", "", 1).isdigit() else None
    return FoundStream(profile["name"] or profile["token"], uri, profile.get("codec") or None, size, rate)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class _Service:
    """One service of a camera, asked at the address that was checked. Raises StreamError."""

    def __init__(self, url: str, *, user: str, password: str, networks: Networks) -> None:
        self._user, self._password, self._networks = user, password, networks
        self.ahead = timedelta()
        self._url = self._checked(url)
        passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
        passwords.add_password(None, self._url, user, password)
        handlers = (urllib.request.ProxyHandler({}), _NoRedirect, urllib.request.HTTPDigestAuthHandler(passwords))
        self._opener = urllib.request.build_opener(*handlers)

    def at(self, url: str) -> _Service:
        """The service of the same camera at another path; whatever host it names, it is that camera."""
        parts, own = urlsplit(url or self._url), urlsplit(self._url)
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        other = _Service(
            f"http://{own.netloc}{path}", user=self._user, password=self._password, networks=self._networks
        )
        other.ahead = self.ahead
        return other

    def ask(self, body: str, *, signed: bool = True) -> bytes:
        """Send a request, and return the answer."""
        user = self._user if signed else ""
        content = messages.envelope(body, user=user, password=self._password, ahead=self.ahead)
        headers = {"Content-Type": "application/soap+xml; charset=utf-8"}
        request = urllib.request.Request(self._url, content, headers)  # noqa: S310  http only, see `_checked`
        try:
            with self._opener.open(request, timeout=_ANSWER_SECONDS) as answer:
                found: bytes = answer.read(MOST_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error.code, error.read(MOST_BYTES + 1)) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise StreamLost(f"the camera's ONVIF service cannot be reached ({reason})") from None
        try:
            if text := messages.fault(found):
                raise (
                    self._refusal(200, found) if "NotAuthorized" in text else StreamRefused(f"the camera says: {text}")
                )
        except WrongAnswer as error:
            raise StreamUnreadable(f"what answers is no ONVIF service: {error}") from None
        return found

    def _refusal(self, status: int, content: bytes) -> StreamRefused:
        text = ""
        with suppress(WrongAnswer):
            text = messages.fault(content)
        if status in (401, 403) or "NotAuthorized" in text or "not authorized" in text.lower():
            return StreamRefused(
                "the camera does not accept the credentials; check user and password", credentials=True
            )
        return StreamRefused(f"the camera says: {text}" if text else f"the camera answers {status}; check the address")

    def _checked(self, url: str) -> str:
        """Return the address with the number of its host, which is in the networks."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme != "http" or not host:
            raise StreamRefused("the address of an ONVIF service begins with http://")
        try:
            address = resolve(host, parts.port or 80)[0]
        except (OSError, ValueError, IndexError):
            raise StreamLost(f"no address is known for {host}; check the name") from None
        if kind := self._networks.refusal(address):
            raise StreamRefused(f"{host} is {address} ({kind}), which is not in {self._networks}")
        number = f"[{address}]" if address.version == 6 else str(address)
        return f"http://{number}:{parts.port or 80}{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
