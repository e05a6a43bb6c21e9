"""One attempt at one stage of a task: say what is known, ask the model, keep to the budget, report.

The job comes on stdin. The model is any command that reads a prompt on stdin, works in the current folder and answers
with one JSON document: `result` is what it says, the member that AGENT_UNITS names is what it used.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = shlex.split(os.environ.get("AGENT_MODEL", f"bash {shlex.quote(str(Path(__file__).with_name('model.sh')))}"))
UNITS = os.environ.get("AGENT_UNITS", "units")
TASKS = os.environ.get("AGENT_TASKS", "tasks.toml")
ORDERS = {
    "plan": "Plan how to do this. Do nothing yet.",
    "implement": "Do this, in the current folder. Follow the plan, and mend what the notes say.",
    "review": "Review what is in the current folder. Say APPROVED, or say what must be mended.",
}


class Ledger:
    """What the attempts at one task have used so far: a line when one begins, and a line when it ends.

    An attempt that was killed wrote no second line. It is charged until its last sign of life: the file is touched
    every second while the model runs, and by nobody else, as one attempt runs at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._entries = [json.loads(line) for line in lines]
        if self._entries and "seconds" not in self._entries[-1]:
            cut = self._entries[-1]
            self.end(cut["stage"], max(0, path.stat().st_mtime - cut["began"]), 0)

    def spent(self, what: str) -> float:
        return sum(entry.get(what, 0) for entry in self._entries)

    def begin(self, stage: str) -> None:
        self._write({"stage": stage, "began": round(time.time(), 3)})

    def end(self, stage: str, seconds: float, units: float) -> None:
        self._write({"stage": stage, "seconds": round(seconds, 3), "units": units})

    @contextmanager
    def touched(self) -> Iterator[None]:
        """While the block runs, the file shows that this attempt lives."""
        over = threading.Event()

        def touch() -> None:
            while not over.wait(1):
                os.utime(self._path)

        thread = threading.Thread(target=touch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _write(self, entry: dict) -> None:
        self._entries.append(entry)
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def main(stage: str) -> None:
    job = json.load(sys.stdin)
    name = job["payload"]["task"]
    task = next(each for each in tomllib.loads(Path(TASKS).read_text())["task"] if each["name"] == name)
    work = Path("work") / name
    work.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(work / "ledger.jsonl")
    left = task["minutes"] * 60 - ledger.spent("seconds")
    if ledger.spent("units") >= task["units"] or left <= 0:
        park(ledger, task)
    ledger.begin(stage)
    started = time.monotonic()
    try:
        with ledger.touched():
            ran = subprocess.run(
                MODEL, input=prompt(stage, task, work, job), stdout=subprocess.PIPE, text=True, timeout=left,
                check=False, cwd=work, env={**os.environ, "AGENT_STAGE": stage},
            )  # fmt: skip
    except subprocess.TimeoutExpired:
        ledger.end(stage, time.monotonic() - started, 0)
        park(ledger, task)
    answer = read(ran.stdout)
    ledger.end(stage, time.monotonic() - started, answer.get(UNITS, 0))
    # An attempt is spent if it went wrong; the next reads of it in previous_runs.
    if ran.returncode:
        sys.exit(f"the model ended with exit code {ran.returncode}")
    if "result" not in answer:
        sys.exit(f"the model's answer is not a JSON document with a result: {ran.stdout[:200]!r}")
    report(stage, answer, work, job)


def read(said: str) -> dict:
    """The document that the model answered with; empty when it is none."""
    try:
        answer = json.loads(said)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def prompt(stage: str, task: dict, work: Path, job: dict) -> str:
    """All that is known: the goal, the plan, the notes of reviews, and what went wrong with earlier attempts."""
    parts = [ORDERS[stage], f"Goal: {task['goal']}"]
    for file in ("plan.md", "notes.md"):
        if (work / file).exists() and stage != "plan":
            parts.append(f"{file}:\n{(work / file).read_text()}")
    parts += [f"Attempt {run['attempt']} failed: {run['error']}" for run in job["previous_runs"] if run["error"]]
    return "\n\n".join(parts)


def report(stage: str, answer: dict, work: Path, job: dict) -> None:
    said = answer["result"]
    if stage == "plan":
        (work / "plan.md").write_text(f"{said}\n")
    elif stage == "review" and "APPROVED" not in said:
        with (work / "notes.md").open("a") as notes:
            notes.write(f"note: {said}\n")
        # The work is done anew, and this review, whose attempt fails now, waits for it.
        subprocess.run(["rota", "retry", str(job["after"][0])], check=True, stdout=subprocess.DEVNULL)
        sys.exit(f"sent back: {said}")
    print(json.dumps({"said": said, "units": answer.get(UNITS, 0)}))  # the last line is the job's result


def park(ledger: Ledger, task: dict) -> NoReturn:
    """Over budget: the job fails for good, what waits for it goes on waiting, and a person decides."""
    units = f"{ledger.spent('units'):g} of {task['units']:g} units"
    minutes = f"{ledger.spent('seconds') / 60:.2g} of {task['minutes']:g} minutes"
    error = f"parked: {units} and {minutes} are used up; raise the budget in {TASKS} first"
    subprocess.run(["rota", "fail", "--final", "--error", error], check=True)
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
