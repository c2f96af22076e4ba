"""What a run sends to a collector of OpenTelemetry, as options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from sightline.errors import MissingExtra
from sightline.graph.described import Described
from sightline.graph.element import Problem
from sightline.graph.fields import checked_url
from sightline.graph.http_headers import check_headers
from sightline.media.time import Duration

PACKAGE: Final = "opentelemetry-exporter-otlp-proto-http"
_SCHEMES = ("http", "https")
_OWN = re.compile("connection|content-length|content-type|content-encoding|host|transfer-encoding")


def _checked_endpoint(url: str) -> str:
    checked_url(url)
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise ValueError("brackets are for IPv6 addresses; in a password [ is written %5B and ] %5D") from error
    if scheme not in _SCHEMES:
        raise ValueError(f"telemetry goes to http://HOST:PORT or https://HOST:PORT, not {scheme}://")
    return url


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    check_headers(headers, own=_OWN, by="telemetry")
    return headers


class TelemetryOptions(Described):
    """Where traces and metrics go, and how many. Needs `pip install 'sightline[otel]'`."""

    endpoint: Annotated[Annotated[str, AfterValidator(_checked_endpoint)] | None, Field(repr=False)] = None
    """The collector, such as `http://127.0.0.1:4318` (OTLP over HTTP). When not given, OTEL_EXPORTER_OTLP_ENDPOINT and
    the other variables of OpenTelemetry decide, and without them it is `http://localhost:4318`."""
    headers: Annotated[Annotated[dict[str, str], AfterValidator(_checked_headers)] | None, Field(repr=False)] = None
    """Headers of each request, such as `Authorization`. Their values are treated as secrets."""
    sample: Annotated[float, Field(ge=0, le=1)] = 0.01
    """Share of the frames that are traced, chosen at random."""
    max_rate: Annotated[float, Field(gt=0, le=1000)] = 10.0
    """Most frames a second that are traced, of all streams together."""
    metrics: bool = True
    """Send the metrics of the run, too."""
    interval: Annotated[Duration, Field(ge=100_000_000)] = 15_000_000_000
    """Time between two exports of metrics."""

    def check(self) -> Iterator[Problem]:
        """Check that the packages of OpenTelemetry are installed, and that credentials are given once."""
        if not is_installed():
            yield Problem(str(MissingExtra(PACKAGE, extra="otel", purpose="`telemetry`")))
        has_user = self.endpoint is not None and urlsplit(self.endpoint).username is not None
        if has_user and any(name.lower() == "authorization" for name in self.headers or ()):
            text = "give user and password in `endpoint`, or the header Authorization, not both"
            yield Problem(text, ("headers",))


def is_installed() -> bool:
    """Whether the packages of OpenTelemetry can be imported."""
    try:
        return all(find_spec(f"opentelemetry.{one}") for one in ("sdk.trace", "exporter.otlp.proto.http"))
    except ModuleNotFoundError:  # a package above them
        return False
