"""`rota tracking …` as a person meets it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.cli.verbs.tracking import bar
from tests.support.postgres import with_parts
from tests.support.shell import ROTA, Shell, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.tracking.connections import Connection


@pytest.fixture
def sql(empty: str) -> Iterator[Connection]:
    with psycopg.connect(empty, autocommit=True) as connection:
        yield connection


def fill(sql: Connection) -> None:
    """A living worker, a dead one, one that died long ago, and three vectorizers."""
    sql.execute(
        """
        INSERT INTO ai.vectorizer_worker_process
            (version, expected_heartbeat_interval, last_heartbeat, success_count, error_count, last_error_message)
        VALUES ('1.0', '30 s', now(), 5, 0, NULL),
               ('1.1', '30 s', now() - interval '5 minutes', 6, 1, E'API\\t\\x1b[31m429'),
               ('1.2', '30 s', now() - interval '8 days', 7, 0, NULL);
        INSERT INTO ai.vectorizer (source_table) VALUES ('blog'), ('wiki'), ('mail');
        INSERT INTO ai.vectorizer_worker_progress (vectorizer_id, success_count, error_count, last_error_message)
        VALUES (1, 999, 1, 'model not found'), (2, 10, 0, NULL);
        """
    )


def test_install_makes_it_and_says_what_and_a_second_time_changes_nothing(shell: Shell) -> None:
    assert "ai.vectorizer_worker_process" in shell.say("tracking", "install")
    assert shell.say("tracking", "install") == "everything was there already"
    answer = shell.ask("tracking", "install")
    assert (answer["made"], len(answer["kept"]), answer["granted"]) == ([], 6, None)


def test_install_says_which_older_function_it_dropped(shell: Shell, sql: Connection) -> None:
    sql.execute(
        "CREATE SCHEMA ai; CREATE FUNCTION ai._worker_heartbeat(worker_id uuid, a int, b int, c text)"
        " RETURNS void LANGUAGE sql AS 'SELECT'"
    )
    said = shell.say("tracking", "install")
    assert "dropped the older ai._worker_heartbeat(worker_id uuid, a integer, b integer, c text)" in said


def test_grant_gives_a_role_what_a_worker_needs(shell: Shell, empty: str, role: str) -> None:
    assert f"{role} may report as a worker" in shell.say("tracking", "install", "--grant", role)
    with psycopg.connect(with_parts(empty, user=role), autocommit=True) as theirs:
        (worker,) = theirs.execute("SELECT ai._worker_start('1', '30 s')").fetchone() or (None,)
        theirs.execute("SELECT ai._worker_heartbeat(%s, 1, 0, NULL)", (worker,))
        theirs.execute("INSERT INTO ai.vectorizer (source_table) VALUES ('blog')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            theirs.execute("DELETE FROM ai.vectorizer_worker_process")


def test_a_role_that_does_not_exist_is_not_found_and_nothing_is_made(shell: Shell, sql: Connection) -> None:
    assert "there is no role 'nobody-here'" in shell.refuse("tracking", "install", "--grant", "nobody-here", code=3)
    assert sql.execute("SELECT to_regnamespace('ai')").fetchone() == (None,)


def test_status_shows_the_dead_and_each_vectorizers_health_with_a_bar(shell: Shell, sql: Connection) -> None:
    shell.say("tracking", "install")
    assert shell.say("tracking", "status").endswith("no vectorizers yet")
    fill(sql)
    said = shell.say("tracking", "status")

    assert "1 of 3 workers live, 2 dead" in said
    assert "\x1b" not in said and "429" in said
    lines = {line.split()[1]: line for line in said.split("\n\n")[1].splitlines()}
    assert "█████████░ 99%" in lines["blog"] and "model not found" in lines["blog"]
    assert "██████████ 100%" in lines["wiki"]
    assert "never" in lines["mail"]
    states = {line.split()[1]: line.split()[2] for line in said.split("\n\n")[0].splitlines()[2:]}
    assert states == {"1.0": "live", "1.1": "dead", "1.2": "dead"}
    assert shell.say("tracking", "status", "--limit", 1).count("1.2") == 0
    assert "and 1 more" in shell.say("tracking", "status", "--limit", 1)


def test_status_as_json_has_everything(shell: Shell, sql: Connection) -> None:
    shell.say("tracking", "install")
    fill(sql)
    answer = shell.ask("tracking", "status")

    assert (answer["workers"], answer["live"], answer["dead"]) == (3, 1, 2)
    assert [each["version"] for each in answer["live_workers"]] == ["1.0"]
    assert [each["version"] for each in answer["dead_workers"]] == ["1.1", "1.2"]
    assert answer["dead_workers"][0]["expected_heartbeat_interval"] == 30
    assert answer["dead_workers"][0]["last_heartbeat"].endswith("Z")
    assert [each["health"] for each in answer["vectorizers"]] == [0.999, 1.0, None]


def test_a_bar_is_full_only_if_nothing_failed_and_empty_only_if_nothing_succeeded() -> None:
    assert [bar(share, "#", ".") for share in (0, 0.001, 0.5, 0.999, 1)] == [
        "..........",
        "#.........",
        "#####.....",
        "#########.",
        "##########",
    ]


def test_prune_forgets_the_long_dead_and_never_a_living_worker(shell: Shell, sql: Connection) -> None:
    shell.say("tracking", "install")
    fill(sql)
    assert shell.say("tracking", "prune") == "forgot 1 worker"
    assert shell.ask("tracking", "prune", "--older", "0s") == {"workers": 1}
    assert sql.execute("SELECT version FROM ai.vectorizer_worker_process").fetchall() == [("1.0",)]


def test_uninstall_wants_a_yes_where_there_is_no_terminal(shell: Shell, sql: Connection) -> None:
    shell.say("tracking", "install")
    assert "--yes" in shell.refuse("tracking", "uninstall", code=2)
    assert sql.execute("SELECT count(*) FROM ai.vectorizer").fetchone() == (0,)
    assert "dropped" in shell.say("tracking", "uninstall", "--yes")
    assert sql.execute("SELECT to_regnamespace('ai')").fetchone() == (None,)
    assert "no tracking" in shell.refuse("tracking", "uninstall", "--yes", code=3)


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 6, True), ("", 6, True), ("y", 0, False)])
def test_uninstall_asks_on_a_terminal(shell: Shell, sql: Connection, answer: str, code: int, left: bool) -> None:
    shell.say("tracking", "install")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [ROTA, "tracking", "uninstall"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**shell.env)
    ) as process:
        os.close(theirs)
        asked = b""
        while b"[y/N]" not in asked:
            asked += os.read(ours, 1000)
        os.write(ours, f"{answer}\n".encode())
        assert process.wait(60) == code
    os.close(ours)
    assert b"0 workers" in asked
    assert (sql.execute("SELECT to_regnamespace('ai')").fetchone() != (None,)) is left


VERBS = [("install",), ("uninstall", "--yes"), ("status",), ("prune",)]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_what_is_no_postgresql_url_is_a_usage_error(shell: Shell, words: tuple[str, ...]) -> None:
    for bad in ("sqlite:///x.db", "postgresql://u:s3cret%zz@h/d", "postgresql://u:s3cret@h:port/d"):
        said = shell.refuse("tracking", *words, "--db", bad, code=2)
        assert "PostgreSQL URL" in said and "s3cret" not in said


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_a_server_out_of_reach_is_one_clear_line(shell: Shell, words: tuple[str, ...]) -> None:
    said = shell.refuse("tracking", *words, "--db", "postgresql://u:s3cret@127.0.0.1:1/d", code=1)
    assert said.startswith("PostgreSQL is out of reach") and "s3cret" not in said


@pytest.mark.parametrize("words", VERBS[1:], ids=lambda words: words[0])
def test_a_database_without_tracking_is_not_found(shell: Shell, words: tuple[str, ...]) -> None:
    assert "there is no tracking in this database" in shell.refuse("tracking", *words, code=3)


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_a_missing_right_is_one_clear_line(shell: Shell, empty: str, role: str, words: tuple[str, ...]) -> None:
    shell.say("tracking", "install")
    said = shell.refuse("tracking", *words, "--db", with_parts(empty, user=role), code=1)
    assert "permission denied" in said or "must be owner" in said


def test_without_psycopg_it_says_what_to_install(shell: Shell) -> None:
    script = "import sys; sys.modules['psycopg'] = None; from rota.cli.main import run; sys.exit(run(sys.argv[1:]))"
    ran = subprocess.run(
        [sys.executable, "-c", script, "tracking", "status"],
        env=environment(**shell.env),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "rota: PostgreSQL needs psycopg, which is not installed: pip install 'rota[postgres]'\n"


def test_the_setting_says_where_to_look_and_db_is_stronger(shell: Shell, empty: str) -> None:
    shell.say("tracking", "install")
    told = Shell(shell.folder, ROTA_TRACKING=empty)
    assert "0 of 0 workers" in told.say("tracking", "status")
    assert "PostgreSQL URL" in told.refuse("tracking", "status", "--db", "sqlite:///x.db", code=2)


def test_a_database_whose_url_names_a_schema_is_looked_at_as_well(shell: Shell, empty: str) -> None:
    assert "made ai" in shell.say("tracking", "install", "--db", f"{empty}?schema=own")
