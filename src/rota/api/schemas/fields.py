"""The words that requests and answers are made of: numbers, names and texts, each within its bounds."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

Id = Annotated[int, Meta(ge=0, le=999_999_999_999_999_999)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Whole = Annotated[int, Meta(ge=0, le=1_000_000_000)]
Priority = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Seconds = Annotated[float, Meta(ge=0.000_001, le=3_153_600_000)]
Moment = Annotated[str, Meta(max_length=40, description="ISO 8601 in UTC")]
QueueName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")]
Title = Annotated[str, Meta(min_length=1, max_length=1000)]
Word = Annotated[str, Meta(max_length=200)]
Key = Annotated[str, Meta(min_length=1, max_length=200)]
Text = Annotated[str, Meta(max_length=16_384)]
Path = Annotated[str, Meta(min_length=1, max_length=4096)]
Cursor = Annotated[str, Meta(max_length=2000)]
Trace = Annotated[
    str, Meta(pattern="^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$", description="W3C traceparent")
]
WorkerId = Annotated[str, Meta(min_length=1, max_length=100)]
JobStatus = Literal["blocked", "scheduled", "ready", "active", "done", "failed", "cancelled"]
Scope = Literal["read", "enqueue", "work", "admin"]
Fence = Literal["tell", "end"]
Until = Literal["done", "final"]
Unique = Literal["waiting", "active"]
Missed = Literal["skip", "once", "all"]
# Something to see, in the words that every language's patterns know: what is white to one is not to another.
VISIBLE = r"[^\s\x1c-\x1f\x85\ufeff]"
