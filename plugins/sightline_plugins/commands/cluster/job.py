"""What a pipeline's file becomes in a cluster: streams that are placed, options, and what workers run beside them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

import msgspec

from sightline.cluster.model import ClusterConfiguration, ClusterOptions, StreamSpec
from sightline.devices import Device
from sightline.devices.processor import processor_name
from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription
from sightline.graph.cluster import ClusterSettings, PlacedStreams
from sightline.graph.fields import PathRole, paths_of
from sightline_plugins.commands.cluster.models import content_of, model_files

MACHINE_VARIABLE = "SIGHTLINE_CLUSTER_MACHINE"
"""Holds the `Machine` of the processes that Ray starts on a machine, as JSON."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine says of itself: the name of its worker, its address, proved frames a second, most streams, labels,
    and the folder in which that worker writes.
    """

    name: str
    address: str
    capacity: float
    limit: int
    labels: dict[str, str]
    outputs: str

    @classmethod
    def of_this_process(cls) -> Machine:
        """The machine on which Ray has started this process. Raises ConfigurationError outside a cluster."""
        text = os.environ.get(MACHINE_VARIABLE)
        if text is None:
            raise ConfigurationError(f"{MACHINE_VARIABLE} is not set: start machines with `sightline cluster worker`")
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise ConfigurationError(f"{MACHINE_VARIABLE} cannot be read: {error}") from error

    def to_json(self) -> str:
        """What `MACHINE_VARIABLE` holds."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker's process is started with, as JSON: the controller's host and port, and times of leases in
    nanoseconds. The controller gives it the rest.
    """

    host: str
    port: int
    heartbeat_ns: int
    lease_ns: int
    grace_ns: int

    @property
    def fingerprint(self) -> str:
        """Sixteen digits that are another for another job."""
        return blake2b(self.to_json().encode(), digest_size=8).hexdigest()

    def to_json(self) -> str:
        """It as text, for `from_json`."""
        return msgspec.json.encode(self, order="sorted").decode()

    @classmethod
    def from_json(cls, text: str) -> Job:
        """What `to_json` gave."""
        return msgspec.json.decode(text, type=cls)

    @property
    def options(self) -> ClusterOptions:
        """The options that concern a worker."""
        return ClusterOptions(heartbeat_ns=self.heartbeat_ns, lease_ns=self.lease_ns, grace_ns=self.grace_ns)


class _MostStreams(msgspec.Struct):
    processor: float
    memory: float | None


class _Figures(msgspec.Struct):
    processor: str
    cores: int
    rates: dict[str, float]


class _Plan(msgspec.Struct):
    most_streams: _MostStreams
    figures: _Figures


def capacity_of(plan: Path) -> float:
    """Frames a second that this machine can analyse, by what `sightline plan --json` found here. Raises
    ConfigurationError for the result of another kind of machine.
    """
    try:
        found = msgspec.json.decode(plan.read_bytes(), type=_Plan)
    except OSError as error:
        raise ConfigurationError(f"{plan} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{plan} is no result of `sightline plan CONFIG --json`: {error}") from error
    figures, cores, processor = found.figures, Device().cores, processor_name()
    if (figures.processor, figures.cores) != (processor, cores):
        text = f"{plan} is of {figures.cores} cores of {figures.processor}, this machine has {cores} of {processor}"
        raise ConfigurationError(f"{text}: run `sightline plan` here")
    if not figures.rates:
        raise ConfigurationError(f"{plan} has no streams")
    most = found.most_streams
    streams = most.processor if most.memory is None else min(most.processor, most.memory)
    return streams * sum(figures.rates.values()) / len(figures.rates)


def settings_of(description: PipelineDescription) -> ClusterSettings:
    """The section `cluster`, or its defaults."""
    return description.cluster or ClusterSettings()


def options_of(settings: ClusterSettings) -> ClusterOptions:
    """The options of a controller. Raises ConfigurationError."""
    return ClusterOptions(
        heartbeat_ns=settings.heartbeat,
        lease_ns=settings.lease,
        grace_ns=settings.grace,
        settle_ns=2 * settings.heartbeat,
        rebalance_ns=settings.rebalance,
        fill=settings.fill,
        tolerance=settings.tolerance,
        moving=settings.moving,
        spread=settings.spread,
        prove_ns=settings.prove,
    )


def configuration_of(description: PipelineDescription) -> ClusterConfiguration:
    """What workers run. Raises ConfigurationError when a file of a step cannot be read."""
    alone = description.model_copy(
        update={"sources": {}, "sources_file": None, "keep_running": True, "state": False, "cluster": None}
    )
    models = model_files(description)
    files = {path: content for path, content in files_of(description).items() if path not in models}
    return ClusterConfiguration(json.loads(json.dumps(alone.to_plain())), files, models)


def streams_of(description: PipelineDescription) -> dict[str, StreamSpec]:
    """The streams that are placed. Raises ConfigurationError for a pattern that no stream has."""
    settings = settings_of(description)
    plain = json.loads(json.dumps(description.model_copy(update={"sources_file": None}).to_plain()))["sources"]
    for pattern in settings.idle_patterns(description.sources):
        known = ", ".join(sorted(description.sources)[:10]) or "none"
        raise ConfigurationError(f"cluster.streams.{pattern}: no stream has such a name; streams: {known}")
    found = {}
    for name, source in description.sources.items():
        placed = next((one for key, one in settings.streams.items() if fnmatchcase(name, key)), PlacedStreams())
        fps = placed.fps or getattr(source, "max_fps", None) or settings.fps
        found[name] = StreamSpec(float(fps), dict(placed.requires), placed.group, plain[name])
    return found


def files_of(description: PipelineDescription) -> dict[str, str]:
    """The content (SHA-256) of the files that steps read, by path. Raises ConfigurationError."""
    found = {}
    for _, element in description.elements():
        for _, role, path in paths_of(element):
            if role is not PathRole.OUTPUT and Path(path).is_file():
                found[path] = content_of(Path(path))
    return found


def check_files(configuration: ClusterConfiguration) -> None:
    """Raises ConfigurationError when files of a configuration are not here, or have another content."""
    for name, wanted in configuration.files.items():
        path = Path(name)
        if not path.is_file():
            raise ConfigurationError(f"{name} is not there: copy it from the head")
        if content_of(path) != wanted:
            raise ConfigurationError(f"{name} has another content than at the head: copy it from there")


def version_of_sightline() -> str:
    """What has to be the same on all machines."""
    return f"Sightline {version('sightline')}"
