"""The file that a pipeline comes from: it is read, and what was changed meanwhile is written back to it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import BaseModel

from sightline.config.document import InvalidConfiguration
from sightline.config.load import LoadedDescription, load
from sightline.config.yaml_tree import read_file
from sightline.errors import ConfigurationError, OutputError, StaleConfiguration
from sightline.graph.element import Element
from sightline.graph.fields import PathRole, is_file_name, role_of
from sightline.graph.outputs import Outputs
from sightline.graph.registry import Registry
from sightline.graph.tree import PipelineDescription, Step

_MARK = "\ufeff"


class ConfigurationFile:
    """A YAML file with a pipeline, and what the command line changes in it. From any thread.

    `read` returns what it describes now. `write` brings it to what a description is that was made from that: comments,
    order, anchors, references to the environment and relative paths stay, and so does everything that has not changed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sources: Sequence[str] = (),
        overrides: Sequence[str] = (),
        device: str | None = None,
        outputs: Outputs | None = None,
        registry: Registry | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Arguments are those of `load_description`."""
        self.path = Path(path)
        self._overrides: dict[str, Any] = {"sources": sources, "overrides": overrides, "device": device}
        self._outputs = outputs
        self._environment = os.environ if environment is None else environment
        self._registry = registry or Registry()
        self._lock = Lock()
        self._text: str | None = None
        self._description: PipelineDescription | None = None
        self._given_names: Mapping[str, str] = {}

    @property
    def description(self) -> PipelineDescription | None:
        """What it described when it was read or written last; None before."""
        return self._description

    def has_changed(self) -> bool:
        """Whether the file is not there, or holds another text than when it was read or written last."""
        with self._lock:
            try:
                return read_file(self.path, name=str(self.path)) != self._text
            except InvalidConfiguration:
                return True

    def read(self) -> PipelineDescription:
        """Return what it describes now. Raises InvalidConfiguration with every mistake."""
        with self._lock:
            return self._read(read_file(self.path, name=str(self.path)))

    def text(self, description: PipelineDescription) -> str:
        """Return the text that was read last, brought to what a description is that was made from it. Raises
        ConfigurationError when nothing was read, or the file cannot hold the change.
        """
        with self._lock:
            if self._text is None or self._description is None:
                raise ConfigurationError(f"{self.path} was not read: read it first")
            return self._rewritten(self._text, self._description, description)

    def write(self, description: PipelineDescription) -> bool:
        """Write what differs between a description and what the file described when it was read; return whether that is
        anything. The file is written beside, and then renamed; its permissions stay.

        Raises StaleConfiguration when somebody has changed the file since it was read, ConfigurationError when the file
        cannot hold the change, and OutputError when it cannot be written. The file is then as it was.
        """
        with self._lock:
            if self._text is None or self._description is None:
                raise ConfigurationError(f"{self.path} was not read: read it before it is written")
            if read_file(self.path, name=str(self.path)) != self._text:
                raise StaleConfiguration(
                    f"{self.path} has changed since it was read, and is not written over: reload it, or undo that"
                )
            text = self._rewritten(self._text, self._description, description)
            if text == self._text:
                return False
            _replace(self.path, text)
            self._text, self._description = text, description
            return True

    def _read(self, text: str) -> PipelineDescription:
        loaded = self._load(text)
        self._text, self._description, self._given_names = text, loaded.description, loaded.given_names
        return loaded.description

    def _load(self, text: str) -> LoadedDescription:
        return load(
            self.path,
            text=text,
            outputs=self._outputs,
            registry=self._registry,
            environment=self._environment,
            **self._overrides,
        )

    def _rewritten(self, text: str, before: PipelineDescription, after: PipelineDescription) -> str:
        """Return the text with what has changed. Raises ConfigurationError when it would not be read as that."""
        from sightline.config.text_tree import CannotEdit
        from sightline.config.write_back import Rewriting

        old, wanted = self._written(before), self._written(after)
        different: list[str] = []
        mistakes: InvalidConfiguration | None = None
        for whole_steps in (False, True):
            try:
                rewriting = Rewriting(
                    text, environment=self._environment, short_field=self._short_field, whole_steps=whole_steps
                )
                new = rewriting.text(old, wanted, given_names=self._given_names)
                loaded = self._load(new)
            except CannotEdit:
                continue
            except InvalidConfiguration as error:
                mistakes = error
                continue
            found = self._written(loaded.description)
            different = [name for name in {**wanted, **found} if wanted.get(name) != found.get(name)]
            if not different:
                self._given_names = loaded.given_names
                return new
        if mistakes is not None:
            message = f"{self.path} would hold mistakes after the change, and stays: {mistakes}"
            raise ConfigurationError(message) from mistakes
        given = [*self._overrides["sources"], *self._overrides["overrides"], self._overrides["device"] or ""]
        why = "what the command line gives goes before the file" if any(given) else "write it there yourself"
        raise ConfigurationError(f"{self.path} cannot hold the change of {', '.join(different) or 'its form'}: {why}")

    def _short_field(self, name: str) -> str | None:
        return self._registry.element(name).scalar if name in self._registry.element_names else None

    def _written(self, description: PipelineDescription) -> dict[str, Any]:
        """Return a description in the form of the file: inputs below its folder are relative to it."""
        folder = f"{self.path.absolute().parent}{os.sep}"
        plain = description.to_plain()
        for name, options in plain["sources"].items():
            _shorten(options, description.sources[name], folder)
            if "uri" in options:
                plain["sources"][name] = {"uri": options.pop("uri"), **options}
        _shorten_steps(plain["pipeline"], description.steps, folder)
        return {name: value for name, value in plain.items() if name != "sources_file"}


def _shorten_steps(plain: list[dict[str, Any]], steps: Sequence[Step], folder: str) -> None:
    for written, step in zip(plain, steps, strict=True):
        if isinstance(step, Element):
            _shorten(written[step.name], step, folder)
        else:
            for name, branch in step.branches.items():
                _shorten_steps(written[step.name][name], branch, folder)


def _shorten(options: dict[str, Any], model: BaseModel, folder: str) -> None:
    for name, field in type(model).model_fields.items():
        key = field.alias or name
        if key in options and (role := role_of(field)) in (PathRole.INPUT, PathRole.INPUT_URI):
            kind = Path if role is PathRole.INPUT else str
            options[key] = _shortened(getattr(model, name), options[key], folder, kind=kind)


def _shortened(value: object, written: Any, folder: str, *, kind: type) -> Any:
    """Return what is written for a value, with paths relative to a folder; what is no path (`kind`) as it is."""
    if isinstance(value, tuple | list):
        return [_shortened(one, plain, folder, kind=kind) for one, plain in zip(value, written, strict=True)]
    if not isinstance(value, kind) or not is_file_name(str(value)):
        return written
    return str(Path.cwd() / str(value)).removeprefix(folder)


def _replace(path: Path, text: str) -> None:
    """Write a file beside another one, and put it in its place. Raises OutputError."""
    import tempfile

    target = path.resolve()
    try:
        with target.open("rb") as before:
            has_mark = before.read(3).startswith(_MARK.encode())
            status = os.fstat(before.fileno())
        number, beside = tempfile.mkstemp(prefix=".sightline-", dir=target.parent)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(((_MARK if has_mark else "") + text).encode())
                file.flush()
                os.fchmod(file.fileno(), status.st_mode & 0o7777)
                with suppress(PermissionError):  # only root may give files away
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fsync(file.fileno())
            Path(beside).replace(target)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{path} cannot be written: {reason}", reason=reason) from error
