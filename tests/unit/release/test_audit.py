"""What the answers of pip-audit mean: a finding fails, an unreachable service does not, and neither is hidden."""

from __future__ import annotations

import json
from typing import Any

from tools.release.audit import verdict


def answer(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(packages), "fixes": []})


def test_packages_without_findings_pass() -> None:
    clean = {"name": "one", "version": "1.0", "vulns": []}

    assert verdict(0, answer(clean, clean), "") == (True, "no known vulnerabilities in 2 packages")


def test_a_finding_fails_with_package_and_remedy() -> None:
    flaw = {"id": "PYSEC-2026-1", "fix_versions": ["1.1"], "aliases": [], "description": ""}

    passes, text = verdict(1, answer({"name": "one", "version": "1.0", "vulns": [flaw]}), "")

    assert not passes
    assert "one 1.0: PYSEC-2026-1, fixed in 1.1" in text


def test_a_mirror_without_advisories_is_not_taken_for_a_clean_result() -> None:
    skipped = {"name": "one", "skip_reason": "Dependency not found on PyPI"}

    passes, text = verdict(0, answer(skipped), "")

    assert passes
    assert text.startswith("not audited")


def test_packages_that_the_database_does_not_know_are_counted() -> None:
    _, text = verdict(0, answer({"name": "one", "version": "1", "vulns": []}, {"name": "two", "skip_reason": "?"}), "")

    assert text == "no known vulnerabilities in 1 packages; 1 packages are unknown to the database"


def test_a_service_that_cannot_be_reached_passes_and_says_so() -> None:
    assert verdict(1, "", "ServiceError: Could not connect to PyPI's vulnerability feed") == (
        True,
        "not audited: the advisory database cannot be reached from here",
    )


def test_another_failure_of_pip_audit_fails() -> None:
    passes, text = verdict(2, "", "usage: pip-audit: unrecognized arguments")

    assert not passes
    assert "unrecognized arguments" in text
