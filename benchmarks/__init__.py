"""Benchmarks: each prints ratios against a baseline in the same run.

Models run at float32 unless a benchmark says otherwise, as those of the baselines do; `auto` is what users get.
"""

import os

os.environ.setdefault("SIGHTLINE_PRECISION", "fp32")
