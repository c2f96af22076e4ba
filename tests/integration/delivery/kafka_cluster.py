"""A Kafka cluster for tests: librdkafka's own mock cluster, in a child process that can be stopped and continued.

No package here ships a Kafka broker. The mock cluster is part of the client library that all users of confluent-kafka
have: it listens on loopback, speaks the protocol to any client of any process (producers, consumer groups), keeps
messages in memory, and fails on request. It knows no TLS, no SASL and no limit on sizes, and a kill loses its state.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.integration.delivery.servers import Server

PRODUCE, METADATA = 0, 3
"""Numbers of requests in Kafka's protocol."""


class KafkaCluster(Server):
    """A mock cluster of some brokers; `address` is what clients connect to."""

    def __init__(self, folder: Path, *, brokers: int = 1) -> None:
        self._addresses = folder / "addresses"
        self._control, self._done = folder / "control", folder / "done"
        for fifo in (self._control, self._done):
            os.mkfifo(fifo)
        command = [sys.executable, "-m", __name__, str(folder), str(brokers)]
        super().__init__(
            ["env", f"PYTHONPATH={REPOSITORY}", *command], port=0, folder=folder, ready=self._addresses.exists
        )

    @property
    def address(self) -> str:
        """`host:port` of all brokers, separated by commas."""
        return self._addresses.read_text()

    def create(self, topic: str, *, partitions: int) -> None:
        """Create a topic."""
        self._tell(f"create {topic} {partitions}")

    def fail_topic(self, topic: str, code: int) -> None:
        """Answer each request about a topic with an error code of the protocol; 0 ends that."""
        self._tell(f"fail_topic {topic} {code}")

    def fail_requests(self, request: int, *codes: int) -> None:
        """Answer the next requests of a kind with these error codes."""
        self._tell(f"fail_requests {request} {' '.join(map(str, codes))}")

    def set_down(self, broker: int) -> None:
        """Let one broker, from 1, accept no connection."""
        self._tell(f"down {broker}")

    def set_up(self, broker: int) -> None:
        """Let it accept connections again."""
        self._tell(f"up {broker}")

    def _tell(self, order: str) -> None:
        self._control.write_text(order + "\n")
        answer = self._done.read_text()
        assert answer == "0", f"{order}: {answer}"


def _serve(folder: Path, brokers: int) -> None:
    """Run a mock cluster, and carry out the orders that come through the FIFO `control`."""
    package = importlib.util.find_spec("confluent_kafka")
    assert package is not None
    assert package.origin is not None
    library = ctypes.CDLL(str(next(Path(package.origin).parent.with_suffix(".libs").glob("librdkafka[-.]*"))))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    reason = ctypes.create_string_buffer(512)
    handle = library.rd_kafka_new(0, ctypes.c_void_p(library.rd_kafka_conf_new()), reason, len(reason))
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(handle), brokers))
    library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0)  # one consumer alone is a whole group
    partial = folder / "addresses.partial"
    partial.write_bytes(library.rd_kafka_mock_cluster_bootstraps(cluster))
    partial.rename(folder / "addresses")
    while True:
        word, *values = (folder / "control").read_text().split()
        match word, values:
            case "create", (topic, partitions):
                code = library.rd_kafka_mock_topic_create(cluster, topic.encode(), int(partitions), 1)
            case "fail_topic", (topic, error):
                library.rd_kafka_mock_topic_set_error(cluster, topic.encode(), int(error))
                code = 0
            case "fail_requests", (request, *errors):
                codes = (ctypes.c_int * len(errors))(*map(int, errors))
                kind = ctypes.c_int16(int(request))
                library.rd_kafka_mock_push_request_errors_array(cluster, kind, ctypes.c_size_t(len(errors)), codes)
                code = 0
            case "down", (broker,):
                code = library.rd_kafka_mock_broker_set_down(cluster, int(broker))
            case "up", (broker,):
                code = library.rd_kafka_mock_broker_set_up(cluster, int(broker))
            case _:
                code = -1
        (folder / "done").write_text(str(code))


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
