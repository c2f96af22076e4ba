"""The small changes that the mutation tool makes to a module."""

from __future__ import annotations

import pytest
from tools.mutate.changes import changes


def variants(source: str) -> set[str]:
    encoded = source.encode()
    return {change.applied(encoded).decode() for change in changes(encoded)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a < b", {"a <= b"}),
        ("a >= b", {"a > b"}),
        ("a == b", {"a != b"}),
        ("a not in b", {"a in b"}),
        ("a is not b", {"a is b"}),
        ("a < b <= c", {"a <= b <= c", "a < b < c"}),
        ("a + b * c", {"a - b * c", "a + b / c"}),
        ("(a) // (b)", {"(a) * (b)"}),
        ("x -= y", {"x += y"}),
        ("a and b and c", {"a or b and c", "a and b or c"}),
        ("-a", {"(a)"}),
        ("not a", {"(a)"}),
        ("3", {"4"}),
        ("0.0", {"1.0"}),
        ("2.0", {"3.0"}),
        ("True", {"False"}),
        ("np.minimum(a, b)", {"np.maximum(a, b)"}),
        ("a if b else c", {"a if (not (b)) else c"}),
    ],
)
def test_an_expression_has_these_variants(line: str, expected: set[str]) -> None:
    assert variants(line) == expected


def test_returned_values_and_calls_for_their_effect_are_removed() -> None:
    source = "def f(a):\n    a.close()\n    return a\n"

    assert variants(source) == {
        "def f(a):\n    pass\n    return a\n",
        "def f(a):\n    a.close()\n    return None\n",
    }


def test_a_condition_is_turned_round() -> None:
    assert "if (not (a)):\n    b = c\n" in variants("if a:\n    b = c\n")


@pytest.mark.parametrize(
    "source",
    [
        '"""Text with 3 < 4 and -1."""',
        "x: Annotated[int, 3]",
        "def f(a: Literal[3]) -> Literal[4]: ...",
        "@dataclass(frozen=True)\nclass A: ...",
        "__all__ = ['a' + 'b']",
        "raise ValueError(a + 3)",
        "assert a < 3",
        "x = f'{a + 3}'",
        "x = 'a' + b",
        "x = str | None",
        "_LOG.info('%d', 3)",
        "if TYPE_CHECKING:\n    x = 3",
        "class P(Protocol):\n    x = 3",
        "zip(a, b, strict=True)",
        "def f():\n    return None",
    ],
)
def test_texts_types_and_messages_are_left_alone(source: str) -> None:
    assert not variants(source)


def test_positions_are_right_behind_letters_of_several_bytes() -> None:
    assert variants("x = 'äöü', a < b") == {"x = 'äöü', a <= b"}


def test_an_operator_on_a_line_of_its_own_is_found() -> None:
    source = b"x = (\n    a\n    and b\n)\n"

    (change,) = changes(source)

    assert change.lines(source) == (3, "and b", "or b")
    assert (change.first_line, change.last_line) == (2, 3)


def test_a_change_that_is_no_python_is_recognised() -> None:
    source = b"def f():\n    [x := 1]\n"

    (change,) = (change for change in changes(source) if change.kind == "constant")

    assert change.compiles(source)
    assert not change.compiles(b"def f(:\n    [x := 1]\n")
