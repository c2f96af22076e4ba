"""Whether the hosts of a URL exist, as far as the name service says."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from sightline.runtime.threads import Worker

_NO_SUCH_HOST = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
_TIMEOUT_SECONDS = 3.0


def hosts_of(url: str) -> list[str]:
    """Return the names or addresses of the hosts of a URL; several are separated by commas, as Kafka's users write."""
    places = urlsplit(url).netloc.rpartition("@")[2].split(",")
    return [host for place in places if (host := _without_port(place))]


def is_known(host: str) -> bool:
    """Whether a host has an address. Also True when the name service does not answer, or not in time: it may later."""
    question = _Question(host)
    question.start()
    question.wait(_TIMEOUT_SECONDS)
    return question.is_known


class _Question(Worker):
    """Asks the name service, which may take long, or never answer."""

    def __init__(self, host: str) -> None:
        super().__init__("name-service")
        self.is_known = True
        self._host = host

    def work(self) -> None:
        """Ask for an address."""
        try:
            socket.getaddrinfo(self._host, None)
        except socket.gaierror as error:
            self.is_known = error.errno not in _NO_SUCH_HOST
        except UnicodeError:  # no host has such a name
            self.is_known = False


def _without_port(place: str) -> str:
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0]
