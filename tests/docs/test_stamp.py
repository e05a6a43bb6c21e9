"""The screenshots are known to be of these sources, or it is said that they may not be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from docs import stamp

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One whose pictures were just taken."""
    for file in ("web/src/app.tsx", "web/src/app.test.ts", "src/rota/top/textual_app.py", "docs/images/job.png"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("as it was")
    assert stamp.main(["--write"], tmp_path) == 0
    return tmp_path


@pytest.mark.parametrize("file", ["web/src/app.tsx", "web/src/more.css", "src/rota/top/textual_app.py"])
def test_pictures_are_said_to_be_old_when_what_they_show_has_changed(
    file: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / file).write_text("as it is now")
    assert stamp.main([], project) == 0
    assert "./dev shots takes them anew" in capsys.readouterr().err
    stamp.main(["--write"], project)
    stamp.main([], project)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("file", ["web/src/app.test.ts", "src/rota/app.py"])
def test_what_is_on_no_picture_makes_none_of_them_old(
    file: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / file).write_text("as it is now")
    stamp.main([], project)
    assert capsys.readouterr().err == ""


def test_the_sources_that_are_looked_at_exist() -> None:
    for folder in stamp.SHOWN:
        assert any(path.suffix in stamp.KINDS for path in (stamp.ROOT / folder).rglob("*"))


def test_the_pictures_of_the_docs_are_of_these_sources() -> None:
    assert stamp.is_fresh(stamp.ROOT), "`./dev shots` takes them anew"
