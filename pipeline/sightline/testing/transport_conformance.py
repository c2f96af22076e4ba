"""The contract of transports, as a test class that any transport can be put through.

    class TestMyTransport(TransportConformance):
        @pytest.fixture
        def element(self, server):
            return MyElement(url=server.url)

        def received(self):
            return [...]  # the bodies that the server has, in its order

        def stop(self):
            ...  # end the server at once

An assertion that fails says in a sentence which promise was broken.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sightline.devices import Device
from sightline.errors import DeliveryError, DestinationLost
from sightline.graph import Site
from sightline.graph.transport import Delivers, Record, Transport
from sightline.testing.outbox import MemoryOutbox

_LIMIT_SECONDS = 120.0


class TransportConformance:
    """Tests of the `Transport` contract against a real server. A subclass has a fixture `element`, and says what its
    server has received; pytest collects it by its name.
    """

    def received(self) -> Sequence[bytes]:
        """Return the bodies that the server has received, in its order."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the server at once, as if it had crashed."""
        raise NotImplementedError

    def test_records_arrive_in_order(self, element: Delivers) -> None:
        """What `deliver` returns for is at the server, in order."""
        with connected(element) as transport:
            transport.deliver(records(element, 0, 50))
            transport.deliver(records(element, 50, 60))
        self.expect(bodies(0, 60))

    def test_many_records_at_once(self, element: Delivers) -> None:
        """As many records as the delivery worker takes at once arrive in order."""
        with connected(element) as transport:
            transport.deliver(records(element, 0, 500))
        self.expect(bodies(0, 500))

    def test_no_record_is_no_mistake(self, element: Delivers) -> None:
        """An empty delivery does nothing."""
        with connected(element) as transport:
            transport.deliver([])
        self.expect([])

    def test_it_connects_again_after_close(self, element: Delivers) -> None:
        """A transport that was closed can connect and deliver again, as after a failure."""
        transport = transport_of(element)
        for first in (0, 10, 20):
            transport.connect()
            transport.deliver(records(element, first, first + 10))
            transport.close()
        self.expect(bodies(0, 30))

    def test_close_is_harmless_at_any_time(self, element: Delivers) -> None:
        """`close` may come before `connect`, and twice."""
        transport = transport_of(element)
        transport.close()
        transport.connect()
        transport.close()
        transport.close()

    def test_names_of_all_kinds(self, element: Delivers) -> None:
        """Names of streams hold whatever people write."""
        names = ("gate 1", "tor/süd", "a.b*c>#+$", "камера", "🎥" * 20, "x" * 255)
        named = [record(element, number, stream=name) for number, name in enumerate(names)]
        with connected(element) as transport:
            transport.deliver(named)
        self.expect([one.body for one in named])

    def test_a_server_that_is_away_is_lost(self, element: Delivers) -> None:
        """Without a server, `connect` or `deliver` raises DestinationLost with nothing delivered."""
        self.stop()
        transport = transport_of(element)
        error = failure(lambda: (transport.connect(), transport.deliver(records(element, 0, 3))))
        transport.close()
        assert isinstance(error, DestinationLost), f"raised {error!r} instead of DestinationLost"
        assert error.delivered == 0, f"it claims to have delivered {error.delivered} records to a server that is away"

    def test_a_server_that_goes_away_is_lost(self, element: Delivers) -> None:
        """When the server ends between two deliveries, the next one raises DestinationLost."""
        transport = transport_of(element)
        transport.connect()
        transport.deliver(records(element, 0, 3))
        self.stop()
        error = failure(lambda: transport.deliver(records(element, 3, 6)))
        transport.close()
        assert isinstance(error, DestinationLost), f"raised {error!r} instead of DestinationLost"

    def expect(self, wanted: Sequence[bytes]) -> None:
        """Wait until the server has received as many records, and see that they are these."""
        end = time.monotonic() + _LIMIT_SECONDS
        while len(got := list(self.received())) < len(wanted) and time.monotonic() < end:
            time.sleep(0.05)
        assert got == list(wanted), f"{len(got)} records arrived, not {len(wanted)} in order: {got[:3]}..."


PIPELINE = "conformance"


def record(element: Delivers, number: int, *, stream: str = "gate") -> Record:
    """Return a record whose body holds its number."""
    body = _body(number)
    to = element.address(stream, "events", pipeline=PIPELINE)
    return Record(stream, 1, number, "events", to, body, time_ns=1_764_000_000_000_000_000 + number)


def records(element: Delivers, first: int, last: int) -> list[Record]:
    """Return records with these numbers."""
    return [record(element, number) for number in range(first, last)]


def bodies(first: int, last: int) -> list[bytes]:
    """Return their bodies."""
    return [_body(number) for number in range(first, last)]


def _body(number: int) -> bytes:
    return b'{"stream":"gate","epoch":1,"seq":%d,"record":"events"}' % number


def transport_of(element: Delivers) -> Transport:
    """Make the transport of an element, as its operator does."""
    return element.transport(Site(Device(), element_id="delivery-1", pipeline=PIPELINE, outbox=MemoryOutbox()))


@contextmanager
def connected(element: Delivers) -> Iterator[Transport]:
    """Give a connected transport, and close it."""
    transport = transport_of(element)
    transport.connect()
    try:
        yield transport
    finally:
        transport.close()


def failure(call: object) -> DeliveryError | None:
    """Return the delivery error that a call raises."""
    assert callable(call)
    try:
        call()
    except DeliveryError as error:
        return error
    return None
