"""A long job that survives its worker: kill it with `kill -9`, start it again, and it goes on where it was.

What is assigned to `ctx.checkpoint` is durable at once. The next attempt, in whatever process, begins with it.
"""

from pathlib import Path

import model

import rota

STEPS = 5


def execute(job, ctx):
    kept = ctx.checkpoint or {"session": None, "turns": 0}
    if kept["session"]:
        ctx.log(f"attempt {ctx.attempt} goes on after turn {kept['turns']}")
        session = model.Session.resume(kept["session"], kept["turns"])
    else:
        session = model.Session()

    while session.turns < STEPS:
        if ctx.lost:  # someone else may run this job by now: leave off rather than do it twice
            return {"success": False, "error": "the claim was lost"}
        session.send("Continue where you left off" if session.turns else f"Job: {job.id} - {job.title}")
        for _ in session.stream():
            pass
        with Path(f"turns-{job.id}.txt").open("a") as done:
            done.write(f"{session.turns}\n")
        ctx.checkpoint = {"session": session.id, "turns": session.turns}
        ctx.progress(session.turns, STEPS, "turns")
        ctx.renew_lease()  # happens in the background too; here it also makes sure that the claim still holds

    return {"success": True, "output": f"{session.turns} turns"}


rota.run_worker(execute)
