"""The reference: one Markdown page per element and source, made from what their classes state.

Options that every element with a model takes are described once, on `elements/model-options.md`. Options that such an
element has in common with `detect` are described on the page of `detect`. Options of every step are on the index.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from sightline.config.schema import OptionPage, Page, page_of
from sightline.graph import Registry

PACKAGE = "sightline"
EVERY_STEP = ("id", "streams", "on_error")
FIRST_OF_MODELS = "detect"
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Models": ("infer",),
    "Tracking": ("track",),
    "Rules": ("rules",),
    "Drawing and privacy": ("draw",),
    "Outputs": ("sinks", "record", "publish"),
    "Recorded results": ("replay",),
    "Your own functions": ("functions",),
}
"""What elements are listed under, by the folder of `sightline_plugins` that they are in."""

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


def reference() -> dict[str, str]:
    """Return the text of every generated page by its path below `docs/`."""
    registry = Registry()
    elements = [page_of(registry.element(name)) for name in registry.element_names if registry.package(name) == PACKAGE]
    sources = [page_of(registry.source(name)) for name in source_names()]
    models = [page for page in elements if any(option.key == "model" for option in page.options)]
    common = _common(models)
    first = next(page for page in models if page.name == FIRST_OF_MODELS)
    as_in_first = [option for option in first.options if option not in common and option.key not in EVERY_STEP]
    pages = {
        "elements/index.md": _text(_index(elements, sources)),
        "elements/model-options.md": _text(_model_options(models, common)),
    }
    for page in elements:
        shared = [option for option in page.options if page in models and option in common]
        same = [option for option in page.options if page in models and page is not first and option in as_in_first]
        pages[f"elements/{page.name}.md"] = _text(_page(page, shared=shared, same=same))
    for page in sources:
        pages[f"sources/{page.name}.md"] = _text(_page(page, shared=[], same=[]))
    return pages


def _common(models: list[Page]) -> list[OptionPage]:
    """Return the options that all elements with a model describe in the same words."""
    first, *others = models
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
        if FIRST_OF_MODELS in names:
            yield "They share [many options](model-options.md)."
    yield "## Sources"
    yield table(
        ("name", "purpose"), ((f"[`{page.name}`](../sources/{page.name}.md)", page.purpose) for page in sources)
    )
    yield STEPS
    yield _options(option for option in elements[0].options if option.key in EVERY_STEP)


def _model_options(models: list[Page], common: list[OptionPage]) -> Iterator[str]:
    names = [f"[`{page.name}`]({page.name}.md)" for page in models]
    yield MODELS.format(elements=f"{', '.join(names[:-1])} and {names[-1]}")
    yield _options(common)


def _page(page: Page, *, shared: list[OptionPage], same: list[OptionPage]) -> Iterator[str]:
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
    if same:
        yield f"As in [`{FIRST_OF_MODELS}`]({FIRST_OF_MODELS}.md): {_keys(same)}."
    if shared:
        yield f"As in all [elements with a model](model-options.md): {_keys(shared)}."
    if any(option.key in EVERY_STEP for option in page.options):
        yield f"As in [every step](index.md#options-of-every-step): {_keys(page.options, only=EVERY_STEP)}."


def _keys(options: Iterable[OptionPage], *, only: tuple[str, ...] | None = None) -> str:
    """Return the keys of options in code spans, without those below a mapping."""
    keys = [option.key for option in options if "." not in option.key and (only is None or option.key in only)]
    return ", ".join(f"`{key}`" for key in keys)


def _options(options: Iterable[OptionPage]) -> str:
    rows = ((f"`{option.key}`", cell(option.type), _default(option), cell(option.meaning)) for option in options)
    return options_table(("option", "type", "default", "meaning"), rows)


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
    if not default.startswith("{"):
        return False
    values = json.loads(default)
    return bool(values) and all(value is None for value in values.values())
