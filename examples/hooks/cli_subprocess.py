"""A command line model: a subprocess for each job, its two streams kept in files.

`rota worker exec` does this without any Python; write it yourself when you want to look at what the command said.
"""

import subprocess
import sys
from pathlib import Path

import rota

MODEL = [sys.executable, str(Path(__file__).parent / "model.py")]


def paths(run_id):
    return {"transcript_path": f"runs/{run_id}.jsonl", "stderr_path": f"runs/{run_id}.stderr"}


def execute(job, ctx):
    kept = paths(ctx.run_id)
    with open(kept["transcript_path"], "wb") as transcript, open(kept["stderr_path"], "wb") as stderr:
        # The prompt is one argument, and there is no shell, so a title cannot become a command. A session of its own
        # keeps Ctrl-C from the model: the worker hears it, and lets the job in hand end.
        ended = subprocess.run(
            [*MODEL, f"Job: {job.id}. {job.title}"],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=transcript,
            stderr=stderr,
            start_new_session=True,
        )
    return {"success": ended.returncode == 0, "error": f"the model ended with exit code {ended.returncode}"}


rota.run_worker(execute, capture_io=lambda run_id, job: paths(run_id))
