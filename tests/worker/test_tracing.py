"""OpenTelemetry: one span for each run, in the trace of whoever added the job; and nothing of it unless asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rota.core.errors import BadInput
from rota.core.job import NewJob
from tests.support.crews import Crew
from tests.support.eventually import eventually
from tests.support.shell import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.crew

SPANS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
import json


class ToFile(SpanExporter):
    def export(self, spans):
        with open(here / "spans", "a") as file:
            for span in spans:
                told = {"name": span.name, "trace": f"{span.context.trace_id:032x}"}
                told["span"] = f"{span.context.span_id:016x}"
                told["parent"] = None if span.parent is None else f"{span.parent.span_id:016x}"
                told["status"] = span.status.status_code.name
                file.write(json.dumps({**told, "attributes": dict(span.attributes)}) + "\\n")
        return SpanExportResult.SUCCESS


trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(BatchSpanProcessor(ToFile()))


@app.task(queue="tag")
def outer(n: int) -> None:
    with trace.get_tracer("shop").start_as_current_span("inside"):
        app.enqueue(inner.job(n=n))


@app.task(queue="slow")
async def inner(n: int) -> None:
    if n == 2:
        raise ValueError(n)
"""
LOADED = """
@app.task(queue="tag")
def loaded() -> list[str]:
    import sys
    return sorted(name for name in sys.modules if name.startswith("opentelemetry"))
"""
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path, ROTA_TRACING="otel")
    yield crew
    crew.end()


def spans(crew: Crew) -> list[dict[str, Any]]:
    path = crew.folder / "spans"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_every_run_is_a_span_in_the_trace_of_whoever_added_its_job(crew: Crew) -> None:
    crew.teach(SPANS)
    crew.start("tag=1", "--pool", "slow=1")
    first = crew.app.enqueue(NewJob("outer", "tag", "outer", {"n": 1}, trace=PARENT)).id
    failed = crew.app.enqueue(NewJob("outer", "tag", "outer", {"n": 2}, max_attempts=1)).id
    crew.done(first, failed)
    eventually(lambda: {job.status for job in crew.app.jobs.list(queue="slow")} == {"done", "scheduled"})
    worker = str(crew.app.jobs.get(first).worker_id)
    assert crew.stop() == 0
    found = spans(crew)
    outer, inside, inner = (
        next(span for span in found if span["name"] == name and span["trace"] == PARENT[3:35])
        for name in ("outer", "inside", "inner")
    )
    assert outer["parent"] == PARENT[36:52] and inside["parent"] == outer["span"] and inner["parent"] == inside["span"]
    told = {"job": first, "queue": "tag", "kind": "outer", "attempt": 1, "worker": worker, "outcome": "done"}
    assert outer["attributes"] == {f"rota.{name}": value for name, value in told.items()}
    (bad,) = [span for span in found if span["name"] == "inner" and span["trace"] != PARENT[3:35]]
    assert (bad["status"], bad["attributes"]["rota.outcome"]) == ("ERROR", "failed")


def test_run_worker_makes_a_span_of_each_run_too(crew: Crew) -> None:
    crew.teach(SPANS)
    first = crew.app.enqueue(NewJob("a", "own", trace=PARENT)).id
    second = crew.app.enqueue(NewJob("b", "own", max_attempts=1)).id
    code = """
import rota, shop

def execute(job, ctx):
    with shop.trace.get_tracer("shop").start_as_current_span("inside"):
        if job.title == "b":
            raise ValueError(job.title)

rota.run_worker(execute, queue="own", app=shop.app, limit=2)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=crew.folder, env=environment(ROTA_TRACING="otel"), check=True, timeout=60
    )
    assert ran.returncode == 0
    mine = {span["attributes"]["rota.job"]: span for span in spans(crew) if "rota.job" in span["attributes"]}
    told = {"queue": "own", "attempt": 1, "outcome": "done", "worker": str(crew.app.jobs.get(first).worker_id)}
    assert mine[first]["attributes"].items() >= {f"rota.{name}": value for name, value in told.items()}.items()
    assert (mine[first]["trace"], mine[first]["parent"]) == (PARENT[3:35], PARENT[36:52])
    assert (mine[second]["status"], mine[second]["attributes"]["rota.outcome"]) == ("ERROR", "failed")
    inside = {span["parent"] for span in spans(crew) if span["name"] == "inside"}
    assert inside == {mine[first]["span"], mine[second]["span"]}


def test_nothing_of_it_is_loaded_unless_asked_for(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    try:
        crew.teach(LOADED)
        crew.start("tag=1")
        assert crew.done(crew.add("loaded"))[0].result == []
    finally:
        crew.end()


def test_what_is_no_trace_and_what_is_not_installed_is_refused(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    try:
        for wrong in ("", "x", PARENT.upper(), PARENT[:-1], PARENT.replace("-", "_")):
            with pytest.raises(BadInput, match="traceparent"):
                crew.app.enqueue(NewJob("a", trace=wrong))
    finally:
        crew.end()
    code = (
        "import sys; sys.modules['opentelemetry'] = None; import rota; rota.App(sys.argv[1]).enqueue(rota.NewJob('a'))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / ".rota" / "rota.db")],
        check=False, env=environment(ROTA_TRACING="otel"), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "tracing = otel needs OpenTelemetry: pip install 'rota[otel]'" in answer.stderr
    assert "tracing must be otel or off" in subprocess.run(
        [sys.executable, "-m", "rota", "list"],
        check=False, env=environment(ROTA_TRACING="jaeger"), capture_output=True, text=True, timeout=60, cwd=tmp_path,
    ).stderr  # fmt: skip
