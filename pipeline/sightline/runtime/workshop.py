"""The workshop: where the operators of a run are built, and let go of."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sightline.errors import OperatorError, SightlineError
from sightline.graph import Element, Operator, Site
from sightline.graph.fields import PathRole, paths_of
from sightline.redaction import redact
from sightline.runtime.node import Node, Probe
from sightline.runtime.tolerance import Hopeless, Tolerance

_Files = tuple[tuple[str, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """A node, and the state in which the files that its element reads were when it was built."""

    node: Node
    files: _Files

    def is_still(self, element: Element) -> bool:
        """Whether building this element now would make the same: it is equal, and so are the files that it reads."""
        return self.node.element == element and self.files == _files_of(element)


class Workshop:
    """Builds the nodes of elements; `probes` may get more while they run. What goes wrong when something is let go of
    goes to `on_error`, a stream on which a step fails again and again to `hopeless`.
    """

    def __init__(
        self,
        *,
        site: Callable[[str], Site],
        probes: dict[str, list[Probe]],
        on_error: Callable[[BaseException], None],
        hopeless: Hopeless,
    ) -> None:
        self._hopeless = hopeless
        self._site = site
        self._probes = probes
        self._on_error = on_error

    def build(self, elements: Iterable[tuple[str, Element]]) -> dict[str, Made]:
        """The nodes of these elements by id. Raises SightlineError, with nothing left open."""
        built: dict[str, Made] = {}
        try:
            for element_id, element in elements:
                files = _files_of(element)
                operator = self._operator(element_id, element)
                node = Node(
                    element,
                    operator,
                    element_id=element_id,
                    probes=self._probes.setdefault(element_id, []),
                    tolerance=self._tolerance(element_id, element),
                )
                built[element_id] = Made(node, files)
        except BaseException:
            self.discard(built)
            raise
        return built

    def discard(self, made: Mapping[str, Made]) -> None:
        """Let go of nodes that no stage holds."""
        for one in made.values():
            try:
                one.node.release()
            except OperatorError as error:
                self._on_error(error)

    def _tolerance(self, element_id: str, element: Element) -> Tolerance | None:
        if element.on_error == "stop":
            return None
        return Tolerance(site=self._site(element_id), hopeless=self._hopeless)

    def _operator(self, element_id: str, element: Element) -> Operator:
        try:
            return element.build(self._site(element_id))
        except SightlineError:
            raise
        except Exception as error:
            message = f"element {element_id!r} can not be built: {redact(f'{type(error).__name__}: {error}')}"
            raise OperatorError(message, element=element_id) from error


def _files_of(element: Element) -> _Files:
    return tuple(_state(path) for _, role, path in paths_of(element) if role is PathRole.INPUT)


def _state(path: str) -> tuple[str, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  the paths of elements are texts
    except OSError:
        return None
    return path, found.st_mtime_ns, found.st_size
