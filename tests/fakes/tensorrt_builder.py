"""How the double of TensorRT compiles: it keeps the ONNX file, and refuses what the real one refuses."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from tests.fakes import tensorrt_names as names

if TYPE_CHECKING:
    from tests.fakes.tensorrt import FakeTensorRt

_WITHOUT_KERNELS = "NonMaxSuppression"
_PHASE = "Building engine"
_STEPS = 4
_STEP_SECONDS = 0.02


class NetworkInput:
    """An input of a network; open sizes are -1."""

    def __init__(self, entry: onnx.ValueInfoProto) -> None:
        self.name = entry.name
        sizes = entry.type.tensor_type.shape.dim
        self.shape = tuple(size.dim_value if size.HasField("dim_value") else -1 for size in sizes)


class Network:
    """What a parser fills."""

    def __init__(self) -> None:
        self.model = onnx.ModelProto()

    @property
    def num_inputs(self) -> int:
        """How many inputs there are."""
        return len(self.model.graph.input)

    def get_input(self, index: int) -> NetworkInput:
        """One of them."""
        return NetworkInput(self.model.graph.input[index])


class ParserError:
    """Why a parser does not take a file."""

    def __init__(self, text: str, *, node: onnx.NodeProto | None = None) -> None:
        self._text = text
        self._node = node

    def desc(self) -> str:
        """The reason."""
        return self._text

    def node_operator(self) -> str:
        """The operator at which it stopped."""
        return "" if self._node is None else str(self._node.op_type)

    def node_name(self) -> str:
        """The node's name."""
        return "" if self._node is None else str(self._node.name)


class OnnxParser:
    """Reads ONNX files."""

    def __init__(self, double: FakeTensorRt, network: Network) -> None:
        self._double = double
        self._network = network
        self._errors = list[ParserError]()

    @property
    def num_errors(self) -> int:
        """How many reasons there are."""
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        """One of them."""
        return self._errors[index]

    def parse(self, content: bytes) -> bool:
        """Fill the network; False when there are reasons why not."""
        self._double.note("parse")
        try:
            self._network.model.ParseFromString(content)
        except DecodeError:
            self._errors.append(ParserError("Assertion failed: Failed to parse the ONNX model."))
            return False
        for node in self._network.model.graph.node:
            if node.op_type in self._double.faults.untaken:
                self._errors.append(ParserError("false", node=node))
        return not self._errors


class OptimizationProfile:
    """The sizes that a plan is for."""

    def __init__(self) -> None:
        self.shapes = dict[str, list[list[int]]]()

    def set_shape(self, name: str, least: Sequence[int], usual: Sequence[int], most: Sequence[int]) -> None:
        """Least, usual and largest sizes of an input."""
        self.shapes[name] = [list(least), list(usual), list(most)]


class BuilderConfig:
    """What the compiler is told."""

    def __init__(self, double: FakeTensorRt) -> None:
        self._double = double
        self.flags = {"TF32"}
        self.profiles = list[OptimizationProfile]()
        self.max_aux_streams = 4
        self.num_compute_capabilities = 0
        self.target = ""
        self.progress_monitor: names.IProgressMonitor | None = None

    def set_flag(self, flag: names.BuilderFlag | names.RtxBuilderFlag) -> None:
        """Say yes."""
        self.flags.add(flag.name)

    def clear_flag(self, flag: names.BuilderFlag | names.RtxBuilderFlag) -> None:
        """Say no."""
        self.flags.remove(flag.name)

    def set_memory_pool_limit(self, pool: names.MemoryPoolType, size_bytes: int) -> None:
        """Bound some memory."""
        self._double.note(f"limit {pool.name} {size_bytes}")

    def set_compute_capability(self, capability: names.ComputeCapability, index: int) -> bool:
        """Say what to compile for."""
        self.target = capability.name
        return index < self.num_compute_capabilities

    def add_optimization_profile(self, profile: OptimizationProfile) -> int:
        """Add sizes; -1 when they are wrong."""
        self.profiles.append(profile)
        in_order = all(least <= usual <= most for least, usual, most in profile.shapes.values())
        return len(self.profiles) - 1 if in_order else -1


class Builder:
    """Compiles networks."""

    def __init__(self, double: FakeTensorRt) -> None:
        self._double = double

    def create_network(self, flags: int) -> Network:
        """A network without anything in it."""
        assert flags == 1 << names.NetworkDefinitionCreationFlag.STRONGLY_TYPED, "networks are strongly typed"
        return Network()

    def create_builder_config(self) -> BuilderConfig:
        """What can be told."""
        return BuilderConfig(self._double)

    def create_optimization_profile(self) -> OptimizationProfile:
        """Sizes."""
        return OptimizationProfile()

    def build_serialized_network(self, network: Network, config: BuilderConfig) -> bytes | None:
        """The plan; None when the logger was told why not."""
        double, model = self._double, network.model
        double.note(f"build {' '.join(sorted(config.flags))}".rstrip())
        profile = config.profiles[0].shapes if config.profiles else {}
        reason = _refusal(network, profile)
        if reason is None and not _told_in_a_thread(config.progress_monitor, double.faults.may_build):
            reason = names.complaint("The build was cancelled.", doing="IBuilder::buildSerializedNetwork")
        if reason is not None:
            double.complain(reason)
            return None
        target = config.target or double.here
        return names.Plan(double.title, double.__version__, target, profile, model.SerializeToString()).packed()


def _refusal(network: Network, profile: dict[str, list[list[int]]]) -> str | None:
    doing = "IBuilder::buildSerializedNetwork"
    for node in network.model.graph.node:
        if node.op_type == _WITHOUT_KERNELS:
            layer = node.name or f"node_of_{node.output[0]}_0"
            text = f"Assertion !layerImpls.empty() failed. {layer} has no runners that implement it"
            return names.complaint(text, doing=doing, kind="Internal Error")
    inputs = [network.get_input(number) for number in range(network.num_inputs)]
    if any(-1 in entry.shape and entry.name not in profile for entry in inputs):
        text = "Network has dynamic or shape inputs, but no optimization profile has been defined."
        return names.complaint(text, doing=doing)
    return None


def _told_in_a_thread(monitor: names.IProgressMonitor | None, may_end: threading.Event | None) -> bool:
    """Tell of all steps, in a thread as the real one has them, the first one until it may end; whether nobody stopped
    it.
    """
    goes_on = list[Any]()

    def tell() -> None:
        if monitor is None:
            return
        monitor.phase_start(_PHASE, None, _STEPS)
        while may_end is not None and not may_end.wait(_STEP_SECONDS):
            if not monitor.step_complete(_PHASE, 0):
                break
        goes_on.extend(monitor.step_complete(_PHASE, step) for step in range(_STEPS))
        monitor.phase_finish(_PHASE)

    with ThreadPoolExecutor(1, thread_name_prefix="compiler") as pool:
        pool.submit(tell).result()
    return all(goes_on)
