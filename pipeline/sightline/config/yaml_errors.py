"""What the YAML reader's errors mean, in plain words and with what to do."""

from __future__ import annotations

from ruamel.yaml.error import MarkedYAMLError, StringMark


def explain(error: MarkedYAMLError, text: str) -> str:
    """One sentence for a syntax error: what is wrong where the reader stopped, and the usual remedy."""
    problem, context = str(error.problem or ""), str(error.context or "")
    stopped = _character(error.problem_mark, text)
    if stopped == "\t":
        return "a tab stands here: YAML is indented with spaces only"
    if "cannot start any token" in problem:
        return f"a text cannot start with {stopped!r}: put it in quotes"
    if "mapping values are not allowed" in problem:
        return (
            "a colon is not expected here: check the indentation of this line and the one before, "
            "and put texts that hold ': ' in quotes"
        )
    if "sequence entries are not allowed" in problem:
        return "a list entry is not expected here: check the indentation; standard output is written '-', in quotes"
    if "unexpected end of stream" in problem or "quoted scalar" in context:
        missing = "end of stream" in problem
        return "the closing quote of a text is missing" if missing else f"{problem}: put the text in '...' instead"
    if "flow" in context:
        if "${" in text.split("\n")[error.problem_mark.line if error.problem_mark is not None else 0]:
            return 'inside { } or [ ] a reference stands in quotes: "${NAME}"'
        opened = f" (opened in line {error.context_mark.line + 1})" if error.context_mark is not None else ""
        return f"a comma or the closing bracket of {'[' if 'sequence' in context else '{'} is missing{opened}"
    if "block" in context:
        return (
            "this does not fit what stands before it: check the indentation, "
            "and put texts that start with { or [ in quotes"
        )
    return f"is not valid YAML: {problem or context}"


def _character(mark: StringMark | None, text: str) -> str:
    if mark is None:
        return ""
    lines = text.split("\n")
    return lines[mark.line][mark.column : mark.column + 1] if mark.line < len(lines) else ""
