"""OpenTelemetry: a span for each run, in the trace of the program that added the job. Loaded only if it is on."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, assert_never

from rota.core.claim import Done, Failed, Released, Returned, Snoozed
from rota.core.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rota.core.claim import Outcome
    from rota.core.frames.assignment import RunJob
    from rota.core.job import NewJob
    from rota.settings import Settings

OTEL = "otel"
TRACEPARENT = "traceparent"
FLUSH_WITHIN_MS = 3000


class Run:
    """A run; its block sets the `outcome` before it ends."""

    outcome: Outcome | None = None


class Tracing:
    """Makes spans if the settings ask for them; otherwise it does nothing."""

    def __init__(self, settings: Settings) -> None:
        self._otel = _Otel() if settings.tracing == OTEL else None

    @property
    def is_on(self) -> bool:
        return self._otel is not None

    def carried(self, new: NewJob) -> NewJob:
        """Return a job as part of the caller's current trace; one that names a trace keeps it."""
        if self._otel is None or new.trace is not None:
            return new
        return new.replace(trace=self._otel.current())

    @contextmanager
    def run(self, job: RunJob, queue: str, worker: str) -> Iterator[Run]:
        """Trace the block, in which a handler runs, as a span."""
        run = Run()
        if self._otel is None:
            yield run
            return
        with self._otel.span(job, queue, worker) as span:
            yield run
            self._otel.set_outcome(span, run.outcome)

    def flush(self) -> None:
        """Send the spans that wait, before this process ends."""
        if self._otel is not None:
            self._otel.flush()


class _Otel:
    def __init__(self) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            raise BadSetting("tracing = otel needs OpenTelemetry: pip install 'rota[otel]'") from None
        self._trace = trace
        self._propagator = TraceContextTextMapPropagator()

    def current(self) -> str | None:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get(TRACEPARENT)

    def span(self, job: RunJob, queue: str, worker: str) -> Any:
        attributes: dict[str, str | int] = {
            "rota.job": job.id,
            "rota.queue": job.queue or queue,
            "rota.kind": job.kind,
            "rota.attempt": job.attempt,
            "rota.worker": worker,
        }
        parent = self._propagator.extract({TRACEPARENT: job.trace}) if job.trace else None
        tracer, kind = self._trace.get_tracer("rota"), self._trace.SpanKind.CONSUMER
        return tracer.start_as_current_span(job.kind or "job", parent, kind, attributes)

    def set_outcome(self, span: Any, outcome: Outcome | None) -> None:
        match outcome:
            case Done():
                word = "done"
            case Failed(error):
                word = "failed"
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, error))
            case Snoozed():
                word = "snoozed"
            case Released() | Returned() | None:
                word = "released"
            case other:
                assert_never(other)
        span.set_attribute("rota.outcome", word)

    def flush(self) -> None:
        # The API alone, without an SDK, has nothing to flush.
        flush = getattr(self._trace.get_tracer_provider(), "force_flush", None)
        if flush is not None:
            flush(FLUSH_WITHIN_MS)
