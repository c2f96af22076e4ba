"""`callback`: call a user-defined function with each frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, cast

from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Element, Problem, Sink, Site
from sightline.media import Batch, FrameView
from sightline_plugins.functions.loading import below_base, load_function

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
    """Call a function with each frame and what was found on it, in order; what it returns is not used.

    The function gets a `FrameView` (`stream`, `index`, `pts_seconds`, `objects`, `events`, `rgb()`). It runs in the
    pipeline's own thread, so everything waits while it does; what it raises stops the pipeline with the name of this
    step. From Python, iterating the pipeline or a probe does the same without an element.

    A function given in Python is written to YAML by its module and name, and has to be found there again.

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
    ]
    """`package.module:function`, `file.py:function` or, from Python, the function itself."""

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """The module can be imported and holds the function."""
        del context
        try:
            self._load()
        except ConfigurationError as error:
            yield Problem(str(error), ("function",))

    def build(self, site: Site) -> CallbackSink:
        """Import the function. Raises ConfigurationError."""
        del site
        return CallbackSink(self._load())

    def _load(self) -> FrameFunction:
        if isinstance(self.function, str):
            return cast("FrameFunction", load_function(self.function))
        return self.function


class CallbackSink(Sink):
    """Hands each frame to a function."""

    def __init__(self, function: FrameFunction) -> None:
        self._function = function

    def consume(self, batch: Batch) -> None:
        """Call the function with each frame of the batch."""
        for view in batch:
            self._function(view)
