"""Your own tools in the context: whatever you pass as `context` is an attribute of `ctx`."""

import model

import rota


def select_agent(job):
    return "tester" if "test" in job.title else "implementer"


def build_prompt(job, agent):
    return f"You are {agent}. Job: {job.id} - {job.title}."


def execute(job, ctx):
    agent = ctx.select_agent(job)
    ctx.log(f"using {agent} for job {job.id}")
    answer = ctx.complete(ctx.build_prompt(job, agent))
    # `state` is yours, and new for each job; `checkpoint` (see resume.py) outlives an attempt.
    ctx.state["agent"] = agent
    return {"success": True, "result": {"agent": ctx.state["agent"], "text": answer}}


rota.run_worker(
    execute,
    context={"complete": model.complete, "select_agent": select_agent, "build_prompt": build_prompt},
)
