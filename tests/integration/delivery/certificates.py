"""Certificates of an authority, a server at 127.0.0.1 and a client, made with openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.integration.delivery.servers import program

_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
"""Keys of elliptic curves are made at once; those of RSA take 0.1 s each."""


@dataclass(frozen=True)
class Certificates:
    """Files (PEM): the authority, and certificate and key of the server and the client."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path


def make_certificates(folder: Path) -> Certificates:
    """Make them in a folder; they are valid for a day."""
    _openssl(folder, *f"req -x509 {_KEY} -days 1 -keyout ca.key -out ca.pem -subj /CN=ca".split())
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("server", "client"):
        _openssl(folder, *f"req {_KEY} -keyout {name}.key -out {name}.csr -subj /CN={name}".split())
        signing = f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 1 -out {name}.pem"
        _openssl(folder, *signing.split(), "-extfile", "names")
    files = [folder / name for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")]
    return Certificates(*files)


def _openssl(folder: Path, *arguments: str) -> None:
    command = [program("openssl", package="openssl"), *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
