"""Import user functions by reference: `package.module:function` or `file.py:function`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationInfo

from sightline.errors import ConfigurationError
from sightline.graph import Problem
from sightline.graph.fields import BASE_FOLDER
from sightline.redaction import redact

Function = Callable[[Any], object]

_FILE_SUFFIX = ".py"


def below_base(reference: str, info: ValidationInfo) -> str:
    """Return a reference whose file, if any, is relative to the YAML file. Raises ValueError for bad syntax."""
    module, function = _split(reference)
    base = (info.context or {}).get(BASE_FOLDER)
    return f"{Path(base) / module}:{function}" if base is not None and module.endswith(_FILE_SUFFIX) else reference


def load_function(reference: str) -> Function:
    """Return the function that a reference names. Raises ConfigurationError when module or function are missing.

    Importing runs the module; an exception that it raises becomes a ConfigurationError, too.
    """
    name, function = _split(reference)
    try:
        module = _module_of_file(Path(name)) if name.endswith(_FILE_SUFFIX) else import_module(name)
    except (Exception, SystemExit) as error:  # importing runs user code, which may raise anything
        raise ConfigurationError(f"{name!r} cannot be imported: {_reason(error, name)}") from error
    found = getattr(module, function, None)
    if not callable(found):
        lacking = "holds no function" if found is None else "holds something else than a function under"
        raise ConfigurationError(f"{name!r} {lacking} {function!r}")
    return found  # type: ignore[no-any-return]


def function_problems(reference: str, *, key: str) -> Iterator[Problem]:
    """Yield the problem of an option that names a function which cannot be loaded."""
    try:
        load_function(reference)
    except ConfigurationError as error:
        yield Problem(str(error), (key,))


def _split(reference: str) -> tuple[str, str]:
    """Return module (or file) and function. Raises ValueError for bad syntax."""
    module, separator, function = reference.rpartition(":")
    if not (separator and module and function.isidentifier()):
        raise ValueError(
            f"{reference!r} is no function reference: write package.module:function, or file.py:function for a file"
        )
    return module, function


def _reason(error: BaseException, name: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == name.split(".")[0]:
        return "no package of that name is installed; write file.py:function for a file beside the YAML file"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return redact(f"{type(error).__name__}: {error}")


def _module_of_file(path: Path) -> ModuleType:
    """Return a module made of a file, once per process, under a unique name that hides no other module."""
    name = f"sightline_user_{path.stem}_{abs(hash(path.resolve())):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
