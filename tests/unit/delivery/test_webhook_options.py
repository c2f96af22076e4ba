from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Outputs
from sightline_plugins.delivery.webhook import Webhook


def problems(url: str, **options: Any) -> list[str]:
    context = CheckContext(device=Device(), streams=("gate",), outputs=Outputs(Path("out")))
    return [problem.message for problem in Webhook(url=url, **options).check(context)]


def path(url: str, *, stream: str = "gate", kind: str = "events") -> str:
    return Webhook(url=url).address(stream, kind, pipeline="yard")


def test_a_url_with_a_template_is_right() -> None:
    assert problems("https://user:pass@127.0.0.1/hooks/{pipeline}/{stream}/{kind}?key=1") == []


def test_another_scheme_is_named_with_those_allowed() -> None:
    assert problems("ftp://127.0.0.1/x") == ["`webhook` takes a URL that begins with http://, https://, not ftp://"]


@pytest.mark.parametrize(
    "url", ["http://u:hidden[@x/", "http://[", "http://x:99999/", "http://x:hidden/", "http://", ""]
)
def test_a_url_that_cannot_be_read_is_one_mistake_that_does_not_show_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Webhook(url=url)

    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://{stream}.example.com/", "http://example.com/?stream={stream}"])
def test_placeholders_belong_into_the_path(url: str) -> None:
    assert any("placeholders belong into the path" in problem for problem in problems(url))


def test_an_unknown_placeholder_is_a_mistake() -> None:
    assert any("{strem}" in problem for problem in problems("http://127.0.0.1/{strem}"))


def test_credentials_are_given_once() -> None:
    found = problems("http://user:pass@127.0.0.1", headers={"authorization": "Bearer x"})

    assert found == ["give user and password in `url`, or the header Authorization, not both"]


@pytest.mark.parametrize(
    ("headers", "what"),
    [
        ({"X Y": "v"}, "is not the name of a header"),
        ({"Host": "v"}, "is set by `webhook` itself"),
        ({"Sightline-Signature": "v"}, "is set by `webhook` itself"),
        ({"X": "a", "x": "b"}, "is there twice"),
        ({"X": "hidden\r\nY: 1"}, "no header may hold"),
        ({"X": ""}, "is empty"),
        ({"X": "hidden ✓"}, "no header may hold"),
    ],
)
def test_headers_that_cannot_be_sent_are_mistakes_and_their_values_are_not_shown(
    headers: dict[str, str], what: str
) -> None:
    with pytest.raises(ConfigurationError, match=what) as caught:
        Webhook(url="http://x", headers=headers)

    assert "hidden" not in str(caught.value)


def test_secrets_are_not_in_the_representation() -> None:
    hook = Webhook(url="https://u:pa55@x/?k=t0ken", headers={"A": "hea2er"}, secret="s3cret")

    shown = repr(hook) + hook.destination()

    assert not [secret for secret in ("pa55", "t0ken", "hea2er", "s3cret") if secret in shown]


@pytest.mark.parametrize("stream", ["..", ".", "a/../b", "a?b#c", "%2e%2e", "", "\n"])
def test_the_name_of_a_stream_never_leaves_its_place_in_the_path(stream: str) -> None:
    made = path("http://x/hooks/{stream}/{kind}", stream=stream)

    parts = made.split("/")
    assert parts[:2] == ["", "hooks"]
    assert len(parts) == 4
    assert parts[2] not in {"", ".", ".."}
    assert made.isascii()
    assert made.isprintable()


def test_the_path_holds_no_credentials_and_no_query() -> None:
    assert path("https://user:pass@x:8443/ü b/{stream}?token=1#top") == "/%C3%BC%20b/gate"


def test_a_url_without_a_path_is_posted_to_the_root() -> None:
    assert path("https://x") == "/"
