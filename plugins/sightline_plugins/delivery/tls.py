"""Certificates of transports: what the server's is checked against, and our own."""

from __future__ import annotations

import ssl
from pathlib import Path

from sightline.errors import ConfigurationError


def client_context(
    ca_file: Path | None = None, cert_file: Path | None = None, key_file: Path | None = None
) -> ssl.SSLContext:
    """Return a context that checks the server's certificate and name, with our certificate when there is one.

    Without `ca_file` the certificates of the system count. Raises ConfigurationError when a file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"ca_file {ca_file} holds no certificates in PEM that can be read: {error}") from error
    if cert_file is not None:
        try:
            context.load_cert_chain(cert_file, key_file, password=_no_password)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"cert_file {cert_file} and key_file {key_file or cert_file} are no certificate in PEM with its key: "
                f"{error}"
            ) from error
    return context


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one without a passphrase")
