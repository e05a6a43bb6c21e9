"""The examples of a command and of coroutines run as they stand."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.eventually import eventually
from tests.support.shell import Shell
from tests.support.stores import STORES, exports

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = Path(__file__).parents[2] / "examples" / "kinds"


@pytest.fixture(params=STORES)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shell]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    made = Shell(tmp_path, PATH=path, **exports(request.param, tmp_path))
    made.make()
    yield made
    made.end()


@pytest.fixture
def address() -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503 if self.path == "/busy" else 200)
            self.end_headers()
            self.wfile.write(b"x" * 10)

        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_command_counts_words_adds_a_child_and_waits_for_a_file(shell: Shell) -> None:
    (shell.folder / "a b.txt").write_text("three small words\n")
    (shell.folder / "-n").write_text("one\n")
    ids = [
        shell.add("Count", "--queue", "count", "--payload", f'{{"path":"{path}"}}')
        for path in ("a b.txt", "-n", "gone")
    ]
    script = str(EXAMPLES / "count.sh")
    crew = shell.start("worker", "exec", "--queue", "count", "--", "bash", script, "./{payload.path}")
    eventually(lambda: [shell.ask("show", id)["status"] for id in ids] == ["done", "done", "scheduled"])
    first = shell.ask("show", ids[0])
    assert first["result"] == {"path": "./a b.txt", "words": 3}
    assert shell.ask("show", first["children"][0])["title"] == "Report ./a b.txt"
    assert shell.say("logs", ids[0], "--stderr") == f"job {ids[0]}, attempt 1: ./a b.txt"
    crew.send_signal(signal.SIGTERM)
    crew.communicate(timeout=30)
    assert crew.returncode == 0


def test_the_coroutines_fetch_pages(shell: Shell, address: str) -> None:
    shutil.copy(EXAMPLES / "fetch.py", shell.folder)
    urls = [f"{address}/{path}" for path in ("a", "b", "busy")]
    words = ("--queue", "fetch", "--kind", "fetch", "--payload")
    ids = [shell.add("Fetch", *words, f'{{"url":"{url}"}}') for url in urls]
    crew = shell.start("orchestrator", "start", "--app", "fetch:app", "--pool", "fetch=1", "--no-http")
    eventually(lambda: [shell.ask("show", id)["status"] for id in ids] == ["done", "done", "scheduled"])
    assert shell.ask("show", ids[0])["result"] == {"url": urls[0], "status": 200, "bytes": 10}
    assert shell.ask("show", ids[2])["note"] == f"{urls[2]} is busy"
    crew.send_signal(signal.SIGTERM)
    crew.communicate(timeout=30)
    assert crew.returncode == 0
