"""From ONNX to a plan, which is what TensorRT calls a compiled model.

The types of tensors are those of the ONNX file (`STRONGLY_TYPED`, and never a flag for a precision), so FP16 is a file
of FP16 and INT8 a file with Q/DQ. TF32 is off. What is refused is one ModelError with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import onnx

from sightline.errors import ModelError
from sightline_plugins.engines.batch_sizes import BatchRange
from sightline_plugins.engines.protocol import never, say_nothing
from sightline_plugins.engines.tensorrt_library import (
    EVERY_SECONDS,
    INSTEAD,
    CapturedLog,
    Log,
    Progress,
    Tell,
    TensorRt,
    gist,
)

WORKSPACE_BYTES = 2 << 30
"""How much memory one operator may use for itself; what a plan needs is known when it is loaded."""
_WITHOUT_KERNEL = re.compile(r"(?P<layer>\S+) has no runners that implement it")
_SUPPRESSION = "export it without its suppression, which Sightline does itself"


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """What a plan is made for, besides the model: everything here is part of its name in the cache.

    `capability` is the GPU's compute capability; None where the library compiles on the GPU and for nothing else.
    `batches` are the sizes of the optimization profile, and kernels are chosen for the usual one; it says nothing where
    the model takes a fixed number.
    """

    capability: tuple[int, int] | None
    batches: BatchRange

    @property
    def key(self) -> Mapping[str, Any]:
        """All of it, with what is fixed in this module, for the cache."""
        fixed = {"workspace_bytes": WORKSPACE_BYTES, "tf32": False, "auxiliary_streams": 0}
        return {**asdict(self), **fixed}

    @property
    def target(self) -> str:
        """What it is for, in messages."""
        return "this GPU" if self.capability is None else "compute capability {}.{}".format(*self.capability)


def build_plan(
    library: TensorRt,
    model: onnx.ModelProto,
    *,
    settings: BuildSettings,
    label: str,
    progress: Tell = say_nothing,
    log: Log | None = None,
    is_stopped: Callable[[], bool] = never,
    every_seconds: float = EVERY_SECONDS,
) -> bytes:
    """The plan of a prepared model: its inputs are fixed but for the number of images.

    `progress` hears when it begins and ends and, at most every so many seconds, what the library does; `log` receives
    all that it says. Both may be called from threads of the library. Where `is_stopped` says so, it ends soon.

    Takes from a second to minutes, mostly without the GIL; the GPU's context must be current where the library
    compiles on it. Raises ModelError.
    """
    doing = f"{label}: {library} cannot compile it for {settings.target}"
    _check_target(library, settings, label=label)
    told = Progress(progress, is_stopped=is_stopped, every_seconds=every_seconds)
    progress(f"{label}: {library} compiles it for {settings.target}")
    with library.listening(log) as heard:
        plan = _built(library, model, settings=settings, progress=told, heard=heard, doing=doing)
    if plan is None and is_stopped():
        raise ModelError(f"{label}: compiling it was stopped after {told.seconds:.1f} s")
    if plan is None:
        raise ModelError(f"{doing}: {_explained(heard.reason, model)}")
    content = bytes(plan)
    progress(f"{label}: compiled in {told.seconds:.1f} s, {len(content) / 1e6:.1f} MB")
    return content


def _built(
    library: TensorRt,
    model: onnx.ModelProto,
    *,
    settings: BuildSettings,
    progress: Progress,
    heard: CapturedLog,
    doing: str,
) -> Any:
    module = library.module
    builder = module.Builder(library.messages.logger)
    network = builder.create_network(1 << int(module.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = module.OnnxParser(network, library.messages.logger)
    if not parser.parse(model.SerializeToString()):
        raise ModelError(f"{doing}: {_parser_errors(parser) or heard.reason}; {INSTEAD}")
    config = builder.create_builder_config()
    _configure(config, module=module, settings=settings)
    monitor = progress.monitor(module)
    if monitor is not None:
        config.progress_monitor = monitor
    profile = builder.create_optimization_profile()
    if _open_rows(network, profile, settings=settings, doing=doing) and config.add_optimization_profile(profile) < 0:
        raise ModelError(f"{doing}: {heard.reason}; {INSTEAD}")
    return builder.build_serialized_network(network, config)


def _configure(config: Any, *, module: Any, settings: BuildSettings) -> None:
    config.clear_flag(module.BuilderFlag.TF32)
    config.set_memory_pool_limit(module.MemoryPoolType.WORKSPACE, WORKSPACE_BYTES)
    config.max_aux_streams = 0
    if hasattr(module.BuilderFlag, "REQUIRE_USER_ALLOCATION"):
        config.set_flag(module.BuilderFlag.REQUIRE_USER_ALLOCATION)
    if settings.capability is not None:
        config.num_compute_capabilities = 1
        target = getattr(module.ComputeCapability, "SM{}{}".format(*settings.capability))
        config.set_compute_capability(target, 0)


def _open_rows(network: Any, profile: Any, *, settings: BuildSettings, doing: str) -> bool:
    """Say how many images each input may have; whether any number is open."""
    has_open = False
    for number in range(network.num_inputs):
        entry = network.get_input(number)
        shape = tuple(entry.shape)
        if -1 in shape[1:]:
            sizes = ", ".join("?" if size < 0 else str(size) for size in shape)
            raise ModelError(f"{doing}: its input {entry.name} ({sizes}) leaves sizes open: give them, or {INSTEAD}")
        if shape[:1] == (-1,):
            rows = (1, settings.batches.usual, settings.batches.most)
            profile.set_shape(entry.name, *((count, *shape[1:]) for count in rows))
            has_open = True
    return has_open


def _check_target(library: TensorRt, settings: BuildSettings, *, label: str) -> None:
    if settings.capability is None or settings.capability in library.targets:
        return
    known = library.target_text
    allowed = f"it does so for {known}" if known else "it compiles on the GPU that computes"
    raise ModelError(f"{label}: {library} does not compile for {settings.target}, {allowed}: {INSTEAD}")


def _parser_errors(parser: Any) -> str:
    """What the parser says of the first node that it does not take."""
    if not parser.num_errors:
        return ""
    error = parser.get_error(0)
    operator, node, said = error.node_operator(), error.node_name(), gist(error.desc())
    if not operator:
        return said
    where = f" (node {node!r})" if node else ""
    is_idle = said in ("", "false") or "lugin" in said
    return f"it does not take its operator {operator}{where}{'' if is_idle else f': {said}'}"


def _explained(reason: str, model: onnx.ModelProto) -> str:
    """The reason, with the operator that a layer without kernels is made of, and what to do."""
    found = _WITHOUT_KERNEL.search(reason)
    if found is None:
        return f"{reason}; {INSTEAD}"
    layer = found["layer"]
    node = next((node for node in model.graph.node if _is_layer_of(layer, node)), None)
    operator = f"its operator {node.op_type}" if node is not None else f"its layer {layer}"
    instead = f"{_SUPPRESSION}, or {INSTEAD}" if node is not None and "Suppression" in node.op_type else INSTEAD
    return f"it has no kernel for {operator}; {instead}"


def _is_layer_of(layer: str, node: onnx.NodeProto) -> bool:
    """Layers are called like their node, or after its first output where it has no name; a number may follow."""
    names = [node.name] if node.name else [f"node_of_{output}" for output in node.output]
    return any(layer == name or re.fullmatch(re.escape(name) + r"_\d+", layer) for name in names)
