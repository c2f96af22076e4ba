"""Messages of WS-Discovery and of ONVIF's services: what is sent, and what is read of the answers.

WS-Discovery (April 2005) and the ONVIF Core and Media Service Specifications. Answers come from anybody: they are
bounded in size, and a document type, with which XML can be made to grow, is refused.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote
from uuid import uuid4
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

MOST_BYTES = 256 << 10
MEDIA = "http://www.onvif.org/ver10/media/wsdl"
DEVICE = "http://www.onvif.org/ver10/device/wsdl"
_SCHEMA = "http://www.onvif.org/ver10/schema"
_ENVELOPE = "http://www.w3.org/2003/05/soap-envelope"
_SECURITY = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"
_UTILITY = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd"
_DIGEST = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#PasswordDigest"
_SCOPE = "onvif://www.onvif.org/"


class WrongAnswer(Exception):
    """What came is no answer that is understood."""


def probe() -> tuple[str, bytes]:
    """Return a question for all cameras of a network, and its number, which answers name."""
    number = f"uuid:{uuid4()}"
    text = f"""<?xml version="1.0" encoding="utf-8"?>
<e:Envelope xmlns:e="{_ENVELOPE}" xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing"
 xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery" xmlns:n="http://www.onvif.org/ver10/network/wsdl">
<e:Header><a:MessageID>{number}</a:MessageID><a:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</a:To>
<a:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe</a:Action></e:Header>
<e:Body><d:Probe><d:Types>n:NetworkVideoTransmitter</d:Types></d:Probe></e:Body></e:Envelope>"""
    return number, text.encode()


def probe_match(answer: bytes, *, number: str) -> tuple[list[str], dict[str, str]]:
    """Return the addresses of services in an answer to a probe, and its scopes (`name`, `hardware`, `location`).

    Raises WrongAnswer for anything else.
    """
    root = parse(answer)
    if _first(root, "RelatesTo") != number:
        raise WrongAnswer("it answers another question")
    scopes: dict[str, str] = {}
    for scope in _first(root, "Scopes").split():
        kind, _, value = scope.removeprefix(_SCOPE).partition("/")
        if scope.startswith(_SCOPE) and value:
            scopes.setdefault(kind, unquote(value).replace("_", " ")[:80])
    return _first(root, "XAddrs").split()[:8], scopes


def envelope(body: str, *, user: str, password: str, ahead: timedelta) -> bytes:
    """Return a request with that body, signed when there is a user; `ahead` is how far the camera's clock is."""
    header = f"<e:Header>{_signature(user, password, ahead)}</e:Header>" if user else ""
    text = f'<?xml version="1.0" encoding="utf-8"?><e:Envelope xmlns:e="{_ENVELOPE}">{header}<e:Body>{body}</e:Body>'
    return f"{text}</e:Envelope>".encode()


def _signature(user: str, password: str, ahead: timedelta) -> str:
    nonce, created = os.urandom(16), (datetime.now(UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = hashlib.sha1(nonce + created.encode() + password.encode()).digest()  # noqa: S324  the standard says so
    return (
        f'<s:Security xmlns:s="{_SECURITY}" xmlns:u="{_UTILITY}"><s:UsernameToken>'
        f"<s:Username>{escape(user)}</s:Username>"
        f'<s:Password Type="{_DIGEST}">{base64.b64encode(digest).decode()}</s:Password>'
        f"<s:Nonce>{base64.b64encode(nonce).decode()}</s:Nonce><u:Created>{created}</u:Created>"
        "</s:UsernameToken></s:Security>"
    )


def clock_of(answer: bytes) -> datetime | None:
    """Return the time of day in an answer of GetSystemDateAndTime; None when it has none."""
    time = next(iter(_all(parse(answer), "UTCDateTime")), None)
    if time is None:
        return None
    try:
        year, month, day = (int(_first(time, name)) for name in ("Year", "Month", "Day"))
        hour, minute, second = (int(_first(time, name)) for name in ("Hour", "Minute", "Second"))
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def media_service(answer: bytes) -> str:
    """Return the address of the media service in an answer of GetCapabilities; empty when it has none."""
    media = next(iter(_all(parse(answer), "Media")), None)
    return "" if media is None else _first(media, "XAddr")


def profiles(answer: bytes) -> Iterator[dict[str, str]]:
    """Yield the profiles in an answer of GetProfiles: `token`, `name`, and `codec`, `width`, `height`, `fps`."""
    for profile in _all(parse(answer), "Profiles"):
        video = next(iter(_all(profile, "VideoEncoderConfiguration")), None)
        found = {"token": profile.get("token", ""), "name": _first(profile, "Name")}
        if video is not None:
            names = {"codec": "Encoding", "width": "Width", "height": "Height", "fps": "FrameRateLimit"}
            found |= {key: _first(video, name) for key, name in names.items()}
        if found["token"]:
            yield found


def stream_uri(answer: bytes) -> str:
    """Return the address in an answer of GetStreamUri; empty when it has none."""
    return _first(parse(answer), "Uri")


def stream_uri_request(token: str) -> str:
    """Return the body that asks for the address of a profile, by RTSP."""
    setup = f'<s:Stream xmlns:s="{_SCHEMA}">RTP-Unicast</s:Stream>'
    transport = f'<s:Transport xmlns:s="{_SCHEMA}"><s:Protocol>RTSP</s:Protocol></s:Transport>'
    return (
        f'<m:GetStreamUri xmlns:m="{MEDIA}"><m:StreamSetup>{setup}{transport}</m:StreamSetup>'
        f"<m:ProfileToken>{escape(token)}</m:ProfileToken></m:GetStreamUri>"
    )


def fault(answer: bytes) -> str:
    """Return what an answer says is wrong; empty when it is no fault."""
    faults = list(_all(parse(answer), "Fault"))
    return " ".join(" ".join(text for text in faults[0].itertext() if text.strip()).split())[:200] if faults else ""


def parse(answer: bytes) -> ET.Element:
    """Read XML. Raises WrongAnswer."""
    text = answer.replace(b"<!--", b"").replace(b"<![CDATA[", b"")
    if len(answer) > MOST_BYTES or b"<!" in text or b"\0" in text:
        raise WrongAnswer("it is too long, or has a document type")
    try:
        return ET.fromstring(answer)  # noqa: S314  without a document type there are no entities
    except ET.ParseError as error:
        raise WrongAnswer(f"it is no XML: {error}") from None


def _all(element: ET.Element, name: str) -> Iterator[ET.Element]:
    return (one for one in element.iter() if one.tag.rpartition("}")[2] == name)


def _first(element: ET.Element, name: str) -> str:
    return next(((one.text or "").strip() for one in _all(element, name)), "")
