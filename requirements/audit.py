"""Known vulnerabilities among the dependencies that the locks pin, as pip-audit knows them: `./dev check` fails on one.

Where they cannot be looked up, it says so and passes: a check must not fail because a machine has no way out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOCKS = sorted(map(str, Path(__file__).parent.glob("*.txt")))
WITHIN = 120
AUDIT = ["pip-audit", "--disable-pip", "--no-deps", "--progress-spinner=off", "--timeout=5", "--format=json"]


def judge(report: str, problem: str) -> tuple[int, list[str]]:
    """The exit code, and what to say: of each vulnerable package, or of what could not be looked up."""
    try:
        told = json.loads(report)
    except ValueError:
        last = problem.strip().splitlines()[-1:] or ["pip-audit said nothing"]
        return 0, [f"NOT AUDITED: vulnerabilities could not be looked up: {last[0]}"]
    found = told.get("dependencies") if isinstance(told, dict) else None
    if not isinstance(found, list):
        return 1, [f"pip-audit answered with something else than its list of dependencies: {report.strip()[:200]}"]
    bad = [each for each in found if each.get("vulns")]
    said = []
    for each in bad:
        ids = ", ".join(vulnerability["id"] for vulnerability in each["vulns"])
        fixed = sorted({version for vulnerability in each["vulns"] for version in vulnerability["fix_versions"]})
        said.append(f"{each['name']} {each['version']} is vulnerable: {ids}; fixed in {', '.join(fixed) or 'none yet'}")
    unknown = [each["name"] for each in found if "skip_reason" in each]
    if unknown:
        which = "none of them" if len(unknown) == len(found) else f"not {', '.join(unknown)}"
        said.append(f"NOT AUDITED: of {len(found)} dependencies {which} could be looked up")
    return int(bool(bad)), said or [f"{len(found)} dependencies without a known vulnerability"]


def main() -> int:
    try:
        locks = [word for lock in LOCKS for word in ("-r", lock)]
        ran = subprocess.run([*AUDIT, *locks], capture_output=True, text=True, timeout=WITHIN, check=False)
        code, said = judge(ran.stdout, ran.stderr)
    except (OSError, subprocess.TimeoutExpired) as problem:
        code, said = judge("", str(problem))
    for line in said:
        print(f"audit: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
