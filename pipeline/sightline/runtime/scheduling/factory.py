"""Build the operators of a run, and release them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from sightline.devices import Device
from sightline.errors import OperatorError, SightlineError
from sightline.graph import Element, Operator, Site
from sightline.graph.fields import PathRole, paths_of
from sightline.graph.live_options import live_keys
from sightline.redaction import redact
from sightline.runtime.scheduling.node import ErrorPolicy, Node, Probe, SharedNode, StreamFailed
from sightline.runtime.scheduling.rule_findings import EventListener
from sightline.runtime.state.keeper import StateKeeper

_Files = dict[tuple[str, ...], tuple[tuple[str, int, int] | None, ...]]
"""The state of the files that an element reads, by the key paths of the options that name them."""


@dataclass(frozen=True, slots=True)
class BuiltOperator:
    """A node, and the state of the files that its element reads when it was built."""

    node: Node
    files: _Files

    def is_current(self, element: Element) -> bool:
        """Whether building this element now would give the same: neither it nor the files that it reads have
        changed.
        """
        return self.node.element == element and self.files == _files_of(element)

    def can_become(self, element: Element) -> bool:
        """Whether the operator can take over the options of this element; files have changed at most in options that
        change live.
        """
        if not self.node.can_become(element):
            return False
        live, now = live_keys(type(element)), _files_of(element)
        return all(self.files.get(key) == now.get(key) for key in self.files | now if key[0] not in live)

    def changed_into(self, element: Element) -> BuiltOperator:
        """Return it after its operator has taken over the options of this element."""
        return BuiltOperator(self.node, _files_of(element))


class OperatorFactory:
    """Builds the nodes of elements. `probes` may be added to while they run. `on_error` gets errors of releasing a
    node, `on_hopeless` the streams on which an element fails again and again, `on_events` what their rules report,
    `keeper` what operators keep over a restart.
    """

    def __init__(
        self,
        *,
        probes: dict[str, list[Probe]],
        on_error: Callable[[BaseException], None],
        on_hopeless: StreamFailed,
        on_events: EventListener | None = None,
        keeper: StateKeeper | None = None,
    ) -> None:
        self._on_events = on_events
        self._keeper = keeper
        self._on_hopeless = on_hopeless
        self._probes = probes
        self._probing: dict[str, Lock] = {}
        self._on_error = on_error

    def build(
        self, elements: Iterable[tuple[str, Element]], *, sites: Sequence[Site]
    ) -> list[dict[str, BuiltOperator]]:
        """Build the nodes of these elements, by id, for the lane of each site. Raises SightlineError, with nothing left
        open.
        """
        built: list[dict[str, BuiltOperator]] = [{} for _ in sites]
        try:
            for element_id, element in elements:
                files = _files_of(element)
                if len(sites) > 1 and element.serves_all_gpus():
                    shared = BuiltOperator(self._shared_node(element_id, element, sites=sites), files)
                    for own in built:
                        own[element_id] = shared
                else:
                    for own, site in zip(built, sites, strict=True):
                        own[element_id] = BuiltOperator(self._node(element_id, element, site=site), files)
        except BaseException:
            self.discard(built)
            raise
        return built

    def discard(self, built: Iterable[Mapping[str, BuiltOperator]]) -> None:
        """Release nodes that no stage holds, lane by lane."""
        for own in built:
            for one in own.values():
                try:
                    one.node.discard()
                except OperatorError as error:
                    self._on_error(error)

    def _node(self, element_id: str, element: Element, *, site: Site) -> Node:
        own = replace(site, element_id=element_id)
        return Node(
            element,
            _operator(element, own),
            element_id=element_id,
            probes=self._probes.setdefault(element_id, []),
            probing=self._probing.setdefault(element_id, Lock()),
            error_policy=self._error_policy(element, own),
            on_events=self._on_events,
            keeper=self._keeper,
        )

    def _shared_node(self, element_id: str, element: Element, *, sites: Sequence[Site]) -> SharedNode:
        own = replace(sites[0], element_id=element_id, device=Device(), gpu=None)
        return SharedNode(
            element,
            _operator(element, own),
            element_id=element_id,
            probes=self._probes.setdefault(element_id, []),
            lanes=len(sites),
            error_policy=self._error_policy(element, own),
            on_events=self._on_events,
            keeper=self._keeper,
        )

    def _error_policy(self, element: Element, site: Site) -> ErrorPolicy | None:
        if element.on_error == "stop":
            return None
        return ErrorPolicy(site=site, is_sink=element.sink, on_hopeless=self._on_hopeless)


def _operator(element: Element, site: Site) -> Operator:
    try:
        return element.build(site)
    except SightlineError:
        raise
    except Exception as error:
        message = f"element {site.element_id!r} cannot be built: {redact(f'{type(error).__name__}: {error}')}"
        raise OperatorError(message, element=site.element_id) from error


def _files_of(element: Element) -> _Files:
    found: _Files = {}
    for key, role, path in paths_of(element):
        if role is PathRole.INPUT:
            found[key] = (*found.get(key, ()), _state(path))
    return found


def _state(path: str) -> tuple[str, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  the paths of elements are texts
    except OSError:
        return None
    return path, found.st_mtime_ns, found.st_size
