"""Take the picture of `rota top`: a real run of the demo, over a larger library, seen amid its work.

python docs/shots_top.py        (or: ./dev shots)
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rota.core import job as jobs
from rota.live.throughput import STEPS
from rota.settings import Settings
from rota.store.open import open_store
from rota.top.textual_app import Top

PICTURE = Path(__file__).parent / "images" / "top.svg"
SIZE = (132, 34)
PATIENCE = 120.0
ALBUMS = 120  # five times as many as `rota demo` has: it is over too soon for a picture
DEMO = """
import sys
from rota.demo import run

run.ALBUMS, run.PIECES = int(sys.argv[2]), int(sys.argv[2]) * run.TRACKS
run.run(sys.argv[1], run.Progress(lambda _: None, False))
"""


def main() -> None:
    """Play the demo, and write the picture once there is something to see."""
    with tempfile.TemporaryDirectory(prefix="rota-") as folder:
        library = Path(folder) / "demo"
        with subprocess.Popen([sys.executable, "-c", DEMO, str(library), str(ALBUMS)]) as demo:
            picture = asyncio.run(_take(library / ".rota" / "rota.db"))
            demo.wait()
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture, encoding="utf-8")


async def _take(path: Path) -> str:
    top = Top(lambda: open_store(str(path), Settings()))
    async with top.run_test(size=SIZE) as pilot:
        await pilot.press("2")
        async with asyncio.timeout(PATIENCE):
            while not _is_worth_it(top):
                await asyncio.sleep(0.1)
        await pilot.pause()
        return _without_fonts(top.export_screenshot(title="rota top", simplify=True))


def _is_worth_it(top: Top) -> bool:
    """A worker was killed, its slot is filled again, and most of the pieces are tagged."""
    snapshot = top.snapshot
    if snapshot is None or not snapshot.deaths or len(snapshot.held) < 2:
        return False
    if any(slot.status != "up" for slot in snapshot.slots):
        return False
    waiting = {status.queue.name: status.counts[jobs.READY] for status in snapshot.queues}
    return waiting.get("tag", 0) > 0 and sum(top.throughput.finished(top.now, STEPS, "tag")) > 6 * ALBUMS


def _without_fonts(picture: str) -> str:
    """The picture with the reader's own font: it must need nothing from elsewhere."""
    return re.sub(r"@font-face\s*{[^}]*}", "", picture).replace("Fira Code, monospace", "monospace")


if __name__ == "__main__":
    main()
