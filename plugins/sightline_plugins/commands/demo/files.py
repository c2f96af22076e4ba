"""The files of the demo: which ones, with which content, and how they come into a folder without replacing others."""

from __future__ import annotations

import json
from pathlib import Path

from sightline.config.schema import SCHEMA_FILE, SCHEMA_LINE, json_schema
from sightline.errors import OutputError
from sightline.graph.outputs import Outputs, output_error
from sightline.graph.registry import Registry
from sightline_plugins.samples import CLIPS, PIPELINES, sample_models, samples_folder

LIVE = "town.yaml"
"""The pipeline of the demo that plays clips as cameras, in its folder; the dashboard can save changes to it."""


def demo_files() -> dict[str, bytes]:
    """Return the content of each file of the demo, by its path below the folder of the demo.

    Raises ConfigurationError when the installation lacks the samples.
    """
    samples = samples_folder()
    pipelines = {Path(name).name: (samples / name).read_text(encoding="utf-8") for name in PIPELINES}
    return {
        SCHEMA_FILE: json.dumps(json_schema(Registry())).encode(),
        **{name: demo_pipeline(text).encode() for name, text in pipelines.items()},
        **{name: (samples / name).read_bytes() for name in (*CLIPS, *sample_models())},
    }


def demo_pipeline(text: str) -> str:
    """Return the text of a pipeline of `configs/` as it must be beside `models/`, `sample_videos/` and the schema."""
    return SCHEMA_LINE + text.replace("configs/", "").replace("../", "")


def write_demo(folder: Path) -> None:
    """Write the files of the demo into a folder; those that are there already, unchanged, are left as they are, and so
    is a `LIVE` that was changed in a folder of the demo.

    Each file is written aside and renamed, so that an interruption leaves no half of one. Raises OutputError before
    anything is written when a path is taken by something else.
    """
    root = folder.absolute()
    files = {root / name: content for name, content in demo_files().items()}
    if _is_edited(root, schema=files[root / SCHEMA_FILE]):
        del files[root / LIVE]
    if taken := [path for path, content in files.items() if _is_taken(path, content)]:
        names = ", ".join(str(path.relative_to(root)) for path in taken)
        raise OutputError(
            f"{folder} holds other files where the demo puts its own: {names}. They were changed, come from another "
            "version or are yours: name another folder (`sightline demo FOLDER`), or move them away"
        )
    outputs = Outputs(root)
    for path, content in files.items():
        if not path.exists():
            _write(outputs, path, content)


def _is_edited(root: Path, *, schema: bytes) -> bool:
    """Whether the folder is one of this demo, whose `LIVE` somebody may have changed."""
    beside, live = root / SCHEMA_FILE, root / LIVE
    return live.is_file() and not live.is_symlink() and beside.is_file() and not _is_taken(beside, schema)


def _is_taken(path: Path, content: bytes) -> bool:
    """Whether something stands there that is not the demo's own file, byte for byte."""
    if not path.exists() and not path.is_symlink():
        return False
    try:
        return path.is_symlink() or not path.is_file() or path.read_bytes() != content
    except OSError as error:
        raise output_error(path, error, doing="read") from error


def _write(outputs: Outputs, path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    file = outputs.open_lines(part)
    file.write(content)
    file.close()
    outputs.rename(part, to=path)
