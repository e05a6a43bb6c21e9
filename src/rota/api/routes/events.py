"""Events over HTTP: the live feed as server-sent events, and the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from rota.api.json_body import encode_document
from rota.api.route import JSON, SSE, Route
from rota.api.routes.jobs import next_page
from rota.api.schemas import nouns, requests
from rota.api.stream.readers import Stream
from rota.core.access import READ
from rota.core.errors import BadInput
from rota.core.event import to_stored
from rota.core.times import format_instant
from rota.core.topic import checked
from rota.live import fact_log

if TYPE_CHECKING:
    from rota.api.request import ApiRequest
    from rota.documents import Document
    from rota.store.store import Store

LONGEST_ID = 2000
MOST_SEARCHED = 10_000


async def follow(request: ApiRequest) -> Stream:
    after = request.http.headers.get("last-event-id") or None
    if after is not None and len(after) > LONGEST_ID:
        raise BadInput("Last-Event-ID is not an event's id: hand back one as it came")
    patterns = tuple(sorted(set(checked(request.query.topics))))
    reader, first = await request.state.hub.join(patterns, after, request.token.id if request.token else None)
    try:
        # The hub ends readers of revoked tokens, but misses a token that was revoked before it knew the reader.
        await request.reauthenticate()
    except BaseException:
        request.state.hub.leave(reader)
        raise
    return Stream(request.state.hub, reader, first)


def log(store: Store, request: ApiRequest) -> Response:
    """List facts of the log. One request searches a bounded number of them; a link continues the search."""
    query = request.query
    patterns = list(checked(query.topics))
    _refuse_both(query.after, query.before)
    if query.after is None:
        facts, rest = fact_log.newest(store, patterns, query.limit, query.before, MOST_SEARCHED)
        following = {"before": rest}
    else:
        facts, rest = fact_log.after(store, patterns, query.after, query.limit, MOST_SEARCHED)
        following = {"after": rest}
    headers = {} if rest is None else {"Link": next_page(request, **following)}
    return Response(encode_document(fact_log.documents(facts)), 200, headers, JSON)


def raw(store: Store, request: ApiRequest) -> list[Document]:
    query = request.query
    _refuse_both(query.after, query.before)
    if query.after is None:
        events = store.events.newest(query.before, query.limit)
    else:
        events = store.events.after(query.after, query.limit)
    return [
        {
            "cursor": event.cursor,
            "at": format_instant(event.at),
            "actor": event.actor,
            "facts": [to_stored(fact) for fact in event.facts],
        }
        for event in events
    ]


def _refuse_both(after: str | None, before: str | None) -> None:
    if after is not None and before is not None:
        raise BadInput("after and before do not go together: leave one out")


ROUTES = (
    Route(
        "GET", "/api/v1/events", follow, READ,
        "the live feed: a snapshot, then changes; Last-Event-ID replays what was missed", str, query=requests.Topics,
        media=SSE, is_async=True,
    ),
    Route(
        "GET", "/api/v1/events/log", log, READ, "the log of facts, oldest first", list[nouns.Fact],
        query=requests.LogFilter,
    ),
    Route(
        "GET", "/api/v1/events/raw", raw, READ, "the raw log, an event per transaction, oldest first",
        list[nouns.Event], query=requests.EventFilter,
    ),
)  # fmt: skip
