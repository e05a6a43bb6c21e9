"""A job with children, which are worked on at the same time, each settled on its own.

    rota add "Write the report"                                   # job 1
    rota add "Chapter one" --parent 1 --queue chapters
    rota add "Chapter two" --parent 1 --queue chapters
    python examples/hooks/parallel_children.py

The children stand in a queue of their own, so that only their parent's worker takes them.
"""

from concurrent.futures import ThreadPoolExecutor

import model

import rota

app = rota.App()


def converse(prompt):
    session = model.Session()
    session.send(prompt)
    return "".join(message["text"] for message in session.stream()).strip()


def execute(job, ctx):
    if not job.children:
        return {"success": True, "output": converse(f"Job: {job.id}")}

    def child(id):
        if app.jobs.get(id).status == "done":  # an earlier attempt got that far
            return id
        claim = app.claims.claim(id, ctx.worker_id)  # any thread may use an app
        text = converse(f"Child: {id} - {app.jobs.get(id).title}")
        app.claims.settle(claim, rota.Done(f'"{text}"'))
        return id

    with ThreadPoolExecutor(max_workers=4) as threads:
        done = list(threads.map(child, job.children))
    return {"success": True, "result": {"children": done}}


rota.run_worker(execute, app=app)
