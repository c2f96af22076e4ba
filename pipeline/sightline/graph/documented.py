"""Options whose docstrings are read when somebody asks for them.

A string below a field explains it, as in pydantic's `use_attribute_docstrings`. pydantic reads these from the source
when the class is made, which costs a tenth of a second for the elements of an ordinary pipeline. Here the source is
read for the reference, for the JSON Schema and for messages only.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from threading import Lock

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

_PARSING = Lock()
"""CPython 3.11 raises SystemError where two threads make syntax trees at once."""


class Documented(BaseModel):
    """A model whose fields are explained by the strings below them; its JSON Schema holds these as descriptions."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """Return pydantic's schema with the descriptions of the fields."""
        made = handler(schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        texts = field_docs(cls)
        for name, field in cls.model_fields.items():
            for key in {name, field.alias} & properties.keys():
                if name in texts:
                    properties[key].setdefault("description", texts[name])
        return made


@cache
def field_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the strings below the fields of a model and of its bases, by field; empty where there is no source."""
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            texts = {name: text for name, text in texts.items() if name not in base.__annotations__} | _own_docs(base)
    return texts


@cache
def _own_docs(model: type[BaseModel]) -> dict[str, str]:
    try:
        source = inspect.getsource(sys.modules[model.__module__])
        return _docs_by_class(source).get(model.__qualname__, {})
    except (KeyError, OSError, TypeError, SyntaxError, ValueError):
        return {}


@lru_cache(maxsize=128)
def _docs_by_class(source: str) -> Mapping[str, dict[str, str]]:
    """Return the strings below the fields of all classes of a module, by qualified name.

    A module is parsed once for all its classes: `inspect.getsource` of a class would parse it for each.
    """
    found: dict[str, dict[str, str]] = {}

    def visit(node: ast.AST, place: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                found.setdefault(place + child.name, dict(_docs_below_fields(child)))
                visit(child, f"{place}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                visit(child, f"{place}{child.name}.<locals>.")
            elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                visit(child, place)

    with _PARSING:
        module = ast.parse(source)
    visit(module, "")
    return found


def _docs_below_fields(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for before, statement in pairwise(definition.body):
        if (
            isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        ):
            yield before.target.id, inspect.cleandoc(statement.value.value)
