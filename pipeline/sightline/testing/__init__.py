"""For people who write elements: run one on given batches, make synthetic frames, check the contract and whole runs."""

from sightline.testing import conformance
from sightline.testing.invariants import FrameOrder, assert_accounted
from sightline.testing.outbox import MemoryMailbox, MemoryOutbox
from sightline.testing.run import run_element, run_source
from sightline.testing.synthetic import make_batches, make_frames

__all__ = [
    "FrameOrder",
    "MemoryMailbox",
    "MemoryOutbox",
    "assert_accounted",
    "conformance",
    "make_batches",
    "make_frames",
    "run_element",
    "run_source",
]
