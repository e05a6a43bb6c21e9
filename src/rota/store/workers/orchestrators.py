"""What an orchestrator asks of the store for itself: its lease, its workers, its directives."""

from __future__ import annotations

from rota.core import job as jobs
from rota.core import orchestrator as orchestrators
from rota.core import slot as slots
from rota.core import worker as workers
from rota.core.death import LOST
from rota.core.errors import BadInput, Conflict, Denied, NotFound, Stale
from rota.core.frames.messages import NO_KINDS, kinds_json
from rota.core.orchestrator import END_AFTER, LEASE
from rota.process.host import host_id
from rota.store import ownership
from rota.store.claims import exchange as exchanges
from rota.store.engine import locks
from rota.store.engine.rows import to_job, to_queue, to_run
from rota.store.engine.transaction import retry_conflicts
from rota.store.jobs import unknown_kinds
from rota.store.maintenance import tick
from rota.store.workers.crews import Directive, Home, Live, PollResult, Process, Progress, here
from rota.store.workers.slots import come_up, find, move, stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rota.core.event import NounChanged
    from rota.core.frames.messages import Kinds
    from rota.core.slot import GiveUp, Restart, RestartPolicy
    from rota.core.times import Duration, Instant
    from rota.store.claims.exchange import Exchange, Report
    from rota.store.engine.rows import Row
    from rota.store.engine.transaction import Transaction
    from rota.store.store import Store
    from rota.store.workers.death import Death

NOBODY = "-"  # whose process it was is not known
_NOT_ITS_OWN = ("id", "verb", "slot", "queue_type", "by")  # words that would say of another what it is said of


MOST_IDS = 2000  # that wait to be used by one orchestrator over HTTP; the oldest are forgotten


class Orchestrators:
    """The port for orchestrators."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retry_conflicts
    def join(self, crew: str = "main", home: Home | None = None) -> int:
        """Register an orchestrator, in this process or at the home that it names; return its number.

        A host that is named over HTTP is the token's own: no two tokens, and none and this machine, ever share one.
        """
        home, access = home or here(), self._store.access
        if access is not None:
            home = home.replace(host=f"{access.id}/{home.host}", access=access.id)
        with self._store.begin() as tx:
            most = ownership.MOST_ORCHESTRATORS
            ownership.refuse_more(self._store, "orchestrator.count_of_token", 1, most, "orchestrators at a time")
            id = tx.draw("orchestrator")
            place = {name: getattr(home, name) for name in Home._fields}
            _write_pulse(tx)
            tx.execute("orchestrator.join", id=id, crew=crew, now=tx.now, lease_expires_at=tx.now + LEASE, **place)
            tx.changed("orchestrator", "start", str(id), crew=crew)
        return id

    def home(self, id: int) -> tuple[Home, str]:
        """Return where an orchestrator runs, and its crew."""
        row = self._store.database.execute("orchestrator.home", {"id": id})
        if not row:
            raise Stale(f"there is no orchestrator {id} any more")
        *home, crew = row[0]
        return Home(*home), crew

    def before(self, id: int) -> list[Process]:
        """The workers that orchestrators of the same crew and host left behind: of dead ones, and their orphans."""
        ownership.orchestrator(self._store, id)
        home, crew = self.home(id)
        found = self.orphans(crew, home.host)
        for other in self.live():
            if other.id != id and (other.crew, other.host) == (crew, home.host):
                rows = self._store.database.execute("worker.processes", {"orchestrator": other.id})
                found += [Process(worker, pid or 0, pid_start, slot) for worker, pid, pid_start, slot in rows]
        return found

    @retry_conflicts
    def take_over(self, id: int, crew: str, is_alive: Callable[[Process], bool]) -> list[Process]:
        """Release what belonged to dead orchestrators of this crew and host; the orphans that live are to be watched.

        Only who holds the crew's place alone may call it: any other orchestrator of the crew is then gone.
        """
        from rota.store.workers import orphans

        host = self.home(id)[0].host
        with self._store.begin(exclusive=True) as tx:
            ownership.orchestrator(self._store, id)
            for other in self.live():
                if other.id == id or (other.crew, other.host) != (crew, host):
                    continue
                for worker, pid, pid_start, slot in tx.execute("worker.processes", orchestrator=other.id):
                    process = Process(worker, pid or 0, pid_start, slot)
                    if pid and is_alive(process):
                        orphans.move_to_lease(tx, worker)
                    else:
                        verdict = workers.Dead(LOST, f"orchestrator {other.pid} was gone, and so was it")
                        tick.mark_dead(self._store, tx, worker, verdict)
                tx.execute("orchestrator.end", id=other.id)
                tx.changed("orchestrator", "taken over", str(other.id), by=id)
            return [process for process in self.orphans(crew, host) if is_alive(process)]

    def orphans(self, crew: str, host: str | None = None) -> list[Process]:
        """The workers of this crew that go on alone, on this host or another."""
        rows = self._store.database.execute("worker.orphans", {"host": host or host_id(), "crew": crew})
        return [Process(*row) for row in rows]

    @retry_conflicts
    def renew(
        self,
        id: int,
        acknowledged_directive: int = 0,
        status: str = orchestrators.RUNNING,
        heard: Sequence[tuple[str, Duration]] = (),
    ) -> Instant:
        """Renew the lease on which all its claims hang; until when. `heard`: how long ago each worker last spoke."""
        with self._store.write() as tx:
            ownership.orchestrator(self._store, id)
            before = _progress(tx.execute("orchestrator.get", id=id))
            if before is not None and before.status not in (status, orchestrators.STOPPED):
                verb = orchestrators.REPORTED.get(status, orchestrators.START)
                tx.check_move(orchestrators.MOVES, before.status, verb, status)
            renewed = {
                "lease_expires_at": tx.now + LEASE,
                "acknowledged_directive": acknowledged_directive,
                "status": status,
            }
            row = tx.one("orchestrator.renew", id=id, **renewed)
            if row is None:
                raise Stale(f"orchestrator {id} was given up: its workers count as lost")
            _write_pulse(tx)
            if heard:
                tx.many("worker.heard", [(tx.now - ago, worker, id) for worker, ago in heard])
            until: Instant = row[0]
            return until

    @retry_conflicts
    def worker_ids(self, id: int, count: int) -> list[str]:
        """Ids for worker lives that this orchestrator is about to start.

        They are made here, and over HTTP `register_worker` takes no other, so that nobody chooses another's id.
        """
        ids = [self._store.new_worker_id() for _ in range(count)]
        with self._store.write() as tx:
            ownership.orchestrator(self._store, id)
            locks.orchestrator(tx, id)
            _keep_ids(tx, id, [*_kept_ids(tx, id), *ids][-MOST_IDS:])
        return ids

    @retry_conflicts
    def register_worker(self, id: int, slot: str, queue: str, process: Process | None = None) -> str:
        """A worker life that this orchestrator watches; its id."""
        worker = process.worker_id if process else self._store.new_worker_id()
        with self._store.write() as tx:
            ownership.orchestrator(self._store, id)
            ownership.worker(self._store, worker)
            ownership.slots(self._store, [slot])
            locks.orchestrator(tx, id)
            progress = _progress(tx.execute("orchestrator.get", id=id))
            if progress is None or progress.status == orchestrators.STOPPED:
                raise NotFound(f"there is no running orchestrator {id}")
            if process and tx.one("worker.get", id=worker):  # it stands already: only the answer was lost
                return worker
            pid, pid_start = (process.pid, process.pid_start) if process else (None, None)
            home, _ = self.home(id)
            place = find(tx, slot)
            if place is not None and place.status == slots.FAILED:
                raise Conflict(f"slot {slot} was given up: `rota reset {slot}` starts it again")
            if home.access is not None:
                if place is None:
                    raise NotFound(f"there is no slot {slot}: take slots before you start workers in them")
                ownership.refuse_more(self._store, "worker.count_of_token", 1, ownership.MOST_WORKERS, "living workers")
                _take_id(tx, id, worker)
            process_of = {"hostname": home.hostname, "host": home.host, "pid": pid, "pid_start": pid_start}
            watched = {"orchestrator": id, "slot": slot, "queue": queue, "check_at": None, "heartbeat_interval": None}
            status = workers.STARTING if process else workers.IDLE
            untold = {"version": None, "metadata": None}
            tx.execute(
                "worker.insert", id=worker, name=slot, status=status, now=tx.now, **process_of, **watched, **untold
            )
            tx.changed("worker", workers.REGISTER, worker, slot=slot)
            if home.access is not None:
                tx.execute("token.bind", worker=worker, token=home.access)
            if place is not None:
                # A slot whose orchestrator was killed keeps the state of its last worker until it is filled again.
                verb = slots.TAKE_OVER if place.status in slots.OCCUPIED else slots.FILL
                move(tx, place, verb, slots.STARTING, worker=worker)
        return worker

    def came_up(self, worker: str, slot: str, concurrency: int = 1, kinds: Kinds = NO_KINDS) -> None:
        """Record that a supervised worker is ready, how many jobs it runs at a time, and which kinds it knows."""
        self._come_up(worker, slot, concurrency, kinds)
        unknown_kinds.free(self._store)

    @retry_conflicts
    def _come_up(self, worker: str, slot: str, concurrency: int, kinds: Kinds) -> None:
        with self._store.write() as tx:
            ownership.worker(self._store, worker)
            ownership.slots(self._store, [slot])
            tx.execute("worker.ready", id=worker, concurrency=concurrency, kinds=kinds_json(kinds) if kinds else None)
            come_up(tx, slot, worker)

    @retry_conflicts
    def mirror(self, told: Iterable[tuple[str | None, str]], health: Iterable[tuple[str | None, str]]) -> None:
        """Show readers what workers report, each `(JSON, worker)`, and how slots are, each `(state, slot)`.

        A caller over HTTP tells of its own slots and workers, as far as they are there.

        The state is the health of the slot's worker, or `stopping` once that was asked to leave.
        """
        with self._store.write() as tx:
            for metadata, worker in told:
                if not self._may_tell_of(tx, "worker", worker):
                    continue
                tx.execute("worker.told", id=worker, metadata=metadata)
                tx.changed("worker", "report", worker)
            for state, slot in health:
                if not self._may_tell_of(tx, "slot", slot):
                    continue
                if state == slots.STOPPING:
                    stop(tx, slot)
                else:
                    tx.execute("slot.feel", name=slot, health=state)
                    tx.changed("slot", "health", slot, health=state)

    @retry_conflicts
    def note(self, facts: Iterable[NounChanged]) -> None:
        """Append to the event log what changes no row.

        A caller over HTTP tells of its own slots and workers, as far as they are there, and in its name.
        """
        with self._store.write() as tx:
            for fact in facts:
                if self._store.access is None:
                    tx.changed(fact.noun, fact.verb, fact.subject, **fact.details)
                elif self._may_tell_of(tx, fact.noun, fact.subject):
                    named = {name: value for name, value in fact.details.items() if name not in _NOT_ITS_OWN}
                    tx.changed(fact.noun, fact.verb, fact.subject, **{**named, "by": tx.actor})

    def _may_tell_of(self, tx: Transaction, noun: str, which: str) -> bool:
        """Whether a slot or worker is there, which only a caller over HTTP may be wrong about; refuse another's."""
        if self._store.access is None:
            return True
        if noun == "slot":
            ownership.slots(self._store, [which])
            return tx.one("slot.get", name=which) is not None
        ownership.worker(self._store, which)
        return which == NOBODY or tx.one("token.of_worker", worker=which) is not None

    @retry_conflicts
    def mark_dead(self, worker: str, verdict: workers.Dead) -> None:
        """Mark a worker dead: write its certificate and take its claims back, in one transaction."""
        with self._store.write() as tx:
            ownership.worker(self._store, worker)
            tick.mark_dead(self._store, tx, worker, verdict)

    @retry_conflicts
    def end_orphan(self, worker: str) -> None:
        """Its time to finish is over: once its process is gone, whoever notices gives back unspent what it held."""
        with self._store.write() as tx:
            ownership.worker(self._store, worker)
            tx.execute("worker.ask", id=worker, desired=workers.END)

    @retry_conflicts
    def record_death(self, death: Death, last: Report, policy: RestartPolicy) -> Restart | GiveUp:
        """Record the death of a supervised worker: see `rota.store.workers.death`.

        Args:
            death: What its orchestrator saw of its end.
            last: What it reported and no exchange has carried.
            policy: How often its slot may be restarted.

        Returns:
            Whether its slot starts another worker and after how long, or why it was given up.
        """
        from rota.store.workers.death import record

        with self._store.write() as tx:
            ownership.worker(self._store, death.worker_id)
            ownership.slots(self._store, [death.slot])
            outcomes, checkpoints = ownership.reported(self._store, last.outcomes, last.checkpoints)
            locks.worker(tx, death.worker_id)
            tx.many("claim.checkpoint", checkpoints)
            for worker, count in exchanges.settle(self._store, tx, outcomes)[1].items():
                tx.execute("worker.settled", id=worker, succeeded=count, failed=0, error=None, now=tx.now)
            return record(self._store, tx, death, policy)

    def ends(self, tokens: Sequence[int]) -> dict[int, tuple[str, str | None]]:
        """How these claims ended, as far as they did: the move, and the error if there was one.

        A caller over HTTP is told of its own workers' claims.
        """
        found = {}
        caller = ownership.restricted(self._store)
        for token in tokens:
            row = self._store.database.execute("claim.run", {"token": token})
            run = to_run(row[0]) if row else None
            if run is not None:
                worker = self._store.database.execute("token.of_worker", {"worker": run.worker_id})
                if caller is None or (worker and worker[0][0] == caller.id):
                    found[token] = (run.verb, run.error)
            elif self._store.database.execute("source.settled_by", {"token": token}):
                found[token] = (jobs.FINISH, None)
        return found

    @retry_conflicts
    def exchange(self, id: int, number: int, report: Report) -> Exchange:
        """Settle what workers report and claim for those with room: see `rota.store.claims.exchange`."""
        return exchanges.exchange(self._store, id, number, report)

    def number(self, id: int) -> int:
        """Return the running number of its last exchange."""
        ownership.orchestrator(self._store, id)
        progress = _progress(self._store.database.execute("orchestrator.get", {"id": id}))
        return 0 if progress is None else progress.exchange

    def poll(self, id: int, known_directive: int, reconciles: bool = False, polls: bool = False) -> PollResult:
        """Look after what is due, or make the store true, and see what there is to do; nothing due writes nothing."""
        ownership.orchestrator(self._store, id)
        if reconciles:
            self._store.reconcile()
            self.reconciled(id)
        if polls:
            unknown_kinds.free(self._store)
        due, found = self._see(id, known_directive, polls)
        if due:
            self._store.tick()
            found = self._see(id, known_directive, polls)[1]
        return found

    def _see(self, id: int, known_directive: int, polls: bool) -> tuple[bool, PollResult]:
        """Whether anything is due, and what there is to do: questions that go to a server in one message."""
        database = self._store.database
        with database.read():
            clock = database.clock()
            for name, words in (
                ("tick.due", clock),
                ("orchestrator.home", {"id": id}),
                ("number.get", {"name": "directive"}),
                ("tick.next", clock),
            ):
                database.prefetch(name, words)
            due = tick.anything_due(self._store)
            home, crew = self.home(id)
            found = PollResult(self.directive(id, crew, known_directive, home.host), tick.next_due(self._store))
            if polls:
                found = found.replace(processes=self.processes(home.host), orphans=self.orphans(crew, home.host))
        return due, found

    def directive(self, id: int, crew: str, known: int = -1, host: str | None = None) -> Directive | None:
        """The last directive, with the crew's slots, the tokens that still hold, who should stop and what is paused.

        None when its number is the known one.
        """
        database, number = self._store.database, self.last_directive()
        if number == known:
            return None
        held = frozenset(to_job(row).token or 0 for row in database.execute("orchestrator.held", {"id": id}))
        to_stop = frozenset(row[0] for row in database.execute("worker.to_stop", {"orchestrator": id}))
        paused = frozenset(
            queue.name for queue in map(to_queue, database.execute("queue.all", {})) if queue.paused_at is not None
        )
        progress = _progress(database.execute("orchestrator.get", {"id": id}))
        desired = None if progress is None else progress.desired
        return Directive(number, self._store.slots.of_crew(crew, host or host_id()), held, to_stop, paused, desired)

    def processes(self, host: str | None = None) -> list[Process]:
        """The living workers that registered with a process on this host, or another."""
        found = self._store.database.execute("worker.registered_processes", {"host": host or host_id()})
        return [Process(worker, pid, pid_start) for worker, pid, pid_start in found]

    def live(self) -> list[Live]:
        """Return the orchestrators that are not gone."""
        return [Live(*row) for row in self._store.database.execute("orchestrator.all_live", {})]

    def own_host(self) -> str:
        """What this host is to the store, for who begins an orchestrator here."""
        return host_id()

    def hosts(self) -> dict[str, str]:
        """The names of all hosts that had an orchestrator, by what tells them apart."""
        return dict(self._store.database.execute("orchestrator.hosts", {}))

    def host_named(self, name: str) -> str:
        """The host of this name that has an orchestrator, or had one; two of one name are told apart by their ids."""
        hosts, live = self.hosts(), {each.host for each in self.live()}
        if name in hosts:
            return name
        named = [host for host, called in hosts.items() if called == name]
        found = [host for host in named if host in live] or named
        if len(found) == 1:
            return found[0]
        if found:
            raise BadInput(f"several hosts are called {name}: say which by its id, {' or '.join(sorted(found))}")
        known = ", ".join(sorted({hosts[host] for host in live})) or "none"
        raise NotFound(f"no orchestrator has run on a host {name}; there are orchestrators on: {known}")

    @retry_conflicts
    def drain(self, crew: str, host: str) -> list[Live]:
        """Ask the orchestrator of this crew and host to finish what it holds, however long it takes, and end."""
        asked = [live for live in self.live() if (live.crew, live.host) == (crew, host)]
        with self._store.write() as tx:
            for orchestrator in asked:
                tx.execute("orchestrator.ask", id=orchestrator.id, desired=orchestrators.DRAIN)
                tx.changed("orchestrator", orchestrators.DRAIN, str(orchestrator.id), by=tx.actor)
                tx.draw("directive")
                tx.something_to_claim = True
        return asked

    def last_directive(self) -> int:
        """Return the number of the last directive."""
        ((number,),) = self._store.database.execute("number.get", {"name": "directive"})
        return int(number)

    @retry_conflicts
    def reconciled(self, id: int) -> None:
        """Record that an orchestrator has just reconciled the store."""
        with self._store.write() as tx:
            tx.execute("orchestrator.reconciled", id=id, now=tx.now)

    @retry_conflicts
    def leave(self, id: int) -> None:
        """End an orchestrator: claims that it still holds go back unspent, its workers are stopped."""
        with self._store.write() as tx:
            ownership.orchestrator(self._store, id)
            locks.orchestrator(tx, id)
            exchanges.give_back(self._store, tx, id, ())
            for (worker,) in sorted(tx.execute("worker.of_orchestrator", orchestrator=id)):
                tick.deregister(self._store, tx, worker, "stop")
            tx.execute("slot.empty", orchestrator=id, now=tx.now)
            if tx.execute("orchestrator.end", id=id):
                tx.changed("orchestrator", "end", str(id))


def _progress(rows: Sequence[Row]) -> Progress | None:
    return Progress(*rows[0]) if rows else None


def _take_id(tx: Transaction, id: int, worker: str) -> None:
    """Use up an id that was made for this orchestrator."""
    kept = _kept_ids(tx, id)
    if worker not in kept:
        raise Denied(f"{worker} is no id that was made for orchestrator {id}: ask for one before you start a worker")
    _keep_ids(tx, id, [unused for unused in kept if unused != worker])


def _kept_ids(tx: Transaction, id: int) -> list[str]:
    row = tx.one("orchestrator.worker_ids", id=id)
    return str(row[0]).split() if row and row[0] else []


def _keep_ids(tx: Transaction, id: int, ids: list[str]) -> None:
    tx.execute("orchestrator.keep_worker_ids", id=id, ids=" ".join(ids))


def _write_pulse(tx: Transaction) -> None:
    """Record that an orchestrator reaches the store; after an outage everyone is given grace first."""
    tick.grace(tx, END_AFTER)  # for less, whoever was kept waiting beside a cut link has the time to renew too
    tx.execute("orchestrator.beat_pulse", now=tx.now)
