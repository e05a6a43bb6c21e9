"""Our own workers in the tracking tables: a crew's, reported by its orchestrator, and `run_worker`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from rota.core.version import __version__
from rota.tracking.schema import MARK, uninstall
from tests.support.cable import CUT_AFTER, CUT_BEFORE, HOLD, STALL, Cable, cable
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.postgres import with_parts
from tests.support.shell import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rota.tracking.connections import Connection

    Start = Callable[..., Crew]

SOURCE = """
@app.source(queue="tag", task=tag, every="1h", vectorizer={vectorizer})
def numbers():
    for n in range(20):
        yield n, {{"n": n}}


@app.source(queue="tag", task="broken", every="1h", vectorizer={vectorizer})
def bad():
    yield "bad", {{"n": 13}}
"""


@pytest.fixture
def start(tmp_path: Path, url: str) -> Iterator[Start]:
    """Starts a crew of two whose workers report to `url`, or wherever the test says."""
    made: list[Crew] = []

    def begin(taught: str = "", pools: str = "tag=2", http: bool = False, **env: str) -> Crew:
        known = {"ROTA_TRACKING": url, "ROTA_HEARTBEAT_INTERVAL": "500ms", "ROTA_RESTART_BACKOFF": "50ms"}
        crew = Crew(tmp_path, **{**known, "ROTA_BACKOFF_FIRST": "1ms", **env})
        made.append(crew)
        crew.teach(taught)
        crew.start(pools, http=http)
        return crew

    yield begin
    for crew in made:
        crew.end()


def totals(sql: Connection) -> tuple[Any, ...]:
    """Workers, their successes and their errors."""
    row = sql.execute(
        "SELECT count(*), coalesce(sum(success_count), 0)::int, coalesce(sum(error_count), 0)::int"
        " FROM ai.vectorizer_worker_process"
    ).fetchone()
    assert row is not None
    return row


def progress(sql: Connection, vectorizer: int = 1) -> tuple[Any, ...] | None:
    query = "SELECT success_count, error_count FROM ai.vectorizer_worker_progress WHERE vectorizer_id = %s"
    return sql.execute(query, (vectorizer,)).fetchone()


def all_progress(sql: Connection) -> list[Any]:
    return sql.execute("SELECT success_count, error_count FROM ai.vectorizer_worker_progress").fetchall()


def work(crew: Crew, count: int) -> None:
    """Have so many jobs done."""
    for job in crew.app.enqueue_many([crew.new("tag", n=n) for n in range(count)]):
        assert job.wait(60).status == "done"


def test_each_worker_is_a_row_with_all_that_it_did_when_the_crew_stops(start: Start, sql: Connection) -> None:
    crew = start()
    eventually(lambda: crew.up(2), within=60)
    work(crew, 30)
    broken = crew.add("broken", n=7)
    crew.app.jobs.wait([broken], "final", 60_000_000)
    assert crew.stop() == 0

    assert totals(sql) == (2, 30, 3)
    rows = sql.execute(
        "SELECT DISTINCT version, extract(epoch FROM expected_heartbeat_interval)::float, left(last_error_message, 13)"
        " FROM ai.vectorizer_worker_process WHERE error_count > 0"
    ).fetchall()
    assert rows == [(f"rota {__version__}", 0.5, "ValueError: 7")]


def test_beats_go_on_while_a_graceful_stop_waits_for_the_last_job(start: Start, sql: Connection) -> None:
    crew = start(pools="tag=1", ROTA_SHUTDOWN_TIMEOUT="60s")
    job = crew.add("hold", name="a")
    eventually(lambda: crew.held_by("a") and totals(sql)[0] == 1, within=60)
    beats = "SELECT heartbeat_count FROM ai.vectorizer_worker_process"
    os.kill(crew.pid, signal.SIGTERM)
    eventually(lambda: crew.said("stopping:"), within=60)
    ((before,),) = sql.execute(beats).fetchall()
    eventually(lambda: sql.execute(beats).fetchall() >= [(int(str(before)) + 4,)], within=60)
    assert totals(sql) == (1, 0, 0)
    crew.let_go("a")
    assert crew.wait() == 0
    crew.done(job)
    assert totals(sql) == (1, 1, 0)


def test_an_api_beside_the_workers_is_no_worker(start: Start, sql: Connection) -> None:
    crew = start(http=True, ROTA_HTTP_PORT="0")
    eventually(lambda: crew.up(3), within=60)
    work(crew, 1)
    assert crew.stop() == 0
    assert totals(sql) == (2, 1, 0)


def test_idle_workers_are_beaten_in_one_transaction(start: Start, sql: Connection) -> None:
    start(pools="tag=4")
    beats = "SELECT count(*), count(DISTINCT xmin::text), min(heartbeat_count) FROM ai.vectorizer_worker_process"

    def together() -> bool:
        workers, transactions, fewest = sql.execute(beats).fetchone() or (0, 0, 0)
        return (workers, transactions) == (4, 1) and int(str(fewest)) >= 3

    eventually(together, within=60)


def test_a_killed_workers_job_is_an_error_of_its_life_and_the_next_life_is_another_row(
    start: Start, sql: Connection
) -> None:
    crew = start(pools="tag=1")
    job = crew.add("hold", name="a")
    first = eventually(lambda: crew.held_by("a"), within=60)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: crew.held_by("a") not in (0, first), within=60)
    crew.let_go("a")
    crew.done(job)
    assert crew.stop() == 0

    query = (
        "SELECT success_count, error_count, split_part(last_error_message, ': ', 2)"
        " FROM ai.vectorizer_worker_process ORDER BY started"
    )
    assert sql.execute(query).fetchall() == [(0, 1, "ended by signal 9"), (1, 0, None)]


def test_a_job_that_runs_past_its_time_out_is_an_error(start: Start, sql: Connection) -> None:
    crew = start(pools="tag=1")
    late = crew.app.enqueue(crew.new("hold", name="a").replace(timeout=300_000, max_attempts=1))
    assert late.wait(60).status == "failed"
    eventually(lambda: totals(sql)[1:] == (0, 1), within=60)
    crew.let_go("a")


SETTLES = """
@app.task(queue="tag")
def embed(n: int, ctx) -> None:
    import psycopg
    with psycopg.connect(os.environ["ROTA_DB"].partition("?")[0]) as connection:
        ctx.settle_in(connection)
    os.kill(os.getpid(), signal.SIGKILL)


@app.source(queue="tag", task=embed, every="1h", vectorizer=1)
def texts():
    yield 1, {"n": 1}
    yield 2, {"n": 2}
"""


def test_what_a_handler_settled_in_its_own_transaction_counts_though_the_worker_died_before_it_said_so(
    start: Start, url: str, sql: Connection
) -> None:
    crew = start(SETTLES, pools="tag=1", ROTA_DB=f"{url}?schema=own", ROTA_TRACKING="")
    eventually(lambda: progress(sql) == (2, 0), within=60)
    assert crew.stop() == 0
    assert totals(sql)[1:] == (2, 0)


def test_what_is_given_back_or_put_off_is_neither_success_nor_error(start: Start, sql: Connection) -> None:
    crew = start(
        "@app.task(queue='tag')\ndef later():\n    from rota import Snooze\n    note('later')\n    raise Snooze('1h')"
    )
    crew.add("later")
    eventually(lambda: crew.ledger() == ["later"], within=60)
    work(crew, 1)
    assert crew.stop() == 0
    assert totals(sql)[1:] == (1, 0)


@pytest.mark.parametrize("vectorizer", ["1", "'blog'"], ids=["by its id", "by its table"])
def test_a_source_reports_the_progress_of_its_vectorizer(start: Start, sql: Connection, vectorizer: str) -> None:
    crew = start(SOURCE.format(vectorizer=vectorizer))
    eventually(lambda: progress(sql) == (20, 3), within=60)
    assert crew.stop() == 0

    assert totals(sql)[1:] == (20, 3)
    last = "SELECT last_error_message, last_success_process_id FROM ai.vectorizer_worker_progress"
    message, worker = sql.execute(last).fetchone() or (None, None)
    assert str(message).startswith("ValueError: 13 ")
    known = sql.execute("SELECT 1 FROM ai.vectorizer_worker_process WHERE id = %s", (worker,)).fetchone()
    assert known == (1,)
    counts = crew.app.store.sources.list()
    assert sum(each.source.success_count for each in counts) == 20
    assert sum(each.source.error_count for each in counts) == 3


def test_a_source_whose_table_has_no_vectorizer_registers_one_where_the_table_is_ours(
    start: Start, sql: Connection
) -> None:
    crew = start(SOURCE.format(vectorizer="'wiki'"))
    eventually(lambda: progress(sql, 2) == (20, 3), within=60)
    crew.stop()
    assert sql.execute("SELECT id, source_table FROM ai.vectorizer ORDER BY id").fetchall() == [
        (1, "blog"),
        (2, "wiki"),
    ]


def test_in_a_table_of_others_none_is_registered_and_the_log_says_so(start: Start, sql: Connection) -> None:
    sql.execute("COMMENT ON TABLE ai.vectorizer IS NULL")
    crew = start(SOURCE.format(vectorizer="'wiki'"))
    eventually(lambda: totals(sql)[1:] == (20, 3), within=60)
    assert crew.stop() == 0
    assert sql.execute("SELECT source_table FROM ai.vectorizer").fetchall() == [("blog",)]
    assert len(crew.said("progress of table wiki is not reported: no vectorizer reads it")) == 1
    assert MARK not in crew.log.read_text()


def test_a_dropped_vectorizer_costs_the_crew_nothing(start: Start, sql: Connection) -> None:
    sql.execute("DELETE FROM ai.vectorizer")
    crew = start(SOURCE.format(vectorizer="1"))
    eventually(lambda: totals(sql)[1:] == (20, 3), within=60)
    assert crew.stop() == 0
    assert sql.execute("SELECT count(*) FROM ai.vectorizer_worker_progress").fetchone() == (0,)


@pytest.fixture
def link(url: str) -> Iterator[Cable]:
    with cable(url) as laid:
        yield laid


@pytest.mark.parametrize("vectorizer", ["1", "'wiki'"], ids=["a vectorizer", "a table without one yet"])
@pytest.mark.parametrize("fault", [CUT_BEFORE, CUT_AFTER, HOLD])
def test_counts_arrive_once_when_a_commit_or_its_answer_is_lost(
    start: Start, link: Cable, sql: Connection, fault: str, vectorizer: str
) -> None:
    link.fault = fault
    crew = start(SOURCE.format(vectorizer=vectorizer), ROTA_TRACKING=link.url)
    eventually(lambda: link.faults == 1, within=60)
    link.release.set()
    eventually(lambda: all_progress(sql) == [(20, 3)], within=60)
    link.fault = fault
    work(crew, 10)
    eventually(lambda: link.faults == 2, within=60)
    eventually(lambda: totals(sql) == (2, 30, 3), within=60)
    assert crew.stop() == 0
    assert (totals(sql), all_progress(sql)) == ((2, 30, 3), [(20, 3)])


def test_a_database_that_is_away_costs_the_crew_nothing_and_gets_all_when_it_is_back(
    start: Start, link: Cable, sql: Connection
) -> None:
    crew = start(ROTA_TRACKING=link.url)
    eventually(lambda: totals(sql)[0] == 2, within=60)
    link.down = True
    link.cut()
    work(crew, 20)
    eventually(lambda: crew.said("the crew's workers: untracked"), within=60)
    work(crew, 20)
    assert totals(sql) == (2, 0, 0)
    link.down = False
    eventually(lambda: totals(sql) == (2, 40, 0), within=60)
    assert crew.said("the crew's workers: tracked")
    assert crew.stop() == 0


def test_a_server_that_never_answers_delays_neither_the_work_nor_the_stop(
    start: Start, link: Cable, sql: Connection
) -> None:
    crew = start(ROTA_TRACKING=link.url)
    eventually(lambda: totals(sql)[0] == 2, within=60)
    link.fault = STALL
    eventually(lambda: link.faults == 1, within=60)
    work(crew, 20)
    asked = time.monotonic()
    assert crew.stop() == 0
    assert time.monotonic() - asked < 10
    assert crew.said("did not arrive")


def test_a_crew_without_the_tables_works_and_holds_no_connection(start: Start, url: str, sql: Connection) -> None:
    uninstall(sql)
    crew = start()
    work(crew, 5)
    eventually(lambda: crew.said("the crew's workers: absent"), within=60)
    open_now = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rota tracking' AND datname = %s"
    name = (psycopg.conninfo.conninfo_to_dict(url)["dbname"],)
    eventually(lambda: sql.execute(open_now, name).fetchone() == (0,), within=60)
    assert crew.stop() == 0


def test_a_crew_on_postgresql_that_nobody_asked_to_track_says_nothing_of_tracking(tmp_path: Path, empty: str) -> None:
    crew = Crew(tmp_path, ROTA_DB=empty)
    try:
        crew.start("tag=1")
        work(crew, 5)
        assert crew.stop() == 0, "its last beat has looked for the tables"
        assert not crew.said("absent")
    finally:
        crew.end()


def test_a_role_without_grants_is_told_which_and_the_crew_works(start: Start, url: str, role: str) -> None:
    crew = start(ROTA_TRACKING=with_parts(url, user=role))
    work(crew, 5)
    (said,) = eventually(lambda: crew.said("the crew's workers: forbidden"), within=60)
    assert f'GRANT USAGE ON SCHEMA ai TO "{role}"' in said
    assert crew.stop() == 0


@pytest.mark.parametrize(("tracking", "rows"), [("", 2), ("off", 0)], ids=["by itself", "off"])
def test_a_crew_whose_database_has_the_tables_reports_there_unless_told_not_to(
    start: Start, url: str, sql: Connection, tracking: str, rows: int
) -> None:
    crew = start(ROTA_DB=f"{url}?schema=elsewhere", ROTA_TRACKING=tracking)
    eventually(lambda: crew.up(2), within=60)
    work(crew, 5)
    assert crew.stop() == 0
    assert totals(sql) == (rows, 5 if rows else 0, 0)


APP = """
import sys
import rota
from rota.settings import Settings

app = rota.App("sqlite:///own.db", Settings(tracking=sys.argv[-1]) if "postgres" in sys.argv[-1] else None)


@app.task()
def double(n: int) -> int:
    return 2 * n


if __name__ == "__main__":
    with app.crew(default=1):
        assert double.enqueue(4).wait(60).result == 8
"""


def test_an_app_says_where_its_crew_reports(tmp_path: Path, url: str, sql: Connection) -> None:
    (tmp_path / "own.py").write_text(APP)
    subprocess.run([sys.executable, "own.py", url], cwd=tmp_path, env=environment(), check=True, timeout=100)
    assert totals(sql) == (1, 1, 0)


WAITING = """
@app.source(queue="tag", task=hold, every="1h", vectorizer=1)
def texts():
    for n in range(5):
        yield n, {"name": "a"}
"""
RUN_WORKER = """
import rota, shop

def execute(job, ctx):
    if job.key == "4":
        raise ValueError("no text")

assert rota.run_worker(execute, app=shop.app, queue="tag", limit=5) == 5
"""


def test_run_worker_reports_what_it_did_with_the_progress_of_its_app_s_sources(
    start: Start, tmp_path: Path, url: str, sql: Connection
) -> None:
    crew = start(WAITING, pools="tag=1")
    eventually(lambda: crew.held_by("a"), within=60)
    crew.call("orchestrator", "stop", "--now")
    crew.wait()
    before = totals(sql)
    env = environment(**crew.env, ROTA_DB=crew.app.store.database.url)
    subprocess.run([sys.executable, "-c", RUN_WORKER], cwd=tmp_path, env=env, check=True, timeout=100)
    assert (before, totals(sql), progress(sql)) == ((1, 0, 0), (2, 4, 1), (4, 1))
