"""Models that a worker lacks come from the head: whole, by content, once for a machine, and on after a break."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from sightline.cluster.controller import Controller
from sightline.cluster.endpoint import ControllerEndpoint, listen
from sightline.cluster.model import ClusterConfiguration
from sightline.cluster.store import MemoryStore
from sightline.cluster.transfer import PART_BYTES, HeadFiles, digest_of
from sightline.config import description_from, load_description
from sightline.errors import ConfigurationError
from sightline.graph.site import SystemClock
from sightline_plugins.commands.cluster import models
from sightline_plugins.commands.cluster.job import configuration_of
from sightline_plugins.commands.cluster.models import model_files, with_local_models
from tests.ports import free_port

TOKEN = secrets.token_hex(32)
MODELS = Path(__file__).parents[3] / "models"


class CountingController(Controller):
    """Counts the parts that it was asked for."""

    parts = 0

    def path_of(self, sha256: str) -> Path | None:
        """Where the file lies."""
        self.parts += 1
        return super().path_of(sha256)


class Head:
    """A head with one configuration, at a port that stays the same over restarts."""

    def __init__(self, configuration: ClusterConfiguration) -> None:
        self.address = "127.0.0.1", free_port()
        self.configuration = configuration
        self.start()

    def start(self) -> None:
        """Start its controller."""
        self.controller = CountingController(
            {}, store=MemoryStore(), clock=SystemClock(), configuration=self.configuration
        )
        self.endpoint = ControllerEndpoint(
            self.controller, listen(self.address), token=TOKEN, on_event=lambda event: None
        )
        self.endpoint.start()

    @property
    def files(self) -> HeadFiles:
        """What brings files from it."""
        return HeadFiles(self.address, TOKEN)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file of three parts at the head."""
    path = tmp_path / "head" / "large.onnx"
    path.parent.mkdir()
    path.write_bytes(os.urandom(2 * PART_BYTES + 100))
    return path


@pytest.fixture
def head(model: Path) -> Iterator[Head]:
    one = Head(ClusterConfiguration(models={str(model): {model.name: digest_of(model)}}))
    yield one
    one.endpoint.close()


def test_workers_of_a_machine_bring_a_file_once(head: Head, model: Path, tmp_path: Path) -> None:
    target = tmp_path / "worker" / "large.onnx"
    workers = [Thread(target=head.files.bring, args=(digest_of(model), target)) for _ in range(3)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()

    assert target.read_bytes() == model.read_bytes()
    assert head.controller.parts == 3


def test_a_transfer_goes_on_where_it_broke_off_at_the_next_controller(head: Head, model: Path, tmp_path: Path) -> None:
    asked = []

    def restart_after_the_first_part() -> bool:
        asked.append(1)
        if len(asked) == 2:
            head.endpoint.close()
            head.start()
        return False

    target = tmp_path / "worker" / "large.onnx"
    HeadFiles(head.address, TOKEN, restart_after_the_first_part).bring(digest_of(model), target)

    assert target.read_bytes() == model.read_bytes()
    assert head.controller.parts == 2


def test_a_transfer_that_ends_with_its_worker_leaves_no_file_and_the_next_one_goes_on(
    head: Head, model: Path, tmp_path: Path
) -> None:
    target = tmp_path / "worker" / "large.onnx"
    with pytest.raises(ConfigurationError, match="the worker ends"):
        HeadFiles(head.address, TOKEN, lambda: head.controller.parts > 0).bring(digest_of(model), target)
    assert not target.exists()

    head.files.bring(digest_of(model), target)
    assert target.read_bytes() == model.read_bytes()
    assert head.controller.parts == 3


def test_what_came_with_another_content_is_removed_and_brought_anew(head: Head, model: Path, tmp_path: Path) -> None:
    target = tmp_path / "large.onnx"
    (tmp_path / ".large.onnx.part").write_bytes(b"of something else")
    with pytest.raises(ConfigurationError, match="came from the head with another content: it was removed"):
        head.files.bring(digest_of(model), target)
    assert not target.exists()

    head.files.bring(digest_of(model), target)
    assert target.read_bytes() == model.read_bytes()


def test_a_file_that_is_no_model_in_use_is_not_given(head: Head, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the head")

    with pytest.raises(ConfigurationError, match="no configuration in use has such a file"):
        head.files.bring(digest_of(secret), tmp_path / "stolen")


def test_a_model_that_was_changed_at_the_head_since_is_one_error(head: Head, model: Path, tmp_path: Path) -> None:
    wanted = digest_of(model)
    model.write_bytes(b"another one")

    with pytest.raises(ConfigurationError, match=r"large\.onnx was changed at the head since: send SIGHUP"):
        head.files.bring(wanted, tmp_path / "large.onnx")


def test_a_disk_without_room_is_one_error(head: Head, model: Path, tmpfs: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"large\.onnx does not fit into .* are free"):
        head.files.bring(digest_of(model), tmpfs / "large.onnx")


def test_a_worker_without_a_model_runs_that_of_the_head_with_its_card(tmp_path: Path) -> None:
    there, here = tmp_path / "head", tmp_path / "worker"
    there.mkdir()
    for name in ("street.onnx", "street.yaml"):
        shutil.copy(MODELS / name, there / name)
    config = tmp_path / "site.yaml"
    config.write_text(
        f"sources: {{a: rtsp://10.0.0.9/a}}\npipeline:\n- detect: {{model: {there}/street.onnx}}\n- jsonl: a.jsonl\n"
    )
    configuration = configuration_of(load_description(config))
    assert str(there / "street.onnx") not in configuration.files
    assert set(configuration.models[str(there / "street.onnx")]) == {"street.onnx", "street.yaml"}
    head = Head(configuration)
    assert with_local_models(configuration, folder=here, head=head.files) == configuration.pipeline
    assert head.controller.parts == 0
    there.rename(tmp_path / "elsewhere")
    moved = {path: configuration.models[path] for path in configuration.models}
    head.endpoint.close()
    served = {str(tmp_path / "elsewhere" / "street.onnx"): moved[str(there / "street.onnx")]}
    head.configuration = ClusterConfiguration(configuration.pipeline, models=served)
    head.start()

    pipeline = with_local_models(configuration, folder=here, head=head.files)
    again = with_local_models(configuration, folder=here, head=head.files)
    head.endpoint.close()

    assert again == pipeline
    assert head.controller.parts == 4
    files = model_files(description_from(pipeline))
    ((path, contents),) = files.items()
    assert Path(path).is_relative_to(here)
    assert contents == configuration.models[str(there / "street.onnx")]


def test_models_that_were_not_used_for_long_make_room(
    head: Head, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "_LIMIT_BYTES", 3 * PART_BYTES)
    old, recent = tmp_path / "worker" / "old", tmp_path / "worker" / "recent"
    for own in (old, recent):
        own.mkdir(parents=True)
        (own / "large.onnx").write_bytes(bytes(PART_BYTES))
    os.utime(old, (0, 0))
    configuration = ClusterConfiguration(models={"/nowhere/large.onnx": {model.name: digest_of(model)}})

    with_local_models(configuration, folder=tmp_path / "worker", head=head.files)

    assert not old.exists()
    assert len(list((tmp_path / "worker").glob("*/large.onnx"))) == 2
