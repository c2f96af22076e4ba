"""Import user-defined functions by reference."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationInfo

from sightline.errors import ConfigurationError
from sightline.graph.fields import BASE_FOLDER
from sightline.redaction import redact

Function = Callable[[Any], object]

FILE_SUFFIX = ".py"


def split_reference(reference: str) -> tuple[str, str]:
    """Module, or file, and function of `package.module:function`. Raises ValueError when it is not written so."""
    module, separator, function = reference.rpartition(":")
    if not (separator and module and function.isidentifier()):
        raise ValueError(
            f"{reference!r} names no function: write package.module:function, or file.py:function for a file"
        )
    return module, function


def below_base(reference: str, info: ValidationInfo) -> str:
    """A reference whose file, if it names one, is relative to the YAML file. Raises ValueError as `split_reference`."""
    module, function = split_reference(reference)
    base = (info.context or {}).get(BASE_FOLDER)
    return f"{Path(base) / module}:{function}" if base is not None and module.endswith(FILE_SUFFIX) else reference


def load_function(reference: str) -> Function:
    """The function that a reference names. Raises ConfigurationError when module or function are not there.

    Importing runs the module; what it raises of its own comes out as ConfigurationError too.
    """
    name, function = split_reference(reference)
    try:
        module = _module_of_file(Path(name)) if name.endswith(FILE_SUFFIX) else importlib.import_module(name)
    except (
        Exception,
        SystemExit,
    ) as error:  # importing runs foreign code: anything may come out
        raise ConfigurationError(f"{name!r} cannot be imported: {_reason(error, name)}") from error
    found = getattr(module, function, None)
    if not callable(found):
        lacking = "holds no function" if found is None else "holds something else than a function under"
        raise ConfigurationError(f"{name!r} {lacking} {function!r}")
    return found  # type: ignore[no-any-return]


def _reason(error: BaseException, name: str) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == name.split(".")[0]:
        return "no package of that name is installed; write file.py:function for a file beside the YAML file"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    return redact(f"{type(error).__name__}: {error}")


def _module_of_file(path: Path) -> ModuleType:
    """A module made of a file, once in a process, under a name of its own that does not hide any other."""
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
