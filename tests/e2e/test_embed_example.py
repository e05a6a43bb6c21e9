"""The example in `examples/embed` runs as its page says, and operators' own queries show it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.e2e.test_demo import play
from tests.support.eventually import eventually
from tests.support.postgres import psql, shared
from tests.support.processes import processes_in
from tests.tracking.test_document import CLEANUP, DEAD, HEALTH

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "examples" / "embed" / "demo.sh"


@pytest.fixture
def url() -> Iterator[str]:
    with shared().database() as made:
        yield made


def test_the_example_embeds_all_texts_and_each_documented_query_shows_it(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROTA_DB", url)
    answer = play(tmp_path, str(EXAMPLE))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert " of 2 workers live, " in answer.stdout
    assert "note    █████████░ 98%  198   4" in answer.stdout
    assert answer.stdout.splitlines()[-3].startswith("a walk by the sea, day ")
    assert processes_in(tmp_path) == []

    with psycopg.connect(url, autocommit=True) as sql:
        left = sql.execute("SELECT body, count(*) FROM note WHERE vector IS NULL GROUP BY body").fetchall()
        assert left == [("", 2)]
        counts = sql.execute("SELECT sum(success_count)::int, sum(error_count)::int FROM ai.vectorizer_worker_process")
        assert counts.fetchall() == [(198, 4)]
        (line,) = psql(shared(), url, HEALTH).splitlines()
        assert line.startswith("1|note|198|4|ValueError: there is nothing to embed in an empty text")
        eventually(lambda: len(psql(shared(), url, DEAD).splitlines()) == 2)
        assert all("|rota 0." in row for row in psql(shared(), url, DEAD).splitlines())
        psql(shared(), url, CLEANUP)
        assert sql.execute("SELECT count(*) FROM ai.vectorizer_worker_process").fetchone() == (2,)
        sql.execute("UPDATE ai.vectorizer_worker_process SET last_heartbeat = now() - interval '8 days'")
        psql(shared(), url, CLEANUP)
        assert sql.execute("SELECT count(*) FROM ai.vectorizer_worker_process").fetchone() == (0,)
        assert psql(shared(), url, HEALTH).startswith("1|note|198|4|")
