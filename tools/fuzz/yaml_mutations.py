"""YAML texts made wrong: in their structure (keys, types, depth, aliases, numbers), and now and then in their bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from io import StringIO
from random import Random
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tools.fuzz.mutations import mutated

_STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 10**400, -(10**30), 2**63, 0.0, -0.0, 1e308, float("nan"), float("inf"), 1e-320),
    *(
        "",
        " ",
        "\x00",
        "\ud800",
        "é" * 500,
        "\u202egnp",
        "𝔸",
        "a" * 20_000,
        "nan",
        "1e999",
        "0x7fffffffffffffff",
        "1h" * 40,
    ),
    *(
        "${",
        "${HOME",
        "${HOME}",
        "${A:-${B:-${C}}}",
        "$" * 300,
        "{stream}",
        "{" * 50,
        "%s%n",
        "../" * 40,
        "/dev/zero",
        "/",
    ),
    *(
        "/proc/self/mem",
        ".",
        "~",
        "~nobody/x",
        "file:///dev/random",
        "http://[",
        "rtsp://u:p@[::1",
        "rtsp://a:99999/",
        "://",
    ),
    *(
        "*",
        "[!",
        "[a-",
        "(" * 300,
        "(a+)+$",
        "a\nb",
        "#",
        "- ",
        "? x",
        "2026-01-01",
        "1_000",
        "0o17",
        "1:30",
        "=",
        "<<",
    ),
    *([], {}, [[]], [{}], {"": ""}, [None] * 200, {"a": {"b": {"c": []}}}, ["x"] * 20_000, [0.5, 0.5], [1, 2, 3, 4]),
)
Path_ = tuple[Any, ...]
Change = Callable[[Any, Sequence[Any], Random], Any]


def mutated_yaml(text: str, others: Sequence[str], random: Random) -> bytes:
    """One mutant of a configuration; `others` lend it parts."""
    chance = random.random()
    if chance < 0.15:
        return mutated(text.encode(), [other.encode() for other in others], random)
    if chance < 0.3:
        return random.choice(_TEXTS)(text, random).encode("utf-8", "surrogatepass")
    tree, trees = _loaded(text), [_loaded(other) for other in others]
    for _ in range(random.choice((1, 1, 2, 4))):
        tree = random.choice(_CHANGES)(tree, trees, random)
    return _dumped(tree)


def _loaded(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def _dumped(tree: Any) -> bytes:
    out = StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_unicode = True
    try:
        yaml.dump(tree, out)
    except (YAMLError, UnicodeError):
        return repr(tree).encode("utf-8", "surrogatepass")
    return out.getvalue().encode("utf-8", "surrogatepass")


def places(tree: Any, at: Path_ = ()) -> Iterator[Path_]:
    """The keys that lead to every value below the root."""
    below = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in below:
        yield (*at, key)
        yield from places(value, (*at, key))


def _parent(tree: Any, path: Path_) -> Any:
    for key in path[:-1]:
        tree = tree[key]
    return tree


def _chosen(tree: Any, random: Random) -> tuple[Any, Any] | None:
    """A mapping or list of the tree, and a key or index in it."""
    paths = list(places(tree))
    if not paths:
        return None
    path = random.choice(paths)
    return _parent(tree, path), path[-1]


def _strange_value(tree: Any, others: Sequence[Any], random: Random) -> Any:
    del others
    if (place := _chosen(tree, random)) is None:
        return random.choice(_STRANGE)
    place[0][place[1]] = random.choice(_STRANGE)
    return tree


def _strange_key(tree: Any, others: Sequence[Any], random: Random) -> Any:
    del others
    place = _chosen(tree, random)
    if place is None or not isinstance(place[0], dict):
        return tree
    key = random.choice([value for value in _STRANGE if not isinstance(value, list | dict)])
    place[0][key] = place[0].pop(place[1]) if random.random() < 0.5 else random.choice(_STRANGE)
    return tree


def _misspelt(tree: Any, others: Sequence[Any], random: Random) -> Any:
    del others
    place = _chosen(tree, random)
    if place is not None and isinstance(place[0], dict) and isinstance(place[1], str) and place[1]:
        at = random.randrange(len(place[1]))
        place[0][place[1][:at] + random.choice("aeX_ ") + place[1][at + 1 :]] = place[0].pop(place[1])
    return tree


def _gone(tree: Any, others: Sequence[Any], random: Random) -> Any:
    del others
    if (place := _chosen(tree, random)) is not None:
        del place[0][place[1]]
    return tree


def _borrowed(tree: Any, others: Sequence[Any], random: Random) -> Any:
    """A part of another file, or of this one, instead of a value."""
    donor = random.choice([*others, tree])
    place, lent = _chosen(tree, random), _chosen(donor, random)
    if place is not None and lent is not None:
        place[0][place[1]] = deepcopy(lent[0][lent[1]])
    return tree


def _wrapped(tree: Any, others: Sequence[Any], random: Random) -> Any:
    """A value inside lists or mappings, a few or a great many levels deep."""
    del others
    if (place := _chosen(tree, random)) is not None:
        value = place[0][place[1]]
        for _ in range(random.choice((1, 2, 20, 60))):
            value = [value] if random.random() < 0.5 else {"a": value}
        place[0][place[1]] = value
    return tree


def _repeated(tree: Any, others: Sequence[Any], random: Random) -> Any:
    """A list or mapping with hundreds of copies of one of its parts, nested again where the part is a step."""
    del others
    if (place := _chosen(tree, random)) is not None:
        holder, key = place
        count = random.choice((2, 50, 400))
        if isinstance(holder, list):
            holder.extend(deepcopy(holder[key]) for _ in range(count))
        else:
            holder.update({f"{key}{number}": deepcopy(holder[key]) for number in range(count)})
    return tree


def _nested_steps(tree: Any, others: Sequence[Any], random: Random) -> Any:
    del others
    if isinstance(tree, dict) and isinstance(tree.get("pipeline"), list):
        for _ in range(random.choice((1, 5, 14, 40))):
            kind = random.choice(("tee", "parallel"))
            tree["pipeline"] = [{kind: {"a": tree["pipeline"], random.choice(("b", "a", "")): []}}]
    return tree


_CHANGES: tuple[Change, ...] = (
    *(_strange_value, _strange_value, _strange_key, _misspelt, _gone, _borrowed, _wrapped, _repeated, _nested_steps),
)


def _alias_bomb(text: str, random: Random) -> str:
    width, depth = random.choice((2, 9, 40)), random.choice((5, 9, 30))
    lines = ["l0: &l0 [lol]"]
    for level in range(1, depth):
        aliases = ", ".join([f"*l{level - 1}"] * width)
        kind = (f"[{aliases}]", "{" + ", ".join(f"k{number}: *l{level - 1}" for number in range(width)) + "}")
        lines.append(f"l{level}: &l{level} {random.choice(kind)}")
    return "\n".join(lines) + "\n" + text


def _merge_bomb(text: str, random: Random) -> str:
    depth = random.choice((3, 30, 300))
    lines = ["m0: &m0 {a: 1}"]
    lines += [f"m{level}: &m{level} {{<<: [*m{level - 1}, *m{level - 1}], k{level}: 1}}" for level in range(1, depth)]
    return "\n".join(lines) + "\n" + text


def _own_alias(text: str, random: Random) -> str:
    return text + random.choice(("\nx: &x [*x]\n", "\nx: &x {<<: *x}\n", "\nx: *nowhere\n", "\n? *x\n", "\n&a &b c\n"))


def _deep(text: str, random: Random) -> str:
    opening = random.choice(("[", "{a: ", "- ", "? ", "[{", "!!map {", "&a [", "'", '"\\'))
    return text + "\nx: " + opening * random.choice((10, 40, 300, 3_000, 30_000))


def _long(text: str, random: Random) -> str:
    piece = random.choice(
        ("a", "a: 1\n", "- x\n", "#", " ", "\n", "é", "\t", "\\u0041", "9", "--- \n", "%YAML 1.2\n", "!")
    )
    return random.choice((text + "\n", "")) + piece * random.choice((100, 5_000, 50_000))


def _tagged(text: str, random: Random) -> str:
    tags = (
        "!!python/object/apply:os.system [id]",
        "!!binary aaaa",
        "!!set {a, b}",
        "!!int x",
        "!!timestamp 1",
        "!<x> y",
    )
    return text.replace(": ", f": {random.choice(tags)} ", random.choice((1, 3)))


def _control(text: str, random: Random) -> str:
    strange = random.choice(
        ("\x00", "\x07", "\x1b[31m", "\x85", "\u2028", "\ufeff", "\ufffe", "\ud800", "\r", "\t", "🎥")
    )
    at = random.randrange(len(text) + 1)
    return text[:at] + strange * random.choice((1, 3)) + text[at:]


_TEXTS: tuple[Callable[[str, Random], str], ...] = (
    *(_alias_bomb, _merge_bomb, _own_alias, _deep, _long, _tagged, _control),
)
