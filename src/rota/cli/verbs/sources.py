"""Sources: their progress, and a dry run of one."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from rota import documents
from rota.cli.invocation import age, columns
from rota.cli.verb import Argument, Option, verb
from rota.cli.verbs.init_run import app_of
from rota.core.errors import NotFound, RotaError
from rota.core.ids import printable
from rota.core.jsontext import Raw
from rota.core.times import format_duration
from rota.worker.sources.sql_source import SqlSource

if TYPE_CHECKING:
    from rota.app import App
    from rota.cli.invocation import Call
    from rota.core.times import Instant
    from rota.store.sources import Found, SourceStatus
    from rota.worker.sources.filling import Source
    from rota.worker.sources.query_plan import Plan

NEW, KNOWN = "new", "known"


@verb(
    "source list",
    "sources with their progress, and when each is looked at next",
    "rota source list --json",
)
def list_sources(call: Call) -> int:
    with call.store() as store:
        statuses = store.sources.list()
        if call.json:
            call.document([documents.source(status) for status in statuses])
        elif statuses:
            call.lines(_table(call, statuses, store.now()))
            for status in statuses:
                for line in _remarks(status, store.now()):
                    call.say(line)
        else:
            call.say("no sources; a worker whose app declares one with @app.source makes it known when it starts")
    return 0


@verb(
    "source forget",
    "remove a source that no app declares any more, with its counters and the jobs that wait",
    "rota source forget files",
    (Argument("NAME", "the source"),),
)
def forget(call: Call) -> int:
    with call.store() as store:
        count = store.sources.forget(call["name"])
    return call.answer(
        {"name": call["name"], "jobs": count},
        f"source {call['name']} is forgotten; {count} of its jobs waited and are gone",
    )


@verb(
    "source check",
    "run a source once and show what it would add, and how its query is run; adds nothing",
    "rota source check files --app shop:app",
    (Argument("NAME", "the source"),),
    (
        Option("--app", "the application that declares it", "MODULE:APP", env="ROTA_APP"),
        Option("--limit", "how many keys to show", "N", "count", default="10"),
    ),
)
def check(call: Call) -> int:
    from rota.worker.app_loader import load_app

    named = app_of(call, call.settings())
    app = load_app(named)
    source = app.sources.get(call["name"])
    if source is None:
        names = ", ".join(sorted(app.sources)) or "none"
        raise NotFound(f"{named} has no source {call['name']}; it has: {names}")
    plan = _plan(source)
    items = [] if plan and plan.denied else _found(source, call["limit"] or 10)
    verdicts = _verdicts(call, source, items)
    if call.json:
        call.document(_document(source, plan, items, verdicts))
    else:
        call.lines(_report(call, app, source, plan, items, verdicts))
    return 1 if plan is not None and plan.denied else 0


def _plan(source: Source) -> Plan | None:
    from rota.worker.sources.query_plan import explain

    if not isinstance(source.find, SqlSource):
        return None
    try:
        connection = source.find.connect()
        try:
            return explain(source.find, connection)
        finally:
            connection.close()
    except RotaError:
        raise
    except Exception as problem:
        raise RotaError(f"the query of source {source.__name__} cannot be run: {_first_line(problem)}") from None


def _found(source: Source, limit: int) -> list[Found]:
    items = source.found()
    try:
        return list(islice(items, limit))
    except RotaError:
        raise
    except Exception as problem:
        text = f"source {source.__name__} failed: {type(problem).__name__}: {_first_line(problem)}"
        raise RotaError(text) from None
    finally:
        items.close()  # type: ignore[attr-defined]


def _verdicts(call: Call, source: Source, items: list[Found]) -> list[str]:
    """Return whether each key is new; without a store, all are."""
    try:
        with call.store() as store:
            fresh = {item.key for item in store.sources.sift(source.__name__, items, store.now() + 1).fresh}
    except NotFound:
        return [NEW for _ in items]
    return [NEW if item.key in fresh else KNOWN for item in items]


def _document(source: Source, plan: Plan | None, items: list[Found], verdicts: list[str]) -> dict[str, Any]:
    declared = source.declared
    return {
        "name": declared.name,
        "queue": declared.queue,
        "task": declared.task,
        "plan": plan.lines if plan else None,
        "scans": plan.scans if plan else None,
        "index": plan.index if plan else None,
        "denied": plan.denied if plan else None,
        "found": [
            {
                "key": item.key,
                "payload": None if item.payload_json is None else Raw(item.payload_json),
                "verdict": verdict,
            }
            for item, verdict in zip(items, verdicts, strict=True)
        ],
    }


def _report(
    call: Call, app: App, source: Source, plan: Plan | None, items: list[Found], verdicts: list[str]
) -> list[str]:
    declared = source.declared
    lines = [f"source {declared.name}: jobs of {declared.task} for queue {declared.queue}"]
    if declared.task not in app.tasks:
        lines.append(f"warning: this app has no task {declared.task}; another program must run these jobs")
    if plan is not None:
        lines += ["", *_explained(plan)]
    lines = [printable(line) for line in lines]
    if plan is not None and plan.denied:
        return lines
    rows = [(verdict, item.key, item.payload_json) for item, verdict in zip(items, verdicts, strict=True)]
    lines += ["", *(columns(call, ("VERDICT", "KEY", "PAYLOAD"), rows) if rows else ["it yields nothing now"])]
    return [*lines, "", "nothing was added"]


def _explained(plan: Plan) -> list[str]:
    if plan.denied:
        return [f"grants: {plan.denied}: GRANT SELECT on what the query reads to the role that connect uses"]
    lines = ["grants: the query may read all it needs", "plan:", *(f"  {line}" for line in plan.lines)]
    for table in plan.scans:
        lines.append(f"warning: every pass reads the whole of {table}")
    if plan.index is not None:
        lines.append(f"this index would spare that: {plan.index}")
    elif plan.scans:
        lines.append("no index on the columns it filters by would spare that: let it filter by what is not done yet,")
        lines.append("in a condition that an index serves, such as `=`, `<` or `IS NULL`")
    return lines


def _table(call: Call, statuses: list[SourceStatus], now: Instant) -> list[str]:
    heads = (
        "SOURCE",
        "STATUS",
        "QUEUE",
        "TASK",
        "EVERY",
        "READY",
        "ACTIVE",
        "FAILED",
        "DONE",
        "ERRORS",
        "LAST",
        "NEXT",
    )
    rows = []
    for status in statuses:
        source = status.source
        counts = [status.counts[state] for state in ("ready", "active", "failed")]
        wait = (
            None if status.next_fill_at is None else format_duration(max(0, status.next_fill_at - now) // 1000 * 1000)
        )
        done = (source.success_count, source.error_count, age(source.last_success_at, now))
        about = (source.name, _state(status), source.queue, source.task, format_duration(source.every))
        rows.append((*about, *counts, *done, wait))
    return columns(call, heads, rows)


def _state(status: SourceStatus) -> str:
    if status.filler_status in ("failed", "cancelled", None):
        return "failed"
    return "late" if status.source.last_fill_error else "ok"


def _remarks(status: SourceStatus, now: Instant) -> list[str]:
    source, lines = status.source, []
    if status.filler_status in ("failed", "cancelled"):
        lines.append(
            f"{source.name} is not filled: job {source.filler} is {status.filler_status}; rota retry {source.filler}"
        )
    if source.last_fill_error:
        lines.append(f"{source.name}: the last pass failed: {source.last_fill_error}")
    if source.last_error_message:
        when = f"{age(source.last_error_at, now)} ago, of {source.last_error_worker}"
        lines.append(f"{source.name}: the last error, {when}: {source.last_error_message}")
    if source.repeated_count:
        last = f"the last {source.last_repeated_key!r}"
        lines.append(f"{source.name}: {source.repeated_count} keys came again and again and are held back, {last}")
    return lines


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
