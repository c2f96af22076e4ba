"""Look for known vulnerabilities in the locked dependencies: `python -m tools.release.audit`.

pip-audit asks the advisory database of PyPI. Where that cannot be reached, or where a mirror answers without it, the
result says so and is no failure: the hosted workflow asks again. A finding is a failure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"
UNREACHABLE = ("ConnectionError", "ServiceError", "Timeout", "Max retries", "Could not connect", "HTTPError")
"""What pip-audit prints when its service cannot be asked."""


def audit(requirements: Path = LOCK) -> tuple[bool, str]:
    """Return whether a requirements file with hashes passes, and why, in one sentence or a list of vulnerabilities."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        str(requirements),
        "--disable-pip",
        "--require-hashes",
    ]
    done = subprocess.run(
        [*command, "--format", "json", "--progress-spinner", "off", "--timeout", "10"],
        capture_output=True,
        text=True,
        check=False,
    )
    return verdict(done.returncode, done.stdout, done.stderr)


def verdict(code: int, output: str, errors: str) -> tuple[bool, str]:
    """Return what the exit code, the JSON and the messages of pip-audit mean, as `audit` does."""
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError):
        if any(text in errors for text in UNREACHABLE):
            return True, "not audited: the advisory database cannot be reached from here"
        return False, f"pip-audit failed with {code}: {errors.strip()[-2000:]}"
    found = [
        f"{one['name']} {one['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no version yet'}"
        for one in packages
        for flaw in one.get("vulns", ())
    ]
    if found:
        return False, "known vulnerabilities; update (`make lock`):\n  " + "\n  ".join(found)
    skipped = sum("skip_reason" in one for one in packages)
    if skipped == len(packages):
        return True, f"not audited: the index here has no advisories of any of the {len(packages)} packages"
    unknown = f"; {skipped} packages are unknown to the database" if skipped else ""
    return True, f"no known vulnerabilities in {len(packages) - skipped} packages{unknown}"


def main() -> int:
    """Print the result; 1 on a finding."""
    passes, text = audit()
    print(f"audit: {text}", file=sys.stdout if passes else sys.stderr)
    return 0 if passes else 1


if __name__ == "__main__":
    sys.exit(main())
