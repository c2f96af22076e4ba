"""`nats` with a `.creds` file, against a server that trusts an operator."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import ConfigurationError, DestinationRefused
from tests.integration.delivery.nats_server import new_server
from tests.integration.delivery.servers import Server
from tests.integration.delivery.test_nats import new_element, new_transport, read_all, records_for, seen

pytest.importorskip("nats")
nkeys: Any = pytest.importorskip("nkeys")


class Identity:
    """A key of an operator, account or user, that signs claims about others."""

    def __init__(self, prefix: int) -> None:
        self.seed = bytes(nkeys.encode_seed(os.urandom(32), prefix)).decode()
        self.pair = nkeys.from_seed(bytearray(self.seed.encode()))
        self.name = self.pair.public_key.decode()

    def claim(self, about: Identity, **nats: Any) -> str:
        """Return a JWT as `nsc` makes it."""
        about_whom = {"iss": self.name, "sub": about.name, "name": "site", "jti": "1", "iat": 1_700_000_000}
        parts = ({"typ": "JWT", "alg": "ed25519-nkey"}, {**about_whom, "nats": {"version": 2, **nats}})
        text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{text}.{_encoded(self.pair.sign(text.encode()))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.fixture
def account() -> Identity:
    return Identity(nkeys.PREFIX_BYTE_ACCOUNT)


@pytest.fixture
def credentials(account: Identity, tmp_path: Path) -> Path:
    user = Identity(nkeys.PREFIX_BYTE_USER)
    jwt = account.claim(user, type="user", subs=-1, data=-1, payload=-1)
    file = tmp_path / "site.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n"
    )
    return file


@pytest.fixture
def server(account: Identity, tmp_path: Path) -> Iterator[Server]:
    operator, system = Identity(nkeys.PREFIX_BYTE_OPERATOR), Identity(nkeys.PREFIX_BYTE_ACCOUNT)
    unlimited = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    stored = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
    accounts = {
        system.name: operator.claim(system, type="account", limits=unlimited),
        account.name: operator.claim(account, type="account", limits={**unlimited, **stored, "wildcards": True}),
    }
    config = {
        "operator": operator.claim(operator, type="operator"),
        "resolver": "MEMORY",
        "system_account": system.name,
        "resolver_preload": accounts,
    }
    started = new_server(tmp_path, config="".join(f"{key}: {json.dumps(value)}\n" for key, value in config.items()))
    started.start()
    yield started
    started.kill()


def test_a_file_of_credentials_logs_in(server: Server, credentials: Path) -> None:
    element = new_element(server, credentials_file=credentials)
    transport = new_transport(element)
    transport.connect()
    transport.deliver(records_for(element, 5))
    transport.close()

    assert seen(read_all(server, user_credentials=str(credentials))) == [("gate", seq) for seq in range(5)]


def test_credentials_of_another_account_are_refused(server: Server, credentials: Path) -> None:
    jwt, other = credentials.read_text().split("\n")[1], Identity(nkeys.PREFIX_BYTE_ACCOUNT)
    user = Identity(nkeys.PREFIX_BYTE_USER)
    credentials.write_text(credentials.read_text().replace(jwt, other.claim(user, type="user")))

    with pytest.raises(DestinationRefused, match="Authorization Violation"):
        new_transport(new_element(server, credentials_file=credentials)).connect()


@pytest.mark.parametrize("text", ["", "nothing\n", "BEGIN NATS USER JWT\nx\nBEGIN USER NKEY SEED\nx\n"])
def test_a_file_without_credentials_is_reported_before_anything_runs(tmp_path: Path, text: str) -> None:
    file = tmp_path / "empty.creds"
    file.write_text(text)
    element = new_element(Server([], port=1, folder=tmp_path), credentials_file=file)

    with pytest.raises(ConfigurationError, match="does not hold a user's JWT and seed"):
        new_transport(element)
