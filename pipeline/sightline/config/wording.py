"""Pydantic's errors in plain words: what is allowed, never what was given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

_FIXED = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "bytes_type": "must be a text",
    "callable_type": "must be a function, and can only be given in Python",
    "dict_type": "must be a mapping of keys to values",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "frozen_set_type": "must be a list",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large",
    "int_type": "must be a whole number",
    "iterable_type": "must be a list",
    "list_type": "must be a list",
    "mapping_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of options",
    "model_type": "must be a mapping of options",
    "none_required": "must be left empty",
    "path_type": "must be the name of a file",
    "set_type": "must be a list",
    "string_type": "must be a text",
    "string_unicode": "must be a text",
    "tuple_type": "must be a list",
}

WRONG_KIND = frozenset(name for name in _FIXED if name.endswith("_type")) | {"none_required"}
"""Errors that only say that another kind of value is wanted: of several alternatives, those not meant."""

_CLASS_PATTERN = re.compile(r"\^\[(?P<characters>[^\]]+)\](?:\{1,(?P<most>\d+)\}|[+])\$")
_RANGES = {"A-Z": "", "a-z": "", "0-9": "digits"}


def wording(kind: str, context: Mapping[str, Any], text: str) -> str:
    """One error of pydantic, given by its type, context and message, as the end of a sentence about the value."""
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in _BY_CONTEXT:
        return _BY_CONTEXT[kind](context)
    if kind in ("value_error", "assertion_error"):
        return text.split(", ", 1)[-1]
    return text.replace("Input should be", "must be").replace("Input", "the value")


def _least_length(context: Mapping[str, Any]) -> str:
    least = context["min_length"]
    return "must not be empty" if least == 1 else f"must have at least {least} entries, not {context['actual_length']}"


def _least_characters(context: Mapping[str, Any]) -> str:
    least = context["min_length"]
    return "must not be empty" if least == 1 else f"must have at least {least} characters"


def _expected(context: Mapping[str, Any]) -> str:
    words = [word.strip().strip("'") for word in re.split(r", | or ", str(context["expected"]))]
    return "must be " + (words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}")


def _pattern(context: Mapping[str, Any]) -> str:
    simple = _CLASS_PATTERN.fullmatch(str(context["pattern"]))
    if simple is None:
        return f"must match {context['pattern']}"
    rest = simple["characters"]
    for letters in ("A-Za-z", "a-z", "A-Z"):
        rest = rest.replace(letters, "", 1) if letters in rest else rest
    has_digits = "0-9" in rest
    signs = " ".join(rest.replace("0-9", ""))
    parts = ["letters", *(["digits"] if has_digits else []), *([signs] if signs else [])]
    most = f", at most {simple['most']} of them" if simple["most"] else ""
    return f"may hold only {', '.join(parts[:-1])} and {parts[-1]}{most}" if len(parts) > 1 else f"only {parts[0]}"


_BY_CONTEXT: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "enum": _expected,
    "greater_than": lambda context: f"must be more than {context['gt']:g}",
    "greater_than_equal": lambda context: f"must be at least {context['ge']:g}",
    "is_instance_of": lambda context: f"must be a {context['class']}, and can only be given in Python",
    "less_than": lambda context: f"must be less than {context['lt']:g}",
    "less_than_equal": lambda context: f"must be at most {context['le']:g}",
    "literal_error": _expected,
    "multiple_of": lambda context: f"must be a multiple of {context['multiple_of']}",
    "string_pattern_mismatch": _pattern,
    "string_too_long": lambda context: f"must have at most {context['max_length']} characters",
    "string_too_short": _least_characters,
    "too_long": lambda context: f"must have at most {context['max_length']} entries, not {context['actual_length']}",
    "too_short": _least_length,
}
