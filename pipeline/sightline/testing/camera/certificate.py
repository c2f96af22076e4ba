"""A certificate for `rtsps`, made on the spot by the command `openssl`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from sightline.errors import ConfigurationError


def self_signed_certificate(folder: Path, *, host: str = "127.0.0.1") -> Path:
    """Make a key and a certificate for `host`, good for one day, and return the PEM file that holds both.

    Raises ConfigurationError when there is no `openssl`.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        raise ConfigurationError("rtsps needs a certificate, and there is no command openssl to make one: install it")
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "camera.pem"
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", str(key), "-out", str(certificate), "-days", "1", "-subj", f"/CN={host}"]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  its own arguments only
    both.write_text(key.read_text() + certificate.read_text())
    key.unlink()
    certificate.unlink()
    return both
