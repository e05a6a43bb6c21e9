"""The app inside somebody else's: the FastAPI example, run as it stands."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import httpx

from tests.docs.pages import ROOT
from tests.support.eventually import eventually
from tests.support.shell import Shell, environment

if TYPE_CHECKING:
    from pathlib import Path


def test_the_fastapi_example_serves_both_applications(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "fastapi" / "shop.py", tmp_path)
    shell = Shell(tmp_path)
    shell.make()
    secret = shell.ask("token", "create", "ci", "--scope", "read")["secret"]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = [sys.executable, "-m", "uvicorn", "shop:api", "--port", str(port), "--log-level", "warning"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            base = f"http://127.0.0.1:{port}"
            eventually(lambda: answers(process, base))
            added = httpx.post(f"{base}/songs", params={"path": "a.wav"}).json()
            headers = {"Authorization": f"Bearer {secret}"}
            job = httpx.get(f"{base}/rota/api/v1/jobs/{added['job']}", headers=headers).json()
            assert (job["kind"], job["payload"]) == ("tag", {"path": "a.wav"})
            assert httpx.get(f"{base}/rota/api/v1/jobs").status_code == 401
            assert httpx.get(f"{base}/rota/nothing").status_code == 404
            assert httpx.get(f"{base}/rota/api/v1/info", headers={"Host": "evil.example"}).status_code == 421
            link = httpx.post(f"{base}/rota/api/v1/codes", json={}, headers=headers).json()["link"]
            assert link.startswith(f"{base}/rota/open?code=")
            opened = httpx.get(link)
            assert (opened.status_code, opened.headers["location"]) == (303, "/rota/")
            page = httpx.get(f"{base}/rota/api/v1/jobs?limit=1", headers=headers)
            assert page.links["next"]["url"].startswith("/rota/api/v1/jobs?")
            topics = {"topics": "queue:tag:status"}
            with httpx.stream("GET", f"{base}/rota/api/v1/events", params=topics, headers=headers) as events:
                assert any('"pending":1' in line for line in events.iter_lines() if line.startswith("data:"))
        finally:
            process.terminate()
            _, error = process.communicate(timeout=30)
        assert "Traceback" not in error


def answers(process: subprocess.Popen[str], base: str) -> bool:
    assert process.poll() is None
    try:
        return httpx.get(f"{base}/rota/healthz").status_code == 200
    except httpx.TransportError:
        return False
