"""`apply`: call a user function with each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, ClassVar, cast

from pydantic import AfterValidator

from sightline.errors import OperatorError
from sightline.graph import CheckContext, Element, Operator, Problem, Site
from sightline.graph.fields import Reach
from sightline.media import Batch
from sightline_plugins.functions.loading import below_base, function_problems, load_function

BatchFunction = Callable[[Batch], Batch | None]


class Apply(Element):
    """Call a user function with each batch: the shortest way to add custom code to a pipeline.

    The function takes a `Batch` and returns a changed one, made with its `with_...` methods (the frames must stay the
    same in number and order), or None to leave it unchanged. It runs in the pipeline's own thread, so everything waits
    while it runs; an exception stops the pipeline with the name of this step. State that it keeps between batches is
    shared by all streams: write an element for state per stream.

    The module is imported like any Python module (an installed package, or `PYTHONPATH`). A file is relative to the
    YAML file.

    ```yaml
    - apply: {function: "my_package.my_module:only_large_objects"}
    ```
    """

    name: ClassVar[str] = "apply"
    scalar: ClassVar[str | None] = "function"

    function: Annotated[str, AfterValidator(below_base), Reach.CODE]
    """`package.module:function`, or `file.py:function`."""

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that the function can be imported."""
        del context
        yield from function_problems(self.function, key="function")

    def found_labels(self) -> frozenset[str] | None:
        """Return None: the function may add objects and rename classes."""
        return None

    def reason_against_processes(self) -> str | None:
        """The function may keep state, which each process would have for itself."""
        return "its function may keep state of all streams"

    def serves_all_gpus(self) -> bool:
        """Return True: the function may keep state of all streams, and is called from one thread at a time."""
        return True

    def build(self, site: Site) -> ApplyOperator:
        """Import the function. Raises ConfigurationError."""
        return ApplyOperator(cast("BatchFunction", load_function(self.function)), reference=self.function, site=site)


class ApplyOperator(Operator):
    """Passes each batch through a function."""

    def __init__(self, function: BatchFunction, *, reference: str, site: Site) -> None:
        self._function = function
        self._reference = reference
        self._element_id = site.element_id

    def process(self, batch: Batch) -> Batch:
        """Return what the function returns, or the batch unchanged. Raises OperatorError for any other value."""
        result = self._function(batch)
        if result is None:
            return batch
        if not isinstance(result, Batch):
            raise self._refused(f"returned {type(result).__name__}, not a Batch or None")
        before, after = ([(frame.stream, frame.index) for frame in some.frames] for some in (batch, result))
        if before != after:
            raise self._refused("returned other frames: they must stay the same in number and order")
        return result

    def _refused(self, what: str) -> OperatorError:
        return OperatorError(f"{self._reference} {what}", element=self._element_id)
