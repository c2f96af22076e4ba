"""What a worker may run, and until when."""

from __future__ import annotations

import pytest
from benchmarks.cluster.world import SECOND, SimulatedClock

from sightline.cluster.lease import WorkerLease
from sightline.cluster.model import Grant, GrantedStream

GATE = GrantedStream("gate", 7, "rtsp://gate")


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def lease(clock: SimulatedClock) -> WorkerLease:
    return WorkerLease("w1", "w1-1", clock=clock)


def beat(lease: WorkerLease) -> int:
    return lease.heartbeat(capacity=100).number


def grant(
    number: int, *, generation: int = 1, term: int = 1, streams: tuple[GrantedStream, ...] | None = (GATE,)
) -> Grant:
    return Grant(number, term, 4 * SECOND, generation, streams)


def test_a_lease_runs_from_when_the_heartbeat_was_sent(clock: SimulatedClock, lease: WorkerLease) -> None:
    number = beat(lease)
    clock.now_ns += 3 * SECOND

    lease.take(grant(number))

    assert lease.wanted == {"gate": GATE}
    assert lease.remaining_ns == SECOND
    clock.now_ns += SECOND
    assert lease.wanted == {}


def test_an_answer_that_comes_after_the_lease_starts_nothing(clock: SimulatedClock, lease: WorkerLease) -> None:
    number = beat(lease)
    clock.now_ns += 4 * SECOND

    lease.take(grant(number))

    assert lease.wanted == {}


def test_a_renewal_without_a_list_keeps_what_runs(clock: SimulatedClock, lease: WorkerLease) -> None:
    lease.take(grant(beat(lease)))
    clock.now_ns += 3 * SECOND
    lease.take(grant(beat(lease), streams=None))
    clock.now_ns += 3 * SECOND

    assert lease.wanted == {"gate": GATE}


def test_an_overtaken_list_is_ignored(lease: WorkerLease) -> None:
    first, second = beat(lease), beat(lease)
    lease.take(grant(second, generation=2, streams=()))

    lease.take(grant(first, generation=1))

    assert lease.wanted == {}
    assert lease.generation == 2


def test_an_earlier_controller_is_ignored(clock: SimulatedClock, lease: WorkerLease) -> None:
    lease.take(grant(beat(lease), term=2))
    clock.now_ns += 3 * SECOND
    lease.take(grant(beat(lease), term=1, generation=9, streams=()))

    assert lease.wanted == {"gate": GATE}
    assert lease.remaining_ns == SECOND


def test_after_its_lease_a_worker_is_open_to_any_controller(clock: SimulatedClock, lease: WorkerLease) -> None:
    lease.take(grant(beat(lease), term=2, generation=50))
    clock.now_ns += 5 * SECOND
    lease.take(grant(beat(lease), term=1, generation=3))

    assert lease.wanted == {"gate": GATE}


def test_a_lapse_is_told(clock: SimulatedClock, lease: WorkerLease) -> None:
    lease.take(grant(beat(lease)))
    lease.applied(1)
    clock.now_ns += 5 * SECOND

    sent = lease.heartbeat(capacity=100)

    assert (sent.lapses, sent.generation) == (1, 0)


def test_a_refused_connection_extends_a_lease_and_silence_does_not(clock: SimulatedClock, lease: WorkerLease) -> None:
    lease.take(grant(beat(lease)))
    clock.now_ns += 3 * SECOND
    lease.controller_absent(beat(lease))
    clock.now_ns += 3 * SECOND
    assert lease.wanted == {"gate": GATE}
    beat(lease)
    clock.now_ns += SECOND

    assert lease.wanted == {}


def test_a_refused_connection_revives_no_lease(clock: SimulatedClock, lease: WorkerLease) -> None:
    lease.take(grant(beat(lease)))
    clock.now_ns += 5 * SECOND

    lease.controller_absent(beat(lease))

    assert lease.wanted == {}
