"""Links to PostgreSQL that are lost, cut or left in the middle of a change, and forks."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from rota.core.claim import Done
from rota.core.errors import Contended, InDoubt, StoreAway
from rota.settings import Settings
from rota.store.engine.transaction import ATTEMPTS, retry_conflicts
from rota.store.open import open_store
from rota.store.postgres.database import PostgresDatabase
from tests.support.eventually import eventually
from tests.support.inflight import in_flight
from tests.support.network import network
from tests.support.postgres import own, with_parts
from tests.support.processes import line, output, python
from tests.support.stores import make_store, rows, url_of
from tests.support.work import add, add_many, claim, status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rota.store.store import Store

pytestmark = pytest.mark.postgres

SECONDS_INSIDE = 5
SLACK = 2.5  # seconds by which a busy machine may be late
FAR_ONES = "SELECT pid FROM pg_stat_activity WHERE client_addr << '10.77.0.0/16'"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of("postgres", tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """On the server's own clock."""
    with make_store("postgres", tmp_path) as opened:
        yield opened


def pid(store: Store) -> int:
    """The server's process at the other end."""
    assert isinstance(store.database, PostgresDatabase)
    return store.database.session.connection.info.backend_pid


def cut(store: Store) -> None:
    """The server ends this connection."""
    ended = pid(store)
    rows(store, "SELECT pg_terminate_backend(:pid)", pid=ended)
    eventually(lambda: not rows(store, "SELECT 1 FROM pg_stat_activity WHERE pid = :pid", pid=ended))


@pytest.mark.parametrize(
    "use",
    [
        lambda store, job: store.jobs.get(job),
        lambda store, _: store.now(),
        lambda store, _: add(store),
        lambda store, _: add_many(store, 2),
        lambda store, _: store.reconcile(),
    ],
    ids=["a statement", "a look", "a change in one go", "a change", "a change alone"],
)
def test_a_connection_that_was_lost_meanwhile_is_opened_again_and_nobody_hears_of_it(
    store: Store, use: Callable[[Store, int], object]
) -> None:
    job = add(store)
    cut(store)
    use(store, job)
    assert store.jobs.get(job).id == job


def test_a_change_whose_link_is_lost_before_its_commit_is_undone(store: Store) -> None:
    add(store)
    with pytest.raises(StoreAway), store.write() as tx:
        tx.execute("queue.make", queue="half", now=tx.now)
        cut_in = pid(store)
        rows(store, "SELECT pg_terminate_backend(:pid)", pid=cut_in)
        eventually(lambda: not rows(store, "SELECT 1 FROM pg_stat_activity WHERE pid = :pid", pid=cut_in))
        tx.execute("queue.get", queue="half")
    assert rows(store, "SELECT 1 FROM queue WHERE name = 'half'") == []
    assert add(store)


def test_a_commit_whose_answer_is_lost_is_in_doubt_and_settled_by_its_token(store: Store) -> None:
    job = add(store)
    held = claim(store, job)
    with in_flight(store, lambda own: own.claims.settle(held, Done())) as change:
        rows(store, "SELECT pg_terminate_backend(:pid)", pid=change._pid)
        problem = change.go_on()
    assert isinstance(problem, InDoubt) and "may or may not stand" in str(problem)
    store.claims.settle(held, Done())
    store.claims.settle(held, Done())
    assert status(store, job) == "done" and len(store.claims.runs(job)) == 1


def test_out_of_reach_is_told_in_words_and_without_the_password() -> None:
    with pytest.raises(StoreAway) as told:
        open_store("postgresql://ann:secret@127.0.0.1:1/jobs", Settings())
    assert "postgresql://ann@127.0.0.1:1/jobs is out of reach" in str(told.value) and "secret" not in str(told.value)


def test_either_end_of_a_link_notices_within_six_seconds_that_it_is_cut(store: Store) -> None:
    """Fault 36, by its settings: idle by keepalives, busy by what is not acknowledged."""
    assert isinstance(store.database, PostgresDatabase)
    connection = store.database.session.connection
    ours, said = connection.info.get_parameters(), "SELECT name, setting FROM pg_settings WHERE name LIKE 'tcp%'"
    theirs = {str(name): int(value) for name, value in connection.execute(said).fetchall()}
    for end in ({f"tcp_{name}".replace("tcp_tcp", "tcp"): value for name, value in ours.items()}, theirs):
        idle, every, times = (int(end[f"tcp_keepalives_{name}"]) for name in ("idle", "interval", "count"))
        assert idle + every * times < 6 and 0 < int(end["tcp_user_timeout"]) < 6000, end
    assert int(ours["connect_timeout"]) < 6


INSIDE = """
store = open_store(sys.argv[1], Settings())
with store.write() as tx:
    tx.execute("number.set", name="blocked_cursor", value=1)
    if sys.argv[2] == "heard":
        tx.execute("queue.all")
    print("inside", flush=True)
    sys.stdin.readline()
"""


def change_the_same(store: Store) -> None:
    with store.write() as tx:
        tx.execute("number.set", name="blocked_cursor", value=0)


@pytest.mark.parametrize("how_far", ["heard", "not yet heard"])
def test_a_program_that_stops_inside_a_change_does_not_keep_others_waiting_for_long(
    store: Store, url: str, how_far: str
) -> None:
    """Nothing is sent without a sync behind it, and from a sync on the server counts how long it is left alone."""
    with python(INSIDE, url, how_far) as program:
        assert line(program) == "inside"
        os.kill(program.pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        change_the_same(store)
        assert time.monotonic() - stopped_at < 3 * SECONDS_INSIDE
        os.kill(program.pid, signal.SIGCONT)


NOTICE = """
import select, time
from rota.core.errors import StoreAway
store = open_store(sys.argv[1], Settings())
store.jobs.list()
print("open", flush=True)
if sys.argv[2] == "idle":
    select.select([store.database.session.connection.fileno()], [], [])
    noticed_at = time.monotonic()
try:
    while True:
        store.jobs.list()
except StoreAway:
    print(noticed_at if sys.argv[2] == "idle" else time.monotonic(), flush=True)
"""


def test_a_link_that_is_cut_is_noticed_within_six_seconds_idle_busy_or_inside_a_change(tmp_path: Path) -> None:
    """Fault 36: by the programs that are cut off, and by the server, which lets go of what they had locked."""
    with network() as around, own(listen_addresses="*") as server, ExitStack() as stack:
        open_store(server.url, Settings(), make=True).close()
        far = with_parts(server.url, host=around.add("far"))
        with around.on("far"):
            holding = stack.enter_context(python(INSIDE, far, "heard"))
            programs = [stack.enter_context(python(NOTICE, far, what)) for what in ("idle", "busy")]
        assert [line(program) for program in (holding, *programs)] == ["inside", "open", "open"]
        near = stack.enter_context(closing(open_store(server.url, Settings())))
        assert rows(near, "SELECT 1 FROM pg_locks WHERE relation = CAST('rota.number' AS regclass)")
        assert len(rows(near, FAR_ONES)) == 3
        around.cut("far")
        cut_at = time.monotonic()
        change_the_same(near)
        assert time.monotonic() - cut_at < 3 * SECONDS_INSIDE
        eventually(lambda: not rows(near, FAR_ONES))
        assert time.monotonic() - cut_at < 6 + SLACK, "the server's end"
        for program in programs:
            assert float(line(program)) - cut_at < 6 + SLACK, "the other end"


def test_what_others_undo_again_and_again_is_given_up_in_the_end() -> None:
    tries: list[int] = []

    @retry_conflicts
    def never() -> None:
        tries.append(1)
        raise Contended("others")

    with pytest.raises(Contended):
        never()
    assert len(tries) == ATTEMPTS


def test_a_forked_child_uses_a_connection_of_its_own(store: Store, url: str) -> None:
    fork = """
import os
store = open_store(sys.argv[1], Settings())
store.jobs.add(NewJob("before the fork"))
child = os.fork()
if not child:
    store.jobs.add(NewJob("child"))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
store.jobs.add(NewJob("parent"))
print(sum(store.queues.list()[0].counts.values()))
"""
    with python(fork, url) as program:
        assert output(program) == "3"


def test_a_child_forked_within_a_transaction_is_refused_and_its_parent_loses_nothing(store: Store, url: str) -> None:
    fork = """
import os
from rota.core.errors import StoreError
from rota.store.jobs.enqueue import Addition
ended, end = os.pipe()
store = open_store(sys.argv[1], Settings())
try:
    with store.begin() as tx:
        Addition(tx, 1).add([NewJob("within")], [None])
        child = os.fork()
        if not child:
            Addition(tx, 1).add([NewJob("child")], [None])
        assert os.read(ended, 1)
except StoreError as problem:
    assert "fork outside of transactions" in str(problem), problem
if not child:
    os.write(end, b"!")
    store.jobs.add(NewJob("child, later"))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
store.jobs.add(NewJob("after"))
"""
    with python(fork, url) as program:
        output(program)
    assert {title for (title,) in rows(store, "SELECT title FROM job")} == {"within", "child, later", "after"}
