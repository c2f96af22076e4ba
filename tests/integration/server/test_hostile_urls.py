"""Nothing that comes by the API makes the server connect to, or read, what the policy does not name."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from sightline.config import InvalidConfiguration, LocatedProblem, Place, source_from
from sightline.config.document import node_of
from sightline.errors import ConfigurationError
from sightline.graph import Outputs, PipelineDescription, Registry, SourceElement
from sightline.server.policy import Policy
from sightline_plugins.sources.file.element import Media
from sightline_plugins.sources.live.rtsp import Rtsp
from tests.integration.server.hostile_urls import ADDRESSES, FILES, SCRIPTS, SERVERS, Hostile
from tests.integration.server.openings import watching
from tests.integration.sources.attempts import count
from tests.integration.sources.canaries import Server, hearing, serving
from tests.integration.sources.clips import write_clip

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify, and 127.0.0.2 without being asked for")

EVIL = "127.0.0.2"
"""An address that is allowed, where those are served who lead elsewhere."""
BEFORE = PipelineDescription(sources={"bars": source_from({"pattern": "bars", "size": [64, 48], "frames": 1})})


def arrive(policy: Policy, given: object, *, outputs: Path) -> SourceElement | list[str]:
    """What becomes of a source that comes by the API: the source that is run, or what is wrong with it."""
    registry = Registry()
    refused = policy.text_problems(node_of(given, place=Place()), registry=registry, key=("sources", "gate"))
    if refused:
        return _texts(refused)
    try:
        source = source_from(given, name="gate", registry=registry)  # type: ignore[arg-type]
    except ConfigurationError as error:
        return str(error).splitlines()
    after = BEFORE.model_copy(update={"sources": {**BEFORE.sources, "gate": source}})
    try:
        return policy.admitted(after, changed_from=BEFORE, outputs=Outputs(outputs)).sources["gate"]
    except InvalidConfiguration as error:
        return _texts(error.problems)


def _texts(problems: tuple[LocatedProblem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


@dataclass
class Canaries:
    """What must not be reached, and how often it was."""

    folder: Path
    servers: tuple[Server, Server]
    packets: Callable[[], int]
    openings: Callable[[], int]
    udp: int

    @property
    def places(self) -> dict[str, object]:
        port, port6 = (server.port for server in self.servers)
        return {
            "file": str(self.folder / "outside" / "clip.mp4"),
            "folder": str(self.folder / "outside"),
            "inside": str(self.folder / "inside"),
            "port": port,
            "port6": port6,
            "udp": self.udp,
        }

    def reached(self) -> tuple[int, int, int]:
        """Connections, packets, and openings of the file."""
        return sum(server.connections for server in self.servers), self.packets(), self.openings()


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canaries]:
    for name in ("inside", "outside"):
        (tmp_path / name).mkdir()
        write_clip(tmp_path / name / "clip.mp4", count=3)
    (tmp_path / "inside" / "link.mp4").symlink_to(tmp_path / "outside" / "clip.mp4")
    (tmp_path / "inside" / "links").symlink_to(tmp_path / "outside")
    monkeypatch.setenv("HOME", str(tmp_path / "outside"))
    monkeypatch.setenv("CANARY_ADDRESS", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    real = socket.getaddrinfo

    def resolved(host: str, *rest: object, **options: object) -> object:
        return real("127.0.0.1" if host == "rebinding.example" else host, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    clip = tmp_path / "outside" / "clip.mp4"
    with serving() as four, serving(host="::1") as six, hearing() as (udp, packets), watching(clip) as openings:
        yield Canaries(tmp_path, (four, six), packets, openings, udp)


def _policies(canaries: Canaries) -> dict[str, Policy]:
    return {
        "nothing allowed": Policy(),
        "much allowed": Policy(
            schemes={"rtsp", "rtsps", "http", "https"}, networks=(f"{EVIL}/32",), files=(canaries.folder / "inside",)
        ),
    }


def _without_policy(text: str) -> SourceElement | None:
    """The source as the file of a pipeline may name it: nothing is refused but what no source reads."""
    try:
        if text.lower().startswith("rtsp"):
            return Rtsp(uri=text, stall_timeout="300ms")
        media = Media(uri=text) if "://" in text else Media(uri=text.removeprefix("file:"))
        return next(iter((media.split() or {"": media}).values()))
    except ConfigurationError:
        return None


@pytest.mark.parametrize("allowed", ["nothing allowed", "much allowed"])
@pytest.mark.parametrize("hostile", [*FILES, *ADDRESSES, *SERVERS], ids=lambda hostile: hostile.text[:60])
def test_what_a_hostile_address_names_is_not_reached(canaries: Canaries, hostile: Hostile, allowed: str) -> None:
    with ExitStack() as stack:
        source = arrive(_policies(canaries)[allowed], _filled(hostile, canaries, stack), outputs=canaries.folder)
        if isinstance(source, SourceElement):
            assert hostile.by is not None, "the policy admits it"
            assert count(source)[0] == 0
    assert canaries.reached() == (0, 0, 0)


@pytest.mark.parametrize(
    "hostile", [one for one in (*FILES, *ADDRESSES, *SERVERS) if one.works], ids=lambda hostile: hostile.text[:60]
)
def test_without_the_policy_it_is_reached_so_that_the_test_sees_something(canaries: Canaries, hostile: Hostile) -> None:
    with ExitStack() as stack:
        text = _filled(hostile, canaries, stack).replace("rebinding.example", "127.0.0.1")
        source = _without_policy(text)
        assert source is not None
        count(source)
    assert any(canaries.reached())


def _filled(hostile: Hostile, canaries: Canaries, stack: ExitStack) -> str:
    places = canaries.places
    if hostile.by is not None:
        file, port = str(places["file"]), canaries.servers[0].port
        server = stack.enter_context(serving(hostile.by(port, canaries.udp, file), host=EVIL))
        places["evil"] = f"{EVIL}:{server.port}"
    return hostile.text.format(**places)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_file_that_names_others_leads_nowhere(canaries: Canaries, name: str) -> None:
    path = canaries.folder / "inside" / name
    path.write_text(
        SCRIPTS[name].replace("{file}", str(canaries.places["file"])).replace("{port}", str(canaries.servers[0].port))
    )
    source = arrive(_policies(canaries)["much allowed"], str(path), outputs=canaries.folder)
    assert isinstance(source, SourceElement), source
    assert count(source)[0] == 0
    assert canaries.reached() == (0, 0, 0)


def test_a_name_that_changes_its_address_after_it_was_judged_is_not_followed(
    canaries: Canaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = socket.getaddrinfo
    answers = iter(["8.8.8.8", "127.0.0.1"])
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **options: resolved(next(answers), *rest, **options))
    source = arrive(Policy(), f"rtsp://rebinding.example:{canaries.servers[0].port}/x", outputs=canaries.folder)
    assert isinstance(source, SourceElement)
    assert "127.0.0.1 (loopback)" in count(source)[1]
    assert canaries.reached() == (0, 0, 0)


def test_what_the_policy_names_is_admitted_and_read(canaries: Canaries) -> None:
    policy = _policies(canaries)["much allowed"]
    clip = arrive(policy, str(canaries.folder / "inside" / "clip.mp4"), outputs=canaries.folder)
    assert isinstance(clip, SourceElement)
    assert count(clip)[0] == 3
    for given in ("rtsp://10.0.0.7/main", {"uri": "rtsp://me:secret@10.0.0.7:8554/main", "max_fps": 5}):
        source = arrive(Policy(), given, outputs=canaries.folder)
        assert isinstance(source, Rtsp)
        assert source.networks == ("private", "public")
    assert isinstance(arrive(Policy(), {"pattern": "counter", "frames": 3}, outputs=canaries.folder), SourceElement)


def test_a_refusal_holds_no_password(canaries: Canaries) -> None:
    refused = arrive(Policy(), "rtsp://me:s3cret@127.0.0.1/x?token=t0ken", outputs=canaries.folder)
    assert isinstance(refused, list)
    assert "s3cret" not in " ".join(refused)
    assert "t0ken" not in " ".join(refused)
    what = "127.0.0.1 is 127.0.0.1 (loopback), and the API may name addresses in private, public"
    assert refused == [f"sources.gate.uri: {what}: allow it with --allow-network"]


def test_a_policy_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    for options in (
        {"schemes": {"udp"}},
        {"networks": ("lan",)},
        {"files": (tmp_path / "missing",)},
        {"hosts": {"a b"}},
    ):
        with pytest.raises(ConfigurationError):
            Policy(**options)


def test_nothing_of_the_error_tells_what_there_is(canaries: Canaries) -> None:
    there, missing = (
        arrive(_policies(canaries)["much allowed"], f"{canaries.folder}/outside/{name}", outputs=canaries.folder)
        for name in ("clip.mp4", "missing.mp4")
    )
    assert there == missing
    assert isinstance(there, list)
