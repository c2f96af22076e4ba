"""`sightline doctor`: what this installation has, what it lacks, and why."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import click

from sightline.cache import MODELS_VARIABLE, VARIABLE, cache_folder, store_folder
from sightline.cli.options import debug_option
from sightline.cli.text import columns, output_width
from sightline.libraries import OPENCV, clash, import_advice, import_silently, installed_versions

_LIBRARIES = (
    ("PyAV", "av", ("av",)),
    ("NumPy", "numpy", ("numpy",)),
    ("OpenCV", "cv2", OPENCV),
    ("OpenVINO", "openvino", ("openvino",)),
    ("ONNX Runtime", "onnxruntime", ("onnxruntime", "onnxruntime-gpu")),
    ("onnx", "onnx", ("onnx",)),
    ("pydantic", "pydantic", ("pydantic",)),
)
_FEW_FILES = 1024


@click.command("doctor")
@debug_option
def command() -> None:
    """Say what this installation has, what it lacks, and why. The exit code is 0 either way."""
    width = output_width()
    sections = (
        ("System", _system()),
        ("Libraries", _libraries()),
        ("Devices", _devices()),
        ("GPU", _gpu()),
        ("Elements", _elements()),
    )
    for title, rows in sections:
        click.echo(title)
        click.echo(columns(rows, indent="  ", width=width))


def _system() -> Iterator[tuple[str, str]]:
    from sightline.devices import Device

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = f"; many streams need more: ulimit -n {hard}" if soft <= _FEW_FILES < hard else ""
    yield "sightline", version("sightline")
    yield "python", f"{platform.python_version()} ({sys.executable})"
    yield "system", platform.platform()
    yield "cores", f"{Device().cores} of {os.cpu_count()}"
    yield "precisions", _precisions()
    yield "memory", _memory()
    yield "cache", _cache()
    yield "models", _models()
    yield "open files", f"at most {soft}{few}"


def _cache() -> str:
    from sightline.graph.outputs import Outputs

    folder = cache_folder()
    if folder is None:
        return f"off: compiled models are not kept ({VARIABLE})"
    if obstacle := Outputs().obstacle(folder / "models" / "any"):
        return f"{obstacle}; compiled models are not kept: set {VARIABLE} to another folder, or to off"
    sizes = [path.stat().st_size for path in folder.rglob("*.*") if path.is_file()]
    return f"{folder}: {sum(sizes) / 2**20:.1f} MiB in {len(sizes)} files"


def _models() -> str:
    folder = store_folder()
    versions = [record.parent for record in folder.glob("*/*/model.json")]
    if not versions:
        return f"none in {folder} ({MODELS_VARIABLE}): `sightline models` adds and pulls them"
    size = sum(path.stat().st_size for version in versions for path in version.rglob("*") if path.is_file())
    counted = f"{len(versions)} version{'s' if len(versions) > 1 else ''}"
    return f"{folder}: {size / 2**20:.1f} MiB in {counted} (`sightline models list`, `sightline models verify`)"


def _precisions() -> str:
    from sightline.devices.processor import NATIVE, processor_flags

    flags = processor_flags()
    if not flags:
        return "the CPU computes fp32; what else is unknown on this system"
    found = {name: sorted(flags & native) for name, native in NATIVE.items()}
    native = [f"{name} ({', '.join(names)})" for name, names in found.items() if names]
    lacking = [f"no {name}" for name, names in found.items() if not names]
    return f"the CPU computes {', '.join(['fp32', *native, *lacking])}"


def _memory() -> str:
    page = os.sysconf("SC_PAGE_SIZE")
    total, free = page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    return f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free"


def _libraries() -> Iterator[tuple[str, str]]:
    for title, module, distributions in _LIBRARIES:
        yield title, _library(module, distributions)
        if module == "av":
            yield "FFmpeg", _ffmpeg()


def _library(module: str, distributions: Sequence[str]) -> str:
    found = installed_versions(distributions)
    name, number = next(iter(found.items()), ("", ""))
    named = number if name == distributions[0] else f"{number} ({name})"
    try:
        if import_silently(module).__file__ is None:
            raise ImportError("only folders without code are left of it")
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        state = f"{named}, but it cannot be imported: {error}; " if found else ""
        return f"{state}{import_advice(error, distributions)}"
    if not found:
        return "imported, but no package says its version"
    return named if (problem := _problem(module, distributions)) is None else problem


def _problem(module: str, distributions: Sequence[str]) -> str | None:
    """Why a library that can be imported is not as it should be: overwritten, or for another driver of the GPU."""
    if module == "onnxruntime":
        from sightline.devices.cuda.compatibility import reason_against_onnxruntime

        return reason_against_onnxruntime()
    return clash(distributions)


def _ffmpeg() -> str:
    try:
        from av import ffmpeg_version_info, library_versions
    except ImportError:
        return "not there, because PyAV is not"
    codec = ".".join(str(number) for number in library_versions["libavcodec"])
    return f"{ffmpeg_version_info} (libavcodec {codec}), inside PyAV"


def _devices() -> Iterator[tuple[str, str]]:
    from sightline.devices import choose_device, survey

    for report in survey():
        yield report.name, f"{'usable' if report.usable else 'not usable'}: {report.detail}"
    choice = choose_device("auto")
    yield "auto", f"{choice.device}, {choice.reason}"


def _gpu() -> Iterator[tuple[str, str]]:
    from sightline.devices.cuda.facts import driver_text, parts, places

    found = parts()
    yield "driver", driver_text()
    for part in found:
        yield part.name, part.text if part.works else f"not usable: {part.text}"
    yield from places(found)


def _elements() -> Iterator[tuple[str, str]]:
    from sightline.graph.registry import Registry

    registry = Registry()
    yield "elements", f"{len(registry.element_names)} installed: {', '.join(registry.element_names)}"
    yield "sources", f"{len(registry.source_names)} installed: {', '.join(registry.source_names)}"
    for reason in registry.broken():
        yield "broken", reason
