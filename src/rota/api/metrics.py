"""Metrics for Prometheus: those of the store, which are equal in every process, and those of this process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rota.core import job as jobs
from rota.core import slot as slots
from rota.core import worker as workers
from rota.core.times import SECOND
from rota.core.version import __version__
from rota.store.engine.transaction import BOUNDS, PICKUP, RUN
from rota.store.metrics import DEATH, STALE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.core import Metric

    from rota.api.stream.hub import Hub
    from rota.store.metrics import MetricCount
    from rota.store.store import Store

    Values = Iterable[tuple[tuple[str, ...], float]]

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
# Every metric: its kind, its labels and its meaning. The name of a counter is exposed with the suffix `_total`.
METRICS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "rota_build_info": (GAUGE, ("version",), "Which rota this is."),
    "rota_jobs": (GAUGE, ("queue", "status"), "Jobs by queue and state."),
    "rota_oldest_ready_age_seconds": (GAUGE, ("queue",), "How long the oldest of the best ready jobs has waited."),
    "rota_queue_paused": (GAUGE, ("queue",), "Whether nothing may be claimed from a queue."),
    "rota_slots": (GAUGE, ("queue", "status"), "Wanted slots by queue and state."),
    "rota_slot_restarts": (COUNTER, ("queue",), "Restarts charged to slots, until they are reset."),
    "rota_workers": (GAUGE, ("status",), "Living workers by state."),
    "rota_orchestrators": (GAUGE, (), "Orchestrators that are not gone."),
    "rota_claims": (COUNTER, (), "Claims made."),
    "rota_runs": (COUNTER, ("queue", "verb"), "Claims that ended, by how: expire is a lapse, die a death."),
    "rota_stale_commits_refused": (
        COUNTER,
        (),
        "Outcomes, renewals and checkpoints of claims that were lost.",
    ),
    "rota_run_seconds": (HISTOGRAM, ("queue",), "How long runs took that finished or failed."),
    "rota_pickup_seconds": (HISTOGRAM, ("queue",), "How long jobs without a due time waited for their first claim."),
    "rota_worker_deaths": (COUNTER, ("reason",), "Workers that died, by reason."),
    "rota_source_jobs": (GAUGE, ("source", "status"), "Jobs of a source by state; what is done leaves none."),
    "rota_source_added": (COUNTER, ("source",), "Jobs that a source added."),
    "rota_source_successes": (COUNTER, ("source",), "Jobs of a source that ended well."),
    "rota_source_errors": (COUNTER, ("source",), "Attempts of a source's jobs that failed."),
    "rota_source_repeated": (COUNTER, ("source",), "Keys held back because they came again and again."),
    "rota_schedule_added": (COUNTER, ("schedule",), "Jobs that a schedule added, until it is removed."),
    "rota_schedule_next_timestamp_seconds": (GAUGE, ("schedule",), "When a schedule that is not paused is due next."),
    "rota_schedule_paused": (GAUGE, ("schedule",), "Whether a schedule adds nothing until it is resumed."),
    "rota_schedule_refused": (GAUGE, ("schedule",), "Whether the last time of a schedule found its queue full."),
    "rota_write_lock_wait_seconds": (GAUGE, (), "How long one wait for the write lock took just now."),
    "rota_http_requests": (COUNTER, ("method", "path", "status"), "Requests answered by this process."),
    "rota_http_request_seconds": (COUNTER, ("method", "path"), "Time this process spent on them."),
    "rota_http_event_readers": (GAUGE, (), "Readers of the live feed of this process."),
    "rota_event_lag_seconds": (GAUGE, (), "Age of the newest event when this process read it."),
}


class ProcessMetrics:
    """Counters of this process, cheap enough to update with every request."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, str], int] = {}
        self.seconds: dict[tuple[str, str], float] = {}
        self.lag = 0.0

    def count_request(self, method: str, path: str, status: int, seconds: float) -> None:
        key = (method, path, str(status))
        self.requests[key] = self.requests.get(key, 0) + 1
        self.seconds[method, path] = self.seconds.get((method, path), 0.0) + seconds

    def set_lag(self, lag: int | None) -> None:
        """Set the age that the newest event had when the feed read it; None changes nothing."""
        if lag is not None:
            self.lag = lag / SECOND


class _Collector:
    """All metrics, read at each scrape."""

    def __init__(self, store: Store, process: ProcessMetrics, hub: Hub) -> None:
        self._store = store
        self._process = process
        self._hub = hub

    def collect(self) -> Iterator[Metric]:
        store, process = self._store, self._process
        yield _family("rota_build_info", [((__version__,), 1)])
        yield from _of_queues(store)
        yield from _of_crew(store)
        yield from _counted(store)
        yield from _of_sources(store)
        yield from _of_schedules(store)
        yield _family("rota_write_lock_wait_seconds", [((), _probe(store))])
        yield _family("rota_http_requests", process.requests.items())
        yield _family("rota_http_request_seconds", process.seconds.items())
        yield _family("rota_http_event_readers", [((), self._hub.readers())])
        yield _family("rota_event_lag_seconds", [((), process.lag)])


def _of_queues(store: Store) -> Iterator[Metric]:
    now, queues = store.now(), store.queues.list()
    counts = [((each.queue.name, state), each.counts[state]) for each in queues for state in jobs.STATES]
    yield _family("rota_jobs", counts)
    waits = [((each.queue.name,), (now - (each.oldest_ready_at or now)) / SECOND) for each in queues]
    yield _family("rota_oldest_ready_age_seconds", waits)
    yield _family("rota_queue_paused", [((each.queue.name,), int(each.paused_by is not None)) for each in queues])


def _of_crew(store: Store) -> Iterator[Metric]:
    crew_slots = store.slots.all()
    states = {(slot.queue, state): 0 for slot in crew_slots for state in slots.STATES}
    restarts = {(slot.queue,): 0 for slot in crew_slots}
    for slot in crew_slots:
        states[slot.queue, slot.status] += int(slot.wanted)
        restarts[slot.queue,] += slot.history.lifetime
    yield _family("rota_slots", states.items())
    yield _family("rota_slot_restarts", restarts.items())
    living = {(state,): 0 for state in workers.SHOWN if state not in (workers.STOPPED, workers.DEAD)}
    for worker in (each for each in store.workers.list() if each.queue != slots.HTTP):
        living[store.workers.shown(worker),] += 1
    yield _family("rota_workers", living.items())
    yield _family("rota_orchestrators", [((), len(store.orchestrators.live()))])


def _counted(store: Store) -> Iterator[Metric]:
    counts = store.metrics.counted()
    yield _family("rota_claims", [((), store.metrics.claims())])
    runs: dict[tuple[str, str], int] = {}
    for meter in (each for each in counts if each.name == RUN):
        runs[meter.queue, meter.label] = runs.get((meter.queue, meter.label), 0) + meter.n
    yield _family("rota_runs", runs.items())
    yield _family("rota_stale_commits_refused", [((), sum(each.n for each in counts if each.name == STALE))])
    ran = [each for each in counts if each.name == RUN and each.label in (jobs.FINISH, jobs.FAIL)]
    yield _histogram("rota_run_seconds", ran)
    yield _histogram("rota_pickup_seconds", [each for each in counts if each.name == PICKUP])
    yield _family("rota_worker_deaths", [((each.label,), each.n) for each in counts if each.name == DEATH])


def _of_sources(store: Store) -> Iterator[Metric]:
    sources = store.sources.list()
    states = [((each.source.name, state), n) for each in sources for state, n in each.counts.items()]
    yield _family("rota_source_jobs", states)
    for name, field in (
        ("rota_source_added", "added_count"),
        ("rota_source_successes", "success_count"),
        ("rota_source_errors", "error_count"),
        ("rota_source_repeated", "repeated_count"),
    ):
        yield _family(name, [((each.source.name,), getattr(each.source, field)) for each in sources])


def _of_schedules(store: Store) -> Iterator[Metric]:
    schedules = store.schedules.list()
    yield _family("rota_schedule_added", [((each.name,), each.fired_count) for each in schedules])
    due = [((each.name,), each.next_at / SECOND) for each in schedules if each.next_at and each.paused_at is None]
    yield _family("rota_schedule_next_timestamp_seconds", due)
    yield _family("rota_schedule_paused", [((each.name,), int(each.paused_at is not None)) for each in schedules])
    yield _family("rota_schedule_refused", [((each.name,), int(each.error is not None)) for each in schedules])


def _histogram(name: str, counts: list[MetricCount]) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    _, labels, about = METRICS[name]
    family = HistogramMetricFamily(name, about, labels=labels)
    for queue in sorted({meter.queue for meter in counts}):
        mine = [meter for meter in counts if meter.queue == queue]
        so_far, buckets = 0, []
        for place, bound in enumerate([*BOUNDS, None]):
            so_far += sum(meter.n for meter in mine if meter.bucket == place)
            buckets.append(("+Inf" if bound is None else repr(bound / SECOND), so_far))
        family.add_metric([queue], buckets, sum(meter.total for meter in mine) / SECOND)
    return family


def _family(name: str, values: Values) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind, labels, about = METRICS[name]
    family = (CounterMetricFamily if kind == COUNTER else GaugeMetricFamily)(name, about, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def _probe(store: Store) -> float:
    """Measure how long it takes to get the write lock. Nothing is written."""
    began = time.perf_counter()
    with store.database.write():
        return time.perf_counter() - began


def text(store: Store, process: ProcessMetrics, hub: Hub) -> bytes:
    """Return all metrics in the text format of Prometheus."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(store, process, hub))
    return generate_latest(registry)
