"""Hostile requests: foreign hosts, foreign pages, other media, bodies that are too much or no sense, slow senders."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import TYPE_CHECKING

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api.json_body import DEEPEST, refuse_deep
from rota.api.middleware import RequestChecks
from rota.core.errors import BadInput
from rota.core.jsontext import DEEPEST as LEVELS
from tests.api.servers import Server

if TYPE_CHECKING:
    from pathlib import Path

JOBS = "/api/v1/jobs"


def raw(server: Server, data: bytes, within: float = 30) -> bytes:
    """Everything that the server answers to these bytes until it closes the connection."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), within) as peer:
        peer.sendall(data)
        answer = b""
        while piece := peer.recv(65536):
            answer += piece
        return answer


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8356",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "[::1].evil",
        "0.0.0.0",
    ],
)
def test_a_foreign_host_is_refused_before_anything_else(shared: Server, host: str) -> None:
    for path in ("/healthz", JOBS, "/nothing"):
        problem = shared.client().refused(421, "GET", path, Host=host)
        assert "http_hosts" in problem["detail"] and problem["code"] == 6


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1:1", "[::1]:8356"])
def test_this_machines_own_names_are_answered_whatever_the_port(shared: Server, host: str) -> None:
    assert shared.client().call("GET", JOBS, Host=host).status_code == 200


def test_no_host_and_two_hosts_are_refused(shared: Server) -> None:
    none = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
    assert raw(shared, none).split()[1] in (b"400", b"421")
    two = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert raw(shared, two).split()[1] in (b"400", b"421")


def test_two_hosts_are_refused_behind_a_server_that_lets_them_through() -> None:
    """The server of `rota serve` refuses them by itself; the app may be mounted in another."""

    async def reached(*_: object) -> None:
        raise AssertionError("a request with two hosts went through")

    async def ask(*hosts: str) -> httpx.Response:
        there = httpx.ASGITransport(RequestChecks(reached))
        async with httpx.AsyncClient(transport=there, base_url="http://localhost") as client:
            return await client.get("/healthz", headers=[("host", host) for host in hosts])

    for hosts in (("localhost", "evil.example"), ("localhost", "localhost")):
        assert asyncio.run(ask(*hosts)).status_code == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://evil.example", "null", "http://localhost.evil", "file://"]
)
def test_a_page_of_another_site_is_refused(shared: Server, origin: str) -> None:
    for method in ("GET", "POST"):
        assert (
            "may not use this API"
            in shared.client().refused(403, method, JOBS, {"title": "A"}, Origin=origin)["detail"]
        )


@pytest.mark.parametrize("more", ["evil", "evil.example@", "evil.example/"])
def test_a_page_whose_origin_only_ends_as_this_servers_does_is_refused(shared: Server, more: str) -> None:
    origin = shared.url.replace("://", f"://{more}")
    refused = shared.client().refused(403, "POST", JOBS, {"title": "A"}, Origin=origin)
    assert "may not use this API" in refused["detail"]


def test_a_page_of_this_server_is_not(shared: Server) -> None:
    assert shared.client().call("POST", JOBS, {"title": "A"}, Origin=shared.url).status_code == 200
    other_port = "http://127.0.0.1:1"
    assert shared.client().call("POST", JOBS, {"title": "A"}, Origin=other_port).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "rubbish"])
def test_what_a_browser_calls_cross_site_is_refused(shared: Server, site: str) -> None:
    shared.client().refused(403, "POST", JOBS, {"title": "A"}, **{"Sec-Fetch-Site": site})
    shared.client().refused(403, "GET", JOBS, **{"Sec-Fetch-Site": site})
    shared.client().refused(403, "GET", JOBS, **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"})
    followed = shared.client().call("GET", "/open", **{"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"})
    assert followed.status_code == 401, "a link may be followed from anywhere; its code decides"


@pytest.mark.parametrize(
    "media",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "application/json5",
     "application/json; charset=utf-16", "text/plain; application/json"],
)  # fmt: skip
def test_only_json_is_taken(shared: Server, media: str) -> None:
    client = shared.client()
    answer = client.http.post(JOBS, content=b'{"title": "A"}', headers={"Content-Type": media})
    assert answer.status_code == 415 and answer.json()["code"] == 2
    good = client.http.post(
        JOBS, content=b'{"title": "A"}', headers={"Content-Type": "application/json; charset=UTF-8"}
    )
    assert good.status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_a_method_that_a_path_does_not_have_is_refused_and_told_which_it_has(shared: Server, method: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = shared.client().http.request(method, "/api/v1/jobs/1/why", headers=headers)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_no_answer_invites_pages_of_other_sites(shared: Server) -> None:
    for client, path in ((shared.client(), JOBS), (shared.stranger(), JOBS), (shared.client(), "/nothing")):
        answer = client.call("GET", path)
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store" and "server" not in answer.headers


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b"7", b'"title"', b"{}", b'{"title": ""}', b'{"title": 5}', b'{"title": null}',
        b'{"title": "A", "queue": "a:b"}', b'{"title": "A", "queue": "\\n"}', b'{"title": "A", "nothing": 1}',
        b'{"title": "A", "priority": 1.5}', b'{"title": "A", "priority": 99999999999}',
        b'{"title": "A", "after": [-1]}',
        b'{"title": "A", "after": [9223372036854775808]}', b'{"title": "A", "timeout": 0}', b'{"title": "\\ud800"}',
        b'{"title": "A", "payload": NaN}', b'{"title": "A", "payload": 1e999}', b'{"title": "A", "at": "soon"}',
        b'{"title": "A", "payload": "\xff"}', b"\xff\xfe{}", b'{"title": "A\\u0000"}',
        b'{"title": "A", "max_attempts": 0}',
    ],
)  # fmt: skip
def test_a_body_that_makes_no_sense_is_refused_with_a_reason_and_changes_nothing(shared: Server, body: bytes) -> None:
    client = shared.client()
    before = shared.shell.contents()["job"]
    answer = client.http.post(JOBS, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["code"] == 2 and len(answer.json()["detail"]) > 10
    assert shared.shell.contents()["job"] == before


def test_a_body_that_is_too_large_is_refused_announced_or_not(shared: Server) -> None:
    client, headers = shared.client(), {"Content-Type": "application/json"}
    large = b'{"title": "A"}' + b" " * (1024 * 1024)
    assert client.http.post(JOBS, content=large, headers=headers).status_code == 413
    pieces = (large[start : start + 65536] for start in range(0, len(large), 65536))
    assert client.http.post(JOBS, content=pieces, headers=headers).status_code == 413
    payload = client.http.post(JOBS, json={"title": "A", "payload": "x" * (256 * 1024)}, headers=headers)
    assert payload.status_code == 413 and "payload is too large" in payload.json()["detail"]
    for length in ("-1", "x", "99999999999999999999"):
        head = f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        assert raw(shared, f"{head}Content-Length: {length}\r\n\r\n{{}}".encode()).split(b" ", 2)[1] in (b"400", b"413")


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_body_that_is_nested_too_deeply_is_refused(shared: Server, opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    for depth, expected in (
        (LEVELS, 200),
        (LEVELS + 1, 400),
        (DEEPEST, 400),
        (5000, 400),
        (100_000, 400),
    ):
        payload = opening * depth + b"1" + closing * depth
        answer = shared.client().http.post(
            JOBS, content=b'{"title": "A", "payload": ' + payload + b"}", headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == expected, (depth, answer.text[:200])


nested = st.recursive(
    st.none() | st.integers() | st.text('[]{}"\\ab', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('"[{\\', max_size=3), inner, max_size=3),
    max_leaves=30,
)


def depth_of(value: object) -> int:
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@given(nested, st.integers(0, 80))
def test_depth_is_counted_outside_of_strings_only(value: object, more: int) -> None:
    for _ in range(more):
        value = [value, "]["]
    body = json.dumps(value).encode()
    if depth_of(value) > DEEPEST:
        with pytest.raises(BadInput, match="nested too deeply"):
            refuse_deep(body)
    else:
        refuse_deep(body)


def test_a_body_made_to_be_slow_to_look_at_is_not() -> None:
    for body in (b'"' + b'\\"' * 500_000, b"[]" * 500_000, b"[" * 1_000_000, b'"\\' * 500_000, b"[{" * 40 + b'"a\\'):
        began = time.perf_counter()
        try:
            refuse_deep(body)
        except BadInput:
            pass
        assert time.perf_counter() - began < 2


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/jobs/x", "/api/v1/jobs/-1", "/api/v1/jobs/99999999999999999999", "/api/v1/jobs/1%00",
        "/api/v1/runs/run-",
        "/api/v1/runs/x", "/api/v1/jobs?limit=0", "/api/v1/jobs?limit=x", "/api/v1/jobs?limit=1&limit=2",
        "/api/v1/jobs?nothing=1", "/api/v1/jobs?status=lost", "/api/v1/events?topics=nothing",
        "/api/v1/events/log?after=x",
        "/api/v1/jobs?queue=%00", "/healthz?x=1",
    ],
)  # fmt: skip
def test_a_path_or_query_that_makes_no_sense_is_refused_with_a_reason(shared: Server, path: str) -> None:
    assert len(shared.client().refused(400, "GET", path)["detail"]) > 10


@pytest.mark.parametrize("path", ["/nothing", "/api/v1/jobs/", "/api/v1/jobs/1/why/x", "/api/v2/jobs", "/%2e%2e/etc"])
def test_a_path_that_is_not_there_is_told_so(shared: Server, path: str) -> None:
    assert shared.client().refused(404, "GET", path)["code"] == 3


def test_what_a_job_can_set_comes_back_as_json_and_never_as_a_page(shared: Server) -> None:
    script = "<script>alert(1)</script>"
    job = shared.client().post(JOBS, title=script, kind=script, payload=script, key=script)
    answer = shared.client().call("GET", f"{JOBS}/{job['id']}")
    assert answer.headers["content-type"] == "application/json" and answer.json()["title"] == script
    missing = shared.client().call("GET", f"/{script}")
    assert missing.headers["content-type"] == "application/problem+json"


def test_a_sender_that_takes_its_time_is_cut_off(tmp_path: Path) -> None:
    change = "from rota.api import middleware, server; server.HEADERS_WITHIN = middleware.BODY_WITHIN = 0.5"
    change += "; server.KEEP_ALIVE = 1"
    server = Server(tmp_path, change=change)
    try:
        assert raw(server, b"GET /healthz HT") == b"", "headers that never end"
        first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert raw(server, first + b"GET /hea").count(b"HTTP/1.1 200") == 1, "nor those of a second request"
        head = f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.secret}\r\n"
        slow = raw(server, f"{head}Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{{".encode())
        assert slow.startswith(b"HTTP/1.1 408")
        assert server.client().get("/healthz") == {"status": "ok"}
    finally:
        server.end()


def test_bytes_that_are_no_request_end_the_connection_and_nothing_else(shared: Server) -> None:
    for data in (b"\x16\x03\x01\x02\x00\x01", b"\0" * 1000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 200_000):
        try:
            assert raw(shared, data)[:12] in (b"", b"HTTP/1.1 400")
        except ConnectionResetError:
            pass
    assert shared.client().get("/healthz") == {"status": "ok"}
