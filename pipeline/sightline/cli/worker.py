"""The process of one pipeline below `sightline serve`, which starts it: `python -m sightline.cli.worker`."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from sightline.cli.main import execute, prepare
from sightline.cli.run import exit_code, run_to_end


@click.command("worker")
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--socket", "listening", type=int, required=True, help="Descriptor of the socket to listen at.")
@click.option("--name", required=True, help="The name of the pipeline.")
@click.option("--alive", type=int, required=True, help="Descriptor of a pipe that ends with the server.")
@click.option("--policy", required=True, help="What clients of the API may change, as JSON.")
@click.option("--device", help="As of `sightline run`.")
@click.option("--output-root", type=click.Path(path_type=Path), help="As of `sightline run`.")
@click.option("--overwrite", is_flag=True, help="As of `sightline run`.")
@click.option("--verbose", is_flag=True, help="As of `sightline run`.")
def command(
    config: Path,
    name: str,
    listening: int,
    alive: int,
    policy: str,
    device: str | None,
    output_root: Path | None,
    overwrite: bool,
    verbose: bool,
) -> int:
    """Run the pipeline in CONFIG as `sightline run --watch --quiet` does, served to `sightline serve` alone."""
    from sightline.config import ConfigurationFile
    from sightline.graph.outputs import Outputs
    from sightline.pipeline import Pipeline
    from sightline.runtime.watchdog import watched
    from sightline.server.policy import Policy
    from sightline.server.supervisor.worker import behind_front

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("sightline").setLevel(logging.DEBUG if verbose else logging.WARNING)
    overrides = (f'name="{name}"', *(("overwrite=true",) if overwrite else ()))
    file = ConfigurationFile(config, overrides=overrides, device=device, outputs=Outputs(output_root))
    pipeline = Pipeline.from_file(file, outputs=output_root)
    reload = partial(pipeline.reload, by=str(config))
    allowed = Policy.model_validate_json(policy)
    with (
        behind_front(pipeline, allowed, listening=listening, alive=alive),
        watched(config, on_change=reload),
    ):
        report, interrupted = run_to_end(pipeline, reload, quiet=not verbose)
    return exit_code(report, pipeline, interrupted=interrupted)


def main() -> NoReturn:
    """Run the worker."""
    prepare()
    sys.exit(execute(sys.argv[1:], command))


if __name__ == "__main__":
    main()
