"""Find the small changes that make a module wrong: comparisons, signs, constants, conditions, returned values.

Left alone are strings, annotations, decorators, `raise`, `assert`, log calls, type unions, `__all__` and the bodies of
protocols: what changes there changes a text, or nothing that a test of behaviour could see.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_SWAPPED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}
_LOGGERS = {"log", "logger", "warnings"}
_TYPE_CALLS = {"isinstance", "issubclass", "cast", "TypeVar", "NewType", "ConfigDict"}
_TEXT_KEYWORDS = {"strict", "description", "title", "help", "stacklevel", "exist_ok", "daemon"}


@dataclass(frozen=True, slots=True)
class Change:
    """One small change to a module: the bytes from `start` to `end` become `text`.

    `first_line` and `last_line` count from 1 and are those of the expression; `inside` is whether it is in a function.
    """

    kind: str
    first_line: int
    last_line: int
    inside: bool
    start: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """The module with the change."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def compiles(self, source: bytes) -> bool:
        """Whether the module is still Python."""
        try:
            compile(self.applied(source), "<changed>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return True

    def lines(self, source: bytes) -> tuple[int, str, str]:
        """Number of the line in which the change begins, and that line before and after, without its indentation."""
        number = source.count(b"\n", 0, self.start)
        after = self.applied(source)
        return number + 1, _line(source, number), _line(after, number)


def changes(source: bytes) -> list[Change]:
    """All changes to a module, in the order of its lines. Some may not compile. Raises SyntaxError."""
    finder = _Finder(source)
    return sorted(finder.module(ast.parse(source)), key=lambda change: (change.start, change.end, change.text))


def _line(source: bytes, number: int) -> str:
    return source.split(b"\n")[number].decode().strip()


class _Finder:
    """Walks a module. Positions of `ast` are in bytes of a line, so is all of this."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def module(self, tree: ast.Module) -> Iterator[Change]:
        for statement in tree.body:
            yield from self._walk(statement, inside=False)

    def _walk(self, node: ast.AST, *, inside: bool) -> Iterator[Change]:
        if _left_alone(node):
            return
        yield from self._at(node, inside=inside)
        within = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in _children(node):
            yield from self._walk(child, inside=within)

    def _at(self, node: ast.AST, *, inside: bool) -> Iterator[Change]:
        """The changes to this node itself."""
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
                for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
                    old, new = _COMPARISONS[type(operator)]
                    pattern = old if old[0].isalpha() else re.escape(old)
                    yield from self._between(left, right, pattern, new, "comparison", inside=inside)
            case ast.BinOp() if type(node.op) in _ARITHMETIC and not _is_text_or_type(node):
                old, new = _ARITHMETIC[type(node.op)]
                yield from self._between(node.left, node.right, re.escape(old), new, "arithmetic", inside=inside)
            case ast.AugAssign() if type(node.op) in _ARITHMETIC and not _is_text(node.value):
                old, new = _ARITHMETIC[type(node.op)]
                yield from self._between(node.target, node.value, re.escape(old), new, "arithmetic", inside=inside)
            case ast.BoolOp():
                old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield from self._between(left, right, rf"\b{old}\b", new, "and/or", inside=inside)
            case _:
                yield from self._of_values(node, inside=inside)

    def _of_values(self, node: ast.AST, *, inside: bool) -> Iterator[Change]:
        """The changes to what is no operator between two operands."""
        match node:
            case ast.UnaryOp(op=ast.USub() | ast.Not()):
                kind = "not" if isinstance(node.op, ast.Not) else "sign"
                yield self._change(node, f"({self._text(node.operand)})", kind, inside=inside)
            case ast.Constant(value=bool() | int() | float() as value):
                yield self._change(node, _other(value), "constant", inside=inside)
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(
                test, ast.Constant | ast.UnaryOp
            ):
                yield self._change(test, f"(not ({self._text(test)}))", "condition", inside=inside)
            case ast.Return(value=ast.expr() as value) if not _is_none(value):
                yield self._change(value, "None", "return", inside=inside)
            case ast.Expr(value=ast.Call()) if inside:
                yield self._change(node, "pass", "call removed", inside=inside)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name) as function) if name in _SWAPPED:
                end = self._position(function.end_lineno, function.end_col_offset)
                yield self._of(node, end - len(name), end, _SWAPPED[name], "function", inside=inside)

    def _between(
        self, left: ast.expr, right: ast.expr, pattern: str, new: str, kind: str, *, inside: bool
    ) -> Iterator[Change]:
        """The operator stands between its operands, perhaps beside parentheses and on lines of their own."""
        start = self._position(left.end_lineno, left.end_col_offset)
        end = self._position(right.lineno, right.col_offset)
        if found := re.search(pattern.encode(), self._source[start:end]):
            first, last = left.lineno, right.end_lineno or right.lineno
            yield Change(kind, first, last, inside, start + found.start(), start + found.end(), new)

    def _change(self, node: ast.expr | ast.stmt, text: str, kind: str, *, inside: bool) -> Change:
        start, end = (
            self._position(node.lineno, node.col_offset),
            self._position(node.end_lineno, node.end_col_offset),
        )
        return self._of(node, start, end, text, kind, inside=inside)

    def _of(self, node: ast.expr | ast.stmt, start: int, end: int, text: str, kind: str, *, inside: bool) -> Change:
        return Change(kind, node.lineno, node.end_lineno or node.lineno, inside, start, end, text)

    def _text(self, node: ast.expr) -> str:
        start = self._position(node.lineno, node.col_offset)
        return self._source[start : self._position(node.end_lineno, node.end_col_offset)].decode()

    def _position(self, line: int | None, column: int | None) -> int:
        assert line is not None
        assert column is not None
        return self._starts[line - 1] + column


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What may be changed below a node: neither annotations and decorators nor arguments that are for people."""
    skipped = {"annotation", "returns", "decorator_list", "bases", "type_params"}
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not (isinstance(child, ast.keyword) and child.arg in _TEXT_KEYWORDS):
                yield child


def _left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.ClassDef(bases=bases):
            return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in map(_unsubscripted, bases))
        case ast.FunctionDef(name="__repr__" | "__str__"):
            return True
        case ast.Subscript(value=ast.Name(id="Literal" | "Annotated")):
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _TYPE_CALLS
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name.lower().lstrip("_") in _LOGGERS
    return False


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_text_or_type(node: ast.BinOp) -> bool:
    """Joined or formatted texts, and unions of types."""
    if isinstance(node.op, ast.BitOr):
        sides = (_unsubscripted(node.left), _unsubscripted(node.right))
        return any(_is_none(side) or (isinstance(side, ast.Name) and side.id in _BUILT_IN_TYPES) for side in sides)
    return _is_text(node)


_BUILT_IN_TYPES = {"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set"}


def _other(value: bool | int | float) -> str:
    """A number near it but not equal to it; the other one of True and False."""
    if isinstance(value, bool):
        return str(not value)
    return str(value + 1) if isinstance(value, int) else repr(value * 1.5 or 1.0)
