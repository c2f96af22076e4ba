"""The text of an imported pipeline: YAML with comments that say where each part comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline_plugins.deepstream_import.plan import Import, Step, Template

_WIDTH = 120
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*|\d+(ms|s|k|M)")
_AMBIGUOUS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


def pipeline_text(imported: Import, *, source: str, file: str) -> str:
    """Return the pipeline as YAML. `source` names what it was imported from, `file` the place it is written to."""
    plan = imported.plan
    lines = [f"# Imported from {source}.", "#"]
    lines += [f"#   export {name}=...   # credentials are not written" for name in imported.variables]
    lines += [f"#   sightline check {file}", f"#   sightline run {file}", f"name: {plan.name}"]
    if plan.device is not None:
        lines.append(f"device: {plan.device}")
    lines += ["", "sources:"]
    for name, options in plan.sources.items():
        only_uri = set(options) == {"uri"}
        lines.append(f"  {_key(name)}: {_flow(options['uri'] if only_uri else options)}")
    if plan.batch:
        lines += ["", f"batch: {_flow(plan.batch)}"]
    lines += ["", "pipeline:"]
    for step in plan.steps():
        lines += _step(step, imported)
    return "\n".join(lines) + "\n"


def _step(step: Step, imported: Import) -> Iterator[str]:
    if step.comment:
        yield f"  # {step.comment}"
    options = {key: _written(value, imported) for key, value in step.options.items()}
    if not options:
        yield f"  - {step.element}"
        return
    line = f"  - {step.element}: {_flow(options)}"
    if len(line) <= _WIDTH and len(options) <= 3:
        yield line
        return
    yield f"  - {step.element}:"
    for key, value in options.items():
        yield f"      {_key(key)}: {_flow(value)}"


def _written(value: Any, imported: Import) -> Any:
    return imported.input_path(value) if isinstance(value, Path) else value


def _flow(value: Any) -> str:
    """Return a value in YAML's flow style."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_flow(one) for one in value) + "]"
    if isinstance(value, str):
        text = str(value) if isinstance(value, Template) else value.replace("$", "$$")
        return _scalar(text)
    return json.dumps(value)


def _key(text: object) -> str:
    return "on" if text == "on" else _scalar(str(text))


def _scalar(text: str) -> str:
    """Return a text plain where YAML takes it for one, else in quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _AMBIGUOUS:
        return text
    return json.dumps(text, ensure_ascii=False)
