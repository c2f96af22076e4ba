"""The contract of engines, as a test class that any kind of engine can be put through.

    class TestMyEngine(EngineConformance):
        kind = MY_ENGINE

An assertion that fails says in a sentence which promise was broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sightline.errors import ModelError
from sightline_plugins.engines.kinds import EngineKind
from sightline_plugins.engines.opening import open_file
from sightline_plugins.engines.protocol import Array, Engine
from sightline_plugins.preprocess.definition import ImageForm

SIZE_WH = (12, 10)
_COUNT = 24


_MORE_THAN_REQUESTS = 20


class EngineConformance:
    """Tests of the `Engine` contract. A subclass sets `kind`; pytest collects it by its name.

    `tolerance` is how far results may be from float64, as a share of the largest value.
    """

    kind: ClassVar[EngineKind]
    concurrency: ClassVar[int] = 2
    tolerance: ClassVar[float] = 1e-4

    def test_inputs_and_outputs_are_those_of_the_file(self) -> None:
        """Names, shapes and types are known before anything is computed."""
        with self.opened() as engine:
            assert [str(spec) for spec in engine.inputs] == ["x float32 (1, 3, 10, 12)"]
            assert [str(spec) for spec in engine.outputs] == ["y float32 (1, 4, 10, 12)"]
            assert engine.name == self.kind.name, "the engine has another name than its kind"
            assert engine.report["engine"] == self.kind.name, "the report names another engine"

    def test_results_are_right_and_come_in_order(self) -> None:
        """Images that are submitted at once give each its own result."""
        given = self.images()
        with self.opened() as engine:
            pending = [engine.submit((image,)) for image in given]
            for image, work in zip(given, pending, strict=True):
                self.assert_right(image, work.result()[0])

    def test_a_result_does_not_depend_on_what_else_is_computed(self) -> None:
        """The same image gives the same bits, alone and among others."""
        given = self.images()
        with self.opened() as engine:
            together = [work.result()[0] for work in [engine.submit((image,)) for image in given]]
            for image, found in zip(given, together, strict=True):
                assert np.array_equal(engine.submit((image,)).result()[0], found), "a result depends on other images"

    def test_results_belong_to_the_caller(self) -> None:
        """The engine does not write to a result, of which somebody holds a part, and keeps none after its end."""
        first, *others = self.images()
        with self.opened() as engine:
            kept = engine.submit((first,)).result()[0].reshape(-1)[:-1]
            copied = kept.copy()
            for image in others * _MORE_THAN_REQUESTS:
                engine.submit((image,)).result()
        assert np.array_equal(kept, copied), "a result was overwritten"
        kept += 1

    def test_inputs_are_only_read(self) -> None:
        """Read-only arrays are enough, and stay as they are."""
        image = self.images()[0]
        copied = image.copy()
        image.flags.writeable = False
        with self.opened() as engine:
            engine.submit((image,)).result()
        assert np.array_equal(image, copied), "an input was changed"

    def test_a_result_may_be_collected_again_and_by_another_thread(self) -> None:
        """`result` gives the same arrays each time."""
        with self.opened() as engine, ThreadPoolExecutor(1) as other:
            work = engine.submit((self.images()[0],))
            (found,) = other.submit(work.result).result()
            assert np.array_equal(work.result()[0], found), "a second call gave another result"

    def test_results_that_nobody_collects_block_nothing(self) -> None:
        """More images than are computed at once can be submitted without collecting."""
        with self.opened() as engine:
            for image in self.images() * 4:
                last = engine.submit((image,))
            last.result()

    def test_wrong_inputs_are_refused(self) -> None:
        """Count, shape, type and memory layout."""
        image = self.images()[0]
        with self.opened() as engine:
            for wrong in (
                (),
                (image, image),
                (image[:, :2],),
                (image.astype(np.float64),),
                (np.asfortranarray(image),),
            ):
                shapes = [f"{one.dtype} {one.shape}" for one in wrong]
                assert _refused(engine, wrong), f"the engine took inputs that do not fit: {shapes}"

    def test_a_closed_engine_takes_nothing(self) -> None:
        """`close` may be called again."""
        with self.opened() as engine:
            engine.close()
            engine.close()
            assert _refused(engine, (self.images()[0],)), "a closed engine took an image"

    def test_images_are_taken_in_the_form_that_was_asked_for(self) -> None:
        """Layout, type and normalization are part of the graph."""
        form = ImageForm(mean=(10.0, 20.0, 30.0), scale=(0.5, 0.25, 0.125))
        levels = np.random.default_rng(1).integers(0, 256, (1, SIZE_WH[1], SIZE_WH[0], 3), dtype=np.uint8)
        values = ((levels.astype(np.float64) - form.mean) * form.scale).transpose(0, 3, 1, 2)
        with self.opened(image=form) as engine:
            self.assert_right(values, engine.submit((levels,)).result()[0])

    def test_a_graph_that_cannot_be_computed_is_refused(self) -> None:
        """The error names the model."""
        model = _network()
        model.graph.node[0].op_type = "NoSuchOperator"
        reason = None
        try:
            self.open(model).close()
        except ModelError as error:
            reason = str(error)
        assert reason is not None, "an unknown operator was taken"
        assert "model" in reason, "the message does not name the model"

    @contextmanager
    def opened(self, *, image: ImageForm | None = None) -> Iterator[Engine]:
        """Open the network of the tests."""
        engine = self.open(_network(), image=image)
        try:
            yield engine
        finally:
            engine.close()

    def open(self, model: onnx.ModelProto, *, image: ImageForm | None = None) -> Engine:
        """Open a model with the kind under test."""
        assert self.kind.library is not None, f"{self.kind.name} computes no files on the host"
        library = self.kind.library(self.concurrency, "cpu")
        return open_file(model.SerializeToString(), library=library, image=image)

    def images(self) -> list[Array]:
        """Return different inputs of the network."""
        random = np.random.default_rng(0)
        return [random.standard_normal((1, 3, SIZE_WH[1], SIZE_WH[0])).astype(np.float32) for _ in range(_COUNT)]

    def assert_right(self, image: Array, found: Array) -> None:
        """Compare a result with one that NumPy computes in float64."""
        expected = _expected(image)
        assert found.shape == expected.shape, f"the result has the shape {found.shape}, not {expected.shape}"
        error = np.abs(found - expected).max() / np.abs(expected).max()
        assert error <= self.tolerance, f"the result is off by {error:.2g} of its largest value"


def _refused(engine: Engine, inputs: tuple[Array, ...]) -> bool:
    try:
        engine.submit(inputs).result()
    except ModelError:
        return True
    return False


def _weights() -> tuple[Array, Array]:
    random = np.random.default_rng(7)
    return random.standard_normal((4, 3, 3, 3)).astype(np.float32), random.standard_normal(4).astype(np.float32)


def _network() -> onnx.ModelProto:
    """A convolution of 3 x 3 and its positive part: "y" of "x"."""
    weights = [numpy_helper.from_array(values, name) for values, name in zip(_weights(), ("w", "b"), strict=True)]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    ports = [
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, channels, SIZE_WH[1], SIZE_WH[0]))]
        for name, channels in (("x", 3), ("y", 4))
    ]
    graph = helper.make_graph(nodes, "conformance", *ports, initializer=weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _expected(image: Array) -> Array:
    weights, bias = (values.astype(np.float64) for values in _weights())
    padded = np.pad(image.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    made: Array = np.maximum(np.einsum("nchwij,ocij->nohw", windows, weights) + bias[:, None, None], 0)
    return made
