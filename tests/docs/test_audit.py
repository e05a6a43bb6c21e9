"""`./dev check` fails on a known vulnerability and names it; where none can be looked up it says so and goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

SOUND = {"name": "uvicorn", "version": "1.0", "vulns": []}
BAD = {"name": "flask", "version": "0.5", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.0"], "aliases": []}]}
UNKNOWN = {"name": "ours", "skip_reason": "Dependency not found and could not be audited"}


def audit(folder: Path, script: str) -> tuple[int, str]:
    """The audit with this in the place of pip-audit, which must be asked about every lock."""
    tool = folder / "pip-audit"
    asked = "".join(f'*"-r {lock}"' for lock in sorted((ROOT / "requirements").glob("*.txt")))
    tool.write_text(f'#!/bin/sh\ncase "$*" in {asked}*) ;; *) exit 9 ;; esac\n{script}\n')
    tool.chmod(0o755)
    words = [sys.executable, str(ROOT / "requirements" / "audit.py")]
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    ran = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in ran.stderr
    return ran.returncode, ran.stderr


def reporting(*found: dict[str, Any]) -> str:
    return f"cat <<'END'\n{json.dumps({'dependencies': found, 'fixes': []})}\nEND\nexit {int(BAD in found)}"


def test_a_vulnerability_fails_and_is_named_with_what_would_be_right(tmp_path: Path) -> None:
    code, said = audit(tmp_path, reporting(SOUND, BAD))
    assert code == 1 and "flask 0.5 is vulnerable: PYSEC-1; fixed in 1.0" in said and "uvicorn" not in said


def test_without_one_it_passes(tmp_path: Path) -> None:
    assert audit(tmp_path, reporting(SOUND)) == (0, "audit: 1 dependencies without a known vulnerability\n")


def test_what_could_not_be_looked_up_is_said_aloud_and_passes(tmp_path: Path) -> None:
    assert audit(tmp_path, "echo 'ERROR: connection refused' >&2; exit 1") == (
        0,
        "audit: NOT AUDITED: vulnerabilities could not be looked up: ERROR: connection refused\n",
    )
    assert audit(tmp_path, reporting(UNKNOWN)) == (
        0,
        "audit: NOT AUDITED: of 1 dependencies none of them could be looked up\n",
    )
    assert "NOT AUDITED: of 2 dependencies not ours" in audit(tmp_path, reporting(SOUND, UNKNOWN))[1]


@pytest.mark.parametrize("answer", ['{"fixes": []}', '{"dependencies": null}', "[]", "7"])
def test_an_answer_without_the_dependencies_fails_and_is_shown(tmp_path: Path, answer: str) -> None:
    code, said = audit(tmp_path, f"echo '{answer}'")
    assert code == 1 and said.startswith("audit: pip-audit answered with something else") and answer in said


def test_check_runs_it_and_the_rules_on_security() -> None:
    check = (ROOT / "dev").read_text(encoding="utf-8").split("\ncheck() {\n")[1].split("\n}\n")[0]
    assert "python requirements/audit.py" in check and "ruff check" in check
    assert '"S"]\nignore' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
