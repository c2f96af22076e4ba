"""What a model answers, made harmless: bounded text without control characters, or JSON that keeps a schema."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from sightline.errors import SightlineError
from sightline.media.events import Scalar

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(?P<inner>.*?)\n?```\s*", re.DOTALL | re.IGNORECASE)
_NAME = re.compile(r"\w{1,64}")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Categories of Unicode whose characters are not shown: controls, marks of direction, surrogates, separators."""
_LONGEST_REASON = 200
_LONGEST_START = 500
_MARKS = re.compile(r"\A[\W_]+")
_LARGEST = 2**53
"""Numbers up to this are the same in every program that reads events."""


class AnswerInvalid(SightlineError):
    """An answer is not what was asked for; the message says why, in words of ours and of the schema."""


def clean(text: str, *, limit: int) -> str:
    r"""Return a text on one line, without characters that control a terminal or turn the direction, cut to a limit.

    >>> clean("a \x1b[31mred\n car\u202e", limit=9)
    'a [31mre…'
    """
    spaced = "".join(" " if letter.isspace() else letter for letter in text[: 4 * limit + 64])
    shown = " ".join("".join(one for one in spaced if unicodedata.category(one) not in _HIDDEN).split())
    return shown if len(shown) <= limit and len(text) <= 4 * limit + 64 else f"{shown[: limit - 1]}…"


def verdict_of(text: str, *, confirm: Sequence[str], refuse: Sequence[str]) -> bool:
    """Return True for an answer that begins with a word of `confirm`, and False for one with a word of `refuse`.

    Raises AnswerInvalid for any other. Marks before the word, and upper and lower case, make no difference.

    >>> verdict_of("**Yes**, a man climbs over.", confirm=["yes"], refuse=["no"])
    True
    """
    start = _MARKS.sub("", unicodedata.normalize("NFKC", text[:_LONGEST_START]).casefold())
    for words, verdict in ((confirm, True), (refuse, False)):
        for word in words:
            if re.match(re.escape(unicodedata.normalize("NFKC", word).casefold()) + r"(?!\w)", start):
                return verdict
    raise AnswerInvalid(f"the answer begins neither with {confirm[0]!r} nor with {refuse[0]!r}")


class AnswerReader:
    """Reads answers: as text, or as JSON by a schema. References in the schema lead nowhere outside of it."""

    def __init__(self, schema: Mapping[str, Any] | None, *, limit: int) -> None:
        self._limit = limit
        self._validator: Any = None
        self._names: tuple[str, ...] = ()
        if schema is not None:
            from jsonschema import Draft202012Validator
            from referencing import Registry

            plain = json.loads(json.dumps(schema))
            self._validator = Draft202012Validator(plain, registry=Registry())
            properties = plain.get("properties", {})
            self._names = tuple(name for name in properties if _NAME.fullmatch(name))

    def read(self, text: str) -> dict[str, Scalar]:
        """Return what the event of an answer holds: `text`, and the fields of JSON. Raises AnswerInvalid."""
        if self._validator is None:
            shown = clean(text, limit=self._limit)
            if not shown:
                raise AnswerInvalid("the answer is empty")
            return {"text": shown}
        value = self._parsed(text)
        written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        fields: dict[str, Scalar] = {"text": clean(written, limit=self._limit)}
        for name in self._names:
            one = value.get(name)
            if isinstance(one, str):
                fields[f"answer_{name}"] = clean(one, limit=self._limit)
            elif isinstance(one, bool | int | float):
                fields[f"answer_{name}"] = one
        return fields

    def _parsed(self, text: str) -> dict[str, Any]:
        """Return the JSON of an answer, which may stand in a fence of Markdown."""
        if len(text) > self._limit:
            raise AnswerInvalid(f"the answer has {len(text)} characters, and may have {self._limit}")
        fenced = _FENCED.fullmatch(text)
        try:
            value = json.loads(
                fenced["inner"] if fenced else text, parse_constant=_refuse, parse_int=_int, parse_float=_float
            )
            error = next(iter(self._validator.iter_errors(value)), None)
        except (ValueError, RecursionError) as failure:
            raise AnswerInvalid("the answer is no JSON") from failure
        if error is not None:
            path = "/".join(str(part) for part in error.absolute_path)
            where = clean(path, limit=_LONGEST_REASON) or "the answer"
            raise AnswerInvalid(f"{where} does not keep {error.validator!r} of the schema")
        if not isinstance(value, dict):
            raise AnswerInvalid("the answer is no object")
        return value


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _int(text: str) -> int:
    if abs(value := int(text)) > _LARGEST:
        raise ValueError("a number is too large")
    return value


def _float(text: str) -> float:
    if abs(value := float(text)) > _LARGEST:  # infinite ones among them
        raise ValueError("a number is too large")
    return value
