"""The command line on PostgreSQL: every verb that needs a database, and the roles that may use which."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from rota.cli.doctor import checks
from rota.cli.main import run
from rota.core.claim import Done, Snoozed
from rota.core.errors import NotAllowed, RotaError
from rota.core.job import NewJob
from rota.core.source import Declared
from rota.core.times import SECOND
from rota.settings import Settings
from rota.store.open import open_store, within
from rota.store.postgres.connection import address
from rota.store.postgres.database import PostgresDatabase
from rota.store.postgres.dialect import KINDS, role
from rota.store.sources import Found
from tests.support.postgres import login_role, with_parts
from tests.support.shell import Shell
from tests.support.stores import database_for_tests, url_of
from tests.support.work import Crew, add, claim, finish, register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rota.store.store import Store

pytestmark = pytest.mark.postgres


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database named in the environment, without a schema yet."""
    found = url_of("postgres", tmp_path)
    monkeypatch.setenv("ROTA_DB", found)
    monkeypatch.chdir(tmp_path)
    return found


class Terminal:
    """Commands in this process, which has the driver loaded already."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def ask(self, *words: str | int, code: int = 0) -> Any:
        assert run([*map(str, words), "--json"]) == code, self._capsys.readouterr().err
        return json.loads(self._capsys.readouterr().out)

    def say(self, *words: str | int, code: int = 0) -> str:
        assert run([*map(str, words)]) == code, self._capsys.readouterr().err
        return self._capsys.readouterr().out

    def refuse(self, *words: str | int, code: int) -> str:
        assert run([*map(str, words)]) == code
        return self._capsys.readouterr().err


@pytest.fixture
def rota(url: str, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_a_job_goes_from_add_to_done_by_hand(rota: Terminal) -> None:
    made = rota.ask("init")
    assert made["made"] is True and made["path"].startswith("postgresql://")
    assert "already" in rota.say("init")
    job = rota.ask("add", "Tag", "--queue", "tag", "--payload", '{"path":"a.wav"}', "--key", "k")["id"]
    assert rota.ask("add", "Tag", "--queue", "tag", "--key", "k")["id"] == job
    later = rota.ask("add", "Later", "--after", job)["id"]
    worker = rota.ask("worker", "register", "--name", "loop")["id"]
    assert [each["id"] for each in rota.ask("ready")] == [job]
    assert rota.ask("claim", job, worker)["job_id"] == job
    assert rota.say("worker", "heartbeat", worker, "--busy", job).strip()
    assert rota.ask("claim:renew", job, worker)["renewed_count"] == 1
    rota.say("claim:release", job, worker)
    assert rota.ask("ready", "--claim", worker)[0]["id"] == job
    assert rota.ask("done", job)["status"] == "done"
    assert rota.ask("show", later)["status"] == "ready"
    assert rota.ask("fail", rota.ask("claim", later)["job_id"], "--error", "x")["attempts"] == 1
    assert len(rota.ask("runs", job)) == 2
    assert "waits for its time" in rota.say("why", later)
    assert rota.ask("cancel", later)["status"] == "cancelled"
    assert rota.ask("retry", later)["status"] == "ready"
    assert len(rota.ask("list")) == 2
    assert rota.ask("wait", job, "--for", "done")
    assert rota.ask("worker", "deregister", worker) is not None


def test_people_govern_look_and_tidy_up(rota: Terminal) -> None:
    rota.say("init")
    one, two = (rota.ask("add", "x", "--queue", "q")["id"] for _ in range(2))
    assert rota.ask("block", two, one)["status"] == "blocked"
    assert rota.ask("unblock", two, one)["status"] == "ready"
    rota.say("queue", "set", "q", "--concurrency", 3)
    rota.say("pause", "q")
    assert "paused" in rota.say("why", one)
    assert rota.refuse("claim", one, code=6)
    rota.say("resume", "q")
    assert rota.ask("queue", "list")[0]["concurrency"] == 3
    events = rota.ask("events")
    assert rota.ask("events", "--after", events[0]["id"])
    assert "not an event cursor" in rota.refuse("events", "--after", "x", code=2)
    assert rota.ask("reconcile", "--plan") == dict.fromkeys(rota.ask("reconcile"), 0)
    rota.say("done", one, "--force")
    assert rota.ask("prune", "--older", "0s")["jobs"] == 1
    assert rota.ask("migrate")["applied"] == []
    found = {each["about"]: each["level"] for each in rota.ask("doctor")}
    assert {"database", "link", "jit", "durability", "transactions", "dead rows", "schema", "counters", "clock"} <= set(
        found
    )
    assert "bad" not in found.values()
    assert len(rota.ask("worker", "list")) == 1
    assert rota.ask("orchestrator", "status", code=6)["status"] == "stopped"
    rota.say("scale", "q=2")


def test_doctor_misses_a_table_that_another_program_removed(rota: Terminal, url: str) -> None:
    rota.ask("init")
    with psycopg.connect(address(url, "rota").conninfo) as connection:
        connection.execute(f"DROP TABLE {address(url, 'rota').schema}.event")
    assert "without the table event" in rota.say("doctor", code=1)


def test_doctor_counts_the_rows_of_the_job_table(rota: Terminal, url: str) -> None:
    rota.say("init")
    for n in range(7):
        rota.say("add", n)
    with psycopg.connect(database_for_tests(), autocommit=True) as server:
        server.execute(f'ANALYZE "{address(url).schema}".job')  # brings the server's statistics up to date
    (dead,) = [each for each in rota.ask("doctor") if each["about"] == "dead rows"]
    assert dead["text"] == "0 beside 7 jobs"


def test_doctor_warns_of_a_slow_link(rota: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    rota.say("init")
    monkeypatch.setattr(checks, "_SLOW", 0.0)
    (link,) = [each for each in rota.ask("doctor") if each["about"] == "link"]
    assert link["level"] == "warn"


def test_doctor_warns_of_a_link_whose_settings_were_reset(url: str) -> None:
    """As a pooler does that hands on the server's own process id and cleans up after each transaction."""
    with open_store(url, Settings(), make=True) as store:
        assert isinstance(store.database, PostgresDatabase)
        assert {each.about: each.level for each in checks.check_server(store)}["jit"] == "ok"
        store.database.session.connection.execute("RESET ALL")
        (jit,) = [each for each in checks.check_server(store) if each.about == "jit"]
    assert jit.level == "warn" and jit.mend is not None and "jit = off" in jit.mend


def test_what_is_not_there_is_told_with_what_to_do(rota: Terminal) -> None:
    assert "`rota init` makes one" in rota.refuse("list", code=3)
    assert "out of reach" in rota.refuse("list", "--db", "postgresql://u:secret@127.0.0.1:1/x", code=1)
    assert "secret" not in rota.refuse("list", "--db", "postgresql://u:secret@127.0.0.1:1/x", code=1)
    assert "out of reach" in rota.say("doctor", "--db", "postgresql://u:secret@127.0.0.1:1/x", code=1)
    assert "`rota init` makes one" in rota.say("doctor", code=3)
    assert "is not a PostgreSQL URL" in rota.refuse("list", "--db", "postgresql://h:x/y", code=2)
    assert "is not a schema" in rota.refuse("list", "--db", "postgresql://h/y?schema=A", code=2)
    elsewhere = with_parts(database_for_tests(), dbname="nowhere")
    assert "does not exist" in rota.refuse("list", "--db", elsewhere, code=1)
    assert "roles are PostgreSQL's" in rota.refuse("migrate", "--roles", "--db", _file(rota), code=2)


def _file(rota: Terminal) -> str:
    rota.say("init", "--db", "here.db")
    return "here.db"


def test_without_psycopg_it_says_what_to_install(tmp_path: Path) -> None:
    script = "import sys; sys.modules['psycopg'] = None; from rota.cli.main import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "list", "--db", "postgresql://h/d"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr == "rota: PostgreSQL needs psycopg, which is not installed: pip install 'rota[postgres]'\n"


def test_a_file_needs_no_psycopg(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.say("init")
    script = "import sys; from rota.cli.main import run; sys.exit(run(sys.argv[1:]) or 'psycopg' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script, "list"], cwd=tmp_path, capture_output=True, check=False)
    assert ran.returncode == 0


# roles


@contextmanager
def logged_in(url: str, kind: str) -> Iterator[Store]:
    """A store opened by someone who has one role and no other right."""
    where = address(url)
    name = f"{where.schema}_{kind}_person"
    with psycopg.connect(where.conninfo, autocommit=True) as owner:
        password = psycopg.conninfo.conninfo_to_dict(where.conninfo).get("password")
        secret = f" PASSWORD '{password}'" if password else ""
        owner.execute(f"CREATE ROLE {name} LOGIN{secret} IN ROLE {role(where.schema, kind)}".encode())
        try:
            with open_store(f"{with_parts(url.split('?')[0], user=name)}?schema={where.schema}", Settings()) as store:
                yield store
        finally:
            owner.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


def _exchange(store: Store) -> object:
    crew = Crew(store)
    (handout,) = crew.exchange().claims
    crew.exchange([(handout.job_id, handout.token, Done())], room=0)
    return store.orchestrators.leave(crew.id)


def _work_from_a_source(store: Store) -> object:
    store.sources.declare([Declared("files", "tag", "tag", SECOND, 2, 5, 3)])
    crew = Crew(store, queue="tag")
    (filler,) = crew.exchange().claims
    store.sources.fill("files", (filler.job_id, filler.token), [Found("a", None)], NewJob("tag", "tag", "tag"), True)
    (handout,) = crew.exchange([(filler.job_id, filler.token, Snoozed(SECOND))]).claims
    crew.exchange([(handout.job_id, handout.token, Done())], room=0)
    assert store.sources.get("files").success_count == 1
    return store.orchestrators.leave(crew.id)


def _add_in_a_transaction(store: Store) -> None:
    """In the transaction of a connection of their own."""
    with psycopg.connect(address(store.database.url).conninfo) as connection:
        url, settings = store.database.url, Settings()
        first = within(connection, url, settings, lambda lent: lent.jobs.add_many([NewJob("a")]), begins=True)
        assert isinstance(first, list)
        within(connection, url, settings, lambda lent: lent.jobs.add_many([NewJob("b", after=first)]), begins=True)
        connection.rollback()


DEEDS: dict[str, Callable[[Store], object]] = {
    "list": lambda store: [job.id for job in store.jobs.list()],
    "ready": lambda store: store.jobs.ready(),
    "events": lambda store: store.events.after("0"),
    "workers": lambda store: store.workers.list(),
    "add": lambda store: add(store, "job", after=[1], key="k"),
    "add to a full queue": lambda store: add(store, queue="limited"),
    "claim and settle": lambda store: finish(store, 1),
    "exchange": _exchange,
    "add in a transaction of their own": _add_in_a_transaction,
    "work from a source": _work_from_a_source,
    "register": register,
    "reconcile": lambda store: store.reconcile(),
    "pause": lambda store: store.queues.pause("default"),
    "set limits": lambda store: store.queues.set("default", concurrency=5),
    "unblock": lambda store: store.jobs.unblock(2, 1),
    "prune": lambda store: store.history.prune(older=0),
    "rewrite history": lambda store: _say(store, "UPDATE event SET facts = '[]'"),
    "forget a run": lambda store: _say(store, "DELETE FROM run"),
    "add a job that is over": lambda store: _insert(store, "status, finished_at", "'done', 1"),
    "add a job that is held": lambda store: _insert(store, "status, token, worker, claimed_at", "'active', 1, 'w', 1"),
    "speak for another's worker": lambda store: _say(store, "UPDATE worker SET access = 'theirs'"),
    "speak for an orchestrator": lambda store: _say(store, "UPDATE orchestrator SET access = 'theirs'"),
    "fill the gate": lambda store: _say(store, "DELETE FROM gate"),
    "make a table": lambda store: _say(store, "CREATE TABLE theirs (id int)"),
    "drop a table": lambda store: _say(store, "DROP TABLE ripple"),
}
MAY = {
    "owner": set(DEEDS),
    "enqueue": {"list", "ready", "add", "add to a full queue", "add in a transaction of their own"},
    "worker": {"list", "ready", "events", "workers", "add", "add to a full queue", "claim and settle", "exchange"}
    | {"register", "reconcile", "pause", "add in a transaction of their own", "work from a source", "forget a run"},
    "read": {"list", "ready", "events", "workers"},
}


def _insert(store: Store, names: str, values: str) -> None:
    """A job by hand."""
    whole = f"id, queue, kind, title, priority, due_wall, max_attempts, created_at, {names}"
    _say(store, f"INSERT INTO job ({whole}) VALUES (nextval('number_job'), 'default', 'x', 'x', 0, 0, 1, 1, {values})")


def _say(store: Store, text: str) -> None:
    with store.write():
        store.database.script(text)
        store.database.execute("queue.all", {})


@pytest.mark.parametrize("kind", KINDS)
def test_who_may_do_what(rota: Terminal, url: str, kind: str) -> None:
    rota.say("init")
    assert rota.ask("migrate", "--roles")["roles"] == [role(address(url).schema, each) for each in KINDS]
    assert rota.ask("migrate", "--roles")["roles"] == [], "a second time changes nothing"
    with open_store(url, Settings()) as store:
        store.queues.set("limited", max_depth=100)
        add(store)
        add(store, after=[1])
        claim(store, add(store, "a lapsing one"), register(store), 1)
    did = set()
    with logged_in(url, kind) as mine:
        for deed, do in DEEDS.items():
            try:
                do(mine)
                did.add(deed)
            except NotAllowed as problem:
                assert "rota migrate --roles" in str(problem)
    assert did == MAY[kind]


@pytest.mark.parametrize("state", ["done", "failed", "cancelled", "active"])
def test_who_may_only_add_adds_no_job_that_was_claimed_or_is_over(rota: Terminal, url: str, state: str) -> None:
    rota.say("init")
    rota.say("migrate", "--roles")
    with logged_in(url, "enqueue") as mine:
        _insert(mine, "status", "'ready'")
        with pytest.raises(RotaError, match="job_check"):
            _insert(mine, "status", f"'{state}'")
        assert [job.status for job in mine.jobs.list()] == ["ready"]


MODES = [f"{mode} MODE" for mode in ("ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE", "ACCESS EXCLUSIVE")]


def _take_all(url: str) -> Callable[[psycopg.Connection[Any]], None]:
    """Whatever locks a change of ours takes, as far as they can be had."""
    with open_store(url, Settings()) as store, psycopg.connect(address(url).conninfo) as other, store.write() as tx:
        assert tx.now
        assert isinstance(store.database, PostgresDatabase)
        pid = store.database.session.connection.info.backend_pid
        asked = "SELECT classid::bigint, objid::bigint FROM pg_locks WHERE pid = %s AND locktype = 'advisory'"
        advisory = [(n - (n >> 31 << 32), m - (m >> 31 << 32)) for n, m in other.execute(asked, [pid]).fetchall()]
        asked = "SELECT DISTINCT relation::regclass::text FROM pg_locks WHERE pid = %s AND locktype = 'relation'"
        tables = [name for (name,) in other.execute(asked, [pid]).fetchall()]
    assert any(name.endswith(".gate") for name in tables)

    def take(connection: psycopg.Connection[Any]) -> None:
        for numbers in advisory:
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", numbers)
        for table, mode in product(tables, MODES):
            with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '10s'; LOCK TABLE {table} IN {mode}".encode())

    return take


@pytest.mark.parametrize("kind", ["read", None], ids=["a reader", "a stranger"])
def test_nobody_without_the_right_to_write_holds_up_a_change(rota: Terminal, url: str, kind: str | None) -> None:
    """They hold every lock of those that a change takes, as far as they can: one made beside others, and one alone."""
    rota.say("init")
    rota.say("migrate", "--roles")
    take = _take_all(url)
    with ExitStack() as stack:
        if kind is None:
            name = stack.enter_context(login_role(database_for_tests()))
        else:
            where = address(stack.enter_context(logged_in(url, kind)).database.url)
            name = str(psycopg.conninfo.conninfo_to_dict(where.conninfo)["user"])
        theirs = stack.enter_context(psycopg.connect(with_parts(database_for_tests(), user=name)))
        store = stack.enter_context(open_store(url, Settings()))
        stack.enter_context(theirs.transaction())
        take(theirs)
        assert isinstance(store.database, PostgresDatabase)
        store.database.session.connection.execute("SET lock_timeout = '2s'")
        job = add(store)
        store.queues.pause("default")
        assert store.jobs.get(job).status == "ready"


# What a new job may be given by who adds it: nothing of a claim, an end or a source.
NEW = "blocked_on created_at due_at due_wall id key kind limit_key max_attempts parent payload priority queue status"
NEW += " timeout title trace"
# What they may do with each table, each sequence and the schema, whoever they have that from: enqueue, worker, read.
RIGHTS = {
    "boot": ("", "SELECT", "SELECT"),
    "certificate": ("", "SELECT INSERT UPDATE", "SELECT"),
    "dependency": ("SELECT INSERT(job needs until_over)", "SELECT INSERT(job needs until_over)", "SELECT"),
    "event": ("SELECT(facts xid) INSERT(actor at facts)", "SELECT INSERT(actor at facts)", "SELECT"),
    "event_id_seq": ("", "", ""),
    "gate": ("INSERT", "SELECT INSERT UPDATE", "SELECT"),
    "job": (
        f"SELECT INSERT({NEW}) UPDATE(dependents)",
        f"SELECT INSERT({' '.join(sorted([*NEW.split(), 'source']))}) UPDATE DELETE",
        "SELECT",
    ),
    "metric": ("", "SELECT INSERT UPDATE(n total) DELETE", "SELECT"),
    "metric_mark": ("", "SELECT", "SELECT"),
    "migration": ("SELECT", "SELECT", "SELECT"),
    "number": ("", "SELECT UPDATE", "SELECT"),
    "number_job": ("USAGE", "USAGE", ""),
    "number_token": ("", "USAGE", ""),
    "orchestrator": ("", "SELECT INSERT UPDATE(* but access)", "SELECT"),
    "pulse": ("", "SELECT UPDATE", "SELECT"),
    "queue": (
        "SELECT INSERT(created_at name) UPDATE(created_at)",
        "SELECT INSERT(created_at name) UPDATE(created_at failures pause_reason paused_at paused_by rate_next_at)",
        "SELECT",
    ),
    "ripple": ("", "SELECT INSERT UPDATE DELETE", "SELECT"),
    "run": ("", "SELECT INSERT DELETE", "SELECT"),
    "schedule": ("", "SELECT INSERT UPDATE", "SELECT"),
    "slot": ("", "SELECT INSERT UPDATE", "SELECT"),
    "source": ("", "SELECT INSERT UPDATE", "SELECT"),
    "source_memory": ("", "SELECT INSERT UPDATE DELETE", "SELECT"),
    "tally": (
        "SELECT INSERT(n queue shard status) UPDATE(n)",
        "SELECT INSERT(n queue shard status) UPDATE(n) DELETE",
        "SELECT",
    ),
    "the schema": ("USAGE", "USAGE", "USAGE"),
    "token": ("SELECT(id revoked_at)", "SELECT(id revoked_at)", ""),
    "worker": ("", "SELECT INSERT UPDATE(* but access)", "SELECT"),
}
OF_TABLES = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"]
OF_SEQUENCES = ["USAGE", "SELECT", "UPDATE"]
OF_SCHEMAS = ["USAGE", "CREATE"]
# Each thing with what a role may do to the whole of it, and which columns it may do that to.
CATALOGUE = """
WITH may (about, what) AS (VALUES ('r', %(tables)s::text[]), ('S', %(sequences)s), ('n', %(schemas)s))
SELECT relname, privilege, CASE about WHEN 'r' THEN has_table_privilege(%(role)s, c.oid, privilege)
    ELSE has_sequence_privilege(%(role)s, c.oid, privilege) END,
    (SELECT CASE WHEN count(*) = relnatts - 1 AND max(attname) FILTER (WHERE attname = 'access') IS NULL
        AND relname IN ('worker', 'orchestrator')
        THEN '* but access' ELSE string_agg(attname, ' ' ORDER BY attname) END FROM pg_attribute
     WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND about = 'r'
     AND CASE WHEN privilege IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')
        THEN has_column_privilege(%(role)s, c.oid, attnum, privilege) END)
FROM pg_class AS c JOIN may ON about = CASE relkind WHEN 'S' THEN 'S' ELSE 'r' END, unnest(what) AS privilege
WHERE relnamespace = %(schema)s::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
UNION ALL SELECT 'the schema', privilege, has_schema_privilege(%(role)s, %(schema)s, privilege), NULL
FROM may, unnest(what) AS privilege WHERE about = 'n'
"""


def rights(connection: psycopg.Connection[Any], schema: str, kind: str) -> dict[str, str]:
    """What a role may do, by the names of tables and sequences."""
    maintain = ["MAINTAIN"] if connection.info.server_version >= 170000 else []
    asked = {"tables": [*OF_TABLES, *maintain], "sequences": OF_SEQUENCES, "schemas": OF_SCHEMAS}
    found: dict[str, list[str]] = {}
    for name, privilege, whole, columns in connection.execute(
        CATALOGUE, {**asked, "role": role(schema, kind), "schema": schema}
    ):
        words = found.setdefault(name, [])
        if whole or columns:
            words.append(privilege if whole else f"{privilege}({columns})")
    return {name: " ".join(words) for name, words in found.items()}


def test_each_role_has_these_rights_and_no_others(rota: Terminal, url: str) -> None:
    rota.say("init")
    rota.say("migrate", "--roles")
    where = address(url)
    with psycopg.connect(where.conninfo) as connection:
        for place, kind in enumerate(("enqueue", "worker", "read")):
            assert rights(connection, where.schema, kind) == {name: each[place] for name, each in RIGHTS.items()}, kind
        powers = connection.execute(
            "SELECT DISTINCT rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls "
            "FROM pg_roles WHERE rolname = ANY(%s)",
            [[role(where.schema, kind) for kind in KINDS]],
        ).fetchall()
    assert powers == [(False,) * 6]


def test_what_was_made_by_one_is_the_owners_to_migrate(rota: Terminal, url: str) -> None:
    rota.say("init")
    rota.say("migrate", "--roles")
    where = address(url)
    with psycopg.connect(where.conninfo) as connection:
        owners = connection.execute(
            "SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = %s", [where.schema]
        ).fetchall()
    assert owners == [(role(where.schema, "owner"),)]
