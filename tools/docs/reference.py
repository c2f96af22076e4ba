"""The reference: one Markdown page per element and source, made from what their classes state.

Options that all elements of a family take (those with a model, those that deliver) are described once, on a page of the
family. Options that an element with a model has in common with `detect` are described on the page of `detect`. Options
of every step are on the index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sightline.config.schema import OptionPage, Page, page_of
from sightline.graph import Registry

PACKAGE = "sightline"
EVERY_STEP = ("id", "streams", "on_error")
FIRST_OF_MODELS = "detect"
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Models": ("infer",),
    "Tracking": ("track",),
    "Motion": ("flow",),
    "Rules": ("rules",),
    "Cameras": ("camera_health", "drift"),
    "Images": ("warp",),
    "Drawing and privacy": ("draw",),
    "Outputs": ("sinks", "harvest", "search", "record", "publish", "tile"),
    "Descriptions": ("describe",),
    "Delivery": ("delivery",),
    "Recorded results": ("replay",),
    "Your own functions": ("functions",),
}
"""What elements are listed under, by the folder of `sightline_plugins` that they are in."""

CHANGES_LIVE = "[Changes live](../guide/operating.md#options-that-change-live)."
INDEX = """# Elements and sources

Generated from the code by `python -m tools.docs`. `sightline elements NAME` prints the same page for what is installed
on your machine, including elements of other packages.
"""
STEPS = """## Options of every step

Every element takes these options besides its own.
"""
MODELS = """# Options of elements with a model

Generated from the code by `python -m tools.docs`. {elements}
run a model and take the options below. Values that you leave out come from the
[model card](../guide/models.md#model-cards), then from the model file, then from the defaults of the head.
[Models](../guide/models.md) explains how to choose them.
"""
DELIVERY = """# Options of elements that deliver

Generated from the code by `python -m tools.docs`. {elements}
deliver records to a destination outside and take the options below: what is sent, and how it is encoded.
[Delivering results](../guide/delivery.md) explains how records get there.
"""


@dataclass(frozen=True, slots=True)
class Family:
    """Elements of a group that share options, described on `page`. They are those with the option `key`.

    `first` is the one whose page also describes what others have in common with it, if any.
    """

    group: str
    key: str
    page: str
    head: str
    called: str
    first: str | None = None

    def has(self, page: Page) -> bool:
        """Whether an element belongs to it."""
        return any(option.key == self.key for option in page.options)


FAMILIES = (
    Family("Models", "swap", "model-options", MODELS, "elements with a model", FIRST_OF_MODELS),
    Family("Delivery", "send", "delivery-options", DELIVERY, "elements that deliver"),
)


def reference() -> dict[str, str]:
    """Return the text of every generated page by its path below `docs/`."""
    registry = Registry()
    elements = [page_of(registry.element(name)) for name in registry.element_names if registry.package(name) == PACKAGE]
    sources = [page_of(registry.source(name)) for name in source_names()]
    pages = {"elements/index.md": _text(_index(elements, sources))}
    for page in [*elements, *sources]:
        folder = "elements" if page in elements else "sources"
        pages[f"{folder}/{page.name}.md"] = _text(_page(page, shared=[], same=[], family=None))
    for family in FAMILIES:
        members = [page for page in elements if family.has(page)]
        common = _common(members)
        pages[f"elements/{family.page}.md"] = _text(_family_options(family, members, common))
        first = next((page for page in members if page.name == family.first), None)
        for page in members:
            same = [] if first in (None, page) else _as_in(first, page, common=common)
            shared = [option for option in page.options if option in common]
            pages[f"elements/{page.name}.md"] = _text(_page(page, shared=shared, same=same, family=family))
    return pages


def _as_in(first: Page | None, page: Page, *, common: list[OptionPage]) -> list[OptionPage]:
    """Return the options that a page has in common with the first of its family alone."""
    own = () if first is None else first.options
    return [
        option for option in page.options if option in own and option not in common and option.key not in EVERY_STEP
    ]


def _common(members: list[Page]) -> list[OptionPage]:
    """Return the options that all elements of a family describe in the same words."""
    first, *others = members
    return [
        option
        for option in first.options
        if option.key not in EVERY_STEP and all(option in other.options for other in others)
    ]


def _text(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip() for part in parts) + "\n"


def grouped() -> dict[str, list[str]]:
    """Return the names of the elements by group, `detect` first among those with a model.

    Raises KeyError for an element in a folder that no group has.
    """
    registry = Registry()
    group_of = {folder: group for group, folders in GROUPS.items() for folder in folders}
    found: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name in registry.element_names:
        if registry.package(name) == PACKAGE:
            found[group_of[registry.element(name).__module__.split(".")[1]]].append(name)
    return {group: sorted(names, key=lambda name: (name != FIRST_OF_MODELS, name)) for group, names in found.items()}


def source_names() -> list[str]:
    """Return the names of the kinds of source that come with Sightline."""
    registry = Registry()
    return [name for name in registry.source_names if registry.package(name) == PACKAGE]


def _index(elements: list[Page], sources: list[Page]) -> Iterator[str]:
    by_name = {page.name: page for page in elements}
    yield INDEX
    for group, names in grouped().items():
        yield f"## {group}"
        yield table(("name", "purpose"), ((f"[`{name}`]({name}.md)", by_name[name].purpose) for name in names))
        yield from (f"They share [many options]({one.page}.md)." for one in FAMILIES if one.group == group)
    yield "## Sources"
    yield table(
        ("name", "purpose"), ((f"[`{page.name}`](../sources/{page.name}.md)", page.purpose) for page in sources)
    )
    yield STEPS
    yield _options(option for option in elements[0].options if option.key in EVERY_STEP)


def _family_options(family: Family, members: list[Page], common: list[OptionPage]) -> Iterator[str]:
    names = [f"[`{page.name}`]({page.name}.md)" for page in members]
    yield family.head.format(elements=f"{', '.join(names[:-1])} and {names[-1]}")
    yield _options(common)


def _page(page: Page, *, shared: list[OptionPage], same: list[OptionPage], family: Family | None) -> Iterator[str]:
    yield f"# {page.name}"
    yield page.purpose
    if page.example:
        yield f"```yaml\n{page.example}\n```"
    if page.text:
        yield page.text
    if page.needs or page.gives:
        yield f"Needs: {', '.join(page.needs) or 'nothing'}. Gives: {', '.join(page.gives) or 'nothing'}."
    described_elsewhere = {*EVERY_STEP, *(option.key for option in (*shared, *same))}
    own = [option for option in page.options if option.key not in described_elsewhere]
    yield "## Options"
    if own:
        yield _options(own)
    if family is not None and same:
        yield f"As in [`{family.first}`]({family.first}.md): {_keys(same)}."
    if family is not None and shared:
        yield f"As in all [{family.called}]({family.page}.md): {_keys(shared)}."
    if any(option.key in EVERY_STEP for option in page.options):
        yield f"As in [every step](index.md#options-of-every-step): {_keys(page.options, only=EVERY_STEP)}."


def _keys(options: Iterable[OptionPage], *, only: tuple[str, ...] | None = None) -> str:
    """Return the keys of options in code spans, without those below a mapping."""
    keys = [option.key for option in options if "." not in option.key and (only is None or option.key in only)]
    return ", ".join(f"`{key}`" for key in keys)


def _options(options: Iterable[OptionPage]) -> str:
    rows = ((f"`{option.key}`", cell(option.type), _default(option), cell(_meaning(option))) for option in options)
    return options_table(("option", "type", "default", "meaning"), rows)


def _meaning(option: OptionPage) -> str:
    return f"{option.meaning} {CHANGES_LIVE}" if option.changes_live else option.meaning


def options_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table whose rows the site stacks on a narrow screen: name, what it takes, meaning."""
    return f'<div class="options" markdown>\n\n{table(head, rows)}\n\n</div>'


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def cell(text: str) -> str:
    """Return text for a cell of a table: on one line, with bars that do not end the cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _default(option: OptionPage) -> str:
    if option.required:
        return "required"
    return f"`{cell(option.default)}`" if option.default and not _is_unset(option.default) else ""


def _is_unset(default: str) -> bool:
    """Whether a default is a mapping without any value: what happens then is in the meaning of the option."""
    try:
        values = json.loads(default)
    except ValueError:  # text, such as the template `{stream}`
        return False
    return isinstance(values, dict) and bool(values) and all(value is None for value in values.values())
