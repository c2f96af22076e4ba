"""The Python client, on a pipeline that runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from sightline.client import (
    AccessDenied,
    Client,
    Invalid,
    NotFound,
    PipelineClient,
    Refused,
    Reverted,
    Stale,
)
from sightline.errors import ConfigurationError
from sightline.server.policy import Policy
from tests.integration.server.api.conftest import PLAZA, Steered
from tests.integration.server.conftest import endless, wait_for


@pytest.fixture
def client(steered: Steered) -> Iterator[Client]:
    """A client with the token of an admin."""
    with Client(steered.listener.url, token=steered.admin.token) as made:
        yield made


@pytest.fixture
def street(client: Client) -> PipelineClient:
    return client.pipeline()


def test_importing_the_client_brings_neither_the_server_nor_the_pipeline() -> None:
    heavy = ("fastapi", "starlette", "uvicorn", "numpy", "av", "cv2", "sightline.media", "sightline.server")
    code = f"import sys, sightline.client; print([one for one in {heavy} if one in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)

    assert done.stdout.strip() == "[]"


def test_the_only_pipeline_needs_no_name(client: Client, steered: Steered) -> None:
    (state,) = client.pipelines()

    assert client.pipeline().name == "street"
    assert state.running
    assert state.streams == 2
    assert state.etag == steered.pipeline.configuration.etag
    assert client.pipeline("street").state().name == "street"


def test_a_pipeline_that_is_not_there_is_not_found(client: Client) -> None:
    with pytest.raises(NotFound, match="there is no pipeline 'other'; there is street"):
        client.pipeline("other").streams()
    with pytest.raises(NotFound, match="other"):
        client.pipeline("other").state()


def test_address_and_token_may_come_from_the_environment(steered: Steered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_URL", steered.listener.url)
    monkeypatch.setenv("SIGHTLINE_TOKEN", str(steered.viewer.token))

    with Client() as client:
        assert [one.name for one in client.pipelines()] == ["street"]


def test_what_is_read_is_typed(street: PipelineClient) -> None:
    assert [one.name for one in street.streams()] == ["gate", "yard"]
    assert street.stream("yard").source["pattern"] == "bars"
    assert [one.id for one in street.elements()] == ["replay-1", "track-1", "lines-1", "zones-1", "draw-1"]
    assert "gone" in street.element("zones-1").changes_live
    assert [(one.element, one.name) for one in street.rules()] == [("lines-1", "gate_in"), ("zones-1", "plaza")]
    assert street.rule("zones-1", "plaza").options == PLAZA
    assert street.status()["running"]
    with pytest.raises(NotFound, match="no report before the run is over"):
        street.report()


def test_streams_are_added_replaced_and_removed(street: PipelineClient) -> None:
    assert street.put_stream("third", endless(pattern="counter")).etag != street.versions()[0].etag
    street.put_stream("third", endless(pattern="bars"))
    assert street.stream("third").source["pattern"] == "bars"
    street.remove_stream("third")

    with pytest.raises(NotFound, match="third"):
        street.stream("third")


@pytest.mark.parametrize("name", ["..", ".", "a b?c#d", "%2e%2e", "ä", "a;b=c&d"])
def test_any_name_stays_one_part_of_the_path(street: PipelineClient, name: str) -> None:
    with pytest.raises(NotFound) as caught:
        street.stream(name)

    assert str(caught.value).startswith(f"there is no stream {name!r}")


def test_a_name_with_a_slash_is_nothing_else(street: PipelineClient) -> None:
    with pytest.raises(NotFound):
        street.remove_stream("gate/../yard")

    assert [one.name for one in street.streams()] == ["gate", "yard"]


def test_streams_rest_and_go_on(street: PipelineClient) -> None:
    paused = street.pause("yard")
    assert paused.status is not None
    assert paused.status["state"] == "paused"
    street.resume("yard")

    wait_for(lambda: (street.stream("yard").status or {})["state"] == "live")


def test_without_a_file_nothing_is_saved(street: PipelineClient) -> None:
    with pytest.raises(Refused, match="file"):
        street.save()


def test_rules_and_options_are_changed(street: PipelineClient) -> None:
    street.put_rule("zones-1", "second", PLAZA)
    street.change_element("zones-1", {"gone": "3s"})
    street.remove_rule("zones-1", "plaza")

    assert [one.name for one in street.rules()] == ["gate_in", "second"]
    assert street.element("zones-1").options["gone"] == "3s"
    assert street.change_element("zones-1", {"gone": None}, prove=0.5).proven
    assert "gone" not in street.element("zones-1").options


def test_several_rules_are_changed_and_steps_added_and_removed(street: PipelineClient) -> None:
    changed = street.change_rules({"zones-1": {"plaza": None, "second": PLAZA}}, if_match=street.configuration().etag)
    assert [one.name for one in street.rules()] == ["gate_in", "second"]

    street.add_elements([{"zones": {"third": PLAZA}}], after="zones-1", if_match=changed.etag)
    assert [one.element for one in street.rules()] == ["lines-1", "zones-1", "zones-2"]
    street.remove_element("zones-2")
    assert street.element("zones-1").labels == ["car"]


def test_a_change_made_from_another_version_is_stale(street: PipelineClient) -> None:
    read = street.configuration()
    changed = street.put_rule("zones-1", "second", PLAZA, if_match=read.etag)

    with pytest.raises(Stale) as caught:
        street.put_rule("zones-1", "third", PLAZA, if_match=read.etag)

    assert caught.value.etag == changed.etag == street.configuration().etag


def test_what_is_wrong_is_listed(street: PipelineClient) -> None:
    with pytest.raises(Invalid, match="at least 3 entries") as caught:
        street.put_rule("zones-1", "second", {"polygon": [[0.2, 0.1], [0.9, 0.1]]})

    (mistake,) = caught.value.problems
    assert set(asdict(mistake)) == {"path", "message"}
    assert "polygon" in mistake.path


def test_a_configuration_is_checked_applied_and_rolled_back(street: PipelineClient) -> None:
    before = street.configuration()
    text = before.text.replace("plaza", "square")

    assert street.check(text).valid
    assert not street.check(text.replace("polygon", "polygn")).valid
    changed = street.apply(text, if_match=before.etag, prove=0.5)
    assert changed.proven
    assert [one.name for one in street.rules()] == ["gate_in", "square"]
    street.roll_back(before.etag, prove=0.5)
    assert street.configuration() == before
    with pytest.raises(NotFound, match="no version"):
        street.roll_back("0" * 16)


def test_the_newest_image_is_a_jpeg(street: PipelineClient) -> None:
    assert street.image("gate", width=160).startswith(b"\xff\xd8")


def test_a_snapshot_is_a_jpeg(street: PipelineClient) -> None:
    assert street.snapshot("gate").startswith(b"\xff\xd8")


def test_what_cannot_be_done_is_refused(street: PipelineClient) -> None:
    with pytest.raises(Refused, match="record"):
        street.record("gate", before="1s")
    with pytest.raises(Invalid, match="before"):
        street.record("gate", before="soon")


def test_a_viewer_is_denied_changes_and_nobody_everything(steered: Steered) -> None:
    with Client(steered.listener.url, token=steered.viewer.token) as viewer:
        with pytest.raises(AccessDenied, match="operator") as caught:
            viewer.pipeline().put_rule("zones-1", "second", PLAZA)
        assert caught.value.status == 403
    with Client(steered.listener.url, token="") as nobody:
        with pytest.raises(AccessDenied, match="a token is needed") as caught:
            nobody.pipelines()
        assert caught.value.status == 401


def test_the_report_is_there_when_the_run_is_over(steered: Steered, street: PipelineClient) -> None:
    steered.pipeline.stop()
    steered.pipeline.wait()

    wait_for(lambda: not street.state().running)
    assert set(street.report()["streams"]) == {"gate", "yard"}


def fail_soon(batch: Any) -> Any:
    """A step that breaks on its first batch."""
    raise ValueError(f"broken on {len(batch)} frames")


class TestBroken:
    """A change after which the pipeline is not well."""

    @pytest.fixture
    def policy(self) -> Policy:
        return Policy(allow_code=True)

    def test_it_is_reverted_and_says_where(self, street: PipelineClient) -> None:
        before = street.configuration()

        with pytest.raises(Reverted, match="broken on") as caught:
            street.apply(f"{before.text}- apply: {__name__}:fail_soon\n", if_match=before.etag)

        assert caught.value.element == "apply-1"
        assert street.configuration() == before


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://here", "no address"),
        ("127.0.0.1:8080", "no address"),
        ("http://", "no address"),
        ("http://host:port", "no address"),
        ("http://anna:hunter2@host", "neither a user"),
        ("http://host/?token=secret", "neither a user"),
    ],
)
def test_a_wrong_address_is_explained_without_what_is_secret(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        Client(url)

    assert "hunter2" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_token_of_two_lines_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="letters that no token has"):
        Client(token="abc\r\nX-Other: 1")


def test_a_file_of_certificates_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"other\.pem"):
        Client("https://127.0.0.1:1", ca_file=tmp_path / "other.pem")
