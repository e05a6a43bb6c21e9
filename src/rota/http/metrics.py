"""Metrics for Prometheus: the store's, the same whichever process tells them, and those of this process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core import slot as slots
from rota.core import worker as workers
from rota.core.meter import BOUNDS
from rota.core.times import SECOND
from rota.core.version import __version__
from rota.store.meters import DEATH, PICKUP, RUN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import HistogramMetricFamily, Metric

    from rota.http.feed import Hub
    from rota.store.meters import Meter
    from rota.store.store import Store


class Own:
    """What this process counts of itself; cheap, so that every request can."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}
        self.seconds: dict[tuple[str, str], float] = {}
        self.lag = 0.0

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        key = (method, path, status)
        self.requests[key] = self.requests.get(key, 0) + 1
        self.seconds[method, path] = self.seconds.get((method, path), 0.0) + seconds

    def saw(self, lag: int | None) -> None:
        """How old the newest event was when the feed read it."""
        if lag is not None:
            self.lag = lag / SECOND


class _Collector:
    """All metrics, made when they are asked for."""

    def __init__(self, store: Store, own: Own, hub: Hub) -> None:
        self._store = store
        self._own = own
        self._hub = hub

    def collect(self) -> Iterator[Metric]:
        yield _gauge("rota_build_info", "Which rota this is.", ["version"], [((__version__,), 1)])
        yield from _of_queues(self._store)
        yield from _of_crew(self._store)
        yield from _counted(self._store)
        yield _gauge(
            "rota_write_lock_wait_seconds",
            "How long one wait for the write lock took just now.",
            [],
            [((), _probe(self._store))],
        )
        yield from self._of_this_process()

    def _of_this_process(self) -> Iterator[Metric]:
        own = self._own
        requests = [((method, path, str(status)), n) for (method, path, status), n in own.requests.items()]
        labels = ["method", "path", "status"]
        yield _counter("rota_http_requests", "Requests answered by this process.", labels, requests)
        taken = [(key, seconds) for key, seconds in own.seconds.items()]
        yield _counter("rota_http_request_seconds", "Time spent on them.", ["method", "path"], taken)
        readers = self._hub.readers()
        yield _gauge("rota_http_event_readers", "Readers of the live feed here.", [], [((), readers)])
        yield _gauge("rota_event_lag_seconds", "Age of the newest event when it was read here.", [], [((), own.lag)])


def _of_queues(store: Store) -> Iterator[Metric]:
    now, found = store.now(), store.queues.list()
    counts = [((each.queue.name, state), each.counts[state]) for each in found for state in jobs.STATES]
    yield _gauge("rota_jobs", "Jobs by queue and state.", ["queue", "status"], counts)
    ages = [
        ((each.queue.name,), (now - each.oldest_ready_at) / SECOND if each.oldest_ready_at else 0) for each in found
    ]
    yield _gauge("rota_oldest_ready_age_seconds", "How long the oldest ready job has waited.", ["queue"], ages)
    paused = [((each.queue.name,), int(each.paused_by is not None)) for each in found]
    yield _gauge("rota_queue_paused", "Whether nothing may be claimed from a queue.", ["queue"], paused)


def _of_crew(store: Store) -> Iterator[Metric]:
    every = store.slots.all()
    states = {(slot.queue, state): 0 for slot in every for state in slots.STATES}
    restarts = {slot.queue: 0 for slot in every}
    for slot in every:
        states[slot.queue, slot.status] += int(slot.wanted)
        restarts[slot.queue] += slot.history.lifetime
    yield _gauge("rota_slots", "Wanted slots by queue and state.", ["queue", "status"], states.items())
    counted = [((queue,), n) for queue, n in restarts.items()]
    yield _counter("rota_slot_restarts", "Restarts charged to slots, until they are reset.", ["queue"], counted)
    living = dict.fromkeys(workers.SHOWN, 0)
    for worker in store.workers.list():
        living[store.workers.shown(worker)] += 1
    shown = [((state,), n) for state, n in living.items() if state not in (workers.STOPPED, workers.DEAD)]
    yield _gauge("rota_workers", "Living workers by state.", ["status"], shown)
    running = len(store.orchestrators.live())
    yield _gauge("rota_orchestrators", "Orchestrators that are not gone.", [], [((), running)])


def _counted(store: Store) -> Iterator[Metric]:
    ((claims,),) = store.database.execute("number.get", {"name": "token"})
    yield _counter("rota_claims", "Claims made.", [], [((), claims)])
    meters = store.meters.counted()
    runs: dict[tuple[str, str], int] = {}
    for meter in (each for each in meters if each.name == RUN):
        runs[meter.queue, meter.label] = runs.get((meter.queue, meter.label), 0) + meter.n
    yield _counter(
        "rota_runs", "Claims that ended, by how: expire is a lapse, die a death.", ["queue", "verb"], runs.items()
    )
    deaths = [((each.label,), each.n) for each in meters if each.name == DEATH]
    yield _counter("rota_worker_deaths", "Workers that died, by reason.", ["reason"], deaths)
    ran = [each for each in meters if each.name == RUN and each.label in (jobs.FINISH, jobs.FAIL)]
    yield _histogram("rota_run_seconds", "How long runs took that finished or failed.", ran)
    picked_up = [each for each in meters if each.name == PICKUP]
    yield _histogram(
        "rota_pickup_seconds", "How long jobs without a time of their own waited for their first claim.", picked_up
    )


def _histogram(name: str, about: str, meters: list[Meter]) -> HistogramMetricFamily:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(name, about, labels=["queue"])
    for queue in sorted({meter.queue for meter in meters}):
        mine = [meter for meter in meters if meter.queue == queue]
        so_far, buckets = 0, []
        for place, bound in enumerate([*BOUNDS, None]):
            so_far += sum(meter.n for meter in mine if meter.bucket == place)
            buckets.append(("+Inf" if bound is None else repr(bound / SECOND), so_far))
        family.add_metric([queue], buckets, sum(meter.total for meter in mine) / SECOND)
    return family


def _gauge(name: str, about: str, labels: list[str], values: Values) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(name, about, labels=labels)
    for key, value in values:
        family.add_metric(list(key), value)
    return family


def _counter(name: str, about: str, labels: list[str], values: Values) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, about, labels=labels)
    for key, value in values:
        family.add_metric(list(key), value)
    return family


def _probe(store: Store) -> float:
    """Take the write lock and let it go; nothing is written."""
    began = time.perf_counter()
    with store.database.write():
        return time.perf_counter() - began


def text(store: Store, own: Own, hub: Hub) -> bytes:
    """Everything, as Prometheus reads it."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry: CollectorRegistry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(store, own, hub))
    return generate_latest(registry)


if TYPE_CHECKING:
    from collections.abc import Iterable

    Values = Iterable[tuple[tuple[str, ...], float]]
