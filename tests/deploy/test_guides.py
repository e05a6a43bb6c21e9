"""The guides: every call of rota in them exists, and every file of `deploy/` is told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.words import DEPLOY, calls_in, check_mention, mentioned_in, parsed
from tests.docs.pages import ROOT, name

HOWTO = ROOT / "docs" / "howto"
GUIDES = [*sorted(HOWTO.glob("deploy-*.md")), HOWTO / "upgrades.md", HOWTO / "backups.md"]


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_every_call_in_a_guide_exists(page: Path) -> None:
    for words in calls_in(page):
        parsed(words)
    for text in mentioned_in(page):
        check_mention(text)


def test_calls_are_found_whatever_runs_them() -> None:
    found = [parsed(words)[0] for page in GUIDES for words in calls_in(page)]
    assert {"orchestrator status", "token create", "open", "add"} <= set(found)
    assert len(found) >= 9


@pytest.mark.parametrize("folder", ["systemd", "docker", "kubernetes"])
def test_a_guide_says_what_was_not_tried_and_names_every_file(folder: str) -> None:
    text = (HOWTO / f"deploy-{folder}.md").read_text(encoding="utf-8")
    assert "## What was tried, and what was not" in text
    plain = {"Dockerfile.dockerignore", "kustomization.yaml", "compose.yaml"}
    for file in (DEPLOY / folder).iterdir():
        assert file.name in text or file.name in plain, file.name
