"""Expressions over events, such as `zones.gate.enter and not absence.guard`: from text to a tree. Nothing is executed.

    condition  = conjunction {"or" conjunction}
    conjunction = negation {"and" negation}
    negation   = "not" negation | value
    value      = part ["then" part {"then" part}] ["within" DURATION] | "count" "(" EVENT ")" COMPARISON NUMBER
                 ["within" DURATION]
    part       = EVENT | "(" condition ")"

EVENT is `step.rule` or `step.rule.detail`, in quotes where it holds a space or a bracket.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sightline.media.time import parse_duration_ns

LONGEST = 1_000
"""Characters of an expression, at most."""
DEEPEST = 20
"""Brackets within brackets, at most."""
COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}
MOST_COUNTED = 10_000
_KEYWORDS = ("and", "or", "not", "then", "within", "count")
_TOKEN = re.compile(r"""\s*(?:(?P<quoted>"[^"]*"|'[^']*')|(?P<sign>>=|<=|==|[()<>])|(?P<word>[^\s()<>="']+))""")
_EVENT = re.compile(r"[A-Za-z0-9_-]+\.\S.*")


@dataclass(frozen=True, slots=True)
class EventIs:
    """Something that lasts goes on, or a moment was no longer than `within_ns` ago (None: as the rule says)."""

    name: str
    within_ns: int | None = None


@dataclass(frozen=True, slots=True)
class CountOf:
    """Events of a name in the last `within_ns`, compared with a number."""

    name: str
    comparison: str
    number: int
    within_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Sequence:
    """Events one after the other, each no longer than `within_ns` after the one before; each part has alternatives."""

    parts: tuple[tuple[str, ...], ...]
    within_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    of: Expression


@dataclass(frozen=True, slots=True)
class All:
    """All of them."""

    of: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """At least one of them."""

    of: tuple[Expression, ...]


Leaf: TypeAlias = EventIs | CountOf | Sequence
Expression: TypeAlias = Leaf | Not | All | Any


def leaves(expression: Expression) -> Iterator[Leaf]:
    """Yield the parts that look at events, from left to right."""
    match expression:
        case Not(of):
            yield from leaves(of)
        case All(of) | Any(of):
            for one in of:
                yield from leaves(one)
        case EventIs() | CountOf() | Sequence():
            yield expression


def names(expression: Expression) -> Iterator[str]:
    """Yield the names of the events, from left to right."""
    for leaf in leaves(expression):
        if isinstance(leaf, Sequence):
            yield from (name for part in leaf.parts for name in part)
        else:
            yield leaf.name


def parse(text: str) -> Expression:
    """Return the tree of an expression. Raises ValueError, which tells the place and what is expected there."""
    if len(text) > LONGEST:
        raise ValueError(f"an expression has at most {LONGEST} characters, not {len(text)}")
    return _Parser(text).whole()


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    at: int
    is_name: bool = False


class _Parser:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._next = 0
        self._depth = 0

    def whole(self) -> Expression:
        found = self._condition()
        if (token := self._peek()) is not None:
            raise self._error("`and`, `or`, `then`, `within` or the end is expected here", token)
        return found

    def _split(self) -> Iterator[_Token]:
        place = 0
        while self._text[place:].strip():
            match = _TOKEN.match(self._text, place)
            if match is None:
                start = place + len(self._text[place:]) - len(self._text[place:].lstrip())
                raise self._error("this belongs to nothing", _Token(self._text[start], start))
            kind = str(match.lastgroup)
            text, at = match[kind], match.start(kind)
            yield _Token(text[1:-1], at, True) if kind == "quoted" else _Token(text, at)
            place = match.end()

    def _condition(self) -> Expression:
        parts = [self._conjunction()]
        while self._takes("or"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Any(tuple(parts))

    def _conjunction(self) -> Expression:
        parts = [self._negation()]
        while self._takes("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _negation(self) -> Expression:
        is_negated = False
        while self._takes("not"):
            is_negated = not is_negated
        value = self._value()
        return Not(value) if is_negated else value

    def _value(self) -> Expression:
        if (token := self._peek()) is not None and token.text == "count" and not token.is_name:
            return self._count()
        begin = self._peek()
        parts = [self._part()]
        while self._takes("then"):
            parts.append(self._part())
        if len(parts) > 1:
            return Sequence(tuple(self._alternatives(part, begin) for part in parts), self._within())
        found = parts[0]
        if isinstance(found, EventIs) and found.within_ns is None:
            return EventIs(found.name, self._within())
        return found

    def _part(self) -> Expression:
        if self._takes("("):
            self._depth += 1
            if self._depth > DEEPEST:
                raise self._error(
                    f"there are more than {DEEPEST} brackets within brackets", self._tokens[self._next - 1]
                )
            found = self._condition()
            self._expect(")")
            self._depth -= 1
            return found
        return EventIs(self._event())

    def _count(self) -> CountOf:
        self._expect("count")
        self._expect("(")
        name = self._event()
        self._expect(")")
        token = self._take(f"a comparison ({', '.join(COMPARISONS)})")
        if token.text not in COMPARISONS:
            raise self._error(f"a comparison is expected here: {', '.join(COMPARISONS)}", token)
        number = self._take("a number")
        if not number.text.isdecimal() or int(number.text) > MOST_COUNTED:
            raise self._error(f"a number from 0 to {MOST_COUNTED} is expected here", number)
        return CountOf(name, token.text, int(number.text), self._within())

    def _event(self) -> str:
        token = self._take("an event, such as zones.gate.enter,")
        if token.text in _KEYWORDS and not token.is_name:
            raise self._error("an event is expected here, such as zones.gate.enter", token)
        if _EVENT.fullmatch(token.text) is None:
            raise self._error("an event is written step.rule or step.rule.detail, such as zones.gate.enter", token)
        return token.text

    def _within(self) -> int | None:
        if not self._takes("within"):
            return None
        token = self._take("a duration")
        try:
            within_ns = parse_duration_ns(token.text)
        except ValueError as error:
            raise self._error(str(error), token) from None
        if not within_ns:
            raise self._error("a duration longer than 0 is expected here", token)
        return within_ns

    def _alternatives(self, part: Expression, begin: _Token | None) -> tuple[str, ...]:
        match part:
            case EventIs(name, None):
                return (name,)
            case Any(of) if all(isinstance(one, EventIs) and one.within_ns is None for one in of):
                return tuple(names(part))
        raise self._error("`then` joins events, or alternatives such as (zones.a.enter or zones.b.enter)", begin)

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _takes(self, text: str) -> bool:
        token = self._peek()
        is_there = token is not None and token.text == text and not token.is_name
        self._next += is_there
        return is_there

    def _take(self, wanted: str) -> _Token:
        token = self._peek()
        if token is None:
            raise self._error(f"{wanted} is expected here", None)
        self._next += 1
        return token

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise self._error(f"`{text}` is expected here", self._peek())

    def _error(self, message: str, token: _Token | None) -> ValueError:
        where = "at the end" if token is None else f"at character {token.at + 1}, {token.text!r}"
        return ValueError(f"{where}: {message}")
