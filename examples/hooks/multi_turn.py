"""A conversation of several turns: ask, look whether it is done, ask again.

The model settles the job itself here, with `rota done` and the token of the claim. Settling it once more with the same
token, as `run_worker` does when `execute` returns, changes nothing and is no error.
"""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import model

import rota

ROTA = shutil.which("rota") or str(Path(sys.executable).parent / "rota")


def execute(job, ctx):
    session = model.Session()
    directive = "run: " + shlex.join([ROTA, "done", str(job.id), "--token", str(ctx.token)])

    session.send(f"Job: {job.id} - {job.title}. When you are done, {directive}")
    for _ in session.stream():
        pass

    shown = subprocess.run([ROTA, "show", str(job.id), "--json"], check=True, stdout=subprocess.PIPE)
    status = json.loads(shown.stdout)["status"]
    if status != "done":
        ctx.log(f"not done yet, but {status}: asking again")
        session.send(f"Not done yet (it is {status}). Please finish, then {directive}")
        for _ in session.stream():
            pass

    return {"success": True}


rota.run_worker(execute)
