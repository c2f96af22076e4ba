"""TLS of transports: the options that they share, and the context that is made from them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import ClassVar, Self

from pydantic import model_validator

from sightline.errors import ConfigurationError
from sightline.graph import CheckContext, InputPath, Problem
from sightline_plugins.delivery.element import Delivery


class TlsDelivery(Delivery):
    """Base of elements that deliver over TLS when their URL asks for it. `tls_schemes` are the schemes that do, or may.

    Files are read when a context is made, so a transport that makes one for each connection takes renewed certificates.
    """

    tls_schemes: ClassVar[tuple[str, ...]]

    ca_file: InputPath | None = None
    """Certificates (PEM) of the authorities that the server's must come from, or its own when it is self-signed; those
    of the system when not given."""
    cert_file: InputPath | None = None
    """Certificate (PEM) of this client, for servers that ask for one."""
    key_file: InputPath | None = None
    """Private key (PEM, without a passphrase) of `cert_file`, when it is not in that file."""

    @model_validator(mode="after")
    def _has_certificate_of_key(self) -> Self:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file is the key of a certificate: give cert_file too")
        return self

    def is_tls(self) -> bool:
        """Whether the scheme of the URL asks for TLS, or allows it."""
        return self.url.partition("://")[0].lower() in self.tls_schemes

    def tls_context(self) -> ssl.SSLContext | None:
        """Make a context that checks the server's certificate and name, with our certificate when there is one; None
        without TLS. Raises ConfigurationError when a file cannot be used.
        """
        if not self.is_tls():
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"ca_file {self.ca_file} holds no certificates in PEM: {_reason(error)}"
            ) from error
        if self.cert_file is not None:
            try:
                context.load_cert_chain(self.cert_file, self.key_file, password=_no_passphrase)
            except (OSError, ValueError) as error:
                files = f"cert_file {self.cert_file}" + (f" with key_file {self.key_file}" if self.key_file else "")
                raise ConfigurationError(f"{files} is no certificate in PEM with its key: {_reason(error)}") from error
        return context

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check what all that deliver check, and that files of certificates come with a URL for TLS."""
        yield from super().check(context)
        if not self.is_tls():
            for key in self._tls_options():
                if getattr(self, key):
                    yield Problem(f"{key} is for TLS: write {self.tls_schemes[0]}:// in `url`", (key,))

    def _tls_options(self) -> tuple[str, ...]:
        return "ca_file", "cert_file"


def _no_passphrase() -> str:
    raise ValueError("the key is encrypted; give one without a passphrase")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and not isinstance(error, ssl.SSLError):
        return error.strerror
    return str(getattr(error, "reason", None) or error).replace("_", " ").lower()
