"""Bytes made wrong: flipped, cut, doubled, moved, spliced with others, their numbers made huge."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

MOST_BYTES = 400_000
_BOXES = re.compile(
    rb"ftyp|moov|mvhd|trak|tkhd|mdia|mdhd|hdlr|minf|stbl|stsd|stts|ctts|stsc|stsz|stco|stss|elst|edts|avc1|avcC|hvcC"
    rb"|mvex|trex|moof|mfhd|traf|tfhd|tfdt|trun|mdat|free|udta|meta"
)
_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)

Mutation = Callable[[bytearray, Sequence[bytes], Random], None]


def mutated(data: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """`data` after one to six mutations; `others` are what is spliced in. Empty only when a cut says so."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        if changed:
            random.choice(_MUTATIONS)(changed, others, random)
    return bytes(changed[:MOST_BYTES])


def flip(data: bytearray, others: Sequence[bytes], random: Random) -> None:
    """Other bits in a few bytes, anywhere."""
    del others
    for _ in range(random.choice((1, 4, 32, 256))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def flip_head(data: bytearray, others: Sequence[bytes], random: Random) -> None:
    """Other bytes near the beginning or the end, where headers and indexes are."""
    del others
    reach = min(len(data), 2_048)
    begin = random.choice((0, len(data) - reach))
    for _ in range(random.choice((1, 4, 16))):
        data[begin + random.randrange(reach)] = random.randrange(256)


def cut(data: bytearray, others: Sequence[bytes], random: Random) -> None:
    """The end is missing, or a piece in the middle, or the beginning."""
    del others
    at = random.randrange(len(data))
    length = random.choice((1, 7, 188, 4_096, len(data)))
    if random.random() < 0.8:
        del data[at : at + length]
    else:
        del data[:at]


def double(data: bytearray, others: Sequence[bytes], random: Random) -> None:
    """A piece stands there twice, or in another place too."""
    del others
    at, length = random.randrange(len(data)), random.choice((1, 8, 188, 4_096))
    to = random.choice((at, random.randrange(len(data))))
    data[to:to] = data[at : at + length]


def splice(data: bytearray, others: Sequence[bytes], random: Random) -> None:
    """A piece of another input goes over what stands there, or between."""
    other = random.choice(others)
    if not other:
        return
    at, start = random.randrange(len(data)), random.randrange(len(other))
    piece = other[start : start + random.choice((4, 64, 1_024, 16_384))]
    data[at : at + (len(piece) if random.random() < 0.5 else 0)] = piece


def huge_number(data: bytearray, others: Sequence[bytes], random: Random) -> None:
    """A number of two, four or eight bytes at the edge of what fits, in either order of bytes."""
    del others
    size = random.choice((2, 4, 8))
    number = random.choice(_NUMBERS) & ((1 << 8 * size) - 1)
    at = random.randrange(min(len(data), random.choice((256, 4_096, len(data)))))
    data[at : at + size] = number.to_bytes(size, random.choice(("big", "little")))


def box(data: bytearray, others: Sequence[bytes], random: Random) -> None:
    """A box of MP4 gets another size, another name, other contents, or is taken from another file."""
    places = [place.start() for place in _BOXES.finditer(data) if place.start() >= 4]
    if not places:
        return
    at = random.choice(places)
    size = max(int.from_bytes(data[at - 4 : at], "big"), 8)
    kind = random.randrange(4)
    if kind == 0:
        other = random.choice((0, 1, 7, size - 1, size + 1, 0x7FFF_FFFF, 0xFFFF_FFFF))
        data[at - 4 : at] = (other & 0xFFFF_FFFF).to_bytes(4, "big")
    elif kind == 1:
        data[at : at + 4] = random.choice((b"moov", b"trak", b"stbl", b"mdat", b"free", b"moof", b"\x00\x00\x00\x00"))
    elif kind == 2:
        place = at + 4 + random.randrange(min(size, 64))
        data[place : place + 4] = random.choice(_NUMBERS).to_bytes(4, "big")
    else:
        donor = random.choice(others)
        found = [place.start() for place in _BOXES.finditer(donor) if place.start() >= 4]
        if found:
            start = random.choice(found)
            length = int.from_bytes(donor[start - 4 : start], "big")
            data[at - 4 : at - 4 + size] = donor[start - 4 : start - 4 + min(length, 65_536)]


_MUTATIONS: tuple[Mutation, ...] = (flip, flip_head, cut, double, splice, huge_number, box)
