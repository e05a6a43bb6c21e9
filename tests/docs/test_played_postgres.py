"""The pages on PostgreSQL work as they are written, on a real server, and through a real pooler where one is meant."""

from __future__ import annotations

import shlex
import subprocess
import sys
from shlex import quote
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.api.servers import Server
from tests.docs.pages import ROOT, blocks, write_files
from tests.docs.played import Scene, commands, loosely, play, shown
from tests.docs.test_played import HOWTO, TAG, python
from tests.support import postgres
from tests.support.pooler import REACHED, pooled
from tests.support.shell import Shell, environment
from tests.top.test_terminal import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.postgres

CREW = 'rota orchestrator start --app shop:app --pool tag=2 > said 2>&1 & stays+=($!); await said "is up"'

SHOP = "postgresql://app@db.example/shop"
ORDERS = "CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, paid boolean NOT NULL DEFAULT false)"
PAY = """
from rota.testing import work_off
pay.enqueue(order)
work_off(app)
"""
# What is done is not the page's matter: one batch of two succeeds, one fails.
REPORTS = """
def batches():
    return [(1, ["a", "b"]), (1, [])]

def embed(batch):
    if not batch:
        raise ValueError("no luck")
    return len(batch)

"""


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    """One of our own: roles are those of a whole server, and the pages make some."""
    with postgres.own() as own:
        yield postgres.Server(own.url, own.psql)


@pytest.mark.parametrize("name", ["postgres", "many-hosts", "tracking", "from-tracking-functions"])
def test_the_commands_of_a_page_work_on_postgresql(name: str, server: postgres.Server, tmp_path: Path) -> None:
    with server.database() as url, postgres.login_role(url) as role:
        play(name, scenes(url, role)[name], tmp_path)


def scenes(url: str, role: str) -> dict[str, Scene]:
    """The scenes of the pages whose database, role and host are somebody's: here they are the test's."""
    here, grant = {"--host south": '--host "$(uname -n)"'}, {"--grant embedder": f"--grant '{role}'"}
    files, jobs = {"shop.py": python("crew")}, {"postgresql://app@db.example/jobs": url}
    return {
        "postgres": Scene(files, instead={**jobs, "rota orchestrator status": f"{CREW}\n", **here}),
        "many-hosts": Scene(
            files,
            instead={**jobs, **here, "rota orchestrator status": f"{TAG}\nrota orchestrator status"},
            after="rota queue list; wait ${stays[0]}",  # it ends by itself, once it is drained
        ),
        "tracking": Scene(
            instead={
                "postgresql://owner@localhost/app": url,
                "ROTA_DB=postgresql://postgres@localhost/texts": "test -x",
            }
            | {"examples/embed": quote(str(ROOT / "examples/embed")), **grant},
        ),
        "from-tracking-functions": Scene(instead={"postgresql://owner@localhost/app": url, **grant}),
    }


def test_the_page_on_pgbouncer_shows_what_doctor_finds_through_a_pooler_with_its_settings(
    server: postgres.Server, tmp_path: Path
) -> None:
    (pools,) = blocks(HOWTO / "pgbouncer.md", "ini")
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE jobs")  # the pooler knows it by this name
    url = postgres.with_parts(server.url, dbname="jobs")
    with pooled(url, pools.replace("host=db.example port=5432", REACHED)) as pool:
        instead = {"postgresql://app@pool.example:6432/jobs": f"{pool}\nrota init"}
        said = [loosely(line) for line in play("pgbouncer", Scene(instead=instead), tmp_path).splitlines()]
    lines = [loosely(line) for line in shown(HOWTO / "pgbouncer.md")]
    assert lines and [line for line in lines if line not in said] == []


def test_every_call_of_the_page_on_top_draws_on_a_terminal_until_somebody_leaves(
    server: postgres.Server, tmp_path: Path
) -> None:
    with server.database() as url:
        Shell(tmp_path, ROTA_DB=url).add("Send", "--queue", "mail")
        api = Server(tmp_path)
        api.shell.add("Send", "--queue", "mail")
        instead = {"postgresql://rota@db/jobs": url, "http://host:8356": api.url, "=…": f"={api.secret}"}
        script = "\n".join(commands(HOWTO / "top.md"))
        for said, meant in instead.items():
            assert said in script, f"the page no longer says {said}"
            script = script.replace(said, meant)
        try:
            for command in script.splitlines():
                watch(command, tmp_path)
        finally:
            api.end()


def watch(command: str, folder: Path) -> None:
    before, _, words = command.partition("rota ")
    env = dict(word.split("=") for word in before.split())
    with terminal(folder, *shlex.split(words), **env) as top:
        top.says("1 Queues")
        top.says("mail")
        top.type("q")
        assert top.wait() == 0, top.read()


def test_on_the_page_on_transactions_an_order_has_its_job_and_is_paid_with_its_end(
    server: postgres.Server, tmp_path: Path
) -> None:
    lines = blocks(HOWTO / "transactions.md", "python")
    with server.database() as url:
        postgres.psql(server, url, ORDERS)
        shell = Shell(tmp_path, ROTA_DB=url)
        shell.say("init")
        words = [sys.executable, "-c", "\n".join([*lines, PAY]).replace(SHOP, url)]
        subprocess.run(words, cwd=tmp_path, env=environment(), check=True, timeout=60)
        assert postgres.psql(server, url, "SELECT id, paid FROM orders") == "1|t"
        jobs = shell.ask("list")
    found = {job["kind"]: (job["status"], job["result"]) for job in jobs}
    assert found == {"confirm": ("done", None), "pay": ("done", {"order": 1})}


def test_the_lines_of_the_page_on_tracking_report_from_python_and_from_sql(
    server: postgres.Server, tmp_path: Path
) -> None:
    (sql,) = blocks(HOWTO / "tracking.md", "sql")
    *_, program = blocks(HOWTO / "tracking.md", "text")
    with server.database() as url:
        Shell(tmp_path, ROTA_DB=url).say("tracking", "install")
        postgres.psql(server, url, "INSERT INTO ai.vectorizer (source_table) VALUES ('note')")
        assert len(postgres.psql(server, url, sql).split()) == 1, "the worker's id, and nothing else"
        words = [sys.executable, "-c", REPORTS + program.replace("postgresql://embedder@localhost/app", url)]
        subprocess.run(words, cwd=tmp_path, env=environment(), check=True, timeout=60)
        counts = "SELECT success_count, error_count, last_error_message FROM ai.vectorizer_worker_progress"
        assert postgres.psql(server, url, counts) == "7|2|no luck"


def test_the_files_of_the_page_on_tests_pass_in_schemas_of_their_own_and_leave_none(
    server: postgres.Server, tmp_path: Path
) -> None:
    write_files(HOWTO / "testing.md", tmp_path)
    with server.database() as url:
        words = [sys.executable, "-m", "pytest", "-q", "-W", "error"]
        env = environment(ROTA_TEST_DB=url, XDG_RUNTIME_DIR=str(tmp_path))
        ran = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert "6 passed" in ran.stdout, ran.stdout + ran.stderr
        assert postgres.psql(server, url, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'rota%'") == "0"
