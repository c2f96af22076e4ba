"""Options of TLS, which are the same for all elements that have them."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, Outputs
from sightline_plugins import Amqp, Kafka, Mqtt, Nats, Redis, Webhook
from sightline_plugins.delivery.tls import TlsDelivery
from tests.integration.delivery.certificates import Certificates, make_certificates
from tests.integration.delivery.servers import program

ELEMENTS: dict[type[TlsDelivery], tuple[str, str]] = {
    Amqp: ("amqp", "amqps"),
    Kafka: ("kafka", "kafkas"),
    Mqtt: ("mqtt", "mqtts"),
    Nats: ("nats", "tls"),
    Redis: ("redis", "rediss"),
    Webhook: ("http", "https"),
}
EACH = pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: element.name)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def problems(element: type[TlsDelivery], *, plain: bool = False, **files: Path) -> list[str]:
    without_tls, with_tls = ELEMENTS[element]
    options: dict[str, Any] = {"url": f"{without_tls if plain else with_tls}://127.0.0.1", **files}
    context = CheckContext(device=Device(), streams=("gate",), outputs=Outputs(Path("out")))
    return [problem.message for problem in element(**options).check(context)]


@EACH
def test_certificate_and_key_may_be_two_files_or_one(
    element: type[TlsDelivery], made: Certificates, tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(made.client.read_bytes() + made.client_key.read_bytes())

    assert problems(element, ca_file=made.authority, cert_file=made.client, key_file=made.client_key) == []
    assert problems(element, cert_file=both) == []


@EACH
def test_file_without_certificates_is_one_problem(element: type[TlsDelivery], tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("none")

    (found,) = problems(element, ca_file=file)

    assert "ca.pem holds no certificates in PEM: no certificate or crl found" in found


@EACH
def test_key_of_another_certificate_is_one_problem(element: type[TlsDelivery], made: Certificates) -> None:
    (found,) = problems(element, cert_file=made.client, key_file=made.server_key)

    assert "server.key is no certificate in PEM with its key: key values mismatch" in found


@EACH
def test_key_with_a_passphrase_is_one_problem_and_asks_nobody(
    element: type[TlsDelivery], made: Certificates, tmp_path: Path
) -> None:
    locked = tmp_path / "locked.key"
    openssl = program("openssl", package="openssl")
    encrypting: list[str | Path] = [
        openssl,
        "pkey",
        "-aes256",
        "-passout",
        "pass:abcd",
        "-in",
        made.client_key,
        "-out",
        locked,
    ]
    subprocess.run(encrypting, check=True, capture_output=True)

    (found,) = problems(element, cert_file=made.client, key_file=locked)

    assert "the key is encrypted; give one without a passphrase" in found


@EACH
def test_missing_file_is_left_to_the_check_of_all_files(element: type[TlsDelivery], tmp_path: Path) -> None:
    assert problems(element, ca_file=tmp_path / "ca.pem") == []


@EACH
def test_key_needs_its_certificate(element: type[TlsDelivery]) -> None:
    with pytest.raises(ConfigurationError, match="key_file is the key of a certificate: give cert_file too"):
        problems(element, key_file=Path("x.key"))


@pytest.mark.parametrize("element", [one for one in ELEMENTS if one is not Nats], ids=lambda element: element.name)
@pytest.mark.parametrize("key", ["ca_file", "cert_file"])
def test_certificates_without_tls_are_a_problem(element: type[TlsDelivery], key: str, made: Certificates) -> None:
    assert problems(element, plain=True, **{key: made.client}) == [
        f"{key} is for TLS: write {ELEMENTS[element][1]}:// in `url`"
    ]


def test_nats_may_use_tls_without_asking_for_it(made: Certificates) -> None:
    assert problems(Nats, plain=True, ca_file=made.authority) == []


@pytest.mark.parametrize("element", [Amqp, Webhook])
def test_context_checks_the_servers_certificate_and_name(element: type[TlsDelivery]) -> None:
    context = element(url=f"{ELEMENTS[element][1]}://localhost").tls_context()

    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert element(url=f"{ELEMENTS[element][0]}://localhost").tls_context() is None


def test_insecure_mqtt_checks_nothing() -> None:
    context = Mqtt(url="mqtts://localhost", insecure=True).tls_context()

    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
