"""What a controller is started with: everything that a pipeline's file says of a cluster, checked and as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import msgspec

from sightline.cluster.model import ClusterOptions, StreamSpec
from sightline.errors import ConfigurationError
from sightline.graph import PipelineDescription
from sightline.graph.outputs import Outputs
from sightline.pipeline import Pipeline
from sightline_plugins.commands.cluster.job import (
    Job,
    configuration_of,
    options_of,
    settings_of,
    streams_of,
    version_of_sightline,
)


@dataclass(frozen=True, slots=True)
class Charter:
    """What a controller is started with: the address it listens at, the file of its state, the version of all
    machines, options, the streams that are wanted, by name, and what workers run, as plain data of `StreamSpec` and
    `ClusterConfiguration`.
    """

    host: str
    port: int
    store: str
    version: str
    options: ClusterOptions
    streams: Mapping[str, Mapping[str, Any]]
    configuration: Mapping[str, Any]

    @classmethod
    def of(cls, description: PipelineDescription, *, address: tuple[str, int], outputs: Outputs) -> Charter:
        """The charter for a pipeline, which is checked as a whole. Raises ConfigurationError with every mistake."""
        streams, configuration = streams_of(description), configuration_of(description)
        Pipeline.from_description(description, outputs=outputs.root).check()
        settings = settings_of(description)
        return cls(
            *address,
            str(outputs.path(settings.store.replace("{pipeline}", description.name))),
            version_of_sightline(),
            options_of(settings),
            {name: asdict(spec) for name, spec in streams.items()},
            asdict(configuration),
        )

    def check_successor(self, later: Charter) -> None:
        """Raises ConfigurationError when a later charter differs in what a controller that runs cannot change."""
        fixed = [f"cluster.{one.name.removesuffix('_ns')}" for one in fields(ClusterOptions)]
        differ = [
            name
            for name, one in zip(fixed, fields(ClusterOptions), strict=True)
            if getattr(self.options, one.name) != getattr(later.options, one.name)
        ]
        differ += ["cluster.store or name"] if self.store != later.store else []
        if differ:
            what = " and ".join(one for one in differ if one != "cluster.settle")
            raise ConfigurationError(f"{what} cannot change while the controller runs: start `cluster run` again")

    @property
    def job(self) -> Job:
        """What workers are started with."""
        options = self.options
        return Job(self.host, self.port, options.heartbeat_ns, options.lease_ns, options.grace_ns)

    @property
    def specs(self) -> dict[str, StreamSpec]:
        """The streams that are wanted."""
        return {name: StreamSpec(**one) for name, one in self.streams.items()}

    def to_json(self) -> str:
        """It as text, for `from_json`."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Charter:
        """What `to_json` gave."""
        return msgspec.json.decode(text, type=cls)
