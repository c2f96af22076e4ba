from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sightline.devices import Device
from sightline.errors import ConfigurationError, MissingExtra
from sightline.graph import CheckContext, Outputs, Site
from sightline_plugins.delivery.postgres import Postgres, parse_table


def problems(url: str, **options: Any) -> list[str]:
    context = CheckContext(device=Device(), streams=("gate",), outputs=Outputs(Path("out")))
    return [problem.message for problem in Postgres(url=url, **options).check(context)]


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_schemes_are_right(scheme: str) -> None:
    assert problems(f"{scheme}://user:pass@127.0.0.1:5432/site?sslmode=require") == []


def test_an_option_that_the_client_does_not_know_is_a_mistake_that_shows_no_password() -> None:
    found = problems("postgres://user:s3cret@127.0.0.1/site?sslpassword=hidden&colour=red")

    assert len(found) == 1
    assert 'invalid URI query parameter: "colour"' in found[0]


def test_a_password_that_is_not_encoded_is_a_mistake_that_does_not_show_it() -> None:
    found = problems("postgres://user:s3cr%zz@127.0.0.1/site")

    assert len(found) == 1
    assert "s3cr" not in found[0]


@pytest.mark.parametrize("url", ["postgres://u:hidden[@x/", "postgres://x:99999/y", "postgres://x:hidden/y"])
def test_a_url_that_cannot_be_read_is_one_mistake_that_does_not_show_it(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Postgres(url=url)

    assert "hidden" not in str(caught.value)


def test_messages_name_the_place_without_credentials_and_options() -> None:
    element = Postgres(url="postgres://user:s3cret@db:1/site?sslpassword=hidden", table="a.b")

    assert element.destination() == "postgres://db:1/site table a.b"
    assert "s3cret" not in repr(element)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("sightline", ("sightline",)),
        ("Site.Events", ("Site", "Events")),
        ('"a.b"."c""d"', ("a.b", 'c"d')),
        ("it's 1", ("it's 1",)),
    ],
)
def test_names_of_tables_are_taken_as_written(text: str, names: tuple[str, ...]) -> None:
    assert parse_table(text) == names


@pytest.mark.parametrize("text", ["", ".", "a.", "a.b.c", '"a', 'a"b', '""', "a\x00b", "ü" * 32])
def test_what_is_no_table_is_a_mistake(text: str) -> None:
    with pytest.raises(ConfigurationError):
        Postgres(url="postgres://db/site", table=text)


def test_without_the_client_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(MissingExtra, match=r"pip install 'sightline\[postgres\]'"):
        Postgres(url="postgres://db/site").transport(Site(Device()))


def test_the_module_of_the_element_does_not_import_the_client() -> None:
    code = "import sys, sightline_plugins.delivery.postgres; sys.exit('psycopg' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
