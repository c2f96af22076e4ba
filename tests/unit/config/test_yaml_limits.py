"""Files that are too large, too deep or that multiply are refused before they are built."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from sightline.config.document import InvalidConfiguration
from sightline.config.yaml_tree import MAX_BYTES, MAX_DEPTH, MAX_NODES, parse

Problems = Callable[..., list[str]]

ALIAS_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 20)
)
MERGE_BOMB = "m0: &m0 {a: 1, b: 2, c: 3}\n" + "".join(
    f"m{n}: &m{n} {{a: *m{n - 1}, b: *m{n - 1}, c: *m{n - 1}}}\n" for n in range(1, 30)
)
BOMBS = {
    "aliases of aliases": (ALIAS_BOMB, f"holds more than {MAX_NODES:,} values (aliases counted in full)"),
    "aliases in mappings": (MERGE_BOMB, f"holds more than {MAX_NODES:,} values"),
    "deep lists": ("[" * 1000, f"is nested more than {MAX_DEPTH} levels deep"),
    "deep mappings": ("{a: " * 1000, f"is nested more than {MAX_DEPTH} levels deep"),
    "deep blocks": ("".join("  " * n + "a:\n" for n in range(300)), f"is nested more than {MAX_DEPTH} levels deep"),
    "deep through aliases": (
        "a: &a " + "[" * 20 + "]" * 20 + "\nb: " + "[" * 20 + "*a" + "]" * 20,
        f"is nested more than {MAX_DEPTH} levels deep",
    ),
    "many values": ("- 1\n" * 100_000, f"holds more than {MAX_NODES:,} values"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_with_the_limit(name: str) -> None:
    text, told = BOMBS[name]

    with pytest.raises(InvalidConfiguration) as caught:
        parse(text, name="p.yaml")

    assert told in str(caught.value)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_takes_little_memory(name: str) -> None:
    text, _ = BOMBS[name]

    tracemalloc.start()
    with pytest.raises(InvalidConfiguration):
        parse(text, name="p.yaml")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 20_000_000


def test_a_large_file_is_refused_unread(problems: Problems) -> None:
    assert problems("#" * (MAX_BYTES + 1)) == [
        "p.yaml: is larger than 1,000,000 bytes, the most that a configuration may have"
    ]


def test_as_many_values_as_allowed_are_read() -> None:
    document = parse("- 1\n" * (MAX_NODES - 1), name="p.yaml")

    assert document.root is not None


def test_an_alias_below_the_limits_means_what_it_names() -> None:
    from sightline.config.document import plain

    document = parse("a: &a {b: [1, 2]}\nc: *a\nd: {<<: *a, e: 3}\n", name="p.yaml")

    assert document.root is not None
    assert plain(document.root) == {"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "d": {"e": 3, "b": [1, 2]}}
