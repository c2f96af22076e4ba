"""For people who write elements: run one on given batches, make synthetic frames, check the contract."""

from sightline.testing import conformance
from sightline.testing.run import run_element, run_source
from sightline.testing.synthetic import make_batches, make_frames

__all__ = ["conformance", "make_batches", "make_frames", "run_element", "run_source"]
