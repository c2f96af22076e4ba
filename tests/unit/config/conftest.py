"""A folder with the files that the test configurations name, and a loader that knows the test parts only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest
from tests.unit.config.parts import registry

from sightline.config import InvalidConfiguration, load_description
from sightline.graph import Outputs, PipelineDescription


class Load(Protocol):
    def __call__(
        self,
        text: str | bytes,
        *,
        sources: Sequence[str] = (),
        overrides: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> PipelineDescription: ...


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "gate.mp4").touch()
    (tmp_path / "street.onnx").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def load(folder: Path) -> Load:
    """Loads a text as the file `p.yaml`."""

    def loaded(
        text: str | bytes,
        *,
        sources: Sequence[str] = (),
        overrides: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> PipelineDescription:
        Path("p.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
        return load_description(
            "p.yaml",
            sources=sources,
            overrides=overrides,
            environment=environment or {},
            outputs=Outputs(folder / "out"),
            registry=registry(
                broken="tests.unit.config.no_such_module:Broken",
                nothing="tests.unit.config.parts:Nothing",
                other="tests.unit.config.parts:Track",
            ),
        )

    return loaded


@pytest.fixture
def problems(load: Load) -> Callable[..., list[str]]:
    """The mistakes of a text, each as it is printed."""

    def found(text: str | bytes, **more: object) -> list[str]:
        with pytest.raises(InvalidConfiguration) as caught:
            load(text, **more)  # type: ignore[arg-type]
        return str(caught.value).splitlines()

    return found
