"""`callback`: call a user function with each frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, cast

from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from sightline.graph import CheckContext, Element, Problem, Sink, Site
from sightline.graph.fields import Reach
from sightline.media import Batch, FrameView
from sightline_plugins.functions.loading import below_base, function_problems, load_function

FrameFunction = Callable[[FrameView], object]


def _function_or_reference(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        return below_base(value, info)
    if not callable(value):
        raise ValueError("must be package.module:function or, from Python, a function")
    return value


def _reference(value: Any) -> str:
    return value if isinstance(value, str) else f"{value.__module__}:{value.__qualname__}"


class Callback(Element):
    """Call a user function with each frame and its results, in order; the return value is ignored.

    The function gets a `FrameView` (`stream`, `index`, `pts_seconds`, `objects`, `events`, `rgb()`). It runs in the
    pipeline's own thread, so everything waits while it runs; an exception stops the pipeline with the name of this
    step. In Python, iterating over the pipeline or a probe does the same without an element.

    A function given in Python is written to YAML as module and name, and must be importable by these.

    ```yaml
    - callback: {function: "my_package.alarms:on_frame"}
    ```
    """

    name: ClassVar[str] = "callback"
    sink: ClassVar[bool] = True
    scalar: ClassVar[str | None] = "function"

    function: Annotated[
        str | FrameFunction,
        PlainValidator(_function_or_reference),
        PlainSerializer(_reference, return_type=str),
        WithJsonSchema({"type": "string", "examples": ["package.module:function", "file.py:function"]}),
        Reach.CODE,
    ]
    """`package.module:function`, `file.py:function` or, in Python, the function itself."""

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check that the function can be imported."""
        del context
        if isinstance(self.function, str):
            yield from function_problems(self.function, key="function")

    def build(self, site: Site) -> CallbackSink:
        """Import the function. Raises ConfigurationError."""
        del site
        function = self.function
        return CallbackSink(cast("FrameFunction", load_function(function)) if isinstance(function, str) else function)


class CallbackSink(Sink):
    """Passes each frame to a function."""

    def __init__(self, function: FrameFunction) -> None:
        self._function = function

    def consume(self, batch: Batch) -> None:
        for view in batch:
            self._function(view)
