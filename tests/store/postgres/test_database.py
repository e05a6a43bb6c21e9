"""What is particular to PostgreSQL: events out of order, the server's clock, listeners, schemas."""

from __future__ import annotations

import json
import os
import select
import time
from contextlib import ExitStack
from threading import Thread
from typing import TYPE_CHECKING

import psycopg
import pytest

from rota.core.claim import Done
from rota.core.errors import BadInput, NotFound, SchemaMismatch, StoreError
from rota.core.event import JobMoved
from rota.core.times import MINUTE, SECOND
from rota.settings import Settings
from rota.store.engine import listening as lines
from rota.store.engine.statements import FOLDER, read_statements
from rota.store.migrate import FIRST, LATEST
from rota.store.open import open_store
from rota.store.postgres import database as listeners
from rota.store.postgres.connection import address
from rota.store.postgres.database import PostgresDatabase
from rota.store.postgres.dialect import KEPT, own_texts
from tests.support.eventually import eventually
from tests.support.inflight import in_flight
from tests.support.postgres import login_role, with_parts
from tests.support.processes import line, output, python, say
from tests.support.stores import again as another
from tests.support.stores import make_store, rows, url_of
from tests.support.work import Crew, add, add_many, claim, register, status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rota.store.store import Store

pytestmark = pytest.mark.postgres

OVERRIDES = {
    "number.draw_many",
    "job.some",
    "job.relations",
    "claim.pick",
    "tally.add many",
    "tally.gather",
    "metric.add many",
    "metric.gather",
    "job.insert many",
    "job.make_ready many",
    "job.awaited many",
    "job.forget many",
    "job.forget_runs many",
    "job.forget_dependencies many",
    "claim.put_back many",
    "claim.set_aside many",
    "claim.record many",
    "dependency.add many",
    "dependency.count_dependents many",
    "worker.exchanged many",
    "worker.prune_certificates many",
    "locks.jobs many",
    "locks.free_worker many",
    "locks.free_scheduled many",
    "locks.queue_of many",
    "claim.holding",
    "number.last",
    "number.leave_out",
    "claim.take_all",
    "claim.finish",
    "claim.record_done",
    "source.add many",
    "source.known many",
    "source.recall many",
    "source.remember many",
    "source.mark_reported many",
    "source.let_go many",
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of("postgres", tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """On the server's own clock."""
    with make_store("postgres", tmp_path) as opened:
        yield opened


def driver(store: Store) -> PostgresDatabase:
    assert isinstance(store.database, PostgresDatabase)
    return store.database


# statements


def test_the_statements_with_a_text_of_their_own_are_these() -> None:
    common = {
        f"{file.removesuffix('.sql')}.{verb}"
        for file in os.listdir(FOLDER)
        if file.endswith(".sql")
        for verb in read_statements(os.path.join(FOLDER, file))
    }
    own = {name for name in own_texts() if name.removesuffix(" many") in common}
    assert own == OVERRIDES
    only_here = {name.split(".")[0] for name in own_texts() if name.removesuffix(" many") not in common}
    assert only_here == {"schema", "log", "role", "server", "job", "claim"}


# events


def test_events_that_become_visible_out_of_order_are_all_read_once(store: Store) -> None:
    """The first to begin is the last to end, and one more never ends: neither is missed, nor does it hold others up."""
    add(store)
    read, cursor = list[int](), store.events.last()

    def read_on() -> None:
        nonlocal cursor
        for event in store.events.after(cursor, 2):
            read.extend(move.ids[0] for move in event.of(JobMoved))
            cursor = event.cursor

    with in_flight(store, add) as never, in_flight(store, add) as late:
        early = [add(store) for _ in range(3)]
        for _ in range(3):
            read_on()
        assert read == early, "what is over is read though others are not"
        first = late.go_on()
        later = [add(store) for _ in range(2)]
        for _ in range(3):
            read_on()
        assert read == [*early, first, *later]
        last = never.go_on()
    read_on()
    read_on()
    assert read == [*early, first, *later, last]
    assert read != sorted(read), "they became visible out of order, or this has shown nothing"


def test_a_reader_beside_many_writers_reads_each_event_once(store: Store) -> None:
    cursor, writers, each = store.events.last(), 6, 40

    def write() -> None:
        with another(store) as own:
            for _ in range(each):
                add(own)

    threads = [Thread(target=write) for _ in range(writers)]
    for thread in threads:
        thread.start()
    read: list[int] = []
    deadline = time.monotonic() + 60
    while len(read) < writers * each and time.monotonic() < deadline:
        for event in store.events.after(cursor, 7):
            read.extend(move.ids[0] for move in event.of(JobMoved))
            cursor = event.cursor
    for thread in threads:
        thread.join()
    assert sorted(read) == [id for (id,) in rows(store, "SELECT id FROM job ORDER BY id")]
    assert store.events.after(cursor) == []


def test_a_log_restored_from_another_server_is_told_once(store: Store) -> None:
    """Its transactions are this server's future, until it is brought into the past."""
    add_many(store, 3)
    rows(store, "UPDATE event SET xid = '9000000000000000'")
    cursor = store.events.last()
    assert store.events.after("0") == store.events.after(cursor) == []
    assert driver(store).log.rebase() == 1
    assert len(store.events.after("0")) == 1 and store.events.after(cursor) == []
    add(store)
    assert len(store.events.after(cursor)) == 1 and driver(store).log.rebase() == 0


# the clock


def test_time_is_the_servers(store: Store) -> None:
    ((server,),) = rows(store, "SELECT extract(epoch FROM clock_timestamp()) * 1000000")
    assert abs(store.now() - int(server)) < 10 * SECOND
    assert store.database.wall() >= store.now() - 10 * SECOND
    with store.write() as tx:
        began = tx.now
        assert store.database.moment() == (began, began), "one reading for all of a change"
    assert store.now() > began


def test_a_lease_runs_out_by_the_servers_clock(store: Store) -> None:
    job, worker = add(store), register(store)
    claim(store, job, worker, SECOND // 20)
    eventually(lambda: store.jobs.ready() and status(store, job) == "ready")


# values


def test_text_that_postgres_cannot_hold_is_kept_as_near_as_can_be(store: Store) -> None:
    job = add(store)
    store.jobs.fail(claim(store, job).job_id, "a \0 in a report", again=False)
    assert store.jobs.get(job).error == "a \N{REPLACEMENT CHARACTER} in a report"
    texts = ['"', "\\", "{a,b}", "NULL", "", "'", "%s", ":id", "\u2028", 'a"b\\"c', "null"]
    ids = add_many(store, 1) + [add(store, title=f"x{text}", key=f"k{text}", payload=text) for text in texts]
    assert [(job.title, job.key, job.payload) for job in map(store.jobs.get, ids[1:])] == [
        (f"x{text}", f"k{text}", text) for text in texts
    ]


# bells


def test_a_listener_hears_what_others_commit_and_only_that(store: Store) -> None:
    job = add(store)
    bell, events = store.database.listen(), store.database.listen(events=True)
    try:
        held = claim(store, job)
        assert events.wait(30) and not bell.wait(0)
        store.claims.release(held)
        assert bell.wait(30)
        with pytest.raises(NotFound):
            store.jobs.cancel(77)
        events.wait(0.2)
        assert not events.wait(0.1) and not bell.wait(0)
    finally:
        bell.close()
        events.close()


def test_a_listener_whose_link_dies_listens_again_behind_the_same_descriptor(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "RETRY_AFTER", 0.05)
    bell = store.database.listen()
    try:
        descriptor = bell.fileno()
        listening = "SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN ' || :bell"
        name = f"{driver(store).schema}_work"
        ((first,),) = rows(store, listening, bell=name)
        rows(store, "SELECT pg_terminate_backend(:pid)", pid=first)
        eventually(lambda: [row for row in rows(store, listening, bell=name) if row[0] != first])
        assert bell.wait(30), "once it listens again it rings, for what it may have missed"
        add(store)
        assert select.select([descriptor], [], [], 30)[0] and bell.fileno() == descriptor
    finally:
        bell.close()


def test_where_nothing_can_listen_polling_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners.Listener, "open_line", lambda self: None)
    store.settings = store.settings.replace(poll_interval=SECOND // 50)
    job, found = add(store), list[str]()

    def wait() -> None:
        with another(store) as own:
            found.extend(each.status for each in own.jobs.wait([job], "done", MINUTE))

    waiting = Thread(target=wait)
    waiting.start()
    store.claims.settle(claim(store, job), Done())
    waiting.join(30)
    assert found == ["done"]


# schemas


@pytest.mark.parametrize("name", ["Rota", "1rota", "", "pg_rota", "a-b", "a;b", "x" * 41, 'a"b'])
def test_a_schema_that_makes_no_sense_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="is not a schema for rota"):
        address("postgresql://h/d", name) if name else address("postgresql://h/d?schema=%20")


def test_the_url_names_the_schema_and_else_the_setting_does() -> None:
    assert address("postgresql://h/d").schema == "rota"
    assert address("postgresql://h/d", "jobs").schema == "jobs"
    assert address("postgres://u:p%40@h/d?sslmode=disable&schema=mine", "jobs").schema == "mine"
    assert address("postgresql://u:p@h:1/d?schema=mine").shown == "postgresql://u@h:1/d?schema=mine"
    assert address(address("postgresql://u@h/d?schema=mine").url).schema == "mine"
    assert address("postgresql:///d?schema=mine&user=u").url == "postgresql:///d?user=u&schema=mine"
    assert address(address("postgresql:///d").url).shown == "postgresql:///d"


@pytest.mark.parametrize("url", ["postgresql://h:port/d", "postgresql://[h/d", "postgresql://h/d?nonsense=1"])
def test_what_is_no_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(BadInput, match="is not a PostgreSQL URL"):
        address(url)


def test_files_of_this_host_are_named_after_the_database_and_not_after_its_url(
    store: Store, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, _, schema = url.partition("?")
    known = psycopg.conninfo.conninfo_to_dict(database)
    service = tmp_path / "service.conf"
    service.write_text("\n".join(["[jobs]", *(f"{name}={value}" for name, value in known.items())]))
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    for name, value in known.items():
        monkeypatch.setenv({"dbname": "PGDATABASE"}.get(name, f"PG{name.upper()}"), str(value))
    ours = store.database.beside
    with login_role(database) as role:
        rows(store, f'GRANT USAGE ON SCHEMA {driver(store).schema} TO "{role}"')
        rows(store, f'GRANT SELECT ON ALL TABLES IN SCHEMA {driver(store).schema} TO "{role}"')
        spelt = [
            with_parts(database, host="localhost"),
            with_parts(database, user=role),
            f"{database}?application_name=x&connect_timeout=7",
            "postgresql://?service=jobs",
            "postgresql:///",
        ]
        for each in spelt:
            with open_store(f"{each}{'&' if '?' in each else '?'}{schema}", Settings()) as other:
                assert other.database.beside == ours, each
    with open_store(f"{database}?schema=another", Settings(), make=True) as other:
        assert other.database.beside != ours


def test_where_the_number_of_the_cluster_may_not_be_read_files_are_named_after_the_url(store: Store, url: str) -> None:
    """The right is taken from everyone but superusers, as in a hardened server, and given back."""
    database, _, schema = url.partition("?")
    named = driver(store).schema
    with login_role(database) as role:
        rows(store, f'GRANT USAGE ON SCHEMA {named} TO "{role}"')
        rows(store, f'GRANT SELECT ON ALL TABLES IN SCHEMA {named} TO "{role}"')
        rows(store, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        try:
            with open_store(f"{with_parts(database, user=role)}?{schema}", Settings()) as other:
                with other.database.read():
                    inside = other.database.beside
                assert other.database.beside == inside != store.database.beside
        finally:
            rows(store, "GRANT EXECUTE ON FUNCTION pg_control_system() TO PUBLIC")


def test_two_schemas_of_one_database_know_nothing_of_each_other(store: Store, tmp_path: Path) -> None:
    add(store)
    with make_store("postgres", tmp_path / "other") as other:
        assert other.jobs.list() == [] and add(other) == 1
        with store.write(exclusive=True) as one, other.write(exclusive=True) as another:
            assert one.now and another.now, "nor does one wait for the other"


def test_a_schema_that_is_not_there_is_made_only_where_that_is_asked_for(url: str) -> None:
    with pytest.raises(NotFound, match=r"there is no schema t_\w+ of rota in .*: `rota init` makes one"):
        open_store(url, Settings())
    told: list[str] = []
    open_store(url, Settings(), make=True, told=told.append).close()
    assert len(told) == 1 and told[0].startswith("made schema t_")
    open_store(url, Settings()).close()


def test_another_programs_schema_is_refused_and_left_alone(url: str) -> None:
    where = address(url)
    with psycopg.connect(where.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {where.schema}; CREATE TABLE {where.schema}.job (id int)".encode())
        with pytest.raises(StoreError, match="holds another program's tables"):
            open_store(url, Settings(), make=True)
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [where.schema]).fetchall()
        assert found == [("job",)]


MAKE = """
from rota.store.migrate import migrate
from rota.store.open import open_database
print("ready", flush=True)
input()
told = []
database = open_database(sys.argv[1], Settings(), make=True, told=told.append)
print([len(told), migrate(database)])
"""


def test_eight_programs_that_make_a_schema_at_once_make_it_once_and_migrate_it_once(url: str) -> None:
    with ExitStack() as stack:
        programs = [stack.enter_context(python(MAKE, url)) for _ in range(8)]
        assert [line(program) for program in programs] == ["ready"] * 8
        for program in programs:
            say(program)
        answers = [json.loads(output(program)) for program in programs]
    assert sum(told for told, _ in answers) == 1
    assert sorted(number for _, applied in answers for number in applied) == list(range(FIRST, LATEST + 1))
    with open_store(url, Settings()) as store:
        assert rows(store, "SELECT number FROM migration ORDER BY 1") == [(n,) for n in range(FIRST, LATEST + 1)]
        assert add(store) == 1


@pytest.mark.parametrize("oldest", [LATEST, LATEST + 1])
def test_a_newer_schema_is_finished_beside_or_refused(store: Store, url: str, oldest: int) -> None:
    job = add(store)
    held = claim(store, job)
    rows(store, f"INSERT INTO migration VALUES ({LATEST + 1}, 'next', {oldest}, 0)")
    if oldest > LATEST:
        with pytest.raises(SchemaMismatch, match="made by a newer rota"):
            open_store(url, Settings())
        return
    with open_store(url, Settings()) as outdated:
        outdated.claims.settle(held, Done())
        with pytest.raises(SchemaMismatch, match="upgrade"):
            add(outdated)


def test_a_migration_that_fails_leaves_nothing_behind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "rota.store.migrate.migrations",
        lambda: {FIRST: ("bad", FIRST, "CREATE TABLE migration (number int); SELECT nonsense()")},
    )
    with pytest.raises(StoreError):
        open_store(url, Settings(), make=True)
    monkeypatch.undo()
    with open_store(url, Settings(), make=True) as store:
        assert add(store) == 1


def test_rows_that_change_often_have_room_and_no_index_on_beats(store: Store) -> None:
    ours = "FROM pg_class WHERE relnamespace = CAST(current_schema() AS regnamespace)"
    options = dict(rows(store, f"SELECT relname, array_to_string(reloptions, ' ') {ours}"))
    for table in ("job", "worker", "orchestrator", "tally", "queue", "number", "pulse"):
        assert "fillfactor" in options[table] and "autovacuum_vacuum" in options[table]
    indexed = rows(store, "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()")
    assert not [text for (text,) in indexed if "last_beat" in text or "heartbeat_count" in text]
    worker = register(store)
    for _ in range(20):
        store.workers.heartbeat(worker)
    driver(store).session.connection.execute("SELECT pg_stat_force_next_flush()")
    ((hot, all_of_them),) = rows(
        store,
        "SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables"
        " WHERE schemaname = current_schema() AND relname = 'worker'",
    )
    assert hot == all_of_them >= 20, "a beat touches no index"


def test_what_an_exchange_and_a_look_ask_is_planned_once_and_what_is_picked_anew(store: Store) -> None:
    """A plan that was made for an empty queue would walk all of a full one."""
    crew = Crew(store, 1, "q")
    for _ in range(7):
        add_many(store, 3, queue="q")
        claims = crew.exchange(room=3).claims
        crew.exchange([(each.job_id, each.token, Done("1")) for each in claims], room=0)
        store.orchestrators.poll(crew.id, 0)
    database = store.database
    assert isinstance(database, PostgresDatabase)
    seen = database.session.connection.execute(
        "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements"
    )
    plans = {text: (kept, anew) for text, kept, anew in seen.fetchall()}

    def of(name: str) -> tuple[int, int]:
        return plans[database.texts.statement(name).text.decode()]

    for name in KEPT:
        kept, anew = of(name)
        assert kept >= 7 and anew == 0, name
    kept, anew = of("claim.pick")
    assert anew >= 7 and kept == 0


@pytest.fixture
def plain_tables(store: Store) -> None:
    """Nothing is cleared away or looked at by the server itself: plans depend on what a test does."""
    for table in ("job", "run", "worker", "orchestrator", "event"):
        rows(store, f"ALTER TABLE {table} SET (autovacuum_enabled = off)")


def looked_at(store: Store) -> int:
    """How many rows of jobs, and entries of their indexes, statements have read so far."""
    driver(store).session.connection.execute("SELECT pg_stat_force_next_flush()")
    ours = "schemaname = current_schema() AND relname = 'job'"
    entries = f"SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE {ours}"
    return int(rows(store, f"SELECT ({entries}) + seq_tup_read FROM pg_stat_user_tables WHERE {ours}")[0][0])


def work(store: Store, crew: Crew) -> None:
    claims = crew.exchange(room=3).claims
    crew.exchange([(each.job_id, each.token, Done("1")) for each in claims], room=0)
    store.orchestrators.poll(crew.id, 0)


ADDED = 20_000
SCHEDULED = f"""INSERT INTO job (id, queue, kind, title, priority, status, due_at, due_wall, max_attempts, created_at)
SELECT 1000000 + n, 'q', 'work', 'job', 0, 'scheduled', {1 << 60}, n % 2, 1, 1 FROM generate_series(1, {ADDED}) AS n"""


@pytest.mark.usefixtures("plain_tables")
@pytest.mark.parametrize("analysed", [True, False], ids=["analysed", "never analysed"])
@pytest.mark.parametrize("status", ["ready", "scheduled"])
def test_a_plan_kept_from_an_empty_queue_walks_no_full_one(store: Store, status: str, analysed: bool) -> None:
    crew = Crew(store, 1, "q")
    for _ in range(3):
        add_many(store, 3, queue="q")
        if analysed:
            rows(store, "ANALYZE job")
        work(store, crew)
    rows(store, SCHEDULED if status == "scheduled" else SCHEDULED.replace("'scheduled'", "'ready'"))
    add_many(store, 3, queue="q")
    before = looked_at(store)
    work(store, crew)
    assert looked_at(store) - before < 1_000


@pytest.mark.usefixtures("plain_tables")
def test_a_plan_made_for_a_table_without_a_page_is_made_anew_once_it_is_slow(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rota.store.postgres.session._SLOW", 0.0)  # on a quick machine too
    crew = Crew(store, 1, "q")
    driver(store).session._replan_from = time.monotonic() + 3600
    rows(store, "VACUUM ANALYZE job")  # the server knows now that it is empty
    for _ in range(3):
        work(store, crew)
    rows(store, SCHEDULED)
    before = looked_at(store)
    work(store, crew)
    assert looked_at(store) - before > ADDED, "the plan was right from the beginning: that tests nothing"
    driver(store).session._replan_from = 0.0
    before = looked_at(store)
    work(store, crew)
    assert looked_at(store) - before < 1_000


def test_a_text_that_no_database_takes_is_refused_and_the_link_goes_on(store: Store) -> None:
    session, texts = driver(store).session, driver(store).texts
    before = session.connection.info.backend_pid
    for run in (session.run, session.run_whole):
        with pytest.raises(BadInput, match="not valid Unicode"):
            run(texts.statement("queue.get"), {"queue": "half \ud800"})
        assert session.connection.execute("SELECT 1").fetchone() == (1,)
    assert session.connection.info.backend_pid == before
