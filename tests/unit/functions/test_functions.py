from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.sinks.images import batches

from sightline.devices import Device
from sightline.errors import ConfigurationError, OperatorError
from sightline.graph import CheckContext, Element, Outputs
from sightline.graph.fields import BASE_FOLDER
from sightline.media import Batch, FrameView
from sightline.testing import run_element
from sightline_plugins.functions.apply import Apply
from sightline_plugins.functions.callback import Callback

HERE = __name__

USER_CODE = """
def drop_all(batch):
    return batch.with_objects(type(batch.objects).empty())

def look(batch):
    pass

def number(batch):
    return 3

def shorten(batch):
    return batch.select_frames([0])

def fail(batch):
    raise RuntimeError("no idea")

answer = 42
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(USER_CODE)
    return path


def apply(user_file: Path, function: str) -> list[Batch]:
    return run_element(Apply(function=f"{user_file}:{function}"), batches(2, size=2))


def problems(element: Element) -> list[str]:
    context = CheckContext(device=Device(), streams=("cam",), outputs=Outputs())
    return [problem.message for problem in element.check(context)]


def test_apply_passes_on_what_the_function_returns(user_file: Path) -> None:
    assert len(apply(user_file, "drop_all")[0].objects) == 0


def test_a_function_that_returns_nothing_leaves_the_batch_as_it_is(user_file: Path) -> None:
    assert len(apply(user_file, "look")[0].objects) == 2


@pytest.mark.parametrize(
    ("function", "message"),
    [("number", r"mine\.py:number returned int, not a Batch or None"), ("shorten", "returned other frames")],
)
def test_a_function_that_returns_another_type_is_refused(user_file: Path, function: str, message: str) -> None:
    with pytest.raises(OperatorError, match=message):
        apply(user_file, function)


def test_what_a_function_raises_comes_out(user_file: Path) -> None:
    with pytest.raises(RuntimeError, match="no idea"):
        apply(user_file, "fail")


def test_a_file_is_relative_to_the_yaml_file(user_file: Path) -> None:
    element = Apply.model_validate({"function": "mine.py:look"}, context={BASE_FOLDER: user_file.parent})
    assert problems(element) == []


def test_an_installed_module_is_imported_by_its_name() -> None:
    assert problems(Apply(function="os.path:basename")) == []


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_package:run", "'no_such_package' cannot be imported: no package of that name"),
        ("os.path:no_such_function", "'os.path' holds no function 'no_such_function'"),
        ("os.path:sep", "'os.path' holds something else than a function under 'sep'"),
        ("missing.py:run", "'missing.py' cannot be imported: there is no such file"),
    ],
)
@pytest.mark.parametrize("kind", [Apply, Callback])
def test_a_function_that_is_not_there_is_a_problem(kind: type[Apply | Callback], reference: str, message: str) -> None:
    assert [message in problem for problem in problems(kind(function=reference))] == [True]


def test_a_file_is_run_once(tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text("from pathlib import Path\nwith open(Path(__file__).with_suffix('.log'), 'a') as log:\n"
                    "    log.write('run\\n')\ndef look(batch): pass\n")  # fmt: skip
    problems(Apply(function=f"{path}:look"))
    run_element(Apply(function=f"{path}:look"), batches(1))
    assert path.with_suffix(".log").read_text() == "run\n"


def test_a_file_that_fails_when_it_is_run_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("raise RuntimeError('rtsp://me:secret@host')")
    assert ["RuntimeError: rtsp://***@host" in problem for problem in problems(Apply(function=f"{path}:look"))] == [
        True
    ]


@pytest.mark.parametrize("reference", ["os.path", ":run", "os.path:", "os.path:a b"])
@pytest.mark.parametrize("kind", [Apply, Callback])
def test_a_reference_has_a_module_and_a_function(kind: type[Apply | Callback], reference: str) -> None:
    with pytest.raises(ConfigurationError, match="is no function reference: write package"):
        kind(function=reference)


def test_a_callback_sees_every_frame_in_order() -> None:
    seen: list[tuple[int, int]] = []

    def look(view: FrameView) -> None:
        seen.append((view.index, len(view.objects)))

    run_element(Callback(function=look), batches(3, size=2))
    assert seen == [(0, 1), (1, 1), (2, 1)]


def on_frame(view: FrameView) -> None:
    del view


def test_a_function_given_in_python_is_written_by_its_name() -> None:
    assert Callback(function=on_frame).model_dump(mode="json", exclude_unset=True) == {"function": f"{HERE}:on_frame"}


def test_a_callback_that_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"must be package\.module:function"):
        Callback(function=3)


def test_the_labels_that_a_function_adds_are_unknown() -> None:
    assert Apply(function="package.module:function").found_labels() is None
