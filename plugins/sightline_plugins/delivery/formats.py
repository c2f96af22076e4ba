"""How records are encoded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import msgspec
import numpy as np

from sightline_plugins.delivery.kinds import Body, Kind


class Encoder(ABC):
    """Encodes bodies as one format does."""

    content_type: str

    @abstractmethod
    def encode(self, body: Body, kind: Kind, *, epoch: int, seq: int) -> bytes:
        """Encode a body with its place in the order of the stream's records."""


class JsonEncoder(Encoder):
    """Our JSON. The envelope is written in front of the encoded body, which begins with the stream."""

    content_type = "application/json"

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder(enc_hook=_plain).encode
        self._heads: dict[str, bytes] = {}

    def encode(self, body: Body, kind: Kind, *, epoch: int, seq: int) -> bytes:
        """Encode a body as JSON."""
        head = self._heads.get(body.stream)
        if head is None:
            head = self._heads[body.stream] = b'{"stream":%b,' % self._encode(body.stream)
        return b'%b"epoch":%d,"seq":%d,"record":"%b",%b' % (
            head,
            epoch,
            seq,
            kind.encode(),
            self._encode(body)[len(head) :],
        )


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"an event holds {value!r}: only text, numbers, true and false can be written")
