"""Strings below fields explain them, as in pydantic's attribute docstrings, but are read when somebody asks."""

from __future__ import annotations

import gc
import inspect
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

from pydantic import Field

from sightline.graph import tree
from sightline.graph.documented import Documented, _docs_by_class, field_docs


class Base(Documented):
    kept: int = 1
    """Stays as it is."""
    replaced: int = 2
    """Of the base."""
    silent: int = 3
    """Is explained below, too."""


class Part(Documented):
    inner: str = ""
    """A part of it."""


class Child(Base):
    own: Annotated[int, Field(alias="mine")] = 4
    """Has another name
    outside."""
    replaced: int = 5
    """Of the child."""
    silent: int = 6
    part: Part = Part()
    given: int = Field(7, description="Given in code.")


def test_a_field_is_explained_by_the_string_below_it() -> None:
    assert field_docs(Child) == {
        "kept": "Stays as it is.",
        "replaced": "Of the child.",
        "own": "Has another name\noutside.",
    }


def test_the_schema_holds_the_explanations() -> None:
    schema = Child.model_json_schema()
    described = {name: field.get("description") for name, field in schema["properties"].items()}

    assert described["mine"] == "Has another name\noutside."
    assert described["kept"] == "Stays as it is."
    assert described["silent"] is None
    assert described["given"] == "Given in code."
    assert schema["$defs"]["Part"]["properties"]["inner"]["description"] == "A part of it."


def test_a_class_without_source_has_no_explanations() -> None:
    made: dict[str, type[Documented]] = {}
    exec(
        "class Made(Documented):\n    x: int = 1\n    'text'\n", {"Documented": Documented, "__name__": "nowhere"}, made
    )

    assert field_docs(made["Made"]) == {}
    assert made["Made"].model_json_schema()["properties"]["x"]["type"] == "integer"


def test_classes_of_one_name_in_one_module_keep_their_own_explanations() -> None:
    class Part(Documented):
        inner: str = ""
        """A part within a function."""

    assert field_docs(Part) == {"inner": "A part within a function."}


def test_several_threads_read_them_at_once() -> None:
    source = inspect.getsource(tree)

    def read(_: int) -> bool:
        return bool(_docs_by_class.__wrapped__(source)["PipelineDescription"])  # not the kept ones

    def give_way(*_: object) -> None:
        time.sleep(0)  # as a finalizer may, amid the making of a syntax tree

    gc.callbacks.append(give_way)
    try:
        with ThreadPoolExecutor(2) as pool:
            assert all(pool.map(read, range(6)))
    finally:
        gc.callbacks.remove(give_way)
