"""The list of steps: names, options, and the two structures that nest."""

from __future__ import annotations

from typing import ClassVar

from sightline.config.document import Entry, Items, Key, LocatedProblem, Node, Place, Scalar, Table, unknown
from sightline.config.validation import Validator
from sightline.errors import ConfigurationError
from sightline.graph.element import Capability, Element
from sightline.graph.registry import Registry
from sightline.graph.tree import Parallel, Step, Tee

_STRUCTURES: dict[str, type[Tee] | type[Parallel]] = {"tee": Tee, "parallel": Parallel}


class UnreadStep(Element):
    """Stands where a step has mistakes, so that the steps after it can be checked all the same."""

    name: ClassVar[str] = "?"
    gives: ClassVar[frozenset[Capability]] = frozenset(Capability)


class StepParser:
    """Makes steps of nodes; what is wrong is noted in the validator's problems."""

    def __init__(self, registry: Registry, validator: Validator) -> None:
        self._registry = registry
        self._validator = validator

    def steps(self, node: Node, *, key: Key) -> tuple[Step, ...]:
        """The steps of a list, in order; a wrong one becomes an `UnreadStep`."""
        if isinstance(node, Items):
            return tuple(self.step(item, key=(*key, number)) for number, item in enumerate(node.items))
        if not (isinstance(node, Scalar) and node.value is None):
            self._problem(node.place, key, "must be a list of steps, each starting with `- `")
        return ()

    def step(self, node: Node, *, key: Key) -> Step:
        """One step; a wrong one becomes an `UnreadStep`."""
        if isinstance(node, Scalar) and node.variables:
            self._problem(node.place, key, "the name of a step cannot come from the environment: write it here")
            return UnreadStep()
        if isinstance(node, Scalar) and isinstance(node.value, str):
            return self._named(node.value, Entry(node.place, Table(node.place)), key)
        if isinstance(node, Table) and len(node.entries) == 1:
            name, entry = next(iter(node.entries.items()))
            return self._named(name, entry, key)
        if isinstance(node, Table) and node.entries:
            self._several(node, key)
        else:
            self._problem(node.place, key, "a step is the name of an element, or its name with options below it")
        return UnreadStep()

    def _named(self, name: str, entry: Entry, key: Key) -> Step:
        if name in _STRUCTURES:
            return self._structure(_STRUCTURES[name], entry, (*key, name))
        try:
            element = self._registry.element(name)
        except ConfigurationError as error:
            known = [*self._registry.element_names, *_STRUCTURES]
            message = str(error) if name in self._registry.element_names else unknown("element", name, known)
            self._problem(entry.key_place, (*key, name), message)
            return UnreadStep()
        options = self._options(element, entry, (*key, name))
        if options is None:
            return UnreadStep()
        step = self._validator.model(element, options, key=(*key, name), place=entry.key_place)
        return step or UnreadStep()

    def _options(self, element: type[Element], entry: Entry, key: Key) -> Node | None:
        node = entry.node
        if isinstance(node, Table):
            return node
        if isinstance(node, Scalar) and node.value is None:
            return Table(node.place)
        if element.scalar is not None:
            return Table(node.place, {element.scalar: Entry(entry.key_place, node)})
        self._problem(node.place, key, "takes options, as `key: value` lines indented below it")
        return None

    def _structure(self, structure: type[Tee] | type[Parallel], entry: Entry, key: Key) -> Step:
        node = entry.node
        if not isinstance(node, Table) or not node.entries:
            place = node.place if isinstance(node, Items) else entry.key_place
            self._problem(place, key, "takes branches by name, each a list of steps: {left: [...], right: [...]}")
            return UnreadStep()
        branches = {}
        for name, branch in node.entries.items():
            branches[name] = self.steps(branch.node, key=(*key, name))
            if isinstance(branch.node, Scalar | Items) and not branches[name]:
                self._problem(branch.key_place, (*key, name), "this branch has no steps: add some, or leave it out")
        return structure(branches=branches)

    def _several(self, node: Table, key: Key) -> None:
        known = {*self._registry.element_names, *_STRUCTURES}
        names = [name for name in node.entries if name in known]
        if len(names) == 1:
            for name, entry in node.entries.items():
                if name != names[0]:
                    message = f"stands beside {names[0]!r}: indent it further, so that it is an option of it"
                    self._problem(entry.key_place, (*key, name), message)
            return
        second = list(node.entries.values())[1].key_place
        self._problem(second, key, "holds several steps in one entry of the list: start each with `- `")

    def _problem(self, place: Place, key: Key, message: str) -> None:
        self._validator.problems.append(LocatedProblem(place, key, message))
