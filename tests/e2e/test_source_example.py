"""The example in `examples/sources` runs as its page says."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.test_demo import play
from tests.support.processes import processes_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "sources" / "demo.sh"


def test_the_example_tags_all_it_can_and_keeps_what_it_cannot(tmp_path: Path) -> None:
    answer = play(tmp_path, str(EXAMPLE))
    assert answer.returncode == 0, answer.stderr
    assert "SEARCH file USING INDEX file_tag_id" in answer.stdout
    assert "without a tag: [('notes.txt',)]" in answer.stdout
    assert "ValueError: notes.txt is no recording" in answer.stdout
    assert list(tmp_path.iterdir()) == []
    assert processes_in(tmp_path) == []
