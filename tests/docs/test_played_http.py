"""The page on the HTTP API works as it is written: its requests are answered, its crew works, its blocks are real."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import httpx

from rota.demo.postgres_server import free_port
from tests.api.servers import Server
from tests.docs.pages import blocks
from tests.docs.played import Scene, loosely, play
from tests.docs.test_played import CONVERT, HOWTO, python
from tests.support.shell import Shell, environment

if TYPE_CHECKING:
    from pathlib import Path

PAGE = HOWTO / "http.md"
CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=rota.example.org"
    " -addext subjectAltName=DNS:rota.example.org -keyout key.pem -out cert.pem 2> made-it"
)
NIGHT_SHIFT = "$(rota token list --json | jq -r '.[] | select(.name == \"night-shift\").id')"
FOLLOWED = "> followed & until grep -s queue:status followed; do kill -0 $!; sleep 0.05; done; kill $!"
# The application of somebody who mounts it, and what a visitor is answered.
MOUNTED = """
import asyncio
from fastapi import FastAPI
from fastapi.testclient import TestClient
api = FastAPI()
{block}
asyncio.run(rota_api.close())
"""


def scene(port: int) -> Scene:
    """The ids and secrets are those of this folder; the other host is this one, with nothing but the API."""
    there = (
        f"--cacert cert.pem --resolve rota.example.org:{port}:127.0.0.1 https://rota.example.org:{port}/api/v1/queues"
    )
    return Scene(
        files={"shop.py": python("crew"), "convert.sh": CONVERT},
        before=CERTIFICATE,
        instead={
            "token-1a2b3c4d": NIGHT_SHIFT,
            "/jobs/5/": "/jobs/1/",
            '"token": 12': '"token": 1',
            "rota token create render-1 --scope work": "RENDER=$(rota token create render-1 --scope work)",
            "https://rota.example.org": "http://127.0.0.1:8356",
            "rota_…": "$RENDER",
            "worker:*:status'": f"worker:*:status' {FOLLOWED}",
            "rota token create office --scope read": "unset ROTA_DB; OFFICE=$(rota token create office --scope read)",
            "--host 0.0.0.0": f"--host 0.0.0.0 --port {port}",
        },
        after=f"""
        rota show 1 --json | jq -e '[.status, .result.tags] == ["done", 3]'
        rota add Convert --queue convert --payload '{{"path": "a.wav"}}' > added
        rota wait 2 3 --for done --timeout 60s > waited
        rota token list --json | jq -e '[.[] | select(.revoked_at).name] == ["night-shift"]'
        curl -sSf -H "Authorization: Bearer $OFFICE" {there} | jq -e '[.[].name] == ["convert", "tag"]'
        """,
    )


def test_the_requests_of_the_page_are_answered_and_its_crew_works_over_them(tmp_path: Path) -> None:
    assert play("http", scene(free_port()), tmp_path)


def test_the_problem_of_the_page_is_what_a_late_holder_is_told(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "json")
    shown: dict[str, Any] = json.loads(block)
    server = Server(tmp_path)
    try:
        job, worker = server.shell.add("Tag"), server.shell.register("night-shift")
        token = server.shell.ask("claim", job, worker)["token"]
        server.shell.say("claim:release", job, "--token", token)
        told = httpx.post(
            f"{server.url}/api/v1/jobs/{job}/claim/settle",
            headers={"Authorization": f"Bearer {server.secret}"},
            json={"token": token, "outcome": "done"},
        ).json()
    finally:
        server.end()
    assert told | {"detail": loosely(told["detail"])} == shown | {"detail": loosely(shown["detail"])}


def test_prometheus_reads_the_settings_of_the_page(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "yaml")
    (tmp_path / "prometheus.yml").write_text(block)
    words = ["promtool", "check", "config", "prometheus.yml"]
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_lines_of_the_page_mount_the_api_under_the_name_that_they_give_it(tmp_path: Path) -> None:
    Shell(tmp_path).say("init")
    (block,) = blocks(PAGE, "python")
    asked = "with TestClient(api, 'http://{}') as client: print(client.get('/rota/api/v1/info').status_code)\n"
    script = MOUNTED.format(block=block + asked.format("shop.example") + asked.format("evil.example"))
    words = [sys.executable, "-c", script]
    ran = subprocess.run(words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    assert ran.stdout.split() == ["401", "421"]
