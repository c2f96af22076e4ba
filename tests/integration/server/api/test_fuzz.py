"""Random requests to every operation of the API, made from its document; the long form is in the benchmarks."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from sightline.server.credentials import TokenFile

EXAMPLES = 5


@pytest.mark.filterwarnings("ignore::Warning:schemathesis", "ignore::hypothesis.errors.HypothesisDeprecationWarning")
def test_random_requests_find_nothing_wrong(tmp_path: Path, tokens: TokenFile) -> None:
    del tokens  # only the audit log beside them is written
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library, while it is imported
        from benchmarks.api_fuzz import run

    findings = run(tmp_path, examples=EXAMPLES)

    assert findings.faults == {}
    assert findings.requests > 200
    answered = {name.rpartition(" ")[2] for name in findings.statuses}
    assert {"200", "404", "422"} <= answered
