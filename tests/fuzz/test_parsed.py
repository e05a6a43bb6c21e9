"""Whatever text or bytes come, what parses them answers or refuses in our words; `./dev fuzz` looks for longer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.claim import Run
from rota.core.worker import Worker
from rota.store.remote.records import fields, machine_records
from tests.fuzz.targets import BYTES, RIGHT, RIGHT_BYTES, TEXTS, refuses

# Texts of anything, and texts that look nearly right.
NEARLY = {
    "duration": "0123456789.smhd ",
    "instant": "0123456789-:TZ+. smh",
    "rate": "0123456789/smhd",
    "cron": "0123456789*/,-LW# MONFRI@\u00b2",
    "time zone": "EuropBlin/UTC._-",
    "run id": "run-0123456789z",
    "topic": "queue:*tagstatworkjb",
    "template": "{}path.a!\n",
    "database": "sqlite:///a.b",
    "postgres url": "user@host:5432/[]%?schema=a&f",
    "http url": "user:@host[]:8356/%?#",
    "postgres cursor": "0123456789:,;.-",
    "settings file": '[tol.ra]\n"=\\# _5lease{}',
    "command line": "-=\n5abjson,tg",
}
# Long numbers, deep lists, digits that are none of ours; and what was found here once.
ODD = ["9" * 5000, "9" * 5000 + "/m", "h:" + "9" * 5000, "9" * 400 + "h", "[" * 5000, "lease=" + "[" * 3000, "\u0663/m"]
ODD += [
    "]?schema=a",
    "tool = 5 # [tool.rota]",
    "tool = {rota = 5} # [tool.rota]",
    "true",
    '{"type": 5}',
    "\u00b2 * * * *",
]
ODD += [
    "9" * 5000 + " * * * *",
    "@9" * 20,
    "--lease=" + "9" * 5000,
    "--limit\n" + "9" * 5000,
    "max_attempts = " + "9" * 5000,
]
ODD += ['lease = "30m"\nmax_attempts = 5\r', "a = 1\x0cb = 2", "# \x01\na = 1"]


def texts(name: str) -> st.SearchStrategy[str]:
    some = st.text(max_size=60) | st.sampled_from(ODD)
    return st.text(NEARLY[name], max_size=40) | some if name in NEARLY else some


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_is_read_or_refused_in_our_words(name: str) -> None:
    few = 40 if name in ("environment", "command line", "settings file") else 150

    @settings(max_examples=few)
    @given(texts(name))
    def any_text(text: str) -> None:
        refuses(lambda: TEXTS[name](text))

    any_text()


@pytest.mark.parametrize("name", TEXTS)
def test_a_right_text_is_read(name: str) -> None:
    assert not refuses(lambda: TEXTS[name](RIGHT[name]))


@pytest.mark.parametrize("name", TEXTS)
def test_odd_texts_are_read_or_refused_in_our_words(name: str) -> None:
    for text in ODD:
        refuses(lambda text=text: TEXTS[name](text))  # type: ignore[misc]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)
FIELDS = "outcome result error note delay again tokens kinds concurrency recover_for_s done total checkpoint schedules"
NAMES = st.sampled_from(f"{FIELDS} sources vectorizers name cron title queue at jobs".split())
WORDS = st.sampled_from(["done", "failed", "snoozed", "released", "null", "[1]", "NaN"])


@st.composite
def some_bytes(draw: st.DrawFn) -> bytes:
    if draw(st.booleans()):
        return draw(st.binary(max_size=200))
    body = draw(st.dictionaries(NAMES, VALUES | WORDS, max_size=6))
    kind = draw(st.sampled_from(["DONE", "HELLO", "HEALTH", "PROGRESS", "CHECKPOINT", "RETURNED", "RUN", ""]))
    text = json.dumps(body).encode()
    return kind.encode() + b"|" * bool(kind) + text + b"\n" * bool(kind)


JOB = "id title queue kind status priority payload parent attempts max_attempts due_at created_at finished_at result"
JOB += " error note scheduled_for after children"
DETAILS = "blocked_on key limit_key timeout generation deaths lapses claimed_at token worker_id orchestrator lease"
DETAILS += " lease_expires_at renewed_count checkpoint source transcript_path stderr_path trace"
SAID = sorted(
    {field.shown for kind in machine_records().values() for field in fields(kind)}
    | set(Run._fields)
    | set(Worker._fields)
)
TIMES = st.sampled_from(["2026-12-01T09:00:00Z", "2026-12-01T09:00:00.5Z", "9" * 30, "T", ""])


def documents() -> st.SearchStrategy[dict[str, object]]:
    """What an API might answer: a job with all its names, or some of the names that anything has."""
    said = VALUES | TIMES | st.lists(st.dictionaries(st.sampled_from(SAID), VALUES, max_size=4), max_size=2)
    job = st.builds(
        lambda own, more, details: {**own, **more, "details": details},
        st.fixed_dictionaries(dict.fromkeys(JOB.split(), st.none() | st.just([]) | TIMES)),
        st.dictionaries(st.sampled_from(JOB.split()), said, max_size=3),
        st.fixed_dictionaries(dict.fromkeys(DETAILS.split(), st.none() | st.integers() | TIMES)) | VALUES,
    )
    return job | st.dictionaries(st.sampled_from(SAID), said, max_size=8)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """An answer over HTTP that is nearly one: lengths that lie, chunks of any size, heads that have no end."""
    body = draw(st.binary(max_size=60)) if draw(st.booleans()) else json.dumps(draw(documents())).encode()
    status = draw(st.sampled_from([b"200 OK", b"404 x", b"503", b"\xb2\xb20", b"", b"100 "]))
    length = draw(st.sampled_from([len(body), len(body) + 1, -1, -(10**6), "x", "9" * 5000, "\u00b2"]))
    chunk = draw(st.sampled_from([b"%x" % len(body), b"-5", b"", b"ffffff", b"1;" + b"y" * 100_000, b"z"]))
    head = b"HTTP/1.1 " + status + b"\r\nContent-Type: application/problem+json\r\n"
    return draw(
        st.sampled_from(
            [
                head + f"Content-Length: {length}\r\n\r\n".encode() + body,
                head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"\r\n" + body + b"\r\n0\r\n\r\n",
                head + b"\r\n" + body,
                head + b"y" * 100_000,
                body,
            ]
        )
    )


@pytest.mark.parametrize(
    ("name", "some"),
    [
        ("document", documents().map(lambda document: json.dumps(document).encode())),
        ("answer", answers()),
        ("frame of a size", st.binary(min_size=4, max_size=40)),
    ],
)
def test_answers_of_an_api_and_frames_about_as_long_as_may_be_are_read_or_refused(
    name: str, some: st.SearchStrategy[bytes]
) -> None:
    @settings(max_examples=150, deadline=None)
    @given(some)
    def any_of_them(data: bytes) -> None:
        BYTES[name](data)

    any_of_them()


@pytest.mark.parametrize("name", BYTES)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    BYTES[name](RIGHT_BYTES[name])

    @settings(max_examples=150)
    @given(some_bytes())
    def any_bytes(data: bytes) -> None:
        BYTES[name](data)

    any_bytes()
