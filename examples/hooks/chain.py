"""Several models, one after another: plan, write, review, and apply only what was approved.

A rejected draft is a failed run: the job is tried again, and the next attempt sees why the last one failed.
"""

from pathlib import Path

import model

import rota


def execute(job, ctx):
    plan = model.complete(f"Plan: {job.title}")
    if ctx.previous_runs:
        plan += f" (second draft, because: {ctx.previous_runs[-1].error})"
    code = model.complete(f"Implement this plan: {plan}")
    review = model.complete(f"Review this code: {code}")
    if "APPROVED" not in review:
        return {"success": False, "error": review}
    Path(f"applied-{job.id}.txt").write_text(code)
    return {"success": True, "output": review}


rota.run_worker(execute)
