"""`sightline demo`: a folder with everything to try things with, and its cameras live in the browser."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sightline.cli.options import DURATION, debug_option
from sightline.cli.text import columns

if TYPE_CHECKING:
    from sightline.pipeline import Pipeline
    from sightline.server import Listener

PORT = 8080
NEXT = (
    ("sightline run demo.yaml", "two of the clips from end to end: counts, drawn videos and JSON lines in out/demo/"),
    ("sightline check demo.yaml", "edit demo.yaml, then list its mistakes"),
    ("sightline bench demo.yaml", "measure how fast this machine runs it, and what limits it"),
    ("sightline elements detect", "explain a step: options, units, defaults, an example"),
)
"""Commands to go on with, in the folder of the demo, and what each does."""


@click.command("demo", short_help="Open the dashboard on sample cameras: no camera, network or account is needed.")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("sightline-demo"))
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Serve the dashboard there.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help=f"Serve it at this port; 0 is any free one. {PORT}, or a free one where that is taken, when not given.",
)
@click.option("--no-open", is_flag=True, help="Do not open it in the browser.")
@click.option("--duration", type=DURATION, metavar="TIME", help="End after that much of each stream, such as 30s.")
@click.option("--device", metavar="DEVICE", help="Where to run: auto, cpu, cuda (all GPUs) or cuda:N.")
@debug_option
def command(folder: Path, host: str, port: int | None, no_open: bool, duration: int | None, device: str | None) -> int:
    """Write the demo into FOLDER (`sightline-demo` by default), run it, and show it in the browser.

    Four clips play the cameras of a small town, with detection, tracking, lines, zones and recordings, until Ctrl-C.
    The address that is printed has a token that holds until then; the first start compiles the models, for some
    seconds. Nothing is downloaded and nothing leaves the machine.

    FOLDER gets `town.yaml`, which this command runs, `demo.yaml` with its comments, clips in `sample_videos/` and the
    sample models in `models/`: what examples of the documentation name, but for ground truth. Recordings go to
    `out/town/` in it. What you save to `town.yaml` in the dashboard is kept, and run the next time. Any other file
    that is not the demo's own, or that was changed, is not replaced: the command then writes and runs nothing.
    The exit codes are those of `sightline run`, but for 0 after Ctrl-C.
    """
    import logging

    from sightline.cli.logs import log_to_stderr
    from sightline.config import ConfigurationFile
    from sightline.graph.outputs import Outputs
    from sightline.pipeline import Pipeline
    from sightline_plugins.commands.demo.files import LIVE, write_demo

    write_demo(folder)
    root = folder.absolute()
    log_to_stderr(logging.WARNING)
    pipeline = Pipeline.from_file(ConfigurationFile(folder / LIVE, device=device, outputs=Outputs(root)), outputs=root)
    before = _recordings(root)
    code = _show(pipeline, root, address=_address(host, port), opens=not no_open, duration_ns=duration)
    made = [path for path in _recordings(root) if path not in before]
    place = shlex.quote(str(folder))
    if made:
        size = sum(path.stat().st_size for path in made) / 1e6
        click.echo(f"recorded {len(made)} clips, {size:.1f} MB, in {place}/out/town/", err=True)
    if code == 0:
        first = (f"cd {place}", "the demo's folder: its pipelines, clips, models and results")
        click.echo(f"next\n{columns((first, *NEXT), indent='  ')}", err=True)
    return code


def _show(pipeline: Pipeline, root: Path, *, address: str, opens: bool, duration_ns: int | None) -> int:
    """Run the pipeline and serve its dashboard until it is interrupted; return the exit code."""
    import os
    import secrets

    from sightline.cli.run import exit_code, run_to_end
    from sightline.server import listen
    from sightline.server.application import TOKEN_VARIABLE
    from sightline.server.policy import Policy

    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_hex(16)
    policy = Policy.model_validate({"files": [root], "networks": ["127.0.0.0/8"]})
    with listen(pipeline, address, token=token, policy=policy) as listener:
        click.echo(f"the dashboard: {listener.url}?token={token}\nCtrl-C ends it", err=True)
        if opens:
            _open_when_running(pipeline, listener, token)
        report, interrupted = run_to_end(pipeline, pipeline.reload, duration_ns=duration_ns, quiet=True)
    return 0 if interrupted else exit_code(report, pipeline, interrupted=False)


def _address(host: str, port: int | None) -> str:
    """The address to listen at: the usual port, or any where that is taken and none is asked for."""
    from sightline.errors import ConfigurationError
    from sightline.server.address import Address

    if port is None:
        try:
            Address(host, PORT).bind().close()
        except ConfigurationError:
            port = 0
        else:
            port = PORT
    return str(Address(host, port))


def _open_when_running(pipeline: Pipeline, listener: Listener, token: str) -> None:
    """Open the browser from another thread as soon as the pipeline runs, so that it shows cameras at once. Where there
    is no screen a browser of text would take the terminal: then nothing is opened.
    """
    import os
    import sys
    import time
    import webbrowser
    from threading import Thread

    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return

    def wait_and_open() -> None:
        while (view := pipeline.view()) is None or not view.is_running:
            time.sleep(_LOOK_SECONDS)
        webbrowser.open(f"{listener.url}?token={token}")

    Thread(target=wait_and_open, name="open-browser", daemon=True).start()


_LOOK_SECONDS = 0.1


def _recordings(root: Path) -> list[Path]:
    return sorted((root / "out" / "town").glob("*.mp4"))
