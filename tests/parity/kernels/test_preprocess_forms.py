"""The forms in which the kernel writes the network's input."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import PixelFormat
from sightline_plugins.preprocess.cuda import SOURCE, Layout, TensorForm, pack, preprocess
from sightline_plugins.preprocess.definition import Preprocessing
from tests.fakes import ORDERS, HostKernels, Order
from tests.parity.kernels.images import inputs, noise, view
from tests.unit.cuda.host_arrays import HostArray, dense, unset

WHOLE = (0.0, 0.0, 1.0, 1.0)
DEFINITION = Preprocessing((64, 48), mean=(123.7, 116.3, 103.5), scale=(58.4, 57.1, 57.4), pad=(114, 7, 200))
SURFACE = noise(PixelFormat.NV12, (131, 77))
PART = (SURFACE, DEFINITION.place_fractions(WHOLE, SURFACE))


def normalised(definition: Preprocessing) -> npt.NDArray[np.float64]:
    """What the definition makes of the levels, (1, height, width, 3), in double precision."""
    levels = inputs([PART], Preprocessing(definition.size_wh, color=definition.color, pad=definition.pad, scale=(1.0,)))
    return np.asarray((levels.astype(float) - definition.mean) / definition.scale)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 1e-6), (np.float16, 1e-3)])
def test_floats_are_normalised_levels(layout: Layout, dtype: type[np.floating], error: float) -> None:
    prepared = inputs([PART], DEFINITION, form=TensorForm(layout, np.dtype(dtype)))

    expected = normalised(DEFINITION)
    assert prepared.dtype == dtype
    assert np.allclose(
        prepared, expected.transpose(0, 3, 1, 2) if layout == "nchw" else expected, rtol=error, atol=error
    )


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    ("dtype", "quantum", "zero_point"), [(np.int8, 0.02, -3), (np.uint8, 0.03, 90), (np.int8, 1, 0)]
)
def test_whole_numbers_are_the_nearest_quanta_and_never_wrap(
    layout: Layout, dtype: type[np.integer], quantum: float, zero_point: int
) -> None:
    prepared = inputs([PART], DEFINITION, form=TensorForm(layout, np.dtype(dtype), quantum, zero_point))

    limits = np.iinfo(dtype)
    expected = np.clip(np.rint(normalised(DEFINITION) / quantum) + zero_point, limits.min, limits.max)
    expected = expected.transpose(0, 3, 1, 2) if layout == "nchw" else expected
    assert np.abs(prepared - expected).max() <= 1
    assert np.mean(prepared != expected) < 0.001


def test_the_network_sees_what_the_engine_folds_into_a_graph_on_the_cpu() -> None:
    form = DEFINITION.image_form()

    prepared = inputs([PART], DEFINITION, form=TensorForm("nhwc"))

    levels = inputs([PART], Preprocessing((64, 48), pad=DEFINITION.pad, scale=(1.0,)))
    mean, factor = np.array(form.mean, np.float32), np.array(form.scale, np.float32)
    folded = (levels.astype(np.float32) - mean) * factor
    assert np.array_equal(prepared, folded)


def test_one_channel_takes_one_mean_scale_and_pad() -> None:
    definition = Preprocessing((64, 48), color="gray", mean=(10.0,), scale=(2.0,), pad=(20,))

    prepared = inputs([PART], definition, form=TensorForm("nchw"))

    assert prepared.shape == (1, 1, 48, 64)
    assert prepared[0, 0, 0, 0] == 5.0


def test_reversed_colors_are_normalised_in_their_own_order() -> None:
    definition = Preprocessing((64, 48), color="bgr", mean=(1.0, 2.0, 3.0), scale=(4.0, 5.0, 6.0))
    rgb = inputs([PART], Preprocessing((64, 48), scale=(1.0,)))

    prepared = inputs([PART], definition, form=TensorForm("nhwc"))

    assert np.allclose(prepared, (rgb[..., ::-1].astype(float) - [1, 2, 3]) / [4, 5, 6])


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_in_which_threads_run_does_not_matter(order: Order) -> None:
    ordered = inputs([PART, PART], DEFINITION, kernels=HostKernels(SOURCE, order=order))

    assert np.array_equal(ordered, inputs([PART, PART], DEFINITION))


def launch(images: int, *, out: HostArray) -> None:
    jobs = pack([(view(SURFACE), PART[1])] * images, DEFINITION)
    preprocess(
        HostKernels(SOURCE), jobs, content=dense(jobs.content), out=out, definition=DEFINITION, form=TensorForm()
    )


def test_images_beyond_the_table_are_left_as_they_are() -> None:
    out = unset(3, 3, 48, 64, dtype=np.float32)
    before = out.values.copy()

    launch(2, out=out)

    assert np.array_equal(out.values[0], out.values[1])
    assert out.values[2].tobytes() == before[2].tobytes()


def test_no_parts_are_no_launch() -> None:
    out = unset(1, 3, 48, 64, dtype=np.float32)
    before = out.values.tobytes()

    launch(0, out=out)

    assert out.values.tobytes() == before


def test_more_parts_than_images_are_refused() -> None:
    with pytest.raises(ValueError, match="2 parts do not fit into an input of 1 images"):
        launch(2, out=unset(1, 3, 48, 64, dtype=np.float32))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 48, 64, 3), np.float32), ((1, 3, 48, 64), np.float16), ((3, 48, 64), np.float32)]
)
def test_an_input_of_another_form_is_refused(shape: tuple[int, ...], dtype: type[np.floating]) -> None:
    with pytest.raises(ValueError, match="the network's input is float32 of"):
        launch(1, out=unset(*shape, dtype=dtype))


def test_placements_in_images_of_different_sizes_are_refused() -> None:
    parts = [(view(SURFACE), Preprocessing(size_wh).place((0.0, 0.0, 64.0, 48.0))) for size_wh in ((64, 48), (32, 24))]

    with pytest.raises(ValueError, match=r"one size, not \(32, 24\) and \(64, 48\)"):
        pack(parts, DEFINITION)


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_element_types_that_no_network_takes_are_refused(dtype: type[np.generic]) -> None:
    with pytest.raises(ValueError, match="inputs of networks are made of float32, float16, uint8, int8"):
        TensorForm("nchw", np.dtype(dtype))


def test_floats_have_no_quantum() -> None:
    with pytest.raises(ValueError, match="for whole numbers"):
        TensorForm("nchw", np.dtype(np.float16), quantum=0.5)
