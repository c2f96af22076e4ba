"""The report of an import: every key with its place, what became of it, and what to do; as text, Markdown or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from sightline_plugins.deepstream_import.outcomes import KeyOutcome, Outcome, Outcomes
from sightline_plugins.deepstream_import.parsers import TEN_LINES
from sightline_plugins.deepstream_import.plan import Import

_MARKS = {
    Outcome.TAKEN: "=",
    Outcome.DIFFERENT: "~",
    Outcome.NO_EFFECT: ".",
    Outcome.IMPOSSIBLE: "!",
    Outcome.UNKNOWN: "?",
}
VERSION = 1
_MARKDOWN = (".md", ".markdown")


def text_report(imported: Import) -> Iterator[str]:
    """Yield the lines of the report for a terminal: file by file, each key with its line."""
    outcomes = imported.outcomes
    legend = ", ".join(f"{_MARKS[outcome]} {outcome}" for outcome in Outcome)
    yield f"{_summary(outcomes)}"
    yield f"  ({legend})"
    for file, group in groupby(outcomes.ordered(), key=lambda one: one.place.file):
        yield ""
        yield f"{file}"
        for one in group:
            yield f"  {_MARKS[one.outcome]} {one.place.line:4d}  [{one.section}] {_assignment(one)}: {one.text}"
    if outcomes.missing:
        yield ""
        yield "missing"
        yield from (f"  {text}" for text in outcomes.missing)
    for name in imported.unread_parsers:
        yield ""
        function = _function(name)
        yield f'a head for {name}, if the outputs are not recognised: heads.py, `infer: {{head: "heads:{function}"}}`'
        yield from (f"  {line}".rstrip() for line in TEN_LINES.format(name=function).splitlines())


def markdown_report(imported: Import, *, source: str) -> str:
    """Return the report as Markdown: a table for each file."""
    outcomes = imported.outcomes
    lines = [f"# Import of {source}", "", f"{_summary(outcomes)}.", ""]
    for file, group in groupby(outcomes.ordered(), key=lambda one: one.place.file):
        lines += [f"## {file}", "", "| line | section | key | value | outcome | meaning |", "|---|---|---|---|---|---|"]
        lines += [_row(one) for one in group]
        lines.append("")
    if outcomes.missing:
        lines += ["## Missing", "", *(f"- {_cell(text)}" for text in outcomes.missing), ""]
    for name in imported.unread_parsers:
        code = TEN_LINES.format(name=_function(name))
        lines += [f"## A head for {_cell(name)}", "", "```python", code.rstrip(), "```", ""]
    return "\n".join(lines)


def json_report(imported: Import, *, source: str) -> str:
    """Return the report as JSON."""
    outcomes = imported.outcomes
    return json.dumps(
        {
            "version": VERSION,
            "source": source,
            "counts": {outcome.name.lower(): count for outcome, count in outcomes.counts()},
            "keys": [
                {
                    "file": str(one.place.file),
                    "line": one.place.line,
                    "section": one.section,
                    "key": one.key,
                    "value": one.value,
                    "outcome": one.outcome.name.lower(),
                    "text": one.text,
                }
                for one in outcomes.ordered()
            ],
            "missing": outcomes.missing,
            "variables": imported.variables,
        },
        indent=2,
        ensure_ascii=False,
    )


def report_file(path: Path, imported: Import, *, source: str) -> str:
    """Return the report in the form that the name of its file asks for: JSON, unless it is Markdown."""
    is_markdown = path.suffix.lower() in _MARKDOWN
    return markdown_report(imported, source=source) if is_markdown else json_report(imported, source=source) + "\n"


def _summary(outcomes: Outcomes) -> str:
    counts: Sequence[str] = [f"{count} {outcome}" for outcome, count in outcomes.counts() if count]
    return f"{len(outcomes.found)} keys: {', '.join(counts)}"


def _assignment(one: KeyOutcome) -> str:
    return f"{one.key}={one.value}" if one.key else "(empty)"


def _row(one: KeyOutcome) -> str:
    cells = (str(one.place.line), one.section, one.key, one.value, str(one.outcome), one.text)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _function(name: str) -> str:
    return (
        "".join(one if one.isascii() and (one.isalnum() or one == "_") else "_" for one in name)
        .lower()
        .lstrip("0123456789")
        or "head"
    )
