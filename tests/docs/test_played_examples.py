"""The pages beside the examples work as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT
from tests.docs.played import Scene, play

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.crew

AGENTS = ROOT / "examples/agents"
TASK = '[[task]]\nname = "{name}"\ngoal = "The reviewer wants 2 drafts."\nunits = 500\nminutes = 30\n'
# A model that approves of everything, for a cent.
CLAUDE = """#!/bin/bash
[[ $* == '-p --output-format json --permission-mode acceptEdits' ]] || exit 2
cat > told
echo '{"result": "APPROVED", "total_cost_usd": 0.01}'
"""
NEXT_LIST = r"""rota wait 3 --for done --timeout 60s; rota orchestrator stop; cat more >> tasks.toml
two=$(python team.py tasks.toml | sed -n 's/two: job \([0-9]*\) .*/\1/p')"""
TAGGED = "until [[ $(sqlite3 library.db 'SELECT count(*) FROM file WHERE loudness IS NULL') == 0 ]]; do sleep 0.1; done"


def test_the_page_on_a_team_of_agents_leads_from_a_list_to_its_reviews_with_either_model(tmp_path: Path) -> None:
    own = {file: (AGENTS / file).read_text(encoding="utf-8") for file in ("team.py", "agent.py", "model.sh")}
    scene = Scene(
        files={**own, "tasks.toml": TASK.format(name="one"), "more": TASK.format(name="two"), "claude": CLAUDE},
        before='export ROTA_BACKOFF_FIRST=10ms PATH="$PWD:$PATH"',
        instead={
            "bash examples/agents/demo.sh": "true",  # played by a test of its own
            "export AGENT_MODEL": f"{NEXT_LIST}\nexport AGENT_MODEL",
        },
        after="rota wait $two --for done --timeout 60s; rota show $two --json | jq -e '.result.units == 0.01'",
    )
    assert play("examples/agents/README.md", scene, tmp_path)


def test_the_library_of_the_demo_is_tagged_again_by_hand_as_its_page_says(tmp_path: Path) -> None:
    assert play("examples/music/README.md", Scene(after=TAGGED), tmp_path)
