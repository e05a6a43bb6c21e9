"""Take the screenshots of the dashboard from a real run of the demo, over a larger library so that there is more to do.

python docs/shots.py        (or: ./dev shots)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).resolve().parent / "images"
ROTA = os.path.join(os.path.dirname(sys.executable), "rota")
CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
ALBUMS, ENOUGH = 300, 500  # a smaller library is worked off before the last picture, on a quiet machine
DEMO = f"""
import sys
from rota.demo import run
run.ALBUMS, run.PIECES = {ALBUMS}, {ALBUMS} * run.TRACKS
run.run(sys.argv[1], run.Progress(lambda text: None, False))
"""
# What the sentence and the worker's facts say of one job; they are asked for apart.
AGREED = """() => {
    const [said, linked] = [document.querySelector(".why"), document.querySelector("[aria-label=Worker] a.job")];
    return said && linked && said.textContent.includes(` job ${linked.textContent.trim().slice(1)}.`);
}"""
WIDE, LOW, NARROW = (1280, 880), (1280, 600), (400, 880)
# Each window: the file's name, its size, light or dark, and the page it shows.
SHOTS = (
    ("overview-light", WIDE, "light", "overview"),
    ("overview-dark", WIDE, "dark", "overview"),
    ("overview-narrow", NARROW, "light", "overview"),
    ("slot", LOW, "dark", "workers/{slot}"),
    ("job", LOW, "light", "jobs/2"),
)


def main() -> int:
    IMAGES.mkdir(exist_ok=True)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rota-shots-", ignore_cleanup_errors=True))
        place = os.path.join(folder, "demo")
        demo = _start(stack, [sys.executable, "-c", DEMO, place], folder)
        _until(lambda: _ask(place, "list", "--limit", "1"), demo)
        server = _start(stack, [ROTA, "serve", "--port", "0"], place)
        _until(lambda: os.path.exists(os.path.join(place, ".rota", "rota.db.http")), server)
        browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        windows = [(name, target, _window(browser, place, size, scheme)) for name, size, scheme, target in SHOTS]
        _until(lambda: _tagged(place) >= ENOUGH and _killed(place), demo)
        slot = _killed(place)
        for _, target, page in windows:
            page.evaluate("place => { location.hash = place }", f"#/{target.format(slot=slot.replace(':', '%3A'))}")
        time.sleep(2.5)
        for name, _, page in windows:
            path = IMAGES / f"{name}.png"
            with _held(place, slot) if name == "slot" else nullcontext():
                if name == "slot":
                    page.wait_for_function(AGREED)
                page.screenshot(path=path)
            print(f"wrote {path.relative_to(IMAGES.parent.parent)}, {path.stat().st_size:,} bytes")
        browser.close()
    return 0


def _start(stack: ExitStack, words: list[str], folder: str) -> subprocess.Popen[bytes]:
    """A process that ends with this one's work."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROTA_")}
    process = subprocess.Popen(words, cwd=folder, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def _until(fact: Callable[[], Any], process: subprocess.Popen[bytes]) -> None:
    while not fact():
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended with {process.returncode} before there was something to see")
        time.sleep(0.1)


def _ask(place: str, *words: str) -> Any:
    """What `rota` answers there; None while it does not."""
    if not os.path.isdir(place):
        return None
    answer = subprocess.run([ROTA, *words, "--json"], cwd=place, capture_output=True, check=False)
    return json.loads(answer.stdout) if answer.stdout else None


def _tagged(place: str) -> int:
    found = _ask(place, "source", "list")
    return int(found[0]["success_count"]) if found else 0


def _killed(place: str) -> str:
    """Return the slot whose worker the demo killed, once another one is up in it; empty until then."""
    status = _ask(place, "orchestrator", "status") or {"slots": []}
    slots = [slot["name"] for slot in status["slots"] if slot["lifetime_restarts"] and slot["status"] == "up"]
    return str(slots[0]) if slots else ""


@contextmanager
def _held(place: str, slot: str) -> Iterator[None]:
    """Let the worker of a slot stand still in the middle of a job: the demo's are too short to be looked at."""
    (pid,) = [each["pid"] for each in _ask(place, "worker", "list") if each["slot"] == slot]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _window(browser: Browser, place: str, size: tuple[int, int], scheme: Any) -> Page:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page = context.new_page()
    page.goto(_ask(place, "open")["link"])
    page.wait_for_selector("h1")
    return page


if __name__ == "__main__":
    sys.exit(main())
