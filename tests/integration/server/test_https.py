"""HTTPS by files of a certificate."""

from __future__ import annotations

import http.client
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.server import Certificate, listen
from tests.conftest import missing
from tests.integration.server.conftest import TOKEN, endless


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate for localhost that nobody but this test trusts."""
    tool = shutil.which("openssl")
    if tool is None:
        missing("openssl is not installed (Debian: openssl)")
    folder = tmp_path_factory.mktemp("tls")
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = [str(tool), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", made.key, "-out", made.certificate], check=True, capture_output=True)
    return made


def test_it_is_served_over_tls_and_its_cookie_stays_there(certificate: Certificate) -> None:
    context = ssl.create_default_context(cafile=str(certificate.certificate))
    pipeline = Pipeline(sources={"gate": endless()}, steps=["draw"])
    with listen(pipeline, "127.0.0.1:0", token=TOKEN, certificate=certificate) as listener, pipeline:
        connection = http.client.HTTPSConnection("localhost", listener.port, context=context, timeout=300)
        connection.request("GET", f"/?token={TOKEN}")
        welcome = connection.getresponse()
        welcome.read()
        cookie = welcome.headers["Set-Cookie"]
        connection.request("GET", "/status", headers={"Cookie": cookie.partition(";")[0]})
        status = connection.getresponse().status
        connection.close()

        plain = http.client.HTTPConnection("localhost", listener.port, timeout=300)
        plain.request("GET", "/healthz")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        plain.close()

    assert listener.url.startswith("https://")
    assert welcome.status == 303
    assert "Secure" in cookie
    assert status == 200


@pytest.mark.parametrize("wrong", ["missing", "no certificate", "another key"])
def test_a_certificate_that_cannot_be_used_is_explained(certificate: Certificate, tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "wrong.pem"
    if wrong == "no certificate":
        file.write_text("nothing")
    elif wrong == "another key":
        shutil.copy(certificate.certificate, file)
    files = Certificate(file if wrong != "another key" else certificate.certificate, file)
    with pytest.raises(ConfigurationError, match="the certificate cannot be used"):
        listen(Pipeline(sources={"gate": endless()}), "127.0.0.1:0", token=TOKEN, certificate=files)
